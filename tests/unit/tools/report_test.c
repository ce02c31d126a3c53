/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page and the JSON of known results. That both are well-formed is checked here by counting
 * what opens and closes; tests/tools/bench.py gives them to real parsers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench/bench.h"
#include "tools/bench/html.h"

static const struct plan plan = {
	.latency = true,
	.throughput = true,
	.sizes = {16, 65536},
	.size_count = 2,
	.rounds = 1,
};

static struct results results;

static int measure(void **state)
{
	static const double samples[] = {280, 300, 290};
	const struct contender *shm = contender_named("shm"), *tcp = contender_named("tcp-socket");

	(void)state;
	for (size_t i = 0; i < plan.size_count; i++) {
		cell_add_samples(results_cell(&results, shm, WORK_LATENCY, OPERATION_WRITE,
					      plan.sizes[i]),
				 samples, 3);
		cell_add_figure(results_cell(&results, tcp, WORK_THROUGHPUT, OPERATION_SEND,
					     plan.sizes[i]),
				FIGURE_RATE, 1e6);
	}
	results_remark(&results, "a <remark> & \"quotes\" \x1b\xc3\xa4");
	return 0;
}

static int clear(void **state)
{
	(void)state;
	results_free(&results);
	return 0;
}

/* Whatever @write puts out; to be freed. */
static char *written(void (*write)(FILE *, const struct plan *, const struct results *))
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	write(out, &plan, &results);
	assert_int_equal(fclose(out), 0);
	return text;
}

static size_t count_of(const char *text, const char *what)
{
	size_t count = 0;

	for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
		count++;
	return count;
}

static void test_the_page_has_the_figures(void **state)
{
	char *page = written(report_write);

	(void)state;
	assert_int_equal(count_of(page, "<svg "), 2);
	assert_int_equal(count_of(page, "<svg "), count_of(page, "</svg>"));
	assert_int_equal(count_of(page, "<table>"), count_of(page, "</table>"));
	assert_int_equal(count_of(page, "<tr>"), count_of(page, "</tr>"));
	assert_int_equal(count_of(page, "role=\"img\""), 2);
	assert_non_null(strstr(page, "Verbena shm, 16 B: 0.290 us"));
	assert_non_null(strstr(page, "TCP, 64 KiB: 65536 MB/s"));
	assert_non_null(strstr(page, "<tr><td>TCP</td><td>-</td><td>1.00</td><td>-</td>"));
	/* Nothing is fetched from anywhere. */
	assert_null(strstr(page, "<script"));
	assert_null(strstr(page, "src="));
	assert_null(strstr(page, "url("));
	assert_null(strstr(page, "href="));
	free(page);
}

static void test_text_from_outside_is_no_markup(void **state)
{
	char *page = written(report_write);

	(void)state;
	assert_non_null(strstr(page, "a &lt;remark&gt; &amp; &#34;quotes&#34; ???"));
	assert_null(strstr(page, "<remark>"));
	free(page);
}

static void write_json(FILE *out, const struct plan *of, const struct results *what)
{
	results_write_json(out, of, what, true);
}

static void test_json_has_the_figures(void **state)
{
	char *json = written(write_json);

	(void)state;
	assert_int_equal(count_of(json, "\"kind\": \"latency\""), 2);
	assert_int_equal(count_of(json, "\"kind\": \"throughput\""), 2);
	assert_non_null(strstr(json, "\"all_samples_ns\": [280, 290, 300]"));
	assert_non_null(strstr(json, "\"p99_ns\": null"));
	assert_non_null(strstr(json, "\"messages_per_second\": 1000000"));
	assert_int_equal(count_of(json, "{"), count_of(json, "}"));
	assert_int_equal(count_of(json, "["), count_of(json, "]"));
	free(json);
}

static void test_the_table_has_the_figures(void **state)
{
	char *table = written(table_write);

	(void)state;
	assert_non_null(strstr(table, "0.290"));
	assert_non_null(strstr(table, "65536"));
	assert_non_null(strstr(table, "a <remark>"));
	assert_null(strstr(table, "READ,"));
	free(table);
}

static void test_a_plot_without_points_is_nothing(void **state)
{
	static const struct plot plot = {.id = "p", .title = "t", .unit = "us", .axis = "a"};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(out);
	plot_write(out, &plot);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(bytes, 0);
	free(text);
}

/* One value everywhere has no range, and still a place. */
static void test_a_plot_of_one_point_has_finite_places(void **state)
{
	static const struct plot plot = {.id = "p",
					 .title = "t",
					 .unit = "us",
					 .axis = "a",
					 .lines = {{.label = "l",
						    .class_name = "c",
						    .points = {{16, 1.0}},
						    .point_count = 1}},
					 .line_count = 1};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(out);
	plot_write(out, &plot);
	assert_int_equal(fclose(out), 0);
	assert_null(strstr(text, "nan"));
	assert_null(strstr(text, "inf"));
	assert_int_equal(count_of(text, "<circle "), 1);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_page_has_the_figures),
		cmocka_unit_test(test_text_from_outside_is_no_markup),
		cmocka_unit_test(test_json_has_the_figures),
		cmocka_unit_test(test_the_table_has_the_figures),
		cmocka_unit_test(test_a_plot_without_points_is_nothing),
		cmocka_unit_test(test_a_plot_of_one_point_has_finite_places),
	};

	return cmocka_run_group_tests(tests, measure, clear);
}
