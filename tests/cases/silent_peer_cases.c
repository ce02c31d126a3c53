/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that do not answer, each for another mistake in making the connection. The
 * requester must learn it after its retries, and never wait for ever.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cases/loop.h"
#include "cases/said.h"

static const struct patience short_patience = {
	.timeout = 8, .retry_count = 1, .rnr_retry = 7, .min_rnr_timer = 1};

static void expect_retries_exceeded(struct loop *loop)
{
	struct ibv_sge sge = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &sge);

	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	expect_said("no answer after all retries");
	expect_state(loop->near.qp, IBV_QPS_ERR);
}

static void peer_with_a_wrong_number(void **state)
{
	struct loop *loop = *state;
	struct endpoint own = nic_describe(&loop->nic, loop->near.qp, NULL), peer = own;

	peer.qpn = loop->far.qp->qp_num ^ 0x800000;
	nic_connect(&loop->nic, loop->near.qp, &own, &peer, &short_patience);
	expect_retries_exceeded(loop);
}

/* The program that connects one end only, or in the wrong order. */
static void peer_that_is_not_connected(void **state)
{
	struct loop *loop = *state;
	struct endpoint own = nic_describe(&loop->nic, loop->near.qp, NULL);
	struct endpoint peer = nic_describe(&loop->nic, loop->far.qp, NULL);

	nic_connect(&loop->nic, loop->near.qp, &own, &peer, &short_patience);
	expect_retries_exceeded(loop);
}

static void peer_that_was_destroyed(void **state)
{
	struct loop *loop = *state;
	struct endpoint own = nic_describe(&loop->nic, loop->near.qp, NULL);
	struct endpoint peer = nic_describe(&loop->nic, loop->far.qp, NULL);

	nic_connect(&loop->nic, loop->near.qp, &own, &peer, &short_patience);
	nic_connect(&loop->nic, loop->far.qp, &peer, &own, &short_patience);
	loop_settle(loop);
	assert_int_equal(ibv_destroy_qp(loop->far.qp), 0);
	loop->far.qp = NULL;
	expect_retries_exceeded(loop);
}

/* Both ends number their packets, and each must be told where the other begins. */
static void peer_that_expects_another_first_packet(void **state)
{
	struct loop *loop = *state;
	struct endpoint own = nic_describe(&loop->nic, loop->near.qp, NULL);
	struct endpoint peer = nic_describe(&loop->nic, loop->far.qp, NULL), told = own;

	told.psn = (own.psn + 1000) & 0xffffff;
	nic_connect(&loop->nic, loop->near.qp, &own, &peer, &short_patience);
	nic_connect(&loop->nic, loop->far.qp, &peer, &told, &short_patience);
	expect_retries_exceeded(loop);
}

#define IN_RESET(test) \
	cmocka_unit_test_setup_teardown(test, loop_set_up_unconnected, loop_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RESET(peer_with_a_wrong_number),
		IN_RESET(peer_that_is_not_connected),
		IN_RESET(peer_that_was_destroyed),
		IN_RESET(peer_that_expects_another_first_packet),
	};

	loop_program_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
