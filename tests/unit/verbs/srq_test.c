/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues as a program meets them: limits, sizes, who may use them, the two
 * events, and ends in every order.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

#define DEPTH 8
#define QPS 3
#define BYTES 64

struct room {
	struct pair *pair; /* its QPs stay apart; device, PD, CQs and memory are used */
	struct ibv_srq *srq;
	struct ibv_qp *senders[QPS], *receivers[QPS]; /* the receivers share the SRQ */
};

static struct ibv_srq *create_srq(struct ibv_pd *pd, uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = max_wr, .max_sge = max_sge}};

	return ibv_create_srq(pd, &attr);
}

static struct ibv_qp *create_qp(struct room *room, int side, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = plain_qp(room->pair->cq[side]);
	struct ibv_qp *qp;

	attr.srq = srq;
	qp = ibv_create_qp(room->pair->pd, &attr);
	assert_non_null(qp);
	return qp;
}

static int create(void **state)
{
	struct room *room = calloc(1, sizeof(*room));

	assert_non_null(room);
	room->pair = pair_create(false);
	room->srq = create_srq(room->pair->pd, DEPTH, 2);
	assert_non_null(room->srq);
	for (int i = 0; i < QPS; i++) {
		room->senders[i] = create_qp(room, 0, NULL);
		room->receivers[i] = create_qp(room, 1, room->srq);
		connect_to(room->receivers[i], room->senders[i]->qp_num);
		connect_to(room->senders[i], room->receivers[i]->qp_num);
	}
	*state = room;
	return 0;
}

static int destroy(void **state)
{
	struct room *room = *state;

	for (int i = 0; i < QPS; i++) {
		assert_int_equal(ibv_destroy_qp(room->senders[i]), 0);
		assert_int_equal(ibv_destroy_qp(room->receivers[i]), 0);
	}
	assert_int_equal(ibv_destroy_srq(room->srq), 0);
	pair_destroy(room->pair);
	free(room);
	return 0;
}

static int post(struct room *room, uint64_t wr_id)
{
	struct ibv_sge sge = sge_of(room->pair, 1, (uint32_t)wr_id * BYTES, BYTES);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(room->srq, &wr, &bad);
}

static void send(struct room *room, int qp, uint32_t length)
{
	struct ibv_sge sge = sge_of(room->pair, 0, 0, length);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(room->senders[qp], &wr, &bad), 0);
}

static void receive(struct room *room, int qp, uint64_t wr_id)
{
	struct ibv_wc wc = next_success(room->pair->cq[1]);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.qp_num, room->receivers[qp]->qp_num);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	next_success(room->pair->cq[0]);
}

static void to_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static void expect_no_event(struct ibv_context *context)
{
	struct pollfd ready = {.fd = context->async_fd, .events = POLLIN};

	assert_int_equal(poll(&ready, 1, 0), 0);
}

static void device_tells_the_limits(void **state)
{
	struct room *room = *state;
	struct ibv_device_attr attr;
	struct ibv_srq *srq;

	assert_int_equal(ibv_query_device(room->pair->context, &attr), 0);
	assert_true(attr.max_srq > 0 && attr.max_srq_wr > 0 && attr.max_srq_sge > 0);
	assert_true(attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE);
	srq = create_srq(room->pair->pd, (uint32_t)attr.max_srq_wr, (uint32_t)attr.max_srq_sge);
	assert_non_null(srq);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_null(create_srq(room->pair->pd, (uint32_t)attr.max_srq_wr + 1, 1));
	assert_int_equal(errno, EINVAL);
	assert_null(create_srq(room->pair->pd, 1, (uint32_t)attr.max_srq_sge + 1));
	assert_int_equal(errno, EINVAL);
	assert_null(create_srq(room->pair->pd, 0, 1));
	assert_int_equal(errno, EINVAL);
	assert_null(create_srq(room->pair->pd, UINT32_MAX, UINT32_MAX));
	assert_int_equal(errno, EINVAL);
}

static void extended_creation(void **state)
{
	struct room *room = *state;
	struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 4, .max_sge = 1},
					    .comp_mask = IBV_SRQ_INIT_ATTR_PD |
							 IBV_SRQ_INIT_ATTR_TYPE,
					    .srq_type = IBV_SRQT_BASIC,
					    .pd = room->pair->pd};
	struct ibv_context *context = room->pair->context;
	uint32_t number;
	struct ibv_srq *srq = ibv_create_srq_ex(context, &attr);

	assert_non_null(srq);
	assert_int_equal(ibv_get_srq_num(srq, &number), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
	assert_null(ibv_create_srq_ex(context, &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ;
	assert_null(ibv_create_srq_ex(context, &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
	attr.srq_type = IBV_SRQT_TM;
	assert_null(ibv_create_srq_ex(context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void a_qp_of_it_has_no_receives_of_its_own(void **state)
{
	struct room *room = *state;
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_post_recv(room->receivers[0], &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_ptr_equal(room->receivers[0]->srq, room->srq);
	assert_int_equal(ibv_query_qp(room->receivers[0], &attr, IBV_QP_CAP, &init_attr), 0);
	assert_ptr_equal(init_attr.srq, room->srq);
	assert_int_equal(init_attr.cap.max_recv_wr, 0);
	assert_int_equal(init_attr.cap.max_recv_sge, 0);
	assert_int_equal(init_attr.cap.max_send_wr, 16);
}

static void receives_go_to_whoever_needs_one(void **state)
{
	struct room *room = *state;

	fill_pattern(room->pair, 0, 5);
	for (uint64_t i = 0; i < DEPTH; i++)
		assert_int_equal(post(room, i), 0);
	for (uint64_t i = 0; i < 5 * DEPTH; i++) {
		int qp = (int)(i * 5 % 7 % QPS);
		uint8_t *bytes = room->pair->bytes[1] + i % DEPTH * BYTES;

		memset(bytes, 0, BYTES);
		send(room, qp, BYTES);
		receive(room, qp, i % DEPTH);
		assert_memory_equal(bytes, room->pair->bytes[0], BYTES);
		assert_int_equal(post(room, i % DEPTH), 0);
	}
}

static void a_slot_is_free_when_its_completion_was_polled(void **state)
{
	struct room *room = *state;
	struct ibv_recv_wr list[2] = {{.wr_id = 100, .next = &list[1]}, {.wr_id = 101}}, *bad;
	struct ibv_sge many[3] = {{0}};
	struct ibv_recv_wr wide = {.sg_list = many, .num_sge = 3};

	for (uint64_t i = 0; i + 1 < DEPTH; i++)
		assert_int_equal(post(room, i), 0);
	assert_int_equal(ibv_post_srq_recv(room->srq, &wide, &bad), EINVAL);
	assert_int_equal(ibv_post_srq_recv(room->srq, list, &bad), ENOMEM);
	assert_ptr_equal(bad, &list[1]);
	send(room, 0, BYTES);
	next_success(room->pair->cq[0]); /* it has arrived */
	assert_int_equal(post(room, 200), ENOMEM);
	next_success(room->pair->cq[1]);
	assert_int_equal(post(room, 200), 0);
}

static void destroying_a_qp_frees_slots_nobody_polled(void **state)
{
	struct room *room = *state;

	for (uint64_t i = 0; i < DEPTH; i++)
		assert_int_equal(post(room, i), 0);
	send(room, 0, BYTES);
	send(room, 0, BYTES);
	next_success(room->pair->cq[0]);
	next_success(room->pair->cq[0]);
	assert_int_equal(post(room, 100), ENOMEM);
	assert_int_equal(ibv_destroy_qp(room->receivers[0]), 0);
	assert_int_equal(post(room, 100), 0);
	assert_int_equal(post(room, 101), 0);
	assert_int_equal(post(room, 102), ENOMEM);
	room->receivers[0] = create_qp(room, 1, room->srq);
}

static void sizes_change_or_stay(void **state)
{
	struct room *room = *state;
	struct ibv_srq_attr attr = {.max_wr = 100};

	for (uint64_t i = 0; i < DEPTH; i++)
		assert_int_equal(post(room, i), 0);
	assert_int_equal(post(room, 8), ENOMEM);
	assert_int_equal(ibv_modify_srq(room->srq, &attr, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(ibv_query_srq(room->srq, &attr), 0);
	assert_true(attr.max_wr >= 100);
	assert_int_equal(attr.max_sge, 2);
	assert_int_equal(post(room, 8), 0);
	for (int i = 0; i < 2; i++) {
		attr.max_wr = UINT32_MAX;
		assert_int_equal(ibv_modify_srq(room->srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	}
	attr.max_wr = DEPTH; /* one fewer than is posted */
	assert_int_equal(ibv_modify_srq(room->srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.max_wr = 0;
	assert_int_equal(ibv_modify_srq(room->srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.max_wr = DEPTH + 1;
	assert_int_equal(ibv_modify_srq(room->srq, &attr, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(post(room, 9), ENOMEM);
	assert_int_equal(ibv_modify_srq(room->srq, &attr, 4), EINVAL);
	for (uint64_t i = 0; i <= DEPTH; i++) {
		send(room, 1, BYTES);
		receive(room, 1, i);
	}
}

static void the_limit_event_comes_once(void **state)
{
	struct room *room = *state;
	struct ibv_srq_attr attr = {.srq_limit = DEPTH + 1};
	struct ibv_async_event event;

	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(post(room, i), 0);
	assert_int_equal(ibv_modify_srq(room->srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	attr.srq_limit = 3;
	assert_int_equal(ibv_modify_srq(room->srq, &attr, IBV_SRQ_LIMIT), 0);
	send(room, 0, BYTES);
	receive(room, 0, 0);
	expect_no_event(room->pair->context);
	assert_int_equal(ibv_query_srq(room->srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 3);
	send(room, 1, BYTES);
	receive(room, 1, 1);
	event = next_event(room->pair->context);
	assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(event.element.srq, room->srq);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_query_srq(room->srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 0);
	send(room, 2, BYTES);
	receive(room, 2, 2);
	expect_no_event(room->pair->context);
	/* Below it already: at once, or a program that refills by the event would never. */
	attr.srq_limit = 2;
	assert_int_equal(ibv_modify_srq(room->srq, &attr, IBV_SRQ_LIMIT), 0);
	event = next_event(room->pair->context);
	assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	ibv_ack_async_event(&event);
	expect_no_event(room->pair->context);
}

static void the_last_wqe_of_each_qp_is_told(void **state)
{
	struct room *room = *state;
	struct ibv_async_event event;

	assert_int_equal(post(room, 0), 0);
	assert_int_equal(post(room, 1), 0);
	for (int i = 0; i < QPS; i++) {
		to_error(room->receivers[i]);
		event = next_event(room->pair->context);
		assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
		assert_ptr_equal(event.element.qp, room->receivers[i]);
		ibv_ack_async_event(&event);
		to_error(room->receivers[i]);
		expect_no_event(room->pair->context);
	}
	/* Nothing was flushed, and what was posted is there for others. */
	assert_int_equal(ibv_poll_cq(room->pair->cq[1], 1, &(struct ibv_wc){0}), 0);
}

static void a_receive_too_short_ends_one_qp_only(void **state)
{
	struct room *room = *state;
	struct ibv_async_event event;
	struct ibv_wc wc;

	assert_int_equal(post(room, 0), 0);
	assert_int_equal(post(room, 1), 0);
	send(room, 0, BYTES + 1);
	wc = next_completion(room->pair->cq[1]);
	assert_int_equal(wc.wr_id, 0);
	assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(next_completion(room->pair->cq[0]).status, IBV_WC_REM_INV_REQ_ERR);
	event = next_event(room->pair->context);
	assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(event.element.qp, room->receivers[0]);
	ibv_ack_async_event(&event);
	send(room, 1, BYTES);
	receive(room, 1, 1);
}

static void what_is_in_use_stays(void **state)
{
	struct room *room = *state;
	struct ibv_srq *srq = create_srq(room->pair->pd, 4, 1);
	struct ibv_pd *pd = ibv_alloc_pd(room->pair->context);
	struct ibv_srq *other = create_srq(pd, 4, 1);
	struct ibv_qp *qp = create_qp(room, 1, srq);

	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_srq(other), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void of_another_device_it_is_refused(void **state)
{
	struct room *room = *state;
	struct ibv_context *context = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_srq *srq = create_srq(pd, 4, 1);
	struct ibv_qp_init_attr attr = plain_qp(room->pair->cq[1]);

	attr.srq = srq;
	assert_null(ibv_create_qp(room->pair->pd, &attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

static void *acknowledge(void *argument)
{
	ibv_ack_async_event(argument);
	return NULL;
}

static void destruction_waits_for_acknowledgement(void **state)
{
	struct room *room = *state;
	struct ibv_srq_attr attr = {.srq_limit = 1};
	struct ibv_async_event event;
	struct ibv_srq *srq = create_srq(room->pair->pd, 4, 1);
	pthread_t thread;

	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	event = next_event(room->pair->context);
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0); /* one that nobody reads */
	assert_int_equal(pthread_create(&thread, NULL, acknowledge, &event), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	expect_no_event(room->pair->context);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(device_tells_the_limits),
		TEST(extended_creation),
		TEST(a_qp_of_it_has_no_receives_of_its_own),
		TEST(receives_go_to_whoever_needs_one),
		TEST(a_slot_is_free_when_its_completion_was_polled),
		TEST(destroying_a_qp_frees_slots_nobody_polled),
		TEST(sizes_change_or_stay),
		TEST(the_limit_event_comes_once),
		TEST(the_last_wqe_of_each_qp_is_told),
		TEST(a_receive_too_short_ends_one_qp_only),
		TEST(what_is_in_use_stays),
		TEST(of_another_device_it_is_refused),
		TEST(destruction_waits_for_acknowledgement),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
