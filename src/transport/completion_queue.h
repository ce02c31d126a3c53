/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A completion queue as a data structure: a ring of entries, the arming of its
 * one-shot notification, overrun. Locks, channels and wake-ups belong to the engine.
 *
 * Arming (ibv_req_notify_cq): the next entry that is pushed after arming raises
 * one event; with solicited_only only an entry that is solicited or in error
 * does. An entry that was there before arming raises none. Arming for all entries
 * outweighs arming for solicited ones (IBA 11.4.2.2).
 *
 * Moderation (ibv_modify_cq): one event for several entries. Each that an armed queue would
 * raise its event for waits, until as many wait as were asked for, or until the time is over
 * that its owner counts from the first of them. One in error waits for nobody: none may follow.
 *
 * Overrun: an entry that finds the ring full is lost, the CQ is in error for
 * good and the caller raises IBV_EVENT_CQ_ERR once and moves its QPs to ERROR.
 */
#ifndef VBN_TRANSPORT_COMPLETION_QUEUE_H
#define VBN_TRANSPORT_COMPLETION_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/outbox.h"

/*
 * What stays of a completion until it is polled: what the program is told, and which slot is free then.
 * One line of the cache. The facts of a failure are told when it is pushed; of them the reason stays.
 */
struct cq_entry {
	uint64_t wr_id;
	void *owner; /* the engine's QP; opaque here */
	uint64_t timestamp_ns;
	struct srq *srq; /* which gave the receive; NULL: the QP's own queue did */
	uint32_t slot;	 /* srq_slot with an SRQ, otherwise slots_released */
	uint32_t qpn;
	uint32_t byte_len;
	uint32_t immediate;
	uint32_t source_qpn;
	uint16_t source_lid;
	uint16_t reason;  /* enum reason */
	uint16_t opcode;  /* enum ibv_wc_opcode */
	uint8_t status;	  /* enum ibv_wc_status */
	uint8_t wc_flags; /* IBV_WC_* */
	bool is_receive, is_solicited;
};

_Static_assert(sizeof(struct cq_entry) == 64, "an entry is a line of the cache");
_Static_assert(REASON_COUNT <= UINT16_MAX, "reasons fit an entry");

static inline struct cq_entry cq_entry_of(const struct completion *completion, void *owner,
					  uint32_t qpn, uint64_t timestamp_ns)
{
	return (struct cq_entry){
		.wr_id = completion->wr_id,
		.owner = owner,
		.timestamp_ns = timestamp_ns,
		.srq = completion->srq,
		.slot = completion->srq ? completion->srq_slot : completion->slots_released,
		.qpn = qpn,
		.byte_len = completion->byte_len,
		.immediate = completion->immediate,
		.source_qpn = completion->source_qpn,
		.source_lid = completion->source_lid,
		.reason = (uint16_t)completion->complaint.reason,
		.opcode = (uint16_t)completion->opcode,
		.status = (uint8_t)completion->status,
		.wc_flags = (uint8_t)completion->wc_flags,
		.is_receive = completion->is_receive,
		.is_solicited = completion->is_solicited,
	};
}

enum cq_arm { CQ_NOT_ARMED, CQ_ARMED_SOLICITED, CQ_ARMED_ALL };

struct completion_queue {
	struct cq_entry *entries;
	uint32_t capacity; /* exactly what is granted */
	uint32_t head;	   /* index of the oldest */
	uint32_t count;
	enum cq_arm arm;
	uint32_t wake_count;	/* entries for one event; 0 and 1: each */
	uint32_t waiting_count; /* since it was armed, of those that would have raised it */
	bool has_overrun;
};

/* CQ_PUSHED_HOLD: the first of those that wait; its time begins. */
enum cq_push_result {
	CQ_PUSHED,
	CQ_PUSHED_NOTIFY,
	CQ_PUSHED_HOLD,
	CQ_OVERRUN_FIRST,
	CQ_OVERRUN_AGAIN
};

void completion_queue_init(struct completion_queue *queue, struct cq_entry *entries,
			   uint32_t capacity);
enum cq_push_result completion_queue_push(struct completion_queue *queue,
					  const struct cq_entry *entry);
/* Oldest entry, or NULL; stays valid until the next push, pop or purge. */
const struct cq_entry *completion_queue_peek(const struct completion_queue *queue);
void completion_queue_pop(struct completion_queue *queue);
void completion_queue_arm(struct completion_queue *queue, bool solicited_only);
/* True: as many wait already, and the event is due. */
bool completion_queue_moderate(struct completion_queue *queue, uint32_t wake_count);
/* The time of those that wait is over. False: nothing waits any more. */
bool completion_queue_hold_ends(struct completion_queue *queue);
/*
 * A poll is over. True: it left entries behind on a queue that is armed for all, which raises
 * the event now and uses the arming up. The specification would keep the event for the next
 * entry; adapters that compare their producer index at arming raise it, and programs that
 * poll part of a queue between two waits (perftest) depend on it. A queue that is armed and not
 * polled raises nothing for what it held already.
 */
bool completion_queue_left_behind(struct completion_queue *queue);
/* Removes all entries of @owner, keeping the order of the others; @removed is told of each. */
void completion_queue_purge(struct completion_queue *queue, const void *owner,
			    void (*removed)(const struct cq_entry *entry));
/* The same for the receives that @srq gave. */
void completion_queue_purge_srq(struct completion_queue *queue, const struct srq *srq,
				void (*removed)(const struct cq_entry *entry));
/*
 * Moves to @entries of @capacity, which must hold what is queued; returns the old
 * array for the caller to free, or NULL when it does not fit.
 */
struct cq_entry *completion_queue_resize(struct completion_queue *queue, struct cq_entry *entries,
					 uint32_t capacity);

#endif
