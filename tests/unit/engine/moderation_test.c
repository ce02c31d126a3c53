/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moderated notification of a CQ: by count, by time, by whoever is at work, and a CQ that
 * goes while its time runs.
 */
#include "unit/engine/pair.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/time.h"
#include "engine/deputy.h"
#include "engine/engine_state.h"

#define PATIENCE_MS 10000
#define LONG_US 65535

static const struct pair_settings over_self = {.is_self = true,
					       .depth = 64,
					       .has_channel = true,
					       .subnet = "127.84.2",
					       .timeout = 14,
					       .retry_cnt = 7};
static const struct pair_settings over_udp = {
	.depth = 64, .has_channel = true, .subnet = "127.84.3", .timeout = 14, .retry_cnt = 7};

static bool has_event(struct side *side, int wait_ms)
{
	struct pollfd ready = {.fd = event_queue_descriptor(side->channel), .events = POLLIN};

	return poll(&ready, 1, wait_ms) == 1;
}

static void take_event(struct side *side)
{
	struct event event;

	assert_true(has_event(side, PATIENCE_MS));
	assert_int_equal(event_queue_pop(side->channel, &event, NULL), 0);
}

static void write_to_peer(struct pair *pair, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		side_post(&pair->a, pair->a.qp, IBV_WR_RDMA_WRITE, i, 0, 16, &pair->b, 0);
}

static void drain(struct side *side, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(side_wait(side).status, IBV_WC_SUCCESS);
}

/* Over the self link a post completes before it returns; the time is far longer than the test. */
static void by_count(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_self);
	assert_int_equal(engine_cq_moderate(pair.a.cq, 4, LONG_US), 0);
	for (int round = 0; round < 3; round++) {
		assert_int_equal(engine_cq_arm(pair.a.cq, false), 0);
		write_to_peer(&pair, 4);
		take_event(&pair.a);
		write_to_peer(&pair, 8);
		assert_false(has_event(&pair.a, 0));
		drain(&pair.a, 12);
	}
	pair_close(&pair);
}

static void by_time(const struct pair_settings *settings)
{
	vbn_time before;
	struct pair pair;

	pair_open(&pair, settings);
	assert_int_equal(engine_cq_moderate(pair.a.cq, 60, 20000), 0);
	for (int round = 0; round < 3; round++) {
		assert_int_equal(engine_cq_arm(pair.a.cq, false), 0);
		before = clock_now();
		write_to_peer(&pair, 3);
		take_event(&pair.a);
		assert_true(clock_now() - before >= 20000 * VBN_MICROSECOND);
		drain(&pair.a, 3);
	}
	pair_close(&pair);
}

/* Nobody polls: the helper raises it. */
static void by_time_over_self(void **state)
{
	(void)state;
	by_time(&over_self);
}

static void by_time_over_udp(void **state)
{
	(void)state;
	by_time(&over_udp);
}

/* A thread that blocks on the channel counts the time itself. */
static void by_time_for_one_who_blocks(void **state)
{
	struct event event;
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_udp);
	assert_int_equal(engine_cq_moderate(pair.a.cq, 60, 3000), 0);
	for (int round = 0; round < 20; round++) {
		assert_int_equal(engine_cq_arm(pair.a.cq, false), 0);
		write_to_peer(&pair, 2);
		assert_int_equal(deputy_pop(pair.a.engine, pair.a.channel, &event, NULL), 0);
		assert_ptr_equal(event.object, &pair.a);
		drain(&pair.a, 2);
	}
	pair_close(&pair);
}

static void by_time_while_another_cq_is_polled(void **state)
{
	vbn_time give_up = clock_now() + 10 * VBN_SECOND;
	struct ibv_wc wc;
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_self);
	assert_int_equal(engine_cq_moderate(pair.a.cq, 60, 2000), 0);
	assert_int_equal(engine_cq_arm(pair.a.cq, false), 0);
	write_to_peer(&pair, 1);
	while (!has_event(&pair.a, 0) && clock_now() < give_up)
		assert_int_equal(engine_cq_poll(pair.b.cq, 1, &wc), 0);
	take_event(&pair.a);
	drain(&pair.a, 1);
	pair_close(&pair);
}

static void switched_off_while_it_waits(void **state)
{
	static const uint32_t off[][2] = {{0, LONG_US}, {4, 0}, {1, LONG_US}, {2, LONG_US}};
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_self);
	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		assert_int_equal(engine_cq_moderate(pair.a.cq, 4, LONG_US), 0);
		assert_int_equal(engine_cq_arm(pair.a.cq, false), 0);
		write_to_peer(&pair, 2);
		assert_int_equal(engine_cq_moderate(pair.a.cq, off[i][0], off[i][1]), 0);
		take_event(&pair.a);
		drain(&pair.a, 2);
	}
	assert_int_equal(engine_cq_moderate(pair.a.cq, 0, 0), 0);
	assert_int_equal(engine_cq_arm(pair.a.cq, false), 0);
	write_to_peer(&pair, 1);
	take_event(&pair.a);
	drain(&pair.a, 1);
	pair_close(&pair);
}

static void failures_are_told_at_once(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	vbn_time before;
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_self);
	side_post_recv(&pair.a, pair.a.qp, 7, 0, 64);
	assert_int_equal(engine_cq_moderate(pair.a.cq, 4, LONG_US), 0);
	assert_int_equal(engine_cq_arm(pair.a.cq, false), 0);
	before = clock_now();
	assert_int_equal(engine_qp_modify(pair.a.qp, &attr, IBV_QP_STATE), 0);
	take_event(&pair.a);
	assert_true(clock_now() - before < LONG_US * VBN_MICROSECOND);
	pair_close(&pair);
}

/* Its time is over in the very moment in which it is destroyed, or before, or never. */
static void a_cq_goes_while_its_time_runs(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_self);
	for (uint32_t round = 0; round < 400; round++) {
		struct engine_cq *cq;
		struct engine_qp *qp, *peer;
		int object;

		assert_int_equal(
			engine_cq_create(pair.a.engine, 8, pair.a.channel, NULL, &object, &cq), 0);
		qp = side_new_qp_on(&pair.a, &pair.settings, cq);
		peer = side_new_qp(&pair.b, &pair.settings);
		side_connect(&pair.a, qp, &pair.b, engine_qp_number(peer), &pair.settings);
		side_connect(&pair.b, peer, &pair.a, engine_qp_number(qp), &pair.settings);
		assert_int_equal(engine_cq_moderate(cq, 4, 1 + round % 90), 0);
		assert_int_equal(engine_cq_arm(cq, false), 0);
		side_post(&pair.a, qp, IBV_WR_RDMA_WRITE, 1, 0, 16, &pair.b, 0);
		assert_int_equal(engine_qp_destroy(qp), 0);
		assert_int_equal(engine_cq_destroy(cq), 0);
		assert_int_equal(engine_qp_destroy(peer), 0);
	}
	assert_false(has_event(&pair.a, 0));
	pair_close(&pair);
}

struct modifier {
	struct pair *pair;
	atomic_bool must_stop;
};

static void *modify_on(void *argument)
{
	struct modifier *modifier = argument;

	for (uint32_t i = 0; !atomic_load(&modifier->must_stop); i++)
		assert_int_equal(engine_cq_moderate(modifier->pair->a.cq, i % 5, i % 7), 0);
	return NULL;
}

/* Whatever the moderation is at a moment, no event is lost for good. */
static void changed_under_traffic(void **state)
{
	struct modifier modifier = {0};
	struct event event;
	struct pair pair;
	pthread_t thread;

	(void)state;
	pair_open(&pair, &over_udp);
	modifier.pair = &pair;
	assert_int_equal(pthread_create(&thread, NULL, modify_on, &modifier), 0);
	for (int round = 0; round < 500; round++) {
		assert_int_equal(engine_cq_arm(pair.a.cq, false), 0);
		write_to_peer(&pair, 1 + (uint32_t)round % 3);
		assert_int_equal(deputy_pop(pair.a.engine, pair.a.channel, &event, NULL), 0);
		drain(&pair.a, 1 + (uint32_t)round % 3);
	}
	atomic_store(&modifier.must_stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_count),
		cmocka_unit_test(by_time_over_self),
		cmocka_unit_test(by_time_over_udp),
		cmocka_unit_test(by_time_for_one_who_blocks),
		cmocka_unit_test(by_time_while_another_cq_is_polled),
		cmocka_unit_test(switched_off_while_it_waits),
		cmocka_unit_test(failures_are_told_at_once),
		cmocka_unit_test(a_cq_goes_while_its_time_runs),
		cmocka_unit_test(changed_under_traffic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
