/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests to packets: which packets, with which fields, and when none.
 */
#include "unit/transport/rc_fixture.h"

#include <string.h>

/* The usual settings with one or two changed. */
#define USUAL_WITH(...) \
	(&(const struct fixture_settings){ \
		.payload_max = 1024, \
		.sq_psn = 100, \
		.rq_psn = 0x100, \
		.send_wr_max = 16, \
		.recv_wr_max = 16, \
		.sge_max = 4, \
		.inline_max = 64, \
		.max_rd_atomic = 4, \
		.max_dest_rd_atomic = 4, \
		.timeout = 14, \
		.retry_cnt = 3, \
		.rnr_retry = 2, \
		.min_rnr_timer = 12, \
		.signals_all = true, \
		.outbound_bytes_max = INT64_MAX, \
		.inbound_bytes_max = INT64_MAX, \
		__VA_ARGS__})

static void number_memory(struct fixture *f)
{
	for (uint32_t i = 0; i < FIXTURE_BYTES; i++)
		f->memory[i] = (uint8_t)(i * 7 + i / 251);
}

/* --- one message: all kinds and lengths, across the wrap of PSNs --- */

struct message_case {
	enum ibv_wr_opcode opcode;
	uint32_t length;
	uint32_t packets;
	enum opcode first, middle, last; /* ONLY kinds stand in first */
};

static const struct message_case message_cases[] = {
	{IBV_WR_SEND, 0, 1, OPCODE_SEND_ONLY, 0, 0},
	{IBV_WR_SEND, 1, 1, OPCODE_SEND_ONLY, 0, 0},
	{IBV_WR_SEND, 1024, 1, OPCODE_SEND_ONLY, 0, 0},
	{IBV_WR_SEND, 1025, 2, OPCODE_SEND_FIRST, 0, OPCODE_SEND_LAST},
	{IBV_WR_SEND, 4096, 4, OPCODE_SEND_FIRST, OPCODE_SEND_MIDDLE, OPCODE_SEND_LAST},
	{IBV_WR_SEND_WITH_IMM, 0, 1, OPCODE_SEND_ONLY_IMM, 0, 0},
	{IBV_WR_SEND_WITH_IMM, 2049, 3, OPCODE_SEND_FIRST, OPCODE_SEND_MIDDLE,
	 OPCODE_SEND_LAST_IMM},
	{IBV_WR_RDMA_WRITE, 0, 1, OPCODE_WRITE_ONLY, 0, 0},
	{IBV_WR_RDMA_WRITE, 1023, 1, OPCODE_WRITE_ONLY, 0, 0},
	{IBV_WR_RDMA_WRITE, 3000, 3, OPCODE_WRITE_FIRST, OPCODE_WRITE_MIDDLE, OPCODE_WRITE_LAST},
	{IBV_WR_RDMA_WRITE_WITH_IMM, 7, 1, OPCODE_WRITE_ONLY_IMM, 0, 0},
	{IBV_WR_RDMA_WRITE_WITH_IMM, 5 * 1024, 5, OPCODE_WRITE_FIRST, OPCODE_WRITE_MIDDLE,
	 OPCODE_WRITE_LAST_IMM},
	/* More than an outbox holds. */
	{IBV_WR_RDMA_WRITE, 100 * 1024 + 1, 101, OPCODE_WRITE_FIRST, OPCODE_WRITE_MIDDLE,
	 OPCODE_WRITE_LAST},
};

static void expect_reth(const struct packet *packet, bool is_there, uint32_t length)
{
	assert_int_equal(packet->reth.address, is_there ? FIXTURE_REMOTE_ADDRESS : 0);
	assert_int_equal(packet->reth.rkey, is_there ? FIXTURE_REMOTE_KEY : 0);
	assert_int_equal(packet->reth.length, is_there ? length : 0);
}

static void expect_message(struct fixture *f, const struct message_case *c, uint32_t first_psn)
{
	bool is_write = c->opcode == IBV_WR_RDMA_WRITE || c->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool has_immediate =
		c->opcode == IBV_WR_SEND_WITH_IMM || c->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool is_solicited = c->opcode != IBV_WR_RDMA_WRITE;

	for (uint32_t i = 0; i < c->packets; i++) {
		bool is_last = i == c->packets - 1;
		enum opcode operation = i == 0 ? c->first : is_last ? c->last : c->middle;
		const struct fixture_packet *packet = fixture_expect(f, operation, first_psn + i);
		uint32_t bytes = is_last ? c->length - i * 1024 : 1024;

		assert_int_equal(packet->out.packet.payload_bytes, bytes);
		assert_memory_equal(packet->bytes, f->memory + 512 + i * 1024, bytes);
		expect_reth(&packet->out.packet, is_write && i == 0, c->length);
		assert_int_equal(packet->out.packet.solicited, is_last && is_solicited);
		assert_int_equal(packet->out.packet.immediate,
				 is_last && has_immediate ? htobe32(0x11223344) : 0);
		/* Besides the last of the message, only the last that filled an outbox. */
		assert_int_equal(packet->out.packet.ack_requested,
				 is_last || (i + 1) % OUTBOX_PACKETS == 0);
	}
}

static void message_becomes_packets(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(message_cases) / sizeof(message_cases[0]); i++) {
		const struct message_case *c = &message_cases[i];
		struct fixture *f = fixture_new(&fixture_usual);

		number_memory(f);
		fixture_post(f, c->opcode, 512, c->length, IBV_SEND_SOLICITED);
		fixture_run(f);
		expect_message(f, c, 0xfffffe);
		fixture_expect_nothing(f);
		fixture_free(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(message_becomes_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
