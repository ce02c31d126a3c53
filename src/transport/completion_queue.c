/* SPDX-License-Identifier: BSD-2-Clause */
/* A ring of completions, one-shot notification, overrun. */
#include "transport/completion_queue.h"

#include "base/assert.h"

/* Index of the entry @offset behind the oldest; capacity need not be a power of two. */
static uint32_t index_of(const struct completion_queue *queue, uint32_t offset)
{
	return (uint32_t)(((uint64_t)queue->head + offset) % queue->capacity);
}

void completion_queue_init(struct completion_queue *queue, struct cq_entry *entries,
			   uint32_t capacity)
{
	VBN_ASSERT(capacity > 0);
	*queue = (struct completion_queue){.entries = entries, .capacity = capacity};
}

/* Whether @entry is what the queue was armed for; that uses the arming up. */
static bool take_notification(struct completion_queue *queue, const struct completion *completion)
{
	bool wakes = false;

	switch (queue->arm) {
	case CQ_NOT_ARMED:
		break;
	case CQ_ARMED_SOLICITED:
		wakes = completion->is_solicited || completion->status != IBV_WC_SUCCESS;
		break;
	case CQ_ARMED_ALL:
		wakes = true;
		break;
	}
	if (wakes)
		queue->arm = CQ_NOT_ARMED;
	return wakes;
}

enum cq_push_result completion_queue_push(struct completion_queue *queue,
					  const struct cq_entry *entry)
{
	if (queue->has_overrun)
		return CQ_OVERRUN_AGAIN;
	if (queue->count == queue->capacity) {
		queue->has_overrun = true;
		return CQ_OVERRUN_FIRST;
	}
	queue->entries[index_of(queue, queue->count)] = *entry;
	queue->count++;
	return take_notification(queue, &entry->completion) ? CQ_PUSHED_NOTIFY : CQ_PUSHED;
}

bool completion_queue_left_behind(struct completion_queue *queue)
{
	if (queue->count == 0 || queue->arm != CQ_ARMED_ALL)
		return false;
	queue->arm = CQ_NOT_ARMED;
	return true;
}

const struct cq_entry *completion_queue_peek(const struct completion_queue *queue)
{
	return queue->count ? &queue->entries[queue->head] : NULL;
}

void completion_queue_pop(struct completion_queue *queue)
{
	VBN_ASSERT(queue->count > 0);
	queue->head = index_of(queue, 1);
	queue->count--;
}

void completion_queue_arm(struct completion_queue *queue, bool solicited_only)
{
	if (!solicited_only)
		queue->arm = CQ_ARMED_ALL;
	else if (queue->arm == CQ_NOT_ARMED)
		queue->arm = CQ_ARMED_SOLICITED;
}

void completion_queue_purge(struct completion_queue *queue, const void *owner)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < queue->count; i++) {
		const struct cq_entry *entry = &queue->entries[index_of(queue, i)];

		if (entry->owner == owner)
			continue;
		if (kept != i)
			queue->entries[index_of(queue, kept)] = *entry;
		kept++;
	}
	queue->count = kept;
}

struct cq_entry *completion_queue_resize(struct completion_queue *queue, struct cq_entry *entries,
					 uint32_t capacity)
{
	struct cq_entry *old = queue->entries;

	if (!capacity || capacity < queue->count)
		return NULL;
	for (uint32_t i = 0; i < queue->count; i++)
		entries[i] = old[index_of(queue, i)];
	queue->entries = entries;
	queue->capacity = capacity;
	queue->head = 0;
	return old;
}
