/* SPDX-License-Identifier: BSD-2-Clause */
/* Established connections that ask whether their peer still knows them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cm/bench.h"

#define WATCH_NS (16 * VBN_SECOND)

static struct cm_connection *begin(struct bench *bench, bool is_passive)
{
	struct cm_timing timing = CM_TIMING_LINUX;

	timing.watch_ns = WATCH_NS;
	bench_begin_with(bench, &timing);
	return is_passive ? bench_passive(bench, CM_ESTABLISHED)
			  : bench_active(bench, CM_ESTABLISHED);
}

static void asks(struct bench *bench, const struct cm_connection *connection, uint64_t after)
{
	vbn_time before = bench->now;
	struct cm_message lap;

	assert_int_equal(bench_deadline(bench) - before, after);
	lap = expect_datagram(bench, CM_LAP);
	assert_int_equal(lap.local_id, connection->local_id);
	assert_int_equal(lap.remote_id, PEER_ID);
	expect_end(bench);
	assert_int_equal(connection->state, CM_ESTABLISHED);
}

static enum reason answers(struct bench *bench, const struct cm_connection *connection,
			   uint8_t status)
{
	struct cm_message apr = peer_says(connection, CM_APR);

	apr.apr.status = status;
	return bench_hear(bench, &apr);
}

static void who_answers_is_asked_for_ever(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		struct bench bench;
		struct cm_connection *connection = begin(&bench, side);

		asks(&bench, connection, WATCH_NS / 16);
		for (int i = 0; i < 100; i++) {
			assert_int_equal(answers(&bench, connection, CM_APR_UNSUPPORTED),
					 REASON_NONE);
			expect_end(&bench);
			asks(&bench, connection, WATCH_NS);
		}
	}
}

static void who_stopped_answering_is_dead(void **state)
{
	struct bench bench;
	struct cm_connection *connection = begin(&bench, true);
	vbn_time before;

	(void)state;
	asks(&bench, connection, WATCH_NS / 16);
	answers(&bench, connection, CM_APR_UNSUPPORTED);
	for (int i = 0; i < CM_WATCH_TRIES; i++)
		asks(&bench, connection, WATCH_NS);
	before = bench.now;
	assert_int_equal(bench_deadline(&bench) - before, WATCH_NS);
	expect_event(&bench, connection, CM_EVENT_DISCONNECTED, CM_REJECT_TIMEOUT);
	expect_end(&bench);
	assert_int_equal(connection->state, CM_TIMEWAIT);
}

/* One answer is enough, however late. */
static void one_answer_counts(void **state)
{
	struct bench bench;
	struct cm_connection *connection = begin(&bench, false);

	(void)state;
	asks(&bench, connection, WATCH_NS / 16);
	answers(&bench, connection, CM_APR_UNSUPPORTED);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < CM_WATCH_TRIES; i++)
			asks(&bench, connection, WATCH_NS);
		assert_int_equal(answers(&bench, connection, CM_APR_UNSUPPORTED), REASON_NONE);
	}
	asks(&bench, connection, WATCH_NS);
}

/* As Linux does. It may still come to answer later, by another program at the address. */
static void who_never_answered_is_left_alone(void **state)
{
	struct bench bench;
	struct cm_connection *connection = begin(&bench, true);

	(void)state;
	asks(&bench, connection, WATCH_NS / 16);
	for (int i = 1; i < CM_WATCH_TRIES_FIRST; i++)
		asks(&bench, connection, WATCH_NS);
	bench_deadline(&bench);
	expect_end(&bench);
	expect_no_deadline(&bench);
	assert_int_equal(connection->state, CM_ESTABLISHED);
	assert_int_equal(answers(&bench, connection, CM_APR_UNSUPPORTED), REASON_NONE);
	asks(&bench, connection, WATCH_NS);
}

static void who_does_not_know_it_ends_it(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		struct bench bench;
		struct cm_connection *connection = begin(&bench, side);

		/* Not asked: not believed. */
		assert_int_equal(answers(&bench, connection, CM_APR_COMM_ID), REASON_DROP_CM_STATE);
		expect_end(&bench);
		asks(&bench, connection, WATCH_NS / 16);
		assert_int_equal(answers(&bench, connection, CM_APR_COMM_ID), REASON_NONE);
		expect_event(&bench, connection, CM_EVENT_DISCONNECTED, CM_REJECT_COMM_ID);
		expect_end(&bench);
		assert_int_equal(connection->state, CM_TIMEWAIT);
	}
}

static void is_told(struct bench *bench, const struct cm_connection *connection, uint8_t status)
{
	struct cm_message lap = peer_says(connection, CM_LAP), apr;

	bench_hear(bench, &lap);
	apr = expect_datagram(bench, CM_APR);
	expect_end(bench);
	assert_int_equal(apr.apr.status, status);
}

/* A peer that missed its end must not be left to believe in it. */
static void what_is_over_is_not_known(void **state)
{
	static const enum cm_state known[] = {CM_REP_SENT, CM_ESTABLISHED, CM_DREQ_SENT};
	static const enum cm_state over[] = {CM_TIMEWAIT, CM_REFUSED};
	struct bench bench;

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		bench_begin(&bench);
		is_told(&bench, bench_passive(&bench, known[i]), CM_APR_UNSUPPORTED);
	}
	for (size_t i = 0; i < sizeof(over) / sizeof(over[0]); i++) {
		bench_begin(&bench);
		is_told(&bench, bench_passive(&bench, over[i]), CM_APR_COMM_ID);
	}
	bench_begin(&bench);
	is_told(&bench, bench_active(&bench, CM_CLOSED), CM_APR_COMM_ID);
}

static void strangers_answer_nothing(void **state)
{
	struct bench bench;
	struct cm_connection *connection = begin(&bench, true);
	struct cm_path elsewhere = bench.path;
	struct cm_message apr;

	(void)state;
	asks(&bench, connection, WATCH_NS / 16);
	apr = peer_says(connection, CM_APR);
	apr.apr.status = CM_APR_COMM_ID;
	elsewhere.remote_gid[15] ^= 1;
	assert_int_equal(bench_hear_from(&bench, &elsewhere, &apr), REASON_DROP_SOURCE);
	expect_end(&bench);
	apr.local_id ^= 1;
	assert_int_equal(bench_hear(&bench, &apr), REASON_DROP_CM_ID);
	expect_end(&bench);
	assert_int_equal(connection->state, CM_ESTABLISHED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_answers_is_asked_for_ever),
		cmocka_unit_test(who_stopped_answering_is_dead),
		cmocka_unit_test(one_answer_counts),
		cmocka_unit_test(who_never_answered_is_left_alone),
		cmocka_unit_test(who_does_not_know_it_ends_it),
		cmocka_unit_test(what_is_over_is_not_known),
		cmocka_unit_test(strangers_answer_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
