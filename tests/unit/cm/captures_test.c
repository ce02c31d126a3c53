/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Agents in the place of the kernels of the captures: given the ids and QPs of those, each sends
 * the same datagrams, byte by byte, but for the transaction ids that it begins itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "captures/capture_reader.h"
#include "cm/cm.h"

#define TRANSACTION_AT 8
#define BUCKETS 4

struct stage {
	struct captured_mads mads;
	struct cm_agent agent;
	struct cm_connection *buckets[CM_TABLE_COUNT * BUCKETS];
	struct cm_connection connection;
	struct cm_out out;
	vbn_time now;
};

static struct cm_message captured(const struct stage *stage, unsigned index)
{
	struct cm_message message;

	assert_true(index < stage->mads.count);
	assert_int_equal(cm_message_parse(stage->mads.list[index].bytes, &message), REASON_NONE);
	return message;
}

/* The agent has the id that the sender of datagram @mine calls itself by. */
static void stage_begin(struct stage *stage, const char *file, unsigned mine)
{
	struct cm_message message;
	struct cm_setup setup = {
		.timing = CM_TIMING_LINUX,
		.hash_key = 17,
		.bucket_count = BUCKETS,
		.buckets = stage->buckets,
	};

	memset(stage, 0, sizeof(*stage));
	capture_read_mads(file, &stage->mads);
	stage->now = stage->mads.list[0].time;
	cm_agent_init(&stage->agent, &setup);
	message = captured(stage, mine);
	/* A refusal of nobody bears no id; any will do. */
	assert_true(cm_connection_init(&stage->agent, &stage->connection,
				       message.local_id ? message.local_id : 1, NULL));
}

/* From who sent the datagram @index to who got it. */
static struct cm_path path_of(const struct stage *stage, unsigned index)
{
	struct cm_path path = {0};

	memcpy(path.local_gid, stage->mads.list[index].source, 16);
	memcpy(path.remote_gid, stage->mads.list[index].destination, 16);
	return path;
}

/* What was sent last, or the @nth of it, is datagram @index of the capture. */
static void sends(struct stage *stage, unsigned index)
{
	const struct captured_mad *mad = &stage->mads.list[index];
	uint8_t bytes[MAD_BYTES];
	struct cm_path path = path_of(stage, index);

	assert_int_equal(stage->out.datagram_count, 1);
	memcpy(bytes, stage->out.datagrams[0].bytes, MAD_BYTES);
	memcpy(bytes + TRANSACTION_AT, mad->bytes + TRANSACTION_AT, 8);
	assert_memory_equal(bytes, mad->bytes, MAD_BYTES);
	assert_memory_equal(&stage->out.datagrams[0].path, &path, sizeof(path));
	stage->out.datagram_count = 0;
}

/* The same, with a transaction that the other side began. */
static void answers(struct stage *stage, unsigned index)
{
	assert_int_equal(stage->out.datagram_count, 1);
	assert_memory_equal(stage->out.datagrams[0].bytes + TRANSACTION_AT,
			    stage->mads.list[index].bytes + TRANSACTION_AT, 8);
	sends(stage, index);
}

static void hears(struct stage *stage, unsigned index, struct cm_connection *spare,
		  uint16_t refusal)
{
	struct cm_message message = captured(stage, index);
	struct cm_arrival arrival = {.message = &message, .spare = spare, .refusal = refusal};
	struct cm_path path = path_of(stage, index);

	memcpy(arrival.path.local_gid, path.remote_gid, 16);
	memcpy(arrival.path.remote_gid, path.local_gid, 16);
	stage->now = stage->mads.list[index].time;
	cm_out_clear(&stage->out);
	assert_int_equal(cm_receive(&stage->agent, &arrival, stage->now, &stage->out), REASON_NONE);
}

static void tells(struct stage *stage, enum cm_event_kind kind)
{
	assert_int_equal(stage->out.event_count, 1);
	assert_int_equal(stage->out.events[0].kind, kind);
	stage->out.event_count = 0;
}

static void connects(struct stage *stage)
{
	struct cm_message req = captured(stage, 0);
	struct cm_path path = path_of(stage, 0);

	/* All that the agent fills in by itself. */
	req.req.remote_response_timeout = req.req.local_response_timeout = 0;
	req.req.max_cm_retries = 0;
	req.req.primary.ack_timeout = 0;
	req.local_id = 0;
	assert_int_equal(cm_connect(&stage->agent, &stage->connection, &path, &req, stage->now,
				    &stage->out),
			 0);
	sends(stage, 0);
}

/* A client that connects, and parts from the server. */
static void plays_the_client(const char *file, bool is_polite)
{
	struct stage stage;

	stage_begin(&stage, file, 0);
	connects(&stage);
	hears(&stage, 1, NULL, 0);
	tells(&stage, CM_EVENT_RESPONSE);
	assert_int_equal(cm_confirm(&stage.agent, &stage.connection, NULL, stage.now, &stage.out),
			 0);
	sends(&stage, 2);
	tells(&stage, CM_EVENT_ESTABLISHED);
	if (is_polite) {
		cm_disconnect(&stage.agent, &stage.connection, NULL, stage.now, &stage.out);
		sends(&stage, 3);
		hears(&stage, 4, NULL, 0);
	} else {
		hears(&stage, 3, NULL, 0);
		answers(&stage, 4);
	}
	tells(&stage, CM_EVENT_DISCONNECTED);
}

static void plays_the_server(const char *file, bool is_polite)
{
	struct cm_message rep;
	struct stage stage;

	stage_begin(&stage, file, 1);
	rep = captured(&stage, 1);
	rep.local_id = rep.remote_id = 0;
	rep.rep.target_ack_delay = 0;
	hears(&stage, 0, &stage.connection, 0);
	tells(&stage, CM_EVENT_REQUEST);
	assert_int_equal(cm_accept(&stage.agent, &stage.connection, &rep, stage.now, &stage.out),
			 0);
	answers(&stage, 1);
	hears(&stage, 2, NULL, 0);
	tells(&stage, CM_EVENT_ESTABLISHED);
	if (is_polite) {
		hears(&stage, 3, NULL, 0);
		answers(&stage, 4);
	} else {
		cm_disconnect(&stage.agent, &stage.connection, NULL, stage.now, &stage.out);
		sends(&stage, 3);
		hears(&stage, 4, NULL, 0);
	}
	tells(&stage, CM_EVENT_DISCONNECTED);
}

static void client_sends_what_the_kernel_sends(void **state)
{
	(void)state;
	plays_the_client("v4-cm-rping.pcap", true);
	plays_the_client("v6-cm-rping.pcap", true);
	plays_the_client("v4-cm-ucmatose.pcap", false);
}

static void server_sends_what_the_kernel_sends(void **state)
{
	(void)state;
	plays_the_server("v4-cm-rping.pcap", true);
	plays_the_server("v6-cm-rping.pcap", true);
	plays_the_server("v4-cm-ucmatose.pcap", false);
}

static void refusal_is_the_kernels(const char *file)
{
	struct stage stage;

	stage_begin(&stage, file, 1);
	hears(&stage, 0, NULL, CM_REJECT_SERVICE_ID);
	answers(&stage, 1);
	stage_begin(&stage, file, 0);
	connects(&stage);
	hears(&stage, 1, NULL, 0);
	assert_int_equal(stage.out.events[0].reason, CM_REJECT_SERVICE_ID);
	tells(&stage, CM_EVENT_REJECTED);
}

static void nobody_listens(void **state)
{
	(void)state;
	refusal_is_the_kernels("v4-cm-rej-no-listener.pcap");
	refusal_is_the_kernels("v6-cm-rej-no-listener.pcap");
}

/* Four more REQs at the kernel's times, which are ours to a tenth, then the program is ended. */
static void nobody_answers(const char *file)
{
	struct stage stage;
	unsigned index;

	stage_begin(&stage, file, 0);
	connects(&stage);
	for (index = 1; index + 1 < stage.mads.count; index++) {
		vbn_time waited = cm_next_deadline(&stage.agent) - stage.now;
		vbn_time kernel_waited =
			stage.mads.list[index].time - stage.mads.list[index - 1].time;

		assert_in_range(waited, kernel_waited - kernel_waited / 10,
				kernel_waited + kernel_waited / 10);
		stage.now = cm_next_deadline(&stage.agent);
		assert_true(cm_deadline(&stage.agent, stage.now, &stage.out));
		sends(&stage, index);
	}
	cm_release(&stage.agent, &stage.connection, stage.now, &stage.out);
	sends(&stage, index);
	tells(&stage, CM_EVENT_GONE);
}

static void request_without_answer(void **state)
{
	(void)state;
	nobody_answers("v4-cm-req-no-answer.pcap");
	nobody_answers("v6-cm-req-no-answer.pcap");
}

static void datagram_service_is_resolved(void **state)
{
	struct cm_message message;
	struct cm_path path;
	struct stage stage;

	(void)state;
	stage_begin(&stage, "v4-cm-udaddy.pcap", 0);
	message = captured(&stage, 0);
	path = path_of(&stage, 0);
	assert_int_equal(cm_sidr_query(&stage.agent, &stage.connection, &path, &message, stage.now,
				       &stage.out),
			 0);
	sends(&stage, 0);
	hears(&stage, 1, NULL, 0);
	tells(&stage, CM_EVENT_SIDR_RESPONSE);
	stage_begin(&stage, "v4-cm-udaddy.pcap", 1);
	hears(&stage, 0, &stage.connection, 0);
	tells(&stage, CM_EVENT_SIDR_REQUEST);
	message = captured(&stage, 1);
	message.local_id = 0;
	message.sidr_rep.service_id = 0;
	assert_int_equal(cm_sidr_answer(&stage.agent, &stage.connection, &message, stage.now,
					&stage.out),
			 0);
	answers(&stage, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(client_sends_what_the_kernel_sends),
		cmocka_unit_test(server_sends_what_the_kernel_sends),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(request_without_answer),
		cmocka_unit_test(datagram_service_is_resolved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
