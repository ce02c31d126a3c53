/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of no bytes. They touch nothing, so neither their keys nor their addresses
 * are looked at, and a piece of length 0 is no bytes, not 2^31 of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cases/loop.h"
#include "cases/said.h"

static bool takes_receive(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static void expect_success(struct loop *loop, struct ibv_send_wr *request)
{
	if (takes_receive(request->opcode))
		loop_must_post_receive(&loop->far, 2, NULL);
	loop_must_post(&loop->near, request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
	if (takes_receive(request->opcode)) {
		struct ibv_wc completion = loop_await(loop->far.recv_cq);

		assert_int_equal(completion.status, IBV_WC_SUCCESS);
		assert_int_equal(completion.byte_len, 0);
	}
}

static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
					     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};

#define EACH_OPCODE(i) \
	size_t i = 0; \
	i < sizeof(opcodes) / sizeof(opcodes[0]); \
	i++

static void no_pieces(void **state)
{
	struct loop *loop = *state;

	for (EACH_OPCODE(i)) {
		struct ibv_send_wr request = loop_request(loop, opcodes[i], NULL);

		expect_success(loop, &request);
	}
	expect_silence();
}

static void one_piece_of_no_bytes(void **state)
{
	struct loop *loop = *state;

	for (EACH_OPCODE(i)) {
		struct ibv_sge sge = loop_piece(&loop->near, 0, 0);
		struct ibv_send_wr request = loop_request(loop, opcodes[i], &sge);

		expect_success(loop, &request);
	}
	expect_silence();
}

static void local_key_of_nothing(void **state)
{
	struct loop *loop = *state;

	for (EACH_OPCODE(i)) {
		struct ibv_sge sge = {0x1000, 0, 0xdeadbeef};
		struct ibv_send_wr request = loop_request(loop, opcodes[i], &sge);

		expect_success(loop, &request);
	}
	expect_silence();
}

static void remote_key_of_nothing(void **state)
{
	struct loop *loop = *state;

	for (EACH_OPCODE(i)) {
		struct ibv_send_wr request = loop_request(loop, opcodes[i], NULL);

		request.wr.rdma.rkey = 0xdeadbeef;
		expect_success(loop, &request);
	}
	expect_silence();
}

static void address_outside_of_the_region(void **state)
{
	struct loop *loop = *state;

	for (EACH_OPCODE(i)) {
		struct ibv_send_wr request = loop_request(loop, opcodes[i], NULL);

		request.wr.rdma.remote_addr = (uintptr_t)loop->far.block + LOOP_BLOCK_BYTES + 4096;
		expect_success(loop, &request);
	}
	expect_silence();
}

static void message_of_no_bytes_into_a_buffer(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge target = loop_piece(&loop->far, 0, 64);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, NULL);
	struct ibv_wc completion;

	memset(loop->far.block, 9, 64);
	loop_must_post_receive(&loop->far, 2, &target);
	loop_must_post(&loop->near, &request);
	completion = loop_await(loop->far.recv_cq);
	assert_int_equal(completion.status, IBV_WC_SUCCESS);
	assert_int_equal(completion.byte_len, 0);
	assert_int_equal(loop->far.block[0], 9);
	expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
}

/* The pieces around it are taken as if it were not there, at both ends. */
static void piece_of_no_bytes_among_others(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_init_attr attr = {
		.send_cq = loop->near.send_cq,
		.recv_cq = loop->far.recv_cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 3, .max_recv_sge = 3},
		.qp_type = IBV_QPT_RC,
	};
	struct loop_side near = {.qp = ibv_create_qp(loop->nic.pd, &attr)};
	struct loop_side far = {.qp = ibv_create_qp(loop->nic.pd, &attr)};
	struct ibv_sge sources[] = {
		loop_piece(&loop->near, 0, 3), {0, 0, 0xdeadbeef}, loop_piece(&loop->near, 3, 2)};
	struct ibv_sge targets[] = {
		{0, 0, 0xdeadbeef}, loop_piece(&loop->far, 0, 4), loop_piece(&loop->far, 8, 4)};
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, sources);
	struct ibv_recv_wr receive = {.wr_id = 2, .sg_list = targets, .num_sge = 3}, *bad;
	struct ibv_wc completion;

	assert_non_null(near.qp);
	assert_non_null(far.qp);
	nic_connect_pair(&loop->nic, near.qp, far.qp);
	memcpy(loop->near.block, "abcde", 5);
	request.num_sge = 3;
	assert_int_equal(ibv_post_recv(far.qp, &receive, &bad), 0);
	loop_must_post(&near, &request);
	completion = loop_await(loop->far.recv_cq);
	assert_int_equal(completion.status, IBV_WC_SUCCESS);
	assert_int_equal(completion.byte_len, 5);
	assert_memory_equal(loop->far.block, "abcd\0\0\0\0e", 10);
	expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
	expect_silence();
	assert_int_equal(ibv_destroy_qp(near.qp), 0);
	assert_int_equal(ibv_destroy_qp(far.qp), 0);
}

#define CONNECTED(test) cmocka_unit_test_setup_teardown(test, loop_set_up, loop_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONNECTED(no_pieces),
		CONNECTED(one_piece_of_no_bytes),
		CONNECTED(local_key_of_nothing),
		CONNECTED(remote_key_of_nothing),
		CONNECTED(address_outside_of_the_region),
		CONNECTED(message_of_no_bytes_into_a_buffer),
		CONNECTED(piece_of_no_bytes_among_others),
	};

	loop_program_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
