/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"

/* Golden values of splitmix64, seed 0: a seed of today must give the same run for ever. */
static void the_sequence_is_fixed(void **state)
{
	struct random_stream stream = {0};

	(void)state;
	assert_true(random_next(&stream) == 0xe220a8397b1dcdafull);
	assert_true(random_next(&stream) == 0x6e789e6aa1b965f4ull);
	assert_true(random_next(&stream) == 0x06c45d188009454full);
}

static void bounds_hold_and_are_reached(void **state)
{
	struct random_stream stream = {1};
	unsigned seen_below = 0, seen_between = 0;

	(void)state;
	assert_int_equal(random_below(&stream, 0), 0);
	assert_int_equal(random_below(&stream, 1), 0);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t below = random_below(&stream, 7);
		uint64_t between = random_between(&stream, 10, 15);

		assert_true(below < 7);
		assert_true(between >= 10 && between <= 15);
		seen_below |= 1u << below;
		seen_between |= 1u << (between - 10);
	}
	assert_int_equal(seen_below, 0x7f);
	assert_int_equal(seen_between, 0x3f);
	assert_int_equal(random_between(&stream, 9, 9), 9);
}

static void the_widest_range_is_all_values(void **state)
{
	struct random_stream stream = {2};
	uint64_t all_or = 0, all_and = UINT64_MAX;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		uint64_t value = random_between(&stream, 0, UINT64_MAX);

		all_or |= value;
		all_and &= value;
	}
	assert_true(all_or == UINT64_MAX);
	assert_true(all_and == 0);
}

static void chance_is_as_likely_as_asked(void **state)
{
	struct random_stream stream = {3};
	unsigned hits = 0;

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		assert_false(random_chance(&stream, 0));
		assert_true(random_chance(&stream, 1000000));
		hits += random_chance(&stream, 250000);
	}
	assert_in_range(hits, 24000, 26000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sequence_is_fixed),
		cmocka_unit_test(bounds_hold_and_are_reached),
		cmocka_unit_test(the_widest_range_is_all_values),
		cmocka_unit_test(chance_is_as_likely_as_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
