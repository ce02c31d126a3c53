/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/transport.h"

#define DEPTH 3
#define SGES 2
#define INLINE_BYTES 20

/* A copier of the test's own: whatever lies at this address faults. */
static uint8_t poison[1];

static size_t copy_but_poison(void *to, const void *from, size_t length)
{
	if (from == poison)
		return 0;
	memcpy(to, from, length);
	return length;
}

static const struct copier copier = {.copy = copy_but_poison};

static int make_qp(void **state)
{
	struct ibv_qp_cap cap = {.max_send_wr = DEPTH,
				 .max_recv_wr = 1,
				 .max_send_sge = SGES,
				 .max_recv_sge = 1,
				 .max_inline_data = INLINE_BYTES};
	size_t bytes = qp_bytes(&cap);
	void *memory = aligned_alloc(64, bytes);

	if (!memory)
		return -1;
	memset(memory, 0, bytes);
	*state = qp_init(memory, &cap, IBV_QPT_RC, 5, 1, false);
	((struct qp *)*state)->state = IBV_QPS_RTS;
	return 0;
}

static int free_qp(void **state)
{
	free(*state);
	return 0;
}

static void expect_posted(struct qp *qp, const struct ibv_send_wr *wr)
{
	uint32_t before = qp->send_queue.posted;

	assert_int_equal(qp_post_send(qp, wr, &copier, NULL), 0);
	assert_int_equal(qp->send_queue.posted, before + 1);
	/* Room for the next one. */
	atomic_store(&qp->send_queue.released, before + 1);
}

static void expect_refused(struct qp *qp, const struct ibv_send_wr *wr, int error,
			   enum reason reason)
{
	uint32_t before = qp->send_queue.posted;
	struct complaint complaint;

	memset(&complaint, 0xee, sizeof(complaint));
	assert_int_equal(qp_post_send(qp, wr, &copier, &complaint), error);
	assert_int_equal(complaint.reason, reason);
	assert_int_equal(complaint.qpn, 5);
	assert_int_equal(qp_post_send(qp, wr, &copier, NULL), error);
	assert_int_equal(qp->send_queue.posted, before);
}

static void each_state_takes_or_refuses(void **state)
{
	static const bool takes[] = {
		[IBV_QPS_RESET] = false, [IBV_QPS_INIT] = false, [IBV_QPS_RTR] = false,
		[IBV_QPS_RTS] = true,	 [IBV_QPS_SQD] = true,	 [IBV_QPS_SQE] = true,
		[IBV_QPS_ERR] = true};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct qp *qp = *state;

	for (int i = IBV_QPS_RESET; i <= IBV_QPS_ERR; i++) {
		qp->state = i;
		if (takes[i])
			expect_posted(qp, &wr);
		else
			expect_refused(qp, &wr, EINVAL, REASON_CALL_STATE);
	}
}

static void each_opcode_is_known_offered_or_neither(void **state)
{
	static const enum ibv_wr_opcode offered[] = {IBV_WR_SEND,	IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ,	IBV_WR_SEND_WITH_INV,
						     IBV_WR_LOCAL_INV};
	static const enum ibv_wr_opcode known[] = {IBV_WR_TSO, IBV_WR_DRIVER1, IBV_WR_ATOMIC_WRITE};
	struct ibv_send_wr wr = {.num_sge = 0};

	for (size_t i = 0; i < sizeof(offered) / sizeof(offered[0]); i++) {
		wr.opcode = offered[i];
		expect_posted(*state, &wr);
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		wr.opcode = known[i];
		expect_refused(*state, &wr, EOPNOTSUPP, REASON_OPCODE_UNSUPPORTED);
	}
	wr.opcode = (enum ibv_wr_opcode)0x7fffffff;
	expect_refused(*state, &wr, EINVAL, REASON_OPCODE_UNSUPPORTED);
	wr.opcode = (enum ibv_wr_opcode) - 1;
	expect_refused(*state, &wr, EINVAL, REASON_OPCODE_UNSUPPORTED);
}

static void a_bind_names_what_it_needs(void **state)
{
	struct ibv_mw type_1 = {.type = IBV_MW_TYPE_1}, type_2 = {.type = IBV_MW_TYPE_2};
	struct ibv_mr mr = {.lkey = 3};
	const struct ibv_send_wr usual = {
		.opcode = IBV_WR_BIND_MW,
		.num_sge = -1, /* is not looked at */
		.bind_mw = {.mw = &type_2, .bind_info = {.mr = &mr, .length = 8}},
	};
	struct ibv_send_wr wr = usual;

	expect_posted(*state, &wr);
	wr.bind_mw.mw = NULL;
	expect_refused(*state, &wr, EINVAL, REASON_WINDOW_TYPE);
	wr.bind_mw.mw = &type_1;
	expect_refused(*state, &wr, EINVAL, REASON_WINDOW_TYPE);
	assert_int_equal(qp_post_bind_type_1(*state, &wr, NULL), 0);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = NULL};
	assert_int_equal(qp_post_bind_type_1(*state, &wr, NULL), 0);
	atomic_store(&((struct qp *)*state)->send_queue.released,
		     ((struct qp *)*state)->send_queue.posted);
	wr.bind_mw.bind_info.length = 8;
	assert_int_equal(qp_post_bind_type_1(*state, &wr, NULL), EINVAL);
	assert_int_equal(qp_post_bind_type_1(*state, &usual, NULL), EINVAL);
	wr = usual;
	wr.bind_mw.bind_info.length = 0;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_INVALID);
	wr = usual;
	wr.bind_mw.bind_info.mr = NULL;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_INVALID);
	wr = usual;
	wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_ON_DEMAND;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_INVALID);
	wr = usual;
	wr.send_flags = IBV_SEND_INLINE;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_INVALID);
	wr.opcode = IBV_WR_LOCAL_INV;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_INVALID);
}

static void queue_is_as_deep_as_granted(void **state)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct qp *qp = *state;

	for (int i = 0; i < DEPTH; i++)
		assert_int_equal(qp_post_send(qp, &wr, &copier, NULL), 0);
	expect_refused(qp, &wr, ENOMEM, REASON_CALL_LIMIT);
	atomic_store(&qp->send_queue.released, 1);
	assert_int_equal(qp_post_send(qp, &wr, &copier, NULL), 0);
	expect_refused(qp, &wr, ENOMEM, REASON_CALL_LIMIT);
}

static void lists_within_the_limit(void **state)
{
	struct ibv_sge list[SGES + 1] = {{.length = 1}, {.length = 2}, {.length = 3}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = list, .num_sge = SGES};
	const struct send_wqe *wqe = send_wqe_at(&((struct qp *)*state)->send_queue, 0);

	expect_posted(*state, &wr);
	assert_int_equal(wqe->sge_count, SGES);
	assert_int_equal(wqe->length, 3);
	assert_memory_equal(wqe->sge, list, SGES * sizeof(*list));
	wr.num_sge = SGES + 1;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_LIMIT);
	wr.num_sge = INT32_MAX;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_LIMIT);
	wr.num_sge = -1;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_LIMIT);
	wr.num_sge = 1;
	wr.sg_list = NULL;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_INVALID);
}

static void messages_up_to_two_gigabytes(void **state)
{
	struct ibv_sge list[SGES] = {{.length = 0x7fffffff}, {.length = 1}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .sg_list = list, .num_sge = SGES};

	expect_posted(*state, &wr);
	assert_int_equal(send_wqe_at(&((struct qp *)*state)->send_queue, 0)->length, 0x80000000u);
	list[1].length = 2;
	expect_refused(*state, &wr, EINVAL, REASON_MESSAGE_TOO_LONG);
	list[0].length = list[1].length = UINT32_MAX;
	expect_refused(*state, &wr, EINVAL, REASON_MESSAGE_TOO_LONG);
}

static void fields_reach_the_entry(void **state)
{
	struct ibv_sge sge = {.addr = 0x1000, .length = 8, .lkey = 0x77};
	struct ibv_send_wr wr = {.wr_id = 42,
				 .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED};
	struct qp *qp = *state;
	const struct send_wqe *wqe = send_wqe_at(&qp->send_queue, 0);

	wr.wr.atomic.remote_addr = 0x123456789abcdef0;
	wr.wr.atomic.compare_add = 11;
	wr.wr.atomic.swap = 12;
	wr.wr.atomic.rkey = 13;
	expect_posted(qp, &wr);
	assert_int_equal(wqe->wr_id, 42);
	assert_int_equal(wqe->opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
	assert_int_equal(wqe->remote_address, 0x123456789abcdef0);
	assert_int_equal(wqe->compare_add, 11);
	assert_int_equal(wqe->swap, 12);
	assert_int_equal(wqe->rkey, 13);
	assert_int_equal(wqe->flags, IBV_SEND_FENCE | IBV_SEND_SIGNALED);
	assert_true(wqe->is_signalled);
	assert_false(wqe->is_inline || wqe->has_failed);

	wqe = send_wqe_at(&qp->send_queue, 1);
	wr = (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = 0x01020304};
	wr.wr.rdma.remote_addr = 0xfedcba9876543210;
	wr.wr.rdma.rkey = 14;
	expect_posted(qp, &wr);
	assert_int_equal(wqe->remote_address, 0xfedcba9876543210);
	assert_int_equal(wqe->rkey, 14);
	assert_int_equal(wqe->immediate, 0x01020304);
	assert_false(wqe->is_signalled);
	qp->signals_all = true;
	wqe = send_wqe_at(&qp->send_queue, 2);
	expect_posted(qp, &wr);
	assert_true(wqe->is_signalled);
}

static void atomics_bring_back_eight_bytes(void **state)
{
	struct ibv_sge list[SGES] = {{.length = 8}, {.length = 0}};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = list, .num_sge = 1};

	expect_posted(*state, &wr);
	list[0].length = list[1].length = 4;
	wr.num_sge = 2;
	expect_posted(*state, &wr);
	wr.num_sge = 1;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_INVALID);
	list[0].length = 16;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_INVALID);
	wr.num_sge = 0;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_INVALID);
	/* The responder judges the alignment of its own memory. */
	list[0].length = 8;
	wr.num_sge = 1;
	wr.wr.atomic.remote_addr = 3;
	expect_posted(*state, &wr);
}

static void inline_bytes_are_taken_at_once(void **state)
{
	uint8_t bytes[INLINE_BYTES + 1];
	struct ibv_sge list[SGES] = {{.addr = (uintptr_t)bytes, .length = 5},
				     {.addr = (uintptr_t)(bytes + 5), .length = INLINE_BYTES - 5}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .sg_list = list,
				 .num_sge = 2,
				 .send_flags = IBV_SEND_INLINE};
	const struct send_wqe *wqe = send_wqe_at(&((struct qp *)*state)->send_queue, 0);

	for (int i = 0; i <= INLINE_BYTES; i++)
		bytes[i] = (uint8_t)(i + 1);
	expect_posted(*state, &wr);
	memset(bytes, 0, sizeof(bytes));
	assert_true(wqe->is_inline);
	assert_int_equal(wqe->length, INLINE_BYTES);
	for (int i = 0; i < INLINE_BYTES; i++)
		assert_int_equal(((const uint8_t *)wqe + offsetof(struct send_wqe, sge))[i], i + 1);
	list[1].length++;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_LIMIT);
}

static void inline_of_nothing_and_of_nowhere(void **state)
{
	struct ibv_sge sge = {.addr = (uintptr_t)poison, .length = 0};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_INLINE};

	expect_posted(*state, &wr);
	sge.length = 1;
	expect_refused(*state, &wr, EFAULT, REASON_MEMORY_FAULT);
}

static void inline_is_for_sends_and_writes(void **state)
{
	uint64_t word = 0;
	struct ibv_sge sge = {.addr = (uintptr_t)&word, .length = 8};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_INLINE};

	wr.opcode = IBV_WR_RDMA_READ;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_INVALID);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	expect_refused(*state, &wr, EINVAL, REASON_CALL_INVALID);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	expect_posted(*state, &wr);
}

static void the_last_ones_can_be_taken_back(void **state)
{
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND};
	struct qp *qp = *state;

	for (; wr.wr_id <= DEPTH; wr.wr_id++)
		assert_int_equal(qp_post_send(qp, &wr, &copier, NULL), 0);
	qp_unpost_sends(qp, 2);
	wr.wr_id = 77;
	assert_int_equal(qp_post_send(qp, &wr, &copier, NULL), 0);
	assert_int_equal(qp->send_queue.posted, 2);
	assert_int_equal(send_wqe_at(&qp->send_queue, 0)->wr_id, 1);
	assert_int_equal(send_wqe_at(&qp->send_queue, 1)->wr_id, 77);
	qp_unpost_sends(qp, 0);
	assert_int_equal(qp->send_queue.posted, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_qp, free_qp)
	const struct CMUnitTest tests[] = {
		TEST(each_state_takes_or_refuses),    TEST(each_opcode_is_known_offered_or_neither),
		TEST(a_bind_names_what_it_needs),     TEST(queue_is_as_deep_as_granted),
		TEST(lists_within_the_limit),	      TEST(messages_up_to_two_gigabytes),
		TEST(fields_reach_the_entry),	      TEST(atomics_bring_back_eight_bytes),
		TEST(inline_bytes_are_taken_at_once), TEST(inline_of_nothing_and_of_nowhere),
		TEST(inline_is_for_sends_and_writes), TEST(the_last_ones_can_be_taken_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
