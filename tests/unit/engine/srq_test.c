/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An SRQ of an engine under load: many QPs, two threads that poll, one that posts; and QPs
 * that go while traffic is under way.
 */
#include "unit/engine/pair.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_state.h"

#define QPS 8
#define DEPTH 32
#define BUFFERS (PAIR_BUFFER_BYTES / 2048)
#define MESSAGES 1500 /* of each QP */
#define LENGTH 1500   /* two packets */
#define GIVE_UP_SECONDS 60

static const struct pair_settings over_udp = {
	.depth = 256, .subnet = "127.82.3", .timeout = 14, .retry_cnt = 7};
static const struct pair_settings over_self = {
	.is_self = true, .depth = 256, .subnet = "127.82.3", .timeout = 14, .retry_cnt = 7};

/* One receive of the SRQ: who may post it, and what came. */
struct buffer {
	_Atomic bool is_free;
};

struct crowd {
	struct pair pair; /* A sends, B has the SRQ */
	struct engine_srq *srq;
	struct engine_cq *cqs[2]; /* of B, each for half of the QPs */
	struct engine_qp *senders[QPS], *receivers[QPS];
	struct buffer buffers[BUFFERS];
	_Atomic uint32_t received[QPS];
	_Atomic uint32_t received_in_all;
	_Atomic bool is_over;
};

static struct engine_qp *make_receiver(struct crowd *crowd, struct engine_cq *cq)
{
	struct side *b = &crowd->pair.b;
	struct engine_qp_attr attr = {.type = IBV_QPT_RC,
				      .cap = {.max_send_wr = 4, .max_send_sge = 1},
				      .send_cq = cq,
				      .recv_cq = cq,
				      .srq = crowd->srq,
				      .async = b->async,
				      .object = crowd,
				      .device = b->devices};
	struct engine_qp *qp;

	assert_int_equal(engine_qp_create(b->pd, &attr, &qp), 0);
	return qp;
}

static void connect_pair(struct crowd *crowd, int i)
{
	struct pair *pair = &crowd->pair;

	crowd->senders[i] = side_new_qp(&pair->a, &pair->settings);
	crowd->receivers[i] = make_receiver(crowd, crowd->cqs[i % 2]);
	side_connect(&pair->b, crowd->receivers[i], &pair->a, engine_qp_number(crowd->senders[i]),
		     &pair->settings);
	side_connect(&pair->a, crowd->senders[i], &pair->b, engine_qp_number(crowd->receivers[i]),
		     &pair->settings);
}

static struct crowd *crowd_open(const struct pair_settings *settings, uint32_t cq_depth)
{
	struct crowd *crowd = calloc(1, sizeof(*crowd));
	struct side *b;

	assert_non_null(crowd);
	pair_open(&crowd->pair, settings);
	b = &crowd->pair.b;
	assert_int_equal(engine_srq_create(b->pd,
					   &(struct engine_srq_attr){.wr_max = DEPTH,
								     .sge_max = 1,
								     .async = b->async,
								     .object = &crowd->srq},
					   &crowd->srq),
			 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(engine_cq_create(b->engine, cq_depth, NULL, b->async,
						  &crowd->cqs[i], &crowd->cqs[i]),
				 0);
	for (int i = 0; i < QPS; i++)
		connect_pair(crowd, i);
	for (uint32_t i = 0; i < BUFFERS; i++)
		crowd->buffers[i].is_free = true;
	return crowd;
}

static void crowd_close(struct crowd *crowd)
{
	for (int i = 0; i < QPS; i++) {
		assert_int_equal(engine_qp_destroy(crowd->senders[i]), 0);
		assert_int_equal(engine_srq_destroy(crowd->srq), -EBUSY);
		assert_int_equal(engine_qp_destroy(crowd->receivers[i]), 0);
	}
	assert_int_equal(crowd->srq->srq.used_count, crowd->srq->srq.waiting_count);
	assert_int_equal(engine_srq_destroy(crowd->srq), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(engine_cq_destroy(crowd->cqs[i]), 0);
	pair_close(&crowd->pair);
	free(crowd);
}

static int post(struct crowd *crowd, uint32_t index)
{
	struct side *b = &crowd->pair.b;
	struct ibv_sge sge = {(uintptr_t)b->buffer + index * 2048, 2048, engine_mr_key(b->mr)};
	struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;

	return engine_srq_post(crowd->srq, &wr, &bad);
}

/* Tops the SRQ up as long as the others work, without a pause. */
static void *keep_posting(void *argument)
{
	struct crowd *crowd = argument;

	while (!crowd->is_over) {
		for (uint32_t i = 0; i < DEPTH; i++) {
			if (!crowd->buffers[i].is_free)
				continue;
			crowd->buffers[i].is_free = false;
			/* Its completion was polled, so that there is room. */
			assert_int_equal(post(crowd, i), 0);
		}
		sched_yield();
	}
	return NULL;
}

static int index_of(const struct crowd *crowd, uint32_t number)
{
	for (int i = 0; i < QPS; i++)
		if (engine_qp_number(crowd->receivers[i]) == number)
			return i;
	return -1;
}

/* Each message bears its QP and its count: none twice, none lost, none out of order. */
static void take(struct crowd *crowd, const struct ibv_wc *wc)
{
	const uint32_t *words = (const uint32_t *)(crowd->pair.b.buffer + wc->wr_id * 2048);
	int qp = index_of(crowd, wc->qp_num);

	assert_int_equal(wc->status, IBV_WC_SUCCESS);
	assert_int_equal(wc->byte_len, LENGTH);
	assert_true(qp >= 0 && wc->wr_id < BUFFERS);
	assert_false(crowd->buffers[wc->wr_id].is_free);
	assert_int_equal(words[0], (uint32_t)qp);
	assert_int_equal(words[1], crowd->received[qp]);
	assert_int_equal(words[LENGTH / 4 - 1], words[0] * 1000003 + words[1]);
	crowd->received[qp]++;
	crowd->received_in_all++;
	crowd->buffers[wc->wr_id].is_free = true;
}

struct poller {
	struct crowd *crowd;
	int index;
};

static void *keep_polling(void *argument)
{
	struct poller *poller = argument;
	struct crowd *crowd = poller->crowd;
	struct ibv_wc entries[4];

	while (!crowd->is_over) {
		int taken = engine_cq_poll(crowd->cqs[poller->index], 4, entries);

		for (int i = 0; i < taken; i++)
			take(crowd, &entries[i]);
	}
	return NULL;
}

static void post_send(struct crowd *crowd, uint32_t qp)
{
	struct side *a = &crowd->pair.a;
	struct ibv_sge sge = {(uintptr_t)a->buffer + qp * 2048, LENGTH, engine_mr_key(a->mr)};
	struct ibv_send_wr wr = {.wr_id = qp,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	assert_int_equal(engine_post_send(crowd->senders[qp], &wr, &bad), 0);
}

static void send_message(struct crowd *crowd, uint32_t qp, uint32_t count)
{
	uint32_t *words = (uint32_t *)(crowd->pair.a.buffer + qp * 2048);

	words[0] = qp;
	words[1] = count;
	words[LENGTH / 4 - 1] = qp * 1000003 + count;
	post_send(crowd, qp);
}

/* One message of each QP under way; a QP sends the next when its last one is acknowledged. */
static void send_all(struct crowd *crowd)
{
	uint32_t sent[QPS], done = 0;
	time_t give_up = time(NULL) + GIVE_UP_SECONDS;

	for (uint32_t i = 0; i < QPS; i++) {
		send_message(crowd, i, 0);
		sent[i] = 1;
	}
	while (done < QPS * MESSAGES && time(NULL) < give_up) {
		struct ibv_wc wc;

		if (engine_cq_poll(crowd->pair.a.cq, 1, &wc) == 0)
			continue;
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		done++;
		if (sent[wc.wr_id] < MESSAGES)
			send_message(crowd, (uint32_t)wc.wr_id, sent[wc.wr_id]++);
	}
	assert_int_equal(done, QPS * MESSAGES);
	while (crowd->received_in_all < QPS * MESSAGES && time(NULL) < give_up)
		sched_yield();
}

static void many_share_one(const struct pair_settings *settings)
{
	struct crowd *crowd = crowd_open(settings, QPS * DEPTH);
	struct poller pollers[2] = {{crowd, 0}, {crowd, 1}};
	pthread_t threads[3];

	assert_int_equal(pthread_create(&threads[0], NULL, keep_posting, crowd), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[1 + i], NULL, keep_polling, &pollers[i]),
				 0);
	send_all(crowd);
	crowd->is_over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < QPS; i++)
		assert_int_equal(crowd->received[i], MESSAGES);
	crowd_close(crowd);
}

static void many_share_one_over_udp(void **state)
{
	(void)state;
	many_share_one(&over_udp);
}

static void many_share_one_over_self(void **state)
{
	(void)state;
	many_share_one(&over_self);
}

static uint32_t used_count(struct crowd *crowd)
{
	uint32_t count;

	brief_lock_take(crowd->srq->lock);
	count = crowd->srq->srq.used_count;
	brief_lock_release(crowd->srq->lock);
	return count;
}

/* A CQ that overruns loses completions; the slots of their receives are not lost with them. */
static void an_overrun_loses_no_slots(void **state)
{
	struct crowd *crowd = crowd_open(&over_self, 2);
	struct ibv_wc entries[4];
	struct event event;

	(void)state;
	for (uint32_t i = 0; i < DEPTH; i++)
		assert_int_equal(post(crowd, i), 0);
	for (uint32_t i = 0; i < QPS; i++)
		send_message(crowd, i, 0);
	for (int i = 0; i < 2; i++) {
		do
			assert_int_equal(event_queue_pop(crowd->pair.b.async, &event, NULL), 0);
		while (event.type != IBV_EVENT_CQ_ERR);
		assert_int_equal(engine_cq_poll(crowd->cqs[i], 4, entries), 2);
	}
	crowd_close(crowd);
}

#define CHURN 300

/* QPs come and go, each in the middle of a message, while one of them stays at work. */
static void *come_and_go(void *argument)
{
	struct crowd *crowd = argument;

	for (int i = 0; i < CHURN; i++) {
		engine_qp_destroy(crowd->receivers[1]);
		engine_qp_destroy(crowd->senders[1]);
		connect_pair(crowd, 1);
		for (uint32_t j = 0; j < 3; j++)
			post_send(crowd, 1);
	}
	crowd->is_over = true;
	return NULL;
}

/* Receives that went with a QP have no completion: the SRQ tells by its room. */
static void refill(struct crowd *crowd)
{
	static uint32_t next;

	for (; used_count(crowd) < DEPTH; next = (next + 1) % BUFFERS) {
		crowd->buffers[next].is_free = false;
		assert_int_equal(post(crowd, next), 0);
	}
}

static void qps_come_and_go(void **state)
{
	struct crowd *crowd = crowd_open(&over_udp, QPS * DEPTH);
	time_t give_up = time(NULL) + GIVE_UP_SECONDS;
	uint32_t sent = 0;
	pthread_t thread;

	(void)state;
	refill(crowd);
	assert_int_equal(pthread_create(&thread, NULL, come_and_go, crowd), 0);
	while ((!crowd->is_over || crowd->received[0] < sent) && time(NULL) < give_up) {
		struct ibv_wc wc;

		if (crowd->received[0] == sent && !crowd->is_over)
			send_message(crowd, 0, sent++);
		while (engine_cq_poll(crowd->cqs[0], 1, &wc))
			take(crowd, &wc);
		while (engine_cq_poll(crowd->cqs[1], 1, &wc))
			continue;
		while (engine_cq_poll(crowd->pair.a.cq, 1, &wc))
			assert_true(wc.wr_id == 1 || wc.status == IBV_WC_SUCCESS);
		refill(crowd);
	}
	pthread_join(thread, NULL);
	assert_int_equal(crowd->received[0], sent);
	crowd_close(crowd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_share_one_over_udp),
		cmocka_unit_test(many_share_one_over_self),
		cmocka_unit_test(an_overrun_loses_no_slots),
		cmocka_unit_test(qps_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
