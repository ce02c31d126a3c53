/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/reason.h"

static void every_reason_has_its_own_name_and_a_text(void **state)
{
	(void)state;
	for (unsigned a = 0; a < REASON_COUNT; a++) {
		assert_true(reason_text((enum reason)a)[0] != '\0');
		assert_non_null(reason_cure((enum reason)a));
		for (unsigned b = 0; b < a; b++) {
			assert_string_not_equal(reason_counter_name((enum reason)a),
						reason_counter_name((enum reason)b));
			assert_string_not_equal(reason_text((enum reason)a),
						reason_text((enum reason)b));
		}
	}
}

/* Names are keys of the statistics: lower case words, as tools and scripts expect. */
static void names_are_lower_case_words(void **state)
{
	(void)state;
	for (unsigned i = 0; i < REASON_COUNT; i++) {
		const char *name = reason_counter_name((enum reason)i);

		assert_true(name[0] != '\0' && strlen(name) < 32);
		assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
	}
}

static void look_up(void **state)
{
	(void)state;
	assert_int_equal(REASON_NONE, 0);
	assert_string_equal(reason_counter_name(REASON_KEY_RANGE), "key_range");
	assert_string_equal(reason_counter_name(REASON_CQ_OVERRUN), "cq_overrun");
	assert_string_equal(reason_cure(REASON_NONE), "");
	assert_string_not_equal(reason_cure(REASON_KEY_RANGE), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_reason_has_its_own_name_and_a_text),
		cmocka_unit_test(names_are_lower_case_words),
		cmocka_unit_test(look_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
