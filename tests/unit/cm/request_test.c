/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that arrive: new, repeated, stale, refused; what goes into the answers; and messages
 * that lie about where they come from.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unit/cm/bench.h"

static void request_is_told_with_all_it_says(void **state)
{
	struct cm_connection *connection;
	struct cm_message req = peer_req();
	struct cm_event *event;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
	connection = bench_newest(&bench);
	event = expect_event(&bench, connection, CM_EVENT_REQUEST, 0);
	assert_true(event->has_message);
	assert_int_equal(event->message.req.service_id, SERVICE);
	assert_string_equal((const char *)event->message.private_data, "peer's req");
	assert_int_equal(event->message.private_bytes, CM_REQ_PRIVATE_BYTES);
	expect_end(&bench);
	assert_true(connection->is_passive);
	assert_ptr_equal(connection->owner, &bench);
	assert_int_equal(connection->remote_id, PEER_ID);
	assert_int_equal(connection->remote_qpn, PEER_QPN);
	assert_memory_equal(&connection->path, &bench.path, sizeof(bench.path));
	expect_no_deadline(&bench);
}

static void reply_says_who_is_connected(void **state)
{
	struct cm_connection *connection;
	struct cm_message rep = own_rep(), sent;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_REQ_RCVD);
	assert_int_equal(cm_accept(&bench.agent, connection, &rep, bench.now, bench_next(&bench)),
			 0);
	sent = expect_datagram(&bench, CM_REP);
	assert_int_equal(sent.transaction, 0xbeef);
	assert_int_equal(sent.local_id, connection->local_id);
	assert_int_equal(sent.remote_id, PEER_ID);
	assert_int_equal(sent.rep.qpn, OWN_QPN);
	assert_int_equal(sent.rep.target_ack_delay, 15);
	assert_int_equal(sent.rep.ca_guid, OWN_GUID);
	assert_string_equal((const char *)sent.private_data, "rep");
	assert_int_equal(connection->local_qpn, OWN_QPN);
}

static void ready_message_is_told(void **state)
{
	struct cm_connection *connection;
	struct cm_message rtu;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_REP_SENT);
	rtu = peer_says(connection, CM_RTU);
	bench_hear(&bench, &rtu);
	assert_string_equal((const char *)expect_event(&bench, connection, CM_EVENT_ESTABLISHED, 0)
				    ->message.private_data,
			    "peer");
	expect_no_deadline(&bench);
}

static void data_instead_of_a_ready_message(void **state)
{
	struct cm_connection *connection;
	struct cm_message rtu;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_REP_SENT);
	assert_int_equal(cm_establish(&bench.agent, connection, bench.now, bench_next(&bench)), 0);
	assert_false(expect_event(&bench, connection, CM_EVENT_ESTABLISHED, 0)->has_message);
	expect_no_deadline(&bench);
	/* More data, and the RTU that was only late, say nothing new. */
	assert_int_equal(cm_establish(&bench.agent, connection, bench.now, bench_next(&bench)), 0);
	rtu = peer_says(connection, CM_RTU);
	assert_int_equal(bench_hear(&bench, &rtu), REASON_DROP_DUPLICATE);
	expect_end(&bench);
}

/* What was sent comes again byte by byte, whatever the program gave away since. */
static void repeated_request_gets_the_same_answer(void **state)
{
	struct cm_message req = peer_req();
	struct cm_connection *connection;
	struct bench bench;
	uint8_t sent[MAD_BYTES];

	(void)state;
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_REQ_RCVD);
	assert_int_equal(bench_hear(&bench, &req), REASON_DROP_DUPLICATE);
	assert_int_equal(expect_datagram(&bench, CM_MRA).mra.about, CM_ABOUT_REQ);
	memcpy(sent, bench.out.datagrams[0].bytes, MAD_BYTES);
	bench_hear(&bench, &req);
	assert_int_equal(expect_datagram(&bench, CM_MRA).mra.service_timeout, 24);
	assert_memory_equal(bench.out.datagrams[0].bytes, sent, MAD_BYTES);
	for (int round = 0; round < 2; round++) {
		struct cm_message rep = own_rep();

		if (round == 0) {
			cm_accept(&bench.agent, connection, &rep, bench.now, bench_next(&bench));
			expect_datagram(&bench, CM_REP);
			memcpy(sent, bench.out.datagrams[0].bytes, MAD_BYTES);
		}
		assert_int_equal(bench_hear(&bench, &req), REASON_DROP_DUPLICATE);
		expect_datagram(&bench, CM_REP);
		assert_memory_equal(bench.out.datagrams[0].bytes, sent, MAD_BYTES);
	}
	expect_end(&bench);
}

/* As often as it comes, and no longer than nobody asks any more. */
static void refused_request_is_refused_again(void **state)
{
	struct cm_message req = peer_req(), rej;
	struct cm_connection *connection;
	struct bench bench;
	vbn_time last;

	(void)state;
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_REFUSED);
	for (int round = 0; round < 20; round++) {
		bench.now += cm_exponent_ns(20) + 2 * cm_exponent_ns(18);
		assert_false(cm_deadline(&bench.agent, bench.now, bench_next(&bench)));
		assert_int_equal(bench_hear(&bench, &req), REASON_DROP_DUPLICATE);
		rej = expect_datagram(&bench, CM_REJ);
		assert_int_equal(rej.rej.reason, CM_REJECT_CONSUMER);
		assert_string_equal((const char *)rej.private_data, "rej");
		expect_end(&bench);
	}
	last = bench.now;
	assert_true(bench_deadline(&bench) - last > cm_exponent_ns(20) + 2 * cm_exponent_ns(18));
	expect_end(&bench);
	assert_int_equal(connection->state, CM_CLOSED);
	/* Now it is a request like any other. */
	assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
	expect_event(&bench, bench_newest(&bench), CM_EVENT_REQUEST, 0);
	expect_end(&bench);
}

static void refusal_says_what_it_is_about(void **state)
{
	struct cm_connection *connection;
	struct cm_message rej = own_rej(CM_REJECT_CONSUMER), req = peer_req(), sent;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_REQ_RCVD);
	cm_reject(&bench.agent, connection, &rej, bench.now, bench_next(&bench));
	sent = expect_datagram(&bench, CM_REJ);
	assert_int_equal(sent.rej.about, CM_ABOUT_REQ);
	assert_int_equal(sent.local_id, 0);
	assert_int_equal(sent.remote_id, PEER_ID);
	/* After an MRA the peer knows the id. */
	bench_next(&bench);
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_REQ_RCVD);
	bench_hear(&bench, &req);
	expect_datagram(&bench, CM_MRA);
	cm_reject(&bench.agent, connection, &rej, bench.now, bench_next(&bench));
	assert_int_equal(expect_datagram(&bench, CM_REJ).local_id, connection->local_id);
	bench_next(&bench);
	bench_begin(&bench);
	connection = bench_active(&bench, CM_REP_RCVD);
	cm_reject(&bench.agent, connection, &rej, bench.now, bench_next(&bench));
	assert_int_equal(expect_datagram(&bench, CM_REJ).rej.about, CM_ABOUT_REP);
	assert_int_equal(connection->state, CM_TIMEWAIT);
	/* The REP that crossed it is refused as before. */
	req = peer_says(connection, CM_REP);
	bench_hear(&bench, &req);
	expect_datagram(&bench, CM_REJ);
	bench_deadline(&bench);
	expect_event(&bench, connection, CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_end(&bench);
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_REP_SENT);
	cm_reject(&bench.agent, connection, &rej, bench.now, bench_next(&bench));
	assert_int_equal(expect_datagram(&bench, CM_REJ).rej.about, CM_ABOUT_OTHER);
	assert_int_equal(connection->state, CM_TIMEWAIT);
}

/* --- requests that nobody serves --- */

static void request_for_nobody_is_refused(void **state)
{
	struct cm_message req = peer_req(), rej;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	bench.refusal = CM_REJECT_SERVICE_ID;
	assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
	rej = expect_datagram(&bench, CM_REJ);
	assert_int_equal(rej.rej.reason, CM_REJECT_SERVICE_ID);
	assert_int_equal(rej.rej.about, CM_ABOUT_REQ);
	assert_int_equal(rej.transaction, 0xbeef);
	assert_int_equal(rej.local_id, 0);
	assert_int_equal(rej.remote_id, PEER_ID);
	expect_end(&bench);
	assert_int_equal(bench.agent.connection_count, 0);
}

static void refusal_may_be_silence(void **state)
{
	struct cm_message req = peer_req(), sidr = peer_sidr_req();
	struct cm_arrival arrival = {.message = &req};
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	arrival.path = bench.path;
	assert_int_equal(cm_receive(&bench.agent, &arrival, bench.now, bench_next(&bench)),
			 REASON_DROP_NO_ROOM);
	arrival.message = &sidr;
	assert_int_equal(cm_receive(&bench.agent, &arrival, bench.now, bench_next(&bench)),
			 REASON_DROP_NO_ROOM);
	expect_end(&bench);
}

/* Even if nobody listens any more: what was answered stays true. */
static void repeated_request_needs_no_listener(void **state)
{
	struct cm_message req = peer_req();
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	bench_passive(&bench, CM_REP_SENT);
	bench.refusal = CM_REJECT_SERVICE_ID;
	assert_int_equal(bench_hear(&bench, &req), REASON_DROP_DUPLICATE);
	expect_datagram(&bench, CM_REP);
	expect_end(&bench);
}

static void unsupported(uint8_t service_type, uint8_t extended_type)
{
	struct cm_message req = peer_req();
	struct bench bench;

	bench_begin(&bench);
	req.req.service_type = service_type;
	req.req.extended_type = extended_type;
	bench_hear(&bench, &req);
	assert_int_equal(expect_datagram(&bench, CM_REJ).rej.reason, CM_REJECT_SERVICE_TYPE);
	expect_end(&bench);
	assert_int_equal(bench.agent.connection_count, 0);
}

static void services_of_no_use_are_refused(void **state)
{
	(void)state;
	unsupported(CM_SERVICE_RD, 0);
	unsupported(CM_SERVICE_EXTENDED, 0);
	unsupported(CM_SERVICE_EXTENDED, 2);
}

static void unreliable_and_shared_connections_are_served(void **state)
{
	struct cm_message req = peer_req(), rep = own_rep(), dreq;
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	req.req.service_type = CM_SERVICE_UC;
	assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
	expect_event(&bench, bench_newest(&bench), CM_EVENT_REQUEST, 0);
	req.req.service_type = CM_SERVICE_EXTENDED;
	req.req.extended_type = CM_EXTENDED_XRC;
	req.local_id++;
	req.req.qpn++;
	assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
	connection = bench_newest(&bench);
	expect_event(&bench, connection, CM_EVENT_REQUEST, 0);
	/* The QP of XRC is in the place of the EE context. */
	rep.rep.qpn = 0;
	rep.rep.eecn = OWN_QPN;
	cm_accept(&bench.agent, connection, &rep, bench.now, bench_next(&bench));
	assert_int_equal(expect_datagram(&bench, CM_REP).rep.eecn, OWN_QPN);
	assert_int_equal(connection->local_qpn, OWN_QPN);
	dreq = peer_says(connection, CM_DREQ);
	dreq.local_id = req.local_id;
	assert_int_equal(bench_hear(&bench, &dreq), REASON_NONE);
	expect_datagram(&bench, CM_DREP);
	expect_event(&bench, connection, CM_EVENT_ESTABLISHED, 0);
	expect_event(&bench, connection, CM_EVENT_DISCONNECTED, 0);
}

static void reply_of_a_shared_connection(void **state)
{
	struct cm_message req = own_req(), rep;
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_new(&bench);
	req.req.service_type = CM_SERVICE_EXTENDED;
	req.req.extended_type = CM_EXTENDED_XRC;
	cm_connect(&bench.agent, connection, &bench.path, &req, bench.now, bench_next(&bench));
	expect_datagram(&bench, CM_REQ);
	rep = peer_says(connection, CM_REP);
	rep.rep.qpn = 0;
	rep.rep.eecn = PEER_QPN;
	bench_hear(&bench, &rep);
	expect_event(&bench, connection, CM_EVENT_RESPONSE, 0);
	assert_int_equal(connection->remote_qpn, PEER_QPN);
}

/* --- stale connections --- */

/* A request by another id for a QP that is connected here, in each state of the old one. */
static void qp_is_connected_already(enum cm_state old_state, enum cm_event_kind told,
				    enum cm_state after)
{
	struct cm_message req = peer_req();
	struct cm_connection *old;
	struct bench bench;

	bench_begin(&bench);
	old = bench_passive(&bench, old_state);
	req.local_id++;
	req.req.starting_psn++;
	assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
	assert_int_equal(expect_datagram(&bench, CM_REJ).rej.reason, CM_REJECT_STALE);
	if (after == CM_DREQ_SENT && old_state != CM_DREQ_SENT)
		assert_int_equal(expect_datagram(&bench, CM_DREQ).dreq.remote_qpn, PEER_QPN);
	if (told != CM_EVENT_KIND_COUNT)
		expect_event(&bench, old, told, CM_REJECT_STALE);
	expect_end(&bench);
	assert_int_equal(old->state, after);
}

static void request_for_a_connected_qp_is_stale(void **state)
{
	(void)state;
	qp_is_connected_already(CM_REQ_RCVD, CM_EVENT_REJECTED, CM_REFUSED);
	qp_is_connected_already(CM_REP_SENT, CM_EVENT_REJECTED, CM_TIMEWAIT);
	qp_is_connected_already(CM_ESTABLISHED, CM_EVENT_DISCONNECTED, CM_DREQ_SENT);
	qp_is_connected_already(CM_DREQ_SENT, CM_EVENT_KIND_COUNT, CM_DREQ_SENT);
}

/* Torn down, it is told once: neither DREP nor the lack of one tells it again. */
static void stale_connection_ends_once(void **state)
{
	struct cm_message req = peer_req(), drep;
	struct cm_connection *old;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	old = bench_passive(&bench, CM_ESTABLISHED);
	req.local_id++;
	bench_hear(&bench, &req);
	expect_datagram(&bench, CM_REJ);
	expect_datagram(&bench, CM_DREQ);
	expect_event(&bench, old, CM_EVENT_DISCONNECTED, CM_REJECT_STALE);
	drep = peer_says(old, CM_DREP);
	bench_hear(&bench, &drep);
	expect_end(&bench);
	bench_deadline(&bench);
	expect_event(&bench, old, CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_end(&bench);
	/* The next try of the peer is welcome. */
	req.local_id++;
	assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
	expect_event(&bench, bench_newest(&bench), CM_EVENT_REQUEST, 0);
}

/* As soon as the old connection is in timewait its QP may be connected anew. */
static void qp_in_timewait_is_not_stale(void **state)
{
	static const enum cm_state over[] = {CM_TIMEWAIT, CM_REFUSED};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct cm_message req = peer_req();
		struct bench bench;

		bench_begin(&bench);
		bench_passive(&bench, over[i]);
		req.local_id++;
		assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
		expect_event(&bench, bench_newest(&bench), CM_EVENT_REQUEST, 0);
		expect_end(&bench);
	}
}

/* The same id, and something else: the peer began anew and forgot what it had. */
static void same_id_for_something_else(size_t which)
{
	struct cm_message req = peer_req();
	struct cm_connection *old;
	struct bench bench;

	bench_begin(&bench);
	old = bench_passive(&bench, CM_ESTABLISHED);
	if (which == 0)
		req.req.qpn++;
	if (which == 1)
		req.req.starting_psn++;
	if (which == 2)
		req.req.ca_guid++;
	if (which == 3)
		req.req.service_id++;
	assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
	assert_int_equal(expect_datagram(&bench, CM_REJ).rej.reason, CM_REJECT_STALE);
	expect_datagram(&bench, CM_DREQ);
	expect_event(&bench, old, CM_EVENT_DISCONNECTED, CM_REJECT_STALE);
	expect_end(&bench);
}

static void known_id_with_other_contents_is_stale(void **state)
{
	(void)state;
	for (size_t which = 0; which < 4; which++)
		same_id_for_something_else(which);
}

/* Ids and QP numbers mean something only together with the address. */
static void other_hosts_may_use_the_same_numbers(void **state)
{
	struct cm_message req = peer_req();
	struct cm_path other;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	bench_passive(&bench, CM_ESTABLISHED);
	other = bench.path;
	other.remote_gid[15]++;
	assert_int_equal(bench_hear_from(&bench, &other, &req), REASON_NONE);
	expect_event(&bench, bench_newest(&bench), CM_EVENT_REQUEST, 0);
	expect_end(&bench);
}

/* A global address is one host whichever way it comes; a link-local one is one on each link. */
static void link_local_addresses_are_of_their_device(void **state)
{
	struct cm_message req = peer_req();
	struct cm_path path, other;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	other = path = bench.path;
	other.device++;
	bench_hear_from(&bench, &path, &req);
	expect_event(&bench, bench_newest(&bench), CM_EVENT_REQUEST, 0);
	assert_int_equal(bench_hear_from(&bench, &other, &req), REASON_DROP_DUPLICATE);
	expect_datagram(&bench, CM_MRA);
	memcpy(path.remote_gid, (uint8_t[]){0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8},
	       16);
	memcpy(other.remote_gid, path.remote_gid, 16);
	bench_hear_from(&bench, &path, &req);
	expect_event(&bench, bench_newest(&bench), CM_EVENT_REQUEST, 0);
	assert_int_equal(bench_hear_from(&bench, &other, &req), REASON_NONE);
	expect_event(&bench, bench_newest(&bench), CM_EVENT_REQUEST, 0);
}

/* A QP number of 0 says nothing; programs without a QP give it. */
static void no_qp_is_never_stale(void **state)
{
	struct cm_message req = peer_req();
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	req.req.qpn = 0;
	for (int i = 0; i < 3; i++) {
		req.local_id++;
		assert_int_equal(bench_hear(&bench, &req), REASON_NONE);
		expect_event(&bench, bench_newest(&bench), CM_EVENT_REQUEST, 0);
		expect_end(&bench);
	}
}

static void stale_reply(bool by_qp)
{
	struct cm_connection *old, *young;
	struct cm_message req = own_req(), rep;
	struct bench bench;

	bench_begin(&bench);
	old = bench_active(&bench, CM_ESTABLISHED);
	young = bench_new(&bench);
	req.req.qpn++;
	cm_connect(&bench.agent, young, &bench.path, &req, bench.now, bench_next(&bench));
	expect_datagram(&bench, CM_REQ);
	rep = peer_says(young, CM_REP);
	if (by_qp)
		rep.local_id++;
	else
		rep.rep.qpn++;
	assert_int_equal(bench_hear(&bench, &rep), REASON_NONE);
	rep = expect_datagram(&bench, CM_REJ);
	assert_int_equal(rep.rej.reason, CM_REJECT_STALE);
	assert_int_equal(rep.rej.about, CM_ABOUT_REP);
	expect_datagram(&bench, CM_DREQ);
	expect_event(&bench, young, CM_EVENT_REJECTED, CM_REJECT_STALE);
	expect_event(&bench, old, CM_EVENT_DISCONNECTED, CM_REJECT_STALE);
	expect_end(&bench);
	assert_int_equal(young->state, CM_TIMEWAIT);
	assert_int_equal(old->state, CM_DREQ_SENT);
}

static void reply_of_a_connected_qp_is_stale(void **state)
{
	(void)state;
	stale_reply(true);
	stale_reply(false);
}

/* Who is called stale must leave the QP alone for a while. */
static void stale_refusal_leads_to_timewait(void **state)
{
	struct cm_connection *connection;
	struct cm_message rej;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_active(&bench, CM_REQ_SENT);
	rej = peer_says(connection, CM_REJ);
	rej.local_id = 0;
	rej.rej.reason = CM_REJECT_STALE;
	bench_hear(&bench, &rej);
	expect_event(&bench, connection, CM_EVENT_REJECTED, CM_REJECT_STALE);
	bench_deadline(&bench);
	expect_event(&bench, connection, CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_end(&bench);
	expect_no_deadline(&bench);
}

/* --- who says it --- */

static void heard_from_elsewhere(enum cm_state in_state, enum cm_kind kind)
{
	struct cm_connection *connection;
	struct cm_message message;
	struct cm_path path;
	struct bench bench;

	bench_begin(&bench);
	connection = bench_active(&bench, in_state);
	path = bench.path;
	path.remote_gid[12] ^= 1;
	message = peer_says(connection, kind);
	assert_int_equal(bench_hear_from(&bench, &path, &message), REASON_DROP_SOURCE);
	expect_end(&bench);
	assert_int_equal(connection->state, in_state);
}

static void only_the_peer_is_believed(void **state)
{
	(void)state;
	heard_from_elsewhere(CM_REQ_SENT, CM_REP);
	heard_from_elsewhere(CM_REQ_SENT, CM_REJ);
	heard_from_elsewhere(CM_REQ_SENT, CM_MRA);
	heard_from_elsewhere(CM_ESTABLISHED, CM_REJ);
	heard_from_elsewhere(CM_ESTABLISHED, CM_DREQ);
	heard_from_elsewhere(CM_ESTABLISHED, CM_LAP);
	heard_from_elsewhere(CM_DREQ_SENT, CM_DREP);
}

static void heard_from_another_instance(enum cm_state in_state, enum cm_kind kind, int answer)
{
	struct cm_connection *connection;
	struct cm_message message;
	struct bench bench;

	bench_begin(&bench);
	connection = bench_active(&bench, in_state);
	message = peer_says(connection, kind);
	message.local_id++;
	assert_int_equal(bench_hear(&bench, &message), REASON_DROP_CM_ID);
	if (answer) {
		struct cm_message sent = expect_datagram(&bench, answer);

		assert_int_equal(sent.local_id, connection->local_id);
		assert_int_equal(sent.remote_id, PEER_ID + 1);
	}
	expect_end(&bench);
	assert_int_equal(connection->state, in_state);
}

static void only_the_peers_own_id_is_believed(void **state)
{
	(void)state;
	heard_from_another_instance(CM_ESTABLISHED, CM_REJ, 0);
	heard_from_another_instance(CM_ESTABLISHED, CM_DREQ, CM_DREP);
	heard_from_another_instance(CM_DREQ_SENT, CM_DREP, 0);
	heard_from_another_instance(CM_REP_RCVD, CM_REP, CM_REJ);
	heard_from_another_instance(CM_ESTABLISHED, CM_REP, CM_REJ);
}

static void disconnect_must_name_the_qp(void **state)
{
	struct cm_connection *connection;
	struct cm_message dreq;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_active(&bench, CM_ESTABLISHED);
	dreq = peer_says(connection, CM_DREQ);
	dreq.dreq.remote_qpn++;
	assert_int_equal(bench_hear(&bench, &dreq), REASON_DROP_CM_STATE);
	expect_end(&bench);
	assert_int_equal(connection->state, CM_ESTABLISHED);
}

/* 0 is no id: it means that one is not known. */
static void id_zero_is_refused(void **state)
{
	struct cm_message req = peer_req(), sidr = peer_sidr_req(), rep;
	struct cm_connection *connection;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	req.local_id = sidr.local_id = 0;
	assert_int_equal(bench_hear(&bench, &req), REASON_DROP_CM_ID);
	assert_int_equal(bench_hear(&bench, &sidr), REASON_DROP_CM_ID);
	connection = bench_active(&bench, CM_REQ_SENT);
	rep = peer_says(connection, CM_REP);
	rep.local_id = 0;
	assert_int_equal(bench_hear(&bench, &rep), REASON_DROP_CM_ID);
	expect_end(&bench);
	assert_int_equal(connection->state, CM_REQ_SENT);
	assert_false(cm_connection_init(&bench.agent, bench_newest(&bench) + 1, 0, NULL));
}

/* Who gave up may not know our id; its own and its address say what is meant. */
static void timeout_of_the_peer_is_understood(void **state)
{
	struct cm_connection *connection;
	struct cm_message rej;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_passive(&bench, CM_REP_SENT);
	rej = peer_says(connection, CM_REJ);
	rej.remote_id = 0;
	rej.rej.reason = CM_REJECT_TIMEOUT;
	assert_int_equal(bench_hear(&bench, &rej), REASON_NONE);
	expect_event(&bench, connection, CM_EVENT_REJECTED, CM_REJECT_TIMEOUT);
	rej.local_id++;
	assert_int_equal(bench_hear(&bench, &rej), REASON_DROP_CM_ID);
	rej.local_id = 0;
	assert_int_equal(bench_hear(&bench, &rej), REASON_DROP_CM_ID);
	expect_end(&bench);
}

static void ids_are_given_once(void **state)
{
	struct cm_connection *connection;
	struct cm_connection second;
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	connection = bench_active(&bench, CM_TIMEWAIT);
	assert_false(cm_connection_init(&bench.agent, &second, connection->local_id, NULL));
	assert_ptr_equal(cm_find(&bench.agent, connection->local_id), connection);
	bench_deadline(&bench);
	expect_event(&bench, connection, CM_EVENT_TIMEWAIT_EXIT, 0);
	cm_forget(&bench.agent, connection);
	assert_null(cm_find(&bench.agent, connection->local_id));
	assert_true(cm_connection_init(&bench.agent, &second, connection->local_id, NULL));
	assert_int_equal(bench.agent.connection_count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_is_told_with_all_it_says),
		cmocka_unit_test(reply_says_who_is_connected),
		cmocka_unit_test(ready_message_is_told),
		cmocka_unit_test(data_instead_of_a_ready_message),
		cmocka_unit_test(repeated_request_gets_the_same_answer),
		cmocka_unit_test(refused_request_is_refused_again),
		cmocka_unit_test(refusal_says_what_it_is_about),
		cmocka_unit_test(request_for_nobody_is_refused),
		cmocka_unit_test(refusal_may_be_silence),
		cmocka_unit_test(repeated_request_needs_no_listener),
		cmocka_unit_test(services_of_no_use_are_refused),
		cmocka_unit_test(unreliable_and_shared_connections_are_served),
		cmocka_unit_test(reply_of_a_shared_connection),
		cmocka_unit_test(request_for_a_connected_qp_is_stale),
		cmocka_unit_test(stale_connection_ends_once),
		cmocka_unit_test(qp_in_timewait_is_not_stale),
		cmocka_unit_test(known_id_with_other_contents_is_stale),
		cmocka_unit_test(other_hosts_may_use_the_same_numbers),
		cmocka_unit_test(link_local_addresses_are_of_their_device),
		cmocka_unit_test(no_qp_is_never_stale),
		cmocka_unit_test(reply_of_a_connected_qp_is_stale),
		cmocka_unit_test(stale_refusal_leads_to_timewait),
		cmocka_unit_test(only_the_peer_is_believed),
		cmocka_unit_test(only_the_peers_own_id_is_believed),
		cmocka_unit_test(disconnect_must_name_the_qp),
		cmocka_unit_test(id_zero_is_refused),
		cmocka_unit_test(timeout_of_the_peer_is_understood),
		cmocka_unit_test(ids_are_given_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
