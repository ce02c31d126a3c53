/* SPDX-License-Identifier: BSD-2-Clause */
/* What a QP takes in and gives out in each state, and in which order. */
#include "unit/transport/rc_fixture.h"

#include <string.h>

#define SQ_PSN 0xfffffeu
#define RQ_PSN 0x000100u

static int make_fixture(void **state)
{
	*state = fixture_new(&fixture_usual);
	return 0;
}

static int free_fixture(void **state)
{
	fixture_free(*state);
	return 0;
}

static void other_services_are_dropped(void **state)
{
	struct fixture *f = *state;
	static const uint8_t foreign[] = {SERVICE_UC << 5 | OPCODE_SEND_ONLY,
					  SERVICE_UD << 5 | OPCODE_SEND_ONLY,
					  SERVICE_RD << 5 | OPCODE_SEND_ONLY,
					  SERVICE_XRC << 5 | OPCODE_SEND_ONLY,
					  OPCODE_BYTE_CNP,
					  0xff};

	for (size_t i = 0; i < sizeof(foreign); i++) {
		struct packet packet = fixture_packet(OPCODE_SEND_ONLY, RQ_PSN);

		packet.opcode = foreign[i];
		assert_int_equal(fixture_receive(f, &packet), REASON_DROP_SERVICE);
	}
	fixture_expect_nothing(f);
}

/* Whether requests and responses are looked at in this state. */
static void expect_in_state(struct fixture *f, enum ibv_qp_state in, bool takes_requests,
			    bool takes_responses)
{
	struct packet request = fixture_packet(OPCODE_WRITE_MIDDLE, RQ_PSN - 5);
	struct packet response = fixture_packet(OPCODE_ACKNOWLEDGE, SQ_PSN + 5);
	enum ibv_qp_state before = f->qp->state;

	f->qp->state = in;
	assert_int_equal(fixture_receive_only(f, &request) == REASON_DROP_QP_STATE,
			 !takes_requests);
	assert_int_equal(fixture_receive_only(f, &response),
			 takes_responses ? REASON_DROP_STALE_ACK : REASON_DROP_QP_STATE);
	f->qp->state = before;
}

static void each_state_takes_what_it_should(void **state)
{
	struct fixture *f = *state;

	expect_in_state(f, IBV_QPS_RESET, false, false);
	expect_in_state(f, IBV_QPS_INIT, false, false);
	expect_in_state(f, IBV_QPS_RTR, true, false);
	expect_in_state(f, IBV_QPS_RTS, true, true);
	expect_in_state(f, IBV_QPS_SQD, true, true);
	expect_in_state(f, IBV_QPS_ERR, false, false);
}

static void deadlines_end_with_the_requester(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
	fixture_post(f, IBV_WR_SEND, 0, 10, 0);
	fixture_run(f);
	assert_true(qp_next_deadline(f->qp) > f->core.now);
	assert_true(qp_next_deadline(f->qp) < VBN_TIME_NEVER);
	fixture_move(f, IBV_QPS_SQD);
	assert_true(qp_next_deadline(f->qp) < VBN_TIME_NEVER);
	fixture_move(f, IBV_QPS_ERR);
	assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
	/* A deadline that was waited for all the same is harmless. */
	f->core.now += VBN_SECOND;
	qp_deadline(f->qp, &f->core);
	fixture_run(f);
	assert_int_equal(f->packet_count, 1);
}

static void answers_go_before_requests(void **state)
{
	struct fixture *f = *state;
	struct packet read = fixture_packet(OPCODE_READ_REQUEST, RQ_PSN);

	read.reth.address = FIXTURE_IOVA;
	read.reth.rkey = FIXTURE_KEY;
	read.reth.length = 10;
	fixture_post(f, IBV_WR_SEND, 0, 10, 0);
	fixture_receive_only(f, &read);
	fixture_run(f);
	fixture_expect(f, OPCODE_READ_RESPONSE_ONLY, RQ_PSN);
	fixture_expect(f, OPCODE_SEND_ONLY, SQ_PSN);
}

static void a_full_outbox_is_said(void **state)
{
	struct fixture *f = *state;

	fixture_post(f, IBV_WR_SEND, 0, (OUTBOX_PACKETS + 1) * 1024, 0);
	assert_true(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packet_count, OUTBOX_PACKETS);
	outbox_clear(&f->out);
	assert_false(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packet_count, 1);
	outbox_clear(&f->out);
}

static void in_error_outcomes_then_the_failure_then_flushes(void **state)
{
	struct fixture *f = *state;
	uint64_t wr_ids[4];
	uint64_t receive = fixture_post_recv(f, 0, 10);
	struct packet ack = fixture_packet(OPCODE_ACKNOWLEDGE, SQ_PSN);
	struct packet nak = fixture_packet(OPCODE_ACKNOWLEDGE, psn_add(SQ_PSN, 1));

	for (int i = 0; i < 4; i++)
		wr_ids[i] = fixture_post(f, IBV_WR_SEND, 0, 10, 0);
	fixture_run(f);
	for (uint32_t i = 0; i < 4; i++)
		fixture_expect(f, OPCODE_SEND_ONLY, psn_add(SQ_PSN, i));
	ack.aeth.syndrome = SYNDROME_ACK_UNLIMITED;
	nak.aeth.syndrome = SYNDROME_NAK_REMOTE_OPERATION;
	fixture_receive_only(f, &ack);
	fixture_receive_only(f, &nak);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	fixture_run(f);
	fixture_expect_completion(f, wr_ids[0], IBV_WC_SUCCESS);
	fixture_expect_completion(f, wr_ids[1], IBV_WC_REM_OP_ERR);
	fixture_expect_completion(f, wr_ids[2], IBV_WC_WR_FLUSH_ERR);
	fixture_expect_completion(f, wr_ids[3], IBV_WC_WR_FLUSH_ERR);
	fixture_expect_completion(f, receive, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	/* What is posted now is flushed, and only that. */
	wr_ids[0] = fixture_post(f, IBV_WR_SEND, 0, 10, 0);
	receive = fixture_post_recv(f, 0, 10);
	fixture_run(f);
	fixture_expect_completion(f, wr_ids[0], IBV_WC_WR_FLUSH_ERR);
	fixture_expect_completion(f, receive, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
}

/* A WRITE with a wrong key is refused, but its NAK has not left yet. */
static void be_refused(struct fixture *f)
{
	struct packet packet = fixture_packet(OPCODE_WRITE_ONLY, RQ_PSN);
	static const uint8_t bytes[4];

	packet.reth.address = FIXTURE_IOVA;
	packet.reth.rkey = FIXTURE_KEY + 1;
	packet.reth.length = sizeof(bytes);
	packet.payload = bytes;
	packet.payload_bytes = sizeof(bytes);
	fixture_receive_only(f, &packet);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
}

static void a_refusal_still_reaches_the_peer(void **state)
{
	struct fixture *f = *state;

	be_refused(f);
	fixture_run(f);
	fixture_expect_ack(f, RQ_PSN, SYNDROME_NAK_REMOTE_ACCESS, 0);
}

static void error_by_the_program_is_silent(void **state)
{
	struct fixture *f = *state;

	be_refused(f);
	fixture_move(f, IBV_QPS_ERR);
	assert_int_equal(f->packet_count, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_fixture, free_fixture)
	const struct CMUnitTest tests[] = {
		TEST(other_services_are_dropped),
		TEST(each_state_takes_what_it_should),
		TEST(deadlines_end_with_the_requester),
		TEST(answers_go_before_requests),
		TEST(a_full_outbox_is_said),
		TEST(in_error_outcomes_then_the_failure_then_flushes),
		TEST(a_refusal_still_reaches_the_peer),
		TEST(error_by_the_program_is_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
