/* SPDX-License-Identifier: BSD-2-Clause */
/* A ring of completions, one-shot notification, overrun. */
#include "transport/completion_queue.h"

#include "base/assert.h"

/* Index of the entry @offset behind the oldest, at most capacity, which need not be a power of two. */
static uint32_t index_of(const struct completion_queue *queue, uint32_t offset)
{
	uint32_t before_end = queue->capacity - queue->head;

	return offset < before_end ? queue->head + offset : offset - before_end;
}

void completion_queue_init(struct completion_queue *queue, struct cq_entry *entries,
			   uint32_t capacity)
{
	VBN_ASSERT(capacity > 0);
	*queue = (struct completion_queue){.entries = entries, .capacity = capacity};
}

static bool is_armed_for(const struct completion_queue *queue, const struct cq_entry *entry)
{
	switch (queue->arm) {
	case CQ_NOT_ARMED:
		break;
	case CQ_ARMED_SOLICITED:
		return entry->is_solicited || entry->status != IBV_WC_SUCCESS;
	case CQ_ARMED_ALL:
		return true;
	}
	return false;
}

static void use_up_arming(struct completion_queue *queue)
{
	queue->arm = CQ_NOT_ARMED;
	queue->waiting_count = 0;
}

/* What the owner has to do about an entry that was just appended. */
static enum cq_push_result notification(struct completion_queue *queue,
					const struct cq_entry *entry)
{
	if (!is_armed_for(queue, entry))
		return CQ_PUSHED;
	queue->waiting_count++;
	if (queue->waiting_count < queue->wake_count && entry->status == IBV_WC_SUCCESS)
		return queue->waiting_count == 1 ? CQ_PUSHED_HOLD : CQ_PUSHED;
	use_up_arming(queue);
	return CQ_PUSHED_NOTIFY;
}

bool completion_queue_moderate(struct completion_queue *queue, uint32_t wake_count)
{
	queue->wake_count = wake_count;
	return queue->waiting_count >= wake_count && completion_queue_hold_ends(queue);
}

bool completion_queue_hold_ends(struct completion_queue *queue)
{
	bool has_waited = queue->waiting_count != 0;

	if (has_waited)
		use_up_arming(queue);
	return has_waited;
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
	return notification(queue, entry);
}

bool completion_queue_left_behind(struct completion_queue *queue)
{
	if (queue->count == 0 || queue->arm != CQ_ARMED_ALL)
		return false;
	use_up_arming(queue);
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

/* Of @owner, or, where that is NULL, of @srq. */
static void purge(struct completion_queue *queue, const void *owner, const struct srq *srq,
		  void (*removed)(const struct cq_entry *entry))
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < queue->count; i++) {
		const struct cq_entry *entry = &queue->entries[index_of(queue, i)];

		if (owner ? entry->owner == owner : entry->srq == srq) {
			removed(entry);
			continue;
		}
		if (kept != i)
			queue->entries[index_of(queue, kept)] = *entry;
		kept++;
	}
	queue->count = kept;
}

void completion_queue_purge(struct completion_queue *queue, const void *owner,
			    void (*removed)(const struct cq_entry *entry))
{
	VBN_ASSERT(owner);
	purge(queue, owner, NULL, removed);
}

void completion_queue_purge_srq(struct completion_queue *queue, const struct srq *srq,
				void (*removed)(const struct cq_entry *entry))
{
	VBN_ASSERT(srq);
	purge(queue, NULL, srq, removed);
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
