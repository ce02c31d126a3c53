/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench/requirements.h"

#define EXACT 1e-9

static struct results results;

static int clear(void **state)
{
	(void)state;
	results_free(&results);
	return 0;
}

static void measured(const char *contender, enum work work, enum operation operation, uint64_t size,
		     enum figure figure, double value)
{
	cell_add_figure(results_cell(&results, contender_named(contender), work, operation, size),
			figure, value);
}

/* The one whose text has @words in it; fails without. */
static struct requirement the_one_about(const char *words)
{
	struct requirement found[REQUIREMENTS_MAX];
	size_t count = requirements_find(&results, found);

	for (size_t i = 0; i < count; i++)
		if (strstr(found[i].text, words))
			return found[i];
	fail_msg("there is no requirement about %s", words);
	return found[0];
}

static void test_nothing_without_both_sides(void **state)
{
	struct requirement found[REQUIREMENTS_MAX];

	(void)state;
	assert_int_equal(requirements_find(&results, found), 0);
	measured("shm", WORK_LATENCY, OPERATION_WRITE, 16, FIGURE_MEDIAN, 300);
	assert_int_equal(requirements_find(&results, found), 0);
	measured("ucx-posix", WORK_LATENCY, OPERATION_WRITE, 64, FIGURE_MEDIAN, 300);
	assert_int_equal(requirements_find(&results, found), 0);
}

static void test_pages(void **state)
{
	const uint64_t size = UINT64_C(4) << 20;
	struct requirement requirement;

	(void)state;
	measured("shm", WORK_PAGES, OPERATION_TOUCH, size, FIGURE_MEDIAN, 1000);
	measured("shm", WORK_PAGES, OPERATION_ADOPT, size, FIGURE_MEDIAN, 1200);
	measured("shm", WORK_PAGES, OPERATION_MOVE_BACK, size, FIGURE_MEDIAN, 1300);
	requirement = the_one_about("adopting a page");
	assert_true(requirement_holds(&requirement));
	requirement = the_one_about("moving a page back");
	assert_float_equal(requirement.ratio, 1.3, EXACT);
	assert_false(requirement_holds(&requirement));
}

static void test_at_most(void **state)
{
	struct requirement requirement;

	(void)state;
	measured("shm", WORK_LATENCY, OPERATION_WRITE, 16, FIGURE_MEDIAN, 450);
	measured("ucx-posix", WORK_LATENCY, OPERATION_WRITE, 16, FIGURE_MEDIAN, 300);
	requirement = the_one_about("UCX posix put");
	assert_float_equal(requirement.ratio, 1.5, EXACT);
	assert_true(requirement_holds(&requirement));
	/* The median of three rounds is above now. */
	measured("shm", WORK_LATENCY, OPERATION_WRITE, 16, FIGURE_MEDIAN, 460);
	measured("shm", WORK_LATENCY, OPERATION_WRITE, 16, FIGURE_MEDIAN, 900);
	requirement = the_one_about("UCX posix put");
	assert_float_equal(requirement.ratio, 460.0 / 300.0, EXACT);
	assert_false(requirement_holds(&requirement));
}

static void test_times_better(void **state)
{
	struct requirement requirement;

	(void)state;
	measured("shm", WORK_LATENCY, OPERATION_WRITE, 16, FIGURE_MEDIAN, 300);
	measured("tcp-socket", WORK_LATENCY, OPERATION_SEND, 16, FIGURE_MEDIAN, 3000);
	requirement = the_one_about("TCP");
	assert_float_equal(requirement.ratio, 10, EXACT);
	assert_true(requirement_holds(&requirement));
}

static void test_at_least(void **state)
{
	struct requirement requirement;

	(void)state;
	measured("shm", WORK_THROUGHPUT, OPERATION_MIX, 16, FIGURE_RATE, 6.9e6);
	measured("shm", WORK_THROUGHPUT, OPERATION_SEND, 16, FIGURE_RATE, 10e6);
	requirement = the_one_about("shm: WRITE and SEND in turns");
	assert_float_equal(requirement.ratio, 0.69, EXACT);
	assert_false(requirement_holds(&requirement));
}

static void test_market_data(void **state)
{
	struct requirement requirement;

	(void)state;
	measured("shm", WORK_MARKET, OPERATION_WRITE, 4096, FIGURE_P99, 3000);
	measured("memory", WORK_MARKET, OPERATION_WRITE, 4096, FIGURE_P99, 1000);
	requirement = the_one_about("market data, p99");
	assert_true(requirement_holds(&requirement));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_nothing_without_both_sides, clear),
		cmocka_unit_test_teardown(test_pages, clear),
		cmocka_unit_test_teardown(test_at_most, clear),
		cmocka_unit_test_teardown(test_times_better, clear),
		cmocka_unit_test_teardown(test_at_least, clear),
		cmocka_unit_test_teardown(test_market_data, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
