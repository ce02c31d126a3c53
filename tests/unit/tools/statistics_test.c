/* SPDX-License-Identifier: BSD-2-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/bench/statistics.h"

#define EXACT 1e-12

static void numbers_down_from(double *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		values[i] = (double)(count - i);
}

static void test_known_values(void **state)
{
	double values[] = {9, 2, 5, 4, 12, 7, 8, 11, 9, 3, 7, 4, 12, 5, 4, 10, 9, 6, 9, 4};
	struct summary summary = statistics_summary(values, 20);

	(void)state;
	assert_int_equal(summary.count, 20);
	assert_float_equal(summary.mean, 7, EXACT);
	assert_float_equal(summary.deviation, sqrt(8.9), EXACT);
	assert_float_equal(summary.least, 2, EXACT);
	assert_float_equal(summary.most, 12, EXACT);
	assert_float_equal(summary.median, 7, EXACT);
}

static void test_median_of_even_and_odd_counts(void **state)
{
	double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {5};

	(void)state;
	assert_float_equal(statistics_median(odd, 3), 2, EXACT);
	assert_float_equal(statistics_median(even, 4), 2.5, EXACT);
	assert_float_equal(statistics_median(one, 1), 5, EXACT);
	assert_true(isnan(statistics_median(one, 0)));
}

/* Of 1 to 1000 the value of a percentile by nearest rank is its rank. */
static void test_percentiles_are_ranks(void **state)
{
	double values[1000];
	struct summary summary;

	(void)state;
	numbers_down_from(values, 1000);
	summary = statistics_summary(values, 1000);
	assert_float_equal(summary.p99, 990, EXACT);
	assert_float_equal(summary.p999, 999, EXACT);
	assert_float_equal(statistics_percentile(values, 1000, 0.0), 1, EXACT);
	assert_float_equal(statistics_percentile(values, 1000, 0.5), 500, EXACT);
	assert_float_equal(statistics_percentile(values, 1000, 0.5001), 501, EXACT);
	assert_float_equal(statistics_percentile(values, 1000, 1.0), 1000, EXACT);
}

static void test_too_few_samples_have_no_percentiles(void **state)
{
	double values[1000];

	(void)state;
	numbers_down_from(values, 1000);
	assert_true(isnan(statistics_summary(values, 99).p99));
	assert_false(isnan(statistics_summary(values, 100).p99));
	assert_true(isnan(statistics_summary(values, 999).p999));
	assert_false(isnan(statistics_summary(values, 1000).p999));
}

static void test_no_samples(void **state)
{
	struct summary summary = statistics_summary(NULL, 0);

	(void)state;
	assert_int_equal(summary.count, 0);
	assert_true(isnan(summary.mean));
	assert_true(isnan(summary.deviation));
	assert_true(isnan(summary.median));
	assert_true(isnan(summary.p99));
}

/* Squares of such values differ in digits that a double does not have. */
static void test_deviation_of_large_values_that_differ_little(void **state)
{
	double values[] = {1e12 + 1, 1e12 + 3};

	(void)state;
	assert_float_equal(statistics_summary(values, 2).deviation, 1, EXACT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_values),
		cmocka_unit_test(test_median_of_even_and_odd_counts),
		cmocka_unit_test(test_percentiles_are_ranks),
		cmocka_unit_test(test_too_few_samples_have_no_percentiles),
		cmocka_unit_test(test_no_samples),
		cmocka_unit_test(test_deviation_of_large_values_that_differ_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
