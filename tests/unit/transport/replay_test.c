/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers: READs streamed packet by packet, atomics, and what a peer gets that asks
 * again. E is the PSN that the responder expects first.
 */
#include <string.h>

#include "unit/transport/rc_fixture.h"

#define MTU 1024u
#define E 0x000100u
#define TARGET_OFFSET 0x8000u
#define TARGET_IOVA (FIXTURE_IOVA + TARGET_OFFSET)

static struct fixture *fixture_at(uint32_t first_psn)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	settings.rq_psn = first_psn;
	f = fixture_new(&settings);
	for (uint32_t i = 0; i < FIXTURE_BYTES; i++)
		f->memory[i] = (uint8_t)(i * 13 + (i >> 10));
	return f;
}

static struct packet read_request(uint32_t psn, uint32_t offset, uint32_t length)
{
	struct packet packet = fixture_packet(OPCODE_READ_REQUEST, psn);

	packet.reth.address = TARGET_IOVA + offset;
	packet.reth.rkey = FIXTURE_KEY;
	packet.reth.length = length;
	packet.ack_requested = true;
	return packet;
}

static enum reason read_at(struct fixture *f, uint32_t psn, uint32_t offset, uint32_t length)
{
	struct packet packet = read_request(psn, offset, length);

	return fixture_receive(f, &packet);
}

static enum reason read_only_at(struct fixture *f, uint32_t psn, uint32_t offset, uint32_t length)
{
	struct packet packet = read_request(psn, offset, length);

	return fixture_receive_only(f, &packet);
}

static struct packet atomic_request(enum opcode operation, uint32_t psn, uint64_t swap_or_add,
				    uint64_t compare)
{
	struct packet packet = fixture_packet(operation, psn);

	packet.atomic.address = TARGET_IOVA;
	packet.atomic.rkey = FIXTURE_KEY;
	packet.atomic.swap_or_add = swap_or_add;
	packet.atomic.compare = compare;
	packet.ack_requested = true;
	return packet;
}

static uint64_t target_value(const struct fixture *f)
{
	uint64_t value;

	memcpy(&value, f->memory + TARGET_OFFSET, sizeof(value));
	return value;
}

static void set_target(struct fixture *f, uint64_t value)
{
	memcpy(f->memory + TARGET_OFFSET, &value, sizeof(value));
}

static enum opcode response_opcode(uint32_t index, uint32_t count)
{
	if (count == 1)
		return OPCODE_READ_RESPONSE_ONLY;
	if (index == 0)
		return OPCODE_READ_RESPONSE_FIRST;
	return index + 1 < count ? OPCODE_READ_RESPONSE_MIDDLE : OPCODE_READ_RESPONSE_LAST;
}

/* The whole answer to a READ of [@offset, @offset + @length), from @psn on. */
static void expect_answer(struct fixture *f, uint32_t psn, uint32_t offset, uint32_t length,
			  uint32_t msn)
{
	uint32_t count = length ? (length + MTU - 1) / MTU : 1;

	for (uint32_t i = 0; i < count; i++) {
		const struct fixture_packet *answer =
			fixture_expect(f, response_opcode(i, count), psn + i);
		uint32_t bytes = i + 1 < count ? MTU : length - i * MTU;
		bool has_aeth = i == 0 || i + 1 == count;

		assert_int_equal(answer->out.packet.payload_bytes, bytes);
		assert_memory_equal(answer->bytes, f->memory + TARGET_OFFSET + offset + i * MTU,
				    bytes);
		assert_int_equal(answer->out.packet.aeth.syndrome,
				 has_aeth ? SYNDROME_ACK_UNLIMITED : 0);
		assert_int_equal(answer->out.packet.aeth.msn, has_aeth ? msn : 0);
	}
}

static void expect_atomic(struct fixture *f, uint32_t psn, uint64_t original, uint32_t msn)
{
	const struct fixture_packet *answer = fixture_expect(f, OPCODE_ATOMIC_ACKNOWLEDGE, psn);

	assert_int_equal(answer->out.packet.atomic_original, original);
	assert_int_equal(answer->out.packet.aeth.syndrome, SYNDROME_ACK_UNLIMITED);
	assert_int_equal(answer->out.packet.aeth.msn, msn);
	assert_int_equal(answer->out.packet.payload_bytes, 0);
}

/* --- answers --- */

static void reads_are_answered(void **state)
{
	const uint32_t lengths[] = {0, 1, MTU - 1, MTU, MTU + 1, 2 * MTU, 5 * MTU + 3, 100 * MTU};
	const uint32_t psns[] = {E, 0, PSN_MASK, PSN_MASK - 2};

	(void)state;
	for (size_t p = 0; p < 4; p++) {
		struct fixture *f = fixture_at(psns[p]);
		uint32_t psn = psns[p];

		for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			assert_int_equal(read_at(f, psn, 8 * i, lengths[i]), REASON_NONE);
			expect_answer(f, psn, 8 * i, lengths[i], i + 1);
			fixture_expect_nothing(f);
			psn = psn_add(psn, lengths[i] ? (lengths[i] + MTU - 1) / MTU : 1);
			assert_int_equal(f->qp->responder.psn_expected, psn);
		}
		fixture_free(f);
	}
}

static void a_read_of_nothing_looks_at_no_key(void **state)
{
	struct fixture *f = fixture_at(E);
	struct packet packet = read_request(E, 0, 0);

	(void)state;
	packet.reth.rkey = 0xdeadbeef;
	assert_int_equal(fixture_receive(f, &packet), REASON_NONE);
	expect_answer(f, E, 0, 0, 1);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* 32 answers fill the outbox to the brim: the acknowledgement behind them is not lost. */
static void acknowledgements_leave_behind_all_answers(void **state)
{
	struct fixture *f = fixture_at(E);
	struct packet write = fixture_packet(OPCODE_WRITE_ONLY, E + OUTBOX_PACKETS + 2);

	(void)state;
	write.ack_requested = true;
	assert_int_equal(read_only_at(f, E, 0, OUTBOX_PACKETS * MTU), REASON_NONE);
	assert_int_equal(read_only_at(f, E + OUTBOX_PACKETS, 0, 2 * MTU), REASON_NONE);
	assert_int_equal(fixture_receive_only(f, &write), REASON_NONE);

	assert_true(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packet_count, OUTBOX_PACKETS);
	outbox_clear(&f->out);
	fixture_run(f);
	expect_answer(f, E + OUTBOX_PACKETS, 0, 2 * MTU, 3);
	fixture_expect_ack(f, E + OUTBOX_PACKETS + 2, SYNDROME_ACK_UNLIMITED, 3);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/*
 * An ACK with the PSN of an atomic completes it at a peer like Linux's soft RoCE, without its
 * result when the answer is lost.
 */
static void no_acknowledgement_bears_the_psn_of_an_answer(void **state)
{
	struct fixture *f = fixture_at(E);
	struct packet write = fixture_packet(OPCODE_WRITE_ONLY, E);
	struct packet add = atomic_request(OPCODE_FETCH_ADD, E + 1, 1, 0);

	(void)state;
	write.ack_requested = true;
	set_target(f, 7);
	assert_int_equal(fixture_receive_only(f, &write), REASON_NONE);
	assert_int_equal(fixture_receive_only(f, &add), REASON_NONE);
	fixture_run(f);
	expect_atomic(f, E + 1, 7, 2);
	fixture_expect_nothing(f);

	assert_int_equal(fixture_receive(f, &write), REASON_DROP_DUPLICATE);
	fixture_expect_ack(f, E, SYNDROME_ACK_UNLIMITED, 2);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void naks_leave_behind_all_answers(void **state)
{
	struct fixture *f = fixture_at(E);
	struct packet send = fixture_packet(OPCODE_SEND_ONLY, E + OUTBOX_PACKETS);
	struct packet late = fixture_packet(OPCODE_SEND_ONLY, E + OUTBOX_PACKETS + 1);

	(void)state;
	assert_int_equal(read_only_at(f, E, 0, OUTBOX_PACKETS * MTU), REASON_NONE);
	assert_int_equal(fixture_receive_only(f, &late), REASON_NONE);
	assert_int_equal(fixture_receive_only(f, &send), REASON_RECV_QUEUE_EMPTY);
	assert_true(qp_output(f->qp, &f->core, &f->out));
	outbox_clear(&f->out);
	fixture_run(f);
	fixture_expect_ack(f, E + OUTBOX_PACKETS, SYNDROME_RNR_BASE | 12, 1);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* The peer is owed what came before the request that ended the connection. */
static void answers_leave_in_error_as_well(void **state)
{
	struct fixture *f = fixture_at(E);
	struct packet bad = fixture_packet(OPCODE_WRITE_MIDDLE, E + 40);

	(void)state;
	assert_int_equal(read_only_at(f, E, 0, 40 * MTU), REASON_NONE);
	assert_int_equal(fixture_receive_only(f, &bad), REASON_OPCODE_ORDER);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	fixture_run(f);
	expect_answer(f, E, 0, 40 * MTU, 1);
	fixture_expect_ack(f, E + 40, SYNDROME_NAK_INVALID_REQUEST, 1);
	fixture_expect_event(f, IBV_EVENT_QP_REQ_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(read_at(f, E, 0, MTU), REASON_DROP_QP_STATE);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void a_program_that_ends_the_connection_is_obeyed(void **state)
{
	struct fixture *f = fixture_at(E);
	struct packet bad = fixture_packet(OPCODE_SEND_ONLY, E + 9);

	(void)state;
	assert_int_equal(read_only_at(f, E, 0, 4 * MTU), REASON_NONE);
	assert_int_equal(fixture_receive_only(f, &bad), REASON_NONE);
	fixture_move(f, IBV_QPS_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void a_region_that_goes_away_ends_the_answer(void **state)
{
	struct fixture *f = fixture_at(E);

	(void)state;
	assert_int_equal(read_only_at(f, E, 0, 40 * MTU), REASON_NONE);
	assert_int_equal(read_only_at(f, E + 40, 0, 3 * MTU), REASON_NONE);
	fixture_deregister(f);
	fixture_run(f);
	fixture_expect_ack(f, E, SYNDROME_NAK_REMOTE_ACCESS, 2);
	fixture_expect_event(f, IBV_EVENT_QP_ACCESS_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_int_equal(f->qp->first_complaint.reason, REASON_KEY_UNKNOWN);
	fixture_free(f);
}

static void an_answer_that_fails_in_error_is_told_to_the_peer_alone(void **state)
{
	struct fixture *f = fixture_at(E);
	struct packet bad = fixture_packet(OPCODE_WRITE_MIDDLE, E + 3);

	(void)state;
	assert_int_equal(read_only_at(f, E, 0, 3 * MTU), REASON_NONE);
	assert_int_equal(fixture_receive_only(f, &bad), REASON_OPCODE_ORDER);
	fixture_deregister(f);
	fixture_run(f);
	fixture_expect_ack(f, E, SYNDROME_NAK_REMOTE_ACCESS, 1);
	fixture_expect_event(f, IBV_EVENT_QP_REQ_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->first_complaint.reason, REASON_OPCODE_ORDER);
	fixture_free(f);
}

/* --- one READ over half the circle of PSNs --- */

static void a_read_of_two_gigabytes_keeps_its_place(void **state)
{
	const uint64_t bytes = MESSAGE_BYTES_MAX;
	struct mr huge = {
		.iova = 0, .length = bytes, .pd = FIXTURE_PD, .access = IBV_ACCESS_REMOTE_READ};
	struct fixture_settings settings = fixture_usual;
	struct packet read = fixture_packet(OPCODE_READ_REQUEST, E);
	struct packet next = read_request(E + PSN_HALF, 0, 8);
	struct rc_responder *responder;
	struct fixture *f;

	(void)state;
	settings.payload_max = 256;
	f = fixture_new(&settings);
	responder = &f->qp->responder;
	huge.address = f->memory; /* never read: no payload of it is copied here */
	assert_non_null(memory_register(&f->keys, &huge, 0x00777701));
	read.reth.rkey = 0x00777701;
	read.reth.length = MESSAGE_BYTES_MAX;

	assert_int_equal(fixture_receive_only(f, &read), REASON_NONE);
	assert_int_equal(responder->psn_expected, E + PSN_HALF);
	assert_int_equal(fixture_receive_only(f, &next), REASON_NONE);
	assert_int_equal(responder->responses[0].first_psn, E);
	assert_int_equal(responder->responses[0].psn_count, PSN_HALF);
	assert_int_equal(responder->responses[1].first_psn, E + PSN_HALF);

	for (uint32_t round = 0; round < 3; round++) {
		outbox_clear(&f->out);
		assert_true(qp_output(f->qp, &f->core, &f->out));
		assert_int_equal(f->out.packet_count, OUTBOX_PACKETS);
		for (uint32_t i = 0; i < OUTBOX_PACKETS; i++) {
			const struct packet_out *answer = &f->out.packets[i];
			uint32_t index = round * OUTBOX_PACKETS + i;

			assert_int_equal(answer->packet.psn, E + index);
			assert_int_equal(answer->payload.kind, PAYLOAD_REMOTE);
			assert_int_equal(answer->payload.remote.iova, index * 256);
		}
	}
	responder->responses[0].sent_count = PSN_HALF - 1;
	outbox_clear(&f->out);
	assert_false(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packet_count, 2);
	assert_int_equal(opcode_operation(f->out.packets[0].packet.opcode),
			 OPCODE_READ_RESPONSE_LAST);
	assert_int_equal(f->out.packets[0].packet.payload_bytes, 256);
	assert_int_equal(f->out.packets[0].payload.remote.iova, bytes - 256);
	assert_int_equal(f->out.packets[1].packet.psn, E + PSN_HALF);
	outbox_clear(&f->out);
	fixture_free(f);
}

/* --- atomics --- */

static void atomics_are_executed_once(void **state)
{
	struct fixture *f = fixture_at(E);
	struct packet add = atomic_request(OPCODE_FETCH_ADD, E, 5, 0);
	struct packet swap = atomic_request(OPCODE_COMPARE_SWAP, E + 1, 77, 105);
	struct packet miss = atomic_request(OPCODE_COMPARE_SWAP, E + 2, 88, 105);

	(void)state;
	set_target(f, 100);
	assert_int_equal(fixture_receive(f, &add), REASON_NONE);
	expect_atomic(f, E, 100, 1);
	assert_int_equal(target_value(f), 105);
	assert_int_equal(fixture_receive(f, &swap), REASON_NONE);
	expect_atomic(f, E + 1, 105, 2);
	assert_int_equal(target_value(f), 77);
	assert_int_equal(fixture_receive(f, &miss), REASON_NONE);
	expect_atomic(f, E + 2, 77, 3);
	assert_int_equal(target_value(f), 77);

	/* Again, all of them: the same answers, the memory untouched. */
	set_target(f, 1000);
	assert_int_equal(fixture_receive(f, &add), REASON_NONE);
	expect_atomic(f, E, 100, 1);
	assert_int_equal(fixture_receive(f, &swap), REASON_NONE);
	expect_atomic(f, E + 1, 105, 2);
	assert_int_equal(fixture_receive(f, &miss), REASON_NONE);
	expect_atomic(f, E + 2, 77, 3);
	assert_int_equal(target_value(f), 1000);
	assert_int_equal(f->qp->responder.msn, 3);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void an_atomic_that_is_queued_is_not_queued_again(void **state)
{
	struct fixture *f = fixture_at(E);
	struct packet add = atomic_request(OPCODE_FETCH_ADD, E, 5, 0);

	(void)state;
	set_target(f, 1);
	assert_int_equal(fixture_receive_only(f, &add), REASON_NONE);
	assert_int_equal(fixture_receive_only(f, &add), REASON_DROP_DUPLICATE);
	fixture_run(f);
	expect_atomic(f, E, 1, 1);
	fixture_expect_nothing(f);
	assert_int_equal(target_value(f), 6);
	fixture_free(f);
}

static void results_are_saved_for_the_last_ones(void **state)
{
	const uint32_t count = 2 * QP_RD_ATOMIC_MAX + 5;
	struct fixture *f = fixture_at(PSN_MASK - 20);
	struct packet add;

	(void)state;
	set_target(f, 0);
	for (uint32_t i = 0; i < count; i++) {
		add = atomic_request(OPCODE_FETCH_ADD, PSN_MASK - 20 + i, 1, 0);
		assert_int_equal(fixture_receive(f, &add), REASON_NONE);
		expect_atomic(f, PSN_MASK - 20 + i, i, i + 1);
	}
	for (uint32_t i = 0; i < count; i++) {
		bool is_saved = i + QP_RD_ATOMIC_MAX >= count;

		add = atomic_request(OPCODE_FETCH_ADD, PSN_MASK - 20 + i, 1, 0);
		assert_int_equal(fixture_receive(f, &add),
				 is_saved ? REASON_NONE : REASON_DROP_REPLAY_LOST);
		if (is_saved)
			expect_atomic(f, PSN_MASK - 20 + i, i, i + 1);
		fixture_expect_nothing(f);
	}
	assert_int_equal(target_value(f), count);
	fixture_free(f);
}

/* --- READs asked for again --- */

struct repeat {
	const char *name;
	uint32_t packet; /* of the original answer, where the repeat begins */
	uint32_t length;
};

static const struct repeat repeats[] = {
	{"all of it", 0, 10 * MTU + 7}, {"from the middle on", 4, 6 * MTU + 7},
	{"the last packet", 10, 7},	{"a part in the middle", 3, 2 * MTU},
	{"one packet of it", 5, MTU},
};

static void reads_are_answered_again(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(repeats) / sizeof(repeats[0]); i++) {
		const struct repeat *repeat = &repeats[i];
		struct fixture *f = fixture_at(PSN_MASK - 4);
		uint32_t psn = psn_add(PSN_MASK - 4, repeat->packet);

		print_message("  %s\n", repeat->name);
		read_at(f, PSN_MASK - 4, 0, 10 * MTU + 7);
		expect_answer(f, PSN_MASK - 4, 0, 10 * MTU + 7, 1);
		/* Memory may have changed: it is read anew. MSN and E stay. */
		f->memory[TARGET_OFFSET + repeat->packet * MTU] ^= 0xff;
		assert_int_equal(read_at(f, psn, repeat->packet * MTU, repeat->length),
				 REASON_NONE);
		expect_answer(f, psn, repeat->packet * MTU, repeat->length, 1);
		fixture_expect_nothing(f);
		assert_int_equal(f->qp->responder.psn_expected, psn_add(PSN_MASK - 4, 11));
		fixture_free(f);
	}
}

/* A repeat takes the place of what is still queued, in PSN order before what is not. */
static void a_repeat_restarts_a_queued_answer(void **state)
{
	struct fixture *f = fixture_at(E);

	(void)state;
	assert_int_equal(read_only_at(f, E, 0, 4 * MTU), REASON_NONE);
	assert_int_equal(read_only_at(f, E + 4, 4 * MTU, 2 * MTU), REASON_NONE);
	assert_int_equal(read_only_at(f, E, 0, 4 * MTU), REASON_NONE);
	assert_int_equal(f->qp->responder.response_count, 2);
	fixture_run(f);
	expect_answer(f, E, 0, 4 * MTU, 2);
	expect_answer(f, E + 4, 4 * MTU, 2 * MTU, 2);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void a_repeat_takes_the_place_of_all_it_covers(void **state)
{
	struct fixture *f = fixture_at(E);

	(void)state;
	assert_int_equal(read_only_at(f, E, 0, 4 * MTU), REASON_NONE);
	assert_int_equal(read_only_at(f, E + 4, 4 * MTU, 2 * MTU), REASON_NONE);
	assert_int_equal(read_only_at(f, E + 6, 6 * MTU, MTU), REASON_NONE);
	assert_int_equal(read_only_at(f, E + 1, MTU, 5 * MTU), REASON_NONE);
	fixture_run(f);
	expect_answer(f, E, 0, MTU, 3);
	expect_answer(f, E + 1, MTU, 5 * MTU, 3);
	expect_answer(f, E + 6, 6 * MTU, MTU, 3);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void a_repeat_cuts_the_answer_it_begins_in(void **state)
{
	struct fixture *f = fixture_at(E);

	(void)state;
	assert_int_equal(read_only_at(f, E, 0, 40 * MTU), REASON_NONE);
	assert_true(qp_output(f->qp, &f->core, &f->out));
	outbox_clear(&f->out);
	/* 32 packets are out. From the 35th on again: two of the old answer remain. */
	assert_int_equal(read_only_at(f, E + 34, 34 * MTU, 6 * MTU), REASON_NONE);
	assert_int_equal(f->qp->responder.response_count, 2);
	fixture_run(f);
	fixture_expect(f, OPCODE_READ_RESPONSE_MIDDLE, E + 32);
	fixture_expect(f, OPCODE_READ_RESPONSE_LAST, E + 33);
	expect_answer(f, E + 34, 34 * MTU, 6 * MTU, 1);
	fixture_expect_nothing(f);

	/* From the 6th on, all of it sent before: nothing of the old answer remains. */
	assert_int_equal(read_only_at(f, E, 0, 40 * MTU), REASON_NONE);
	assert_true(qp_output(f->qp, &f->core, &f->out));
	outbox_clear(&f->out);
	assert_int_equal(read_only_at(f, E + 5, 5 * MTU, 35 * MTU), REASON_NONE);
	assert_int_equal(f->qp->responder.response_count, 1);
	fixture_run(f);
	expect_answer(f, E + 5, 5 * MTU, 35 * MTU, 1);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void a_repeat_that_fails_its_checks_is_dropped(void **state)
{
	struct fixture *f = fixture_at(E);

	(void)state;
	read_at(f, E, 0, 4 * MTU);
	expect_answer(f, E, 0, 4 * MTU, 1);

	assert_int_equal(read_at(f, E, 0, UINT32_MAX), REASON_DROP_REPLAY_LOST);
	assert_int_equal(read_at(f, E, FIXTURE_BYTES, 8), REASON_DROP_REPLAY_LOST);
	/* More than was asked for before. */
	assert_int_equal(read_at(f, E, 0, 4 * MTU + 1), REASON_DROP_REPLAY_LOST);
	assert_int_equal(read_at(f, E + 3, 3 * MTU, MTU + 1), REASON_DROP_REPLAY_LOST);
	f->qp->access &= ~(uint32_t)IBV_ACCESS_REMOTE_READ;
	assert_int_equal(read_at(f, E, 0, 4 * MTU), REASON_DROP_REPLAY_LOST);
	f->qp->access |= IBV_ACCESS_REMOTE_READ;
	fixture_deregister(f);
	assert_int_equal(read_at(f, E, 0, 4 * MTU), REASON_DROP_REPLAY_LOST);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	assert_int_equal(f->qp->responder.psn_expected, E + 4);
	fixture_free(f);
}

/*
 * The peer has the whole answer and says so by a SEND; a copy of its READ came in between, and the
 * program, told of the SEND, unmapped the memory.
 */
static void a_repeat_whose_bytes_are_gone_is_left_out(void **state)
{
	struct fixture *f = fixture_at(E);
	struct packet send = fixture_packet(OPCODE_SEND_ONLY, E + 4);
	uint64_t receive = fixture_post_recv(f, 0, 8);

	(void)state;
	send.ack_requested = true;
	read_at(f, E, 0, 4 * MTU);
	expect_answer(f, E, 0, 4 * MTU, 1);
	assert_int_equal(read_only_at(f, E, 0, 4 * MTU), REASON_NONE);
	assert_int_equal(fixture_receive_only(f, &send), REASON_NONE);
	fixture_deregister(f);
	fixture_run(f);
	fixture_expect_ack(f, E + 4, SYNDROME_ACK_UNLIMITED, 2);
	fixture_expect_completion(f, receive, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	fixture_free(f);
}

/* Nobody has the answer yet, whoever asked for it last. */
static void a_repeat_of_what_never_left_is_refused(void **state)
{
	static const uint32_t firsts[] = {0, 2};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct fixture *f = fixture_at(E);
		uint32_t first = firsts[i];

		assert_int_equal(read_only_at(f, E, 0, 4 * MTU), REASON_NONE);
		assert_int_equal(read_only_at(f, E + first, first * MTU, (4 - first) * MTU),
				 REASON_NONE);
		assert_int_equal(read_only_at(f, E + first, first * MTU, (4 - first) * MTU),
				 REASON_NONE);
		fixture_deregister(f);
		fixture_run(f);
		fixture_expect_ack(f, E, SYNDROME_NAK_REMOTE_ACCESS, 1);
		fixture_expect_event(f, IBV_EVENT_QP_ACCESS_ERR);
		fixture_expect_nothing(f);
		assert_int_equal(f->qp->state, IBV_QPS_ERR);
		fixture_free(f);
	}
}

static void no_more_answers_are_queued_than_there_is_room_for(void **state)
{
	struct fixture *f = fixture_at(E);

	(void)state;
	read_at(f, E, 0, 20 * MTU);
	f->packet_next = f->packet_count;
	for (uint32_t i = 0; i < QP_RD_ATOMIC_MAX; i++)
		assert_int_equal(read_only_at(f, E + 19 - i, (19 - i) * MTU, MTU), REASON_NONE);
	assert_int_equal(read_only_at(f, E, 0, MTU), REASON_DROP_NO_ROOM);
	fixture_run(f);
	for (uint32_t i = 20 - QP_RD_ATOMIC_MAX; i < 20; i++)
		expect_answer(f, E + i, i * MTU, MTU, 1);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* max_dest_rd_atomic is 4. A stray copy of an old request must not use one of them up. */
static void repeats_do_not_count_against_the_depth(void **state)
{
	struct fixture *f = fixture_at(E);

	(void)state;
	read_at(f, E, 0, MTU);
	f->packet_next = f->packet_count;
	assert_int_equal(read_only_at(f, E, 0, MTU), REASON_NONE);
	for (uint32_t i = 1; i <= 4; i++)
		assert_int_equal(read_only_at(f, E + i, i * MTU, MTU), REASON_NONE);
	fixture_run(f);
	for (uint32_t i = 0; i <= 4; i++)
		expect_answer(f, E + i, i * MTU, MTU, 5);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_are_answered),
		cmocka_unit_test(a_read_of_nothing_looks_at_no_key),
		cmocka_unit_test(acknowledgements_leave_behind_all_answers),
		cmocka_unit_test(no_acknowledgement_bears_the_psn_of_an_answer),
		cmocka_unit_test(naks_leave_behind_all_answers),
		cmocka_unit_test(answers_leave_in_error_as_well),
		cmocka_unit_test(a_program_that_ends_the_connection_is_obeyed),
		cmocka_unit_test(a_region_that_goes_away_ends_the_answer),
		cmocka_unit_test(an_answer_that_fails_in_error_is_told_to_the_peer_alone),
		cmocka_unit_test(a_read_of_two_gigabytes_keeps_its_place),
		cmocka_unit_test(repeats_do_not_count_against_the_depth),
		cmocka_unit_test(atomics_are_executed_once),
		cmocka_unit_test(an_atomic_that_is_queued_is_not_queued_again),
		cmocka_unit_test(results_are_saved_for_the_last_ones),
		cmocka_unit_test(reads_are_answered_again),
		cmocka_unit_test(a_repeat_restarts_a_queued_answer),
		cmocka_unit_test(a_repeat_takes_the_place_of_all_it_covers),
		cmocka_unit_test(a_repeat_cuts_the_answer_it_begins_in),
		cmocka_unit_test(a_repeat_that_fails_its_checks_is_dropped),
		cmocka_unit_test(a_repeat_whose_bytes_are_gone_is_left_out),
		cmocka_unit_test(a_repeat_of_what_never_left_is_refused),
		cmocka_unit_test(no_more_answers_are_queued_than_there_is_room_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
