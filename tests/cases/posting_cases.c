/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that the post call itself refuses, and how. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cases/loop.h"
#include "cases/said.h"

static int post_receive(const struct loop_side *side, struct ibv_recv_wr *request)
{
	struct ibv_recv_wr *bad = NULL;
	int result = ibv_post_recv(side->qp, request, &bad);

	if (result)
		assert_ptr_equal(bad, request);
	return result;
}

static struct ibv_qp_cap granted(const struct loop_side *side)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(side->qp, &attr, IBV_QP_CAP, &init), 0);
	return init.cap;
}

static void receive_posted_in_reset(void **state)
{
	struct loop *loop = *state;
	struct ibv_recv_wr request = {.wr_id = 1};

	assert_int_equal(post_receive(&loop->near, &request), EINVAL);
	expect_said_once("RESET");
}

static void send_posted_before_rts(void **state)
{
	struct loop *loop = *state;
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, NULL);

	assert_int_equal(loop_post(&loop->near, &request), EINVAL);
	expect_said_once("RESET");
}

static void too_many_receives(void **state)
{
	struct loop *loop = *state;
	struct ibv_recv_wr request = {.wr_id = 1};
	int result, accepted = 0;

	while ((result = post_receive(&loop->far, &request)) == 0)
		accepted++;
	assert_int_equal(result, ENOMEM);
	assert_true(accepted >= (int)LOOP_DEPTH);
	expect_said_once("ibv_post_recv");
}

/* Nothing is polled, so no slot of the send queue comes back. */
static void too_many_sends(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &sge);
	int result, accepted = 0;

	while ((result = loop_post(&loop->near, &request)) == 0)
		accepted++;
	assert_int_equal(result, ENOMEM);
	assert_true(accepted >= (int)LOOP_DEPTH);
	expect_said_once("ibv_post_send");
	for (int i = 0; i < accepted; i++)
		expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
	/* Now there is room again. */
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
}

/* The classic: requests without a completion never give their slot back. */
static void unsignalled_writes_fill_the_queue(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &sge);
	int accepted = 0;

	request.send_flags = 0;
	for (; accepted < (int)granted(&loop->near).max_send_wr; accepted++) {
		loop_must_post(&loop->near, &request);
		expect_no_completion(loop->near.send_cq);
	}
	assert_int_equal(loop_post(&loop->near, &request), ENOMEM);
	expect_said_once("ibv_post_send");
}

static void take_events(struct ibv_comp_channel *channel, struct ibv_cq *expected)
{
	struct pollfd wait = {.fd = channel->fd, .events = POLLIN};

	while (poll(&wait, 1, 0) == 1) {
		struct ibv_cq *cq;
		void *context;

		assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
		assert_ptr_equal(cq, expected);
		ibv_ack_cq_events(cq, 1);
	}
}

/* It is not the end of a request that frees its slot, but that the program heard of it. */
static void slots_come_back_when_the_completion_is_polled(void **state)
{
	struct loop *loop = *state;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(loop->nic.context);
	struct ibv_cq *cq = ibv_create_cq(loop->nic.context, 16, NULL, channel, 0);
	struct loop_side near = {.qp = nic_create_qp(&loop->nic, cq, cq, 4)};
	struct ibv_qp *far =
		nic_create_qp(&loop->nic, loop->far.send_cq, loop->far.recv_cq, LOOP_DEPTH);
	struct ibv_sge sge = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &sge);
	uint32_t depth = granted(&near).max_send_wr;
	struct pollfd wait = {.fd = channel->fd, .events = POLLIN};

	nic_connect_pair(&loop->nic, near.qp, far);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	for (uint32_t i = 0; i < depth; i++) {
		request.send_flags = i + 1 == depth ? IBV_SEND_SIGNALED : 0;
		loop_must_post(&near, &request);
	}
	assert_int_equal(poll(&wait, 1, 10000), 1); /* the last one is done, and so are all */
	assert_int_equal(loop_post(&near, &request), ENOMEM);
	expect_said_once("ibv_post_send");
	expect_completion(cq, 1, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < depth; i++)
		loop_must_post(&near, &request);
	assert_int_equal(ibv_destroy_qp(near.qp), 0);
	assert_int_equal(ibv_destroy_qp(far), 0);
	take_events(channel, cq);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void one_signalled_write_frees_the_slots_before_it(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &sge);

	for (int i = 0; i < 10 * (int)LOOP_DEPTH; i++) {
		bool is_last = i % (int)LOOP_DEPTH == (int)LOOP_DEPTH - 1;

		request.send_flags = is_last ? IBV_SEND_SIGNALED : 0;
		loop_must_post(&loop->near, &request);
		if (is_last)
			expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
	}
	expect_no_completion(loop->near.send_cq);
	expect_silence();
}

static void more_pieces_than_granted(void **state)
{
	static const int counts[] = {INT_MAX, 1 << 20, -1};
	struct loop *loop = *state;
	struct ibv_sge sges[64];
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, &sges[0]);
	struct ibv_recv_wr receive = {.sg_list = sges};

	for (int i = 0; i < 64; i++)
		sges[i] = loop_piece(&loop->near, 0, 1);
	request.num_sge = (int)granted(&loop->near).max_send_sge + 1;
	assert_int_equal(loop_post(&loop->near, &request), EINVAL);
	expect_said_once("ibv_post_send");
	receive.num_sge = (int)granted(&loop->far).max_recv_sge + 1;
	assert_int_equal(post_receive(&loop->far, &receive), EINVAL);
	expect_said_once("ibv_post_recv");
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		request.num_sge = counts[i];
		assert_int_equal(loop_post(&loop->near, &request), EINVAL);
		expect_said_once("ibv_post_send");
		receive.num_sge = counts[i];
		assert_int_equal(post_receive(&loop->far, &receive), EINVAL);
		expect_said_once("ibv_post_recv");
	}
	/* The queue pair is none the worse for it. */
	loop_settle(loop);
}

static void inline_data_longer_than_granted(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 0, LOOP_BLOCK_BYTES);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &sge);

	request.send_flags |= IBV_SEND_INLINE;
	assert_int_equal(loop_post(&loop->near, &request), EINVAL);
	expect_said_once("ibv_post_send");
}

static void operations_that_do_not_exist(void **state)
{
	static const struct {
		int opcode, error;
	} operations[] = {
		{77, EINVAL}, {-1, EINVAL}, {IBV_WR_BIND_MW, EINVAL}, {IBV_WR_TSO, EOPNOTSUPP}};
	struct loop *loop = *state;
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, NULL);

	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		request.opcode = (enum ibv_wr_opcode)operations[i].opcode;
		assert_int_equal(loop_post(&loop->near, &request), operations[i].error);
		expect_said_once("ibv_post_send");
	}
	loop_settle(loop);
}

static void atomic_of_another_length_than_eight(void **state)
{
	static const uint32_t lengths[] = {0, 4, 7, 9, 16};
	struct loop *loop = *state;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct ibv_sge sge = loop_piece(&loop->near, 0, lengths[i]);
		struct ibv_send_wr request = loop_request(loop, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);

		assert_int_equal(loop_post(&loop->near, &request), EINVAL);
		expect_said_once("ibv_post_send");
	}
}

static void read_into_inline_data(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_READ, &sge);

	request.send_flags |= IBV_SEND_INLINE;
	assert_int_equal(loop_post(&loop->near, &request), EINVAL);
	expect_said_once("ibv_post_send");
}

/* What stands before the refused one is posted, it and the rest are not. */
static void list_with_a_wrong_request_in_the_middle(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr requests[3], *bad = NULL;

	for (int i = 0; i < 3; i++) {
		requests[i] = loop_request(loop, IBV_WR_RDMA_WRITE, &sge);
		requests[i].wr_id = 10 + (uint64_t)i;
		requests[i].next = i < 2 ? &requests[i + 1] : NULL;
	}
	requests[1].num_sge = 1000;
	assert_int_equal(ibv_post_send(loop->near.qp, requests, &bad), EINVAL);
	assert_ptr_equal(bad, &requests[1]);
	expect_said_once("ibv_post_send");
	expect_completion(loop->near.send_cq, 10, IBV_WC_SUCCESS);
	loop_settle(loop);
	expect_no_completion(loop->near.send_cq);
}

/* What fits is posted, and the first one that does not is named. */
static void list_of_sends_longer_than_the_queue(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 0, 8);
	uint32_t depth = granted(&loop->near).max_send_wr;
	struct ibv_send_wr requests[4 * LOOP_DEPTH], *bad = NULL;

	assert_true(depth + 3 <= 4 * LOOP_DEPTH);
	for (uint32_t i = 0; i < depth + 3; i++) {
		requests[i] = loop_request(loop, IBV_WR_RDMA_WRITE, &sge);
		requests[i].wr_id = i;
		requests[i].next = i < depth + 2 ? &requests[i + 1] : NULL;
	}
	assert_int_equal(ibv_post_send(loop->near.qp, requests, &bad), ENOMEM);
	assert_ptr_equal(bad, &requests[depth]);
	expect_said_once("ibv_post_send");
	for (uint32_t i = 0; i < depth; i++)
		expect_completion(loop->near.send_cq, i, IBV_WC_SUCCESS);
	loop_settle(loop);
	expect_no_completion(loop->near.send_cq);
}

static void list_of_receives_longer_than_the_queue(void **state)
{
	struct loop *loop = *state;
	uint32_t depth = granted(&loop->far).max_recv_wr;
	struct ibv_recv_wr requests[4 * LOOP_DEPTH], *bad = NULL;
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, NULL);

	assert_true(depth + 3 <= 4 * LOOP_DEPTH);
	for (uint32_t i = 0; i < depth + 3; i++)
		requests[i] = (struct ibv_recv_wr){.wr_id = i,
						   .next = i < depth + 2 ? &requests[i + 1] : NULL};
	assert_int_equal(ibv_post_recv(loop->far.qp, requests, &bad), ENOMEM);
	assert_ptr_equal(bad, &requests[depth]);
	expect_said_once("ibv_post_recv");
	for (uint32_t i = 0; i < depth; i++) {
		loop_must_post(&loop->near, &request);
		expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
		expect_completion(loop->far.recv_cq, i, IBV_WC_SUCCESS);
	}
	loop_settle(loop);
}

static void list_for_a_shared_queue_longer_than_it(void **state)
{
	struct loop *loop = *state;
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = LOOP_DEPTH, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(loop->nic.pd, &attr);
	struct ibv_recv_wr requests[4 * LOOP_DEPTH], *bad = NULL;
	uint32_t depth = attr.attr.max_wr;

	assert_non_null(srq);
	assert_true(depth + 3 <= 4 * LOOP_DEPTH);
	for (uint32_t i = 0; i < depth + 3; i++)
		requests[i] = (struct ibv_recv_wr){.wr_id = i,
						   .next = i < depth + 2 ? &requests[i + 1] : NULL};
	assert_int_equal(ibv_post_srq_recv(srq, requests, &bad), ENOMEM);
	assert_ptr_equal(bad, &requests[depth]);
	expect_said_once("ibv_post_srq_recv");
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

#define CONNECTED(test) cmocka_unit_test_setup_teardown(test, loop_set_up, loop_tear_down)
#define IN_RESET(test) \
	cmocka_unit_test_setup_teardown(test, loop_set_up_unconnected, loop_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RESET(receive_posted_in_reset),
		IN_RESET(send_posted_before_rts),
		CONNECTED(too_many_receives),
		CONNECTED(too_many_sends),
		CONNECTED(unsignalled_writes_fill_the_queue),
		CONNECTED(slots_come_back_when_the_completion_is_polled),
		CONNECTED(one_signalled_write_frees_the_slots_before_it),
		CONNECTED(more_pieces_than_granted),
		CONNECTED(inline_data_longer_than_granted),
		CONNECTED(operations_that_do_not_exist),
		CONNECTED(atomic_of_another_length_than_eight),
		CONNECTED(read_into_inline_data),
		CONNECTED(list_with_a_wrong_request_in_the_middle),
		CONNECTED(list_of_sends_longer_than_the_queue),
		CONNECTED(list_of_receives_longer_than_the_queue),
		CONNECTED(list_for_a_shared_queue_longer_than_it),
	};

	loop_program_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
