/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs whose payload the peer lends: what is asked of the reach, where it lands, and what becomes of the
 * connection when it cannot be had. The requester's part is in lent_test.c.
 */
#include <string.h>

#include "memory/window.h"
#include "transport/rc_lent.h"
#include "unit/transport/request_step.h"

#define LENT_KEY 0x00ddd001u
#define LENT_ADDRESS 0x0000555500000000ull
#define LENT_BYTES_THERE (640u << 10)
#define PIECES_KEPT 8

/* The peer's memory, and what was asked of it. */
static struct {
	struct reach reach;
	struct fixture *f;
	uint8_t memory[LENT_BYTES_THERE];
	uint32_t calls;
	uint32_t calls_allowed; /* later ones fail, when half of it is copied */
	struct reach_step last;
	size_t piece_lengths[PIECES_KEPT];
} peer;

static void keep_step(const struct reach_step *step)
{
	peer.last = *step;
	for (uint32_t i = 0; i < step->piece_count && i < PIECES_KEPT; i++)
		peer.piece_lengths[i] = step->pieces[i].length;
}

static bool fetch_from_peer(struct reach *reach, const struct reach_step *step)
{
	const uint8_t *there = peer.memory + (step->address - LENT_ADDRESS);
	bool is_done = peer.calls++ < peer.calls_allowed;
	uint32_t bytes = 0;

	assert_ptr_equal(reach, &peer.reach);
	assert_true(step->is_read);
	assert_int_equal(step->key, LENT_KEY);
	assert_int_equal(step->offset, 0);
	assert_int_equal(step->bytes, step->length);
	assert_ptr_equal(step->copier, peer.f->core.copier);
	assert_int_equal(step->now, peer.f->core.now);
	keep_step(step);
	for (uint32_t i = 0; i < step->piece_count; i++) {
		const struct held_piece *piece = &step->pieces[i];

		memcpy(piece->host, there + bytes, is_done ? piece->length : piece->length / 2);
		bytes += (uint32_t)piece->length;
	}
	assert_int_equal(bytes, step->bytes);
	return is_done;
}

static struct fixture *open_borrower(const struct fixture_settings *settings)
{
	struct fixture *f = fixture_new(settings);

	memset(&peer, 0, sizeof(peer));
	peer.reach.fetch = fetch_from_peer;
	peer.f = f;
	peer.calls_allowed = UINT32_MAX;
	for (uint32_t i = 0; i < LENT_BYTES_THERE; i++)
		peer.memory[i] = message_byte(i);
	f->qp->path.reach = &peer.reach;
	return f;
}

static int make_borrower(void **state)
{
	*state = open_borrower(&fixture_usual);
	return 0;
}

/* Whatever happened, nothing of ours stays held. */
static void close_borrower(struct fixture *f)
{
	fixture_expect_nothing(f);
	assert_true(pin_slot_is_idle(&f->region->pin));
	fixture_free(f);
}

static int free_borrower(void **state)
{
	close_borrower(*state);
	return 0;
}

/* As lent_parse() leaves it. */
static struct packet lent_packet(enum opcode operation, uint32_t psn, uint32_t offset,
				 uint32_t length)
{
	struct packet packet = fixture_packet(operation, psn);

	packet.ack_requested = true;
	packet.immediate = htobe32(0xcafe0001);
	packet.lent_key = LENT_KEY;
	packet.lent_address = LENT_ADDRESS + offset;
	packet.payload_bytes = length;
	return packet;
}

static enum reason lend(struct fixture *f, enum opcode operation, uint32_t psn, uint32_t offset,
			uint32_t length)
{
	struct packet packet = lent_packet(operation, psn, offset, length);

	return fixture_receive(f, &packet);
}

static void expect_lent(struct fixture *f, enum opcode operation, uint32_t psn, uint32_t offset,
			uint32_t length)
{
	uint32_t calls = peer.calls;

	assert_int_equal(lend(f, operation, psn, offset, length), REASON_NONE);
	assert_int_equal(peer.calls, calls + 1);
	assert_int_equal(peer.last.address, LENT_ADDRESS + offset);
	assert_int_equal(peer.last.length, length);
}

/* An ordinary packet of the same message. */
static enum reason carry(struct fixture *f, enum opcode operation, uint32_t psn, uint32_t offset,
			 uint32_t length)
{
	const struct step step = {
		.operation = operation, .length = length, .offset = offset, .ack_requested = true};

	return send_step(f, &step, psn);
}

/* The whole message of @length bytes by ordinary packets from @psn on; each is acknowledged. */
static void carry_all(struct fixture *f, uint32_t psn, uint32_t length)
{
	for (uint32_t offset = 0; offset < length; offset += MTU, psn++) {
		bool is_last = length - offset <= MTU;
		enum opcode operation = offset == 0 ? OPCODE_SEND_FIRST
					: is_last   ? OPCODE_SEND_LAST
						    : OPCODE_SEND_MIDDLE;

		assert_int_equal(carry(f, operation, psn, offset, is_last ? length - offset : MTU),
				 REASON_NONE);
		fixture_expect_ack(f, psn, SYNDROME_ACK_UNLIMITED, is_last);
	}
}

static const struct completion *expect_received(struct fixture *f, uint64_t wr_id, uint32_t length)
{
	const struct completion *completion = fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS);

	assert_true(completion->is_receive);
	assert_int_equal(completion->byte_len, length);
	expect_bytes(f, RECV_OFFSET, length);
	return completion;
}

/* The whole message, the first that arrives, in one packet. */
static void expect_fetched(struct fixture *f, uint32_t length)
{
	expect_lent(f, OPCODE_SEND_ONLY, E, 0, length);
	fixture_expect_ack(f, E + (length - 1) / MTU, SYNDROME_ACK_UNLIMITED, 1);
	expect_received(f, 1, length);
}

static void expect_counted(const struct fixture *f, uint64_t sends, uint64_t bytes)
{
	assert_int_equal(qp_counters_get(f->qp->counters, QP_LENT_SENDS), sends);
	assert_int_equal(qp_counters_get(f->qp->counters, QP_LENT_BYTES), bytes);
}

/* --- it is fetched --- */

static void one_packet_takes_many_psns(void **state)
{
	struct fixture *f = *state;

	fixture_post_recv(f, RECV_OFFSET, 6000);
	expect_lent(f, OPCODE_SEND_ONLY, E, 0, 5000);
	fixture_expect_ack(f, E + 4, SYNDROME_ACK_UNLIMITED, 1);
	expect_received(f, 1, 5000);
	assert_int_equal(f->qp->responder.psn_expected, E + 5);
	assert_int_equal(peer.last.piece_count, 1);
	expect_counted(f, 1, 5000);
	/* What follows has the PSN behind. */
	fixture_post_recv(f, WRITE_OFFSET, 100);
	assert_int_equal(carry(f, OPCODE_SEND_ONLY, E + 5, 0, 100), REASON_NONE);
	fixture_expect_ack(f, E + 5, SYNDROME_ACK_UNLIMITED, 2);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	expect_counted(f, 1, 5000);
}

static void a_long_one_comes_in_pieces(void **state)
{
	const uint32_t psns = LENT_BYTES_MAX / MTU, length = 2 * LENT_BYTES_MAX + 10;
	struct fixture *f = *state;

	fixture_post_recv(f, RECV_OFFSET, length);
	expect_lent(f, OPCODE_SEND_FIRST, E, 0, LENT_BYTES_MAX);
	fixture_expect_ack(f, E + psns - 1, SYNDROME_ACK_UNLIMITED, 0);
	expect_lent(f, OPCODE_SEND_MIDDLE, E + psns, LENT_BYTES_MAX, LENT_BYTES_MAX);
	fixture_expect_ack(f, E + 2 * psns - 1, SYNDROME_ACK_UNLIMITED, 0);
	expect_counted(f, 0, 2 * LENT_BYTES_MAX);
	expect_lent(f, OPCODE_SEND_LAST, E + 2 * psns, 2 * LENT_BYTES_MAX, 10);
	fixture_expect_ack(f, E + 2 * psns, SYNDROME_ACK_UNLIMITED, 1);
	expect_received(f, 1, length);
	expect_counted(f, 1, length);
}

static void psns_wrap(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.rq_psn = PSN_MASK - 1;
	f = open_borrower(&settings);
	fixture_post_recv(f, RECV_OFFSET, 4 * MTU);
	expect_lent(f, OPCODE_SEND_ONLY, PSN_MASK - 1, 0, 3 * MTU + 1);
	fixture_expect_ack(f, 1, SYNDROME_ACK_UNLIMITED, 1);
	expect_received(f, 1, 3 * MTU + 1);
	assert_int_equal(f->qp->responder.psn_expected, 2);
	close_borrower(f);
}

/* A message that was refused in its middle, or whose sender ceases to lend. */
static void lent_and_carried_make_one_message(void **state)
{
	static const struct {
		uint32_t packets[3];
		bool is_lent[3];
	} cases[] = {
		{{2, 0, 1}, {true, false, false}}, {{1, 0, 3}, {false, false, true}},
		{{1, 2, 1}, {false, true, false}}, {{2, 1, 2}, {true, false, true}},
		{{2, 3, 1}, {true, true, false}},
	};
	static const enum opcode operations[] = {OPCODE_SEND_FIRST, OPCODE_SEND_MIDDLE,
						 OPCODE_SEND_LAST};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture *f = open_borrower(&fixture_usual);
		uint32_t packets = 0;

		fixture_post_recv(f, RECV_OFFSET, 8 * MTU);
		for (int part = 0; part < 3; part++) {
			uint32_t offset = packets * MTU, length = cases[i].packets[part] * MTU;

			if (length == 0)
				continue;
			if (cases[i].is_lent[part])
				expect_lent(f, operations[part], E + packets, offset, length);
			else
				assert_int_equal(carry(f, operations[part], E + packets, offset,
						       length),
						 REASON_NONE);
			packets += cases[i].packets[part];
			fixture_expect_ack(f, E + packets - 1, SYNDROME_ACK_UNLIMITED, part == 2);
		}
		expect_received(f, 1, packets * MTU);
		/* By the last packet it is counted as one. */
		assert_int_equal(qp_counters_get(f->qp->counters, QP_LENT_SENDS),
				 cases[i].is_lent[2]);
		close_borrower(f);
	}
}

static void immediate_and_solicited_are_told(void **state)
{
	struct packet packet = lent_packet(OPCODE_SEND_ONLY_IMM, E, 0, 2000);
	struct fixture *f = *state;
	const struct completion *completion;

	packet.solicited = true;
	fixture_post_recv(f, RECV_OFFSET, 2000);
	assert_int_equal(fixture_receive(f, &packet), REASON_NONE);
	fixture_expect_ack(f, E + 1, SYNDROME_ACK_UNLIMITED, 1);
	completion = expect_received(f, 1, 2000);
	assert_int_equal(completion->wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(completion->immediate, htobe32(0xcafe0001));
	assert_true(completion->is_solicited);
}

/* @count elements of @length bytes each, one behind the other. */
static void post_list(struct fixture *f, uint32_t count, uint32_t length)
{
	struct ibv_sge list[REACH_PIECES_MAX + 1];
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = list, .num_sge = (int)count};

	for (uint32_t i = 0; i < count; i++)
		list[i] = (struct ibv_sge){.addr = FIXTURE_IOVA + RECV_OFFSET + i * length,
					   .length = length,
					   .lkey = FIXTURE_KEY};
	assert_int_equal(qp_post_recv(f->qp, &wr, NULL), 0);
}

static void expect_pieces(size_t first, size_t second, size_t third)
{
	assert_int_equal(peer.last.piece_count, (first > 0) + (second > 0) + (third > 0));
	assert_int_equal(peer.piece_lengths[0], first);
	assert_int_equal(peer.piece_lengths[1], second);
	if (third)
		assert_int_equal(peer.piece_lengths[2], third);
}

static void a_list_is_filled_as_one(void **state)
{
	struct fixture *f = *state;

	post_list(f, 4, 1500);
	expect_lent(f, OPCODE_SEND_FIRST, E, 0, 2 * MTU);
	expect_pieces(1500, 2 * MTU - 1500, 0);
	fixture_expect_ack(f, E + 1, SYNDROME_ACK_UNLIMITED, 0);
	expect_lent(f, OPCODE_SEND_LAST, E + 2, 2 * MTU, 2500);
	expect_pieces(3000 - 2 * MTU, 1500, 2500 + 2 * MTU - 4500);
	fixture_expect_ack(f, E + 4, SYNDROME_ACK_UNLIMITED, 1);
	expect_received(f, 1, 2 * MTU + 2500);
}

static void a_list_of_too_many_is_not_filled(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.sge_max = REACH_PIECES_MAX + 1;
	f = open_borrower(&settings);
	post_list(f, REACH_PIECES_MAX + 1, 100);
	assert_int_equal(lend(f, OPCODE_SEND_ONLY, E, 0, 100 * REACH_PIECES_MAX + 1),
			 REASON_DROP_LENT);
	assert_int_equal(peer.calls, 0);
	fixture_expect_ack(f, E, SYNDROME_NAK_SEQUENCE, 0);
	expect_fetched(f, 100 * REACH_PIECES_MAX);
	close_borrower(f);
}

/* --- it is asked again, or comes too early --- */

static void what_is_ahead_is_fetched_in_its_turn(void **state)
{
	struct fixture *f = *state;

	fixture_post_recv(f, WRITE_OFFSET, MTU);
	fixture_post_recv(f, RECV_OFFSET, 5000);
	assert_int_equal(lend(f, OPCODE_SEND_ONLY, E + 1, 0, 5000), REASON_NONE);
	fixture_expect_ack(f, E, SYNDROME_NAK_SEQUENCE, 0);
	assert_int_equal(held_buffers(f), 1);
	assert_int_equal(peer.calls, 0);
	assert_int_equal(carry(f, OPCODE_SEND_ONLY, E, 0, 100), REASON_NONE);
	assert_int_equal(peer.calls, 1);
	fixture_expect_ack(f, E + 5, SYNDROME_ACK_UNLIMITED, 2);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	expect_received(f, 2, 5000);
	assert_int_equal(held_buffers(f), 0);
}

static void what_cannot_be_had_in_its_turn_is_asked_for(void **state)
{
	struct fixture *f = *state;

	peer.calls_allowed = 0;
	fixture_post_recv(f, WRITE_OFFSET, MTU);
	fixture_post_recv(f, RECV_OFFSET, 2 * MTU);
	assert_int_equal(lend(f, OPCODE_SEND_ONLY, E + 1, 0, 2 * MTU), REASON_NONE);
	fixture_expect_ack(f, E, SYNDROME_NAK_SEQUENCE, 0);
	assert_int_equal(carry(f, OPCODE_SEND_ONLY, E, 0, 100), REASON_NONE);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	f->packet_next = f->packet_count - 1;
	fixture_expect_ack(f, E + 1, SYNDROME_NAK_SEQUENCE, 1);
	assert_int_equal(held_buffers(f), 0);
	assert_int_equal(carry(f, OPCODE_SEND_FIRST, E + 1, 0, MTU), REASON_NONE);
	assert_int_equal(carry(f, OPCODE_SEND_LAST, E + 2, MTU, MTU), REASON_NONE);
	f->packet_next = f->packet_count - 1;
	fixture_expect_ack(f, E + 2, SYNDROME_ACK_UNLIMITED, 2);
	expect_received(f, 2, 2 * MTU);
}

/* As a probe is, whose packet before was lost. */
static void what_it_stands_for_is_held_no_more(void **state)
{
	struct fixture *f = *state;

	fixture_post_recv(f, RECV_OFFSET, 5000);
	assert_int_equal(carry(f, OPCODE_SEND_LAST, E + 4, 4 * MTU, 5000 - 4 * MTU), REASON_NONE);
	fixture_expect_ack(f, E, SYNDROME_NAK_SEQUENCE, 0);
	assert_int_equal(held_buffers(f), 1);
	expect_fetched(f, 5000);
	assert_int_equal(held_buffers(f), 0);
}

static void a_repeat_is_acknowledged(void **state)
{
	struct fixture *f = *state;

	fixture_post_recv(f, RECV_OFFSET, 5000);
	fixture_post_recv(f, RECV_OFFSET, 5000);
	expect_fetched(f, 5000);
	assert_int_equal(lend(f, OPCODE_SEND_ONLY, E, 0, 5000), REASON_DROP_DUPLICATE);
	fixture_expect_ack(f, E + 4, SYNDROME_ACK_UNLIMITED, 1);
	/* Nor is one of its packets anything but a repeat. */
	assert_int_equal(carry(f, OPCODE_SEND_MIDDLE, E + 2, 2 * MTU, MTU), REASON_DROP_DUPLICATE);
	fixture_expect_ack(f, E + 4, SYNDROME_ACK_UNLIMITED, 1);
	assert_int_equal(peer.calls, 1);
}

/* --- it cannot be had --- */

static void expect_refused(struct fixture *f, uint32_t psn)
{
	fixture_expect_ack(f, psn, SYNDROME_NAK_SEQUENCE, 0);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	expect_counted(f, 0, 0);
}

/* Without a reach, without a way to fetch, and when that fails after having written some. */
static void what_cannot_be_had_comes_by_packets(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fixture *f = open_borrower(&fixture_usual);

		if (i == 0)
			f->qp->path.reach = NULL;
		if (i == 1)
			peer.reach.fetch = NULL;
		peer.calls_allowed = 0;
		fixture_post_recv(f, RECV_OFFSET, 5000);
		assert_int_equal(lend(f, OPCODE_SEND_ONLY, E, 0, 5000), REASON_DROP_LENT);
		assert_int_equal(peer.calls, i == 2);
		expect_refused(f, E);
		carry_all(f, E, 5000);
		expect_received(f, 1, 5000);
		expect_counted(f, 0, 0);
		close_borrower(f);
	}
}

/* Not all of a message, or not at first. */
static void it_may_fail_in_the_middle_and_be_lent_again(void **state)
{
	struct fixture *f = *state;

	fixture_post_recv(f, RECV_OFFSET, 5000);
	expect_lent(f, OPCODE_SEND_FIRST, E, 0, 4 * MTU);
	fixture_expect_ack(f, E + 3, SYNDROME_ACK_UNLIMITED, 0);
	peer.calls_allowed = 1;
	assert_int_equal(lend(f, OPCODE_SEND_LAST, E + 4, 4 * MTU, 5000 - 4 * MTU),
			 REASON_DROP_LENT);
	fixture_expect_ack(f, E + 4, SYNDROME_NAK_SEQUENCE, 0);
	fixture_expect_nothing(f);
	peer.calls_allowed = UINT32_MAX;
	expect_lent(f, OPCODE_SEND_LAST, E + 4, 4 * MTU, 5000 - 4 * MTU);
	fixture_expect_ack(f, E + 4, SYNDROME_ACK_UNLIMITED, 1);
	expect_received(f, 1, 5000);
}

/* What follows on its heels is held, and causes no NAK of its own. */
static void what_follows_one_that_failed_is_quiet(void **state)
{
	struct fixture *f = *state;

	peer.calls_allowed = 0;
	fixture_post_recv(f, RECV_OFFSET, 2 * MTU);
	assert_int_equal(lend(f, OPCODE_SEND_ONLY, E, 0, 2 * MTU), REASON_DROP_LENT);
	expect_refused(f, E);
	assert_int_equal(lend(f, OPCODE_SEND_ONLY, E + 2, 0, 2 * MTU), REASON_NONE);
	assert_int_equal(carry(f, OPCODE_SEND_ONLY, E + 4, 0, 8), REASON_NONE);
	fixture_expect_nothing(f);
	assert_int_equal(held_buffers(f), 2);
}

/* The receive that it took from an SRQ stays with the QP, and goes back when that ends. */
static void an_srq_gives_the_receive_once(void **state)
{
	static _Alignas(64) uint8_t memory[4096];
	struct fixture_settings settings = fixture_usual;
	struct ibv_sge sge = {
		.addr = FIXTURE_IOVA + RECV_OFFSET, .length = 5000, .lkey = FIXTURE_KEY};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
	struct srq srq;
	struct fixture *f;

	(void)state;
	assert_true(srq_bytes(4, 1) <= sizeof(memory));
	srq_init(&srq, memory, 4, 1, FIXTURE_PD);
	for (wr.wr_id = 1; wr.wr_id <= 2; wr.wr_id++)
		assert_int_equal(srq_post(&srq, &wr, NULL), 0);
	settings.recv_wr_max = 0;
	settings.srq = &srq;
	f = open_borrower(&settings);
	peer.calls_allowed = 0;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(lend(f, OPCODE_SEND_ONLY, E, 0, 5000), REASON_DROP_LENT);
		expect_refused(f, E);
		assert_int_equal(srq.waiting_count, 1);
		assert_int_equal(srq.taken_count, 1);
	}
	carry_all(f, E, 5000);
	assert_ptr_equal(expect_received(f, 1, 5000)->srq, &srq);
	assert_int_equal(srq.taken_count, 0);
	assert_int_equal(lend(f, OPCODE_SEND_ONLY, E + 5, 0, 5000), REASON_DROP_LENT);
	fixture_expect_ack(f, E + 5, SYNDROME_NAK_SEQUENCE, 1);
	fixture_move(f, IBV_QPS_ERR);
	fixture_expect_completion(f, 2, IBV_WC_WR_FLUSH_ERR);
	f->event_next = f->event_count; /* about the last WQE of the SRQ */
	assert_int_equal(srq.taken_count, 0);
	close_borrower(f);
}

static void without_a_receive_nothing_is_fetched(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(lend(f, OPCODE_SEND_ONLY, E, 0, 5000), REASON_RECV_QUEUE_EMPTY);
	fixture_expect_ack(f, E, SYNDROME_RNR_BASE | fixture_usual.min_rnr_timer, 0);
	assert_int_equal(peer.calls, 0);
	fixture_post_recv(f, RECV_OFFSET, 5000);
	expect_fetched(f, 5000);
}

/* What is wrong with the receive is told when the payload comes by packets. */
static void a_receive_whose_memory_is_gone(void **state)
{
	struct fixture *f = *state;

	fixture_post_recv(f, RECV_OFFSET, 5000);
	pin_slot_retire(&f->region->pin);
	assert_int_equal(lend(f, OPCODE_SEND_ONLY, E, 0, 5000), REASON_DROP_LENT);
	assert_int_equal(peer.calls, 0);
	expect_refused(f, E);
	assert_int_equal(carry(f, OPCODE_SEND_FIRST, E, 0, MTU), REASON_KEY_UNKNOWN);
	fixture_expect_ack(f, E, SYNDROME_NAK_REMOTE_OPERATION, 0);
	fixture_expect_completion(f, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	pin_slot_publish(&f->region->pin, FIXTURE_KEY);
}

/* --- it makes no sense --- */

static void what_does_not_fit_is_an_invalid_request(void **state)
{
	static const struct {
		enum opcode operation;
		uint32_t length;
		enum reason reason;
	} cases[] = {
		{OPCODE_SEND_FIRST, 4 * MTU + 1, REASON_PACKET_LENGTH},
		{OPCODE_SEND_FIRST, MTU - 1, REASON_PACKET_LENGTH},
		{OPCODE_SEND_FIRST, 0, REASON_PACKET_LENGTH},
		{OPCODE_SEND_ONLY, 0, REASON_PACKET_LENGTH},
		{OPCODE_SEND_MIDDLE, MTU, REASON_OPCODE_ORDER},
		{OPCODE_SEND_LAST, MTU, REASON_OPCODE_ORDER},
		{OPCODE_SEND_ONLY, (1u << 31) + 1, REASON_MESSAGE_TOO_LONG},
		{OPCODE_SEND_FIRST, (1u << 31) + MTU, REASON_MESSAGE_TOO_LONG},
		{OPCODE_SEND_ONLY, UINT32_MAX, REASON_MESSAGE_TOO_LONG},
		/* The wire's parser makes none of these. */
		{OPCODE_WRITE_ONLY, MTU, REASON_PACKET_LENGTH},
		{OPCODE_READ_REQUEST, MTU, REASON_PACKET_LENGTH},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture *f = open_borrower(&fixture_usual);

		fixture_post_recv(f, RECV_OFFSET, 8 * MTU);
		assert_int_equal(lend(f, cases[i].operation, E, 0, cases[i].length),
				 cases[i].reason);
		fixture_expect_ack(f, E, SYNDROME_NAK_INVALID_REQUEST, 0);
		fixture_expect_event(f, IBV_EVENT_QP_REQ_ERR);
		fixture_expect_completion(f, 1, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(peer.calls, 0);
		close_borrower(f);
	}
}

/* Begun well: then it is the receive that tells of it. */
static void what_does_not_fit_may_come_last(void **state)
{
	static const struct {
		enum opcode operation;
		uint32_t length;
		enum ibv_wc_status status;
	} cases[] = {
		{OPCODE_SEND_LAST, 4 * MTU + 1, IBV_WC_LOC_LEN_ERR},
		{OPCODE_SEND_MIDDLE, 5 * MTU, IBV_WC_LOC_LEN_ERR},
		{OPCODE_SEND_LAST, (1u << 31) - 4 * MTU + 1, IBV_WC_LOC_LEN_ERR},
		{OPCODE_SEND_MIDDLE, 1u << 31, IBV_WC_LOC_LEN_ERR},
		{OPCODE_SEND_MIDDLE, MTU + 1, IBV_WC_REM_INV_REQ_ERR},
		{OPCODE_SEND_LAST, 0, IBV_WC_REM_INV_REQ_ERR},
		{OPCODE_SEND_FIRST, MTU, IBV_WC_REM_INV_REQ_ERR},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture *f = open_borrower(&fixture_usual);

		fixture_post_recv(f, RECV_OFFSET, 8 * MTU);
		expect_lent(f, OPCODE_SEND_FIRST, E, 0, 4 * MTU);
		fixture_expect_ack(f, E + 3, SYNDROME_ACK_UNLIMITED, 0);
		assert_int_not_equal(lend(f, cases[i].operation, E + 4, 0, cases[i].length),
				     REASON_NONE);
		fixture_expect_ack(f, E + 4, SYNDROME_NAK_INVALID_REQUEST, 0);
		fixture_expect_completion(f, 1, cases[i].status);
		assert_int_equal(peer.calls, 1);
		close_borrower(f);
	}
}

static void it_may_be_longer_than_the_receive(void **state)
{
	struct fixture *f = *state;

	fixture_post_recv(f, RECV_OFFSET, 4999);
	assert_int_equal(lend(f, OPCODE_SEND_ONLY, E, 0, 5000), REASON_RECV_TOO_SHORT);
	fixture_expect_ack(f, E, SYNDROME_NAK_INVALID_REQUEST, 0);
	fixture_expect_completion(f, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(peer.calls, 0);
}

/* --- with invalidate --- */

#define WINDOW_KEY 0x00770100u

static struct mr_slot *open_window(struct fixture *f)
{
	struct mr_slot *window;
	struct ibv_mw mw = {.rkey = WINDOW_KEY, .type = IBV_MW_TYPE_2};
	struct ibv_mr mr = {.lkey = FIXTURE_KEY};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = &mw,
			    .rkey = WINDOW_KEY | 1,
			    .bind_info = {.mr = &mr,
					  .addr = WRITE_IOVA,
					  .length = MTU,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}},
	};

	f->region->mr.access |= IBV_ACCESS_MW_BIND;
	window = window_create(&f->keys, IBV_MW_TYPE_2, FIXTURE_PD, WINDOW_KEY);
	assert_non_null(window);
	assert_int_equal(qp_post_send(f->qp, &wr, &copier_direct, NULL), 0);
	fixture_run(f);
	fixture_expect_completion(f, 0, IBV_WC_SUCCESS);
	return window;
}

static bool is_open(const struct fixture *f)
{
	const struct access access = access_of(f->qp, &f->core);

	return remote_check(&access, WINDOW_KEY | 1, WRITE_IOVA, MTU, IBV_ACCESS_REMOTE_WRITE,
			    NULL) == REASON_NONE;
}

static enum reason lend_and_invalidate(struct fixture *f, uint32_t key)
{
	struct packet packet = lent_packet(OPCODE_SEND_ONLY_INVALIDATE, E, 0, 5000);

	packet.invalidate_rkey = key;
	return fixture_receive(f, &packet);
}

static void the_window_goes_with_the_payload(void **state)
{
	struct fixture *f = *state;
	struct mr_slot *window = open_window(f);
	const struct completion *completion;

	fixture_post_recv(f, RECV_OFFSET, 5000);
	peer.calls_allowed = 0;
	assert_int_equal(lend_and_invalidate(f, WINDOW_KEY | 1), REASON_DROP_LENT);
	expect_refused(f, E);
	assert_true(is_open(f));
	peer.calls_allowed = UINT32_MAX;
	assert_int_equal(lend_and_invalidate(f, WINDOW_KEY | 1), REASON_NONE);
	assert_false(is_open(f));
	fixture_expect_ack(f, E + 4, SYNDROME_ACK_UNLIMITED, 1);
	completion = expect_received(f, 1, 5000);
	assert_int_equal(completion->wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(completion->immediate, WINDOW_KEY | 1);
	assert_true(window_close(window));
	window_release(&f->keys, window);
}

static void a_window_that_is_not_there_refuses_all(void **state)
{
	struct fixture *f = *state;

	fixture_post_recv(f, RECV_OFFSET, 5000);
	assert_int_equal(lend_and_invalidate(f, WINDOW_KEY | 1), REASON_INVALIDATE_REFUSED);
	assert_int_equal(peer.calls, 0);
	fixture_expect_ack(f, E, SYNDROME_NAK_REMOTE_ACCESS, 0);
	fixture_expect_completion(f, 1, IBV_WC_LOC_ACCESS_ERR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_borrower, free_borrower)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_packet_takes_many_psns),
		TEST(a_long_one_comes_in_pieces),
		cmocka_unit_test(psns_wrap),
		cmocka_unit_test(lent_and_carried_make_one_message),
		TEST(immediate_and_solicited_are_told),
		TEST(a_list_is_filled_as_one),
		cmocka_unit_test(a_list_of_too_many_is_not_filled),
		TEST(what_is_ahead_is_fetched_in_its_turn),
		TEST(what_cannot_be_had_in_its_turn_is_asked_for),
		TEST(what_it_stands_for_is_held_no_more),
		TEST(a_repeat_is_acknowledged),
		cmocka_unit_test(what_cannot_be_had_comes_by_packets),
		TEST(it_may_fail_in_the_middle_and_be_lent_again),
		TEST(what_follows_one_that_failed_is_quiet),
		cmocka_unit_test(an_srq_gives_the_receive_once),
		TEST(without_a_receive_nothing_is_fetched),
		TEST(a_receive_whose_memory_is_gone),
		cmocka_unit_test(what_does_not_fit_is_an_invalid_request),
		cmocka_unit_test(what_does_not_fit_may_come_last),
		TEST(it_may_be_longer_than_the_receive),
		TEST(the_window_goes_with_the_payload),
		TEST(a_window_that_is_not_there_refuses_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
