/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects come and go, and come again: nothing is left over, and an old QP is as good as new. */
#include "unit/engine/pair.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUBNET "127.66.4"
/* Each some ten microseconds. */
#define DESCRIPTOR_LOOKS 1000000

static const struct pair_settings over_self = {
	.is_self = true, .depth = 16, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};
static const struct pair_settings over_udp = {
	.depth = 16, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};

static void modify_state(struct engine_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	assert_int_equal(engine_qp_modify(qp, &attr, IBV_QP_STATE), 0);
}

/* Requests are under way and receives are posted when the state goes to ERROR. */
static void fail_and_reset(struct pair *pair)
{
	int flushed = 0;

	for (uint64_t i = 0; i < 3; i++)
		side_post_recv(&pair->a, pair->a.qp, i, 0, 64);
	for (uint64_t i = 0; i < 8; i++)
		side_post(&pair->a, pair->a.qp, IBV_WR_RDMA_READ, i, 0, 100000, &pair->b, 0);
	modify_state(pair->a.qp, IBV_QPS_ERR);
	modify_state(pair->b.qp, IBV_QPS_ERR);
	for (int i = 0; i < 11; i++)
		flushed += side_wait(&pair->a).status == IBV_WC_WR_FLUSH_ERR;
	assert_in_range(flushed, 3, 11);
	/* A completion that is queued when its QP is reset vanishes. */
	side_post_recv(&pair->b, pair->b.qp, 77, 0, 64);
	modify_state(pair->a.qp, IBV_QPS_RESET);
	modify_state(pair->b.qp, IBV_QPS_RESET);
	/* The next life has the same numbers: what is under way must not reach it. */
	usleep(20000); /* tidy: packets under way cannot be looked at */
}

static void a_qp_lives_again(const struct pair_settings *settings)
{
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, settings);
	for (int round = 0; round < 30; round++) {
		fail_and_reset(&pair);
		side_connect(&pair.a, pair.a.qp, &pair.b, engine_qp_number(pair.b.qp), settings);
		side_connect(&pair.b, pair.b.qp, &pair.a, engine_qp_number(pair.a.qp), settings);
		memset(pair.a.buffer, round, 20000);
		side_post_recv(&pair.b, pair.b.qp, 1, 0, 20000);
		side_post(&pair.a, pair.a.qp, IBV_WR_SEND, 2, 0, 20000, &pair.b, 0);
		wc = side_wait(&pair.b);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, 1);
		assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
		assert_memory_equal(pair.a.buffer, pair.b.buffer, 20000);
	}
	pair_close(&pair);
}

static void a_qp_lives_again_over_self(void **state)
{
	(void)state;
	a_qp_lives_again(&over_self);
}

static void a_qp_lives_again_over_udp(void **state)
{
	(void)state;
	a_qp_lives_again(&over_udp);
}

static int descriptor_count(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* What one engine asked of the other, its helper closes when it comes to it. */
static void expect_descriptor_count(int expected)
{
	int count = descriptor_count();

	for (int i = 0; i < DESCRIPTOR_LOOKS && count != expected; i++) {
		sched_yield();
		count = descriptor_count();
	}
	assert_int_equal(count, expected);
}

static long resident_kib(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[128];
	long kib = -1;

	assert_non_null(file);
	while (kib < 0 && fgets(line, sizeof(line), file))
		if (strncmp(line, "VmRSS:", 6) == 0)
			kib = strtol(line + 6, NULL, 10);
	fclose(file);
	assert_true(kib > 0);
	return kib;
}

/* All kinds of objects, now and then with a connection and traffic over it. */
static void make_and_break(struct pair *pair, int count)
{
	for (int i = 0; i < count; i++) {
		struct engine_qp *from, *to;
		struct event_queue *channel;
		struct engine_pd *pd;
		struct engine_mr *mr;
		struct engine_cq *cq;

		channel = event_queue_create();
		assert_int_equal(engine_pd_create(pair->a.engine, &pd), 0);
		assert_int_equal(
			engine_cq_create(pair->a.engine, 10, channel, pair->a.async, &cq, &cq), 0);
		assert_int_equal(engine_mr_create(pd, pair->a.buffer, 4096, 0, 0, &mr), 0);
		from = side_new_qp_on(&pair->a, &pair->settings, cq);
		if (i % 50 == 0) {
			to = side_new_qp(&pair->b, &pair->settings);
			side_connect(&pair->a, from, &pair->b, engine_qp_number(to),
				     &pair->settings);
			side_connect(&pair->b, to, &pair->a, engine_qp_number(from),
				     &pair->settings);
			side_post(&pair->a, from, IBV_WR_RDMA_READ, 1, 0, 50000, &pair->b, 0);
			assert_int_equal(engine_qp_destroy(to), 0);
		}
		assert_int_equal(engine_qp_destroy(from), 0);
		assert_int_equal(engine_mr_destroy(mr), 0);
		assert_int_equal(engine_cq_destroy(cq), 0);
		assert_int_equal(engine_pd_destroy(pd), 0);
		event_queue_destroy(channel);
	}
}

static void ten_thousand_lives_leave_nothing(void **state)
{
	int descriptors;
	struct pair pair;
	long kib;

	(void)state;
	pair_open(&pair, &over_udp);
	make_and_break(&pair, 1000);
	descriptors = descriptor_count();
	kib = resident_kib();
	make_and_break(&pair, 10000);
	expect_descriptor_count(descriptors);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
	/*
	 * The tables of keys and QP numbers fill pages at random, up to some 40 MiB in the
	 * end. Sanitizers keep what was freed.
	 */
	assert_in_range(resident_kib(), 1, kib + 48 * 1024);
#endif
	assert_true(kib > 0);
	pair_close(&pair);
}

static void engines_leave_nothing(void **state)
{
	int descriptors = 0;

	(void)state;
	for (int i = 0; i < 50; i++) {
		struct pair pair;

		pair_open(&pair, &over_udp);
		side_post(&pair.a, pair.a.qp, IBV_WR_RDMA_WRITE, 1, 0, 100, &pair.b, 0);
		assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
		pair_close(&pair);
		if (i == 0)
			descriptors = descriptor_count();
		expect_descriptor_count(descriptors);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_qp_lives_again_over_self),
		cmocka_unit_test(a_qp_lives_again_over_udp),
		cmocka_unit_test(ten_thousand_lives_leave_nothing),
		cmocka_unit_test(engines_leave_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
