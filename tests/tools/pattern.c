/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/pattern.h"

#include <string.h>

/* The finaliser of splitmix64: every bit of the input moves every bit of the output. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t word_at(uint64_t seed, uint64_t message, size_t index)
{
	return mix(mix(seed ^ mix(message)) + index);
}

uint64_t pattern_number(uint64_t seed, uint64_t message)
{
	return mix(seed ^ mix(message));
}

uint8_t pattern_byte(uint64_t seed, uint64_t message, size_t position)
{
	return (uint8_t)(word_at(seed, message, position / 8) >> (8 * (position % 8)));
}

void pattern_fill(uint8_t *bytes, size_t length, uint64_t seed, uint64_t message)
{
	for (size_t i = 0; i < length; i += 8) {
		uint64_t word = word_at(seed, message, i / 8);

		memcpy(bytes + i, &word, length - i < 8 ? length - i : 8);
	}
}

ssize_t pattern_find_wrong(const uint8_t *bytes, size_t length, uint64_t seed, uint64_t message)
{
	for (size_t i = 0; i < length; i += 8) {
		uint64_t word = word_at(seed, message, i / 8);
		size_t part = length - i < 8 ? length - i : 8;

		if (memcmp(bytes + i, &word, part) == 0)
			continue;
		while (bytes[i] == pattern_byte(seed, message, i))
			i++;
		return (ssize_t)i;
	}
	return -1;
}

size_t pattern_size(uint64_t seed, uint64_t message, size_t max)
{
	uint64_t number = pattern_number(seed ^ 0x5a5a, message);
	unsigned int bits = 63u - (unsigned int)__builtin_clzll(max | 1);
	size_t low = (size_t)1 << (number % (bits + 1));
	size_t size = low + (size_t)(number >> 8) % low;

	return size < max ? size : max;
}
