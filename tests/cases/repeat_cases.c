/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What must come out right however often packets are lost and sent again. The same
 * tests hold without loss; the build runs them both ways.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cases/loop.h"
#include "cases/said.h"
#include "tools/pattern.h"

#define ADDITIONS 5000u
#define WRITES 200u
#define GUARD 0xa7

static void fetch_add_gives_numbers_of_this_host(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 64, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
	uint64_t *target = (uint64_t *)(loop->far.block + 64);
	uint64_t *result = (uint64_t *)(loop->near.block + 64);

	*target = 0x0102030405060708ull;
	request.wr.atomic.compare_add = 0x10;
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
	assert_true(*result == 0x0102030405060708ull);
	assert_true(*target == 0x0102030405060718ull);
}

static void compare_and_swap_gives_numbers_of_this_host(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 64, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_ATOMIC_CMP_AND_SWP, &sge);
	uint64_t *target = (uint64_t *)(loop->far.block + 64);
	uint64_t *result = (uint64_t *)(loop->near.block + 64);

	*target = 0x0102030405060708ull;
	request.wr.atomic.compare_add = 0x0102030405060708ull;
	request.wr.atomic.swap = 0x1112131415161718ull;
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
	assert_true(*result == 0x0102030405060708ull);
	assert_true(*target == 0x1112131415161718ull);
	/* A second time the comparison fails, and what is there is told. */
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
	assert_true(*result == 0x1112131415161718ull);
	assert_true(*target == 0x1112131415161718ull);
}

/* Adds one, again and again, on two connections; the results land one after the other. */
struct adder {
	const struct loop *loop;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	uint32_t posted, completed;
	struct ibv_mr *results; /* one after the other, from first on */
	uint32_t first;
};

static void post_addition(struct adder *adder)
{
	const struct loop *loop = adder->loop;
	uint64_t *results = adder->results->addr;
	struct ibv_sge sge = {(uintptr_t)&results[adder->first + adder->posted], 8,
			      adder->results->lkey};
	struct ibv_send_wr request = loop_request(loop, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge), *bad;

	request.wr.atomic.remote_addr = (uintptr_t)loop->far.block;
	request.wr.atomic.compare_add = 1;
	assert_int_equal(ibv_post_send(adder->qp, &request, &bad), 0);
	adder->posted++;
}

static void advance(struct adder *adder)
{
	struct ibv_wc completion;
	int count = ibv_poll_cq(adder->cq, 1, &completion);

	assert_true(count >= 0);
	if (count) {
		assert_int_equal(completion.status, IBV_WC_SUCCESS);
		adder->completed++;
	}
	if (adder->posted < ADDITIONS && adder->posted - adder->completed < LOOP_DEPTH)
		post_addition(adder);
}

static void expect_each_number_once(const uint64_t *results, uint32_t count)
{
	uint8_t *seen = calloc(count, 1);

	for (uint32_t i = 0; i < count; i++) {
		assert_true(results[i] < count);
		assert_false(seen[results[i]]);
		seen[results[i]] = 1;
	}
	free(seen);
}

static void additions_of_two_connections_happen_once(void **state)
{
	struct loop *loop = *state;
	struct ibv_cq *cq = ibv_create_cq(loop->nic.context, 64, NULL, NULL, 0);
	struct ibv_qp *near = nic_create_qp(&loop->nic, cq, cq, LOOP_DEPTH);
	struct ibv_qp *far = nic_create_qp(&loop->nic, cq, cq, LOOP_DEPTH);
	uint64_t *results = calloc(2 * ADDITIONS, sizeof(*results));
	struct ibv_mr *mr = ibv_reg_mr(loop->nic.pd, results, 2 * ADDITIONS * sizeof(*results),
				       IBV_ACCESS_LOCAL_WRITE);
	struct adder adders[2] = {
		{.loop = loop, .qp = loop->near.qp, .cq = loop->near.send_cq, .results = mr},
		{.loop = loop, .qp = near, .cq = cq, .results = mr, .first = ADDITIONS},
	};

	assert_non_null(mr);
	nic_connect_pair(&loop->nic, near, far);
	while (adders[0].completed < ADDITIONS || adders[1].completed < ADDITIONS)
		for (int i = 0; i < 2; i++)
			advance(&adders[i]);
	assert_int_equal(*(uint64_t *)loop->far.block, 2 * ADDITIONS);
	expect_each_number_once(results, 2 * ADDITIONS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	free(results);
	assert_int_equal(ibv_destroy_qp(near), 0);
	assert_int_equal(ibv_destroy_qp(far), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* Five packets at most, at odd places; around them nothing may change. */
static void writes_change_their_range_only(void **state)
{
	struct loop *loop = *state;
	uint32_t packet = 128u << loop->nic.mtu;

	for (uint32_t i = 0; i < WRITES; i++) {
		uint32_t offset = 1 + i % 64, length = 4 * packet + 1 + i % packet;
		struct ibv_sge sge = loop_piece(&loop->near, offset, length);
		struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &sge);

		memset(loop->far.block, GUARD, LOOP_BLOCK_BYTES);
		pattern_fill(loop->near.block + offset, length, 27, i);
		loop_must_post(&loop->near, &request);
		expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
		assert_int_equal(pattern_find_wrong(loop->far.block + offset, length, 27, i), -1);
		for (uint32_t at = 0; at < LOOP_BLOCK_BYTES; at++)
			if ((at < offset || at >= offset + length) && loop->far.block[at] != GUARD)
				fail_msg("WRITE %u of %u bytes at %u changed byte %u", i, length,
					 offset, at);
	}
	expect_silence();
}

static void messages_arrive_once_and_in_order(void **state)
{
	struct loop *loop = *state;

	for (uint32_t i = 0; i < WRITES; i++) {
		uint32_t length = 1 + (uint32_t)pattern_size(28, i, LOOP_BLOCK_BYTES - 1);
		struct ibv_sge source = loop_piece(&loop->near, 0, length);
		struct ibv_sge target = loop_piece(&loop->far, 0, LOOP_BLOCK_BYTES);
		struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND_WITH_IMM, &source);
		struct ibv_wc completion;

		request.imm_data = i;
		pattern_fill(loop->near.block, length, 28, i);
		loop_must_post_receive(&loop->far, i, &target);
		loop_must_post(&loop->near, &request);
		completion = loop_await(loop->far.recv_cq);
		assert_int_equal(completion.status, IBV_WC_SUCCESS);
		assert_int_equal(completion.wr_id, i);
		assert_int_equal(completion.imm_data, i);
		assert_int_equal(completion.byte_len, length);
		assert_int_equal(pattern_find_wrong(loop->far.block, length, 28, i), -1);
		expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
	}
	expect_no_completion(loop->far.recv_cq);
}

#define CONNECTED(test) cmocka_unit_test_setup_teardown(test, loop_set_up, loop_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONNECTED(fetch_add_gives_numbers_of_this_host),
		CONNECTED(compare_and_swap_gives_numbers_of_this_host),
		CONNECTED(additions_of_two_connections_happen_once),
		CONNECTED(writes_change_their_range_only),
		CONNECTED(messages_arrive_once_and_in_order),
	};

	loop_program_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
