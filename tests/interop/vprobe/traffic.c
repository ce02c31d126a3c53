/* SPDX-License-Identifier: BSD-2-Clause */
#include "interop/vprobe/probe.h"

#include <arpa/inet.h>
#include <string.h>
#include <time.h>

#include "tools/fail.h"

#define SEND_IMMEDIATE 0xdead0000u
#define WRITE_IMMEDIATE 0xbeef0000u
#define GRH_BYTES 40
#define WORD_OFFSET 64u /* of the atomics' target */
#define WRITE_OFFSET 128u
#define READ_OFFSET 256u

static void check_send(struct probe *probe, uint32_t length, unsigned int index, bool has_immediate)
{
	uint32_t lead = probe->qp->qp_type == IBV_QPT_UD ? GRH_BYTES : 0;
	struct ibv_wc wc = work_await(probe, IBV_WC_SUCCESS);

	if (wc.byte_len != length + lead)
		give_up("send: length %u, expected %u", wc.byte_len, length + lead);
	if (!!(wc.wc_flags & IBV_WC_WITH_IMM) != has_immediate ||
	    (has_immediate && ntohl(wc.imm_data) != SEND_IMMEDIATE + index))
		give_up("send: the immediate is wrong");
	work_check(probe->buffer + lead, length, index, "send");
}

/* One message at a time; the fourth asks for a solicited event. */
void traffic_send(struct probe *probe, const struct probe_test *test)
{
	bool has_immediate = test->opcode == IBV_WR_SEND_WITH_IMM;
	uint32_t sizes[16];
	unsigned int count = work_sizes(probe, sizes);

	for (unsigned int i = 0; i < count && !probe->is_client; i++)
		work_post_receive(probe, 0, PROBE_BUFFER_BYTES);
	meeting_point(probe, "posted");
	for (unsigned int i = 0; i < count; i++) {
		struct work work = {.opcode = test->opcode,
				    .length = sizes[i],
				    .immediate = SEND_IMMEDIATE + i,
				    .is_solicited = i == 3 && !has_immediate};

		if (probe->is_client) {
			work_fill(probe->buffer, sizes[i], i);
			work_post(probe, &work);
			work_await(probe, IBV_WC_SUCCESS);
		} else {
			check_send(probe, sizes[i], i, has_immediate);
		}
		meeting_point(probe, "next");
	}
}

static void check_write_immediate(struct probe *probe, uint32_t length, unsigned int index)
{
	struct ibv_wc wc = work_await(probe, IBV_WC_SUCCESS);

	if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM || !(wc.wc_flags & IBV_WC_WITH_IMM) ||
	    ntohl(wc.imm_data) != WRITE_IMMEDIATE + index)
		give_up("write: the immediate is wrong");
	if (wc.byte_len != length)
		give_up("write: length %u, expected %u", wc.byte_len, length);
}

/* A UC WRITE completes at the client before it has arrived. */
static void check_write(struct probe *probe, uint32_t length, unsigned int seed)
{
	const uint8_t *bytes = probe->buffer + WRITE_OFFSET;
	time_t end = time(NULL) + 5;

	while (probe->qp->qp_type == IBV_QPT_UC && !work_is_filled(bytes, length, seed) &&
	       time(NULL) < end)
		;
	work_check(bytes, length, seed, "write");
}

static void write_one(struct probe *probe, const struct probe_test *test, uint32_t length,
		      unsigned int index)
{
	struct work work = {.opcode = test->opcode,
			    .length = length,
			    .remote_address = probe->remote.address + WRITE_OFFSET,
			    .rkey = probe->remote.rkey,
			    .immediate = WRITE_IMMEDIATE + index};

	work_fill(probe->buffer, length, index);
	work_post(probe, &work);
	work_await(probe, IBV_WC_SUCCESS);
}

void traffic_write(struct probe *probe, const struct probe_test *test)
{
	bool has_immediate = test->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	uint32_t sizes[16];
	unsigned int count = work_sizes(probe, sizes);

	for (unsigned int i = 0; i < count && has_immediate && !probe->is_client; i++)
		work_post_receive(probe, 0, 0);
	meeting_point(probe, "posted");
	for (unsigned int i = 0; i < count; i++) {
		if (probe->is_client)
			write_one(probe, test, sizes[i], i);
		else if (has_immediate)
			check_write_immediate(probe, sizes[i], i);
		meeting_point(probe, "written");
		if (!probe->is_client)
			check_write(probe, sizes[i], i);
		meeting_point(probe, "next");
	}
}

void traffic_read(struct probe *probe, const struct probe_test *test)
{
	uint32_t sizes[16];
	unsigned int count = work_sizes(probe, sizes);

	for (unsigned int i = 0; i < count; i++) {
		struct work work = {.opcode = test->opcode,
				    .length = sizes[i],
				    .remote_address = probe->remote.address + READ_OFFSET,
				    .rkey = probe->remote.rkey};

		if (!probe->is_client)
			work_fill(probe->buffer + READ_OFFSET, sizes[i], i);
		meeting_point(probe, "filled");
		if (probe->is_client) {
			memset(probe->buffer, 0, PROBE_BUFFER_BYTES);
			work_post(probe, &work);
			work_await(probe, IBV_WC_SUCCESS);
			work_check(probe->buffer, sizes[i], i, "read");
			if (probe->buffer[sizes[i]] != 0)
				give_up("read: a byte behind the message has changed");
		}
		meeting_point(probe, "next");
	}
}

static void atomic_one(struct probe *probe, enum ibv_wr_opcode opcode, uint64_t compare_add,
		       uint64_t swap, uint64_t expected)
{
	struct work work = {.opcode = opcode,
			    .length = 8,
			    .remote_address = probe->remote.address + WORD_OFFSET,
			    .rkey = probe->remote.rkey,
			    .compare_add = compare_add,
			    .swap = swap};
	uint64_t before;

	work_post(probe, &work);
	work_await(probe, IBV_WC_SUCCESS);
	memcpy(&before, probe->buffer, sizeof(before));
	if (before != expected)
		give_up("atomic: the value before is %llx, expected %llx",
			(unsigned long long)before, (unsigned long long)expected);
}

void traffic_atomic(struct probe *probe, const struct probe_test *test)
{
	uint64_t first = 0x1122334455667788ull, last = 0x0102030405060708ull, value;

	(void)test;
	memcpy(probe->buffer + WORD_OFFSET, &first, sizeof(first));
	meeting_point(probe, "set");
	if (probe->is_client) {
		atomic_one(probe, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0, first);
		atomic_one(probe, IBV_WR_ATOMIC_FETCH_AND_ADD, (uint64_t)-1, 0, first + 5);
		atomic_one(probe, IBV_WR_ATOMIC_CMP_AND_SWP, first + 4, last, first + 4);
		atomic_one(probe, IBV_WR_ATOMIC_CMP_AND_SWP, first, 1, last);
	}
	meeting_point(probe, "done");
	memcpy(&value, probe->buffer + WORD_OFFSET, sizeof(value));
	if (!probe->is_client && value != last)
		give_up("atomic: the last value is %llx", (unsigned long long)value);
}

static void mix_post(struct probe *probe)
{
	const struct probe_remote *remote = &probe->remote;
	uint32_t mtu = probe->mtu;
	const struct work works[] = {
		{.opcode = IBV_WR_SEND, .length = 2 * mtu},
		{.opcode = IBV_WR_RDMA_READ,
		 .offset = 20480,
		 .length = 3 * mtu,
		 .remote_address = remote->address + 8192,
		 .rkey = remote->rkey},
		{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		 .offset = 16384,
		 .length = 8,
		 .remote_address = remote->address + WORD_OFFSET,
		 .rkey = remote->rkey,
		 .compare_add = 1},
		{.opcode = IBV_WR_RDMA_WRITE,
		 .length = mtu + 3,
		 .remote_address = remote->address + 24576,
		 .rkey = remote->rkey},
		{.opcode = IBV_WR_RDMA_READ,
		 .offset = 40960,
		 .length = 1,
		 .remote_address = remote->address + 8192,
		 .rkey = remote->rkey},
		{.opcode = IBV_WR_SEND_WITH_IMM, .length = 10, .immediate = 77},
	};
	size_t count = sizeof(works) / sizeof(works[0]);

	for (size_t i = 0; i < count; i++)
		work_post(probe, &works[i]);
	for (size_t i = 0; i < count; i++)
		work_await(probe, IBV_WC_SUCCESS);
}

/* Requests of all kinds under way at once, READs not fenced. */
void traffic_mix(struct probe *probe, const struct probe_test *test)
{
	uint64_t value = 7;

	(void)test;
	memcpy(probe->buffer + WORD_OFFSET, &value, sizeof(value));
	work_fill(probe->buffer + 8192, 4 * probe->mtu, 9);
	if (!probe->is_client) {
		work_post_receive(probe, 32768, 8192);
		work_post_receive(probe, 49152, 8192);
	}
	meeting_point(probe, "posted");
	if (probe->is_client) {
		work_fill(probe->buffer, 2 * probe->mtu, 3);
		mix_post(probe);
		work_check(probe->buffer + 20480, 3 * probe->mtu, 9, "read");
		work_check(probe->buffer + 40960, 1, 9, "read");
	} else {
		work_await(probe, IBV_WC_SUCCESS);
		work_check(probe->buffer + 32768, 2 * probe->mtu, 3, "send");
		work_await(probe, IBV_WC_SUCCESS);
		work_check(probe->buffer + 49152, 10, 3, "send");
		work_check(probe->buffer + 24576, probe->mtu + 3, 3, "write");
	}
	meeting_point(probe, "done");
}
