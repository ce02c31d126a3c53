/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"

static void never_is_never_left(void **state)
{
	(void)state;
	assert_int_equal(vbn_time_add(5, 7), 12);
	assert_true(vbn_time_add(VBN_TIME_NEVER, 0) == VBN_TIME_NEVER);
	assert_true(vbn_time_add(VBN_TIME_NEVER, VBN_SECOND) == VBN_TIME_NEVER);
	assert_true(vbn_time_add(VBN_TIME_NEVER - 1, 1) == VBN_TIME_NEVER);
	assert_true(vbn_time_add(VBN_TIME_NEVER - 1, 2) == VBN_TIME_NEVER);
	assert_true(vbn_time_add(1, UINT64_MAX) == VBN_TIME_NEVER);
}

static void the_earlier_wins(void **state)
{
	(void)state;
	assert_int_equal(vbn_time_min(3, 4), 3);
	assert_int_equal(vbn_time_min(4, 3), 3);
	assert_int_equal(vbn_time_min(VBN_TIME_NEVER, 4), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(never_is_never_left),
		cmocka_unit_test(the_earlier_wins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
