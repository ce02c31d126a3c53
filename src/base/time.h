/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time as the core sees it: nanoseconds of a clock that never runs backwards.
 * It enters every call as an argument; only the engine reads a clock.
 */
#ifndef VBN_BASE_TIME_H
#define VBN_BASE_TIME_H

#include <stdint.h>

typedef uint64_t vbn_time;

#define VBN_TIME_NEVER UINT64_MAX
#define VBN_MICROSECOND 1000ull
#define VBN_MILLISECOND 1000000ull
#define VBN_SECOND 1000000000ull

/* @time moved by @delta_ns; "never" stays "never", and nothing wraps into the past. */
static inline vbn_time vbn_time_add(vbn_time time, uint64_t delta_ns)
{
	return time > VBN_TIME_NEVER - delta_ns ? VBN_TIME_NEVER : time + delta_ns;
}

static inline vbn_time vbn_time_min(vbn_time a, vbn_time b)
{
	return a < b ? a : b;
}

#endif
