/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/timers.h"

#include <stdlib.h>

#include "base/assert.h"

void timers_init(struct timers *timers)
{
	*timers = (struct timers){.next = VBN_TIME_NEVER};
	brief_lock_init(&timers->lock);
}

void timers_fini(struct timers *timers)
{
	VBN_ASSERT(timers->count == 0);
	free(timers->heap);
	brief_lock_fini(&timers->lock);
}

bool timers_reserve(struct timers *timers, uint32_t count)
{
	bool is_enough = true;

	brief_lock_take(&timers->lock);
	if (count > timers->capacity) {
		uint32_t capacity = count < 64 ? 64 : 2 * count;
		struct timer **heap = realloc(timers->heap, capacity * sizeof(struct timer *));

		is_enough = heap != NULL;
		if (heap) {
			timers->heap = heap;
			timers->capacity = capacity;
		}
	}
	brief_lock_release(&timers->lock);
	return is_enough;
}

static void place(struct timers *timers, uint32_t index, struct timer *timer)
{
	timers->heap[index] = timer;
	timer->index = index + 1;
}

static void sift_up(struct timers *timers, uint32_t index)
{
	struct timer *timer = timers->heap[index];

	while (index) {
		uint32_t parent = (index - 1) / 2;

		if (timers->heap[parent]->deadline <= timer->deadline)
			break;
		place(timers, index, timers->heap[parent]);
		index = parent;
	}
	place(timers, index, timer);
}

static void sift_down(struct timers *timers, uint32_t index)
{
	struct timer *timer = timers->heap[index];

	for (;;) {
		uint32_t child = 2 * index + 1;

		if (child >= timers->count)
			break;
		if (child + 1 < timers->count &&
		    timers->heap[child + 1]->deadline < timers->heap[child]->deadline)
			child++;
		if (timers->heap[child]->deadline >= timer->deadline)
			break;
		place(timers, index, timers->heap[child]);
		index = child;
	}
	place(timers, index, timer);
}

static void remove_at(struct timers *timers, uint32_t index)
{
	struct timer *last = timers->heap[--timers->count];

	timers->heap[index]->index = 0;
	if (index == timers->count)
		return;
	place(timers, index, last);
	sift_up(timers, index);
	sift_down(timers, last->index - 1);
}

static void publish_next(struct timers *timers)
{
	atomic_store(&timers->next, timers->count ? timers->heap[0]->deadline : VBN_TIME_NEVER);
}

void timers_set(struct timers *timers, struct timer *timer, vbn_time deadline)
{
	brief_lock_take(&timers->lock);
	if (deadline == VBN_TIME_NEVER) {
		if (timer->index)
			remove_at(timers, timer->index - 1);
	} else if (!timer->index) {
		VBN_ASSERT(timers->count < timers->capacity);
		timer->deadline = deadline;
		timers->heap[timers->count] = timer;
		sift_up(timers, timers->count++);
	} else if (timer->deadline != deadline) {
		timer->deadline = deadline;
		sift_up(timers, timer->index - 1);
		sift_down(timers, timer->index - 1);
	}
	publish_next(timers);
	brief_lock_release(&timers->lock);
}

bool timers_set_at_latest(struct timers *timers, struct timer *timer, vbn_time deadline)
{
	/* Nobody else changes the deadline; who pops it just now will look at its owner. */
	if (deadline == VBN_TIME_NEVER || (timer_is_set(timer) && timer->deadline <= deadline))
		return false;
	timers_set(timers, timer, deadline);
	return true;
}

struct timer *timers_pop(struct timers *timers, vbn_time now, bool (*pin)(struct timer *timer))
{
	struct timer *timer = NULL;

	if (timers_next(timers) > now)
		return NULL;
	brief_lock_take(&timers->lock);
	while (timers->count && timers->heap[0]->deadline <= now) {
		struct timer *first = timers->heap[0];

		remove_at(timers, 0);
		if (pin(first)) {
			timer = first;
			break;
		}
	}
	publish_next(timers);
	brief_lock_release(&timers->lock);
	return timer;
}
