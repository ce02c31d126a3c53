/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet sequence numbers: 24 bits, compared by the sign of their distance
 * (IBA 9.7.2). The same arithmetic serves message sequence numbers.
 */
#ifndef VBN_BASE_PSN_H
#define VBN_BASE_PSN_H

#include <stdbool.h>
#include <stdint.h>

#define PSN_MASK 0xffffffu
/* Half of the space: at most so many packets may be outstanding. */
#define PSN_HALF 0x800000u

static inline uint32_t psn_add(uint32_t psn, uint32_t count)
{
	return (psn + count) & PSN_MASK;
}

/* How far @a lies after @b: -2^23 to 2^23 - 1; negative when before. */
static inline int32_t psn_distance(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline bool psn_is_before(uint32_t a, uint32_t b)
{
	return psn_distance(a, b) < 0;
}

/* Whether @psn lies in [@first, @first + @count). */
static inline bool psn_is_within(uint32_t psn, uint32_t first, uint32_t count)
{
	return ((psn - first) & PSN_MASK) < count;
}

#endif
