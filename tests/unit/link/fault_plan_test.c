/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts to plans, and what plans decide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "link/fault/fault_plan.h"

static struct fault_plan parsed(const char *text)
{
	struct fault_plan plan;
	char error[160] = "";

	if (!fault_plan_parse(text, &plan, error, sizeof(error)))
		fail_msg("%s", error);
	return plan;
}

static void reads_every_part(void **state)
{
	struct fault_plan plan = parsed("loss=1%,reorder=2.5%,dup=0.01,corrupt=0.1%,"
					"delay=50us..2ms,reorder_by=1.5ms,cm_loss=2..4,seed=7");

	(void)state;
	assert_int_equal(plan.loss_per_million, 10000);
	assert_int_equal(plan.reorder_per_million, 25000);
	assert_int_equal(plan.duplicate_per_million, 10000);
	assert_int_equal(plan.corrupt_per_million, 1000);
	assert_int_equal(plan.delay_ns_min, 50000);
	assert_int_equal(plan.delay_ns_max, 2000000);
	assert_int_equal(plan.reorder_ns_max, 1500000);
	assert_int_equal(plan.cm_loss_first, 2);
	assert_int_equal(plan.cm_loss_last, 4);
	assert_int_equal(plan.seed, 7);
}

static void messages_of_the_connection_manager_are_counted(void **state)
{
	struct fault_plan none = parsed("loss=1%"), one = parsed("cm_loss=1"),
			  range = parsed("cm_loss=2..3");

	(void)state;
	for (uint32_t number = 1; number < 5; number++) {
		assert_false(fault_plan_loses_cm(&none, number));
		assert_int_equal(fault_plan_loses_cm(&one, number), number == 1);
		assert_int_equal(fault_plan_loses_cm(&range, number), number == 2 || number == 3);
	}
}

static void reads_edges(void **state)
{
	(void)state;
	assert_int_equal(parsed("").loss_per_million, 0);
	assert_int_equal(parsed("").reorder_ns_max, FAULT_REORDER_NS);
	assert_int_equal(parsed("loss=100%").loss_per_million, 1000000);
	assert_int_equal(parsed("loss=1").loss_per_million, 1000000);
	assert_int_equal(parsed("loss=.5").loss_per_million, 500000);
	assert_int_equal(parsed("loss=0.0001%").loss_per_million, 1);
	assert_int_equal(parsed("loss=0.000001").loss_per_million, 1);
	assert_int_equal(parsed("delay=3ns").delay_ns_min, 3);
	assert_int_equal(parsed("delay=3ns").delay_ns_max, 3);
	assert_int_equal(parsed("delay=0.25s..10s").delay_ns_min, 250000000);
	assert_int_equal(parsed("seed=18446744073709551609").seed, 18446744073709551609ull);
}

static void names_the_bad_part(void **state)
{
	static const struct {
		const char *text, *part, *why;
	} rows[] = {
		{"loss=1%,lost=2%", "\"lost=2%\"", "unknown fault"},
		{"loss=1%,", NULL, NULL},
		{",loss=1%", "\"\"", "unknown fault"},
		{"loss", "\"loss\"", "loss wants a percentage"},
		{"loss=", "\"loss=\"", "loss wants a percentage"},
		{"loss=101%", "\"loss=101%\"", "loss wants"},
		{"loss=1.1", "\"loss=1.1\"", "loss wants"},
		{"loss=0.0000001", "\"loss=0.0000001\"", "loss wants"},
		{"loss=0.00001%", "\"loss=0.00001%\"", "loss wants"},
		{"loss=-1%", "\"loss=-1%\"", "loss wants"},
		{"loss=1%%", "\"loss=1%%\"", "loss wants"},
		{"loss=1.2.3", "\"loss=1.2.3\"", "loss wants"},
		{"loss=99999999999999999999999%", "\"loss=99999999999999999999999%\"",
		 "loss wants"},
		{"dup=1%,dup=2%", "\"dup=2%\"", "given twice"},
		{"delay=5", "\"delay=5\"", "delay wants a time"},
		{"delay=5h", "\"delay=5h\"", "delay wants a time"},
		{"delay=2ms..1ms", "\"delay=2ms..1ms\"", "delay wants a time"},
		{"delay=1ms..", "\"delay=1ms..\"", "delay wants a time"},
		{"delay=11s", "\"delay=11s\"", "delay wants a time"},
		{"delay=1.5ns", "\"delay=1.5ns\"", "delay wants a time"},
		{"cm_loss=0", "\"cm_loss=0\"", "cm_loss wants a number"},
		{"cm_loss=3..2", "\"cm_loss=3..2\"", "cm_loss wants a number"},
		{"cm_loss=1..", "\"cm_loss=1..\"", "cm_loss wants a number"},
		{"cm_loss=4294967296", "\"cm_loss=4294967296\"", "cm_loss wants a number"},
		{"seed=x", "\"seed=x\"", "seed wants a whole number"},
		{"seed=18446744073709551616", "\"seed=18446744073709551616\"", "seed wants"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fault_plan plan = {.seed = 99};
		char error[160] = "";
		bool is_good = fault_plan_parse(rows[i].text, &plan, error, sizeof(error));

		if (!rows[i].part) {
			assert_true(is_good);
			continue;
		}
		if (is_good)
			fail_msg("%s was taken", rows[i].text);
		if (!strstr(error, rows[i].part) || !strstr(error, rows[i].why))
			fail_msg("%s: %s", rows[i].text, error);
		assert_int_equal(plan.seed, 99);
		assert_false(fault_plan_parse(rows[i].text, &plan, NULL, 0));
	}
}

struct tally {
	uint32_t dropped, duplicated, corrupted, reordered;
};

static struct tally tally_of(const struct fault_plan *plan, uint32_t count)
{
	struct random_stream stream = fault_plan_stream(plan, 0);
	struct tally tally = {0};

	for (uint32_t i = 0; i < count; i++) {
		struct fault_decision decision = fault_plan_decide(plan, &stream, 100);

		assert_true(decision.corrupt_bit < 800);
		tally.dropped += decision.is_dropped;
		tally.duplicated += decision.is_duplicated;
		tally.corrupted += decision.is_corrupted;
		tally.reordered += decision.is_reordered;
	}
	return tally;
}

static void rates_are_kept(void **state)
{
	struct fault_plan plan = parsed("loss=10%,reorder=20%,dup=5%,corrupt=1%,seed=3");
	struct tally tally = tally_of(&plan, 100000);

	(void)state;
	assert_in_range(tally.dropped, 9500, 10500);
	assert_in_range(tally.reordered, 19300, 20700);
	assert_in_range(tally.duplicated, 4600, 5400);
	assert_in_range(tally.corrupted, 850, 1150);
}

static void extremes_are_exact(void **state)
{
	struct fault_plan none = parsed(""), all = parsed("loss=1,dup=1,corrupt=1,reorder=1");

	(void)state;
	assert_int_equal(tally_of(&none, 10000).dropped, 0);
	assert_int_equal(tally_of(&none, 10000).duplicated, 0);
	assert_int_equal(tally_of(&none, 10000).corrupted, 0);
	assert_int_equal(tally_of(&none, 10000).reordered, 0);
	assert_int_equal(tally_of(&all, 10000).dropped, 10000);
	assert_int_equal(tally_of(&all, 10000).duplicated, 10000);
	assert_int_equal(tally_of(&all, 10000).corrupted, 10000);
	assert_int_equal(tally_of(&all, 10000).reordered, 10000);
}

static void delays_stay_in_range(void **state)
{
	struct fault_plan plan = parsed("delay=1us..2us,reorder=50%,reorder_by=5us,seed=1");
	struct random_stream stream = fault_plan_stream(&plan, 0);

	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct fault_decision decision = fault_plan_decide(&plan, &stream, 64);
		uint64_t extra = decision.is_reordered ? 1 : 0;

		assert_in_range(decision.delay_ns, 1000 + extra, 2000 + 5000 * extra);
		assert_in_range(decision.duplicate_delay_ns, 1000, 2000);
	}
}

/* The same seed loses the same packets, also when another fault is added. */
static void seeds_repeat_and_rates_are_independent(void **state)
{
	struct fault_plan plain = parsed("loss=10%,seed=5"),
			  more = parsed("loss=10%,dup=50%,seed=5");
	struct fault_plan other = parsed("loss=10%,seed=6");
	struct random_stream first = fault_plan_stream(&plain, 0);
	struct random_stream second = fault_plan_stream(&more, 0);
	struct random_stream third = fault_plan_stream(&other, 0);
	struct random_stream fourth = fault_plan_stream(&plain, 1);
	int other_differs = 0, flow_differs = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		bool is_dropped = fault_plan_decide(&plain, &first, 64).is_dropped;

		assert_int_equal(is_dropped, fault_plan_decide(&more, &second, 64).is_dropped);
		other_differs += is_dropped != fault_plan_decide(&other, &third, 64).is_dropped;
		flow_differs += is_dropped != fault_plan_decide(&plain, &fourth, 64).is_dropped;
	}
	assert_true(other_differs > 50);
	assert_true(flow_differs > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_every_part),
		cmocka_unit_test(messages_of_the_connection_manager_are_counted),
		cmocka_unit_test(reads_edges),
		cmocka_unit_test(names_the_bad_part),
		cmocka_unit_test(rates_are_kept),
		cmocka_unit_test(extremes_are_exact),
		cmocka_unit_test(delays_stay_in_range),
		cmocka_unit_test(seeds_repeat_and_rates_are_independent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
