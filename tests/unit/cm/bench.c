/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/cm/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void bench_begin_with(struct bench *bench, const struct cm_timing *timing)
{
	struct cm_setup setup = {
		.timing = *timing,
		.hash_key = 0x0123456789abcdef,
		.transaction_high = 0x99,
		.bucket_count = BENCH_BUCKETS,
		.buckets = bench->buckets,
	};

	memset(bench, 0, sizeof(*bench));
	memcpy(bench->path.local_gid, (uint8_t[16]){[10] = 0xff, 0xff, 10, 77, 0, 2}, 16);
	memcpy(bench->path.remote_gid, (uint8_t[16]){[10] = 0xff, 0xff, 10, 77, 0, 3}, 16);
	bench->path.device = 3;
	bench->now = VBN_SECOND;
	cm_agent_init(&bench->agent, &setup);
}

void bench_begin(struct bench *bench)
{
	static const struct cm_timing linux_like = CM_TIMING_LINUX;

	bench_begin_with(bench, &linux_like);
}

struct cm_connection *bench_new(struct bench *bench)
{
	struct cm_connection *connection = &bench->connections[bench->used++];

	assert_true(bench->used <= BENCH_CONNECTIONS);
	assert_true(cm_connection_init(&bench->agent, connection, 0x1000 + bench->used, bench));
	return connection;
}

struct cm_connection *bench_newest(struct bench *bench)
{
	assert_true(bench->used > 0);
	return &bench->connections[bench->used - 1];
}

struct cm_out *bench_next(struct bench *bench)
{
	expect_end(bench);
	cm_out_clear(&bench->out);
	bench->datagrams_seen = bench->events_seen = 0;
	return &bench->out;
}

struct cm_message own_req(void)
{
	return (struct cm_message){
		.kind = CM_REQ,
		.req =
			{
				.service_id = SERVICE,
				.ca_guid = OWN_GUID,
				.qpn = OWN_QPN,
				.starting_psn = 0x654321,
				.responder_resources = 1,
				.initiator_depth = 1,
				.retry_count = 7,
				.rnr_retry_count = 7,
				.pkey = 0xffff,
				.mtu = 3,
			},
		.private_bytes = 4,
		.private_data = "req",
	};
}

struct cm_message own_rep(void)
{
	return (struct cm_message){
		.kind = CM_REP,
		.rep =
			{
				.qpn = OWN_QPN,
				.ca_guid = OWN_GUID,
				.starting_psn = 0x654321,
				.responder_resources = 1,
				.initiator_depth = 1,
				.rnr_retry_count = 7,
			},
		.private_bytes = 4,
		.private_data = "rep",
	};
}

struct cm_message own_rej(uint16_t reason)
{
	return (struct cm_message){
		.kind = CM_REJ,
		.rej.reason = reason,
		.private_bytes = 4,
		.private_data = "rej",
	};
}

struct cm_message own_sidr_req(void)
{
	return (struct cm_message){
		.kind = CM_SIDR_REQ,
		.sidr_req = {.service_id = SERVICE, .pkey = 0xffff},
		.private_bytes = 5,
		.private_data = "sidr",
	};
}

struct cm_message peer_req(void)
{
	return (struct cm_message){
		.kind = CM_REQ,
		.transaction = 0xbeef,
		.local_id = PEER_ID,
		.req =
			{
				.service_id = SERVICE,
				.ca_guid = PEER_GUID,
				.qpn = PEER_QPN,
				.starting_psn = PEER_PSN,
				.remote_response_timeout = 20,
				.local_response_timeout = 20,
				.max_cm_retries = 15,
				.primary.ack_timeout = 19,
			},
		.private_bytes = CM_REQ_PRIVATE_BYTES,
		.private_data = "peer's req",
	};
}

struct cm_message peer_sidr_req(void)
{
	return (struct cm_message){
		.kind = CM_SIDR_REQ,
		.transaction = 0xbeef,
		.local_id = PEER_ID,
		.sidr_req = {.service_id = SERVICE, .pkey = 0xffff},
		.private_bytes = CM_SIDR_REQ_PRIVATE_BYTES,
		.private_data = "peer's query",
	};
}

struct cm_message peer_says(const struct cm_connection *connection, enum cm_kind kind)
{
	struct cm_message message = {
		.kind = kind,
		.transaction = 0xbeef,
		.local_id = PEER_ID,
		.remote_id = connection->local_id,
		.private_bytes = (uint8_t)cm_private_bytes(kind),
		.private_data = "peer",
	};

	switch (kind) {
	case CM_REQ:
		return peer_req();
	case CM_REP:
		message.rep.qpn = PEER_QPN;
		message.rep.starting_psn = PEER_PSN;
		message.rep.ca_guid = PEER_GUID;
		message.rep.target_ack_delay = 15;
		break;
	case CM_REJ:
		message.rej.reason = CM_REJECT_CONSUMER;
		break;
	case CM_MRA:
		message.mra.service_timeout = 24;
		message.mra.about = connection->state == CM_REQ_SENT ? CM_ABOUT_REQ : CM_ABOUT_REP;
		break;
	case CM_DREQ:
		message.dreq.remote_qpn = OWN_QPN;
		break;
	case CM_SIDR_REP:
		message.local_id = connection->local_id;
		message.remote_id = 0;
		message.sidr_rep.qpn = PEER_QPN;
		message.sidr_rep.qkey = 0x01234567;
		message.sidr_rep.service_id = SERVICE;
		break;
	case CM_RTU:
	case CM_DREP:
	case CM_SIDR_REQ:
	case CM_LAP:
	case CM_APR:
		break;
	}
	return message;
}

enum reason bench_hear_from(struct bench *bench, const struct cm_path *path,
			    const struct cm_message *message)
{
	struct cm_arrival arrival = {.path = *path, .refusal = bench->refusal};
	struct cm_message heard;
	uint8_t bytes[MAD_BYTES];
	enum reason reason;

	/* As it would come from the wire. */
	cm_message_emit(message, bytes);
	assert_int_equal(cm_message_parse(bytes, &heard), REASON_NONE);
	arrival.message = &heard;
	if ((message->kind == CM_REQ || message->kind == CM_SIDR_REQ) && !bench->refusal)
		arrival.spare = bench_new(bench);
	reason = cm_receive(&bench->agent, &arrival, bench->now, bench_next(bench));
	if (arrival.spare && arrival.spare->state == CM_IDLE) {
		cm_forget(&bench->agent, arrival.spare);
		bench->used--;
	}
	return reason;
}

enum reason bench_hear(struct bench *bench, const struct cm_message *message)
{
	return bench_hear_from(bench, &bench->path, message);
}

struct cm_message expect_datagram(struct bench *bench, enum cm_kind kind)
{
	struct cm_datagram *datagram = &bench->out.datagrams[bench->datagrams_seen];
	struct cm_message message;

	if (bench->datagrams_seen == bench->out.datagram_count)
		fail_msg("no %s was sent", cm_kind_name(kind));
	bench->datagrams_seen++;
	assert_int_equal(cm_message_parse(datagram->bytes, &message), REASON_NONE);
	if (message.kind != kind)
		fail_msg("%s was sent instead of %s", cm_kind_name(message.kind),
			 cm_kind_name(kind));
	assert_memory_equal(&datagram->path, &bench->path, sizeof(bench->path));
	return message;
}

struct cm_event *expect_event(struct bench *bench, const struct cm_connection *connection,
			      enum cm_event_kind kind, uint16_t reason)
{
	struct cm_event *event = &bench->out.events[bench->events_seen];

	if (bench->events_seen == bench->out.event_count)
		fail_msg("%s was not told", cm_event_name(kind));
	bench->events_seen++;
	if (event->kind != kind)
		fail_msg("%s was told instead of %s", cm_event_name(event->kind),
			 cm_event_name(kind));
	assert_ptr_equal(event->connection, connection);
	assert_int_equal(event->reason, reason);
	return event;
}

void expect_end(struct bench *bench)
{
	struct cm_message message;

	if (bench->datagrams_seen < bench->out.datagram_count) {
		cm_message_parse(bench->out.datagrams[bench->datagrams_seen].bytes, &message);
		fail_msg("an unexpected %s was sent", cm_kind_name(message.kind));
	}
	if (bench->events_seen < bench->out.event_count)
		fail_msg("an unexpected %s was told",
			 cm_event_name(bench->out.events[bench->events_seen].kind));
}

vbn_time bench_deadline(struct bench *bench)
{
	vbn_time next = cm_next_deadline(&bench->agent);

	assert_true(next != VBN_TIME_NEVER);
	assert_true(next >= bench->now);
	assert_false(cm_deadline(&bench->agent, next - 1, bench_next(bench)));
	bench->now = next;
	assert_true(cm_deadline(&bench->agent, next, bench_next(bench)));
	return next;
}

void expect_no_deadline(struct bench *bench)
{
	assert_true(cm_next_deadline(&bench->agent) == VBN_TIME_NEVER);
}

static void disconnects(struct bench *bench, struct cm_connection *connection)
{
	assert_int_equal(
		cm_disconnect(&bench->agent, connection, NULL, bench->now, bench_next(bench)), 0);
	expect_datagram(bench, CM_DREQ);
}

/* From ESTABLISHED on both sides do the same. */
static void goes_on(struct bench *bench, struct cm_connection *connection, enum cm_state state)
{
	struct cm_message drep = peer_says(connection, CM_DREP);

	if (state == CM_ESTABLISHED)
		return;
	disconnects(bench, connection);
	if (state == CM_DREQ_SENT)
		return;
	assert_int_equal(bench_hear(bench, &drep), REASON_NONE);
	expect_event(bench, connection, CM_EVENT_DISCONNECTED, 0);
	if (state == CM_TIMEWAIT)
		return;
	bench_deadline(bench);
	expect_event(bench, connection, CM_EVENT_TIMEWAIT_EXIT, 0);
}

struct cm_connection *bench_active(struct bench *bench, enum cm_state state)
{
	struct cm_connection *connection = bench_new(bench);
	struct cm_message req = own_req(), rep;

	if (state == CM_IDLE)
		return connection;
	assert_int_equal(cm_connect(&bench->agent, connection, &bench->path, &req, bench->now,
				    bench_next(bench)),
			 0);
	expect_datagram(bench, CM_REQ);
	if (state != CM_REQ_SENT) {
		rep = peer_says(connection, CM_REP);
		assert_int_equal(bench_hear(bench, &rep), REASON_NONE);
		expect_event(bench, connection, CM_EVENT_RESPONSE, 0);
	}
	if (state != CM_REQ_SENT && state != CM_REP_RCVD) {
		assert_int_equal(cm_confirm(&bench->agent, connection, NULL, bench->now,
					    bench_next(bench)),
				 0);
		expect_datagram(bench, CM_RTU);
		expect_event(bench, connection, CM_EVENT_ESTABLISHED, 0);
		goes_on(bench, connection, state);
	}
	bench_next(bench);
	assert_int_equal(connection->state, state);
	return connection;
}

static void refuses(struct bench *bench, struct cm_connection *connection)
{
	struct cm_message rej = own_rej(CM_REJECT_CONSUMER);

	assert_int_equal(cm_reject(&bench->agent, connection, &rej, bench->now, bench_next(bench)),
			 0);
	expect_datagram(bench, CM_REJ);
}

static void accepts(struct bench *bench, struct cm_connection *connection)
{
	struct cm_message rep = own_rep();

	assert_int_equal(cm_accept(&bench->agent, connection, &rep, bench->now, bench_next(bench)),
			 0);
	expect_datagram(bench, CM_REP);
}

struct cm_connection *bench_passive(struct bench *bench, enum cm_state state)
{
	struct cm_message req = peer_req(), rtu;
	struct cm_connection *connection;

	assert_int_equal(bench_hear(bench, &req), REASON_NONE);
	connection = bench_newest(bench);
	expect_event(bench, connection, CM_EVENT_REQUEST, 0);
	if (state == CM_REFUSED)
		refuses(bench, connection);
	else if (state != CM_REQ_RCVD)
		accepts(bench, connection);
	if (state != CM_REQ_RCVD && state != CM_REFUSED && state != CM_REP_SENT) {
		rtu = peer_says(connection, CM_RTU);
		assert_int_equal(bench_hear(bench, &rtu), REASON_NONE);
		expect_event(bench, connection, CM_EVENT_ESTABLISHED, 0);
		goes_on(bench, connection, state);
	}
	bench_next(bench);
	assert_int_equal(connection->state, state);
	return connection;
}
