/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap of deadlines against a plain array that is searched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "engine/timers.h"

#define TIMERS 200

static struct timer all[TIMERS];
static vbn_time expected[TIMERS]; /* NEVER: not set */
static bool is_refused[TIMERS];	  /* its owner is going: not to be pinned */

static bool pin(struct timer *timer)
{
	return !is_refused[timer - all];
}

static vbn_time earliest(void)
{
	vbn_time first = VBN_TIME_NEVER;

	for (int i = 0; i < TIMERS; i++)
		first = vbn_time_min(first, expected[i]);
	return first;
}

/* Everything that is due comes out in order; what is refused is unset on the way. */
static void pop_all(struct timers *timers, vbn_time now)
{
	vbn_time last = 0;
	struct timer *timer;

	while ((timer = timers_pop(timers, now, pin))) {
		size_t index = (size_t)(timer - all);

		assert_false(is_refused[index]);
		assert_true(expected[index] != VBN_TIME_NEVER);
		assert_true(timer->deadline == expected[index]);
		assert_true(timer->deadline <= now && timer->deadline >= last);
		last = timer->deadline;
		expected[index] = VBN_TIME_NEVER;
	}
	for (int i = 0; i < TIMERS; i++) {
		if (expected[i] > now)
			continue;
		assert_true(is_refused[i]);
		expected[i] = VBN_TIME_NEVER;
	}
}

static void set(struct timers *timers, int index, vbn_time deadline)
{
	timers_set(timers, &all[index], deadline);
	expected[index] = deadline;
}

static void agrees_with_the_reference(void **state)
{
	struct random_stream stream = {42};
	struct timers timers;
	vbn_time now = 1000;

	(void)state;
	timers_init(&timers);
	assert_true(timers_reserve(&timers, TIMERS));
	for (int i = 0; i < TIMERS; i++)
		expected[i] = VBN_TIME_NEVER;
	for (int step = 0; step < 50000; step++) {
		int index = (int)random_below(&stream, TIMERS);

		is_refused[index] = random_chance(&stream, 50000);
		switch (random_below(&stream, 8)) {
		case 0:
			set(&timers, index, VBN_TIME_NEVER);
			break;
		case 1:
			now += random_below(&stream, 300);
			pop_all(&timers, now);
			break;
		default:
			/* A narrow range, so that equal deadlines are common. */
			set(&timers, index, now + random_below(&stream, 400));
		}
		assert_true(timers_next(&timers) == earliest());
	}
	for (int i = 0; i < TIMERS; i++)
		set(&timers, i, VBN_TIME_NEVER);
	assert_true(timers_next(&timers) == VBN_TIME_NEVER);
	timers_fini(&timers);
}

static void nothing_is_due_before_its_time(void **state)
{
	struct timer timer = {0};
	struct timers timers;

	(void)state;
	timers_init(&timers);
	assert_true(timers_reserve(&timers, 1));
	assert_null(timers_pop(&timers, VBN_TIME_NEVER - 1, pin));
	timers_set(&timers, &timer, 500);
	assert_null(timers_pop(&timers, 499, pin));
	assert_true(timers_next(&timers) == 500);
	timers_set(&timers, &timer, VBN_TIME_NEVER);
	assert_null(timers_pop(&timers, VBN_TIME_NEVER - 1, pin));
	timers_fini(&timers);
}

static void room_grows(void **state)
{
	static struct timer many[3000];
	struct timers timers;

	(void)state;
	timers_init(&timers);
	for (uint32_t i = 0; i < 3000; i++) {
		assert_true(timers_reserve(&timers, i + 1));
		timers_set(&timers, &many[i], 5000 - i);
		assert_true(timers_next(&timers) == 5000 - i);
	}
	for (uint32_t i = 0; i < 3000; i++)
		timers_set(&timers, &many[i], VBN_TIME_NEVER);
	timers_fini(&timers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_the_reference),
		cmocka_unit_test(nothing_is_due_before_its_time),
		cmocka_unit_test(room_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
