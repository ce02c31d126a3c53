/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: a shared receive queue
 *
 * Receives that many QPs draw from. WQEs are taken in the order in which they were
 * posted, each by the message that needs one next, whichever QP it comes to (IBA 10.2.9). From
 * then on the WQE is that QP's: it is completed by it, in success or in error, and a
 * QP that is flushed flushes only what it has taken. Messages of several QPs end in
 * any order, so slots come free in any order: they are named by number, not by ring position.
 *
 *   free -> waiting (posted) -> taken (by a QP) -> completed (in a CQ) -> free (polled)
 *
 * Free and waiting slots are chained through one array, the free ones as a stack, the waiting
 * ones from the oldest to the newest. What was asked for (wr_max) counts all slots that are not
 * free, as a ring's limit does: a WQE whose completion nobody polled still has its slot.
 *
 * The limit: once armed, it raises one event as soon as fewer WQEs wait, and is then unarmed.
 * Arming it above what waits already raises the event at once: it would otherwise never
 * come when nothing waits at all, and the program that tops the queue up by the event would
 * leave its peers in RNR.
 *
 * Nothing here is atomic: one lock, the caller's, guards all of an SRQ.
 */
#ifndef VBN_TRANSPORT_SRQ_H
#define VBN_TRANSPORT_SRQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/reason.h"
#include "transport/work_queue.h"

#define SRQ_NO_SLOT UINT32_MAX
#define SRQ_ALIGNMENT 16 /* of its memory */

struct srq {
	uint8_t *slots;
	uint32_t *next; /* slot -> the one behind it in its chain */
	uint32_t slot_bytes;
	uint32_t slot_count; /* in memory; at least wr_max */
	uint32_t wr_max, sge_max;
	uint32_t pd;	 /* whose keys the lists of the WQEs name */
	uint32_t number; /* of an XRC SRQ (xrc.h); 0: basic */

	uint32_t free;		 /* head of the stack */
	uint32_t oldest, newest; /* waiting */
	uint32_t waiting_count;
	uint32_t taken_count; /* by QPs that have not completed them */
	uint32_t used_count;  /* not free: waiting, taken or completed */

	uint32_t limit;	   /* armed: fewer that wait raise the event; 0: not armed */
	bool event_is_due; /* IBV_EVENT_SRQ_LIMIT_REACHED */
};

/* Bytes for @wr_max WQEs, at least 1, within WORK_QUEUE_WR_MAX and WORK_QUEUE_SGE_MAX. */
size_t srq_bytes(uint32_t wr_max, uint32_t sge_max);
/* @memory: srq_bytes(), aligned to SRQ_ALIGNMENT; the caller's until the last call. */
void srq_init(struct srq *srq, void *memory, uint32_t wr_max, uint32_t sge_max, uint32_t pd);
/*
 * Changes wr_max. @memory has srq_bytes(@wr_max, sge_max). Returns the memory that is not used
 * any more, which may be @memory itself; NULL: more WQEs than that are posted, nothing changed.
 * Slots keep their numbers.
 */
void *srq_resize(struct srq *srq, void *memory, uint32_t wr_max);

/*
 * Appends one WQE: 0, EINVAL (list) or ENOMEM (full). @complaint (may be NULL) tells why. Keys
 * are checked when a message arrives.
 */
int srq_post(struct srq *srq, const struct ibv_recv_wr *wr, struct complaint *complaint);
/* Arms the limit, or disarms it by 0; not above wr_max. */
void srq_arm(struct srq *srq, uint32_t limit);
/* Whether the event is to be raised now; it is told once. */
bool srq_take_event(struct srq *srq);

/* The oldest WQE that waits is the caller's from here on: its slot, or SRQ_NO_SLOT. */
uint32_t srq_take(struct srq *srq);
/* The WQE is completed, or never will be; its slot is still in use. */
void srq_end_taken(struct srq *srq);
/* The slot of such a WQE is free again: its completion was polled, or does not exist. */
void srq_release(struct srq *srq, uint32_t slot);

static inline struct recv_wqe *srq_wqe_at(const struct srq *srq, uint32_t slot)
{
	return (struct recv_wqe *)(srq->slots + (size_t)slot * srq->slot_bytes);
}

#endif
