/* SPDX-License-Identifier: BSD-2-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/bench/bench.h"

#define EXACT 1e-9

static struct results results;

static int clear(void **state)
{
	(void)state;
	results_free(&results);
	return 0;
}

static struct cell *shm_write(uint64_t size)
{
	return results_cell(&results, contender_named("shm"), WORK_LATENCY, OPERATION_WRITE, size);
}

static void test_a_cell_is_found_again(void **state)
{
	(void)state;
	cell_add_figure(shm_write(16), FIGURE_RATE, 5);
	cell_add_figure(shm_write(64), FIGURE_RATE, 7);
	assert_int_equal(results.cell_count, 2);
	assert_float_equal(cell_figure(shm_write(16), FIGURE_RATE), 5, EXACT);
	assert_null(
		results_find(&results, contender_named("udp"), WORK_LATENCY, OPERATION_WRITE, 16));
	assert_null(results_find(&results, contender_named("shm"), WORK_THROUGHPUT, OPERATION_WRITE,
				 16));
	assert_true(isnan(cell_figure(NULL, FIGURE_RATE)));
	assert_true(isnan(cell_figure(shm_write(16), FIGURE_POLL)));
}

static void test_all_samples_are_kept_and_rounds_have_medians(void **state)
{
	static const double rounds[3][3] = {{1, 2, 3}, {30, 10, 20}, {300, 100, 200}};
	struct cell *cell = shm_write(16);
	struct summary summary;

	(void)state;
	for (int i = 0; i < 3; i++)
		cell_add_samples(cell, rounds[i], 3);
	summary = cell_summary(cell);
	assert_int_equal(summary.count, 9);
	assert_float_equal(summary.mean, 74, EXACT);
	assert_float_equal(summary.median, 20, EXACT);
	/* 2, 20, 200: what is compared with others. */
	assert_float_equal(cell_figure(cell, FIGURE_MEDIAN), 20, EXACT);
	assert_float_equal(cell->figures[FIGURE_MEDIAN].values[2], 200, EXACT);
	assert_int_equal(cell->figures[FIGURE_P99].count, 0);
	cell_add_samples(cell, NULL, 0);
	assert_int_equal(cell->figures[FIGURE_MEDIAN].count, 3);
}

static void test_who_tells_only_a_mean_is_shown_by_it(void **state)
{
	struct cell *cell = shm_write(16);

	(void)state;
	cell_add_figure(cell, FIGURE_MEAN, 8);
	assert_float_equal(cell_latency(cell), 8, EXACT);
	cell_add_figure(cell, FIGURE_MEDIAN, 6);
	assert_float_equal(cell_latency(cell), 6, EXACT);
}

static void test_a_remark_is_made_once(void **state)
{
	(void)state;
	results_remark(&results, "%s is left out", "this");
	results_remark(&results, "%s is left out", "that");
	results_remark(&results, "%s is left out", "this");
	assert_int_equal(results.remark_count, 2);
	assert_string_equal(results.remarks[1].text, "that is left out");
}

static void test_numbers_have_three_digits(void **state)
{
	char text[16];

	(void)state;
	assert_string_equal(number_text(0.0567, text), "0.057");
	assert_string_equal(number_text(5.678, text), "5.68");
	assert_string_equal(number_text(56.78, text), "56.8");
	assert_string_equal(number_text(5678.4, text), "5678");
	assert_string_equal(number_text(NAN, text), "-");
	assert_string_equal(microseconds_text(289, text), "0.289");
	assert_string_equal(size_text(1, text), "1 B");
	assert_string_equal(size_text(1023, text), "1023 B");
	assert_string_equal(size_text(65536, text), "64 KiB");
	assert_string_equal(size_text(4194304, text), "4 MiB");
}

/* Each has a name of its own, something that it can do, and a way to be started. */
static void test_contenders_are_told_apart(void **state)
{
	(void)state;
	assert_true(contender_count <= CONTENDERS_MAX);
	for (size_t i = 0; i < contender_count; i++) {
		const struct contender *contender = &contenders[i];

		assert_ptr_equal(contender_named(contender->id), contender);
		assert_true(contender->latencies != 0);
		assert_true(contender->size_max > 0);
		if (contender->kind == CONTENDER_PAIR)
			assert_non_null(contender->transport);
		else
			assert_non_null(contender->package);
	}
	assert_null(contender_named("nobody"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_a_cell_is_found_again, clear),
		cmocka_unit_test_teardown(test_all_samples_are_kept_and_rounds_have_medians, clear),
		cmocka_unit_test_teardown(test_who_tells_only_a_mean_is_shown_by_it, clear),
		cmocka_unit_test_teardown(test_a_remark_is_made_once, clear),
		cmocka_unit_test(test_numbers_have_three_digits),
		cmocka_unit_test(test_contenders_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
