/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner lets go, in each state: what the peer is told, that the owner hears nothing but GONE,
 * and that GONE comes when nothing has to be answered any more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cm/bench.h"

static void release(struct bench *bench, struct cm_connection *connection)
{
	cm_release(&bench->agent, connection, bench->now, bench_next(bench));
}

static void gone_at_once(struct bench *bench, struct cm_connection *connection)
{
	expect_event(bench, connection, CM_EVENT_GONE, 0);
	expect_end(bench);
	expect_no_deadline(bench);
	assert_int_equal(bench->agent.connection_count, 0);
	assert_null(cm_find(&bench->agent, connection->local_id));
}

static void gone_in_time(struct bench *bench, struct cm_connection *connection)
{
	expect_end(bench);
	assert_int_equal(bench->agent.connection_count, 1);
	bench_deadline(bench);
	gone_at_once(bench, connection);
}

static void nothing_under_way(void **state)
{
	static const enum cm_state states[] = {CM_IDLE, CM_CLOSED};
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	for (int i = 0; i < 2; i++) {
		bench_begin(&bench);
		connection = bench_active(&bench, states[i]);
		release(&bench, connection);
		gone_at_once(&bench, connection);
	}
}

static void request_is_withdrawn(void **state)
{
	struct cm_connection *connection;
	struct cm_message rej, rep;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_active(&bench, CM_REQ_SENT);
	rep = peer_says(connection, CM_REP);
	release(&bench, connection);
	rej = expect_datagram(&bench, CM_REJ);
	assert_int_equal(rej.rej.reason, CM_REJECT_TIMEOUT);
	assert_int_equal(rej.info_bytes, 8);
	gone_at_once(&bench, connection);
	/* The REP that crossed it is told that there is nobody. */
	assert_int_equal(bench_hear(&bench, &rep), REASON_DROP_CM_ID);
	assert_int_equal(expect_datagram(&bench, CM_REJ).rej.reason, CM_REJECT_COMM_ID);
}

static void request_is_turned_away(void **state)
{
	struct cm_message req = peer_req();
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_REQ_RCVD);
	release(&bench, connection);
	assert_int_equal(expect_datagram(&bench, CM_REJ).rej.reason, CM_REJECT_CONSUMER);
	bench_hear(&bench, &req);
	assert_int_equal(expect_datagram(&bench, CM_REJ).rej.reason, CM_REJECT_CONSUMER);
	gone_in_time(&bench, connection);
}

static void half_a_connection_is_turned_away(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		struct cm_connection *connection;
		struct bench bench;

		bench_begin(&bench);
		connection = side ? bench_active(&bench, CM_REP_RCVD)
				  : bench_passive(&bench, CM_REP_SENT);
		release(&bench, connection);
		assert_int_equal(expect_datagram(&bench, CM_REJ).rej.reason, CM_REJECT_CONSUMER);
		gone_in_time(&bench, connection);
	}
}

/* The DREQ of a connection that nobody owns any more is repeated as ever. */
static void connection_is_taken_down(void **state)
{
	struct cm_connection *connection;
	struct cm_message drep;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_active(&bench, CM_ESTABLISHED);
	release(&bench, connection);
	expect_datagram(&bench, CM_DREQ);
	for (int i = 0; i < 3; i++) {
		bench_deadline(&bench);
		expect_datagram(&bench, CM_DREQ);
	}
	drep = peer_says(connection, CM_DREP);
	assert_int_equal(bench_hear(&bench, &drep), REASON_NONE);
	gone_in_time(&bench, connection);
}

static void what_is_over_is_waited_for(void **state)
{
	static const enum cm_state states[] = {CM_TIMEWAIT, CM_REFUSED};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct cm_connection *connection;
		struct bench bench;

		bench_begin(&bench);
		connection = bench_passive(&bench, states[i]);
		release(&bench, connection);
		gone_in_time(&bench, connection);
	}
}

/* Between DREQ and DREP. The peer that never answers is given up, too. */
static void half_a_farewell(void **state)
{
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_active(&bench, CM_DREQ_SENT);
	release(&bench, connection);
	for (int i = 0; i < 15; i++) {
		bench_deadline(&bench);
		expect_datagram(&bench, CM_DREQ);
	}
	bench_deadline(&bench);
	gone_in_time(&bench, connection);
}

/* A stale connection without owner is torn down like any other. */
static void nobodys_connection_is_stale(void **state)
{
	struct cm_message req = peer_req();
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_DREQ_SENT);
	release(&bench, connection);
	req.local_id++;
	bench_hear(&bench, &req);
	assert_int_equal(expect_datagram(&bench, CM_REJ).rej.reason, CM_REJECT_STALE);
	expect_end(&bench);
}

static void agent_forgets_without_a_word(void **state)
{
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	bench_active(&bench, CM_REQ_SENT);
	connection = bench_passive(&bench, CM_ESTABLISHED);
	cm_forget(&bench.agent, connection);
	cm_forget(&bench.agent, &bench.connections[0]);
	expect_end(&bench);
	expect_no_deadline(&bench);
	assert_int_equal(bench.agent.connection_count, 0);
	for (uint32_t i = 0; i < CM_TABLE_COUNT * BENCH_BUCKETS; i++)
		assert_null(bench.buckets[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_under_way),
		cmocka_unit_test(request_is_withdrawn),
		cmocka_unit_test(request_is_turned_away),
		cmocka_unit_test(half_a_connection_is_turned_away),
		cmocka_unit_test(connection_is_taken_down),
		cmocka_unit_test(what_is_over_is_waited_for),
		cmocka_unit_test(half_a_farewell),
		cmocka_unit_test(nobodys_connection_is_stale),
		cmocka_unit_test(agent_forgets_without_a_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
