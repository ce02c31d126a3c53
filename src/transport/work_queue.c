/* SPDX-License-Identifier: BSD-2-Clause */
/* Layout and life of a ring of work queue entries. */
#include "transport/work_queue.h"

#include <string.h>

#include "base/assert.h"
#include "memory/memory.h"

#define SLOT_ALIGNMENT 16u

_Static_assert(_Alignof(struct send_wqe) <= SLOT_ALIGNMENT, "a slot is aligned for its entry");
_Static_assert(_Alignof(struct recv_wqe) <= SLOT_ALIGNMENT, "a slot is aligned for its entry");

/* Rounded up to a slot's alignment. Limits are small enough that nothing wraps in 64 bits. */
static uint64_t slot_round(uint64_t bytes)
{
	return (bytes + SLOT_ALIGNMENT - 1) & ~(uint64_t)(SLOT_ALIGNMENT - 1);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The list and inline bytes share their place: a request has one or the other. */
static uint64_t send_slot_bytes(uint32_t sge_max, uint32_t inline_max)
{
	uint64_t list = (uint64_t)sge_max * sizeof(struct ibv_sge);
	uint64_t bytes = offsetof(struct send_wqe, sge) + larger(list, inline_max);

	return slot_round(larger(bytes, sizeof(struct send_wqe)));
}

uint32_t recv_wqe_slot_bytes(uint32_t sge_max)
{
	uint64_t list = (uint64_t)sge_max * sizeof(struct ibv_sge);
	uint64_t bytes = offsetof(struct recv_wqe, sge) + list;

	VBN_ASSERT(sge_max <= WORK_QUEUE_SGE_MAX);
	return (uint32_t)slot_round(larger(bytes, sizeof(struct recv_wqe)));
}

void recv_wqe_fill(struct recv_wqe *wqe, const struct ibv_recv_wr *wr)
{
	wqe->wr_id = wr->wr_id;
	wqe->sge_count = (uint32_t)wr->num_sge;
	wqe->length = sge_bytes(wr->sg_list, wqe->sge_count);
	if (wqe->sge_count)
		memcpy(wqe->sge, wr->sg_list, wqe->sge_count * sizeof(*wr->sg_list));
}

/* The power of two that holds @wr_max entries. */
static uint32_t capacity_of(uint32_t wr_max)
{
	uint32_t capacity = 1;

	VBN_ASSERT(wr_max <= WORK_QUEUE_WR_MAX);
	while (capacity < wr_max)
		capacity <<= 1;
	return capacity;
}

size_t work_queue_send_bytes(uint32_t wr_max, uint32_t sge_max, uint32_t inline_max)
{
	if (!wr_max)
		return 0;
	VBN_ASSERT(sge_max <= WORK_QUEUE_SGE_MAX && inline_max <= WORK_QUEUE_INLINE_MAX);
	return capacity_of(wr_max) * send_slot_bytes(sge_max, inline_max);
}

size_t work_queue_recv_bytes(uint32_t wr_max, uint32_t sge_max)
{
	if (!wr_max)
		return 0;
	return (size_t)capacity_of(wr_max) * recv_wqe_slot_bytes(sge_max);
}

static void init(struct work_queue *queue, void *slots, uint32_t wr_max, uint64_t slot_bytes,
		 uint32_t sge_max)
{
	queue->slots = slots;
	queue->slot_bytes = (uint32_t)slot_bytes;
	queue->slot_mask = capacity_of(wr_max) - 1;
	queue->limit = wr_max;
	queue->sge_max = sge_max;
	queue->inline_max = 0;
	queue->posted = queue->started = queue->done = 0;
	atomic_init(&queue->released, 0);
}

void work_queue_init_send(struct work_queue *queue, void *slots, uint32_t wr_max, uint32_t sge_max,
			  uint32_t inline_max)
{
	init(queue, slots, wr_max, send_slot_bytes(sge_max, inline_max), sge_max);
	queue->inline_max = inline_max;
}

void work_queue_init_recv(struct work_queue *queue, void *slots, uint32_t wr_max, uint32_t sge_max)
{
	init(queue, slots, wr_max, recv_wqe_slot_bytes(sge_max), sge_max);
}

/*
 * Positions go on from where they were: a completion of the time before that is
 * polled late then names an old position, which costs room until the next
 * completion, whereas positions from zero would make it name the future.
 */
void work_queue_clear(struct work_queue *queue)
{
	queue->started = queue->done = queue->posted;
	atomic_store_explicit(&queue->released, queue->posted, memory_order_release);
}

enum ibv_wc_opcode send_wqe_completion_opcode(const struct send_wqe *wqe)
{
	switch (wqe->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return IBV_WC_SEND;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		vbn_assert_failed("posting takes no other opcode", __FILE__, __LINE__);
	}
}
