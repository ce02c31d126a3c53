/* SPDX-License-Identifier: BSD-2-Clause */
/* SRQs and QPs of one XRC domain that come and go beside traffic of others. */
#include "unit/engine/pair.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/engine_state.h"

#define DEPTH 16
#define LENGTH 1500 /* two packets */
#define CHURN 1000
#define GIVE_UP_SECONDS 60

static const struct pair_settings over_udp = {
	.depth = 64, .subnet = "127.82.4", .timeout = 14, .retry_cnt = 7};

/* A sender of A, a receiver of B, and an SRQ with a CQ of its own for it. */
struct channel {
	struct engine_qp *sender, *receiver;
	struct engine_srq *srq;
	struct engine_cq *send_cq, *cq;
};

struct stage {
	struct pair pair;
	struct engine_xrcd *xrcd;
	_Atomic bool is_over;
};

static void make_srq(struct stage *stage, struct channel *channel)
{
	struct engine_srq_attr attr = {.wr_max = DEPTH,
				       .sge_max = 1,
				       .xrcd = stage->xrcd,
				       .cq = channel->cq,
				       .object = channel};

	assert_int_equal(engine_srq_create(stage->pair.b.pd, &attr, &channel->srq), 0);
}

static struct engine_qp *make_qp(struct stage *stage, struct channel *channel, bool sends)
{
	struct side *side = sends ? &stage->pair.a : &stage->pair.b;
	struct engine_qp_attr attr = {.type = sends ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV,
				      .cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
				      .signals_all = true,
				      .send_cq = sends ? channel->send_cq : NULL,
				      .xrcd = sends ? NULL : stage->xrcd,
				      .device = side->devices};
	struct engine_qp *qp;

	assert_int_equal(
		engine_qp_create(sends ? side->pd : engine_xrcd_pd(stage->xrcd), &attr, &qp), 0);
	return qp;
}

static void open_channel(struct stage *stage, struct channel *channel)
{
	struct pair *pair = &stage->pair;

	assert_int_equal(engine_cq_create(pair->a.engine, 4 * DEPTH, NULL, NULL, channel,
					  &channel->send_cq),
			 0);
	assert_int_equal(
		engine_cq_create(pair->b.engine, 4 * DEPTH, NULL, NULL, channel, &channel->cq), 0);
	make_srq(stage, channel);
	channel->sender = make_qp(stage, channel, true);
	channel->receiver = make_qp(stage, channel, false);
	side_connect(&pair->b, channel->receiver, &pair->a, engine_qp_number(channel->sender),
		     &pair->settings);
	side_connect(&pair->a, channel->sender, &pair->b, engine_qp_number(channel->receiver),
		     &pair->settings);
}

static void close_channel(struct channel *channel)
{
	assert_int_equal(engine_cq_destroy(channel->cq), -EBUSY);
	assert_int_equal(engine_qp_destroy(channel->sender), 0);
	assert_int_equal(engine_qp_destroy(channel->receiver), 0);
	if (channel->srq)
		assert_int_equal(engine_srq_destroy(channel->srq), 0);
	assert_int_equal(engine_cq_destroy(channel->cq), 0);
	assert_int_equal(engine_cq_destroy(channel->send_cq), 0);
}

static void post_receive(struct stage *stage, struct channel *channel, uint64_t wr_id)
{
	struct side *b = &stage->pair.b;
	struct ibv_sge sge = {(uintptr_t)b->buffer + wr_id % DEPTH * 2048, 2048,
			      engine_mr_key(b->mr)};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(engine_srq_post(channel->srq, &wr, &bad), 0);
}

static void send_to(struct stage *stage, struct channel *channel, uint32_t srqn)
{
	struct side *a = &stage->pair.a;
	struct ibv_sge sge = {(uintptr_t)a->buffer, LENGTH, engine_mr_key(a->mr)};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .qp_type.xrc.remote_srqn = srqn};
	struct ibv_send_wr *bad;

	assert_int_equal(engine_post_send(channel->sender, &wr, &bad), 0);
}

/*
 * An SRQ is withdrawn while messages for it come in; where one is in the middle, its QP goes first.
 */
static void *come_and_go(void *argument)
{
	struct stage *stage = argument;

	for (int i = 0; i < CHURN; i++) {
		struct channel channel;
		struct ibv_wc wc;

		open_channel(stage, &channel);
		for (uint64_t j = 0; j < DEPTH; j++)
			post_receive(stage, &channel, j);
		for (int j = 0; j < DEPTH / 2; j++)
			send_to(stage, &channel, engine_srq_number(channel.srq));
		if (i % 2)
			engine_cq_poll(channel.cq, 1, &wc);
		if (engine_srq_destroy(channel.srq) == 0)
			channel.srq = NULL;
		if (channel.srq)
			close_channel(&channel);
		else {
			/* Nothing of it is left, and nothing comes any more. */
			assert_int_equal(engine_cq_destroy(channel.cq), 0);
			assert_int_equal(engine_qp_destroy(channel.sender), 0);
			assert_int_equal(engine_qp_destroy(channel.receiver), 0);
			assert_int_equal(engine_cq_destroy(channel.send_cq), 0);
		}
	}
	stage->is_over = true;
	return NULL;
}

static void srqs_come_and_go(void **state)
{
	time_t give_up = time(NULL) + GIVE_UP_SECONDS;
	struct stage stage = {.is_over = false};
	uint32_t sent = 0, done = 0, received = 0;
	struct channel channel;
	pthread_t thread;

	(void)state;
	pair_open(&stage.pair, &over_udp);
	assert_int_equal(engine_xrcd_create(stage.pair.b.engine, -1, &stage.xrcd), 0);
	open_channel(&stage, &channel);
	assert_int_equal(pthread_create(&thread, NULL, come_and_go, &stage), 0);
	while ((!stage.is_over || received < sent || done < sent) && time(NULL) < give_up) {
		struct ibv_wc wc;

		if (received == sent && done == sent && !stage.is_over) {
			post_receive(&stage, &channel, sent++);
			send_to(&stage, &channel, engine_srq_number(channel.srq));
		}
		while (engine_cq_poll(channel.cq, 1, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, received++);
			assert_int_equal(wc.qp_num, engine_qp_number(channel.receiver));
		}
		for (; engine_cq_poll(channel.send_cq, 1, &wc); done++)
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	pthread_join(thread, NULL);
	assert_int_equal(received, sent);
	assert_int_equal(engine_xrcd_destroy(stage.xrcd), -EBUSY);
	close_channel(&channel);
	assert_int_equal(engine_xrcd_destroy(stage.xrcd), 0);
	pair_close(&stage.pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(srqs_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
