/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of request packets: receivers that are not ready, gaps, held packets,
 * repeats, the first packet, and a peer that sends anything at all.
 */
#include <string.h>

#include "base/random.h"
#include "unit/transport/request_step.h"

/* --- receiver not ready --- */

struct rnr_case {
	const char *name;
	struct step before; /* executed first, if it has a length */
	struct step refused;
};

static const struct rnr_case rnr_cases[] = {
	{"send of one packet", .refused = SEND(ONLY, 32, 0)},
	{"first of a send", .refused = SEND(FIRST, MTU, 0)},
	{"write with immediate", .refused = WRITE(ONLY_IMM, 32, 0, 32)},
	{"last of a write with immediate", .before = WRITE(FIRST, MTU, 0, MTU + 32),
	 .refused = WRITE(LAST_IMM, 32, MTU, 0)},
};

static void check_rnr(const struct rnr_case *rnr)
{
	static uint8_t before[FIXTURE_BYTES];
	struct fixture *f = fixture_new(&fixture_usual);
	uint8_t syndrome = SYNDROME_RNR_BASE | fixture_usual.min_rnr_timer;
	uint32_t psn = E;

	if (rnr->before.length)
		assert_int_equal(send_step(f, &rnr->before, psn++), REASON_NONE);
	memcpy(before, f->memory, FIXTURE_BYTES);

	/* Refused as often as it comes; what comes behind it is met with silence. */
	for (uint32_t attempt = 0; attempt < 2; attempt++) {
		assert_int_equal(send_step(f, &rnr->refused, psn), REASON_RECV_QUEUE_EMPTY);
		fixture_expect_ack(f, psn, syndrome, 0);
		for (uint32_t behind = 1; behind < 4; behind++)
			send_step(f, &rnr->refused, psn + behind);
		fixture_expect_nothing(f);
		assert_int_equal(f->qp->responder.psn_expected, psn);
		assert_memory_equal(f->memory, before, FIXTURE_BYTES);
	}
	fixture_move(f, IBV_QPS_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(held_buffers(f), 0);
	fixture_free(f);
}

static void without_a_receive_nothing_is_executed(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rnr_cases) / sizeof(rnr_cases[0]); i++) {
		print_message("  %s\n", rnr_cases[i].name);
		check_rnr(&rnr_cases[i]);
	}
}

static void a_write_goes_on_after_receiver_not_ready(void **state)
{
	const struct step first = WRITE(FIRST, MTU, 0, MTU + 32);
	const struct step last = WRITE(LAST_IMM, 32, MTU, 0);
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	send_step(f, &first, E);
	assert_int_equal(send_step(f, &last, E + 1), REASON_RECV_QUEUE_EMPTY);
	fixture_expect_ack(f, E + 1, SYNDROME_RNR_BASE | 12, 0);
	fixture_post_recv(f, RECV_OFFSET, 0);
	assert_int_equal(send_step(f, &last, E + 1), REASON_NONE);
	assert_int_equal(fixture_expect_completion(f, 1, IBV_WC_SUCCESS)->byte_len, MTU + 32);
	fixture_expect_nothing(f);
	expect_bytes(f, WRITE_OFFSET, MTU + 32);
	fixture_free(f);
}

static void a_new_wave_without_its_refused_head_is_told_so(void **state)
{
	const struct step send = SEND(ONLY, 8, 0);
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		send_step(f, &send, E + i);
	fixture_expect_ack(f, E, SYNDROME_RNR_BASE | 12, 0);
	fixture_expect_nothing(f);
	send_step(f, &send, E + 1);
	fixture_expect_ack(f, E, SYNDROME_NAK_SEQUENCE, 0);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* Held packets run out of receives: the RNR NAK names the first that has none. */
static void a_held_packet_may_be_refused(void **state)
{
	const struct step send = SEND(ONLY, 8, 0);
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post_recv(f, RECV_OFFSET, 8);
	for (uint32_t i = 3; i > 0; i--)
		send_step(f, &send, E + i);
	for (uint32_t i = 0; i < 3; i++)
		fixture_expect_ack(f, E, SYNDROME_NAK_SEQUENCE, 0);
	assert_int_equal(send_step(f, &send, E), REASON_NONE);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_ack(f, E + 1, SYNDROME_RNR_BASE | 12, 1);
	fixture_expect_nothing(f);
	/* The one that was refused is not kept, those behind it are. */
	assert_int_equal(held_buffers(f), 2);
	fixture_post_recv(f, RECV_OFFSET, 8);
	fixture_post_recv(f, RECV_OFFSET, 8);
	fixture_post_recv(f, RECV_OFFSET, 8);
	fixture_run(f);
	fixture_expect_nothing(f);
	assert_int_equal(send_step(f, &send, E + 1), REASON_NONE);
	for (uint64_t wr_id = 2; wr_id <= 4; wr_id++)
		fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* --- gaps --- */

static struct fixture *gap_fixture(uint32_t first_psn)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	settings.rq_psn = first_psn;
	settings.recv_wr_max = 128;
	f = fixture_new(&settings);
	for (uint32_t i = 0; i < 128; i++)
		fixture_post_recv(f, RECV_OFFSET + i * 64, 64);
	return f;
}

static void check_gap(uint32_t first_psn)
{
	struct step send = SEND(ONLY, 8, 0);
	struct fixture *f = gap_fixture(first_psn);

	send.ack_requested = true;
	for (uint32_t i = 1; i < 6; i++) {
		send.offset = 100 * i;
		assert_int_equal(send_step(f, &send, first_psn + i), REASON_NONE);
	}
	fixture_expect_ack(f, first_psn, SYNDROME_NAK_SEQUENCE, 0);
	fixture_expect_nothing(f);
	assert_int_equal(held_buffers(f), 5);
	assert_int_equal(send_step(f, &send, first_psn + 5), REASON_DROP_DUPLICATE);
	fixture_expect_ack(f, first_psn, SYNDROME_NAK_SEQUENCE, 0);

	send.offset = 0;
	assert_int_equal(send_step(f, &send, first_psn), REASON_NONE);
	for (uint64_t i = 0; i < 6; i++) {
		fixture_expect_completion(f, i + 1, IBV_WC_SUCCESS);
		assert_int_equal(f->memory[RECV_OFFSET + i * 64], message_byte(100 * (uint32_t)i));
	}
	fixture_expect_ack(f, first_psn + 5, SYNDROME_ACK_UNLIMITED, 6);
	fixture_expect_nothing(f);
	/* The next gap is a new one. */
	assert_int_equal(send_step(f, &send, first_psn + 8), REASON_NONE);
	fixture_expect_ack(f, first_psn + 6, SYNDROME_NAK_SEQUENCE, 6);
	assert_int_equal(send_step(f, &send, first_psn + 6), REASON_NONE);
	assert_int_equal(send_step(f, &send, first_psn + 7), REASON_NONE);
	for (uint32_t i = 6; i < 9; i++)
		fixture_expect_completion(f, i + 1, IBV_WC_SUCCESS);
	fixture_expect_ack(f, first_psn + 6, SYNDROME_ACK_UNLIMITED, 7);
	fixture_expect_ack(f, first_psn + 8, SYNDROME_ACK_UNLIMITED, 9);
	fixture_expect_nothing(f);
	assert_int_equal(held_buffers(f), 0);
	fixture_free(f);
}

static void packets_behind_a_gap_are_held(void **state)
{
	(void)state;
	check_gap(E);
	check_gap(0);
	check_gap(PSN_MASK);
	check_gap(PSN_MASK - 3);
}

static void a_second_wave_without_its_head_gets_a_second_nak(void **state)
{
	const struct step send = SEND(ONLY, 8, 0);
	struct fixture *f = gap_fixture(E);

	(void)state;
	for (uint32_t i = 1; i < 5; i++)
		send_step(f, &send, E + i);
	fixture_expect_ack(f, E, SYNDROME_NAK_SEQUENCE, 0);
	fixture_expect_nothing(f);
	send_step(f, &send, E + 2);
	fixture_expect_ack(f, E, SYNDROME_NAK_SEQUENCE, 0);
	send_step(f, &send, E + 3);
	send_step(f, &send, E + 4);
	send_step(f, &send, E + 5);
	fixture_expect_nothing(f);
	/* The same packet again, as a probe: PSNs have not moved on. */
	send_step(f, &send, E + 5);
	fixture_expect_ack(f, E, SYNDROME_NAK_SEQUENCE, 0);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void a_nak_is_withdrawn_when_the_head_comes_in_time(void **state)
{
	const struct step send = SEND(ONLY, 8, 0);
	struct fixture *f = gap_fixture(E);

	(void)state;
	assert_int_equal(send_step_only(f, &send, E + 1), REASON_NONE);
	assert_true(f->qp->responder.nak_is_due);
	assert_int_equal(send_step_only(f, &send, E), REASON_NONE);
	/* Both are executed at once, before the next packet of the batch. */
	assert_int_equal(f->qp->responder.psn_expected, E + 2);
	assert_int_equal(held_buffers(f), 0);
	fixture_run(f);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* An RNR NAK that did not leave yet is not exchanged for one without a time to wait. */
static void a_nak_that_waits_keeps_its_place(void **state)
{
	const struct step send = SEND(ONLY, 8, 0);
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	assert_int_equal(send_step_only(f, &send, E), REASON_RECV_QUEUE_EMPTY);
	assert_int_equal(send_step_only(f, &send, E + 2), REASON_NONE);
	assert_int_equal(send_step_only(f, &send, E + 1), REASON_NONE);
	fixture_run(f);
	fixture_expect_ack(f, E, SYNDROME_RNR_BASE | 12, 0);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* A READ takes the PSNs of its answer: nothing that was held there can be a request. */
static void a_read_drops_what_was_held_among_its_answers(void **state)
{
	const struct step write = WRITE(ONLY, 8, 0, 8), read = READ(WRITE_IOVA, 4 * MTU);
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	assert_int_equal(send_step_only(f, &write, E + 2), REASON_NONE);
	assert_int_equal(send_step_only(f, &write, E + 4), REASON_NONE);
	assert_int_equal(send_step_only(f, &read, E), REASON_NONE);
	assert_int_equal(f->qp->responder.psn_expected, E + 5);
	assert_int_equal(f->qp->responder.msn, 2);
	assert_int_equal(held_buffers(f), 0);
	fixture_free(f);
}

static void holding_ends_at_the_window_and_with_the_pool(void **state)
{
	const struct step send = SEND(ONLY, 8, 0);
	struct fixture *f = gap_fixture(E);
	struct packet filler = fixture_packet(OPCODE_SEND_ONLY, 0);
	uint16_t taken[128];
	uint32_t count = 0;

	(void)state;
	assert_int_equal(send_step(f, &send, E + HOLD_WINDOW - 1), REASON_NONE);
	assert_int_equal(send_step(f, &send, E + HOLD_WINDOW), REASON_DROP_OUT_OF_ORDER);
	assert_int_equal(send_step(f, &send, E + PSN_HALF - 1), REASON_DROP_OUT_OF_ORDER);
	while ((taken[count] = hold_take(&f->holds, &filler)) != HOLD_NONE)
		count++;
	assert_int_equal(count, 127);
	assert_int_equal(send_step(f, &send, E + 2), REASON_DROP_NO_ROOM);
	for (uint32_t i = 0; i < count; i++)
		hold_release(&f->holds, taken[i]);
	assert_int_equal(held_buffers(f), 1);
	fixture_move(f, IBV_QPS_RESET);
	assert_int_equal(held_buffers(f), 0);
	fixture_free(f);
}

static void an_error_gives_held_packets_back(void **state)
{
	const struct step send = SEND(ONLY, 8, 0), bad = WRONG_KEY(WRITE_ONLY, 64);
	const struct complaint complaint = {.reason = REASON_RETRY_EXCEEDED};

	(void)state;
	for (uint32_t cause = 0; cause < 3; cause++) {
		struct fixture *f = gap_fixture(E);

		send_step(f, &send, E + 1);
		send_step(f, &bad, E + 2);
		send_step(f, &send, E + 3);
		assert_int_equal(held_buffers(f), 3);
		if (cause == 0)
			fixture_move(f, IBV_QPS_ERR);
		else if (cause == 1)
			send_step(f, &send, E); /* runs into the bad one */
		else
			qp_fail(f->qp, &complaint);
		fixture_run(f);
		assert_int_equal(f->qp->state, IBV_QPS_ERR);
		assert_int_equal(held_buffers(f), 0);
		fixture_free(f);
	}
}

static void a_full_outbox_makes_packets_wait(void **state)
{
	const struct step send = SEND(ONLY, 8, 0);
	struct fixture *f = gap_fixture(E);

	(void)state;
	for (uint32_t i = 0; i < OUTBOX_COMPLETIONS + 10; i++)
		assert_int_equal(send_step_only(f, &send, E + i), REASON_NONE);
	assert_int_equal(f->out.completion_count, OUTBOX_COMPLETIONS);
	assert_int_equal(held_buffers(f), 10);
	/* No NAK: nothing is missing. */
	fixture_run(f);
	for (uint64_t wr_id = 1; wr_id <= OUTBOX_COMPLETIONS + 10; wr_id++)
		fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->responder.psn_expected, E + OUTBOX_COMPLETIONS + 10);
	fixture_free(f);
}

/* --- repeats --- */

static void repeats_are_acknowledged_and_not_executed(void **state)
{
	const struct step send = SEND(ONLY, 8, 0), other = SEND(ONLY, 8, 50);
	const struct step write = WRITE(ONLY, 8, 50, 8);
	struct fixture *f = gap_fixture(E);

	(void)state;
	send_step(f, &send, E);
	send_step(f, &send, E + 1);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);

	assert_int_equal(send_step_only(f, &other, E), REASON_DROP_DUPLICATE);
	assert_int_equal(send_step_only(f, &other, E + 1), REASON_DROP_DUPLICATE);
	assert_int_equal(send_step_only(f, &write, E + 1), REASON_DROP_DUPLICATE);
	fixture_run(f);
	fixture_expect_ack(f, E + 1, SYNDROME_ACK_UNLIMITED, 2);
	fixture_expect_nothing(f);
	assert_int_equal(f->memory[RECV_OFFSET], message_byte(0));
	assert_int_equal(f->memory[WRITE_OFFSET], 0);
	assert_int_equal(send_step(f, &other, E + 2 - PSN_HALF), REASON_DROP_DUPLICATE);
	fixture_expect_ack(f, E + 1, SYNDROME_ACK_UNLIMITED, 2);
	fixture_free(f);
}

/* --- the first packet --- */

static void modify(struct fixture *f, enum ibv_qp_state to, const struct path *path)
{
	struct ibv_qp_attr attr = {.qp_state = to,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = FIXTURE_PEER_QPN,
				   .rq_psn = E};
	int mask = IBV_QP_STATE;

	if (to == IBV_QPS_RTR)
		mask |= IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	qp_modify(f->qp, &attr, mask, path, &f->core);
}

static void the_first_packet_in_rtr_is_told_once(void **state)
{
	const struct step send = SEND(ONLY, 8, 0);
	struct fixture *f = fixture_new(&fixture_usual);
	struct path path = f->qp->path;

	(void)state;
	modify(f, IBV_QPS_RESET, NULL);
	modify(f, IBV_QPS_INIT, NULL);
	assert_int_equal(send_step(f, &send, E), REASON_DROP_QP_STATE);
	modify(f, IBV_QPS_RTR, &path);
	fixture_run(f);
	fixture_expect_nothing(f);
	assert_int_equal(send_step(f, &send, E + 9), REASON_NONE);
	fixture_expect_event(f, IBV_EVENT_COMM_EST);
	fixture_expect_ack(f, E, SYNDROME_NAK_SEQUENCE, 0);
	assert_int_equal(send_step(f, &send, E), REASON_RECV_QUEUE_EMPTY);
	fixture_expect_ack(f, E, SYNDROME_RNR_BASE, 0);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* --- anything at all --- */

static const enum opcode requests[] = {
	OPCODE_SEND_FIRST,   OPCODE_SEND_MIDDLE,    OPCODE_SEND_LAST,	OPCODE_SEND_LAST_IMM,
	OPCODE_SEND_ONLY,    OPCODE_SEND_ONLY_IMM,  OPCODE_WRITE_FIRST, OPCODE_WRITE_MIDDLE,
	OPCODE_WRITE_LAST,   OPCODE_WRITE_LAST_IMM, OPCODE_WRITE_ONLY,	OPCODE_WRITE_ONLY_IMM,
	OPCODE_READ_REQUEST, OPCODE_COMPARE_SWAP,   OPCODE_FETCH_ADD,	OPCODE_SEND_ONLY_INVALIDATE,
};

static struct step random_step(struct random_stream *random)
{
	const uint32_t lengths[] = {0, 1, 8, MTU - 1, MTU, MTU, MTU, MTU + 1};
	const uint32_t reths[] = {0, 1, 8, MTU, MTU + 8, 2 * MTU, 40000, 0x80000000u, UINT32_MAX};
	struct step step = {.operation = requests[random_below(random, 16)],
			    .length = lengths[random_below(random, 8)],
			    .iova = FIXTURE_IOVA + random_below(random, FIXTURE_BYTES + 64) / 8 * 8,
			    .reth_length = reths[random_below(random, 9)],
			    .ack_requested = random_chance(random, 500000)};

	/* Mostly well-formed, or the connection would never live for more than a packet. */
	if (step.operation >= OPCODE_READ_REQUEST)
		step.length = 0;
	else if (step.operation == OPCODE_SEND_FIRST || step.operation == OPCODE_WRITE_FIRST)
		step.length = MTU;
	if (step.operation >= OPCODE_WRITE_ONLY && step.operation <= OPCODE_WRITE_ONLY_IMM)
		step.reth_length = step.length;
	if (random_chance(random, 20000))
		step.rkey = FIXTURE_READ_ONLY_KEY;
	return step;
}

static void check_bounds(const struct fixture *f)
{
	const struct rc_responder *responder = &f->qp->responder;

	assert_int_equal(held_buffers(f), responder->held_count);
	assert_true(responder->held_count <= HOLD_WINDOW);
	assert_true(responder->response_count <= 2 * QP_RD_ATOMIC_MAX);
	for (uint32_t i = 0; i < responder->response_count; i++)
		assert_true(responder->responses[i].sent_count < responder->responses[i].psn_count);
	assert_true(f->qp->recv_queue.posted - f->qp->recv_queue.done <= 16);
}

/* One connection's life under a peer that sends whatever comes to its mind. */
static void play_random_peer(struct random_stream *random)
{
	struct fixture *f = fixture_new(&fixture_usual);

	for (uint32_t i = 0; i < 300 && f->qp->state == IBV_QPS_RTS; i++) {
		struct step step = random_step(random);
		uint32_t psn = f->qp->responder.psn_expected;

		if (random_chance(random, 400000))
			psn = psn_add(psn, (uint32_t)random_below(random, 80) - 20);
		if (random_chance(random, 300000) && !work_queue_is_full(&f->qp->recv_queue))
			fixture_post_recv(f, RECV_OFFSET, 2 * MTU);
		send_step_only(f, &step, psn);
		check_bounds(f);
		if (random_chance(random, 300000)) {
			outbox_clear(&f->out);
			qp_output(f->qp, &f->core, &f->out);
			check_bounds(f);
		}
		atomic_store(&f->qp->recv_queue.released, f->qp->recv_queue.done);
	}
	outbox_clear(&f->out);
	fixture_free(f);
}

static void any_peer_leaves_the_responder_in_bounds(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct random_stream random = {seed};

		play_random_peer(&random);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_receive_nothing_is_executed),
		cmocka_unit_test(a_write_goes_on_after_receiver_not_ready),
		cmocka_unit_test(a_new_wave_without_its_refused_head_is_told_so),
		cmocka_unit_test(a_held_packet_may_be_refused),
		cmocka_unit_test(packets_behind_a_gap_are_held),
		cmocka_unit_test(a_second_wave_without_its_head_gets_a_second_nak),
		cmocka_unit_test(a_nak_is_withdrawn_when_the_head_comes_in_time),
		cmocka_unit_test(a_nak_that_waits_keeps_its_place),
		cmocka_unit_test(a_read_drops_what_was_held_among_its_answers),
		cmocka_unit_test(holding_ends_at_the_window_and_with_the_pool),
		cmocka_unit_test(an_error_gives_held_packets_back),
		cmocka_unit_test(a_full_outbox_makes_packets_wait),
		cmocka_unit_test(repeats_are_acknowledged_and_not_executed),
		cmocka_unit_test(the_first_packet_in_rtr_is_told_once),
		cmocka_unit_test(any_peer_leaves_the_responder_in_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
