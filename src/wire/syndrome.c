/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/syndrome.h"

#include "base/assert.h"

/* IBA table 45, in units of 10 us. Code 0 is the longest delay, not the shortest. */
/* clang-format off */
static const uint32_t rnr_timer_10us[32] = {
	65536, 1, 2, 3, 4, 6, 8, 12,
	16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};
/* clang-format on */

uint64_t rnr_timer_ns(uint8_t code)
{
	/* The mask admits a whole syndrome: its upper bits only say that it is an RNR NAK. */
	return rnr_timer_10us[code & 0x1f] * 10 * VBN_MICROSECOND;
}

uint64_t ack_timeout_ns(uint8_t code)
{
	VBN_ASSERT(code < 32);
	return code ? 4096ull << code : 0;
}
