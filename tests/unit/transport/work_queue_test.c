/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/work_queue.h"

static const uint32_t depths[] = {1, 2, 3, 7, 8, 9, 100, 1000};
static const uint32_t lists[] = {0, 1, 2, 3, 30};
static const uint32_t inlines[] = {0, 1, 15, 16, 17, 64, 500};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void no_entries_take_no_bytes(void **state)
{
	struct work_queue queue;

	(void)state;
	assert_int_equal(work_queue_send_bytes(0, 30, 500), 0);
	assert_int_equal(work_queue_recv_bytes(0, 30), 0);
	work_queue_init_send(&queue, NULL, 0, 1, 0);
	assert_true(work_queue_is_full(&queue));
}

static void ring_is_a_power_of_two_that_holds_the_limit(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(depths); i++) {
		struct work_queue queue;
		uint32_t capacity;

		work_queue_init_recv(&queue, NULL, depths[i], 3);
		capacity = queue.slot_mask + 1;
		assert_int_equal(capacity & queue.slot_mask, 0);
		assert_true(capacity >= depths[i] && capacity < 2 * depths[i]);
		assert_int_equal(work_queue_recv_bytes(depths[i], 3),
				 (uint64_t)capacity * queue.slot_bytes);
		assert_int_equal(queue.limit, depths[i]);
	}
}

/* Every byte that an entry may use is written in every slot; the sanitizer watches the ends. */
static void fill_ring(uint32_t depth, uint32_t sge_max, uint32_t inline_max)
{
	size_t bytes = work_queue_send_bytes(depth, sge_max, inline_max);
	void *slots = aligned_alloc(16, bytes);
	struct work_queue queue;

	assert_non_null(slots);
	work_queue_init_send(&queue, slots, depth, sge_max, inline_max);
	assert_int_equal(queue.slot_bytes % 16, 0);
	for (uint32_t position = 0; position < depth; position++) {
		struct send_wqe *wqe = send_wqe_at(&queue, position);

		assert_int_equal((uintptr_t)wqe % 16, 0);
		memset(wqe, (int)position, sizeof(*wqe));
		memset((uint8_t *)wqe + offsetof(struct send_wqe, sge), (int)position,
		       sge_max * sizeof(struct ibv_sge));
		memset((uint8_t *)wqe + offsetof(struct send_wqe, inline_bytes), (int)position,
		       inline_max);
	}
	for (uint32_t position = 0; position < depth; position++)
		assert_int_equal((uint8_t)send_wqe_at(&queue, position)->wr_id, (uint8_t)position);
	free(slots);
}

static void entries_do_not_overlap(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(depths); i++)
		for (size_t j = 0; j < COUNT(lists); j++)
			for (size_t k = 0; k < COUNT(inlines); k++)
				fill_ring(depths[i], lists[j], inlines[k]);
}

static void largest_sizes_do_not_wrap(void **state)
{
	uint64_t bytes =
		work_queue_send_bytes(WORK_QUEUE_WR_MAX, WORK_QUEUE_SGE_MAX, WORK_QUEUE_INLINE_MAX);

	(void)state;
	assert_true(bytes > (uint64_t)WORK_QUEUE_WR_MAX * WORK_QUEUE_SGE_MAX * 16);
}

static void slots_return_when_released(void **state)
{
	uint64_t slots[4 * 8];
	struct work_queue queue;

	(void)state;
	assert_true(work_queue_recv_bytes(3, 1) <= sizeof(slots));
	work_queue_init_recv(&queue, slots, 3, 1);
	queue.posted = 2;
	assert_false(work_queue_is_full(&queue));
	queue.posted = 3; /* the ring has a fourth slot, which nobody was granted */
	assert_true(work_queue_is_full(&queue));
	queue.done = 3; /* an outcome alone frees nothing */
	assert_true(work_queue_is_full(&queue));
	atomic_store(&queue.released, 1);
	assert_false(work_queue_is_full(&queue));
}

static void positions_wrap(void **state)
{
	uint64_t slots[4 * 8];
	struct work_queue queue;

	(void)state;
	work_queue_init_recv(&queue, slots, 3, 1);
	atomic_store(&queue.released, UINT32_MAX);
	queue.posted = 1;
	assert_false(work_queue_is_full(&queue));
	queue.posted = 2;
	assert_true(work_queue_is_full(&queue));
	assert_ptr_equal(recv_wqe_at(&queue, UINT32_MAX), recv_wqe_at(&queue, 3));
	assert_ptr_equal(recv_wqe_at(&queue, 0), recv_wqe_at(&queue, 4));
}

static void clearing_forgets_all_and_frees_all(void **state)
{
	uint64_t slots[4 * 8];
	struct work_queue queue;

	(void)state;
	work_queue_init_recv(&queue, slots, 3, 1);
	queue.posted = 3;
	queue.started = 2;
	queue.done = 1;
	work_queue_clear(&queue);
	assert_int_equal(queue.done, queue.posted);
	assert_int_equal(queue.started, queue.posted);
	/* A completion from before, polled late, may cost room but never wins any. */
	atomic_store(&queue.released, 1);
	assert_true(queue.posted - atomic_load(&queue.released) <= queue.limit);
	queue.posted++;
	assert_true(work_queue_is_full(&queue));
}

static void completions_name_the_operation(void **state)
{
	static const struct {
		enum ibv_wr_opcode request;
		enum ibv_wc_opcode completion;
	} pairs[] = {
		{IBV_WR_SEND, IBV_WC_SEND},
		{IBV_WR_SEND_WITH_IMM, IBV_WC_SEND},
		{IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE},
		{IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE},
		{IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
		{IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(pairs); i++) {
		struct send_wqe wqe = {.opcode = (uint8_t)pairs[i].request};

		assert_int_equal(send_wqe_completion_opcode(&wqe), pairs[i].completion);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_entries_take_no_bytes),
		cmocka_unit_test(ring_is_a_power_of_two_that_holds_the_limit),
		cmocka_unit_test(entries_do_not_overlap),
		cmocka_unit_test(largest_sizes_do_not_wrap),
		cmocka_unit_test(slots_return_when_released),
		cmocka_unit_test(positions_wrap),
		cmocka_unit_test(clearing_forgets_all_and_frees_all),
		cmocka_unit_test(completions_name_the_operation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
