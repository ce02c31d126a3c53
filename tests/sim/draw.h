/* SPDX-License-Identifier: BSD-2-Clause */
/* How plans are drawn. */
#ifndef VBN_TESTS_SIM_DRAW_H
#define VBN_TESTS_SIM_DRAW_H

#include "base/random.h"

static inline uint64_t between(struct random_stream *random, uint64_t low, uint64_t high)
{
	return random_between(random, low, high);
}

static inline bool percent(struct random_stream *random, uint32_t percentage)
{
	return random_chance(random, percentage * 10000);
}

/* Small values as likely as large ones: uniform in the exponent. */
static inline uint64_t log_between(struct random_stream *random, uint64_t low, uint64_t high)
{
	int low_bits = 63 - __builtin_clzll(low), high_bits = 63 - __builtin_clzll(high);
	int bits = (int)between(random, (uint64_t)low_bits, (uint64_t)high_bits);
	uint64_t value = between(random, 1ull << bits, (2ull << bits) - 1);

	return value < low ? low : value > high ? high : value;
}

#endif
