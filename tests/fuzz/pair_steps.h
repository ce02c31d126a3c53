/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_FUZZ_PAIR_STEPS_H
#define VBN_TESTS_FUZZ_PAIR_STEPS_H

#include <stddef.h>

#include "fuzz/pair.h"

/* Plays @bytes with a pair of @service: of the terms its type, has_srq and has_more. */
void pair_play(const struct pair_terms *service, const uint8_t *bytes, size_t length);

#endif
