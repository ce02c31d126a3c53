/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer is known to be dead, in each state: what the owner is told at once, that nothing is
 * sent, and what is still waited for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cm/bench.h"

struct row {
	bool is_passive;
	enum cm_state state, then;
	enum cm_event_kind kind;
	uint16_t reason;
};

static const struct row rows[] = {
	{false, CM_REQ_SENT, CM_CLOSED, CM_EVENT_UNREACHABLE, 0},
	{true, CM_REQ_RCVD, CM_REFUSED, CM_EVENT_REJECTED, CM_REJECT_TIMEOUT},
	{true, CM_REP_SENT, CM_TIMEWAIT, CM_EVENT_REJECTED, CM_REJECT_COMM_ID},
	{false, CM_REP_RCVD, CM_TIMEWAIT, CM_EVENT_REJECTED, CM_REJECT_COMM_ID},
	{false, CM_ESTABLISHED, CM_TIMEWAIT, CM_EVENT_DISCONNECTED, 0},
	{true, CM_ESTABLISHED, CM_TIMEWAIT, CM_EVENT_DISCONNECTED, 0},
	{false, CM_DREQ_SENT, CM_TIMEWAIT, CM_EVENT_DISCONNECTED, 0},
	{true, CM_DREQ_SENT, CM_TIMEWAIT, CM_EVENT_DISCONNECTED, 0},
};

/* Nothing is to be heard any more, or it was told already. */
static const struct row over[] = {
	{.state = CM_IDLE},
	{.state = CM_TIMEWAIT},
	{.state = CM_CLOSED},
	{.is_passive = true, .state = CM_TIMEWAIT},
	{.is_passive = true, .state = CM_REFUSED},
};

static struct cm_connection *begin(struct bench *bench, const struct row *row)
{
	bench_begin(bench);
	return row->is_passive ? bench_passive(bench, row->state) : bench_active(bench, row->state);
}

static void ends(struct bench *bench, struct cm_connection *connection, enum cm_state then)
{
	if (then == CM_CLOSED) {
		expect_no_deadline(bench);
		return;
	}
	bench_deadline(bench);
	if (then == CM_TIMEWAIT)
		expect_event(bench, connection, CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_end(bench);
	assert_int_equal(connection->state, CM_CLOSED);
	expect_no_deadline(bench);
}

static void owner_is_told_at_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cm_connection *connection;
		struct bench bench;

		connection = begin(&bench, &rows[i]);
		for (int again = 0; again < 2; again++) {
			cm_peer_died(&bench.agent, connection, bench.now, bench_next(&bench));
			if (!again)
				expect_event(&bench, connection, rows[i].kind, rows[i].reason);
			expect_end(&bench);
			assert_int_equal(connection->state, rows[i].then);
		}
		ends(&bench, connection, rows[i].then);
	}
}

static void nothing_is_told_twice(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(over) / sizeof(over[0]); i++) {
		struct cm_connection *connection;
		struct bench bench;

		connection = begin(&bench, &over[i]);
		cm_peer_died(&bench.agent, connection, bench.now, bench_next(&bench));
		expect_end(&bench);
		assert_int_equal(connection->state, over[i].state);
	}
}

/* Its owner let it go while it waits for the answer to its DREQ: that wait is over. */
static void nobody_is_told(void **state)
{
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_active(&bench, CM_ESTABLISHED);
	cm_release(&bench.agent, connection, bench.now, bench_next(&bench));
	expect_datagram(&bench, CM_DREQ);
	cm_peer_died(&bench.agent, connection, bench.now, bench_next(&bench));
	expect_end(&bench);
	bench_deadline(&bench);
	expect_event(&bench, connection, CM_EVENT_GONE, 0);
	expect_no_deadline(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owner_is_told_at_once),
		cmocka_unit_test(nothing_is_told_twice),
		cmocka_unit_test(nobody_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
