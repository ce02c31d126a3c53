/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program may do between ibv_start_poll() and ibv_end_poll(), while a completion is
 * shown to it and others wait.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cases/loop.h"
#include "cases/said.h"

#define MESSAGES 3

/* Two connections from near to far, all of whose sends complete in one extended CQ. */
struct batch {
	struct loop *loop;
	struct ibv_cq_ex *cq;
	struct ibv_qp *near[2], *far[2];
};

static void open_batch(struct batch *batch, struct loop *loop)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 64, .wc_flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_BYTE_LEN};

	batch->loop = loop;
	batch->cq = ibv_create_cq_ex(loop->nic.context, &attr);
	assert_non_null(batch->cq);
	for (int i = 0; i < 2; i++) {
		batch->near[i] = nic_create_qp(&loop->nic, ibv_cq_ex_to_cq(batch->cq),
					       loop->near.recv_cq, LOOP_DEPTH);
		batch->far[i] =
			nic_create_qp(&loop->nic, loop->far.send_cq, loop->far.recv_cq, LOOP_DEPTH);
		nic_connect_pair(&loop->nic, batch->near[i], batch->far[i]);
	}
}

static void close_batch(struct batch *batch)
{
	for (int i = 0; i < 2; i++) {
		if (batch->near[i])
			assert_int_equal(ibv_destroy_qp(batch->near[i]), 0);
		assert_int_equal(ibv_destroy_qp(batch->far[i]), 0);
	}
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(batch->cq)), 0);
}

/* Every message has arrived, so its send will complete or has done so. */
static void send_all(struct batch *batch)
{
	struct ibv_send_wr request = loop_request(batch->loop, IBV_WR_SEND, NULL), *bad;
	struct ibv_recv_wr receive = {.wr_id = 5}, *bad_receive;

	for (uint64_t i = 0; i < 2 * MESSAGES; i++) {
		request.wr_id = i;
		assert_int_equal(ibv_post_recv(batch->far[i % 2], &receive, &bad_receive), 0);
		assert_int_equal(ibv_post_send(batch->near[i % 2], &request, &bad), 0);
		expect_completion(batch->loop->far.recv_cq, 5, IBV_WC_SUCCESS);
	}
}

static void start(struct batch *batch)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t deadline = loop_deadline();
	int error;

	do {
		error = ibv_start_poll(batch->cq, &attr);
	} while (error == ENOENT && !loop_is_over(deadline));
	assert_int_equal(error, 0);
}

static bool next(struct batch *batch, bool must_come)
{
	uint64_t deadline = loop_deadline();
	int error;

	do {
		error = ibv_next_poll(batch->cq);
	} while (error == ENOENT && must_come && !loop_is_over(deadline));
	assert_true(error == 0 || (error == ENOENT && !must_come));
	return error == 0;
}

static void qp_destroyed_while_its_completion_is_shown(void **state)
{
	struct batch batch;
	uint32_t gone, kept;

	open_batch(&batch, *state);
	gone = batch.near[0]->qp_num;
	kept = batch.near[1]->qp_num;
	send_all(&batch);
	start(&batch);
	assert_int_equal(ibv_wc_read_qp_num(batch.cq), gone);
	assert_int_equal(batch.cq->wr_id, 0);
	assert_int_equal(ibv_destroy_qp(batch.near[0]), 0);
	batch.near[0] = NULL;
	/* What is shown stays readable; of what waited, only the other QP's is left. */
	assert_int_equal(ibv_wc_read_qp_num(batch.cq), gone);
	assert_int_equal(batch.cq->wr_id, 0);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		next(&batch, true);
		assert_int_equal(ibv_wc_read_qp_num(batch.cq), kept);
		assert_int_equal(batch.cq->wr_id, 2 * i + 1);
		assert_int_equal(batch.cq->status, IBV_WC_SUCCESS);
	}
	assert_false(next(&batch, false));
	ibv_end_poll(batch.cq);
	close_batch(&batch);
}

/* The same with the QP whose completions only wait. */
static void qp_destroyed_whose_completions_wait(void **state)
{
	struct batch batch;
	uint32_t kept;

	open_batch(&batch, *state);
	kept = batch.near[1]->qp_num;
	send_all(&batch);
	start(&batch);
	next(&batch, true);
	assert_int_equal(ibv_wc_read_qp_num(batch.cq), kept);
	assert_int_equal(ibv_destroy_qp(batch.near[0]), 0);
	batch.near[0] = NULL;
	for (uint64_t i = 1; i < MESSAGES; i++) {
		next(&batch, true);
		assert_int_equal(ibv_wc_read_qp_num(batch.cq), kept);
		assert_int_equal(batch.cq->wr_id, 2 * i + 1);
	}
	assert_false(next(&batch, false));
	ibv_end_poll(batch.cq);
	close_batch(&batch);
}

#define CONNECTED(test) cmocka_unit_test_setup_teardown(test, loop_set_up, loop_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONNECTED(qp_destroyed_while_its_completion_is_shown),
		CONNECTED(qp_destroyed_whose_completions_wait),
	};

	loop_program_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
