/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How calls of this library fail: -1, errno, and a sentence.
 */
#ifndef VBN_RDMACM_LIBRARY_H
#define VBN_RDMACM_LIBRARY_H

#include <errno.h>

#include "verbs/cm.h"

#define EXPORT __attribute__((visibility("default")))

/* What the caller or the system did wrong in @call: tells it and returns -1 with @error. */
#define fail(error, call, ...) (errno = vbn_cm_explain((error), (call), __VA_ARGS__), -1)

/* @result of a vbn_cm_* call: a negative errno, which was told, becomes -1. */
static inline int outcome(int result)
{
	if (result >= 0)
		return result;
	errno = -result;
	return -1;
}

/* @error of a verbs call that returns an errno, which was told: 0 or -1. */
static inline int outcome_of_verb(int error)
{
	if (!error)
		return 0;
	errno = error;
	return -1;
}

#endif
