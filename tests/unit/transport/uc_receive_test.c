/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages in that nobody repeats: what is executed, what is dropped, and what nobody hears of. */
#include <string.h>

#include "unit/transport/rc_fixture.h"

#define E 0x000100u

static int make(void **state)
{
	struct fixture_settings settings = fixture_usual;

	settings.is_uc = true;
	*state = fixture_new(&settings);
	return 0;
}

static int drop(void **state)
{
	fixture_free(*state);
	return 0;
}

static void a_message_is_executed_and_not_answered(void **state)
{
	struct fixture *f = *state;
	uint64_t id = fixture_post_recv(f, 0, 4096);
	const struct completion *completion;

	assert_int_equal(fixture_request(f, OPCODE_SEND_FIRST, E, NULL, 1024), REASON_NONE);
	assert_int_equal(fixture_request(f, OPCODE_SEND_LAST, E + 1, NULL, 7), REASON_NONE);
	completion = fixture_expect_completion(f, id, IBV_WC_SUCCESS);
	assert_int_equal(completion->byte_len, 1031);
	assert_int_equal(fixture_rdma_request(f, OPCODE_WRITE_ONLY, E + 2, FIXTURE_IOVA + 5000, 9,
					      9),
			 REASON_NONE);
	for (int i = 0; i < 9; i++)
		assert_int_equal(f->memory[5000 + i], 0x5a);
	fixture_expect_nothing(f);
	assert_false(qp_owes_ack(f->qp));
}

/* A packet is missing in the middle: the message is gone, its receive serves the next one. */
static void a_gap_breaks_the_message(void **state)
{
	struct fixture *f = *state;
	uint64_t id = fixture_post_recv(f, 0, 4096);

	assert_int_equal(fixture_request(f, OPCODE_SEND_FIRST, E, NULL, 1024), REASON_NONE);
	assert_int_equal(fixture_request(f, OPCODE_SEND_MIDDLE, E + 2, NULL, 1024),
			 REASON_OPCODE_ORDER);
	assert_int_equal(fixture_request(f, OPCODE_SEND_LAST, E + 3, NULL, 10),
			 REASON_OPCODE_ORDER);
	fixture_expect_nothing(f);
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E + 9, NULL, 10), REASON_NONE);
	assert_int_equal(fixture_expect_completion(f, id, IBV_WC_SUCCESS)->byte_len, 10);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
}

/* Its end is missing: the next one begins in order or not, and is whole. */
static void a_first_packet_ends_the_message_before(void **state)
{
	struct fixture *f = *state;
	uint64_t id = fixture_post_recv(f, 0, 4096);

	assert_int_equal(fixture_request(f, OPCODE_SEND_FIRST, E, NULL, 1024), REASON_NONE);
	assert_int_equal(fixture_request(f, OPCODE_SEND_FIRST, E + 1, NULL, 1024), REASON_NONE);
	assert_int_equal(fixture_request(f, OPCODE_SEND_LAST, E + 2, NULL, 1), REASON_NONE);
	assert_int_equal(fixture_expect_completion(f, id, IBV_WC_SUCCESS)->byte_len, 1025);
	fixture_expect_nothing(f);
}

static void old_packets_are_nothing_special(void **state)
{
	struct fixture *f = *state;

	fixture_post_recv(f, 0, 64);
	fixture_post_recv(f, 0, 64);
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E, NULL, 10), REASON_NONE);
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E, NULL, 10), REASON_NONE);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
}

static void what_the_peer_does_wrong_is_dropped(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E, NULL, 10), REASON_DROP_NO_RECEIVE);
	fixture_post_recv(f, 0, 8);
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E + 1, NULL, 10),
			 REASON_DROP_RECV_SHORT);
	assert_int_equal(fixture_rdma_request(f, OPCODE_WRITE_ONLY, E + 2,
					      FIXTURE_IOVA + FIXTURE_BYTES - 8, 9, 9),
			 REASON_KEY_RANGE);
	assert_int_equal(fixture_rdma_request(f, OPCODE_WRITE_ONLY, E + 3, FIXTURE_IOVA, 9, 8),
			 REASON_PACKET_LENGTH);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	/* The receive that was too short is still there. */
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E + 4, NULL, 8), REASON_NONE);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
}

static void a_bad_receive_is_the_programs_own_fault(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = {.addr = FIXTURE_IOVA, .length = 64, .lkey = 0x00dead00u};
	struct ibv_recv_wr wr = {.wr_id = 77, .sg_list = &sge, .num_sge = 1};

	assert_int_equal(qp_post_recv(f->qp, &wr, NULL), 0);
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E, NULL, 10), REASON_KEY_UNKNOWN);
	fixture_expect_completion(f, 77, IBV_WC_LOC_PROT_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_int_equal(f->qp->first_complaint.reason, REASON_KEY_UNKNOWN);
}

static size_t copy_nothing(void *to, const void *from, size_t bytes)
{
	(void)to;
	(void)from;
	(void)bytes;
	return 0;
}

static const struct copier copier_without_memory = {.copy = copy_nothing};

/* The target was registered, and is no more: nobody but the program can have done that. */
static void a_target_that_is_gone_is_the_programs_own_fault(void **state)
{
	struct fixture *f = *state;

	f->core.copier = &copier_without_memory;
	fixture_post_recv(f, 0, 64);
	assert_int_equal(fixture_rdma_request(f, OPCODE_WRITE_ONLY, E, FIXTURE_IOVA, 9, 9),
			 REASON_MEMORY_FAULT);
	fixture_expect_event(f, IBV_EVENT_QP_FATAL);
	fixture_expect_completion(f, 1, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_int_equal(f->qp->first_complaint.reason, REASON_MEMORY_FAULT);
}

/* One of the two says it: here the receive that the immediate has taken. */
static void a_receive_tells_of_a_target_that_is_gone(void **state)
{
	struct fixture *f = *state;
	const struct completion *completion;

	f->core.copier = &copier_without_memory;
	fixture_post_recv(f, 0, 64);
	assert_int_equal(fixture_rdma_request(f, OPCODE_WRITE_ONLY_IMM, E, FIXTURE_IOVA, 9, 9),
			 REASON_MEMORY_FAULT);
	completion = fixture_expect_completion(f, 1, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(completion->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
}

static void other_services_are_not_heard(void **state)
{
	struct fixture *f = *state;
	struct packet packet = {.opcode = opcode_byte(SERVICE_RC, OPCODE_SEND_ONLY), .psn = E};

	assert_int_equal(qp_receive(f->qp, &packet, &f->core, &f->out), REASON_DROP_SERVICE);
	packet.opcode = opcode_byte(SERVICE_RC, OPCODE_ACKNOWLEDGE);
	assert_int_equal(qp_receive(f->qp, &packet, &f->core, &f->out), REASON_DROP_SERVICE);
	fixture_run(f);
	fixture_expect_nothing(f);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, make, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FIXTURE(a_message_is_executed_and_not_answered),
		WITH_FIXTURE(a_gap_breaks_the_message),
		WITH_FIXTURE(a_first_packet_ends_the_message_before),
		WITH_FIXTURE(old_packets_are_nothing_special),
		WITH_FIXTURE(what_the_peer_does_wrong_is_dropped),
		WITH_FIXTURE(a_bad_receive_is_the_programs_own_fault),
		WITH_FIXTURE(a_target_that_is_gone_is_the_programs_own_fault),
		WITH_FIXTURE(a_receive_tells_of_a_target_that_is_gone),
		WITH_FIXTURE(other_services_are_not_heard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
