/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Engines at work: every operation over the self link and over UDP, the helper that serves
 * a program that does not poll, threads that share QPs and CQs, ends in mid-flight. Meant
 * to run under the thread sanitizer as well.
 */
#include "unit/engine/pair.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct pair_settings self_pair = {
	.is_self = true, .depth = 64, .timeout = 14, .retry_cnt = 7};
static const struct pair_settings lossy_pair = {
	.fault = "loss=3%,dup=2%,reorder=3%,corrupt=1%,seed=11",
	.depth = 64,
	.timeout = 14,
	.retry_cnt = 7,
};

static void fill(uint8_t *bytes, uint32_t length, uint8_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

static void expect_success(struct side *side, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = side_wait(side);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.opcode, opcode);
}

static void exchange_all_kinds(struct pair *pair, uint32_t length, uint8_t seed)
{
	struct side *a = &pair->a, *b = &pair->b;
	uint64_t *counter = (uint64_t *)(b->buffer + PAIR_BUFFER_BYTES - 8);
	uint64_t before = *counter;

	fill(a->buffer, length, seed);
	side_post_recv(b, b->qp, 1, 0, length);
	side_post(a, a->qp, IBV_WR_SEND, 2, 0, length, b, 0);
	expect_success(b, 1, IBV_WC_RECV);
	expect_success(a, 2, IBV_WC_SEND);
	assert_memory_equal(a->buffer, b->buffer, length);

	fill(a->buffer, length, seed + 1);
	side_post(a, a->qp, IBV_WR_RDMA_WRITE, 3, 0, length, b, 0);
	expect_success(a, 3, IBV_WC_RDMA_WRITE);
	assert_memory_equal(a->buffer, b->buffer, length);

	fill(b->buffer, length, seed + 2);
	side_post(a, a->qp, IBV_WR_RDMA_READ, 4, 0, length, b, 0);
	expect_success(a, 4, IBV_WC_RDMA_READ);
	assert_memory_equal(a->buffer, b->buffer, length);

	side_post(a, a->qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0, 8, b, PAIR_BUFFER_BYTES - 8);
	expect_success(a, 5, IBV_WC_FETCH_ADD);
	assert_memory_equal(a->buffer, &before, 8);
	assert_int_equal(*counter, before + 1);
}

static void exchange(const struct pair_settings *settings, int rounds)
{
	static const uint32_t lengths[] = {1, 8, 1023, 1024, 1025, 5000, 65536, 200000};
	struct pair pair;

	pair_open(&pair, settings);
	for (int round = 0; round < rounds; round++)
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			exchange_all_kinds(&pair, lengths[i], (uint8_t)(round + i));
	pair_close(&pair);
}

static void all_operations_over_self(void **state)
{
	(void)state;
	exchange(&self_pair, 3);
}

static void all_operations_over_udp(void **state)
{
	(void)state;
	exchange(&pair_usual, 3);
}

static void all_operations_over_a_bad_network(void **state)
{
	(void)state;
	exchange(&lossy_pair, 3);
}

/* B calls no verb at all; its helper answers. */
static void one_sided_operations_need_no_poller(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, &pair_usual);
	for (int i = 0; i < 200; i++) {
		side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 1, 0, 3000, &pair.b, 4096);
		expect_success(&pair.a, 1, IBV_WC_RDMA_WRITE);
		side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_READ, 2, 0, 3000, &pair.b, 4096);
		expect_success(&pair.a, 2, IBV_WC_RDMA_READ);
	}
	pair_close(&pair);
}

static void wait_readable(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};

	assert_int_equal(poll(&ready, 1, 10000), 1);
}

/* Both sides sleep in poll() on their channels; nobody polls a CQ without an event. */
static void channels_wake_sleepers(void **state)
{
	struct pair_settings settings = pair_usual;
	struct pair pair;
	struct event event;

	(void)state;
	settings.has_channel = true;
	pair_open(&pair, &settings);
	for (uint64_t i = 0; i < 300; i++) {
		side_post_recv(&pair.b, pair.b.qp, i, 0, 64);
		assert_int_equal(engine_cq_arm(pair.b.cq, false), 0);
		assert_int_equal(engine_cq_arm(pair.a.cq, false), 0);
		side_post(&pair.a, pair.a.qp, IBV_WR_SEND, i, 0, 64, &pair.b, 0);
		wait_readable(event_queue_descriptor(pair.b.channel));
		assert_int_equal(event_queue_pop(pair.b.channel, &event, NULL), 0);
		assert_ptr_equal(event.object, &pair.b);
		expect_success(&pair.b, i, IBV_WC_RECV);
		wait_readable(event_queue_descriptor(pair.a.channel));
		assert_int_equal(event_queue_pop(pair.a.channel, &event, NULL), 0);
		expect_success(&pair.a, i, IBV_WC_SEND);
	}
	pair_close(&pair);
}

#define THREADS 4
#define THREAD_MESSAGES 300

struct worker {
	struct pair *pair;
	struct engine_qp *from, *to;
	uint32_t index;
	pthread_t thread;
};

/* Writes to its own part of B's buffer and reads it back, on QPs of its own, one CQ for all. */
static void *work(void *argument)
{
	struct worker *worker = argument;
	uint32_t part = PAIR_BUFFER_BYTES / THREADS;
	uint32_t offset = worker->index * part;

	for (uint32_t i = 0; i < THREAD_MESSAGES; i++)
		side_post(&worker->pair->a, worker->from, IBV_WR_RDMA_WRITE, worker->index, offset,
			  1 + (i * 97) % 4000, &worker->pair->b, offset);
	return NULL;
}

static void *collect(void *argument)
{
	struct pair *pair = argument;

	for (uint32_t i = 0; i < THREADS * THREAD_MESSAGES; i++)
		assert_int_equal(side_wait(&pair->a).status, IBV_WC_SUCCESS);
	return NULL;
}

static void threads_share_a_cq(const struct pair_settings *base)
{
	struct pair_settings settings = *base;
	struct worker workers[THREADS];
	pthread_t collector;
	struct pair pair;

	settings.depth = THREAD_MESSAGES + 1;
	pair_open(&pair, &settings);
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.pair = &pair, .index = i};
		workers[i].from = side_new_qp(&pair.a, &settings);
		workers[i].to = side_new_qp(&pair.b, &settings);
		side_connect(&pair.a, workers[i].from, &pair.b, engine_qp_number(workers[i].to),
			     &settings);
		side_connect(&pair.b, workers[i].to, &pair.a, engine_qp_number(workers[i].from),
			     &settings);
	}
	assert_int_equal(pthread_create(&collector, NULL, collect, &pair), 0);
	for (uint32_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_join(collector, NULL);
	for (uint32_t i = 0; i < THREADS; i++) {
		assert_int_equal(engine_qp_destroy(workers[i].from), 0);
		assert_int_equal(engine_qp_destroy(workers[i].to), 0);
	}
	pair_close(&pair);
}

static void threads_share_a_cq_over_udp(void **state)
{
	(void)state;
	threads_share_a_cq(&pair_usual);
}

static void threads_share_a_cq_over_self(void **state)
{
	(void)state;
	threads_share_a_cq(&self_pair);
}

/* Packets, completions and timers are under way when the QP goes. */
static void qps_may_go_at_any_moment(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, &pair_usual);
	for (int i = 0; i < 200; i++) {
		struct engine_qp *from = side_new_qp(&pair.a, &pair_usual);
		struct engine_qp *to = side_new_qp(&pair.b, &pair_usual);

		side_connect(&pair.a, from, &pair.b, engine_qp_number(to), &pair_usual);
		side_connect(&pair.b, to, &pair.a, engine_qp_number(from), &pair_usual);
		for (int k = 0; k < 20; k++)
			side_post(&pair.a, from, IBV_WR_RDMA_READ, 1, 0, 10000, &pair.b, 0);
		assert_int_equal(engine_qp_destroy(i & 1 ? from : to), 0);
		assert_int_equal(engine_qp_destroy(i & 1 ? to : from), 0);
	}
	pair_close(&pair);
}

/* The child of a fork has dead objects and its own way; the parent goes on. */
static void a_forked_child_disturbs_nobody(void **state)
{
	struct pair pair;
	int status;
	pid_t child;

	(void)state;
	pair_open(&pair, &pair_usual);
	exchange_all_kinds(&pair, 5000, 1);
	child = fork();
	if (child == 0) {
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
		struct ibv_wc wc;
		bool is_right = engine_is_inherited(pair.a.engine) &&
				engine_post_send(pair.a.qp, &wr, &bad) == EIO && bad == &wr &&
				engine_cq_poll(pair.a.cq, 1, &wc) == -EIO &&
				engine_qp_destroy(pair.a.qp) == 0;

		_exit(is_right ? 0 : 1);
	}
	exchange_all_kinds(&pair, 5000, 2);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	exchange_all_kinds(&pair, 5000, 3);
	pair_close(&pair);
}

/* Who wants an address alone is refused while others have it, and gets it when they are gone. */
static void an_address_for_one_alone(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct pair_settings settings = pair_usual;
	struct side rival = {0};
	struct pair pair;

	(void)state;
	pair_open(&pair, &pair_usual);
	settings.is_alone = true;
	side_open(&rival, "127.88.0.2", &settings);
	assert_int_equal(engine_qp_modify(rival.qp, &attr,
					  IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
						  IBV_QP_ACCESS_FLAGS),
			 0);
	attr = side_rtr_attr(&pair.b, engine_qp_number(pair.b.qp));
	assert_int_equal(engine_qp_modify(rival.qp, &attr, SIDE_RTR_MASK), -EADDRINUSE);
	pair_close(&pair);
	assert_int_equal(engine_qp_modify(rival.qp, &attr, SIDE_RTR_MASK), 0);
	side_close(&rival);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_operations_over_self),
		cmocka_unit_test(all_operations_over_udp),
		cmocka_unit_test(all_operations_over_a_bad_network),
		cmocka_unit_test(one_sided_operations_need_no_poller),
		cmocka_unit_test(channels_wake_sleepers),
		cmocka_unit_test(threads_share_a_cq_over_udp),
		cmocka_unit_test(threads_share_a_cq_over_self),
		cmocka_unit_test(qps_may_go_at_any_moment),
		cmocka_unit_test(a_forked_child_disturbs_nobody),
		cmocka_unit_test(an_address_for_one_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
