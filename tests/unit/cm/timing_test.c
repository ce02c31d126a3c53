/* SPDX-License-Identifier: BSD-2-Clause */
/* When a connection repeats itself, how often, when it gives up, and how long it lingers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unit/cm/bench.h"

#define LINUX_WAIT (cm_exponent_ns(20) + 2 * cm_exponent_ns(18))

/* The @count-th repetition comes after @wait, with the same bytes as the first. */
static void repeats(struct bench *bench, enum cm_kind kind, uint32_t count, uint64_t wait)
{
	uint8_t first[MAD_BYTES];

	memcpy(first, bench->out.datagrams[0].bytes, MAD_BYTES);
	for (uint32_t i = 0; i < count; i++) {
		vbn_time before = bench->now;

		assert_int_equal(bench_deadline(bench) - before, wait);
		expect_datagram(bench, kind);
		assert_memory_equal(bench->out.datagrams[0].bytes, first, MAD_BYTES);
	}
}

static struct cm_connection *connects(struct bench *bench)
{
	struct cm_connection *connection = bench_new(bench);
	struct cm_message req = own_req();

	cm_connect(&bench->agent, connection, &bench->path, &req, bench->now, bench_next(bench));
	expect_datagram(bench, CM_REQ);
	return connection;
}

static void request_carries_its_times(void **state)
{
	struct cm_connection *connection;
	struct cm_message req;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_new(&bench);
	req = own_req();
	cm_connect(&bench.agent, connection, &bench.path, &req, bench.now, bench_next(&bench));
	req = expect_datagram(&bench, CM_REQ);
	assert_int_equal(req.transaction, 0x9900001001);
	assert_int_equal(req.local_id, connection->local_id);
	assert_int_equal(req.req.remote_response_timeout, 20);
	assert_int_equal(req.req.local_response_timeout, 20);
	assert_int_equal(req.req.max_cm_retries, 15);
	assert_int_equal(req.req.primary.ack_timeout, 19);
	assert_int_equal(req.req.qpn, OWN_QPN);
	assert_string_equal((const char *)req.private_data, "req");
}

/* As the kernel did it in captures/v4-cm-req-no-answer.pcap, until somebody stopped it. */
static void unanswered_request_is_given_up(void **state)
{
	struct cm_connection *connection;
	struct cm_message rej;
	struct bench bench;
	vbn_time before;

	(void)state;
	bench_begin(&bench);
	connection = connects(&bench);
	repeats(&bench, CM_REQ, 15, LINUX_WAIT);
	before = bench.now;
	assert_int_equal(bench_deadline(&bench) - before, LINUX_WAIT);
	rej = expect_datagram(&bench, CM_REJ);
	assert_int_equal(rej.rej.reason, CM_REJECT_TIMEOUT);
	assert_int_equal(rej.rej.about, CM_ABOUT_OTHER);
	assert_int_equal(rej.remote_id, 0);
	assert_int_equal(rej.info_bytes, 8);
	assert_memory_equal(rej.info, "\x50\x54\x00\xff\xfe\x77\x00\x02", 8);
	expect_event(&bench, connection, CM_EVENT_UNREACHABLE, 0);
	expect_end(&bench);
	expect_no_deadline(&bench);
	assert_int_equal(connection->state, CM_CLOSED);
}

static void the_program_says_how_often(void **state)
{
	struct cm_connection *connection;
	struct cm_message req = own_req();
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_new(&bench);
	connection->timing.retries = 2;
	connection->timing.response_timeout = 10;
	connection->timing.packet_lifetime = 5;
	cm_connect(&bench.agent, connection, &bench.path, &req, bench.now, bench_next(&bench));
	req = expect_datagram(&bench, CM_REQ);
	assert_int_equal(req.req.max_cm_retries, 2);
	assert_int_equal(req.req.local_response_timeout, 10);
	/* The ack delay of the device, 2^15, outweighs the path's 2^5. */
	assert_int_equal(req.req.primary.ack_timeout, 15);
	repeats(&bench, CM_REQ, 2, cm_exponent_ns(10) + 2 * cm_exponent_ns(5));
	bench_deadline(&bench);
	expect_datagram(&bench, CM_REJ);
	expect_event(&bench, connection, CM_EVENT_UNREACHABLE, 0);
}

/* After 1, 4, 16 and 64 ms, then as ever; the early ones use up no retries. */
static void early_repetitions(void **state)
{
	static const struct cm_timing timing = {
		.response_timeout = 14, /* 67 ms */
		.packet_lifetime = 12,	/* 17 ms */
		.retries = 1,
		.early_ns = VBN_MILLISECOND,
	};
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin_with(&bench, &timing);
	connection = connects(&bench);
	for (uint64_t wait = VBN_MILLISECOND; wait <= 64 * VBN_MILLISECOND; wait *= 4)
		repeats(&bench, CM_REQ, 1, wait);
	repeats(&bench, CM_REQ, 1, cm_exponent_ns(14) + 2 * cm_exponent_ns(12));
	bench_deadline(&bench);
	expect_datagram(&bench, CM_REJ);
	expect_event(&bench, connection, CM_EVENT_UNREACHABLE, 0);
}

/* The bench's peer, where nobody listens; then whether the same question comes again. */
static void hears_that_nobody_listens(struct bench *bench, const struct cm_connection *connection)
{
	struct cm_message rej = own_rej(CM_REJECT_SERVICE_ID);

	rej.remote_id = connection->local_id;
	rej.transaction = connection->transaction;
	assert_int_equal(bench_hear(bench, &rej), REASON_NONE);
}

static void hears_the_reply(struct bench *bench, struct cm_connection *connection)
{
	struct cm_message rep = peer_says(connection, CM_REP);

	rep.rep.qpn = PEER_QPN;
	rep.local_id = PEER_ID;
	bench_hear(bench, &rep);
	expect_event(bench, connection, CM_EVENT_RESPONSE, 0);
}

static const struct cm_timing patient = {
	.response_timeout = 20,
	.packet_lifetime = 18,
	.retries = 1,
	.early_ns = 100 * VBN_MILLISECOND,
	.listener_ns = 64 * VBN_MILLISECOND,
};

/* After 1, 1, 2, 4, 8, 16 and 32 ms. */
static void listener_that_does_not_come(void **state)
{
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin_with(&bench, &patient);
	connection = connects(&bench);
	hears_that_nobody_listens(&bench, connection);
	expect_end(&bench);
	repeats(&bench, CM_REQ, 1, VBN_MILLISECOND);
	for (uint64_t wait = VBN_MILLISECOND; wait <= 32 * VBN_MILLISECOND; wait *= 2) {
		hears_that_nobody_listens(&bench, connection);
		repeats(&bench, CM_REQ, 1, wait);
	}
	hears_that_nobody_listens(&bench, connection);
	expect_event(&bench, connection, CM_EVENT_REJECTED, CM_REJECT_SERVICE_ID);
	expect_end(&bench);
	expect_no_deadline(&bench);
}

/* Neither retries nor early repetitions are used up by asking again; a loss is a loss as ever. */
static void listener_that_is_late(void **state)
{
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin_with(&bench, &patient);
	connection = connects(&bench);
	for (int i = 0; i < 3; i++) {
		hears_that_nobody_listens(&bench, connection);
		bench_deadline(&bench);
		expect_datagram(&bench, CM_REQ);
	}
	repeats(&bench, CM_REQ, 1, 100 * VBN_MILLISECOND);
	repeats(&bench, CM_REQ, 1, 400 * VBN_MILLISECOND);
	hears_the_reply(&bench, connection);
	expect_end(&bench);
}

/* A listener came between two REQs, and the answers take longer than that. */
static void refusal_of_an_earlier_request(void **state)
{
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin_with(&bench, &patient);
	connection = connects(&bench);
	repeats(&bench, CM_REQ, 1, 100 * VBN_MILLISECOND);
	hears_that_nobody_listens(&bench, connection);
	expect_end(&bench);
	hears_the_reply(&bench, connection);
	expect_end(&bench);
}

/* Patience ends with the answer to the last REQ. */
static void refusal_of_all_requests(void **state)
{
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin_with(&bench, &patient);
	connection = connects(&bench);
	repeats(&bench, CM_REQ, 1, 100 * VBN_MILLISECOND);
	hears_that_nobody_listens(&bench, connection);
	expect_end(&bench);
	hears_that_nobody_listens(&bench, connection);
	expect_event(&bench, connection, CM_EVENT_REJECTED, CM_REJECT_SERVICE_ID);
	expect_end(&bench);
	expect_no_deadline(&bench);
}

/* Or as long a time after it; a peer that heard the last one after all is told. */
static void refusal_and_then_silence(void **state)
{
	struct cm_connection *connection;
	struct cm_message rej;
	struct bench bench;
	vbn_time before;

	(void)state;
	bench_begin_with(&bench, &patient);
	connection = connects(&bench);
	repeats(&bench, CM_REQ, 1, 100 * VBN_MILLISECOND);
	before = bench.now;
	hears_that_nobody_listens(&bench, connection);
	assert_int_equal(bench_deadline(&bench) - before, 100 * VBN_MILLISECOND);
	rej = expect_datagram(&bench, CM_REJ);
	assert_int_equal(rej.rej.reason, CM_REJECT_TIMEOUT);
	expect_event(&bench, connection, CM_EVENT_REJECTED, CM_REJECT_SERVICE_ID);
	expect_end(&bench);
	expect_no_deadline(&bench);
}

/* Other refusals are meant. */
static void refusal_by_a_program_is_told(void **state)
{
	struct cm_connection *connection;
	struct cm_message rej = own_rej(CM_REJECT_CONSUMER);
	struct bench bench;

	(void)state;
	bench_begin_with(&bench, &patient);
	connection = connects(&bench);
	rej.remote_id = connection->local_id;
	bench_hear(&bench, &rej);
	expect_event(&bench, connection, CM_EVENT_REJECTED, CM_REJECT_CONSUMER);
	expect_end(&bench);
}

/* The passive side waits as the REQ says. */
static void unanswered_reply_is_given_up(void **state)
{
	struct cm_connection *connection;
	struct cm_message req = peer_req(), rep = own_rep(), rej;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	req.req.local_response_timeout = 12;
	req.req.primary.ack_timeout = 9;
	req.req.max_cm_retries = 3;
	bench_hear(&bench, &req);
	connection = bench_newest(&bench);
	expect_event(&bench, connection, CM_EVENT_REQUEST, 0);
	cm_accept(&bench.agent, connection, &rep, bench.now, bench_next(&bench));
	expect_datagram(&bench, CM_REP);
	repeats(&bench, CM_REP, 3, cm_exponent_ns(12) + 2 * cm_exponent_ns(8));
	bench_deadline(&bench);
	rej = expect_datagram(&bench, CM_REJ);
	assert_int_equal(rej.rej.reason, CM_REJECT_TIMEOUT);
	assert_int_equal(rej.remote_id, PEER_ID);
	expect_event(&bench, connection, CM_EVENT_CONNECT_ERROR, 0);
	assert_int_equal(connection->state, CM_TIMEWAIT);
	/* A repeated REQ or an RTU that is late finds it over. */
	bench_hear(&bench, &req);
	assert_int_equal(expect_datagram(&bench, CM_REJ).rej.reason, CM_REJECT_TIMEOUT);
	bench_deadline(&bench);
	expect_event(&bench, connection, CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_end(&bench);
}

static void unanswered_disconnect_is_given_up(void **state)
{
	struct cm_connection *connection;
	struct cm_message dreq = {.kind = CM_DREQ, .private_bytes = 4, .private_data = "bye"};
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_active(&bench, CM_ESTABLISHED);
	cm_disconnect(&bench.agent, connection, &dreq, bench.now, bench_next(&bench));
	assert_string_equal((const char *)expect_datagram(&bench, CM_DREQ).private_data, "bye");
	repeats(&bench, CM_DREQ, 15, LINUX_WAIT);
	bench_deadline(&bench);
	expect_event(&bench, connection, CM_EVENT_DISCONNECTED, CM_REJECT_TIMEOUT);
	expect_end(&bench);
	assert_int_equal(connection->state, CM_TIMEWAIT);
}

/* What a REQ claims is bounded: nobody makes us wait for hours. */
static void claims_are_bounded(void **state)
{
	struct cm_connection *connection;
	struct cm_message req = peer_req(), rep = own_rep(), rtu, dreq;
	struct bench bench;
	vbn_time before;

	(void)state;
	bench_begin(&bench);
	req.req.local_response_timeout = 31;
	req.req.remote_response_timeout = 31;
	req.req.primary.ack_timeout = 31;
	bench_hear(&bench, &req);
	connection = bench_newest(&bench);
	expect_event(&bench, connection, CM_EVENT_REQUEST, 0);
	cm_accept(&bench.agent, connection, &rep, bench.now, bench_next(&bench));
	expect_datagram(&bench, CM_REP);
	repeats(&bench, CM_REP, 1, cm_exponent_ns(24) + 2 * cm_exponent_ns(23));
	rtu = peer_says(connection, CM_RTU);
	bench_hear(&bench, &rtu);
	expect_event(&bench, connection, CM_EVENT_ESTABLISHED, 0);
	dreq = peer_says(connection, CM_DREQ);
	bench_hear(&bench, &dreq);
	expect_datagram(&bench, CM_DREP);
	expect_event(&bench, connection, CM_EVENT_DISCONNECTED, 0);
	before = bench.now;
	assert_int_equal(bench_deadline(&bench) - before, cm_exponent_ns(24));
	expect_event(&bench, connection, CM_EVENT_TIMEWAIT_EXIT, 0);
}

/* Nor does a REP: an ack delay of 2^31 would be three hours of timewait. */
static void ack_delay_is_bounded(void **state)
{
	struct cm_connection *connection;
	struct cm_message rep, dreq;
	struct bench bench;
	vbn_time before;

	(void)state;
	bench_begin(&bench);
	connection = bench_active(&bench, CM_REQ_SENT);
	rep = peer_says(connection, CM_REP);
	rep.rep.target_ack_delay = 31;
	bench_hear(&bench, &rep);
	expect_event(&bench, connection, CM_EVENT_RESPONSE, 0);
	cm_confirm(&bench.agent, connection, NULL, bench.now, bench_next(&bench));
	expect_datagram(&bench, CM_RTU);
	expect_event(&bench, connection, CM_EVENT_ESTABLISHED, 0);
	dreq = peer_says(connection, CM_DREQ);
	bench_hear(&bench, &dreq);
	expect_datagram(&bench, CM_DREP);
	expect_event(&bench, connection, CM_EVENT_DISCONNECTED, 0);
	before = bench.now;
	assert_int_equal(bench_deadline(&bench) - before, cm_exponent_ns(24));
	expect_event(&bench, connection, CM_EVENT_TIMEWAIT_EXIT, 0);
}

/* 2.1 seconds with what Linux assumes, on both sides. */
static void timewait_is_that_of_the_path(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		struct cm_connection *connection;
		struct bench bench;
		vbn_time before;

		bench_begin(&bench);
		connection = side ? bench_active(&bench, CM_TIMEWAIT)
				  : bench_passive(&bench, CM_TIMEWAIT);
		before = bench.now;
		assert_int_equal(bench_deadline(&bench) - before, cm_exponent_ns(19));
		expect_event(&bench, connection, CM_EVENT_TIMEWAIT_EXIT, 0);
		expect_end(&bench);
		expect_no_deadline(&bench);
	}
}

/* --- MRA --- */

/* Repetitions go on, but the retries begin only when the time is over that was asked for. */
static void patience_uses_no_retries(void **state)
{
	uint64_t patience = cm_exponent_ns(24) + 2 * cm_exponent_ns(18);
	struct cm_connection *connection;
	struct cm_message mra;
	struct bench bench;
	uint32_t repeated = 0;
	vbn_time heard;

	(void)state;
	bench_begin(&bench);
	connection = bench_active(&bench, CM_REQ_SENT);
	mra = peer_says(connection, CM_MRA);
	assert_int_equal(bench_hear(&bench, &mra), REASON_NONE);
	expect_end(&bench);
	heard = bench.now;
	while (connection->state == CM_REQ_SENT) {
		bench_deadline(&bench);
		repeated += bench.out.event_count == 0;
		bench.datagrams_seen = bench.out.datagram_count;
	}
	expect_event(&bench, connection, CM_EVENT_UNREACHABLE, 0);
	assert_int_equal(repeated, (patience - 1) / LINUX_WAIT + 15);
	assert_true(bench.now - heard >= patience + 15 * LINUX_WAIT);
}

/* Who asks for patience again and again gets so much of it and no more. */
static void patience_has_an_end(void **state)
{
	uint64_t asked = cm_exponent_ns(22) + 2 * cm_exponent_ns(18);
	struct cm_connection *connection;
	struct cm_message mra;
	struct bench bench;
	vbn_time begun;

	(void)state;
	bench_begin(&bench);
	connection = bench_active(&bench, CM_REQ_SENT);
	begun = bench.now;
	mra = peer_says(connection, CM_MRA);
	mra.mra.service_timeout = 22;
	while (connection->state == CM_REQ_SENT) {
		bench_hear(&bench, &mra);
		bench_deadline(&bench);
		bench.datagrams_seen = bench.out.datagram_count;
		assert_true(bench.now < begun + CM_PATIENCE_COUNT * asked + 17 * LINUX_WAIT);
	}
	assert_true(bench.now >= begun + CM_PATIENCE_COUNT * asked + 15 * LINUX_WAIT);
	expect_event(&bench, connection, CM_EVENT_UNREACHABLE, 0);
}

static void patience_with_the_ready_message(void **state)
{
	struct cm_connection *connection;
	struct cm_message mra, rtu;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_REP_SENT);
	mra = peer_says(connection, CM_MRA);
	mra.mra.about = CM_ABOUT_REQ;
	assert_int_equal(bench_hear(&bench, &mra), REASON_DROP_CM_STATE);
	mra.mra.about = CM_ABOUT_REP;
	assert_int_equal(bench_hear(&bench, &mra), REASON_NONE);
	for (int i = 0; i < 10; i++) {
		bench_deadline(&bench);
		expect_datagram(&bench, CM_REP);
	}
	assert_int_equal(connection->retries_left, 15);
	rtu = peer_says(connection, CM_RTU);
	bench_hear(&bench, &rtu);
	expect_event(&bench, connection, CM_EVENT_ESTABLISHED, 0);
}

static void program_asks_for_patience(void **state)
{
	struct cm_message asks = {.kind = CM_MRA, .mra.service_timeout = 26}, sent;
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_REQ_RCVD);
	cm_mra(&bench.agent, connection, &asks, bench.now, bench_next(&bench));
	sent = expect_datagram(&bench, CM_MRA);
	assert_int_equal(sent.mra.about, CM_ABOUT_REQ);
	assert_int_equal(sent.mra.service_timeout, 26);
	/* And what is asked for once stays asked for. */
	sent = peer_req();
	bench_hear(&bench, &sent);
	assert_int_equal(expect_datagram(&bench, CM_MRA).mra.service_timeout, 26);
	bench_next(&bench);
	bench_begin(&bench);
	connection = bench_active(&bench, CM_REP_RCVD);
	cm_mra(&bench.agent, connection, NULL, bench.now, bench_next(&bench));
	sent = expect_datagram(&bench, CM_MRA);
	assert_int_equal(sent.mra.about, CM_ABOUT_REP);
	assert_int_equal(sent.mra.service_timeout, 24);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_carries_its_times),
		cmocka_unit_test(unanswered_request_is_given_up),
		cmocka_unit_test(the_program_says_how_often),
		cmocka_unit_test(early_repetitions),
		cmocka_unit_test(listener_that_does_not_come),
		cmocka_unit_test(listener_that_is_late),
		cmocka_unit_test(refusal_of_an_earlier_request),
		cmocka_unit_test(refusal_of_all_requests),
		cmocka_unit_test(refusal_and_then_silence),
		cmocka_unit_test(refusal_by_a_program_is_told),
		cmocka_unit_test(unanswered_reply_is_given_up),
		cmocka_unit_test(unanswered_disconnect_is_given_up),
		cmocka_unit_test(claims_are_bounded),
		cmocka_unit_test(ack_delay_is_bounded),
		cmocka_unit_test(timewait_is_that_of_the_path),
		cmocka_unit_test(patience_uses_no_retries),
		cmocka_unit_test(patience_has_an_end),
		cmocka_unit_test(patience_with_the_ready_message),
		cmocka_unit_test(program_asks_for_patience),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
