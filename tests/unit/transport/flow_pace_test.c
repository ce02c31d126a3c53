/* SPDX-License-Identifier: BSD-2-Clause */
/* When what nobody acknowledges may leave, and when its sender waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/flow.h"

#define WINDOW 1000
#define COST 100
#define BURST (WINDOW / 2 / COST)

/* A flow to a peer that shows its looks, or to a stranger while served_at is 0. */
struct scene {
	struct flow flow;
	_Atomic vbn_time served_at;
	vbn_time again_at; /* what was said to the last one that had to wait */
};

static void begin(struct scene *scene, vbn_time served_at)
{
	*scene = (struct scene){.flow = {.bytes_max = WINDOW}, .served_at = served_at};
	atomic_store(&scene->flow.served_at, &scene->served_at);
}

static bool admit(struct scene *scene, uint32_t cost, vbn_time now)
{
	return flow_pace_admit(&scene->flow, cost, now, &scene->again_at);
}

/* Sends at @now until the sender has to wait; returns how many left. */
static int fill(struct scene *scene, vbn_time now)
{
	int count = 0;

	while (admit(scene, COST, now))
		assert_true(++count <= WINDOW / COST);
	assert_true(scene->again_at > now);
	return count;
}

/* Comes often for so long, and so is never late; returns how many left. */
static int stream(struct scene *scene, vbn_time *now, uint64_t duration)
{
	vbn_time end = *now + duration;
	int count = 0;

	for (; *now < end; *now += FLOW_PACE_BURST_NS / 50)
		count += fill(scene, *now);
	return count;
}

/* --- a peer that shows its looks --- */

static void a_window_and_no_more(void **state)
{
	struct scene scene;

	(void)state;
	begin(&scene, 1);
	assert_int_equal(fill(&scene, 100), WINDOW / COST);
	assert_int_equal(fill(&scene, 200), 0);
	assert_int_equal(scene.again_at, 200 + FLOW_PACE_LOOK_NS);
	/* A look at the very moment of sending may have been before it. */
	scene.served_at = 100;
	assert_int_equal(fill(&scene, 200), 0);
	scene.served_at = 101;
	assert_int_equal(fill(&scene, 200), WINDOW / COST);
}

/* What left before the peer looked is gone, what left behind that is not. */
static void a_stream_goes_on(void **state)
{
	struct scene scene;

	(void)state;
	begin(&scene, 1);
	for (vbn_time now = 2; now <= 11; now++)
		assert_true(admit(&scene, COST, now));
	assert_int_equal(fill(&scene, 20), 0);
	scene.served_at = 6;
	assert_int_equal(fill(&scene, 20), 0);
	scene.served_at = 7;
	assert_int_equal(fill(&scene, 20), 5);
	assert_int_equal(fill(&scene, 21), 0);
	/* All of before 20, not the five at 20. */
	scene.served_at = 15;
	assert_int_equal(fill(&scene, 30), 5);
	scene.served_at = 31;
	assert_int_equal(fill(&scene, 40), WINDOW / COST);
}

/* The peer looked between the moment when packets were admitted and that when they left. */
static void packets_count_from_when_they_left(void **state)
{
	struct scene scene;

	(void)state;
	begin(&scene, 1);
	assert_int_equal(fill(&scene, 10), WINDOW / COST);
	flow_pace_left(&scene.flow, 20);
	scene.served_at = 15;
	assert_int_equal(fill(&scene, 30), 0);
	scene.served_at = 21;
	assert_int_equal(fill(&scene, 30), WINDOW / COST);
	/* The older half is dated once. */
	flow_pace_left(&scene.flow, 40);
	scene.served_at = 41;
	for (vbn_time now = 50; now < 55; now++)
		assert_true(admit(&scene, COST, now));
	flow_pace_left(&scene.flow, 60);
	assert_true(admit(&scene, COST, 61));
	flow_pace_left(&scene.flow, 70);
	assert_true(admit(&scene, COST, 71));
	flow_pace_left(&scene.flow, 80);
	scene.served_at = 75;
	assert_int_equal(flow_pace_bytes(&scene.flow), 2 * COST);
}

static void a_large_one_passes_alone(void **state)
{
	struct scene scene;

	(void)state;
	begin(&scene, 1);
	assert_true(admit(&scene, 5 * WINDOW, 10));
	assert_false(admit(&scene, 1, 11));
	scene.served_at = 10;
	assert_false(admit(&scene, 1, 11));
	scene.served_at = 11;
	assert_true(admit(&scene, 5 * WINDOW, 12));
}

/* Bytes of connections with acknowledgements lie in the same buffer. */
static void the_window_is_shared_with_others(void **state)
{
	struct scene scene;

	(void)state;
	begin(&scene, 1);
	flow_add(&scene.flow, 8 * COST);
	assert_int_equal(fill(&scene, 10), 2);
	assert_int_equal(flow_pace_bytes(&scene.flow), 2 * COST);
	assert_false(flow_has_room(&scene.flow, 1));
	/* They take all of it: one at a time passes. */
	flow_add(&scene.flow, 8 * COST);
	scene.served_at = 11;
	assert_int_equal(flow_pace_bytes(&scene.flow), 0);
	assert_int_equal(fill(&scene, 20), 1);
	flow_add(&scene.flow, -16 * COST);
	scene.served_at = 21;
	assert_true(flow_has_room(&scene.flow, WINDOW));
}

/* Asks for so long, as often as it is told to, and in vain. */
static void ask_in_vain(struct scene *scene, vbn_time *now, uint64_t duration)
{
	vbn_time end = *now + duration;

	while (*now < end) {
		assert_int_equal(fill(scene, *now), 0);
		*now = scene->again_at < end ? scene->again_at : end;
	}
}

/* Nobody waits for ever for one that is stopped. */
static void patience_ends(void **state)
{
	struct scene scene;
	vbn_time now = 1000;

	(void)state;
	begin(&scene, 1);
	assert_int_equal(fill(&scene, now), WINDOW / COST);
	ask_in_vain(&scene, &now, FLOW_PACE_PATIENCE_NS);
	/* Now it is a stranger. */
	assert_in_range(stream(&scene, &now, 3 * FLOW_PACE_BURST_NS), 4 * BURST - 1, 4 * BURST);
	/* It wakes up, and stops again. */
	scene.served_at = now - 1;
	assert_int_equal(fill(&scene, now), WINDOW / COST);
	ask_in_vain(&scene, &now, FLOW_PACE_PATIENCE_NS);
	assert_true(fill(&scene, now) > 0);
}

/* A peer that was stopped together with us had no time in which it might have looked. */
static void our_own_pause_is_no_silence(void **state)
{
	struct scene scene;
	vbn_time now = 1000;

	(void)state;
	begin(&scene, 1);
	assert_int_equal(fill(&scene, now), WINDOW / COST);
	for (int pause = 0; pause < 10; pause++) {
		now += 2 * FLOW_PACE_PATIENCE_NS;
		assert_int_equal(fill(&scene, now), 0);
	}
	scene.served_at = now;
	now += 1;
	assert_int_equal(fill(&scene, now), WINDOW / COST);
	ask_in_vain(&scene, &now, FLOW_PACE_PATIENCE_NS);
}

/* --- a stranger --- */

static void a_stranger_gets_bursts(void **state)
{
	struct scene scene;
	vbn_time now = 1000;

	(void)state;
	begin(&scene, 0);
	assert_int_equal(fill(&scene, now), BURST);
	assert_int_equal(scene.again_at, now + FLOW_PACE_BURST_NS / 2);
	now = scene.again_at;
	assert_int_equal(fill(&scene, now), BURST / 2);
	assert_int_equal(flow_pace_bytes(&scene.flow), 0);
	assert_in_range(stream(&scene, &now, 10 * FLOW_PACE_BURST_NS), 10 * BURST - 1,
			10 * BURST + 1);
	/* A pause saves nothing up. */
	assert_true(admit(&scene, COST, scene.again_at));
	assert_int_equal(fill(&scene, now + VBN_SECOND), BURST);
}

/* Whoever comes when he was told to finds room for what he asked for. */
static void a_stranger_is_not_asked_in_vain(void **state)
{
	static const uint32_t costs[] = {1, COST, 4 * COST, WINDOW / 2, 5 * WINDOW};
	struct scene scene;

	(void)state;
	for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
		vbn_time now = 1000;

		begin(&scene, 0);
		for (int round = 0; round < 20; round++) {
			while (admit(&scene, costs[i], now))
				;
			assert_in_range(scene.again_at, now + 1, now + FLOW_PACE_BURST_NS);
			now = scene.again_at;
			assert_true(admit(&scene, costs[i], now));
		}
	}
}

/* Whoever comes much later than he was told to shares a busy machine with the peer, perhaps. */
static void a_starved_sender_goes_slower(void **state)
{
	struct scene scene;
	vbn_time now = 1000;

	(void)state;
	begin(&scene, 0);
	assert_int_equal(fill(&scene, now), BURST);
	now = scene.again_at + FLOW_PACE_STARVED_NS;
	assert_in_range(stream(&scene, &now, FLOW_PACE_SLOW_NS),
			FLOW_PACE_SLOW_NS / FLOW_PACE_BURST_NS * BURST / FLOW_PACE_SLOW_FACTOR - 1,
			FLOW_PACE_SLOW_NS / FLOW_PACE_BURST_NS * BURST / FLOW_PACE_SLOW_FACTOR +
				BURST);
	stream(&scene, &now, FLOW_PACE_BURST_NS);
	assert_in_range(stream(&scene, &now, 10 * FLOW_PACE_BURST_NS), 10 * BURST - 1,
			10 * BURST + 1);
}

static void the_rate_can_be_set(void **state)
{
	struct scene scene;
	vbn_time now = 1000;

	(void)state;
	begin(&scene, 0);
	flow_pace_set_rate(&scene.flow, 2);
	assert_int_equal(fill(&scene, now), BURST);
	/* A burst of 500 bytes, at 2 bytes in a microsecond. */
	assert_in_range(scene.again_at, now + 124 * VBN_MICROSECOND, now + 126 * VBN_MICROSECOND);
	now += 251 * VBN_MICROSECOND;
	assert_int_equal(fill(&scene, now), BURST);
	/* 0 is no limit. */
	begin(&scene, 0);
	flow_pace_set_rate(&scene.flow, 0);
	for (int i = 0; i < 1000; i++)
		assert_true(admit(&scene, 5 * WINDOW, now));
}

static void a_lossless_flow_has_no_pace(void **state)
{
	struct scene scene;

	(void)state;
	begin(&scene, 0);
	scene.flow.bytes_max = INT64_MAX;
	for (int i = 0; i < 1000; i++)
		assert_true(admit(&scene, UINT32_MAX, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_and_no_more),
		cmocka_unit_test(a_stream_goes_on),
		cmocka_unit_test(packets_count_from_when_they_left),
		cmocka_unit_test(a_large_one_passes_alone),
		cmocka_unit_test(the_window_is_shared_with_others),
		cmocka_unit_test(patience_ends),
		cmocka_unit_test(our_own_pause_is_no_silence),
		cmocka_unit_test(a_stranger_gets_bursts),
		cmocka_unit_test(a_stranger_is_not_asked_in_vain),
		cmocka_unit_test(a_starved_sender_goes_slower),
		cmocka_unit_test(the_rate_can_be_set),
		cmocka_unit_test(a_lossless_flow_has_no_pace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
