/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send and receive queues: rings of work queue entries (WQEs)
 *
 * Ring positions are 32-bit counts that wrap; position p lives at slot p modulo
 * capacity (a power of two, at least what the program asked for). What was asked
 * for is the limit that posting enforces.
 *
 *   released <= done <= started <= posted         (send; receive has no started)
 *
 * posted: next free position. started: first WQE that has no PSNs yet. done: oldest
 * WQE without its outcome. released: oldest slot that is not free again. A slot
 * is free when the completion of its WQE, or of a later one, was polled: a WQE
 * that asks for no completion therefore holds its slot until a later signalled
 * one is polled, as on a NIC.
 *
 * Threads: all under the QP's lock but released, which the poller of the CQ
 * stores (release) and posting loads (acquire).
 */
#ifndef VBN_TRANSPORT_WORK_QUEUE_H
#define VBN_TRANSPORT_WORK_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/reason.h"
#include "memory/window.h"

struct send_wqe {
	uint64_t wr_id;
	union {
		uint64_t remote_address;
		struct { /* UD */
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		};
	};
	uint64_t compare_add; /* compare value, or the value to add */
	uint64_t swap;
	uint32_t rkey;
	uint32_t remote_srqn; /* XRC */
	uint32_t immediate;   /* network order, or the rkey to invalidate, here or there */
	uint32_t length;      /* bytes of the message; for an atomic 8 */
	uint32_t first_psn;   /* set when started */
	uint32_t psn_count;   /* set when started: packets of the request, or of its answer; or 0 */
	uint16_t flags;	      /* IBV_SEND_* */
	uint16_t sge_count;
	uint8_t opcode; /* enum ibv_wr_opcode */
	bool is_signalled;
	bool is_inline;
	bool goes_by_packets; /* it was tried whether it can be done without, a moment ago */
	bool is_lent; /* set when started: its packets say where the payload lies (rc_lent.h) */
	/* A local error found while sending: reported when all before it is done. */
	bool has_failed;
	/* These two only then; posting leaves them as they are. */
	enum ibv_wc_status status;
	struct complaint complaint;
	/* Followed by the scatter/gather list, or by inline bytes. */
	union {
		struct window_bind bind;
		struct ibv_sge sge[1];
		uint8_t inline_bytes[1];
	};
};

struct recv_wqe {
	uint64_t wr_id;
	uint64_t length; /* sum of the list */
	uint32_t sge_count;
	struct ibv_sge sge[1];
};

struct work_queue {
	uint8_t *slots;
	uint32_t slot_bytes;
	uint32_t slot_mask; /* capacity - 1 */
	uint32_t limit;	    /* max_send_wr or max_recv_wr as granted; 0: nothing can be posted */
	uint32_t sge_max;
	uint32_t inline_max; /* send only */
	uint32_t posted, started, done;
	_Atomic uint32_t released;
};

/* What these rings can do; device limits are lower. Keeps every size far from wrapping. */
#define WORK_QUEUE_WR_MAX (1u << 24)
#define WORK_QUEUE_SGE_MAX 4096u
#define WORK_QUEUE_INLINE_MAX 65536u

/* Bytes of a ring for these limits, within the maxima above; 0 for a limit of 0. */
size_t work_queue_send_bytes(uint32_t wr_max, uint32_t sge_max, uint32_t inline_max);
size_t work_queue_recv_bytes(uint32_t wr_max, uint32_t sge_max);
void work_queue_init_send(struct work_queue *queue, void *slots, uint32_t wr_max, uint32_t sge_max,
			  uint32_t inline_max);
void work_queue_init_recv(struct work_queue *queue, void *slots, uint32_t wr_max, uint32_t sge_max);
/* Forgets all entries (RESET); positions do not start again from zero. */
void work_queue_clear(struct work_queue *queue);

static inline struct send_wqe *send_wqe_at(const struct work_queue *queue, uint32_t position)
{
	return (struct send_wqe *)(queue->slots +
				   (size_t)(position & queue->slot_mask) * queue->slot_bytes);
}

static inline struct recv_wqe *recv_wqe_at(const struct work_queue *queue, uint32_t position)
{
	return (struct recv_wqe *)(queue->slots +
				   (size_t)(position & queue->slot_mask) * queue->slot_bytes);
}

/* Bytes of a slot for a list of @sge_max, a multiple of 16, and what posting puts there. */
uint32_t recv_wqe_slot_bytes(uint32_t sge_max);
void recv_wqe_fill(struct recv_wqe *wqe, const struct ibv_recv_wr *wr);

/* What a completion of @wqe calls the operation. */
enum ibv_wc_opcode send_wqe_completion_opcode(const struct send_wqe *wqe);

static inline bool work_queue_is_full(const struct work_queue *queue)
{
	return queue->posted - atomic_load_explicit(&queue->released, memory_order_acquire) >=
	       queue->limit;
}

#endif
