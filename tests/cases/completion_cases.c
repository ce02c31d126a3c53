/* SPDX-License-Identifier: BSD-2-Clause */
/* Flushing, overrun queues, and the rules of completion events. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "cases/loop.h"
#include "cases/said.h"

static void move_to_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

/* --- flushing --- */

static void receives_are_flushed_in_order(void **state)
{
	struct loop *loop = *state;

	for (uint64_t i = 0; i < 5; i++)
		loop_must_post_receive(&loop->far, 10 + i, NULL);
	move_to_error(loop->far.qp);
	for (uint64_t i = 0; i < 5; i++)
		expect_completion(loop->far.recv_cq, 10 + i, IBV_WC_WR_FLUSH_ERR);
	/* What is posted later is flushed as well, and not refused. */
	loop_must_post_receive(&loop->far, 20, NULL);
	expect_completion(loop->far.recv_cq, 20, IBV_WC_WR_FLUSH_ERR);
}

static void sends_posted_in_the_error_state_are_flushed(void **state)
{
	struct loop *loop = *state;
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, NULL);

	move_to_error(loop->near.qp);
	for (uint64_t i = 0; i < 3; i++) {
		request.wr_id = i;
		loop_must_post(&loop->near, &request);
		expect_completion(loop->near.send_cq, i, IBV_WC_WR_FLUSH_ERR);
	}
}

/* A bad receive fails with its own status, the good ones behind it are flushed. */
static void first_bad_receive_then_flushes(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge bad = {(uintptr_t)loop->far.block, 64, 0xdeadbeef};
	struct ibv_sge good = loop_piece(&loop->far, 0, 64), source = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, &source);

	loop_must_post_receive(&loop->far, 10, &bad);
	for (uint64_t i = 1; i < 5; i++)
		loop_must_post_receive(&loop->far, 10 + i, &good);
	loop_must_post(&loop->near, &request);
	expect_completion(loop->far.recv_cq, 10, IBV_WC_LOC_PROT_ERR);
	for (uint64_t i = 1; i < 5; i++)
		expect_completion(loop->far.recv_cq, 10 + i, IBV_WC_WR_FLUSH_ERR);
	expect_completion(loop->near.send_cq, 1, IBV_WC_REM_OP_ERR);
	expect_no_completion(loop->far.recv_cq);
	expect_no_completion(loop->near.send_cq);
}

/* Requests that fail complete whether that was asked for or not, in order. */
static void failures_are_told_unasked(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr requests[5], *bad;

	for (int i = 0; i < 5; i++) {
		requests[i] = loop_request(loop, IBV_WR_RDMA_WRITE, &sge);
		requests[i].wr_id = 10 + (uint64_t)i;
		requests[i].send_flags = 0;
		requests[i].next = i < 4 ? &requests[i + 1] : NULL;
	}
	requests[1].wr.rdma.rkey = 0xdeadbeef;
	assert_int_equal(ibv_post_send(loop->near.qp, requests, &bad), 0);
	/* The first one went well, and nobody asked. */
	expect_completion(loop->near.send_cq, 11, IBV_WC_REM_ACCESS_ERR);
	for (uint64_t i = 2; i < 5; i++)
		expect_completion(loop->near.send_cq, 10 + i, IBV_WC_WR_FLUSH_ERR);
	expect_no_completion(loop->near.send_cq);
}

static void no_receive_posted(void **state)
{
	struct loop *loop = *state;
	struct endpoint own = nic_describe(&loop->nic, loop->near.qp, NULL);
	struct endpoint peer = nic_describe(&loop->nic, loop->far.qp, NULL);
	struct patience patience = nic_usual_patience;
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, NULL);

	patience.rnr_retry = 2;
	nic_connect(&loop->nic, loop->near.qp, &own, &peer, &patience);
	nic_connect(&loop->nic, loop->far.qp, &peer, &own, &patience);
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	expect_said("no receive posted");
	/* The one without a receive has done nothing wrong. */
	expect_state(loop->far.qp, IBV_QPS_RTS);
}

/* --- overrun --- */

static void await_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	uint64_t deadline = loop_deadline();
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	do {
		assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	} while (attr.qp_state != state && !loop_is_over(deadline));
	assert_int_equal(attr.qp_state, state);
}

static void queue_smaller_than_what_is_outstanding(void **state)
{
	struct loop *loop = *state;
	struct ibv_cq *small = ibv_create_cq(loop->nic.context, 4, NULL, NULL, 0);
	struct ibv_cq *other = ibv_create_cq(loop->nic.context, 64, NULL, NULL, 0);
	struct ibv_sge sge = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &sge), *bad;
	struct ibv_qp *near, *far;

	assert_non_null(small);
	assert_int_equal(small->cqe, 4);
	near = nic_create_qp(&loop->nic, small, other, 16);
	far = nic_create_qp(&loop->nic, other, other, 16);
	nic_connect_pair(&loop->nic, near, far);
	for (int i = 0; i < 16; i++)
		if (ibv_post_send(near, &request, &bad) != 0)
			break;
	expect_event(loop, IBV_EVENT_CQ_ERR, small);
	expect_said("overflowed");
	/* Its queue pairs cannot go on: what they did would be lost. */
	await_state(near, IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(near), 0);
	assert_int_equal(ibv_destroy_qp(far), 0);
	assert_int_equal(ibv_destroy_cq(small), 0);
	assert_int_equal(ibv_destroy_cq(other), 0);
}

/* --- events --- */

static bool is_readable(const struct ibv_comp_channel *channel)
{
	struct pollfd wait = {.fd = channel->fd, .events = POLLIN};

	return poll(&wait, 1, 0) == 1;
}

static void take_event(struct loop *loop)
{
	struct ibv_cq *cq;
	void *context;

	assert_int_equal(ibv_get_cq_event(loop->channel, &cq, &context), 0);
	assert_ptr_equal(cq, loop->far.recv_cq);
	ibv_ack_cq_events(cq, 1);
}

static void arm(struct loop *loop, bool solicited_only)
{
	assert_int_equal(ibv_req_notify_cq(loop->far.recv_cq, solicited_only), 0);
}

/* One message from near to far; its receive stays in the queue. */
static void deliver(struct loop *loop, bool is_solicited)
{
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, NULL);

	if (is_solicited)
		request.send_flags |= IBV_SEND_SOLICITED;
	loop_must_post_receive(&loop->far, 5, NULL);
	loop_must_post(&loop->near, &request);
	/* Its acknowledgement came, so the receive had completed before. */
	expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
}

static void no_event_without_arming(void **state)
{
	struct loop *loop = *state;

	deliver(loop, true);
	assert_false(is_readable(loop->channel));
}

static void arming_holds_for_one_event(void **state)
{
	struct loop *loop = *state;

	arm(loop, false);
	assert_false(is_readable(loop->channel));
	deliver(loop, false);
	assert_true(is_readable(loop->channel));
	take_event(loop);
	deliver(loop, false);
	assert_false(is_readable(loop->channel));
}

/* The rule that makes programs poll once more after arming. */
static void no_event_for_what_is_already_there(void **state)
{
	struct loop *loop = *state;

	deliver(loop, false);
	arm(loop, false);
	assert_false(is_readable(loop->channel));
	deliver(loop, false);
	assert_true(is_readable(loop->channel));
	take_event(loop);
}

static void no_solicited_event_for_what_is_already_there(void **state)
{
	struct loop *loop = *state;

	deliver(loop, true);
	arm(loop, true);
	assert_false(is_readable(loop->channel));
	deliver(loop, false);
	assert_false(is_readable(loop->channel));
	deliver(loop, true);
	assert_true(is_readable(loop->channel));
	take_event(loop);
}

static void arming_an_idle_queue_again(void **state)
{
	struct loop *loop = *state;

	for (int i = 0; i < 3; i++) {
		arm(loop, false);
		arm(loop, false);
		deliver(loop, false);
		take_event(loop);
		assert_false(is_readable(loop->channel));
		expect_completion(loop->far.recv_cq, 5, IBV_WC_SUCCESS);
	}
}

static void armed_for_solicited_messages_only(void **state)
{
	struct loop *loop = *state;

	arm(loop, true);
	deliver(loop, false);
	assert_false(is_readable(loop->channel));
	deliver(loop, true);
	assert_true(is_readable(loop->channel));
	take_event(loop);
}

/* Arming for everything is not taken back by arming for less. */
static void armed_for_all_then_for_solicited(void **state)
{
	struct loop *loop = *state;

	arm(loop, false);
	arm(loop, true);
	deliver(loop, false);
	assert_true(is_readable(loop->channel));
	take_event(loop);
}

static void failures_count_as_solicited(void **state)
{
	struct loop *loop = *state;

	loop_must_post_receive(&loop->far, 5, NULL);
	arm(loop, true);
	move_to_error(loop->far.qp);
	assert_true(is_readable(loop->channel));
	take_event(loop);
	expect_completion(loop->far.recv_cq, 5, IBV_WC_WR_FLUSH_ERR);
}

static void descriptor_is_readable_until_drained(void **state)
{
	struct loop *loop = *state;

	for (int i = 0; i < 2; i++) {
		arm(loop, false);
		deliver(loop, false);
	}
	assert_true(is_readable(loop->channel));
	take_event(loop);
	assert_true(is_readable(loop->channel));
	take_event(loop);
	assert_false(is_readable(loop->channel));
}

/* One edge for two events: who reads one of them only must look at the descriptor, not wait. */
static void one_edge_for_two_events(void **state)
{
	struct loop *loop = *state;
	struct epoll_event wanted = {.events = EPOLLIN | EPOLLET}, found;
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	assert_true(epoll >= 0);
	for (int i = 0; i < 2; i++) {
		arm(loop, false);
		deliver(loop, false);
	}
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, loop->channel->fd, &wanted), 0);
	assert_int_equal(epoll_wait(epoll, &found, 1, 0), 1);
	take_event(loop);
	assert_true(is_readable(loop->channel));
	/* The next event is an edge of its own, whether the last one was read or not. */
	arm(loop, false);
	deliver(loop, false);
	assert_int_equal(epoll_wait(epoll, &found, 1, 0), 1);
	take_event(loop);
	take_event(loop);
	assert_false(is_readable(loop->channel));
	close(epoll);
}

static void channel_that_does_not_block(void **state)
{
	struct loop *loop = *state;
	struct ibv_cq *cq = (void *)1;
	void *context;

	assert_int_equal(fcntl(loop->channel->fd, F_SETFL, O_NONBLOCK), 0);
	errno = 0;
	assert_int_equal(ibv_get_cq_event(loop->channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_ptr_equal(cq, (void *)1);
}

#define CONNECTED(test) cmocka_unit_test_setup_teardown(test, loop_set_up, loop_tear_down)
#define IN_RESET(test) \
	cmocka_unit_test_setup_teardown(test, loop_set_up_unconnected, loop_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONNECTED(receives_are_flushed_in_order),
		CONNECTED(sends_posted_in_the_error_state_are_flushed),
		CONNECTED(first_bad_receive_then_flushes),
		CONNECTED(failures_are_told_unasked),
		IN_RESET(no_receive_posted),
		CONNECTED(queue_smaller_than_what_is_outstanding),
		CONNECTED(no_event_without_arming),
		CONNECTED(arming_holds_for_one_event),
		CONNECTED(no_event_for_what_is_already_there),
		CONNECTED(no_solicited_event_for_what_is_already_there),
		CONNECTED(arming_an_idle_queue_again),
		CONNECTED(armed_for_solicited_messages_only),
		CONNECTED(armed_for_all_then_for_solicited),
		CONNECTED(failures_count_as_solicited),
		CONNECTED(descriptor_is_readable_until_drained),
		CONNECTED(one_edge_for_two_events),
		CONNECTED(channel_that_does_not_block),
	};

	loop_program_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
