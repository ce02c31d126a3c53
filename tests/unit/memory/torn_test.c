/* SPDX-License-Identifier: BSD-2-Clause */
/* The last byte comes last, and words come whole, as another thread sees it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "torn_rounds.h"

/* The thread sanitizer makes the rounds slow and sees nothing of the copies. */
#ifdef __SANITIZE_THREAD__
#define ROUNDS 2000
#else
#define ROUNDS 200000
#endif

static void last_byte_is_seen_last(void **state)
{
	(void)state;
	assert_int_equal(torn_rounds(&copier_direct, ROUNDS, 1), 0);
}

/* Proof that the reader would notice: the last byte comes first, by a good while. */
static size_t copy_last_byte_first(void *to, const void *from, size_t length)
{
	const struct timespec pause = {.tv_nsec = 20000};

	copier_direct.copy((uint8_t *)to + length - 1, (const uint8_t *)from + length - 1, 1);
	nanosleep(&pause, NULL); /* tidy: the planted fault itself */
	return copier_direct.copy(to, from, length);
}

static void a_wrong_order_is_noticed(void **state)
{
	const struct copier wrong = {.copy = copy_last_byte_first};

	(void)state;
	assert_true(torn_rounds(&wrong, 500, 2) > 0);
}

struct flicker {
	_Alignas(64) uint8_t target[256];
	size_t offset, length;
	atomic_bool is_over;
};

/* Writes now all zeros, now all ones. */
static void *write_flicker(void *argument)
{
	struct flicker *flicker = argument;
	uint8_t zeros[256], ones[256];

	memset(zeros, 0, sizeof(zeros));
	memset(ones, 0xff, sizeof(ones));
	while (!atomic_load_explicit(&flicker->is_over, memory_order_relaxed)) {
		copier_direct.copy(flicker->target + flicker->offset, ones + 3, flicker->length);
		copier_direct.copy(flicker->target + flicker->offset, zeros + 5, flicker->length);
	}
	return NULL;
}

/* How many of the words that lie wholly in the range were seen half and half. */
static unsigned int count_torn_words(struct flicker *flicker, unsigned int looks)
{
	size_t first = (flicker->offset + 7) / 8, words, i;
	unsigned int torn = 0;
	uint64_t word;

	words = (flicker->offset + flicker->length) / 8 - first;
	for (i = 0; i < looks; i++) {
		word = __atomic_load_n((uint64_t *)(void *)flicker->target + first + i % words,
				       __ATOMIC_RELAXED);
		torn += word != 0 && word != UINT64_MAX;
	}
	return torn;
}

static void aligned_words_are_never_torn(void **state)
{
	static const struct {
		size_t offset, length;
	} cases[] = {
		{0, 8}, {8, 8}, {0, 16}, {56, 16}, {3, 21}, {4, 12}, {5, 100}, {8, 72}, {1, 200},
	};
	static struct flicker flicker;
	pthread_t writer;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(flicker.target, 0, sizeof(flicker.target));
		flicker.offset = cases[i].offset;
		flicker.length = cases[i].length;
		atomic_store(&flicker.is_over, false);
		assert_int_equal(pthread_create(&writer, NULL, write_flicker, &flicker), 0);
		assert_int_equal(count_torn_words(&flicker, 2000000), 0);
		atomic_store(&flicker.is_over, true);
		pthread_join(writer, NULL);
	}
}

/* A counter read into a packet that is aligned to nothing is still one value. */
static void a_flag_is_read_whole_into_any_place(void **state)
{
	static struct flicker flicker = {.length = 8};
	uint8_t packet[24];
	pthread_t writer;
	unsigned int i, torn = 0;
	uint64_t seen;

	(void)state;
	assert_int_equal(pthread_create(&writer, NULL, write_flicker, &flicker), 0);
	for (i = 0; i < 1000000; i++) {
		copier_direct.copy(packet + i % 13, flicker.target, 8);
		memcpy(&seen, packet + i % 13, 8);
		torn += seen != 0 && seen != UINT64_MAX;
	}
	atomic_store(&flicker.is_over, true);
	pthread_join(writer, NULL);
	assert_int_equal(torn, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(last_byte_is_seen_last),
		cmocka_unit_test(a_wrong_order_is_noticed),
		cmocka_unit_test(aligned_words_are_never_torn),
		cmocka_unit_test(a_flag_is_read_whole_into_any_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
