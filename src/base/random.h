/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Repeatable pseudo-random numbers (splitmix64) for simulation and fault
 * injection: one seed, one run. Not for keys or PSNs; those come from the
 * system's generator, through the engine.
 */
#ifndef VBN_BASE_RANDOM_H
#define VBN_BASE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random_stream {
	uint64_t state;
};

static inline uint64_t random_next(struct random_stream *stream)
{
	uint64_t z = (stream->state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Uniform in [0, @bound); 0 for a bound of 0. */
static inline uint64_t random_below(struct random_stream *stream, uint64_t bound)
{
	return bound ? random_next(stream) % bound : 0;
}

/* Uniform in [@low, @high], both included. */
static inline uint64_t random_between(struct random_stream *stream, uint64_t low, uint64_t high)
{
	uint64_t count = high - low + 1;

	/* All of 2^64 values make the count wrap to 0. */
	return count ? low + random_below(stream, count) : random_next(stream);
}

/* True in @per_million of a million calls. */
static inline bool random_chance(struct random_stream *stream, uint32_t per_million)
{
	return random_below(stream, 1000000) < per_million;
}

#endif
