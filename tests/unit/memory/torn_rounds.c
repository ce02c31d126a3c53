/* SPDX-License-Identifier: BSD-2-Clause */
#include "torn_rounds.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/random.h"

#define LENGTH_BITS_MAX 16
#define ROOM_BYTES ((1u << LENGTH_BITS_MAX) + 64)
/* A spinning thread gives way now and then, for machines with one free core. */
#define SPINS_BEFORE_YIELD 2000

struct duel {
	const struct copier *copier;
	unsigned int rounds;
	struct random_stream random;
	/* Written by the writer before it announces the round. */
	size_t offset, length;
	_Alignas(64) atomic_uint announced;
	_Alignas(64) atomic_uint answered;
	_Alignas(64) uint8_t target[ROOM_BYTES];
	_Alignas(64) uint8_t source[ROOM_BYTES];
};

static void wait_for(const atomic_uint *word, unsigned int value)
{
	unsigned int spins = 0;

	while (atomic_load_explicit(word, memory_order_acquire) != value) {
		if (++spins % SPINS_BEFORE_YIELD == 0)
			sched_yield();
	}
}

static size_t draw_length(struct random_stream *random)
{
	unsigned int bits = (unsigned int)random_below(random, LENGTH_BITS_MAX);

	return (1u << bits) + random_below(random, 1u << bits);
}

static void *write_rounds(void *argument)
{
	struct duel *duel = argument;
	unsigned int round;

	for (round = 1; round <= duel->rounds; round++) {
		duel->length = draw_length(&duel->random);
		duel->offset = random_below(&duel->random, 64);
		memset(duel->source, (int)(round & 0xff), duel->length);
		/* Whatever a former round left there, it is not this one's pattern. */
		memset(duel->target + duel->offset, (int)(~round & 0xff), duel->length);
		atomic_store_explicit(&duel->announced, round, memory_order_release);
		duel->copier->copy(duel->target + duel->offset, duel->source, duel->length);
		wait_for(&duel->answered, round);
	}
	return NULL;
}

/* The race is the point, and the sanitizer would report it. */
#define RACES_ON_PURPOSE __attribute__((no_sanitize("thread")))

RACES_ON_PURPOSE static int has_arrived(const uint8_t *byte, uint8_t value)
{
	return *(const volatile uint8_t *)byte == value;
}

/* As a program has it between its poll and its use of the data. */
static void load_fence(void)
{
#if defined(__x86_64__)
	/* Loads are in order; the compiler must keep them so. */
	__asm__ volatile("" : : : "memory");
#else
	atomic_thread_fence(memory_order_acquire);
#endif
}

/* Newest bytes are the likeliest to be missing, so the look goes from the back. */
RACES_ON_PURPOSE static int is_complete(const uint8_t *bytes, size_t length, uint8_t value)
{
	const volatile uint8_t *byte = bytes + length;
	size_t left;

	for (left = length; left > 0; left--) {
		if (*--byte != value)
			return 0;
	}
	return 1;
}

static unsigned int read_rounds(struct duel *duel)
{
	unsigned int round, spins, torn = 0;
	const uint8_t *start;

	for (round = 1; round <= duel->rounds; round++) {
		wait_for(&duel->announced, round);
		start = duel->target + duel->offset;
		spins = 0;
		while (!has_arrived(start + duel->length - 1, (uint8_t)round)) {
			if (++spins % SPINS_BEFORE_YIELD == 0)
				sched_yield();
		}
		load_fence();
		torn += !is_complete(start, duel->length, (uint8_t)round);
		atomic_store_explicit(&duel->answered, round, memory_order_release);
	}
	return torn;
}

unsigned int torn_rounds(const struct copier *copier, unsigned int rounds, uint64_t seed)
{
	static struct duel duel;
	pthread_t writer;
	unsigned int torn;

	memset(&duel, 0, sizeof(duel));
	duel.copier = copier;
	duel.rounds = rounds;
	duel.random.state = seed;
	if (pthread_create(&writer, NULL, write_rounds, &duel))
		return rounds;
	torn = read_rounds(&duel);
	pthread_join(writer, NULL);
	return torn;
}
