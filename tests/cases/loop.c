/* SPDX-License-Identifier: BSD-2-Clause */
#include "cases/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "cases/said.h"
#include "tools/fail.h"
#include "tools/two_hosts.h"

#define PATIENCE_NS 10000000000u

void loop_program_begin(void)
{
	two_hosts_be_alone();
	setenv("VERBENA_LOG", "error", 1);
	fail_after(100);
}

uint64_t loop_deadline_in(uint64_t nanoseconds)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec + nanoseconds;
}

uint64_t loop_deadline(void)
{
	return loop_deadline_in(PATIENCE_NS);
}

bool loop_is_over(uint64_t deadline)
{
	return loop_deadline_in(0) > deadline;
}

static void open_side(struct loop *loop, struct loop_side *side, struct ibv_comp_channel *channel)
{
	side->send_cq = ibv_create_cq(loop->nic.context, LOOP_CQ_DEPTH, NULL, NULL, 0);
	side->recv_cq = ibv_create_cq(loop->nic.context, LOOP_CQ_DEPTH, NULL, channel, 0);
	assert_non_null(side->send_cq);
	assert_non_null(side->recv_cq);
	side->block = aligned_alloc(4096, LOOP_BLOCK_BYTES);
	assert_non_null(side->block);
	memset(side->block, 0, LOOP_BLOCK_BYTES);
	side->mr = ibv_reg_mr(loop->nic.pd, side->block, LOOP_BLOCK_BYTES, NIC_ALL_RIGHTS);
	assert_non_null(side->mr);
	side->qp = nic_create_qp(&loop->nic, side->send_cq, side->recv_cq, LOOP_DEPTH);
}

static void close_side(struct loop_side *side)
{
	if (side->qp)
		assert_int_equal(ibv_destroy_qp(side->qp), 0);
	assert_int_equal(ibv_dereg_mr(side->mr), 0);
	assert_int_equal(ibv_destroy_cq(side->send_cq), 0);
	assert_int_equal(ibv_destroy_cq(side->recv_cq), 0);
	free(side->block);
}

int loop_set_up_unconnected(void **state)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	assert_non_null(loop);
	nic_open(&loop->nic, NIC_GID_IPV4);
	loop->channel = ibv_create_comp_channel(loop->nic.context);
	assert_non_null(loop->channel);
	open_side(loop, &loop->near, NULL);
	open_side(loop, &loop->far, loop->channel);
	*state = loop;
	said_begin();
	return 0;
}

int loop_set_up(void **state)
{
	loop_set_up_unconnected(state);
	struct loop *loop = *state;

	nic_connect_pair(&loop->nic, loop->near.qp, loop->far.qp);
	return 0;
}

int loop_tear_down(void **state)
{
	struct loop *loop = *state;

	said_end();
	close_side(&loop->near);
	close_side(&loop->far);
	assert_int_equal(ibv_destroy_comp_channel(loop->channel), 0);
	nic_close(&loop->nic);
	free(loop);
	return 0;
}

struct ibv_sge loop_piece(const struct loop_side *side, uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){(uintptr_t)side->block + offset, length, side->mr->lkey};
}

struct ibv_send_wr loop_request(const struct loop *loop, enum ibv_wr_opcode opcode,
				struct ibv_sge *sge)
{
	struct ibv_send_wr request = {
		.wr_id = 1,
		.sg_list = sge,
		.num_sge = sge ? 1 : 0,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};
	uint64_t offset = sge ? sge->addr - (uintptr_t)loop->near.block : 0;
	uint64_t target = (uintptr_t)loop->far.block + (offset < LOOP_BLOCK_BYTES ? offset : 0);

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		request.wr.atomic.remote_addr = target;
		request.wr.atomic.rkey = loop->far.mr->rkey;
	} else {
		request.wr.rdma.remote_addr = target;
		request.wr.rdma.rkey = loop->far.mr->rkey;
	}
	return request;
}

int loop_post(const struct loop_side *side, struct ibv_send_wr *request)
{
	struct ibv_send_wr *bad = NULL;
	int result = ibv_post_send(side->qp, request, &bad);

	/* A refusal is a positive errno and names the request. */
	assert_true(result >= 0);
	if (result)
		assert_non_null(bad);
	return result;
}

void loop_must_post(const struct loop_side *side, struct ibv_send_wr *request)
{
	assert_int_equal(loop_post(side, request), 0);
}

void loop_must_post_receive(const struct loop_side *side, uint64_t wr_id, struct ibv_sge *sge)
{
	struct ibv_recv_wr request = {.wr_id = wr_id, .sg_list = sge, .num_sge = sge ? 1 : 0};
	struct ibv_recv_wr *bad;

	assert_int_equal(ibv_post_recv(side->qp, &request, &bad), 0);
}

struct ibv_wc loop_await(struct ibv_cq *cq)
{
	uint64_t deadline = loop_deadline();
	struct ibv_wc completion;
	int count;

	while ((count = ibv_poll_cq(cq, 1, &completion)) == 0)
		if (loop_is_over(deadline))
			fail_msg("no completion came");
	assert_int_equal(count, 1);
	return completion;
}

void expect_completion(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc completion = loop_await(cq);

	if (completion.status != status)
		fail_msg("the status is \"%s\" and should be \"%s\"",
			 ibv_wc_status_str(completion.status), ibv_wc_status_str(status));
	assert_int_equal(completion.wr_id, wr_id);
}

void expect_no_completion(struct ibv_cq *cq)
{
	struct ibv_wc completion;

	assert_int_equal(ibv_poll_cq(cq, 1, &completion), 0);
}

static bool take_event(const struct loop *loop, int milliseconds, struct ibv_async_event *event)
{
	struct pollfd wait = {.fd = loop->nic.context->async_fd, .events = POLLIN};

	do {
		if (poll(&wait, 1, milliseconds) != 1)
			return false;
		assert_int_equal(ibv_get_async_event(loop->nic.context, event), 0);
		ibv_ack_async_event(event);
	} while (event->event_type == IBV_EVENT_COMM_EST);
	return true;
}

void expect_event(const struct loop *loop, enum ibv_event_type type, const void *object)
{
	struct ibv_async_event event;

	if (!take_event(loop, PATIENCE_NS / 1000000, &event))
		fail_msg("the event \"%s\" did not come", ibv_event_type_str(type));
	if (event.event_type != type)
		fail_msg("the event is \"%s\" and should be \"%s\"",
			 ibv_event_type_str(event.event_type), ibv_event_type_str(type));
	assert_ptr_equal(event.element.qp, object);
}

void expect_no_event(const struct loop *loop)
{
	struct ibv_async_event event;

	if (take_event(loop, 0, &event))
		fail_msg("the event \"%s\" came", ibv_event_type_str(event.event_type));
}

void expect_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, state);
}

void loop_settle(const struct loop *loop)
{
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, NULL);

	request.wr_id = 999;
	loop_must_post_receive(&loop->far, 998, NULL);
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 999, IBV_WC_SUCCESS);
	expect_completion(loop->far.recv_cq, 998, IBV_WC_SUCCESS);
}
