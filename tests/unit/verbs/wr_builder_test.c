/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extended way to post: a batch is posted as a whole or not at all.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

static int create_extended(void **state)
{
	*state = pair_create(true);
	return 0;
}

static int destroy(void **state)
{
	pair_destroy(*state);
	return 0;
}

static struct ibv_qp_ex *start(struct pair *pair)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(pair->qp[0]);

	assert_non_null(ex);
	ibv_wr_start(ex);
	return ex;
}

static void add_write(struct pair *pair, struct ibv_qp_ex *ex, uint64_t wr_id)
{
	ex->wr_id = wr_id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, pair->mr[1]->rkey, (uintptr_t)pair->bytes[1] + 64 * wr_id);
	ibv_wr_set_sge(ex, pair->mr[0]->lkey, (uintptr_t)pair->bytes[0] + 64 * wr_id, 64);
}

static void assert_nothing_was_posted(struct pair *pair)
{
	static const uint8_t zeros[BUFFER_BYTES];
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(pair->cq[0], 1, &wc), 0);
	assert_memory_equal(pair->bytes[1], zeros, BUFFER_BYTES);
}

static void a_batch_runs_in_order(void **state)
{
	struct pair *pair = *state;
	struct ibv_qp_ex *ex;

	fill_pattern(pair, 0, 3);
	ex = start(pair);
	for (uint64_t i = 0; i < 16; i++)
		add_write(pair, ex, i);
	assert_int_equal(ibv_wr_complete(ex), 0);
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(next_success(pair->cq[0]).wr_id, i);
	assert_memory_equal(pair->bytes[1], pair->bytes[0], 16 * 64);
}

static void each_setter_carries_its_data(void **state)
{
	struct pair *pair = *state;
	char first[] = "from two", second[] = " buffers";
	struct ibv_data_buf parts[2] = {{first, 8}, {second, 9}};
	struct ibv_sge list[2] = {sge_of(pair, 0, 0, 10), sge_of(pair, 0, 100, 20)};
	struct ibv_qp_ex *ex;

	fill_pattern(pair, 0, 3);
	ex = start(pair);
	ex->wr_flags = 0;
	ibv_wr_rdma_write(ex, pair->mr[1]->rkey, (uintptr_t)pair->bytes[1]);
	ibv_wr_set_inline_data_list(ex, 2, parts);
	ibv_wr_rdma_write(ex, pair->mr[1]->rkey, (uintptr_t)pair->bytes[1] + 1000);
	ibv_wr_set_sge_list(ex, 2, list);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, pair->mr[1]->rkey, (uintptr_t)pair->bytes[1] + 2000);
	ibv_wr_set_inline_data(ex, first, 8);
	memset(first, '?', sizeof(first));
	assert_int_equal(ibv_wr_complete(ex), 0);
	next_success(pair->cq[0]);
	assert_string_equal((char *)pair->bytes[1], "from two buffers");
	assert_memory_equal(pair->bytes[1] + 1000, pair->bytes[0], 10);
	assert_memory_equal(pair->bytes[1] + 1010, pair->bytes[0] + 100, 20);
	assert_memory_equal(pair->bytes[1] + 2000, "from two", 8);
}

static void immediates_reads_and_atomics(void **state)
{
	struct pair *pair = *state;
	struct ibv_recv_wr receive = {0}, *bad;
	struct ibv_qp_ex *ex;
	uint64_t value = 5;

	memcpy(pair->bytes[1], &value, sizeof(value));
	assert_int_equal(ibv_post_recv(pair->qp[1], &receive, &bad), 0);
	ex = start(pair);
	ex->wr_flags = 0;
	ibv_wr_atomic_fetch_add(ex, pair->mr[1]->rkey, (uintptr_t)pair->bytes[1], 10);
	ibv_wr_set_sge(ex, pair->mr[0]->lkey, (uintptr_t)pair->bytes[0], 8);
	ibv_wr_atomic_cmp_swp(ex, pair->mr[1]->rkey, (uintptr_t)pair->bytes[1], 15, 99);
	ibv_wr_set_sge(ex, pair->mr[0]->lkey, (uintptr_t)pair->bytes[0] + 8, 8);
	ibv_wr_rdma_read(ex, pair->mr[1]->rkey, (uintptr_t)pair->bytes[1]);
	ibv_wr_set_sge(ex, pair->mr[0]->lkey, (uintptr_t)pair->bytes[0] + 16, 8);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, htonl(77));
	assert_int_equal(ibv_wr_complete(ex), 0);
	next_success(pair->cq[0]);
	assert_int_equal(ntohl(next_success(pair->cq[1]).imm_data), 77);
	for (int i = 0; i < 3; i++) {
		static const uint64_t expected[3] = {5, 15, 99};

		memcpy(&value, pair->bytes[0] + 8 * i, sizeof(value));
		assert_int_equal(value, expected[i]);
	}
}

static void abort_forgets(void **state)
{
	struct pair *pair = *state;
	struct ibv_qp_ex *ex;

	fill_pattern(pair, 0, 3);
	ex = start(pair);
	add_write(pair, ex, 0);
	ibv_wr_abort(ex);
	ex = start(pair);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_nothing_was_posted(pair);
}

static void one_mistake_undoes_the_batch(void **state)
{
	struct pair *pair = *state;
	struct ibv_sge list[5] = {{0}};
	char much[65] = "";
	struct ibv_qp_ex *ex;

	fill_pattern(pair, 0, 3);
	ex = start(pair);
	add_write(pair, ex, 0);
	add_write(pair, ex, 1);
	ibv_wr_set_sge_list(ex, 5, list);
	add_write(pair, ex, 2);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	ex = start(pair);
	add_write(pair, ex, 0);
	ibv_wr_set_inline_data(ex, much, sizeof(much));
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	ex = start(pair);
	ibv_wr_set_sge(ex, 0, 0, 0);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_nothing_was_posted(pair);
}

/* The queue takes 16: ten are there, and of the next ten not one may be posted. */
static void a_full_queue_undoes_the_batch(void **state)
{
	struct pair *pair = *state;
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;

	ex = start(pair);
	for (uint64_t i = 0; i < 10; i++)
		add_write(pair, ex, i);
	assert_int_equal(ibv_wr_complete(ex), 0);
	ex = start(pair);
	for (uint64_t i = 10; i < 20; i++)
		add_write(pair, ex, i);
	assert_int_equal(ibv_wr_complete(ex), ENOMEM);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(next_success(pair->cq[0]).wr_id, i);
	assert_int_equal(ibv_poll_cq(pair->cq[0], 1, &wc), 0);
	ex = start(pair);
	add_write(pair, ex, 20);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(next_success(pair->cq[0]).wr_id, 20);
	ex = start(pair);
	for (uint64_t i = 0; i < 17; i++)
		add_write(pair, ex, i);
	assert_int_equal(ibv_wr_complete(ex), ENOMEM);
}

int main(void)
{
#define BUILDER(test) cmocka_unit_test_setup_teardown(test, create_extended, destroy)
	const struct CMUnitTest tests[] = {
		BUILDER(a_batch_runs_in_order),	       BUILDER(each_setter_carries_its_data),
		BUILDER(immediates_reads_and_atomics), BUILDER(abort_forgets),
		BUILDER(one_mistake_undoes_the_batch), BUILDER(a_full_queue_undoes_the_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
