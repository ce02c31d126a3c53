/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs that lend their payload: which, as which packets, and that they are acknowledged, repeated,
 * refused and ended as others are. The responder's part is in lent_receive_test.c.
 */
#include <string.h>

#include "transport/rc_lent.h"
#include "unit/transport/request_step.h"

#define FIRST_PSN 0xfffffeu
#define LEND_MIN 4096u
#define PIECE_PSNS (LENT_BYTES_MAX / MTU)
/* Several packets, the last of them short. */
#define LONG_BYTES (2 * LENT_BYTES_MAX + 3 * MTU - 24)
#define LONG_PSNS (2 * PIECE_PSNS + 3)
#define SYNDROME_RNR(code) ((uint8_t)(SYNDROME_RNR_BASE | (code)))

/* By which nothing is performed directly. */
static struct reach reach;

static struct fixture *open_lender(const struct fixture_settings *settings)
{
	struct fixture *f = fixture_new(settings);

	reach = (struct reach){.bytes_min = UINT32_MAX, .lend_bytes_min = LEND_MIN};
	f->qp->path.reach = &reach;
	for (uint32_t i = 0; i < FIXTURE_BYTES; i++)
		f->memory[i] = message_byte(i);
	return f;
}

static struct fixture *open_lossless_lender(void)
{
	struct fixture_settings settings = fixture_usual;

	settings.is_lossless = true;
	return open_lender(&settings);
}

static int make_lender(void **state)
{
	*state = open_lender(&fixture_usual);
	return 0;
}

static int make_lossless_lender(void **state)
{
	*state = open_lossless_lender();
	return 0;
}

static void close_lender(struct fixture *f)
{
	fixture_expect_nothing(f);
	fixture_free(f);
}

static int free_lender(void **state)
{
	close_lender(*state);
	return 0;
}

static uint32_t psn_of(uint32_t count)
{
	return psn_add(FIRST_PSN, count);
}

static uint64_t post_send(struct fixture *f, uint32_t length)
{
	return fixture_post(f, IBV_WR_SEND, 0, length, 0);
}

/* Sends what was posted. Which packets that makes is for other tests. */
static void run_unseen(struct fixture *f)
{
	fixture_run(f);
	f->packet_next = f->packet_count;
}

/* Of the bytes [@offset, @offset + @length) of the region. */
static const struct packet *expect_lent(struct fixture *f, enum opcode operation, uint32_t psn,
					uint32_t offset, uint32_t length)
{
	const struct fixture_packet *packet = fixture_expect(f, operation, psn);

	assert_int_equal(packet->out.payload.kind, PAYLOAD_LENT);
	assert_int_equal(packet->out.packet.payload_bytes, length);
	assert_int_equal(packet->lent.address, FIXTURE_IOVA + offset);
	assert_int_equal(packet->lent.key, FIXTURE_KEY);
	assert_int_equal(packet->lent.length, length);
	assert_true(packet->out.packet.ack_requested);
	return &packet->out.packet;
}

/* The first SEND is lent, as one packet. */
static void lend_one(struct fixture *f)
{
	post_send(f, LEND_MIN);
	fixture_run(f);
	expect_lent(f, OPCODE_SEND_ONLY, FIRST_PSN, 0, LEND_MIN);
}

static void expect_carried(struct fixture *f, enum opcode operation, uint32_t psn, uint32_t offset,
			   uint32_t length)
{
	const struct fixture_packet *packet = fixture_expect(f, operation, psn);

	assert_int_equal(packet->out.payload.kind, PAYLOAD_SGE);
	assert_int_equal(packet->out.packet.payload_bytes, length);
	assert_memory_equal(packet->bytes, f->memory + offset, length);
}

/* The packets from number @from on of a SEND of @length bytes at the beginning of the region. */
static void expect_carried_from(struct fixture *f, uint32_t first_psn, uint32_t length,
				uint32_t from)
{
	uint32_t count = (length + MTU - 1) / MTU;

	for (uint32_t i = from; i < count; i++) {
		enum opcode operation = i == 0		 ? OPCODE_SEND_FIRST
					: i == count - 1 ? OPCODE_SEND_LAST
							 : OPCODE_SEND_MIDDLE;
		uint32_t left = length - i * MTU;

		expect_carried(f, operation, psn_add(first_psn, i), i * MTU,
			       left < MTU ? left : MTU);
	}
}

static void expect_under_way(const struct fixture *f, int64_t bytes)
{
	assert_int_equal(f->qp->requester.outbound_charged, bytes);
	assert_int_equal(atomic_load(&f->outbound.bytes_under_way), bytes);
}

/* --- which are lent, and how --- */

static void which_are_lent(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t offset, length, lend_min;
		unsigned int flags;
		enum opcode operation;
		bool is_lent;
	} cases[] = {
		{IBV_WR_SEND, 8, LEND_MIN, LEND_MIN, 0, OPCODE_SEND_ONLY, true},
		{IBV_WR_SEND_WITH_IMM, 8, LEND_MIN, LEND_MIN, 0, OPCODE_SEND_ONLY_IMM, true},
		{IBV_WR_SEND_WITH_INV, 8, LEND_MIN, LEND_MIN, 0, OPCODE_SEND_ONLY_INVALIDATE, true},
		{IBV_WR_SEND, 8, 64, 64, 0, OPCODE_SEND_ONLY, true},
		{IBV_WR_SEND, 8, 64, 64, IBV_SEND_INLINE, OPCODE_SEND_ONLY, false},
		{IBV_WR_SEND, 8, LEND_MIN - 1, LEND_MIN, 0, OPCODE_SEND_FIRST, false},
		{IBV_WR_SEND, 8, LEND_MIN, 0, 0, OPCODE_SEND_FIRST, false},
		/* It has two elements. */
		{IBV_WR_SEND, FIXTURE_BYTES - 8, LEND_MIN, LEND_MIN, 0, OPCODE_SEND_FIRST, false},
		{IBV_WR_RDMA_WRITE, 8, LEND_MIN, LEND_MIN, 0, OPCODE_WRITE_FIRST, false},
		{IBV_WR_RDMA_WRITE_WITH_IMM, 8, LEND_MIN, LEND_MIN, 0, OPCODE_WRITE_FIRST, false},
		{IBV_WR_RDMA_READ, 8, LEND_MIN, LEND_MIN, 0, OPCODE_READ_REQUEST, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture *f = open_lender(&fixture_usual);

		reach.lend_bytes_min = cases[i].lend_min;
		fixture_post(f, cases[i].opcode, cases[i].offset, cases[i].length, cases[i].flags);
		fixture_run(f);
		if (cases[i].is_lent) {
			expect_lent(f, cases[i].operation, FIRST_PSN, cases[i].offset,
				    cases[i].length);
			fixture_expect_nothing(f);
		} else {
			const struct fixture_packet *packet =
				fixture_expect(f, cases[i].operation, FIRST_PSN);

			assert_int_not_equal(packet->out.payload.kind, PAYLOAD_LENT);
		}
		fixture_free(f);
	}
}

static void nothing_is_lent_without_a_reach(void **state)
{
	struct fixture *f = *state;

	f->qp->path.reach = NULL;
	post_send(f, LEND_MIN);
	fixture_run(f);
	expect_carried_from(f, FIRST_PSN, LEND_MIN, 0);
}

/* The PSNs are those of the packets that it would be. */
static void one_packet_stands_for_many(void **state)
{
	struct fixture *f = *state;

	post_send(f, 9 * MTU + 1);
	post_send(f, 8);
	fixture_run(f);
	expect_lent(f, OPCODE_SEND_ONLY, FIRST_PSN, 0, 9 * MTU + 1);
	expect_carried(f, OPCODE_SEND_ONLY, psn_of(10), 0, 8);
	assert_int_equal(f->qp->requester.psn_next, psn_of(11));
	fixture_ack(f, psn_of(9));
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_ack(f, psn_of(10));
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
	expect_under_way(f, 0);
}

static void expect_piece(struct fixture *f, enum opcode operation, uint32_t psn, uint32_t offset,
			 uint32_t length)
{
	bool is_last = operation == OPCODE_SEND_LAST_IMM;
	const struct packet *packet = expect_lent(f, operation, psn, offset, length);

	assert_int_equal(packet->solicited, is_last);
	assert_int_equal(packet->immediate, is_last ? htobe32(0x11223344) : 0);
}

static void a_long_one_is_cut(void **state)
{
	struct fixture *f = *state;

	fixture_post(f, IBV_WR_SEND_WITH_IMM, 512, LONG_BYTES, IBV_SEND_SOLICITED);
	fixture_run(f);
	expect_piece(f, OPCODE_SEND_FIRST, FIRST_PSN, 512, LENT_BYTES_MAX);
	expect_piece(f, OPCODE_SEND_MIDDLE, psn_of(PIECE_PSNS), 512 + LENT_BYTES_MAX,
		     LENT_BYTES_MAX);
	expect_piece(f, OPCODE_SEND_LAST_IMM, psn_of(2 * PIECE_PSNS), 512 + 2 * LENT_BYTES_MAX,
		     3 * MTU - 24);
	fixture_expect_nothing(f);
	fixture_ack(f, psn_of(PIECE_PSNS - 1));
	fixture_ack(f, psn_of(2 * PIECE_PSNS - 1));
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->requester.psn_unacked, psn_of(2 * PIECE_PSNS));
	fixture_ack(f, psn_of(LONG_PSNS - 1));
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
}

/* Pieces end where packets of the path MTU end, whatever that is. */
static void pieces_are_of_whole_packets(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.payload_max = 1000;
	f = open_lender(&settings);
	post_send(f, 262 * 1000 + 1);
	fixture_run(f);
	expect_lent(f, OPCODE_SEND_FIRST, FIRST_PSN, 0, 262 * 1000);
	expect_lent(f, OPCODE_SEND_LAST, psn_of(262), 262 * 1000, 1);
	fixture_ack(f, psn_of(262));
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	close_lender(f);
}

/* What is to be lent goes the long way. */
static void a_lent_one_is_not_the_short_way(void **state)
{
	struct fixture *f = *state;

	reach.lend_bytes_min = 100;
	post_send(f, 99);
	assert_true(qp_has_one_packet(f->qp));
	fixture_run(f);
	expect_carried(f, OPCODE_SEND_ONLY, FIRST_PSN, 0, 99);
	post_send(f, 100);
	assert_false(qp_has_one_packet(f->qp));
	fixture_run(f);
	expect_lent(f, OPCODE_SEND_ONLY, psn_of(1), 0, 100);
	fixture_nak(f, psn_of(1), SYNDROME_NAK_SEQUENCE);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	expect_carried(f, OPCODE_SEND_ONLY, psn_of(1), 0, 100);
	post_send(f, 100);
	assert_true(qp_has_one_packet(f->qp));
}

/* --- what is under way --- */

static void the_flow_is_charged_a_small_packet(void **state)
{
	struct fixture *f = *state;

	post_send(f, LONG_BYTES);
	post_send(f, LEND_MIN);
	post_send(f, MTU);
	run_unseen(f);
	expect_under_way(f, 2 * FLOW_PACKET_COST_MIN + flow_packet_cost(MTU));
	/* Not before all of it is acknowledged. */
	fixture_ack(f, psn_of(LONG_PSNS - 2));
	expect_under_way(f, 2 * FLOW_PACKET_COST_MIN + flow_packet_cost(MTU));
	fixture_ack(f, psn_of(LONG_PSNS - 1));
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	expect_under_way(f, FLOW_PACKET_COST_MIN + flow_packet_cost(MTU));
	fixture_ack(f, psn_of(LONG_PSNS + 4));
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 3, IBV_WC_SUCCESS);
	expect_under_way(f, 0);
}

static void the_flow_limits_them_as_small_packets(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.outbound_bytes_max = 2 * FLOW_PACKET_COST_MIN;
	f = open_lender(&settings);
	for (int i = 0; i < 3; i++)
		post_send(f, LEND_MIN);
	fixture_run(f);
	expect_lent(f, OPCODE_SEND_ONLY, FIRST_PSN, 0, LEND_MIN);
	expect_lent(f, OPCODE_SEND_ONLY, psn_of(4), 0, LEND_MIN);
	fixture_expect_nothing(f);
	fixture_ack(f, psn_of(3));
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	expect_lent(f, OPCODE_SEND_ONLY, psn_of(8), 0, LEND_MIN);
	close_lender(f);
}

/* Of one byte each: eight messages are 2^23 packets, one more than may be under way. */
static void psns_have_to_have_room(void **state)
{
	struct fixture_settings settings = fixture_usual;
	uint32_t pieces = PSN_HALF / LENT_BYTES_MAX;
	struct fixture *f;

	(void)state;
	settings.payload_max = 1;
	f = open_lender(&settings);
	for (uint32_t i = 0; i < PSN_HALF / FIXTURE_BYTES; i++)
		post_send(f, FIXTURE_BYTES);
	run_unseen(f);
	assert_int_equal(f->packet_count, pieces - 1);
	fixture_ack(f, psn_of(LENT_BYTES_MAX - 1));
	expect_lent(f, OPCODE_SEND_LAST, psn_of((pieces - 1) * LENT_BYTES_MAX),
		    FIXTURE_BYTES - LENT_BYTES_MAX, LENT_BYTES_MAX);
	close_lender(f);
}

static void draining_waits_for_it(void **state)
{
	struct fixture *f = *state;

	post_send(f, LONG_BYTES);
	run_unseen(f);
	post_send(f, LEND_MIN);
	fixture_move(f, IBV_QPS_SQD);
	fixture_ack(f, psn_of(PIECE_PSNS - 1));
	fixture_expect_nothing(f);
	fixture_ack(f, psn_of(LONG_PSNS - 1));
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_event(f, IBV_EVENT_SQ_DRAINED);
	fixture_expect_nothing(f);
	fixture_move(f, IBV_QPS_RTS);
	expect_lent(f, OPCODE_SEND_ONLY, psn_of(LONG_PSNS), 0, LEND_MIN);
}

/* In SQD what has PSNs is brought to its end, by ordinary packets if need be. */
static void draining_brings_what_was_refused_to_its_end(void **state)
{
	struct fixture *f = *state;

	lend_one(f);
	fixture_move(f, IBV_QPS_SQD);
	fixture_nak(f, FIRST_PSN, SYNDROME_NAK_SEQUENCE);
	expect_carried_from(f, FIRST_PSN, LEND_MIN, 0);
	fixture_expect_nothing(f);
	fixture_ack(f, psn_of(3));
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_event(f, IBV_EVENT_SQ_DRAINED);
}

static void an_error_flushes_it(void **state)
{
	struct fixture *f = *state;

	post_send(f, LONG_BYTES);
	post_send(f, LEND_MIN);
	run_unseen(f);
	fixture_ack(f, psn_of(PIECE_PSNS - 1));
	fixture_move(f, IBV_QPS_ERR);
	fixture_expect_completion(f, 1, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_completion(f, 2, IBV_WC_WR_FLUSH_ERR);
	expect_under_way(f, 0);
}

/* --- it is lent again --- */

static void after_an_rnr_nak_it_is_lent_again(void **state)
{
	struct fixture *f = *state;

	post_send(f, LONG_BYTES);
	run_unseen(f);
	fixture_nak(f, FIRST_PSN, SYNDROME_RNR(1));
	fixture_expect_nothing(f);
	fixture_advance(f, VBN_MILLISECOND);
	expect_lent(f, OPCODE_SEND_FIRST, FIRST_PSN, 0, LENT_BYTES_MAX);
	expect_lent(f, OPCODE_SEND_MIDDLE, psn_of(PIECE_PSNS), LENT_BYTES_MAX, LENT_BYTES_MAX);
	expect_lent(f, OPCODE_SEND_LAST, psn_of(2 * PIECE_PSNS), 2 * LENT_BYTES_MAX, 3 * MTU - 24);
	fixture_ack(f, psn_of(LONG_PSNS - 1));
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	expect_under_way(f, 0);
}

static void after_the_retry_time_it_is_lent_again(void **state)
{
	struct fixture *f = *state;

	post_send(f, LONG_BYTES);
	run_unseen(f);
	fixture_ack(f, psn_of(PIECE_PSNS - 1));
	for (int i = 0; i < 3; i++) {
		fixture_advance(f, qp_next_deadline(f->qp) - f->core.now);
		expect_lent(f, OPCODE_SEND_MIDDLE, psn_of(PIECE_PSNS), LENT_BYTES_MAX,
			    LENT_BYTES_MAX);
		expect_lent(f, OPCODE_SEND_LAST, psn_of(2 * PIECE_PSNS), 2 * LENT_BYTES_MAX,
			    3 * MTU - 24);
		fixture_expect_nothing(f);
		expect_under_way(f, FLOW_PACKET_COST_MIN);
	}
	fixture_advance(f, qp_next_deadline(f->qp) - f->core.now);
	fixture_expect_completion(f, 1, IBV_WC_RETRY_EXC_ERR);
	expect_under_way(f, 0);
}

/* The last packet of the path MTU is enough to be told what is missing. */
static void a_probe_carries_its_payload(void **state)
{
	struct fixture *f = *state;

	lend_one(f);
	fixture_advance(f, qp_next_deadline(f->qp) - f->core.now);
	expect_carried(f, OPCODE_SEND_LAST, psn_of(3), 3 * MTU, MTU);
	expect_under_way(f, FLOW_PACKET_COST_MIN);
	fixture_ack(f, psn_of(3));
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
}

/* --- it is refused --- */

/* What was started is no longer lent either, nor is anything that is posted later. */
static void what_is_refused_goes_by_packets(void **state)
{
	struct fixture *f = *state;
	uint32_t carried = 4 * flow_packet_cost(MTU) + flow_packet_cost(5000 - 4 * MTU);

	post_send(f, 8);
	post_send(f, 5000);
	post_send(f, 5000);
	fixture_run(f);
	expect_carried(f, OPCODE_SEND_ONLY, FIRST_PSN, 0, 8);
	expect_lent(f, OPCODE_SEND_ONLY, psn_of(1), 0, 5000);
	expect_lent(f, OPCODE_SEND_ONLY, psn_of(6), 0, 5000);
	fixture_nak(f, psn_of(1), SYNDROME_NAK_SEQUENCE);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	expect_carried_from(f, psn_of(1), 5000, 0);
	expect_carried_from(f, psn_of(6), 5000, 0);
	expect_under_way(f, 2 * carried);
	post_send(f, 5000);
	fixture_run(f);
	expect_carried_from(f, psn_of(11), 5000, 0);
	expect_under_way(f, 3 * carried);
	fixture_expect_nothing(f);
	fixture_ack(f, psn_of(15));
	for (uint64_t wr_id = 2; wr_id <= 4; wr_id++)
		fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS);
	expect_under_way(f, 0);
	/* With another connection that is forgotten. */
	qp_modify(f->qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE, NULL,
		  &f->core);
	assert_false(f->qp->requester.lends_nothing);
}

/* Between pieces, and within one: from there on. */
static void in_the_middle_the_rest_goes_by_packets(void **state)
{
	static const uint32_t places[] = {PIECE_PSNS, PIECE_PSNS + 7, LONG_PSNS - 1};

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct fixture *f = open_lossless_lender();

		post_send(f, LONG_BYTES);
		post_send(f, LEND_MIN);
		run_unseen(f);
		fixture_nak(f, psn_of(places[i]), SYNDROME_NAK_SEQUENCE);
		expect_carried_from(f, FIRST_PSN, LONG_BYTES, places[i]);
		expect_carried_from(f, psn_of(LONG_PSNS), LEND_MIN, 0);
		fixture_expect_nothing(f);
		fixture_ack(f, psn_of(LONG_PSNS + 3));
		fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
		fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
		expect_under_way(f, 0);
		fixture_free(f);
	}
}

/* Each of several may be the one, and those before it are done. */
static void any_of_several_may_be_refused(void **state)
{
	(void)state;
	for (uint32_t refused = 0; refused < 4; refused++) {
		struct fixture *f = open_lossless_lender();

		for (int i = 0; i < 4; i++)
			post_send(f, LEND_MIN);
		run_unseen(f);
		expect_under_way(f, 4 * FLOW_PACKET_COST_MIN);
		fixture_nak(f, psn_of(4 * refused), SYNDROME_NAK_SEQUENCE);
		for (uint32_t i = 0; i < refused; i++)
			fixture_expect_completion(f, i + 1, IBV_WC_SUCCESS);
		for (uint32_t i = refused; i < 4; i++)
			expect_carried_from(f, psn_of(4 * i), LEND_MIN, 0);
		fixture_expect_nothing(f);
		expect_under_way(f, (4 - refused) * 4 * flow_packet_cost(MTU));
		fixture_free(f);
	}
}

/* An answer is missing before it, so that the head stays behind. */
static void it_may_be_refused_behind_a_read(void **state)
{
	struct fixture *f = *state;

	fixture_post(f, IBV_WR_RDMA_READ, 0, 8, 0);
	post_send(f, LEND_MIN);
	fixture_run(f);
	fixture_expect(f, OPCODE_READ_REQUEST, FIRST_PSN);
	expect_lent(f, OPCODE_SEND_ONLY, psn_of(1), 0, LEND_MIN);
	fixture_nak(f, psn_of(1), SYNDROME_NAK_SEQUENCE);
	fixture_expect(f, OPCODE_READ_REQUEST, FIRST_PSN);
	expect_carried_from(f, psn_of(1), LEND_MIN, 0);
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, FIRST_PSN, 1, 8);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_ack(f, psn_of(4));
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	expect_under_way(f, 0);
}

/* A packet was lost, which is no word about lent ones. */
static void what_was_not_lent_changes_nothing(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE};

	(void)state;
	for (int i = 0; i < 2; i++) {
		enum opcode operation = i ? OPCODE_WRITE_ONLY : OPCODE_SEND_ONLY;
		struct fixture *f = open_lossless_lender();

		fixture_post(f, opcodes[i], 0, 8, 0);
		post_send(f, LEND_MIN);
		run_unseen(f);
		fixture_nak(f, FIRST_PSN, SYNDROME_NAK_SEQUENCE);
		expect_carried(f, operation, FIRST_PSN, 0, 8);
		expect_lent(f, OPCODE_SEND_ONLY, psn_of(1), 0, LEND_MIN);
		post_send(f, LEND_MIN);
		fixture_run(f);
		expect_lent(f, OPCODE_SEND_ONLY, psn_of(5), 0, LEND_MIN);
		close_lender(f);
	}
}

/* --- its memory goes away --- */

/* As the engine does: the rest of the outbox is dropped. */
static void expect_lend_fails(struct fixture *f, const struct packet_out *packet)
{
	struct lent_payload lent;
	struct complaint complaint = {0};

	assert_int_equal(payload_lend(f->qp, packet, &f->core, &lent, &complaint),
			 REASON_KEY_UNKNOWN);
	assert_int_equal(complaint.reason, REASON_KEY_UNKNOWN);
	assert_int_equal(complaint.qpn, FIXTURE_QPN);
	assert_false(qp_payload_failed(f->qp, packet, &complaint, &f->core));
	outbox_clear(&f->out);
}

static void memory_that_is_gone_is_not_lent(void **state)
{
	struct fixture *f = *state;
	struct lent_payload lent;

	post_send(f, 8);
	post_send(f, LONG_BYTES);
	post_send(f, 8);
	assert_false(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packet_count, 5);
	assert_int_equal(payload_lend(f->qp, &f->out.packets[1], &f->core, &lent, NULL),
			 REASON_NONE);
	fixture_deregister(f);
	expect_lend_fails(f, &f->out.packets[2]);
	fixture_run(f);
	fixture_expect_nothing(f);
	fixture_ack(f, psn_of(PIECE_PSNS));
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_LOC_PROT_ERR);
	fixture_expect_completion(f, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_int_equal(f->qp->first_complaint.reason, REASON_KEY_UNKNOWN);
	expect_under_way(f, 0);
}

static void memory_may_be_gone_when_it_is_lent_again(void **state)
{
	struct fixture *f = *state;

	lend_one(f);
	fixture_deregister(f);
	fixture_nak(f, FIRST_PSN, SYNDROME_RNR(1));
	fixture_advance(f, VBN_MILLISECOND);
	fixture_expect_completion(f, 1, IBV_WC_LOC_PROT_ERR);
	expect_under_way(f, 0);
}

/* It fits one packet, and so is looked at only when that is made. */
static void memory_that_never_was_is_not_lent(void **state)
{
	struct fixture *f = *state;

	reach.lend_bytes_min = 100;
	fixture_deregister(f);
	post_send(f, 100);
	fixture_run(f);
	fixture_expect_completion(f, 1, IBV_WC_LOC_PROT_ERR);
	expect_under_way(f, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_lender, free_lender)
#define LOSSLESS(name) cmocka_unit_test_setup_teardown(name, make_lossless_lender, free_lender)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_are_lent),
		TEST(nothing_is_lent_without_a_reach),
		TEST(one_packet_stands_for_many),
		TEST(a_long_one_is_cut),
		cmocka_unit_test(pieces_are_of_whole_packets),
		TEST(a_lent_one_is_not_the_short_way),
		TEST(the_flow_is_charged_a_small_packet),
		cmocka_unit_test(the_flow_limits_them_as_small_packets),
		cmocka_unit_test(psns_have_to_have_room),
		TEST(draining_waits_for_it),
		TEST(draining_brings_what_was_refused_to_its_end),
		TEST(an_error_flushes_it),
		TEST(after_an_rnr_nak_it_is_lent_again),
		LOSSLESS(after_the_retry_time_it_is_lent_again),
		TEST(a_probe_carries_its_payload),
		LOSSLESS(what_is_refused_goes_by_packets),
		cmocka_unit_test(in_the_middle_the_rest_goes_by_packets),
		cmocka_unit_test(any_of_several_may_be_refused),
		TEST(it_may_be_refused_behind_a_read),
		cmocka_unit_test(what_was_not_lent_changes_nothing),
		TEST(memory_that_is_gone_is_not_lent),
		TEST(memory_may_be_gone_when_it_is_lent_again),
		TEST(memory_that_never_was_is_not_lent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
