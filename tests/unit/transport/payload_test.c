/* SPDX-License-Identifier: BSD-2-Clause */
/* Payload on its way out, and memory that goes away between the request and the copy. */
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

static size_t copy_nothing(void *to, const void *from, size_t length)
{
	(void)to;
	(void)from;
	(void)length;
	return 0;
}

static const struct copier copier_faulting = {.copy = copy_nothing};

/* Lets the QP fill the outbox and hands out its packets by hand. */
static const struct packet_out *output(struct fixture *f, uint32_t packet_count)
{
	assert_false(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packet_count, packet_count);
	return f->out.packets;
}

static void expect_copied(struct fixture *f, const struct packet_out *packet)
{
	uint8_t bytes[1024];

	assert_int_equal(payload_copy(f->qp, packet, &f->core, bytes, NULL), REASON_NONE);
}

/* As the engine does: the rest of the outbox is dropped. */
static void expect_copy_fails(struct fixture *f, const struct packet_out *packet,
			      enum reason reason)
{
	struct complaint complaint = {0};
	uint8_t bytes[1024];

	assert_int_equal(payload_copy(f->qp, packet, &f->core, bytes, &complaint), reason);
	assert_int_equal(complaint.reason, reason);
	assert_int_equal(complaint.qpn, FIXTURE_QPN);
	assert_false(qp_payload_failed(f->qp, packet, &complaint, &f->core));
	outbox_clear(&f->out);
}

static void bytes_come_from_where_the_packet_says(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge list[2] = {{.addr = FIXTURE_IOVA + 10, .length = 3, .lkey = FIXTURE_KEY},
				  {.addr = FIXTURE_IOVA + 50, .length = 4, .lkey = FIXTURE_KEY}};
	struct packet_out packet = {.packet = {.payload_bytes = 4}};
	uint8_t bytes[4];

	for (int i = 0; i < 100; i++)
		f->memory[i] = (uint8_t)i;
	packet.payload.kind = PAYLOAD_SGE;
	packet.payload.sge.list = list;
	packet.payload.sge.count = 2;
	packet.payload.sge.offset = 2;
	assert_int_equal(payload_copy(f->qp, &packet, &f->core, bytes, NULL), REASON_NONE);
	assert_memory_equal(bytes, ((uint8_t[]){12, 50, 51, 52}), 4);

	packet.payload.kind = PAYLOAD_INLINE;
	packet.payload.inline_bytes = f->memory + 20;
	assert_int_equal(payload_copy(f->qp, &packet, &f->core, bytes, NULL), REASON_NONE);
	assert_memory_equal(bytes, ((uint8_t[]){20, 21, 22, 23}), 4);

	packet.payload.kind = PAYLOAD_REMOTE;
	packet.payload.remote.rkey = FIXTURE_KEY;
	packet.payload.remote.pd = FIXTURE_PD;
	packet.payload.remote.iova = FIXTURE_IOVA + 30;
	assert_int_equal(payload_copy(f->qp, &packet, &f->core, bytes, NULL), REASON_NONE);
	assert_memory_equal(bytes, ((uint8_t[]){30, 31, 32, 33}), 4);
}

static void no_payload_needs_no_key(void **state)
{
	struct fixture *f = *state;
	struct packet_out packet = {.payload = {.kind = PAYLOAD_REMOTE}};

	assert_int_equal(payload_copy(f->qp, &packet, &f->core, NULL, NULL), REASON_NONE);
}

static void request_whose_memory_is_gone_fails_in_its_turn(void **state)
{
	struct fixture *f = *state;
	uint64_t first = fixture_post(f, IBV_WR_SEND, 0, 1024, 0);
	uint64_t second = fixture_post(f, IBV_WR_RDMA_WRITE, 0, 2048, 0);
	uint64_t third = fixture_post(f, IBV_WR_SEND, 0, 10, 0);
	const struct packet_out *packets = output(f, 4);

	expect_copied(f, &packets[0]);
	expect_copied(f, &packets[1]);
	fixture_deregister(f);
	expect_copy_fails(f, &packets[2], REASON_KEY_UNKNOWN);
	/* Nothing is said, and nothing more is sent, before the first one is done. */
	fixture_run(f);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	fixture_ack(f, SQ_PSN);
	fixture_expect_completion(f, first, IBV_WC_SUCCESS);
	fixture_expect_completion(f, second, IBV_WC_LOC_PROT_ERR);
	fixture_expect_completion(f, third, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_int_equal(f->qp->first_complaint.reason, REASON_KEY_UNKNOWN);
}

static void request_whose_memory_faults_fails_too(void **state)
{
	struct fixture *f = *state;
	uint64_t only = fixture_post(f, IBV_WR_SEND, 0, 100, 0);
	const struct packet_out *packets = output(f, 1);

	f->core.copier = &copier_faulting;
	expect_copy_fails(f, &packets[0], REASON_MEMORY_FAULT);
	fixture_run(f);
	fixture_expect_completion(f, only, IBV_WC_LOC_PROT_ERR);
	fixture_expect_nothing(f);
}

static void in_error_a_failed_copy_changes_nothing(void **state)
{
	struct fixture *f = *state;
	uint64_t only = fixture_post(f, IBV_WR_SEND, 0, 100, 0);
	struct packet_out packet = *output(f, 1);
	struct complaint other = {.reason = REASON_RETRY_EXCEEDED};

	outbox_clear(&f->out);
	qp_fail(f->qp, &other);
	fixture_deregister(f);
	expect_copy_fails(f, &packet, REASON_KEY_UNKNOWN);
	fixture_run(f);
	fixture_expect_completion(f, only, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->first_complaint.reason, REASON_RETRY_EXCEEDED);
}

/* A READ of three packets is executed; its answers stand in the outbox. */
static const struct packet_out *read_in_outbox(struct fixture *f)
{
	struct packet packet = fixture_packet(OPCODE_READ_REQUEST, RQ_PSN);

	packet.reth.address = FIXTURE_IOVA;
	packet.reth.rkey = FIXTURE_KEY;
	packet.reth.length = 3000;
	assert_int_equal(fixture_receive_only(f, &packet), REASON_NONE);
	assert_false(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packet_count, 3);
	return f->out.packets;
}

static void answer_whose_key_is_gone_is_a_nak_there(void **state)
{
	struct fixture *f = *state;
	uint64_t receive = fixture_post_recv(f, 0, 10);
	const struct packet_out *packets = read_in_outbox(f);

	expect_copied(f, &packets[0]);
	fixture_deregister(f);
	expect_copy_fails(f, &packets[1], REASON_KEY_UNKNOWN);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	fixture_run(f);
	fixture_expect_ack(f, RQ_PSN + 1, SYNDROME_NAK_REMOTE_ACCESS, 1);
	fixture_expect_event(f, IBV_EVENT_QP_ACCESS_ERR);
	fixture_expect_completion(f, receive, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
}

static void answer_whose_right_is_withdrawn_is_a_nak_there(void **state)
{
	struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct fixture *f = *state;
	const struct packet_out *packets = read_in_outbox(f);

	expect_copied(f, &packets[0]);
	qp_modify(f->qp, &attr, IBV_QP_ACCESS_FLAGS, NULL, &f->core);
	expect_copy_fails(f, &packets[1], REASON_QP_NO_REMOTE_READ);
	fixture_run(f);
	fixture_expect_ack(f, RQ_PSN + 1, SYNDROME_NAK_REMOTE_ACCESS, 1);
	fixture_expect_event(f, IBV_EVENT_QP_ACCESS_ERR);
	fixture_expect_nothing(f);
}

static void answer_whose_memory_faults_is_a_nak_there(void **state)
{
	struct fixture *f = *state;
	const struct packet_out *packets = read_in_outbox(f);

	f->core.copier = &copier_faulting;
	expect_copy_fails(f, &packets[0], REASON_MEMORY_FAULT);
	fixture_run(f);
	fixture_expect_ack(f, RQ_PSN, SYNDROME_NAK_REMOTE_OPERATION, 1);
	fixture_expect_event(f, IBV_EVENT_QP_FATAL);
	fixture_expect_nothing(f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_fixture, free_fixture)
	const struct CMUnitTest tests[] = {
		TEST(bytes_come_from_where_the_packet_says),
		TEST(no_payload_needs_no_key),
		TEST(request_whose_memory_is_gone_fails_in_its_turn),
		TEST(request_whose_memory_faults_fails_too),
		TEST(in_error_a_failed_copy_changes_nothing),
		TEST(answer_whose_key_is_gone_is_a_nak_there),
		TEST(answer_whose_right_is_withdrawn_is_a_nak_there),
		TEST(answer_whose_memory_faults_is_a_nak_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
