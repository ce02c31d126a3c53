/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/psn.h"

static void adding_wraps_at_24_bits(void **state)
{
	(void)state;
	assert_int_equal(psn_add(0, 0), 0);
	assert_int_equal(psn_add(0xffffff, 1), 0);
	assert_int_equal(psn_add(0xfffffe, 5), 3);
	assert_int_equal(psn_add(5, UINT32_MAX), 4);
	assert_int_equal(psn_add(0, 0x1000000), 0);
}

static void distance_is_signed(void **state)
{
	(void)state;
	assert_int_equal(psn_distance(7, 7), 0);
	assert_int_equal(psn_distance(8, 7), 1);
	assert_int_equal(psn_distance(7, 8), -1);
	assert_int_equal(psn_distance(2, 0xfffffe), 4);
	assert_int_equal(psn_distance(0xfffffe, 2), -4);
	assert_int_equal(psn_distance(0x7fffff, 0), 0x7fffff);
	/* Exactly half way counts as before, from either side. */
	assert_int_equal(psn_distance(PSN_HALF, 0), -0x800000);
	assert_int_equal(psn_distance(0, PSN_HALF), -0x800000);
}

static void distance_undoes_adding(void **state)
{
	static const uint32_t steps[] = {0, 1, 2, 255, 65536, 0x7ffffe, 0x7fffff};

	(void)state;
	for (uint32_t psn = 0; psn <= PSN_MASK; psn += 4099) {
		for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
			uint32_t later = psn_add(psn, steps[i]);

			assert_int_equal(psn_distance(later, psn), (int32_t)steps[i]);
			assert_int_equal(psn_distance(psn, later), -(int32_t)steps[i]);
			assert_int_equal(psn_is_before(psn, later), steps[i] != 0);
			assert_false(psn_is_before(later, psn));
		}
	}
}

static void within_is_half_open(void **state)
{
	(void)state;
	assert_false(psn_is_within(5, 5, 0));
	assert_true(psn_is_within(5, 5, 1));
	assert_false(psn_is_within(6, 5, 1));
	assert_false(psn_is_within(4, 5, 1));
	assert_true(psn_is_within(1, 0xfffffe, 4));
	assert_false(psn_is_within(2, 0xfffffe, 4));
	assert_true(psn_is_within(0xfffffe, 0xfffffe, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adding_wraps_at_24_bits),
		cmocka_unit_test(distance_is_signed),
		cmocka_unit_test(distance_undoes_adding),
		cmocka_unit_test(within_is_half_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
