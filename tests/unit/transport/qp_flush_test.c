/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/rc.h"

#define DEPTH 100 /* more than one outbox holds, for both queues */

static struct outbox out;

static int make_qp(void **state)
{
	struct ibv_qp_cap cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH};
	size_t bytes = qp_bytes(&cap);
	void *memory = aligned_alloc(64, bytes);

	if (!memory)
		return -1;
	memset(memory, 0, bytes);
	*state = qp_init(memory, &cap, IBV_QPT_RC, 5, 1, false);
	((struct qp *)*state)->state = IBV_QPS_ERR;
	outbox_clear(&out);
	return 0;
}

static int free_qp(void **state)
{
	free(*state);
	return 0;
}

static void post(struct qp *qp, uint64_t first, int count)
{
	for (int i = 0; i < count; i++) {
		/* Every third one is signalled; flushing does not ask. */
		struct ibv_send_wr send = {.wr_id = first + i,
					   .opcode = IBV_WR_RDMA_READ,
					   .send_flags = i % 3 ? 0 : IBV_SEND_SIGNALED};
		struct ibv_recv_wr recv = {.wr_id = 1000 + first + i};

		assert_int_equal(qp_post_send(qp, &send, NULL, NULL), 0);
		assert_int_equal(qp_post_recv(qp, &recv, NULL), 0);
	}
}

struct seen {
	uint64_t sends, receives; /* wr_id of the next */
};

static void expect_flushes(struct qp *qp, struct seen *seen)
{
	for (uint32_t i = 0; i < out.completion_count; i++) {
		const struct completion *completion = &out.completions[i];
		uint64_t *next = completion->is_receive ? &seen->receives : &seen->sends;

		assert_int_equal(completion->status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(completion->opcode,
				 completion->is_receive ? IBV_WC_RECV : IBV_WC_RDMA_READ);
		assert_int_equal(completion->wr_id, *next + (completion->is_receive ? 1000 : 0));
		assert_int_equal(completion->complaint.reason, REASON_FLUSHED);
		assert_int_equal(completion->complaint.qpn, 5);
		++*next;
		assert_int_equal(completion->slots_released, *next);
		atomic_store(completion->is_receive ? &qp->recv_queue.released
						    : &qp->send_queue.released,
			     completion->slots_released);
	}
	outbox_clear(&out);
}

static void flush(struct qp *qp, struct seen *seen)
{
	bool is_full;

	do {
		is_full = qp_flush_output(qp, &out);
		if (is_full)
			assert_int_equal(outbox_completions_room(&out), 0);
		expect_flushes(qp, seen);
	} while (is_full);
}

static void every_request_once_and_in_order(void **state)
{
	struct qp *qp = *state;
	struct seen seen = {0};

	post(qp, 0, DEPTH);
	flush(qp, &seen);
	assert_int_equal(seen.sends, DEPTH);
	assert_int_equal(seen.receives, DEPTH);
	assert_true(qp->has_flushed_sends);
	assert_false(qp_flush_output(qp, &out));
	assert_int_equal(out.completion_count, 0);
	/* Posting in ERR is accepted and ends the same way. */
	post(qp, DEPTH, DEPTH);
	flush(qp, &seen);
	assert_int_equal(seen.sends, 2 * DEPTH);
	assert_int_equal(seen.receives, 2 * DEPTH);
}

static void started_requests_are_flushed_too(void **state)
{
	struct qp *qp = *state;
	struct seen seen = {0};

	post(qp, 0, 5);
	qp->send_queue.started = 2;
	flush(qp, &seen);
	assert_int_equal(seen.sends, 5);
	assert_int_equal(qp->send_queue.started, 5);
	assert_int_equal(qp->send_queue.done, 5);
}

static void what_has_its_outcome_is_left_alone(void **state)
{
	struct qp *qp = *state;
	struct seen seen = {.sends = 3, .receives = 0};

	post(qp, 0, 5);
	qp->send_queue.done = qp->send_queue.started = 3;
	flush(qp, &seen);
	assert_int_equal(seen.sends, 5);
}

static void nothing_posted_nothing_flushed(void **state)
{
	struct qp *qp = *state;

	assert_false(qp_flush_output(qp, &out));
	assert_int_equal(out.completion_count, 0);
	assert_false(qp->has_flushed_sends);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_qp, free_qp)
	const struct CMUnitTest tests[] = {
		TEST(every_request_once_and_in_order),
		TEST(started_requests_are_flushed_too),
		TEST(what_has_its_outcome_is_left_alone),
		TEST(nothing_posted_nothing_flushed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
