/* SPDX-License-Identifier: BSD-2-Clause */
/* Asking for the QP of a datagram service, and being asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unit/cm/bench.h"

static struct cm_connection *asks(struct bench *bench)
{
	struct cm_connection *connection = bench_new(bench);
	struct cm_message req = own_sidr_req(), sent;

	assert_int_equal(cm_sidr_query(&bench->agent, connection, &bench->path, &req, bench->now,
				       bench_next(bench)),
			 0);
	sent = expect_datagram(bench, CM_SIDR_REQ);
	assert_int_equal(sent.local_id, connection->local_id);
	assert_int_equal(sent.sidr_req.service_id, SERVICE);
	assert_int_equal(sent.sidr_req.pkey, 0xffff);
	assert_string_equal((const char *)sent.private_data, "sidr");
	return connection;
}

static struct cm_connection *is_asked(struct bench *bench)
{
	struct cm_message req = peer_sidr_req();
	struct cm_event *event;

	assert_int_equal(bench_hear(bench, &req), REASON_NONE);
	event = expect_event(bench, bench_newest(bench), CM_EVENT_SIDR_REQUEST, 0);
	assert_string_equal((const char *)event->message.private_data, "peer's query");
	expect_end(bench);
	return bench_newest(bench);
}

static void answer_ends_a_query(void **state)
{
	struct cm_connection *connection;
	struct cm_message rep;
	struct cm_event *event;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = asks(&bench);
	rep = peer_says(connection, CM_SIDR_REP);
	assert_int_equal(bench_hear(&bench, &rep), REASON_NONE);
	event = expect_event(&bench, connection, CM_EVENT_SIDR_RESPONSE, CM_SIDR_SUCCESS);
	assert_int_equal(event->message.sidr_rep.qpn, PEER_QPN);
	assert_int_equal(event->message.sidr_rep.qkey, 0x01234567);
	expect_end(&bench);
	expect_no_deadline(&bench);
	/* Once. */
	assert_int_equal(bench_hear(&bench, &rep), REASON_DROP_CM_ID);
	expect_end(&bench);
	cm_release(&bench.agent, connection, bench.now, bench_next(&bench));
	expect_event(&bench, connection, CM_EVENT_GONE, 0);
}

static void refusal_ends_a_query(void **state)
{
	(void)state;
	for (uint8_t status = CM_SIDR_UNSUPPORTED; status <= CM_SIDR_UNSUPPORTED_VERSION;
	     status++) {
		struct cm_connection *connection;
		struct cm_message rep;
		struct bench bench;

		bench_begin(&bench);
		connection = asks(&bench);
		rep = peer_says(connection, CM_SIDR_REP);
		rep.sidr_rep.status = status;
		bench_hear(&bench, &rep);
		expect_event(&bench, connection, CM_EVENT_SIDR_RESPONSE, status);
		expect_end(&bench);
	}
}

static void listener_is_asked_for_again(void **state)
{
	static const struct cm_timing timing = {
		.response_timeout = 20,
		.packet_lifetime = 18,
		.listener_ns = 64 * VBN_MILLISECOND,
	};
	struct cm_connection *connection;
	struct cm_message rep;
	struct bench bench;
	vbn_time before;

	(void)state;
	bench_begin_with(&bench, &timing);
	connection = asks(&bench);
	rep = peer_says(connection, CM_SIDR_REP);
	rep.sidr_rep.status = CM_SIDR_UNSUPPORTED;
	bench_hear(&bench, &rep);
	before = bench.now;
	assert_int_equal(bench_deadline(&bench) - before, VBN_MILLISECOND);
	expect_datagram(&bench, CM_SIDR_REQ);
	bench.now += timing.listener_ns;
	bench_hear(&bench, &rep);
	expect_event(&bench, connection, CM_EVENT_SIDR_RESPONSE, CM_SIDR_UNSUPPORTED);
	expect_end(&bench);
}

static void query_is_repeated_and_given_up(void **state)
{
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = asks(&bench);
	for (int i = 0; i < 15; i++) {
		vbn_time before = bench.now;

		assert_int_equal(bench_deadline(&bench) - before,
				 cm_exponent_ns(20) + 2 * cm_exponent_ns(18));
		expect_datagram(&bench, CM_SIDR_REQ);
	}
	bench_deadline(&bench);
	expect_event(&bench, connection, CM_EVENT_UNREACHABLE, 0);
	expect_end(&bench);
}

static void answer_from_elsewhere_is_dropped(void **state)
{
	struct cm_connection *connection;
	struct cm_message rep;
	struct cm_path path;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = asks(&bench);
	path = bench.path;
	path.remote_gid[15]++;
	rep = peer_says(connection, CM_SIDR_REP);
	assert_int_equal(bench_hear_from(&bench, &path, &rep), REASON_DROP_SOURCE);
	rep.local_id++;
	assert_int_equal(bench_hear(&bench, &rep), REASON_DROP_CM_ID);
	expect_end(&bench);
	assert_int_equal(connection->state, CM_SIDR_SENT);
}

/* Messages of connections do not reach it, though it has an id like theirs. */
static void query_is_no_connection(void **state)
{
	struct cm_connection *connection;
	struct cm_message rep, dreq;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = asks(&bench);
	rep = peer_says(connection, CM_REP);
	assert_int_equal(bench_hear(&bench, &rep), REASON_DROP_CM_ID);
	assert_int_equal(expect_datagram(&bench, CM_REJ).rej.reason, CM_REJECT_COMM_ID);
	dreq = peer_says(connection, CM_DREQ);
	assert_int_equal(bench_hear(&bench, &dreq), REASON_DROP_CM_ID);
	expect_datagram(&bench, CM_DREP);
	expect_end(&bench);
	assert_int_equal(connection->state, CM_SIDR_SENT);
}

static void answers(struct bench *bench, struct cm_connection *connection, uint8_t status)
{
	struct cm_message rep = {
		.kind = CM_SIDR_REP,
		.sidr_rep = {.status = status, .qpn = OWN_QPN, .qkey = 0x01234567},
		.private_bytes = 4,
		.private_data = "ans",
	};
	struct cm_message sent;

	assert_int_equal(
		cm_sidr_answer(&bench->agent, connection, &rep, bench->now, bench_next(bench)), 0);
	sent = expect_datagram(bench, CM_SIDR_REP);
	assert_int_equal(sent.transaction, 0xbeef);
	assert_int_equal(sent.local_id, PEER_ID);
	assert_int_equal(sent.sidr_rep.status, status);
	assert_int_equal(sent.sidr_rep.service_id, SERVICE);
	assert_int_equal(sent.sidr_rep.qpn, OWN_QPN);
	assert_string_equal((const char *)sent.private_data, "ans");
}

/* Silence while the program thinks; then the same answer as often as somebody asks. */
static void question_is_answered_again(void **state)
{
	struct cm_message req = peer_sidr_req();
	struct cm_connection *connection;
	struct bench bench;
	uint8_t sent[MAD_BYTES];
	vbn_time last;

	(void)state;
	bench_begin(&bench);
	connection = is_asked(&bench);
	assert_int_equal(bench_hear(&bench, &req), REASON_DROP_DUPLICATE);
	expect_end(&bench);
	answers(&bench, connection, CM_SIDR_SUCCESS);
	memcpy(sent, bench.out.datagrams[0].bytes, MAD_BYTES);
	for (int i = 0; i < 5; i++) {
		bench.now += cm_exponent_ns(20) + 2 * cm_exponent_ns(18);
		assert_int_equal(bench_hear(&bench, &req), REASON_DROP_DUPLICATE);
		expect_datagram(&bench, CM_SIDR_REP);
		assert_memory_equal(bench.out.datagrams[0].bytes, sent, MAD_BYTES);
		expect_end(&bench);
	}
	last = bench.now;
	assert_true(bench_deadline(&bench) > last + cm_exponent_ns(20) + 2 * cm_exponent_ns(18));
	expect_end(&bench);
	assert_int_equal(connection->state, CM_CLOSED);
}

static void number_used_again_is_a_new_question(void **state)
{
	struct cm_message req = peer_sidr_req();
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = is_asked(&bench);
	answers(&bench, connection, CM_SIDR_SUCCESS);
	req.sidr_req.service_id++;
	assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
	expect_event(&bench, bench_newest(&bench), CM_EVENT_SIDR_REQUEST, 0);
	expect_end(&bench);
	/* The old one ends in its time all the same. */
	bench_deadline(&bench);
	assert_int_equal(connection->state, CM_CLOSED);
}

static void question_for_nobody_is_refused(void **state)
{
	struct cm_message req = peer_sidr_req(), rep;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	bench.refusal = CM_SIDR_UNSUPPORTED;
	assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
	rep = expect_datagram(&bench, CM_SIDR_REP);
	assert_int_equal(rep.sidr_rep.status, CM_SIDR_UNSUPPORTED);
	assert_int_equal(rep.local_id, PEER_ID);
	assert_int_equal(rep.sidr_rep.service_id, SERVICE);
	assert_int_equal(rep.transaction, 0xbeef);
	expect_end(&bench);
}

/* A connection request may have the same id: they are counted apart. */
static void question_and_request_do_not_meet(void **state)
{
	struct cm_message req = peer_req();
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	is_asked(&bench);
	assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
	expect_event(&bench, bench_newest(&bench), CM_EVENT_REQUEST, 0);
	expect_end(&bench);
}

static void owner_lets_go(void **state)
{
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = asks(&bench);
	cm_release(&bench.agent, connection, bench.now, bench_next(&bench));
	expect_event(&bench, connection, CM_EVENT_GONE, 0);
	expect_end(&bench);
	expect_no_deadline(&bench);
	bench_begin(&bench);
	connection = is_asked(&bench);
	cm_release(&bench.agent, connection, bench.now, bench_next(&bench));
	assert_int_equal(expect_datagram(&bench, CM_SIDR_REP).sidr_rep.status, CM_SIDR_REJECT);
	expect_end(&bench);
	bench_deadline(&bench);
	expect_event(&bench, connection, CM_EVENT_GONE, 0);
	assert_int_equal(bench.agent.connection_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answer_ends_a_query),
		cmocka_unit_test(refusal_ends_a_query),
		cmocka_unit_test(listener_is_asked_for_again),
		cmocka_unit_test(query_is_repeated_and_given_up),
		cmocka_unit_test(answer_from_elsewhere_is_dropped),
		cmocka_unit_test(query_is_no_connection),
		cmocka_unit_test(question_is_answered_again),
		cmocka_unit_test(number_used_again_is_a_new_question),
		cmocka_unit_test(question_for_nobody_is_refused),
		cmocka_unit_test(question_and_request_do_not_meet),
		cmocka_unit_test(owner_lets_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
