/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contents that tell where they come from: byte @offset of message @id. A byte at a
 * wrong place, of another message or of an earlier one, is another byte (but for
 * one in 256, and a run of them is not alike).
 */
#ifndef VBN_TESTS_SIM_PATTERN_H
#define VBN_TESTS_SIM_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* Ids of messages are small; memory that nobody has written yet has ids from here on. */
#define PATTERN_UNTOUCHED ((uint64_t)1 << 60)

void pattern_fill(uint8_t *bytes, uint64_t id, uint64_t offset, size_t length);
/* How many of @length bytes, from the first, are right. */
size_t pattern_match(const uint8_t *bytes, uint64_t id, uint64_t offset, size_t length);
uint8_t pattern_byte(uint64_t id, uint64_t offset);

#endif
