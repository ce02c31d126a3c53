/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One XRC_RECV QP with several handles, and one domain of several open devices: whose events are
 * whose, and who may go first.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

#define BYTES 3000
#define THREADS 3
#define CHURN 300

/*
 * The device is open twice, and both have the domain of one file. The SRQ belongs to the pair's
 * context; its completions come to cq[1], those of the sender to cq[0].
 */
struct room {
	struct pair *pair;
	struct ibv_context *second;
	int fd;
	struct ibv_xrcd *xrcd, *second_xrcd;
	struct ibv_srq *srq;
	uint32_t srqn;
	struct ibv_qp *sender;
};

static int create(void **state)
{
	struct room *room = calloc(1, sizeof(*room));
	char path[] = "/tmp/verbena-xrc-XXXXXX";

	assert_non_null(room);
	room->pair = pair_create(false);
	room->second = open_first();
	room->fd = mkstemp(path);
	assert_true(room->fd >= 0);
	unlink(path);
	room->xrcd = open_domain(room->pair->context, room->fd, O_CREAT | O_EXCL);
	room->second_xrcd = open_domain(room->second, room->fd, 0);
	assert_non_null(room->xrcd);
	assert_non_null(room->second_xrcd);
	room->srq = create_xrc_srq(room->pair->pd, room->xrcd, room->pair->cq[1]);
	assert_non_null(room->srq);
	assert_int_equal(ibv_get_srq_num(room->srq, &room->srqn), 0);
	room->sender = create_xrc_sender(room->pair->pd, room->pair->cq[0]);
	assert_non_null(room->sender);
	*state = room;
	return 0;
}

static void close_second(struct room *room)
{
	assert_int_equal(ibv_close_xrcd(room->second_xrcd), 0);
	assert_int_equal(ibv_close_device(room->second), 0);
	room->second = NULL;
}

static int destroy(void **state)
{
	struct room *room = *state;

	assert_int_equal(ibv_destroy_qp(room->sender), 0);
	assert_int_equal(ibv_destroy_srq(room->srq), 0);
	assert_int_equal(ibv_close_xrcd(room->xrcd), 0);
	if (room->second)
		close_second(room);
	close(room->fd);
	pair_destroy(room->pair);
	free(room);
	return 0;
}

static struct ibv_qp *open_qp(struct ibv_xrcd *xrcd, uint32_t number, void *qp_context)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = number,
		.xrcd = xrcd,
		.qp_context = qp_context,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	errno = 0;
	return ibv_open_qp(xrcd->context, &attr);
}

static struct ibv_qp *must_open(struct ibv_xrcd *xrcd, const struct ibv_qp *qp)
{
	struct ibv_qp *opened = open_qp(xrcd, qp->qp_num, NULL);

	assert_non_null(opened);
	return opened;
}

/* Both halves are in RESET. @handle: of the receiving one. */
static void connect_halves(struct room *room, struct ibv_qp *handle)
{
	connect_to(handle, room->sender->qp_num);
	connect_to(room->sender, handle->qp_num);
}

static void send_to(struct room *room, uint32_t srqn)
{
	struct ibv_sge sge = sge_of(room->pair, 0, 0, BYTES);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .qp_type.xrc.remote_srqn = srqn};
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(room->sender, &wr, &bad), 0);
}

static void expect_message(struct room *room, uint8_t seed)
{
	struct ibv_sge sge = sge_of(room->pair, 1, 0, BYTES);
	struct ibv_recv_wr wr = {.wr_id = seed, .sg_list = &sge, .num_sge = 1}, *bad;

	fill_pattern(room->pair, 0, seed);
	assert_int_equal(ibv_post_srq_recv(room->srq, &wr, &bad), 0);
	send_to(room, room->srqn);
	assert_int_equal(next_success(room->pair->cq[1]).wr_id, seed);
	assert_memory_equal(room->pair->bytes[1], room->pair->bytes[0], BYTES);
	next_success(room->pair->cq[0]);
}

/* A message for an SRQ that is none ends the connection, and is told to whoever has a handle. */
static void break_connection(struct room *room)
{
	send_to(room, room->srqn ^ 0x400000);
	assert_int_equal(next_completion(room->pair->cq[0]).status, IBV_WC_REM_INV_REQ_ERR);
}

static bool has_event(const struct ibv_context *context)
{
	struct pollfd ready = {.fd = context->async_fd, .events = POLLIN};

	return poll(&ready, 1, 0) == 1;
}

/* COMM_EST may have come before. */
static void expect_event(struct ibv_context *context, enum ibv_event_type type,
			 const struct ibv_qp *handle)
{
	struct ibv_async_event event;

	do {
		event = next_event(context);
		assert_ptr_equal(event.element.qp, handle);
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	assert_int_equal(event.event_type, type);
	assert_false(has_event(context));
}

static enum ibv_qp_state state_of(struct ibv_qp *handle)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(handle, &attr, IBV_QP_STATE, &init), 0);
	assert_ptr_equal(init.qp_context, handle->qp_context);
	assert_int_equal(init.qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(handle->state, attr.qp_state);
	return attr.qp_state;
}

static void a_handle_is_the_same_qp(void **state)
{
	struct room *room = *state;
	struct ibv_qp *receiver = create_xrc_receiver(room->xrcd);
	struct ibv_qp *opened = open_qp(room->second_xrcd, receiver->qp_num, room);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr recv_wr = {.wr_id = 1}, *bad_recv;
	struct ibv_send_wr send_wr = {.opcode = IBV_WR_SEND}, *bad_send;

	assert_non_null(opened);
	assert_int_equal(opened->qp_num, receiver->qp_num);
	assert_int_equal(opened->qp_type, IBV_QPT_XRC_RECV);
	assert_ptr_equal(opened->qp_context, room);
	assert_ptr_equal(opened->context, room->second);
	assert_int_equal(opened->state, IBV_QPS_UNKNOWN);
	assert_int_equal(state_of(opened), IBV_QPS_RESET);
	connect_halves(room, opened);
	assert_int_equal(state_of(receiver), IBV_QPS_RTS);
	expect_message(room, 3);
	assert_int_equal(ibv_post_recv(opened, &recv_wr, &bad_recv), EINVAL);
	assert_int_equal(ibv_post_send(opened, &send_wr, &bad_send), EINVAL);
	assert_int_equal(ibv_modify_qp(receiver, &attr, IBV_QP_STATE), 0);
	assert_int_equal(state_of(opened), IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(opened), 0);
	assert_int_equal(state_of(receiver), IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(receiver), 0);
}

static void events_come_to_each_handle(void **state)
{
	struct room *room = *state;
	struct ibv_qp *receiver = create_xrc_receiver(room->xrcd);
	struct ibv_qp *opened = must_open(room->second_xrcd, receiver);

	connect_halves(room, receiver);
	break_connection(room);
	expect_event(room->pair->context, IBV_EVENT_QP_REQ_ERR, receiver);
	expect_event(room->second, IBV_EVENT_QP_REQ_ERR, opened);
	assert_int_equal(ibv_destroy_qp(receiver), 0);
	assert_int_equal(ibv_destroy_qp(opened), 0);
}

static void a_handle_takes_its_unread_events_with_it(void **state)
{
	struct room *room = *state;
	struct ibv_qp *receiver = create_xrc_receiver(room->xrcd);
	struct ibv_qp *opened = must_open(room->second_xrcd, receiver);
	struct ibv_qp *third = must_open(room->second_xrcd, receiver);

	connect_halves(room, receiver);
	break_connection(room);
	assert_true(has_event(room->second));
	assert_int_equal(ibv_destroy_qp(opened), 0);
	expect_event(room->second, IBV_EVENT_QP_REQ_ERR, third);
	expect_event(room->pair->context, IBV_EVENT_QP_REQ_ERR, receiver);
	assert_int_equal(ibv_destroy_qp(third), 0);
	assert_int_equal(ibv_destroy_qp(receiver), 0);
}

/* Also the device that it was made on may be closed. */
static void the_maker_may_go_first(void **state)
{
	struct room *room = *state;
	struct ibv_qp *receiver = create_xrc_receiver(room->second_xrcd);
	struct ibv_qp *opened = must_open(room->xrcd, receiver);
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	uint32_t number = receiver->qp_num;

	connect_halves(room, receiver);
	expect_message(room, 1);
	assert_int_equal(ibv_close_xrcd(room->second_xrcd), EBUSY);
	assert_int_equal(ibv_destroy_qp(receiver), 0);
	close_second(room);
	expect_message(room, 2);
	assert_int_equal(ibv_modify_qp(opened, &reset, IBV_QP_STATE), 0);
	assert_int_equal(ibv_modify_qp(room->sender, &reset, IBV_QP_STATE), 0);
	connect_halves(room, opened);
	expect_message(room, 3);
	assert_int_equal(ibv_close_xrcd(room->xrcd), EBUSY);
	assert_int_equal(ibv_destroy_qp(opened), 0);
	assert_null(open_qp(room->xrcd, number, NULL));
	assert_int_equal(errno, EINVAL);
}

static void what_cannot_be_opened(void **state)
{
	struct room *room = *state;
	struct ibv_context *context = room->pair->context;
	struct ibv_xrcd *other = open_domain(context, -1, O_CREAT);
	struct ibv_qp *receiver = create_xrc_receiver(room->xrcd);
	struct ibv_qp_open_attr right = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = receiver->qp_num,
		.xrcd = room->xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp_open_attr attrs[] = {right, right, right, right, right, right, right, right};

	attrs[0].comp_mask &= ~(uint32_t)IBV_QP_OPEN_ATTR_NUM;
	attrs[1].comp_mask &= ~(uint32_t)IBV_QP_OPEN_ATTR_XRCD;
	attrs[2].comp_mask &= ~(uint32_t)IBV_QP_OPEN_ATTR_TYPE;
	attrs[3].xrcd = NULL;
	attrs[4].xrcd = room->second_xrcd; /* of another open device */
	attrs[5].xrcd = other;		   /* the QP is of another domain */
	attrs[6].qp_type = IBV_QPT_RC;
	attrs[7].qp_num = room->pair->qp[0]->qp_num; /* an RC QP */
	for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		errno = 0;
		assert_null(ibv_open_qp(context, &attrs[i]));
		assert_int_equal(errno, EINVAL);
	}
	attrs[0].comp_mask = IBV_QP_OPEN_ATTR_RESERVED;
	assert_null(ibv_open_qp(context, &attrs[0]));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_destroy_qp(receiver), 0);
	assert_int_equal(ibv_close_xrcd(other), 0);
}

/* SRQ, its protection domain and its CQ belong to one open device, the QP to the other. */
static void an_srq_of_another_open_device_is_served(void **state)
{
	struct room *room = *state;
	struct ibv_pd *pd = ibv_alloc_pd(room->second);
	struct ibv_cq *cq = ibv_create_cq(room->second, 16, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, room->pair->bytes[1], BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_srq *srq = create_xrc_srq(pd, room->second_xrcd, cq);
	struct ibv_qp *receiver = create_xrc_receiver(room->xrcd);
	struct ibv_sge sge = {(uintptr_t)room->pair->bytes[1], BYTES, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad;
	uint32_t srqn;

	assert_non_null(srq);
	assert_int_equal(ibv_get_srq_num(srq, &srqn), 0);
	connect_halves(room, receiver);
	fill_pattern(room->pair, 0, 5);
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	send_to(room, srqn);
	assert_int_equal(next_success(cq).wr_id, 7);
	next_success(room->pair->cq[0]);
	assert_memory_equal(room->pair->bytes[1], room->pair->bytes[0], BYTES);
	expect_message(room, 6); /* and so is that of its own */
	assert_int_equal(ibv_destroy_qp(receiver), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* --- handles come and go --- */

struct churn {
	struct room *room;
	_Atomic uint32_t number; /* of the QP that there is just now */
	_Atomic bool is_over;
	_Atomic uint32_t opened;
};

static void *open_and_close(void *argument)
{
	struct churn *churn = argument;

	while (!churn->is_over) {
		struct ibv_qp *handle = open_qp(churn->room->second_xrcd, churn->number, NULL);

		if (!handle)
			continue;
		churn->opened++;
		state_of(handle);
		assert_int_equal(ibv_destroy_qp(handle), 0);
	}
	return NULL;
}

static void handles_come_and_go(void **state)
{
	struct churn churn = {.room = *state};
	struct room *room = churn.room;
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, &churn), 0);
	for (uint32_t i = 0; i < CHURN || churn.opened < CHURN; i++) {
		struct ibv_qp *receiver = create_xrc_receiver(room->xrcd);

		connect_halves(room, receiver);
		churn.number = receiver->qp_num;
		break_connection(room);
		assert_int_equal(ibv_destroy_qp(receiver), 0);
		assert_int_equal(ibv_modify_qp(room->sender, &reset, IBV_QP_STATE), 0);
	}
	churn.is_over = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_false(has_event(room->second));
	assert_false(has_event(room->pair->context));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_handle_is_the_same_qp),
		TEST(events_come_to_each_handle),
		TEST(a_handle_takes_its_unread_events_with_it),
		TEST(the_maker_may_go_first),
		TEST(what_cannot_be_opened),
		TEST(an_srq_of_another_open_device_is_served),
		TEST(handles_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
