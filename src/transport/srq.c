/* SPDX-License-Identifier: BSD-2-Clause */
/* Two chains of slots: a stack of free ones, a queue of those that wait. */
#include "transport/srq.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "transport/refuse_request.h"

/* The slots come first, so that they have the alignment of the memory. */
size_t srq_bytes(uint32_t wr_max, uint32_t sge_max)
{
	VBN_ASSERT(wr_max > 0 && wr_max <= WORK_QUEUE_WR_MAX && sge_max <= WORK_QUEUE_SGE_MAX);
	return (size_t)wr_max * (recv_wqe_slot_bytes(sge_max) + sizeof(uint32_t));
}

static void place(struct srq *srq, void *memory, uint32_t slot_count)
{
	srq->slots = memory;
	srq->next = (uint32_t *)(srq->slots + (size_t)slot_count * srq->slot_bytes);
	srq->slot_count = slot_count;
}

/* The lowest is handed out first. */
static void free_slots_from(struct srq *srq, uint32_t first)
{
	for (uint32_t slot = srq->slot_count; slot-- > first;) {
		srq->next[slot] = srq->free;
		srq->free = slot;
	}
}

void srq_init(struct srq *srq, void *memory, uint32_t wr_max, uint32_t sge_max, uint32_t pd)
{
	*srq = (struct srq){
		.slot_bytes = recv_wqe_slot_bytes(sge_max),
		.wr_max = wr_max,
		.sge_max = sge_max,
		.pd = pd,
		.free = SRQ_NO_SLOT,
		.oldest = SRQ_NO_SLOT,
		.newest = SRQ_NO_SLOT,
	};
	place(srq, memory, wr_max);
	free_slots_from(srq, 0);
}

/* Completions in CQs name slots by number, so that a smaller queue keeps its memory. */
void *srq_resize(struct srq *srq, void *memory, uint32_t wr_max)
{
	struct srq old = *srq;

	if (wr_max < srq->used_count)
		return NULL;
	srq->wr_max = wr_max;
	if (wr_max <= srq->slot_count)
		return memory;
	place(srq, memory, wr_max);
	memcpy(srq->slots, old.slots, (size_t)old.slot_count * old.slot_bytes);
	memcpy(srq->next, old.next, old.slot_count * sizeof(*old.next));
	free_slots_from(srq, old.slot_count);
	return old.slots;
}

static int check(const struct srq *srq, const struct ibv_recv_wr *wr, struct complaint *complaint)
{
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->sge_max)
		return refuse_request(complaint, 0, EINVAL, REASON_CALL_LIMIT,
				      (uint32_t)wr->num_sge, srq->sge_max);
	if (wr->num_sge && !wr->sg_list)
		return refuse_request(complaint, 0, EINVAL, REASON_CALL_INVALID, 0, 0);
	if (srq->used_count >= srq->wr_max)
		return refuse_request(complaint, 0, ENOMEM, REASON_CALL_LIMIT, srq->wr_max,
				      srq->wr_max);
	return 0;
}

int srq_post(struct srq *srq, const struct ibv_recv_wr *wr, struct complaint *complaint)
{
	int error = check(srq, wr, complaint);
	uint32_t slot = srq->free;

	if (error)
		return error;
	VBN_ASSERT(slot < srq->slot_count);
	srq->free = srq->next[slot];
	recv_wqe_fill(srq_wqe_at(srq, slot), wr);
	srq->next[slot] = SRQ_NO_SLOT;
	if (srq->waiting_count == 0)
		srq->oldest = slot;
	else
		srq->next[srq->newest] = slot;
	srq->newest = slot;
	srq->waiting_count++;
	srq->used_count++;
	return 0;
}

static void look_at_limit(struct srq *srq)
{
	if (srq->waiting_count >= srq->limit)
		return;
	srq->limit = 0;
	srq->event_is_due = true;
}

void srq_arm(struct srq *srq, uint32_t limit)
{
	srq->limit = limit;
	look_at_limit(srq);
}

bool srq_take_event(struct srq *srq)
{
	bool is_due = srq->event_is_due;

	srq->event_is_due = false;
	return is_due;
}

uint32_t srq_take(struct srq *srq)
{
	uint32_t slot = srq->oldest;

	if (srq->waiting_count == 0)
		return SRQ_NO_SLOT;
	srq->oldest = srq->next[slot];
	srq->waiting_count--;
	srq->taken_count++;
	look_at_limit(srq);
	return slot;
}

void srq_end_taken(struct srq *srq)
{
	VBN_ASSERT(srq->taken_count > 0);
	srq->taken_count--;
}

void srq_release(struct srq *srq, uint32_t slot)
{
	VBN_ASSERT(slot < srq->slot_count && srq->used_count > srq->waiting_count);
	srq->next[slot] = srq->free;
	srq->free = slot;
	srq->used_count--;
}
