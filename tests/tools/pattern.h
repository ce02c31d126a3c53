/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contents that name their place: each byte follows from seed, message number and
 * position, so that a byte that is stale, shifted or from another message is seen.
 */
#ifndef VBN_TESTS_TOOLS_PATTERN_H
#define VBN_TESTS_TOOLS_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

uint64_t pattern_number(uint64_t seed, uint64_t message);
uint8_t pattern_byte(uint64_t seed, uint64_t message, size_t position);
void pattern_fill(uint8_t *bytes, size_t length, uint64_t seed, uint64_t message);
/* The position of the first wrong byte, or -1. */
ssize_t pattern_find_wrong(const uint8_t *bytes, size_t length, uint64_t seed, uint64_t message);
/* A size from 1 to @max, each power of two as likely as the others. */
size_t pattern_size(uint64_t seed, uint64_t message, size_t max);

#endif
