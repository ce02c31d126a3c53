/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What must hold whatever comes from the network: memory changes only where it was granted,
 * nothing is copied from where nobody may read, a request completes once and in its turn,
 * and counts stay within what they count.
 */
#include "fuzz/pair.h"

#include <string.h>

#include "base/assert.h"
#include "base/psn.h"

/* --- memory --- */

static bool lies_in(uint32_t offset, size_t length, uint32_t start, uint32_t bytes)
{
	return offset >= start && length <= bytes && offset - start <= bytes - length;
}

static void check_arena_access(const struct side *side, const void *address, size_t length,
			       bool is_write)
{
	const uint8_t *byte = address;
	uint32_t offset = (uint32_t)(byte - side->arena);

	for (int kind = 0; kind < REGION_COUNT; kind++) {
		if (!lies_in(offset, length, region_offset((enum region_kind)kind), REGION_BYTES))
			continue;
		VBN_ASSERT(side->regions[kind]);
		VBN_ASSERT(side_reaches(side, region_pd((enum region_kind)kind)));
		VBN_ASSERT(!is_write || kind != REGION_READ_ONLY);
		return;
	}
	VBN_ASSERT(!"a copy touches no region, or more than one");
}

static const struct side *side_of(const struct pair *pair, const void *address)
{
	const uint8_t *byte = address;

	for (int i = 0; i < 2; i++)
		if (byte >= pair->sides[i].arena && byte < pair->sides[i].arena + ARENA_BYTES)
			return &pair->sides[i];
	return NULL;
}

void check_copy(const struct pair *pair, const void *to, const void *from, size_t length)
{
	const struct side *target = side_of(pair, to), *source = side_of(pair, from);

	VBN_ASSERT(!target != !source);
	if (target)
		check_arena_access(target, to, length, true);
	else
		check_arena_access(source, from, length, false);
}

/* Whether the byte lies in the list of @record, under a key that lets us write. */
static bool list_covers(const struct side *side, const struct record *record, uint32_t offset)
{
	for (uint32_t i = 0; i < record->sge_count; i++) {
		const struct ibv_sge *sge = &record->sge[i];

		for (int kind = REGION_OPEN; kind < REGION_COUNT; kind++) {
			uint64_t iova = region_iova((enum region_kind)kind) + offset -
					region_offset((enum region_kind)kind);

			if (side->was_registered[kind] && kind != REGION_READ_ONLY &&
			    record->pd == region_pd((enum region_kind)kind) &&
			    sge->lkey == region_key(side, (enum region_kind)kind) &&
			    iova - sge->addr < sge->length)
				return true;
		}
	}
	return false;
}

static bool is_posted_for(const struct side *side, const struct records *records, uint32_t offset)
{
	for (uint32_t i = records->done_before; i != records->posted; i++) {
		const struct record *record = &records->ring[i % RECORDS];

		if (record->may_write && list_covers(side, record, offset))
			return true;
	}
	return false;
}

/* By a key of the region itself, to which the right belongs. */
static bool is_open(const struct side *side, enum region_kind kind, uint32_t offset)
{
	return lies_in(offset, 1, region_offset(kind), REGION_BYTES) && side->was_granted &&
	       side->was_registered[kind] && side_reaches(side, region_pd(kind));
}

static bool is_granted(const struct side *side, uint32_t offset)
{
	if (is_open(side, REGION_OPEN, offset) || is_open(side, REGION_FOREIGN, offset) ||
	    (side->was_granted && side_window_covers(side, offset)))
		return true;
	return is_posted_for(side, &side->sends, offset) ||
	       is_posted_for(side, &side->receives[0], offset) ||
	       is_posted_for(side, &side->receives[1], offset);
}

static void check_memory(struct side *side)
{
	if (memcmp(side->arena, side->shadow, ARENA_BYTES) == 0)
		return;
	for (uint32_t i = 0; i < ARENA_BYTES; i++)
		VBN_ASSERT(side->arena[i] == side->shadow[i] || is_granted(side, i));
	memcpy(side->shadow, side->arena, ARENA_BYTES);
}

/* --- completions --- */

static void check_send_completion(struct side *side, const struct completion *completion)
{
	struct records *sends = &side->sends;
	uint32_t count = (uint32_t)completion->wr_id;

	VBN_ASSERT(count - sends->done < sends->posted - sends->done);
	/* Those passed over succeeded and asked for no completion. */
	for (; sends->done != count; sends->done++)
		VBN_ASSERT(!sends->has_failed && !sends->ring[sends->done % RECORDS].is_signalled);
	VBN_ASSERT(completion->status != IBV_WC_SUCCESS ||
		   sends->ring[count % RECORDS].is_signalled);
}

static void check_order(struct records *records, const struct completion *completion)
{
	VBN_ASSERT(completion->wr_id == records->done && records->done != records->posted);
	VBN_ASSERT(!records->has_failed || completion->status == IBV_WC_WR_FLUSH_ERR);
	VBN_ASSERT(completion->srq || completion->slots_released == records->done + 1);
	VBN_ASSERT(completion->status == IBV_WC_SUCCESS ||
		   completion->complaint.reason != REASON_NONE);
	records->has_failed |= completion->status != IBV_WC_SUCCESS;
	records->done++;
	records->pollable = completion->slots_released;
}

/* Its slot is in use until the program polls. */
static void keep_slot(struct side *side, const struct completion *completion)
{
	VBN_ASSERT(side->unpolled_count < SRQS * QUEUE_DEPTH);
	side->unpolled[side->unpolled_count].srq = completion->srq;
	side->unpolled[side->unpolled_count++].slot = completion->srq_slot;
}

static void check_receive_completion(struct side *side, const struct completion *completion)
{
	uint32_t index = completion->srq ? (uint32_t)(completion->srq - side->srqs) : 0;

	VBN_ASSERT(!completion->srq == !side->srq_count && index < SRQS);
	check_order(&side->receives[index], completion);
	if (completion->srq)
		keep_slot(side, completion);
	/* The area in front of a datagram counts. */
	if (qp_is_datagram(side->qp) && completion->status == IBV_WC_SUCCESS)
		VBN_ASSERT(completion->byte_len >= GRH_BYTES && completion->wc_flags & IBV_WC_GRH);
	side_note_window(side, completion, NULL);
}

void check_completion(struct side *side, const struct completion *completion)
{
	uint32_t count = (uint32_t)completion->wr_id;

	if (completion->is_receive) {
		check_receive_completion(side, completion);
		return;
	}
	check_send_completion(side, completion);
	check_order(&side->sends, completion);
	side_note_window(side, completion, &side->sends.ring[count % RECORDS]);
}

/* --- counts --- */

static uint32_t forward(uint32_t from, uint32_t to)
{
	return (to - from) & PSN_MASK;
}

static void check_psns(const struct qp *qp)
{
	const struct rc_requester *requester = &qp->requester;
	uint32_t outstanding = forward(requester->psn_unacked, requester->psn_next);

	VBN_ASSERT(outstanding < PSN_HALF);
	VBN_ASSERT(forward(requester->psn_unacked, requester->send_psn) <= outstanding);
	VBN_ASSERT(forward(requester->psn_unacked, requester->psn_acked) <= outstanding);
	VBN_ASSERT(requester->read_count <= QP_RD_ATOMIC_MAX);
}

static void check_requester(const struct side *side)
{
	const struct qp *qp = side->qp;
	const struct rc_requester *requester = &qp->requester;
	const struct work_queue *queue = &qp->send_queue;
	bool is_running = qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;
	bool has_answers = !qp_is_unreliable(qp);

	VBN_ASSERT(requester->outbound_charged >= 0 && requester->inbound_charged >= 0);
	VBN_ASSERT(requester->outbound_charged == atomic_load(&side->outbound.bytes_under_way));
	VBN_ASSERT(requester->inbound_charged == atomic_load(&side->inbound.bytes_under_way));
	if (has_answers)
		check_psns(qp);
	else if (is_running && qp_is_uc(qp))
		VBN_ASSERT(requester->send_position - queue->done <= queue->started - queue->done);
	if (!is_running || (has_answers && requester->psn_unacked == requester->send_psn))
		VBN_ASSERT(!requester->outbound_charged && !requester->inbound_charged);
}

static void check_queue(const struct work_queue *queue, bool has_started)
{
	uint32_t released = atomic_load(&queue->released);

	VBN_ASSERT(queue->posted - released <= queue->limit);
	VBN_ASSERT(queue->posted - queue->done <= queue->posted - released);
	if (has_started)
		VBN_ASSERT(queue->posted - queue->started <= queue->posted - queue->done);
}

static void check_responder(const struct side *side)
{
	const struct rc_responder *responder = &side->qp->responder;
	uint32_t held = 0;

	VBN_ASSERT(responder->response_count <= 2 * QP_RD_ATOMIC_MAX);
	for (uint32_t i = 0; responder->held_count && i < HOLD_WINDOW; i++)
		held += responder->held[i] != HOLD_NONE;
	VBN_ASSERT(held == responder->held_count);
	VBN_ASSERT((uint32_t)__builtin_popcountll(atomic_load(&side->holds.claimed[0])) == held);
}

static void check_srqs(const struct side *side)
{
	for (uint32_t i = 0; i < side->srq_count; i++) {
		const struct srq *srq = &side->srqs[i];
		bool is_taken = side->qp->srq == srq && side->qp->srq_slot != SRQ_NO_SLOT;
		uint32_t unpolled = 0;

		for (uint32_t k = 0; k < side->unpolled_count; k++)
			unpolled += side->unpolled[k].srq == srq;
		VBN_ASSERT(srq->taken_count == is_taken);
		VBN_ASSERT(srq->waiting_count + is_taken + unpolled == srq->used_count);
		VBN_ASSERT(side->receives[i].posted - side->receives[i].done ==
			   srq->waiting_count + is_taken);
	}
}

/* --- a step --- */

static void begin(struct side *side)
{
	enum ibv_qp_state state = side->qp->state;

	for (int kind = 0; kind < REGION_COUNT; kind++)
		side->was_registered[kind] = side->regions[kind];
	side->was_granted = side->qp->access && (state == IBV_QPS_RTR || state == IBV_QPS_RTS ||
						 state == IBV_QPS_SQD || state == IBV_QPS_SQE);
	side_forget_grants(side);
	side->sends.done_before = side->sends.done;
	for (int i = 0; i < SRQS; i++)
		side->receives[i].done_before = side->receives[i].done;
}

void check_begin(struct pair *pair)
{
	begin(&pair->sides[0]);
	begin(&pair->sides[1]);
}

void check_end(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		struct side *side = &pair->sides[i];

		check_memory(side);
		check_requester(side);
		check_queue(&side->qp->send_queue, true);
		check_queue(&side->qp->recv_queue, false);
		check_responder(side);
		check_srqs(side);
		check_windows(side);
	}
}
