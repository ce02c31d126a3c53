/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams out: what they carry, when they are done, and what a failed one stops. */
#include <errno.h>
#include <string.h>

#include "unit/transport/rc_fixture.h"

#define PEER_QPN 0x00abcdu
#define PEER_QKEY 0x22334455u
#define BAD_KEY 0x00dead00u

static int make(void **state)
{
	struct fixture_settings settings = fixture_usual;

	settings.is_datagram = true;
	settings.send_wr_max = 64;
	settings.signals_all = false;
	*state = fixture_new(&settings);
	for (uint32_t i = 0; i < 4096; i++)
		((struct fixture *)*state)->memory[i] = (uint8_t)(i * 7);
	return 0;
}

static int drop(void **state)
{
	fixture_free(*state);
	return 0;
}

struct request {
	enum ibv_wr_opcode opcode;
	uint32_t length, flags, qkey, lkey;
};

static int try_post(struct fixture *f, const struct request *request, struct complaint *complaint)
{
	struct ibv_sge sge = {.addr = FIXTURE_IOVA,
			      .length = request->length,
			      .lkey = request->lkey ? request->lkey : FIXTURE_KEY};
	struct ibv_send_wr wr = {.wr_id = f->wr_id_next++,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = request->opcode,
				 .send_flags = request->flags,
				 .imm_data = htobe32(0x11223344)};

	if (request->flags & IBV_SEND_INLINE)
		sge.addr = (uintptr_t)f->memory;
	wr.wr.ud.remote_qpn = PEER_QPN;
	wr.wr.ud.remote_qkey = request->qkey ? request->qkey : PEER_QKEY;
	return qp_post_send(f->qp, &wr, &copier_direct, complaint);
}

static uint64_t post(struct fixture *f, const struct request *request)
{
	assert_int_equal(try_post(f, request, NULL), 0);
	return f->wr_id_next - 1;
}

static uint64_t post_send(struct fixture *f, uint32_t length)
{
	return post(f, &(struct request){IBV_WR_SEND, length, IBV_SEND_SIGNALED, 0, 0});
}

static uint64_t post_bad(struct fixture *f, uint32_t flags)
{
	return post(f, &(struct request){IBV_WR_SEND, 16, flags, 0, BAD_KEY});
}

static const struct fixture_packet *expect(struct fixture *f, enum opcode operation, uint32_t psn)
{
	const struct fixture_packet *next = &f->packets[f->packet_next];

	assert_true(f->packet_next < f->packet_count);
	f->packet_next++;
	assert_int_equal(next->out.packet.opcode, opcode_byte(SERVICE_UD, operation));
	assert_int_equal(next->out.packet.psn, psn & PSN_MASK);
	assert_int_equal(next->out.packet.dest_qpn, PEER_QPN);
	assert_int_equal(next->out.packet.pkey, 0xffff);
	assert_int_equal(next->out.packet.deth.source_qpn, FIXTURE_QPN);
	assert_memory_equal(next->bytes, f->memory, next->out.packet.payload_bytes);
	return next;
}

static void packet_says_who_sends_to_whom(void **state)
{
	struct fixture *f = *state;
	const struct fixture_packet *packet;
	uint64_t wr_id = post_send(f, 1000);

	fixture_run(f);
	packet = expect(f, OPCODE_SEND_ONLY, 0xfffffe);
	assert_int_equal(packet->out.packet.payload_bytes, 1000);
	assert_int_equal(packet->out.packet.deth.qkey, PEER_QKEY);
	assert_false(packet->out.packet.solicited);
	assert_false(packet->out.packet.ack_requested);
	assert_int_equal(fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS)->opcode, IBV_WC_SEND);
	fixture_expect_nothing(f);
	assert_true(qp_next_deadline(f->qp) == VBN_TIME_NEVER);
}

static void privileged_key_is_the_own_one(void **state)
{
	struct fixture *f = *state;

	post(f, &(struct request){IBV_WR_SEND, 8, 0, 0x80000000u, 0});
	post(f, &(struct request){IBV_WR_SEND, 8, 0, 0x7fffffffu, 0});
	fixture_run(f);
	assert_int_equal(expect(f, OPCODE_SEND_ONLY, 0xfffffe)->out.packet.deth.qkey, FIXTURE_QKEY);
	assert_int_equal(expect(f, OPCODE_SEND_ONLY, 0xffffff)->out.packet.deth.qkey, 0x7fffffff);
	fixture_expect_nothing(f);
}

static void immediate_and_solicited_travel(void **state)
{
	struct fixture *f = *state;
	const struct fixture_packet *packet;

	post(f, &(struct request){IBV_WR_SEND_WITH_IMM, 0, IBV_SEND_SOLICITED, 0, 0});
	post(f, &(struct request){IBV_WR_SEND, 40, IBV_SEND_INLINE, 0, 0});
	fixture_run(f);
	packet = expect(f, OPCODE_SEND_ONLY_IMM, 0xfffffe);
	assert_int_equal(packet->out.packet.immediate, htobe32(0x11223344));
	assert_true(packet->out.packet.solicited);
	assert_int_equal(packet->out.packet.payload_bytes, 0);
	assert_int_equal(expect(f, OPCODE_SEND_ONLY, 0xffffff)->out.packet.payload_bytes, 40);
	fixture_expect_nothing(f);
}

/* The program may reuse the memory when it is told so: not before the packet has its copy. */
static void done_only_when_the_packet_has_left(void **state)
{
	struct fixture *f = *state;

	post_send(f, 8);
	assert_true(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packet_count, 1);
	assert_int_equal(f->out.completion_count, 0);
	outbox_clear(&f->out);
	assert_false(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packet_count, 0);
	assert_int_equal(f->out.completion_count, 1);
	outbox_clear(&f->out);
}

static void more_than_an_outbox_holds(void **state)
{
	struct fixture *f = *state;
	uint64_t first = post_send(f, 8);

	for (int i = 1; i < 64; i++)
		post_send(f, 8);
	fixture_run(f);
	for (uint32_t i = 0; i < 64; i++) {
		expect(f, OPCODE_SEND_ONLY, 0xfffffe + i);
		fixture_expect_completion(f, first + i, IBV_WC_SUCCESS);
	}
	fixture_expect_nothing(f);
}

static void message_is_one_packet(void **state)
{
	struct fixture *f = *state;
	struct complaint complaint;

	assert_int_equal(try_post(f, &(struct request){IBV_WR_SEND, 1025, 0, 0, 0}, &complaint),
			 EINVAL);
	assert_int_equal(complaint.reason, REASON_MESSAGE_TOO_LONG);
	assert_int_equal(complaint.limit, 1024);
	post_send(f, 1024);
	fixture_run(f);
	expect(f, OPCODE_SEND_ONLY, 0xfffffe);
	assert_int_equal(f->completion_count, 1);
}

static void nothing_but_sends(void **state)
{
	static const enum ibv_wr_opcode others[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						    IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						    IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct fixture *f = *state;
	struct complaint complaint;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_equal(try_post(f, &(struct request){others[i], 8, 0, 0, 0}, &complaint),
				 EINVAL);
		assert_int_equal(complaint.reason, REASON_OPCODE_UNSUPPORTED);
	}
	fixture_run(f);
	fixture_expect_nothing(f);
}

/* --- a failed one --- */

static void failed_send_stops_the_send_queue_alone(void **state)
{
	struct fixture *f = *state;
	uint64_t good = post_send(f, 8), bad, after, receive;
	const struct completion *completion;

	bad = post_bad(f, 0);
	after = post(f, &(struct request){IBV_WR_SEND, 8, 0, 0, 0});
	receive = fixture_post_recv(f, 0, 100);
	fixture_run(f);
	expect(f, OPCODE_SEND_ONLY, 0xfffffe);
	fixture_expect_completion(f, good, IBV_WC_SUCCESS);
	completion = fixture_expect_completion(f, bad, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(completion->complaint.reason, REASON_KEY_UNKNOWN);
	assert_int_equal(completion->complaint.key, BAD_KEY);
	fixture_expect_completion(f, after, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->qp->state, IBV_QPS_SQE);
	assert_int_equal(f->qp->recv_queue.posted - f->qp->recv_queue.done, 1);
	/* Posted in SQE: flushed too, signalled or not. */
	after = post(f, &(struct request){IBV_WR_SEND, 8, 0, 0, 0});
	fixture_run(f);
	fixture_expect_completion(f, after, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	fixture_move(f, IBV_QPS_ERR);
	fixture_expect_completion(f, receive, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
}

static void sends_go_on_after_sqe(void **state)
{
	struct fixture *f = *state;
	uint64_t bad = post_bad(f, IBV_SEND_SIGNALED), good;

	fixture_run(f);
	fixture_expect_completion(f, bad, IBV_WC_LOC_PROT_ERR);
	fixture_move(f, IBV_QPS_RTS);
	good = post_send(f, 8);
	fixture_run(f);
	/* The failed one has used up no PSN. */
	expect(f, OPCODE_SEND_ONLY, 0xfffffe);
	fixture_expect_completion(f, good, IBV_WC_SUCCESS);
	bad = post_bad(f, 0);
	fixture_run(f);
	fixture_expect_completion(f, bad, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(f->qp->state, IBV_QPS_SQE);
	fixture_expect_nothing(f);
}

static void no_program_asks_for_sqe(void **state)
{
	struct fixture *f = *state;
	const struct qp_limits limits = {.port_count = 1, .pkey_count = 1, .gid_count = 1};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQE};

	assert_int_equal(qp_modify_check(f->qp, &attr, IBV_QP_STATE, &limits, NULL), EINVAL);
}

/* --- states --- */

static void draining_holds_back(void **state)
{
	struct fixture *f = *state;
	uint64_t wr_id;

	fixture_move(f, IBV_QPS_SQD);
	fixture_expect_event(f, IBV_EVENT_SQ_DRAINED);
	wr_id = post_send(f, 8);
	fixture_run(f);
	fixture_expect_nothing(f);
	fixture_move(f, IBV_QPS_RTS);
	expect(f, OPCODE_SEND_ONLY, 0xfffffe);
	fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
}

/* What left is done; only what did not is flushed. */
static void error_flushes_what_did_not_leave(void **state)
{
	struct fixture *f = *state;
	uint64_t left = post_send(f, 8), waits;

	assert_true(qp_output(f->qp, &f->core, &f->out));
	outbox_clear(&f->out);
	waits = post_send(f, 8);
	fixture_move(f, IBV_QPS_ERR);
	fixture_expect_completion(f, left, IBV_WC_SUCCESS);
	fixture_expect_completion(f, waits, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
}

static void query_shows_the_next_psn(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_attr attr;

	post_send(f, 8);
	fixture_run(f);
	qp_query(f->qp, &attr);
	assert_int_equal(attr.sq_psn, 0xffffff);
	assert_int_equal(attr.qkey, FIXTURE_QKEY);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(packet_says_who_sends_to_whom, make, drop),
		cmocka_unit_test_setup_teardown(privileged_key_is_the_own_one, make, drop),
		cmocka_unit_test_setup_teardown(immediate_and_solicited_travel, make, drop),
		cmocka_unit_test_setup_teardown(done_only_when_the_packet_has_left, make, drop),
		cmocka_unit_test_setup_teardown(more_than_an_outbox_holds, make, drop),
		cmocka_unit_test_setup_teardown(message_is_one_packet, make, drop),
		cmocka_unit_test_setup_teardown(nothing_but_sends, make, drop),
		cmocka_unit_test_setup_teardown(failed_send_stops_the_send_queue_alone, make, drop),
		cmocka_unit_test_setup_teardown(sends_go_on_after_sqe, make, drop),
		cmocka_unit_test_setup_teardown(no_program_asks_for_sqe, make, drop),
		cmocka_unit_test_setup_teardown(draining_holds_back, make, drop),
		cmocka_unit_test_setup_teardown(error_flushes_what_did_not_leave, make, drop),
		cmocka_unit_test_setup_teardown(query_shows_the_next_psn, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
