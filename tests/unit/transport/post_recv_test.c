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

static int make_qp(void **state)
{
	struct ibv_qp_cap cap = {.max_recv_wr = DEPTH, .max_recv_sge = SGES};
	size_t bytes = qp_bytes(&cap);
	void *memory = aligned_alloc(64, bytes);

	if (!memory)
		return -1;
	memset(memory, 0, bytes);
	*state = qp_init(memory, &cap, IBV_QPT_RC, 5, 1, false);
	((struct qp *)*state)->state = IBV_QPS_INIT;
	return 0;
}

static int free_qp(void **state)
{
	free(*state);
	return 0;
}

static void expect_refused(struct qp *qp, const struct ibv_recv_wr *wr, int error,
			   enum reason reason)
{
	uint32_t before = qp->recv_queue.posted;
	struct complaint complaint;

	memset(&complaint, 0xee, sizeof(complaint));
	assert_int_equal(qp_post_recv(qp, wr, &complaint), error);
	assert_int_equal(complaint.reason, reason);
	assert_int_equal(complaint.qpn, 5);
	assert_int_equal(qp_post_recv(qp, wr, NULL), error);
	assert_int_equal(qp->recv_queue.posted, before);
}

static void all_states_but_reset_take_receives(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 1};
	struct qp *qp = *state;

	qp->state = IBV_QPS_RESET;
	expect_refused(qp, &wr, EINVAL, REASON_CALL_STATE);
	for (int i = IBV_QPS_INIT; i <= IBV_QPS_ERR; i++) {
		qp->state = i;
		assert_int_equal(qp_post_recv(qp, &wr, NULL), 0);
		atomic_store(&qp->recv_queue.released, qp->recv_queue.posted);
	}
}

static void queue_is_as_deep_as_granted(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 1};
	struct qp *qp = *state;

	for (int i = 0; i < DEPTH; i++)
		assert_int_equal(qp_post_recv(qp, &wr, NULL), 0);
	expect_refused(qp, &wr, ENOMEM, REASON_CALL_LIMIT);
}

static void lists_within_the_limit(void **state)
{
	struct ibv_sge list[SGES] = {{.addr = 1, .length = UINT32_MAX, .lkey = 3},
				     {.addr = 2, .length = UINT32_MAX, .lkey = 4}};
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = list, .num_sge = SGES};
	struct qp *qp = *state;
	const struct recv_wqe *wqe = recv_wqe_at(&qp->recv_queue, 0);

	assert_int_equal(qp_post_recv(qp, &wr, NULL), 0);
	assert_int_equal(wqe->wr_id, 9);
	assert_int_equal(wqe->sge_count, SGES);
	assert_int_equal(wqe->length, 2ull * UINT32_MAX);
	assert_memory_equal(wqe->sge, list, sizeof(list));
	wr.num_sge = SGES + 1;
	expect_refused(qp, &wr, EINVAL, REASON_CALL_LIMIT);
	wr.num_sge = -1;
	expect_refused(qp, &wr, EINVAL, REASON_CALL_LIMIT);
	wr.num_sge = 1;
	wr.sg_list = NULL;
	expect_refused(qp, &wr, EINVAL, REASON_CALL_INVALID);
	wr.num_sge = 0;
	assert_int_equal(qp_post_recv(qp, &wr, NULL), 0);
	assert_int_equal(recv_wqe_at(&qp->recv_queue, 1)->length, 0);
}

static void queue_of_depth_zero_takes_nothing(void **state)
{
	struct qp *qp = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	/* This QP was made without a send queue. */
	qp->state = IBV_QPS_RTS;
	assert_int_equal(qp_post_send(qp, &wr, NULL, NULL), ENOMEM);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_qp, free_qp)
	const struct CMUnitTest tests[] = {
		TEST(all_states_but_reset_take_receives),
		TEST(queue_is_as_deep_as_granted),
		TEST(lists_within_the_limit),
		TEST(queue_of_depth_zero_takes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
