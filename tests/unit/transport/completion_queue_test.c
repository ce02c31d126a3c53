/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/completion_queue.h"

#define CAPACITY 5 /* no power of two: exactly what was granted */

static struct cq_entry room[CAPACITY], other_room[CAPACITY + 3];
static char owners[2]; /* only their addresses count */

static struct completion_queue empty_queue(void)
{
	struct completion_queue queue;

	completion_queue_init(&queue, room, CAPACITY);
	return queue;
}

static struct cq_entry entry_of(uint64_t wr_id, const void *owner)
{
	struct cq_entry entry = {.owner = (void *)(uintptr_t)owner};

	entry.wr_id = wr_id;
	return entry;
}

static enum cq_push_result push(struct completion_queue *queue, uint64_t wr_id, const void *owner)
{
	struct cq_entry entry = entry_of(wr_id, owner);

	return completion_queue_push(queue, &entry);
}

static void expect_next(struct completion_queue *queue, uint64_t wr_id)
{
	const struct cq_entry *entry = completion_queue_peek(queue);

	assert_non_null(entry);
	assert_int_equal(entry->wr_id, wr_id);
	completion_queue_pop(queue);
}

static void entries_come_out_in_order(void **state)
{
	struct completion_queue queue = empty_queue();
	uint64_t next = 0, oldest = 0;

	(void)state;
	assert_null(completion_queue_peek(&queue));
	/* Fill and empty by 3 and 2, many times round the ring. */
	for (int i = 0; i < 20; i++) {
		while (queue.count < CAPACITY && next < oldest + 5)
			assert_int_equal(push(&queue, next++, NULL), CQ_PUSHED);
		expect_next(&queue, oldest++);
		expect_next(&queue, oldest++);
	}
	while (oldest != next)
		expect_next(&queue, oldest++);
	assert_null(completion_queue_peek(&queue));
}

static void overrun_is_for_good_and_told_once(void **state)
{
	struct completion_queue queue = empty_queue();

	(void)state;
	for (uint64_t i = 0; i < CAPACITY; i++)
		assert_int_equal(push(&queue, i, NULL), CQ_PUSHED);
	assert_false(queue.has_overrun);
	assert_int_equal(push(&queue, 90, NULL), CQ_OVERRUN_FIRST);
	assert_int_equal(push(&queue, 91, NULL), CQ_OVERRUN_AGAIN);
	/* What was queued can still be read; room does not heal the CQ. */
	for (uint64_t i = 0; i < CAPACITY; i++)
		expect_next(&queue, i);
	assert_int_equal(push(&queue, 92, NULL), CQ_OVERRUN_AGAIN);
	assert_null(completion_queue_peek(&queue));
}

static void arming_is_one_shot_and_only_for_what_comes(void **state)
{
	struct completion_queue queue = empty_queue();

	(void)state;
	assert_int_equal(push(&queue, 0, NULL), CQ_PUSHED);
	completion_queue_arm(&queue, false);
	assert_int_equal(push(&queue, 1, NULL), CQ_PUSHED_NOTIFY);
	assert_int_equal(push(&queue, 2, NULL), CQ_PUSHED);
	completion_queue_arm(&queue, false);
	completion_queue_arm(&queue, false);
	assert_int_equal(push(&queue, 3, NULL), CQ_PUSHED_NOTIFY);
	assert_int_equal(push(&queue, 4, NULL), CQ_PUSHED);
}

static void solicited_arming_waits_for_solicited_or_error(void **state)
{
	struct completion_queue queue = empty_queue();
	struct cq_entry entry = entry_of(7, NULL);

	(void)state;
	completion_queue_arm(&queue, true);
	assert_int_equal(completion_queue_push(&queue, &entry), CQ_PUSHED);
	entry.is_solicited = true;
	assert_int_equal(completion_queue_push(&queue, &entry), CQ_PUSHED_NOTIFY);
	completion_queue_arm(&queue, true);
	entry.is_solicited = false;
	entry.status = IBV_WC_WR_FLUSH_ERR;
	assert_int_equal(completion_queue_push(&queue, &entry), CQ_PUSHED_NOTIFY);
	assert_int_equal(completion_queue_push(&queue, &entry), CQ_PUSHED);
}

static void arming_for_all_outweighs_solicited(void **state)
{
	struct completion_queue queue = empty_queue();

	(void)state;
	completion_queue_arm(&queue, false);
	completion_queue_arm(&queue, true);
	assert_int_equal(push(&queue, 0, NULL), CQ_PUSHED_NOTIFY);
	completion_queue_arm(&queue, true);
	completion_queue_arm(&queue, false);
	assert_int_equal(push(&queue, 1, NULL), CQ_PUSHED_NOTIFY);
}

/* A poll that leaves entries behind raises what the queue was armed for, once. */
static void a_poll_that_leaves_entries_behind_uses_the_arming_up(void **state)
{
	struct completion_queue queue = empty_queue();

	(void)state;
	push(&queue, 1, NULL);
	push(&queue, 2, NULL);
	assert_false(completion_queue_left_behind(&queue));
	completion_queue_arm(&queue, true);
	completion_queue_pop(&queue);
	assert_false(completion_queue_left_behind(&queue));
	completion_queue_arm(&queue, false);
	assert_true(completion_queue_left_behind(&queue));
	assert_false(completion_queue_left_behind(&queue));
	assert_int_equal(push(&queue, 3, NULL), CQ_PUSHED);
	completion_queue_pop(&queue);
	completion_queue_pop(&queue);
	completion_queue_arm(&queue, false);
	assert_false(completion_queue_left_behind(&queue));
	assert_int_equal(push(&queue, 4, NULL), CQ_PUSHED_NOTIFY);
}

static uint32_t removed_count;

static void count_removed(const struct cq_entry *entry)
{
	assert_ptr_equal(entry->owner, &owners[1]);
	removed_count++;
}

static void purge_takes_one_owner_and_keeps_order(void **state)
{
	(void)state;
	/* Every pattern of two owners over a full ring, at every rotation. */
	for (uint32_t pattern = 0; pattern < 1u << CAPACITY; pattern++) {
		for (int rotation = 0; rotation < CAPACITY; rotation++) {
			struct completion_queue queue = empty_queue();

			for (int i = 0; i < rotation; i++) {
				push(&queue, 99, NULL);
				completion_queue_pop(&queue);
			}
			for (uint32_t i = 0; i < CAPACITY; i++)
				push(&queue, i, &owners[pattern >> i & 1]);
			removed_count = 0;
			completion_queue_purge(&queue, &owners[1], count_removed);
			assert_int_equal(removed_count, __builtin_popcount(pattern));
			for (uint32_t i = 0; i < CAPACITY; i++)
				if (!(pattern >> i & 1))
					expect_next(&queue, i);
			assert_null(completion_queue_peek(&queue));
		}
	}
}

static void resize_keeps_what_is_queued(void **state)
{
	struct completion_queue queue = empty_queue();

	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		push(&queue, 99, NULL);
		completion_queue_pop(&queue);
	}
	for (uint64_t i = 0; i < CAPACITY; i++)
		push(&queue, i, NULL);
	assert_null(completion_queue_resize(&queue, other_room, CAPACITY - 1));
	assert_null(completion_queue_resize(&queue, other_room, 0));
	assert_int_equal(queue.capacity, CAPACITY);
	assert_ptr_equal(completion_queue_resize(&queue, other_room, CAPACITY + 3), room);
	for (uint64_t i = CAPACITY; i < CAPACITY + 3; i++)
		assert_int_equal(push(&queue, i, NULL), CQ_PUSHED);
	assert_int_equal(push(&queue, 99, NULL), CQ_OVERRUN_FIRST);
	for (uint64_t i = 0; i < CAPACITY + 3; i++)
		expect_next(&queue, i);
}

static enum cq_push_result push_as(struct completion_queue *queue, enum ibv_wc_status status,
				   bool is_solicited)
{
	struct cq_entry entry = entry_of(0, NULL);

	entry.status = (uint8_t)status;
	entry.is_solicited = is_solicited;
	return completion_queue_push(queue, &entry);
}

static void one_event_for_several(void **state)
{
	struct completion_queue queue = empty_queue();

	(void)state;
	assert_false(completion_queue_moderate(&queue, 3));
	assert_int_equal(push(&queue, 0, NULL), CQ_PUSHED);
	completion_queue_pop(&queue);
	completion_queue_arm(&queue, false);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(push(&queue, 1, NULL), CQ_PUSHED_HOLD);
		/* To arm again changes nothing. */
		completion_queue_arm(&queue, false);
		assert_int_equal(push(&queue, 2, NULL), CQ_PUSHED);
		assert_int_equal(push(&queue, 3, NULL), CQ_PUSHED_NOTIFY);
		assert_false(completion_queue_hold_ends(&queue));
		assert_int_equal(push(&queue, 4, NULL), CQ_PUSHED);
		while (queue.count)
			completion_queue_pop(&queue);
		completion_queue_arm(&queue, false);
	}
}

static void what_waits_is_told_when_its_time_is_over(void **state)
{
	struct completion_queue queue = empty_queue();

	(void)state;
	completion_queue_moderate(&queue, 3);
	completion_queue_arm(&queue, true);
	assert_int_equal(push_as(&queue, IBV_WC_SUCCESS, false), CQ_PUSHED);
	assert_false(completion_queue_hold_ends(&queue));
	assert_int_equal(push_as(&queue, IBV_WC_SUCCESS, true), CQ_PUSHED_HOLD);
	/* Also if it was polled meanwhile: who armed the queue is told of it. */
	completion_queue_pop(&queue);
	completion_queue_pop(&queue);
	assert_true(completion_queue_hold_ends(&queue));
	assert_false(completion_queue_hold_ends(&queue));
	assert_int_equal(queue.arm, CQ_NOT_ARMED);
}

static void failures_wait_for_nobody(void **state)
{
	struct completion_queue queue = empty_queue();

	(void)state;
	completion_queue_moderate(&queue, 3);
	completion_queue_arm(&queue, true);
	assert_int_equal(push_as(&queue, IBV_WC_SUCCESS, true), CQ_PUSHED_HOLD);
	assert_int_equal(push_as(&queue, IBV_WC_WR_FLUSH_ERR, false), CQ_PUSHED_NOTIFY);
	assert_false(completion_queue_hold_ends(&queue));
}

static void less_moderation_tells_what_waits(void **state)
{
	struct completion_queue queue = empty_queue();

	(void)state;
	completion_queue_moderate(&queue, 4);
	completion_queue_arm(&queue, false);
	push(&queue, 0, NULL);
	push(&queue, 1, NULL);
	assert_false(completion_queue_moderate(&queue, 3));
	assert_true(completion_queue_moderate(&queue, 2));
	completion_queue_arm(&queue, false);
	assert_int_equal(push(&queue, 2, NULL), CQ_PUSHED_HOLD);
	assert_true(completion_queue_moderate(&queue, 0));
	assert_false(completion_queue_moderate(&queue, 0));
	completion_queue_arm(&queue, false);
	assert_int_equal(push(&queue, 3, NULL), CQ_PUSHED_NOTIFY);
}

static void what_a_poll_leaves_behind_waits_no_more(void **state)
{
	struct completion_queue queue = empty_queue();

	(void)state;
	completion_queue_moderate(&queue, 4);
	completion_queue_arm(&queue, false);
	push(&queue, 0, NULL);
	push(&queue, 1, NULL);
	completion_queue_pop(&queue);
	assert_true(completion_queue_left_behind(&queue));
	assert_false(completion_queue_hold_ends(&queue));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_come_out_in_order),
		cmocka_unit_test(overrun_is_for_good_and_told_once),
		cmocka_unit_test(arming_is_one_shot_and_only_for_what_comes),
		cmocka_unit_test(solicited_arming_waits_for_solicited_or_error),
		cmocka_unit_test(arming_for_all_outweighs_solicited),
		cmocka_unit_test(a_poll_that_leaves_entries_behind_uses_the_arming_up),
		cmocka_unit_test(purge_takes_one_owner_and_keeps_order),
		cmocka_unit_test(resize_keeps_what_is_queued),
		cmocka_unit_test(one_event_for_several),
		cmocka_unit_test(what_waits_is_told_when_its_time_is_over),
		cmocka_unit_test(failures_wait_for_nobody),
		cmocka_unit_test(less_moderation_tells_what_waits),
		cmocka_unit_test(what_a_poll_leaves_behind_waits_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
