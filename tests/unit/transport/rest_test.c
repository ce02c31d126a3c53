/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Output cut short: when one packet of a SEND or WRITE, and the ACK that is owed before it, is all that there
 * is to say. E is the PSN that the responder expects first.
 */
#include "unit/transport/rc_fixture.h"

#define E 0x000100u
#define SEND_PSN 0xfffffeu

static struct fixture *fixture_with_a_send(void)
{
	struct fixture *f = fixture_new(&fixture_usual);

	fixture_post(f, IBV_WR_SEND, 0, 16, IBV_SEND_SIGNALED);
	return f;
}

/* A message has come, and its ACK waited for what is posted next. */
static struct fixture *fixture_that_owes_an_ack(void)
{
	struct fixture *f = fixture_new(&fixture_usual);

	fixture_post_recv(f, 0, 64);
	f->core.may_hold_ack = true;
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E, NULL, 16), REASON_NONE);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	f->core.may_hold_ack = false;
	return f;
}

/* What it puts there, and that qp_output() has nothing to add. */
static void output_shortly(struct fixture *f, uint32_t packet_count)
{
	vbn_time deadline;

	outbox_clear(&f->out);
	qp_output_one_packet(f->qp, &f->core, &f->out);
	deadline = qp_next_deadline(f->qp);
	assert_int_equal(f->out.packet_count, packet_count);
	assert_false(qp_has_one_packet(f->qp));
	fixture_run(f);
	assert_int_equal(qp_next_deadline(f->qp), deadline);
}

static void a_send_of_one_packet_is_all(void **state)
{
	struct fixture *f = fixture_with_a_send();
	const struct fixture_packet *packet;

	(void)state;
	assert_true(qp_has_one_packet(f->qp));
	output_shortly(f, 1);
	packet = fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN);
	assert_true(packet->out.packet.ack_requested);
	assert_int_equal(packet->out.packet.payload_bytes, 16);
	assert_memory_equal(packet->bytes, f->memory, 16);
	fixture_expect_nothing(f);
	assert_int_not_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
	fixture_ack(f, SEND_PSN);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
	fixture_free(f);
}

static void so_is_a_write(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	const struct fixture_packet *packet;

	(void)state;
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 1024, IBV_SEND_SIGNALED);
	assert_true(qp_has_one_packet(f->qp));
	output_shortly(f, 1);
	packet = fixture_expect(f, OPCODE_WRITE_ONLY, SEND_PSN);
	assert_true(packet->out.packet.ack_requested);
	assert_int_equal(packet->out.packet.reth.length, 1024);
	assert_memory_equal(packet->bytes, f->memory, 1024);
	fixture_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, IBV_SEND_SIGNALED);
	assert_true(qp_has_one_packet(f->qp));
	output_shortly(f, 1);
	fixture_expect(f, OPCODE_WRITE_ONLY_IMM, SEND_PSN + 1);
	fixture_ack(f, SEND_PSN + 1);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_free(f);
}

/* It may have to leave before the ACK. */
static void a_write_beside_an_ack_is_for_output(void **state)
{
	struct fixture *f = fixture_that_owes_an_ack();

	(void)state;
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 8, 0);
	assert_false(qp_has_one_packet(f->qp));
	fixture_run(f);
	fixture_expect(f, OPCODE_WRITE_ONLY, SEND_PSN);
	fixture_expect_ack(f, E, SYNDROME_ACK_UNLIMITED, 1);
	fixture_free(f);
}

static bool refuse(struct reach *reach, const struct reach_step *step)
{
	(void)reach;
	(void)step;
	return false;
}

/* What may be done without a packet is, if not now then when those before it are done. */
static void a_write_within_reach_is_for_output(void **state)
{
	struct reach reach = {.grants = refuse, .access = refuse, .bytes_min = 8};
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	f->qp->path.reach = &reach;
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 8, 0);
	assert_false(qp_has_one_packet(f->qp));
	qp_grant_direct(f->qp, DIRECT_STEP_BYTES);
	fixture_run(f);
	fixture_expect(f, OPCODE_WRITE_ONLY, SEND_PSN);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 8, 0);
	assert_false(qp_has_one_packet(f->qp));
	fixture_run(f);
	fixture_expect(f, OPCODE_WRITE_ONLY, SEND_PSN + 1);
	/* Too short, and behind one that is always a packet. */
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 7, 0);
	assert_true(qp_has_one_packet(f->qp));
	output_shortly(f, 1);
	fixture_expect(f, OPCODE_WRITE_ONLY, 0);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 8, 0);
	assert_true(qp_has_one_packet(f->qp));
	output_shortly(f, 1);
	fixture_expect(f, OPCODE_WRITE_ONLY, 1);
	fixture_free(f);
}

static void others_may_be_under_way(void **state)
{
	struct fixture *f = fixture_with_a_send();

	(void)state;
	output_shortly(f, 1);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 3000, IBV_SEND_SIGNALED);
	fixture_run(f);
	fixture_expect(f, OPCODE_WRITE_FIRST, SEND_PSN + 1);
	fixture_expect(f, OPCODE_WRITE_MIDDLE, 0);
	fixture_expect(f, OPCODE_WRITE_LAST, 1);
	fixture_post(f, IBV_WR_SEND_WITH_IMM, 0, 1024, IBV_SEND_SIGNALED);
	assert_true(qp_has_one_packet(f->qp));
	output_shortly(f, 1);
	fixture_expect(f, OPCODE_SEND_ONLY_IMM, 2);
	fixture_ack(f, 2);
	for (uint64_t wr_id = 1; wr_id <= 3; wr_id++)
		fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS);
	fixture_free(f);
}

/* The time from here on may be an old one, and is not the beginning of a round trip. */
static void the_round_trip_is_not_measured(void **state)
{
	struct fixture *f = fixture_with_a_send();

	(void)state;
	output_shortly(f, 1);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN);
	assert_false(f->qp->requester.rtt_is_timing);
	fixture_free(f);
}

static void the_ack_that_is_owed_leaves_before_it(void **state)
{
	struct fixture *f = fixture_that_owes_an_ack();

	(void)state;
	fixture_post(f, IBV_WR_SEND, 0, 0, IBV_SEND_SIGNALED);
	assert_true(qp_has_one_packet(f->qp));
	output_shortly(f, 2);
	fixture_expect_ack(f, E, SYNDROME_ACK_UNLIMITED, 1);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN);
	assert_false(qp_owes_ack(f->qp));
	assert_int_equal(qp_ack_deadline(f->qp), VBN_TIME_NEVER);
	fixture_free(f);
}

/* Each makes of a QP with one SEND to start one that has more, or something else, to do. */
static void post_another(struct fixture *f)
{
	fixture_post(f, IBV_WR_SEND, 0, 16, 0);
}

static void owe_a_nak(struct fixture *f)
{
	struct packet early = fixture_packet(OPCODE_SEND_ONLY, E + 1);

	assert_int_equal(fixture_receive_only(f, &early), REASON_NONE);
}

static void owe_an_answer(struct fixture *f)
{
	struct packet read = fixture_packet(OPCODE_READ_REQUEST, E);

	read.reth.rkey = FIXTURE_KEY;
	read.reth.address = FIXTURE_IOVA;
	read.reth.length = 8;
	assert_int_equal(fixture_receive_only(f, &read), REASON_NONE);
}

static void drain(struct fixture *f)
{
	fixture_move(f, IBV_QPS_SQD);
}

static void stop(struct fixture *f)
{
	fixture_move(f, IBV_QPS_ERR);
}

static void anything_else_is_for_output(void **state)
{
	static void (*const changes[])(struct fixture * f) = {
		post_another, owe_a_nak, owe_an_answer, drain, stop,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct fixture *f = fixture_with_a_send();

		assert_true(qp_has_one_packet(f->qp));
		changes[i](f);
		assert_false(qp_has_one_packet(f->qp));
		fixture_move(f, IBV_QPS_ERR);
		fixture_run(f);
		fixture_free(f);
	}
}

static void other_requests_are_for_output(void **state)
{
	const struct {
		enum ibv_wr_opcode opcode;
		uint32_t length;
	} cases[] = {
		{IBV_WR_SEND, 1025},
		{IBV_WR_RDMA_WRITE, 1025},
		{IBV_WR_RDMA_WRITE_WITH_IMM, 1025},
		{IBV_WR_RDMA_READ, 8},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 8},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture *f = fixture_new(&fixture_usual);

		assert_false(qp_has_one_packet(f->qp));
		fixture_post(f, cases[i].opcode, 0, cases[i].length, 0);
		assert_false(qp_has_one_packet(f->qp));
		fixture_move(f, IBV_QPS_ERR);
		fixture_run(f);
		fixture_free(f);
	}
}

static void a_fence_is_for_output(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 8, IBV_SEND_SIGNALED);
	fixture_run(f);
	fixture_expect(f, OPCODE_READ_REQUEST, SEND_PSN);
	fixture_post(f, IBV_WR_SEND, 0, 8, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
	assert_false(qp_has_one_packet(f->qp));
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, SEND_PSN, 1, 8);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN + 1);
	fixture_free(f);
}

static void a_closed_window_is_for_output(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.outbound_bytes_max = 1500;
	f = fixture_new(&settings);
	fixture_post(f, IBV_WR_SEND, 0, 1024, IBV_SEND_SIGNALED);
	assert_true(qp_has_one_packet(f->qp));
	output_shortly(f, 1);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN);
	fixture_post(f, IBV_WR_SEND, 0, 1024, IBV_SEND_SIGNALED);
	assert_false(qp_has_one_packet(f->qp));
	fixture_ack(f, SEND_PSN);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN + 1);
	fixture_free(f);
}

/* A wait that the peer asked for, and what is to be repeated after it. */
static void a_repeat_is_for_output(void **state)
{
	struct fixture *f = fixture_with_a_send();

	(void)state;
	output_shortly(f, 1);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN);
	fixture_post(f, IBV_WR_SEND, 0, 8, IBV_SEND_SIGNALED);
	assert_true(qp_has_one_packet(f->qp));
	fixture_nak(f, SEND_PSN, SYNDROME_RNR_BASE | 12);
	assert_false(qp_has_one_packet(f->qp));
	fixture_expect_nothing(f);
	fixture_advance(f, 10 * VBN_MILLISECOND);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN + 1);
	fixture_free(f);
}

/* The key shows to be wrong when the packet is made: the request fails, as by output. */
static void a_payload_that_cannot_be_read_fails_it(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	struct ibv_sge sge = {.addr = FIXTURE_IOVA, .length = 8, .lkey = 0x77};
	struct ibv_send_wr wr = {.wr_id = 5,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};

	(void)state;
	assert_int_equal(qp_post_send(f->qp, &wr, f->core.copier, NULL), 0);
	assert_true(qp_has_one_packet(f->qp));
	outbox_clear(&f->out);
	qp_output_one_packet(f->qp, &f->core, &f->out);
	fixture_run(f);
	fixture_expect_completion(f, 5, IBV_WC_LOC_PROT_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_send_of_one_packet_is_all),
		cmocka_unit_test(so_is_a_write),
		cmocka_unit_test(a_write_beside_an_ack_is_for_output),
		cmocka_unit_test(a_write_within_reach_is_for_output),
		cmocka_unit_test(others_may_be_under_way),
		cmocka_unit_test(the_round_trip_is_not_measured),
		cmocka_unit_test(the_ack_that_is_owed_leaves_before_it),
		cmocka_unit_test(anything_else_is_for_output),
		cmocka_unit_test(other_requests_are_for_output),
		cmocka_unit_test(a_fence_is_for_output),
		cmocka_unit_test(a_closed_window_is_for_output),
		cmocka_unit_test(a_repeat_is_for_output),
		cmocka_unit_test(a_payload_that_cannot_be_read_fails_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
