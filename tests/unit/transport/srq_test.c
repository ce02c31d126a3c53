/* SPDX-License-Identifier: BSD-2-Clause */
/* A shared receive queue by itself: order, slots, limit, size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/srq.h"

#define DEPTH 5
#define SGES 3

struct room {
	struct srq srq;
	void *memory;
};

static void *srq_memory(uint32_t wr_max)
{
	void *memory = malloc(srq_bytes(wr_max, SGES));

	assert_non_null(memory);
	memset(memory, 0xee, srq_bytes(wr_max, SGES));
	return memory;
}

static int make_srq(void **state)
{
	struct room *room = calloc(1, sizeof(*room));

	assert_non_null(room);
	room->memory = srq_memory(DEPTH);
	srq_init(&room->srq, room->memory, DEPTH, SGES, 7);
	*state = room;
	return 0;
}

static int free_srq(void **state)
{
	struct room *room = *state;

	free(room->memory);
	free(room);
	return 0;
}

static void post(struct srq *srq, uint64_t wr_id)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id};

	assert_int_equal(srq_post(srq, &wr, NULL), 0);
}

static uint32_t take(struct srq *srq, uint64_t wr_id)
{
	uint32_t slot = srq_take(srq);

	assert_int_not_equal(slot, SRQ_NO_SLOT);
	assert_int_equal(srq_wqe_at(srq, slot)->wr_id, wr_id);
	return slot;
}

static void refused(struct srq *srq, const struct ibv_recv_wr *wr, int error, enum reason reason)
{
	struct complaint complaint;
	struct srq before = *srq;

	memset(&complaint, 0xee, sizeof(complaint));
	assert_int_equal(srq_post(srq, wr, &complaint), error);
	assert_int_equal(complaint.reason, reason);
	assert_int_equal(srq_post(srq, wr, NULL), error);
	assert_memory_equal(srq, &before, sizeof(before));
}

static void taken_in_the_order_posted(void **state)
{
	struct srq *srq = &((struct room *)*state)->srq;
	uint64_t posted = 0, taken = 0;

	/* At every fill, many times round. */
	for (int turn = 0; turn < 100; turn++) {
		for (int i = 0; i < turn % DEPTH + 1; i++)
			post(srq, posted++);
		while (taken < posted)
			srq_release(srq, take(srq, taken++));
		assert_int_equal(srq_take(srq), SRQ_NO_SLOT);
	}
}

static void freed_in_any_order(void **state)
{
	struct srq *srq = &((struct room *)*state)->srq;
	uint64_t posted = 0, taken = 0;
	uint32_t held[DEPTH];

	for (int i = 0; i < DEPTH; i++)
		post(srq, posted++);
	for (int i = 0; i < DEPTH; i++)
		held[i] = take(srq, taken++);
	for (int turn = 0; turn < 1000; turn++) {
		int victim = turn * 7 % DEPTH;
		struct ibv_recv_wr wr = {0};

		refused(srq, &wr, ENOMEM, REASON_CALL_LIMIT);
		srq_release(srq, held[victim]);
		post(srq, posted++);
		held[victim] = take(srq, taken++);
		for (int i = 0; i < DEPTH; i++)
			assert_true(i == victim || held[i] != held[victim]);
	}
}

static void a_taken_slot_is_not_free(void **state)
{
	struct srq *srq = &((struct room *)*state)->srq;
	struct ibv_recv_wr wr = {0};
	uint32_t slot;

	for (int i = 0; i < DEPTH; i++)
		post(srq, (uint64_t)i);
	refused(srq, &wr, ENOMEM, REASON_CALL_LIMIT);
	slot = take(srq, 0);
	refused(srq, &wr, ENOMEM, REASON_CALL_LIMIT);
	srq_release(srq, slot);
	post(srq, DEPTH);
}

static void lists_are_checked_and_copied(void **state)
{
	struct srq *srq = &((struct room *)*state)->srq;
	struct ibv_sge list[SGES] = {{1, 10, 100}, {2, 20, 200}, {3, 30, 300}};
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = list, .num_sge = SGES + 1};
	struct recv_wqe *wqe;

	refused(srq, &wr, EINVAL, REASON_CALL_LIMIT);
	wr.num_sge = -1;
	refused(srq, &wr, EINVAL, REASON_CALL_LIMIT);
	wr.num_sge = INT32_MIN;
	refused(srq, &wr, EINVAL, REASON_CALL_LIMIT);
	wr = (struct ibv_recv_wr){.num_sge = 1};
	refused(srq, &wr, EINVAL, REASON_CALL_INVALID);
	for (int slot = 0; slot < DEPTH; slot++) {
		wr = (struct ibv_recv_wr){.wr_id = 9, .sg_list = list, .num_sge = SGES};
		assert_int_equal(srq_post(srq, &wr, NULL), 0);
	}
	memset(list, 0, sizeof(list));
	for (int slot = 0; slot < DEPTH; slot++) {
		wqe = srq_wqe_at(srq, take(srq, 9));
		assert_int_equal((uintptr_t)wqe % _Alignof(struct recv_wqe), 0);
		assert_int_equal(wqe->length, 60);
		assert_int_equal(wqe->sge_count, SGES);
		assert_int_equal(wqe->sge[2].addr, 3);
		assert_int_equal(wqe->sge[2].lkey, 300);
	}
}

static void the_limit_speaks_once(void **state)
{
	struct srq *srq = &((struct room *)*state)->srq;

	for (int i = 0; i < DEPTH; i++)
		post(srq, (uint64_t)i);
	srq_arm(srq, 3);
	assert_false(srq_take_event(srq));
	take(srq, 0);
	take(srq, 1); /* three wait: not below */
	assert_false(srq_take_event(srq));
	assert_int_equal(srq->limit, 3);
	take(srq, 2);
	assert_int_equal(srq->limit, 0);
	take(srq, 3);
	assert_true(srq_take_event(srq));
	assert_false(srq_take_event(srq));
	take(srq, 4);
	assert_false(srq_take_event(srq));
}

static void armed_above_what_waits_it_speaks_at_once(void **state)
{
	struct srq *srq = &((struct room *)*state)->srq;

	srq_arm(srq, 1); /* nothing waits, so that nothing can be taken any more */
	assert_true(srq_take_event(srq));
	assert_int_equal(srq->limit, 0);
	post(srq, 0);
	srq_arm(srq, 1);
	assert_false(srq_take_event(srq));
	srq_arm(srq, 0);
	take(srq, 0);
	assert_false(srq_take_event(srq));
}

/* Takes two out of the middle of the life of the queue, so that chains are in disorder. */
static void stir(struct srq *srq, uint32_t *held)
{
	for (uint64_t i = 0; i < 4; i++)
		post(srq, 100 + i);
	held[0] = take(srq, 100);
	held[1] = take(srq, 101);
	srq_release(srq, held[0]);
	post(srq, 104);
	held[0] = take(srq, 102);
}

static void grows_with_all_that_is_in_it(void **state)
{
	struct room *room = *state;
	struct srq *srq = &room->srq;
	void *memory = srq_memory(2 * DEPTH);
	uint32_t held[2];

	stir(srq, held);
	assert_ptr_equal(srq_resize(srq, memory, 2 * DEPTH), room->memory);
	memset(room->memory, 0xdd, srq_bytes(DEPTH, SGES));
	free(room->memory);
	room->memory = memory;
	assert_int_equal(srq_wqe_at(srq, held[0])->wr_id, 102);
	assert_int_equal(srq_wqe_at(srq, held[1])->wr_id, 101);
	for (uint64_t i = 105; srq->used_count < 2 * DEPTH; i++)
		post(srq, i);
	refused(srq, &(struct ibv_recv_wr){0}, ENOMEM, REASON_CALL_LIMIT);
	srq_release(srq, held[1]);
	srq_release(srq, held[0]);
	for (uint64_t i = 103; srq->waiting_count; i++)
		srq_release(srq, take(srq, i));
	assert_int_equal(srq->used_count, 0);
}

static void shrinks_to_what_is_in_it(void **state)
{
	struct room *room = *state;
	struct srq *srq = &room->srq;
	void *memory = srq_memory(DEPTH);
	uint32_t held[2];
	struct srq before;

	stir(srq, held); /* two are taken, two wait */
	before = *srq;
	assert_null(srq_resize(srq, memory, 3));
	assert_memory_equal(srq, &before, sizeof(before));
	assert_ptr_equal(srq_resize(srq, memory, 4), memory);
	refused(srq, &(struct ibv_recv_wr){0}, ENOMEM, REASON_CALL_LIMIT);
	srq_release(srq, held[0]);
	post(srq, 105);
	refused(srq, &(struct ibv_recv_wr){0}, ENOMEM, REASON_CALL_LIMIT);
	/* What it had once it gets back without moving. */
	assert_ptr_equal(srq_resize(srq, memory, DEPTH), memory);
	post(srq, 106);
	for (uint64_t i = 103; srq->waiting_count; i++)
		take(srq, i);
	free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(taken_in_the_order_posted, make_srq, free_srq),
		cmocka_unit_test_setup_teardown(freed_in_any_order, make_srq, free_srq),
		cmocka_unit_test_setup_teardown(a_taken_slot_is_not_free, make_srq, free_srq),
		cmocka_unit_test_setup_teardown(lists_are_checked_and_copied, make_srq, free_srq),
		cmocka_unit_test_setup_teardown(the_limit_speaks_once, make_srq, free_srq),
		cmocka_unit_test_setup_teardown(armed_above_what_waits_it_speaks_at_once, make_srq,
						free_srq),
		cmocka_unit_test_setup_teardown(grows_with_all_that_is_in_it, make_srq, free_srq),
		cmocka_unit_test_setup_teardown(shrinks_to_what_is_in_it, make_srq, free_srq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
