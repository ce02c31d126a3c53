/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests to packets: which packets, with which fields, and when none.
 */
#include "unit/transport/rc_fixture.h"

#include <string.h>

#include "transport/rc_wqe.h"

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
	bool has_immediate = c->opcode == IBV_WR_SEND_WITH_IMM ||
			     c->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
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

static void inline_bytes_are_those_of_the_post(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	const struct fixture_packet *packet;

	(void)state;
	memset(f->memory, 0x33, 64);
	fixture_post(f, IBV_WR_SEND, 0, 60, IBV_SEND_INLINE);
	memset(f->memory, 0x44, 64);
	fixture_run(f);
	packet = fixture_expect(f, OPCODE_SEND_ONLY, 0xfffffe);
	assert_int_equal(packet->out.packet.payload_bytes, 60);
	for (int i = 0; i < 60; i++)
		assert_int_equal(packet->bytes[i], 0x33);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* --- READ and atomics --- */

static void expect_read_request(struct fixture *f, uint32_t psn, uint32_t offset, uint32_t length)
{
	const struct packet *packet = &fixture_expect(f, OPCODE_READ_REQUEST, psn)->out.packet;

	assert_int_equal(packet->reth.address, FIXTURE_REMOTE_ADDRESS + offset);
	assert_int_equal(packet->reth.rkey, FIXTURE_REMOTE_KEY);
	assert_int_equal(packet->reth.length, length);
	assert_int_equal(packet->payload_bytes, 0);
	assert_true(packet->ack_requested);
}

struct read_case {
	uint32_t length;
	uint8_t depth;
	uint32_t requests; /* at once */
	struct {
		uint32_t psn, offset, length;
	} request[4];
};

static const struct read_case read_cases[] = {
	{0, 4, 1, {{0xfffffe, 0, 0}}},
	{1, 4, 1, {{0xfffffe, 0, 1}}},
	{1025, 4, 1, {{0xfffffe, 0, 1025}}},
	{65536, 4, 1, {{0xfffffe, 0, 65536}}},
	{65537, 4, 2, {{0xfffffe, 0, 65536}, {0x3e, 65536, 1}}},
	{200000,
	 4,
	 4,
	 {{0xfffffe, 0, 65536}, {0x3e, 65536, 65536}, {0x7e, 131072, 65536}, {0xbe, 196608, 3392}}},
	{200000, 2, 2, {{0xfffffe, 0, 65536}, {0x3e, 65536, 65536}}},
	{200000, 1, 1, {{0xfffffe, 0, 65536}}},
};

static void read_is_asked_for_in_pieces(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(read_cases) / sizeof(read_cases[0]); i++) {
		const struct read_case *c = &read_cases[i];
		struct fixture_settings settings = fixture_usual;
		struct fixture *f;

		settings.max_rd_atomic = c->depth;
		f = fixture_new(&settings);
		fixture_post(f, IBV_WR_RDMA_READ, 0, c->length, 0);
		fixture_run(f);
		for (uint32_t r = 0; r < c->requests; r++)
			expect_read_request(f, c->request[r].psn, c->request[r].offset,
					    c->request[r].length);
		fixture_expect_nothing(f);
		fixture_free(f);
	}
}

static void answer_opens_the_read_depth(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.max_rd_atomic = 1;
	f = fixture_new(&settings);
	fixture_post(f, IBV_WR_RDMA_READ, 0, 2000, 0);
	fixture_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	expect_read_request(f, 0xfffffe, 0, 2000);
	fixture_expect_nothing(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xfffffe, 1, 1024);
	fixture_expect_nothing(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_LAST, 0xffffff, 2, 976);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect(f, OPCODE_FETCH_ADD, 0);
	fixture_expect(f, OPCODE_SEND_ONLY, 1);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void atomics_have_their_operands(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	const struct packet *packet;

	(void)state;
	fixture_post(f, IBV_WR_ATOMIC_CMP_AND_SWP, 64, 8, 0);
	fixture_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 72, 8, 0);
	fixture_run(f);
	packet = &fixture_expect(f, OPCODE_COMPARE_SWAP, 0xfffffe)->out.packet;
	assert_int_equal(packet->atomic.address, FIXTURE_REMOTE_ADDRESS);
	assert_int_equal(packet->atomic.rkey, FIXTURE_REMOTE_KEY);
	assert_int_equal(packet->atomic.compare, 0x0102030405060708);
	assert_int_equal(packet->atomic.swap_or_add, 0x1112131415161718);
	assert_true(packet->ack_requested);
	packet = &fixture_expect(f, OPCODE_FETCH_ADD, 0xffffff)->out.packet;
	assert_int_equal(packet->atomic.swap_or_add, 0x0102030405060708);
	assert_int_equal(packet->atomic.compare, 0);
	assert_true(packet->ack_requested);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void read_without_depth_fails_locally(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.max_rd_atomic = 0;
	f = fixture_new(&settings);
	fixture_post(f, IBV_WR_RDMA_READ, 0, 8, 0);
	fixture_run(f);
	fixture_expect_completion(f, 1, IBV_WC_LOC_QP_OP_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	fixture_free(f);
}

/* --- what holds a request back --- */

static void fence_waits_for_reads_and_atomics(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 8, 0);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_post(f, IBV_WR_SEND, 0, 8, IBV_SEND_FENCE);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	fixture_expect(f, OPCODE_READ_REQUEST, 0xfffffe);
	fixture_expect(f, OPCODE_SEND_ONLY, 0xffffff);
	fixture_expect_nothing(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 0xfffffe, 1, 8);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect(f, OPCODE_SEND_ONLY, 0);
	fixture_expect(f, OPCODE_SEND_ONLY, 1);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void draining_finishes_what_was_started(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_SEND, 0, 1500, 0);
	fixture_run(f);
	fixture_expect(f, OPCODE_SEND_FIRST, 0xfffffe);
	fixture_expect(f, OPCODE_SEND_LAST, 0xffffff);
	fixture_move(f, IBV_QPS_SQD);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	fixture_expect_nothing(f);
	fixture_nak(f, 0xffffff, SYNDROME_NAK_SEQUENCE);
	fixture_expect(f, OPCODE_SEND_LAST, 0xffffff);
	fixture_expect_nothing(f);
	fixture_ack(f, 0xffffff);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_event(f, IBV_EVENT_SQ_DRAINED);
	fixture_run(f);
	fixture_expect_nothing(f);
	fixture_move(f, IBV_QPS_RTS);
	fixture_expect(f, OPCODE_SEND_ONLY, 0);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void draining_an_idle_queue_is_told_once_per_stay(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	for (int i = 0; i < 2; i++) {
		fixture_move(f, IBV_QPS_SQD);
		fixture_expect_event(f, IBV_EVENT_SQ_DRAINED);
		fixture_run(f);
		fixture_expect_nothing(f);
		fixture_move(f, IBV_QPS_RTS);
		fixture_expect_nothing(f);
	}
	fixture_free(f);
}

/* --- errors of our own --- */

static void bad_key_waits_for_its_turn(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	const struct completion *failed;

	(void)state;
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	fixture_expect(f, OPCODE_SEND_ONLY, 0xfffffe);
	fixture_deregister(f);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_post(f, IBV_WR_SEND, 0, 0, 0);
	fixture_run(f);
	fixture_expect_nothing(f);
	fixture_ack(f, 0xfffffe);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	failed = fixture_expect_completion(f, 2, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(failed->complaint.reason, REASON_KEY_UNKNOWN);
	assert_int_equal(failed->complaint.key, FIXTURE_KEY);
	assert_int_equal(failed->complaint.qpn, FIXTURE_QPN);
	assert_int_equal(failed->slots_released, 2);
	fixture_expect_completion(f, 3, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
	fixture_free(f);
}

static void read_needs_local_write(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	struct ibv_sge sge = {
		.addr = FIXTURE_READ_ONLY_IOVA, .length = 16, .lkey = FIXTURE_READ_ONLY_KEY};
	struct ibv_send_wr wr = {
		.wr_id = 9, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};

	(void)state;
	assert_int_equal(qp_post_send(f->qp, &wr, &copier_direct, NULL), 0);
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(qp_post_send(f->qp, &wr, &copier_direct, NULL), 0);
	fixture_run(f);
	fixture_expect(f, OPCODE_WRITE_ONLY, 0xfffffe);
	fixture_expect_nothing(f);
	fixture_ack(f, 0xfffffe);
	fixture_expect_completion(f, 9, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 9, IBV_WC_LOC_PROT_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* A region that goes away between sending and repeating. */
static void memory_lost_before_a_repeat(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 0, 0);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 2048, 0);
	fixture_post(f, IBV_WR_SEND, 0, 0, 0);
	fixture_run(f);
	fixture_expect(f, OPCODE_WRITE_ONLY, 0xfffffe);
	fixture_expect(f, OPCODE_WRITE_FIRST, 0xffffff);
	fixture_expect(f, OPCODE_WRITE_LAST, 0);
	fixture_expect(f, OPCODE_SEND_ONLY, 1);
	fixture_deregister(f);
	fixture_nak(f, 0xfffffe, SYNDROME_NAK_SEQUENCE);
	/* The one without bytes is repeated; the next cannot be, nor what comes after it. */
	fixture_expect(f, OPCODE_WRITE_ONLY, 0xfffffe);
	fixture_expect_nothing(f);
	/* That the first copy did arrive comes too late to change it. */
	fixture_ack(f, 1);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_LOC_PROT_ERR);
	fixture_expect_completion(f, 3, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* --- going back --- */

struct back_case {
	uint32_t nak_psn;
	uint32_t packets;
	struct {
		enum opcode operation;
		uint32_t psn;
	} packet[6];
};

/* SEND of 3 at 0xfffffe, WRITE_IMM of 2 at 1, READ of 2 at 3, SEND of 1 at 5. */
static const struct back_case back_cases[] = {
	{0xfffffe,
	 6,
	 {{OPCODE_SEND_FIRST, 0xfffffe},
	  {OPCODE_SEND_MIDDLE, 0xffffff},
	  {OPCODE_SEND_LAST, 0},
	  {OPCODE_WRITE_FIRST, 1},
	  {OPCODE_WRITE_LAST_IMM, 2},
	  {OPCODE_READ_REQUEST, 3}}},
	{0xffffff,
	 6,
	 {{OPCODE_SEND_MIDDLE, 0xffffff},
	  {OPCODE_SEND_LAST, 0},
	  {OPCODE_WRITE_FIRST, 1},
	  {OPCODE_WRITE_LAST_IMM, 2},
	  {OPCODE_READ_REQUEST, 3},
	  {OPCODE_SEND_ONLY, 5}}},
	{1,
	 4,
	 {{OPCODE_WRITE_FIRST, 1},
	  {OPCODE_WRITE_LAST_IMM, 2},
	  {OPCODE_READ_REQUEST, 3},
	  {OPCODE_SEND_ONLY, 5}}},
	{2, 3, {{OPCODE_WRITE_LAST_IMM, 2}, {OPCODE_READ_REQUEST, 3}, {OPCODE_SEND_ONLY, 5}}},
	{3, 2, {{OPCODE_READ_REQUEST, 3}, {OPCODE_SEND_ONLY, 5}}},
	/* The NAK passes the answers of the READ: they are lost too. */
	{5, 2, {{OPCODE_READ_REQUEST, 3}, {OPCODE_SEND_ONLY, 5}}},
	{6, 0, {{0, 0}}},
	{0xfffffd, 0, {{0, 0}}},
};

static struct fixture *with_four_messages(void)
{
	struct fixture *f = fixture_new(&fixture_usual);

	fixture_post(f, IBV_WR_SEND, 0, 3000, 0);
	fixture_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 2000, 0);
	fixture_post(f, IBV_WR_RDMA_READ, 0, 2000, 0);
	fixture_post(f, IBV_WR_SEND, 0, 100, 0);
	fixture_run(f);
	assert_int_equal(f->packet_count, 7);
	f->packet_next = 7;
	fixture_expect_nothing(f);
	return f;
}

static void goes_back_into_the_middle(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(back_cases) / sizeof(back_cases[0]); i++) {
		const struct back_case *c = &back_cases[i];
		struct fixture *f = with_four_messages();

		fixture_nak(f, c->nak_psn, SYNDROME_NAK_SEQUENCE);
		for (uint32_t p = 0; p < c->packets; p++)
			fixture_expect(f, c->packet[p].operation, c->packet[p].psn);
		if (i == 0)
			fixture_expect(f, OPCODE_SEND_ONLY, 5);
		f->completion_next = f->completion_count;
		fixture_expect_nothing(f);
		fixture_free(f);
	}
}

static void read_is_repeated_from_what_is_missing(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 8 * 1024, 0);
	fixture_run(f);
	expect_read_request(f, 0xfffffe, 0, 8 * 1024);
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xfffffe, 1, 1024);
	fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE, 0xffffff, 1, 1024);
	fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE, 0, 1, 1024);
	fixture_expect_nothing(f);
	/* 1 is lost; 4 is three ahead. */
	fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE, 2, 1, 1024);
	fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE, 3, 1, 1024);
	fixture_expect_nothing(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE, 4, 1, 1024);
	expect_read_request(f, 1, 3 * 1024, 5 * 1024);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* Behind a READ whose answer is lost, what was acknowledged need not be sent twice. */
static void acknowledged_packets_are_stepped_over(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 1000, 0);
	fixture_post(f, IBV_WR_SEND, 0, 3000, 0);
	fixture_run(f);
	expect_read_request(f, 0xfffffe, 0, 1000);
	fixture_expect(f, OPCODE_SEND_FIRST, 0xffffff);
	fixture_expect(f, OPCODE_SEND_MIDDLE, 0);
	fixture_expect(f, OPCODE_SEND_LAST, 1);
	fixture_ack(f, 0);
	expect_read_request(f, 0xfffffe, 0, 1000);
	fixture_expect(f, OPCODE_SEND_LAST, 1);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* Two requests with an end at 0x3e: repeating must not join them. */
static void repeated_reads_keep_their_ends(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 100 * 1024, 0);
	fixture_run(f);
	expect_read_request(f, 0xfffffe, 0, 65536);
	expect_read_request(f, 0x3e, 65536, 100 * 1024 - 65536);
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xfffffe, 1, 1024);
	fixture_nak(f, 0x3e, SYNDROME_NAK_SEQUENCE);
	expect_read_request(f, 0xffffff, 1024, 63 * 1024);
	expect_read_request(f, 0x3e, 65536, 100 * 1024 - 65536);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* 2^31 bytes in packets of 256: as many as a signed distance can no longer tell. */
static struct fixture *with_longest_message(void)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	settings.payload_max = 256;
	f = fixture_new(&settings);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, FIXTURE_BYTES, 0);
	send_wqe_at(&f->qp->send_queue, 0)->length = MESSAGE_BYTES_MAX;
	assert_true(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packet_count, OUTBOX_PACKETS);
	assert_int_equal(send_wqe_at(&f->qp->send_queue, 0)->psn_count, PSN_HALF);
	outbox_clear(&f->out);
	return f;
}

static void a_message_of_half_the_psn_space(void **state)
{
	struct fixture *f = with_longest_message();
	struct rc_requester *requester = &f->qp->requester;
	uint32_t next = psn_add(0xfffffe, OUTBOX_PACKETS);
	struct packet ack = fixture_packet(OPCODE_ACKNOWLEDGE, next - 1);

	(void)state;
	assert_int_equal(requester->psn_next, next);
	ack.aeth.syndrome = SYNDROME_ACK_UNLIMITED;
	assert_int_equal(fixture_receive_only(f, &ack), REASON_NONE);
	assert_int_equal(requester->psn_unacked, next);
	assert_true(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packets[0].packet.psn, next);
	assert_int_equal(f->out.packets[0].packet.opcode, OPCODE_WRITE_MIDDLE);
	fixture_free(f);
}

static void less_than_half_of_the_psns_are_outstanding(void **state)
{
	struct fixture *f = with_longest_message();
	struct rc_requester *requester = &f->qp->requester;

	(void)state;
	/* As if all but two had been sent. */
	requester->send_psn = psn_add(requester->psn_unacked, PSN_HALF - 2);
	requester->psn_next = requester->send_psn;
	assert_false(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packet_count, 1);
	assert_true(f->out.packets[0].packet.ack_requested);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(message_becomes_packets),
		cmocka_unit_test(inline_bytes_are_those_of_the_post),
		cmocka_unit_test(read_is_asked_for_in_pieces),
		cmocka_unit_test(answer_opens_the_read_depth),
		cmocka_unit_test(atomics_have_their_operands),
		cmocka_unit_test(read_without_depth_fails_locally),
		cmocka_unit_test(fence_waits_for_reads_and_atomics),
		cmocka_unit_test(draining_finishes_what_was_started),
		cmocka_unit_test(draining_an_idle_queue_is_told_once_per_stay),
		cmocka_unit_test(bad_key_waits_for_its_turn),
		cmocka_unit_test(read_needs_local_write),
		cmocka_unit_test(memory_lost_before_a_repeat),
		cmocka_unit_test(goes_back_into_the_middle),
		cmocka_unit_test(read_is_repeated_from_what_is_missing),
		cmocka_unit_test(acknowledged_packets_are_stepped_over),
		cmocka_unit_test(repeated_reads_keep_their_ends),
		cmocka_unit_test(a_message_of_half_the_psn_space),
		cmocka_unit_test(less_than_half_of_the_psns_are_outstanding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
