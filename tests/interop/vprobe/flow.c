/* SPDX-License-Identifier: BSD-2-Clause */
#include "interop/vprobe/probe.h"

#include <string.h>

#include "tools/fail.h"

#define FLOW_MESSAGES 8u
#define FLOW_SEED 5
#define FLOW_MTUS 3 /* a message has a first, a middle and a last packet */
#define FLOW_SLOTS (PROBE_BUFFER_BYTES / (FLOW_MTUS * 4096u))
#define WORD_OFFSET 64u

static uint32_t flow_slot(const struct probe *probe, unsigned int message)
{
	return message % FLOW_SLOTS * FLOW_MTUS * probe->mtu;
}

static void flow_prepare(struct probe *probe, enum ibv_wr_opcode opcode, uint32_t length)
{
	bool is_source = (opcode == IBV_WR_RDMA_READ) != probe->is_client;

	if (is_source && opcode != IBV_WR_ATOMIC_FETCH_AND_ADD)
		work_fill(probe->buffer, length, FLOW_SEED);
	for (unsigned int i = 0; i < FLOW_MESSAGES && opcode == IBV_WR_SEND && !is_source; i++)
		work_post_receive(probe, flow_slot(probe, i), length);
}

/* All at once, but an atomic waits for the one before it. */
static void flow_drive(struct probe *probe, const struct work *work)
{
	bool is_atomic = work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	for (unsigned int i = 0; i < FLOW_MESSAGES; i++) {
		work_post(probe, work);
		if (is_atomic)
			work_await(probe, IBV_WC_SUCCESS);
	}
	for (unsigned int i = 0; i < FLOW_MESSAGES && !is_atomic; i++)
		work_await(probe, IBV_WC_SUCCESS);
}

static void flow_check(struct probe *probe, enum ibv_wr_opcode opcode, uint32_t length)
{
	bool is_target = (opcode == IBV_WR_RDMA_READ) == probe->is_client;
	uint64_t value;

	if (!is_target)
		return;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memcpy(&value, probe->buffer + WORD_OFFSET, sizeof(value));
		if (value != FLOW_MESSAGES)
			give_up("the atomic ran %llu times", (unsigned long long)value);
	} else if (opcode == IBV_WR_SEND) {
		for (unsigned int i = 0; i < FLOW_MESSAGES; i++)
			work_check(probe->buffer + flow_slot(probe, i), length, FLOW_SEED, "send");
	} else {
		work_check(probe->buffer, length, FLOW_SEED, "flow");
	}
}

void flow_run(struct probe *probe, const struct probe_test *test)
{
	bool is_atomic = test->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct work work = {.opcode = test->opcode,
			    .length = is_atomic ? 8 : FLOW_MTUS * probe->mtu,
			    .remote_address = probe->remote.address + (is_atomic ? WORD_OFFSET : 0),
			    .rkey = probe->remote.rkey,
			    .compare_add = 1};

	flow_prepare(probe, test->opcode, work.length);
	meeting_point(probe, "posted");
	if (probe->is_client)
		flow_drive(probe, &work);
	else if (test->opcode == IBV_WR_SEND)
		for (unsigned int i = 0; i < FLOW_MESSAGES; i++)
			work_await(probe, IBV_WC_SUCCESS);
	meeting_point(probe, "done");
	flow_check(probe, test->opcode, work.length);
}

/*
 * The storm: rounds of SEND, WRITE, READ and FETCH_ADD under way at once, each with bytes
 * and a size of its own, all checked. Places in both buffers:
 */
enum storm_place {
	STORM_WORD = 64,
	STORM_RESULT = 128,
	STORM_SOURCE = 256,
	STORM_SENT = 16384 + 256, /* a message is shorter than the room between two places */
	STORM_WRITTEN = 32768,
	STORM_READ = 49152,
	STORM_ROOM = 16000,
};

static uint32_t storm_size(const struct probe *probe, unsigned int round, unsigned int kind)
{
	uint32_t most = 3 * probe->mtu + 5;

	return 1 + (round * 2654435761u + kind * 40503u) % most;
}

static void storm_drive(struct probe *probe, unsigned int round)
{
	const struct probe_remote *remote = &probe->remote;
	uint32_t read_bytes = storm_size(probe, round, 2);
	const struct work works[] = {
		{.opcode = IBV_WR_SEND,
		 .offset = STORM_SOURCE,
		 .length = storm_size(probe, round, 0)},
		{.opcode = IBV_WR_RDMA_WRITE,
		 .offset = STORM_SOURCE,
		 .length = storm_size(probe, round, 1),
		 .remote_address = remote->address + STORM_WRITTEN,
		 .rkey = remote->rkey},
		{.opcode = IBV_WR_RDMA_READ,
		 .offset = STORM_READ,
		 .length = read_bytes,
		 .remote_address = remote->address + STORM_SOURCE,
		 .rkey = remote->rkey},
		{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		 .offset = STORM_RESULT,
		 .length = 8,
		 .remote_address = remote->address + STORM_WORD,
		 .rkey = remote->rkey,
		 .compare_add = 3},
	};
	size_t count = sizeof(works) / sizeof(works[0]);
	uint64_t before;

	for (size_t i = 0; i < count; i++)
		work_post(probe, &works[i]);
	for (size_t i = 0; i < count; i++)
		work_await(probe, IBV_WC_SUCCESS);
	work_check(probe->buffer + STORM_READ, read_bytes, 2 * round + 1, "read");
	memcpy(&before, probe->buffer + STORM_RESULT, sizeof(before));
	if (before != 3ull * round)
		give_up("atomic: %llu before round %u", (unsigned long long)before, round);
}

static void storm_receive(struct probe *probe, unsigned int round)
{
	uint32_t sent = storm_size(probe, round, 0);
	struct ibv_wc wc = work_await(probe, IBV_WC_SUCCESS);

	if (wc.byte_len != sent)
		give_up("send: length %u, expected %u", wc.byte_len, sent);
	work_check(probe->buffer + STORM_SENT, sent, 2 * round, "send");
}

void flow_storm(struct probe *probe, const struct probe_test *test)
{
	(void)test;
	for (unsigned int round = 0; round < probe->options.count; round++) {
		unsigned int seed = 2 * round + (probe->is_client ? 0 : 1);

		work_fill(probe->buffer + STORM_SOURCE, STORM_ROOM, seed);
		if (!probe->is_client)
			work_post_receive(probe, STORM_SENT, STORM_ROOM);
		meeting_point(probe, "round");
		if (probe->is_client)
			storm_drive(probe, round);
		else
			storm_receive(probe, round);
		meeting_point(probe, "done");
		if (!probe->is_client)
			work_check(probe->buffer + STORM_WRITTEN, storm_size(probe, round, 1),
				   2 * round, "write");
		meeting_point(probe, "checked");
	}
}
