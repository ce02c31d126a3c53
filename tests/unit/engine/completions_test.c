/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues of an engine: overrun, resizing under traffic, arming, QPs that go. */
#include "unit/engine/pair.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/engine_state.h"

#define SUBNET "127.66.2"

static const struct pair_settings over_self = {
	.is_self = true, .depth = 64, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};
static const struct pair_settings over_udp = {
	.depth = 64, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};
static const struct pair_settings with_channels = {
	.depth = 64, .has_channel = true, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};

static bool is_readable(int fd, int wait_ms)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};

	return poll(&ready, 1, wait_ms) == 1;
}

static void wait_for_state(const struct engine_qp *qp, enum ibv_qp_state state)
{
	for (int i = 0; i < 5000 && engine_qp_state(qp) != state; i++)
		poll(NULL, 0, 1);
	assert_int_equal(engine_qp_state(qp), state);
}

/* A QP of A with @cq, connected to a new one of B. */
static void connect_on(struct pair *pair, struct engine_cq *cq, struct engine_qp **from,
		       struct engine_qp **to)
{
	*from = side_new_qp_on(&pair->a, &pair->settings, cq);
	*to = side_new_qp(&pair->b, &pair->settings);
	side_connect(&pair->a, *from, &pair->b, engine_qp_number(*to), &pair->settings);
	side_connect(&pair->b, *to, &pair->a, engine_qp_number(*from), &pair->settings);
}

/* Four fit, sixteen come and nobody polls: one event, the QP in error, no hang. */
static void overrun_is_told_once(const struct pair_settings *settings)
{
	struct engine_qp *from, *to;
	struct ibv_wc entries[8];
	struct engine_cq *cq;
	struct event event;
	struct pair pair;
	int fd;

	pair_open(&pair, settings);
	assert_int_equal(engine_cq_create(pair.a.engine, 4, NULL, pair.a.async, &cq, &cq), 0);
	connect_on(&pair, cq, &from, &to);
	for (uint32_t i = 0; i < 16; i++) {
		struct ibv_sge sge = {(uintptr_t)pair.a.buffer, 64, engine_mr_key(pair.a.mr)};
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .wr.rdma = {(uintptr_t)pair.b.buffer,
						     engine_mr_key(pair.b.mr)}};
		struct ibv_send_wr *bad;

		assert_int_equal(engine_post_send(from, &wr, &bad), 0);
	}
	fd = event_queue_descriptor(pair.a.async);
	assert_true(is_readable(fd, 10000));
	assert_int_equal(event_queue_pop(pair.a.async, &event, NULL), 0);
	assert_int_equal(event.type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.object, &cq);
	wait_for_state(from, IBV_QPS_ERR);
	assert_int_equal(engine_cq_poll(cq, 8, entries), 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(entries[i].status, IBV_WC_SUCCESS);
		assert_int_equal(entries[i].wr_id, i);
	}
	assert_int_equal(engine_cq_poll(cq, 8, entries), 0);
	assert_false(is_readable(fd, 20));
	assert_int_equal(engine_qp_destroy(from), 0);
	assert_int_equal(engine_qp_destroy(to), 0);
	assert_int_equal(engine_cq_destroy(cq), 0);
	pair_close(&pair);
}

static void overrun_over_udp(void **state)
{
	(void)state;
	overrun_is_told_once(&over_udp);
}

static void overrun_over_self(void **state)
{
	(void)state;
	overrun_is_told_once(&over_self);
}

/* Only the send queue's CQ overruns; receives wait on another, and are flushed to it. */
static void overrun_flushes_the_other_queue(void **state)
{
	struct engine_qp_attr attr;
	struct engine_qp *from, *to;
	struct engine_cq *small;
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_udp);
	assert_int_equal(engine_cq_create(pair.a.engine, 1, NULL, pair.a.async, &small, &small), 0);
	attr = (struct engine_qp_attr){
		.type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.signals_all = true,
		.send_cq = small,
		.recv_cq = pair.a.cq,
		.device = pair.a.devices,
	};
	assert_int_equal(engine_qp_create(pair.a.pd, &attr, &from), 0);
	to = side_new_qp(&pair.b, &over_udp);
	side_connect(&pair.a, from, &pair.b, engine_qp_number(to), &over_udp);
	side_connect(&pair.b, to, &pair.a, engine_qp_number(from), &over_udp);
	for (uint64_t i = 0; i < 3; i++)
		side_post_recv(&pair.a, from, 100 + i, 0, 64);
	for (uint64_t i = 0; i < 4; i++)
		side_post(&pair.a, from, IBV_WR_RDMA_WRITE, i, 0, 64, &pair.b, 0);
	for (uint64_t i = 0; i < 3; i++) {
		struct ibv_wc wc = side_wait(&pair.a);

		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.wr_id, 100 + i);
	}
	assert_int_equal(engine_qp_destroy(from), 0);
	assert_int_equal(engine_qp_destroy(to), 0);
	assert_int_equal(engine_cq_destroy(small), 0);
	pair_close(&pair);
}

#define RESIZE_MESSAGES 4000

static void *resize(void *argument)
{
	struct side *side = argument;

	for (uint32_t i = 0; i < 2000; i++)
		assert_int_equal(engine_cq_resize(side->cq, 128 + i % 7 * 300), 0);
	return NULL;
}

static void resizing_loses_nothing(void **state)
{
	uint32_t posted = 0, completed = 0;
	pthread_t resizer;
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_udp);
	assert_int_equal(pthread_create(&resizer, NULL, resize, &pair.a), 0);
	while (completed < RESIZE_MESSAGES) {
		for (; posted < RESIZE_MESSAGES && posted - completed < 64; posted++)
			side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, posted, 0, 200, &pair.b,
				  0);
		struct ibv_wc wc = side_wait(&pair.a);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, completed++);
	}
	pthread_join(resizer, NULL);
	pair_close(&pair);
}

static uint32_t queued(struct engine_cq *cq)
{
	uint32_t count;

	brief_lock_take(&cq->lock);
	count = cq->queue.count;
	brief_lock_release(&cq->lock);
	return count;
}

static void resizing_below_the_queued_is_refused(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_self);
	for (uint64_t i = 0; i < 5; i++)
		side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, i, 0, 8, &pair.b, 0);
	for (int i = 0; i < 10000 && queued(pair.a.cq) < 5; i++)
		poll(NULL, 0, 1);
	assert_true(engine_cq_resize(pair.a.cq, 4) < 0);
	assert_true(engine_cq_resize(pair.a.cq, 0) < 0);
	assert_int_equal(engine_cq_resize(pair.a.cq, 5), 0);
	assert_int_equal(engine_cq_capacity(pair.a.cq), 5);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(side_wait(&pair.a).wr_id, i);
	pair_close(&pair);
}

static void send_one(struct pair *pair, uint64_t wr_id, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)pair->a.buffer, 8, engine_mr_key(pair->a.mr)};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = flags};
	struct ibv_send_wr *bad;

	side_post_recv(&pair->b, pair->b.qp, wr_id, 0, 64);
	assert_int_equal(engine_post_send(pair->a.qp, &wr, &bad), 0);
	assert_int_equal(side_wait(&pair->a).status, IBV_WC_SUCCESS);
}

static void take_event(struct side *side)
{
	struct event event;

	assert_true(is_readable(event_queue_descriptor(side->channel), 10000));
	assert_int_equal(event_queue_pop(side->channel, &event, NULL), 0);
	assert_ptr_equal(event.object, side);
}

static void assert_no_event(const struct side *side)
{
	assert_false(is_readable(event_queue_descriptor(side->channel), 20));
}

/* What is there already raises nothing; the next one does, once. */
static void arming_is_for_the_next_one(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, &with_channels);
	send_one(&pair, 1, 0);
	assert_int_equal(engine_cq_arm(pair.b.cq, false), 0);
	assert_no_event(&pair.b);
	send_one(&pair, 2, 0);
	take_event(&pair.b);
	send_one(&pair, 3, 0);
	assert_no_event(&pair.b);
	for (uint64_t i = 1; i <= 3; i++)
		assert_int_equal(side_wait(&pair.b).wr_id, i);
	/* Arming an idle CQ twice is arming it once. */
	assert_int_equal(engine_cq_arm(pair.b.cq, false), 0);
	assert_int_equal(engine_cq_arm(pair.b.cq, false), 0);
	send_one(&pair, 4, 0);
	take_event(&pair.b);
	send_one(&pair, 5, 0);
	assert_no_event(&pair.b);
	pair_close(&pair);
}

static void solicited_only_waits_for_those(void **state)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct pair pair;

	(void)state;
	pair_open(&pair, &with_channels);
	assert_int_equal(engine_cq_arm(pair.b.cq, true), 0);
	send_one(&pair, 1, 0);
	assert_no_event(&pair.b);
	send_one(&pair, 2, IBV_SEND_SOLICITED);
	take_event(&pair.b);
	/* For all outweighs for solicited, in either order. */
	assert_int_equal(engine_cq_arm(pair.b.cq, false), 0);
	assert_int_equal(engine_cq_arm(pair.b.cq, true), 0);
	send_one(&pair, 3, 0);
	take_event(&pair.b);
	/* An error is always worth waking for. */
	side_post_recv(&pair.b, pair.b.qp, 9, 0, 64);
	assert_int_equal(engine_cq_arm(pair.b.cq, true), 0);
	assert_int_equal(engine_qp_modify(pair.b.qp, &error, IBV_QP_STATE), 0);
	take_event(&pair.b);
	pair_close(&pair);
}

/* Two events, one read: the descriptor stays readable; an edge is seen for each push. */
/* What a poll brings about itself and what it leaves behind for the next come in one order. */
static void polls_of_few_keep_the_order(void **state)
{
	struct ibv_wc entries[3];
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_udp);
	for (uint32_t round = 0; round < 20; round++) {
		uint64_t next = 0;
		int count;

		for (uint64_t i = 0; i < 16; i++)
			side_post_recv(&pair.b, pair.b.qp, i, 0, 64);
		for (uint64_t i = 0; i < 16; i++)
			side_post(&pair.a, pair.a.qp, IBV_WR_SEND, i, 0, 64, &pair.b, 0);
		while (next < 16) {
			count = engine_cq_poll(pair.b.cq, 1 + (int)(round % 3), entries);
			for (int i = 0; i < count; i++)
				assert_int_equal(entries[i].wr_id, next++);
		}
		for (uint64_t i = 0; i < 16; i++)
			assert_int_equal(side_wait(&pair.a).wr_id, i);
	}
	pair_close(&pair);
}

/* The program polls an armed queue, and takes what the event is about: it is raised all the same. */
static void a_poll_of_an_armed_queue_raises_the_event(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, &with_channels);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(engine_cq_arm(pair.b.cq, false), 0);
		send_one(&pair, 1, 0);
		assert_int_equal(side_wait(&pair.b).wr_id, 1);
		take_event(&pair.b);
		send_one(&pair, 2, 0);
		assert_int_equal(side_wait(&pair.b).wr_id, 2);
		assert_no_event(&pair.b);
	}
	pair_close(&pair);
}

static void the_descriptor_counts(void **state)
{
	struct epoll_event wanted = {.events = EPOLLIN | EPOLLET}, got;
	struct pair pair;
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	(void)state;
	pair_open(&pair, &with_channels);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, event_queue_descriptor(pair.b.channel),
				   &wanted),
			 0);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(engine_cq_arm(pair.b.cq, false), 0);
		send_one(&pair, i, 0);
		for (int k = 0;
		     k < 1000 && !is_readable(event_queue_descriptor(pair.b.channel), 10); k++)
			;
		assert_int_equal(epoll_wait(epoll, &got, 1, 1000), 1);
	}
	take_event(&pair.b);
	assert_true(is_readable(event_queue_descriptor(pair.b.channel), 0));
	take_event(&pair.b);
	assert_false(is_readable(event_queue_descriptor(pair.b.channel), 0));
	pair_close(&pair);
	close(epoll);
}

/* Completions of a destroyed QP are gone, those of others stay, in order. */
static void a_qp_goes_in_the_middle_of_a_batch(void **state)
{
	struct engine_qp *from, *to;
	uint32_t survivor, goer;
	struct ibv_wc wc;
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_self);
	connect_on(&pair, pair.a.cq, &from, &to);
	survivor = engine_qp_number(pair.a.qp);
	goer = engine_qp_number(from);
	for (uint64_t i = 0; i < 10; i++) {
		side_post(&pair.a, from, IBV_WR_RDMA_WRITE, i, 0, 8, &pair.b, 0);
		side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, i, 0, 8, &pair.b, 0);
	}
	wc = side_wait(&pair.a);
	assert_true(wc.qp_num == goer || wc.qp_num == survivor);
	assert_int_equal(engine_qp_destroy(from), 0);
	assert_int_equal(engine_qp_destroy(to), 0);
	for (uint64_t i = wc.qp_num == survivor ? 1 : 0; i < 10; i++) {
		wc = side_wait(&pair.a);
		assert_int_equal(wc.qp_num, survivor);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_int_equal(engine_cq_poll(pair.a.cq, 1, &wc), 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overrun_over_udp),
		cmocka_unit_test(overrun_over_self),
		cmocka_unit_test(overrun_flushes_the_other_queue),
		cmocka_unit_test(resizing_loses_nothing),
		cmocka_unit_test(resizing_below_the_queued_is_refused),
		cmocka_unit_test(arming_is_for_the_next_one),
		cmocka_unit_test(solicited_only_waits_for_those),
		cmocka_unit_test(polls_of_few_keep_the_order),
		cmocka_unit_test(a_poll_of_an_armed_queue_raises_the_event),
		cmocka_unit_test(the_descriptor_counts),
		cmocka_unit_test(a_qp_goes_in_the_middle_of_a_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
