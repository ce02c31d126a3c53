/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/pattern.h"

#include <string.h>

static uint64_t pattern_word(uint64_t id, uint64_t index)
{
	uint64_t word = (id * 0x9e3779b97f4a7c15ull) ^ (index * 0xc2b2ae3d27d4eb4full);

	word ^= word >> 32;
	word *= 0xd6e8feb86659fd93ull;
	return word ^ word >> 29;
}

uint8_t pattern_byte(uint64_t id, uint64_t offset)
{
	return (uint8_t)(pattern_word(id, offset / 8) >> offset % 8 * 8);
}

void pattern_fill(uint8_t *bytes, uint64_t id, uint64_t offset, size_t length)
{
	for (; length && offset % 8; length--)
		*bytes++ = pattern_byte(id, offset++);
	for (; length >= 8; length -= 8, bytes += 8, offset += 8) {
		uint64_t word = pattern_word(id, offset / 8);

		memcpy(bytes, &word, 8);
	}
	for (; length; length--)
		*bytes++ = pattern_byte(id, offset++);
}

size_t pattern_match(const uint8_t *bytes, uint64_t id, uint64_t offset, size_t length)
{
	size_t done = 0;

	while (done < length) {
		uint64_t word = pattern_word(id, (offset + done) / 8);

		if ((offset + done) % 8 == 0 && length - done >= 8 &&
		    memcmp(bytes + done, &word, 8) == 0)
			done += 8;
		else if (bytes[done] == pattern_byte(id, offset + done))
			done++;
		else
			break;
	}
	return done;
}
