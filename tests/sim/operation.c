/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/operation.h"

#include <arpa/inet.h>

#include "sim/datagrams.h"
#include "sim/panes.h"
#include "sim/windows.h"
#include "sim/xrc_requests.h"

/* Elements of a list lie apart by so many bytes, which belong to nobody. */
#define ELEMENT_GAP_MAX 24

uint64_t byte_ring_take(struct byte_ring *ring, uint32_t length)
{
	uint64_t start = ring->head, offset = start % ring->bytes;

	if (offset + length > ring->bytes)
		start += ring->bytes - offset;
	if (start + length - ring->tail > ring->bytes)
		return UINT64_MAX;
	ring->head = start + length;
	return start % ring->bytes;
}

static bool chance(struct endpoint *end, uint32_t percent)
{
	return random_chance(&end->random, percent * 10000);
}

static enum ibv_wr_opcode draw_opcode(struct endpoint *end)
{
	const uint32_t *weights = end->plan->opcode_weights;
	uint32_t sum = 0, pick;

	for (int i = 0; i < 7; i++)
		sum += weights[i];
	pick = (uint32_t)random_below(&end->random, sum);
	for (int i = 0; i < 7; i++) {
		if (pick < weights[i])
			return (enum ibv_wr_opcode)i;
		pick -= weights[i];
	}
	return IBV_WR_SEND;
}

/* As many short ones as long ones, by powers of two, and often around whole packets. */
static uint32_t draw_length(struct endpoint *end)
{
	uint32_t max = end->plan->message_bytes_max, mtu = 128u << end->plan->terms.mtu;
	uint32_t bits = 32 - (uint32_t)__builtin_clz(max);
	uint64_t length = random_below(&end->random, 1ull << random_between(&end->random, 0, bits));

	if (chance(end, 15))
		length = (length / mtu + 1) * mtu + random_between(&end->random, 0, 2) - 1;
	return (uint32_t)(length < max ? length : max);
}

static void draw_range(struct endpoint *end, struct operation *operation)
{
	const struct region *target = end->peer->target;
	uint32_t first = operation_is_write(operation) ? ENDPOINT_ATOMIC_BYTES : 0;
	uint32_t room = target->length - first - operation->length;
	uint64_t offset = first + random_between(&end->random, 0, room);

	if (chance(end, 10))
		offset = target->length - operation->length;
	if (operation_is_atomic(operation))
		offset = random_below(&end->random, ENDPOINT_ATOMIC_BYTES / 8) * 8;
	operation->remote = target;
	operation->remote_iova = target->iova + offset;
	operation->rkey = target->key;
}

/*
 * A repeated READ is executed again and sees what later requests wrote. One that
 * writes where an unfinished READ reads therefore has to wait for it.
 */
static bool needs_fence(struct endpoint *end, const struct operation *operation)
{
	if (!operation_is_write(operation) && !operation_is_atomic(operation))
		return false;
	for (uint32_t count = end->completed; count != end->posted; count++) {
		const struct operation *earlier = endpoint_operation(end, count);

		if (earlier->opcode == IBV_WR_RDMA_READ &&
		    earlier->remote_iova < operation->remote_iova + operation->length &&
		    operation->remote_iova < earlier->remote_iova + earlier->length)
			return true;
	}
	return false;
}

static void draw_atomic(struct endpoint *end, struct operation *operation)
{
	uint64_t current = 0;

	operation->length = 8;
	operation->compare_add = random_next(&end->random);
	operation->swap = random_next(&end->random);
	/* Half of the compare-and-swaps are meant to hit. */
	if (operation->opcode == IBV_WR_ATOMIC_CMP_AND_SWP && chance(end, 50)) {
		__builtin_memcpy(&current,
				 host_model(end->peer->qp->host, end->peer->target,
					    operation->remote_iova),
				 8);
		operation->compare_add = current;
	}
}

/* Rights of the QP are looked at whatever the length is. */
static bool is_permitted(const struct endpoint *end, const struct operation *operation)
{
	uint32_t access = end->peer->plan->terms.access;

	if (operation_is_write(operation))
		return access & IBV_ACCESS_REMOTE_WRITE;
	if (operation_is_atomic(operation))
		return access & IBV_ACCESS_REMOTE_ATOMIC;
	return operation_is_send(operation) || access & IBV_ACCESS_REMOTE_READ;
}

static void spoil_remote(struct endpoint *end, struct operation *operation)
{
	struct endpoint *peer = end->peer;

	operation->expected = IBV_WC_REM_ACCESS_ERR;
	switch (random_below(&end->random, 4)) {
	case 0:
		operation->rkey ^= 1u << random_below(&end->random, 32);
		break;
	case 1:
		operation->remote_iova =
			peer->target->iova + peer->target->length - operation->length + 8;
		break;
	case 2:
		operation->rkey = peer->forbidden->key;
		operation->remote_iova = peer->forbidden->iova;
		break;
	default:
		operation->rkey = peer->foreign->key;
		operation->remote_iova = peer->foreign->iova;
		break;
	}
}

/* Makes the request one that must fail. Only lengths that are checked at all. */
static void spoil(struct endpoint *end, struct operation *operation)
{
	if (!operation->length)
		return;
	if (chance(end, 25) && !(operation->flags & IBV_SEND_INLINE)) {
		operation->expected = IBV_WC_LOC_PROT_ERR;
	} else if (operation_is_send(operation)) {
		operation->length = end->peer->plan->receive_bytes +
				    (uint32_t)random_between(&end->random, 1, 100);
		operation->flags &= ~(unsigned)IBV_SEND_INLINE;
		operation->expected = IBV_WC_REM_INV_REQ_ERR;
	} else if (operation_is_atomic(operation) && chance(end, 30)) {
		operation->remote_iova += random_between(&end->random, 1, 7);
		operation->expected = IBV_WC_REM_INV_REQ_ERR;
	} else {
		spoil_remote(end, operation);
	}
}

/*
 * Buffers of requests that asked for no completion stay taken until a later completion.
 * They may take a quarter of the ring, or else the next request might never fit.
 */
static bool must_signal(const struct endpoint *end, const struct operation *operation)
{
	uint64_t taken = end->source_ring.head - end->signalled_end + operation->length;

	return end->unsignalled_run + 1 >= end->plan->cap.max_send_wr ||
	       taken > end->source_ring.bytes / 4;
}

static void draw_flags(struct endpoint *end, struct operation *operation)
{
	const struct endpoint_plan *plan = end->plan;
	bool is_last = end->posted_in_life + 1 == plan->operation_count;

	operation->is_signalled = plan->signals_all || is_last || must_signal(end, operation) ||
				  !chance(end, plan->unsignalled_percent);
	if (operation->is_signalled && !plan->signals_all)
		operation->flags |= IBV_SEND_SIGNALED;
	if (chance(end, plan->fence_percent) || needs_fence(end, operation))
		operation->flags |= IBV_SEND_FENCE;
	if (operation_takes_receive(operation) && chance(end, 20))
		operation->flags |= IBV_SEND_SOLICITED;
	if ((operation_is_send(operation) || operation_is_write(operation)) &&
	    operation->length <= plan->cap.max_inline_data && !operation->is_echo &&
	    chance(end, plan->inline_percent))
		operation->flags |= IBV_SEND_INLINE;
}

/* Writes to the peer what the READ before fetched, straight from where it landed. */
static void draw_echo(struct endpoint *end, struct operation *operation)
{
	const struct operation *read = endpoint_operation(end, end->posted - 1);

	operation->opcode = IBV_WR_RDMA_WRITE;
	operation->length = read->length;
	operation->is_echo = true;
	operation->flags = IBV_SEND_FENCE;
	operation->sge_count = read->sge_count;
	for (uint32_t i = 0; i < read->sge_count; i++)
		operation->sge[i] = read->sge[i];
}

/* Who gets no answer is told nothing of what the peer makes of it. */
static void leave_untold(struct operation *operation)
{
	if (operation->expected == IBV_WC_SUCCESS || operation->expected == IBV_WC_LOC_PROT_ERR)
		return;
	operation->is_dropped = true;
	operation->expected = IBV_WC_SUCCESS;
}

void operation_draw(struct endpoint *end, struct operation *operation)
{
	const struct endpoint_plan *plan = end->plan;
	bool is_last = end->posted_in_life + 1 >= plan->operation_count;

	*operation = (struct operation){.id = ++end->ids_ever, .expected = IBV_WC_SUCCESS};
	if (end->next_is_echo) {
		draw_echo(end, operation);
	} else {
		operation->opcode = draw_opcode(end);
		operation->length = draw_length(end);
	}
	if (operation_is_atomic(operation))
		operation->length = 8;
	draw_range(end, operation);
	if (operation_is_atomic(operation))
		draw_atomic(end, operation);
	operation->immediate = htonl((uint32_t)random_next(&end->random));
	draw_flags(end, operation);
	if (!operation->is_echo && random_chance(&end->random, plan->bad_per_thousand * 1000))
		spoil(end, operation);
	if (!is_permitted(end, operation) && operation->expected != IBV_WC_LOC_PROT_ERR)
		operation->expected = IBV_WC_REM_ACCESS_ERR;
	if (plan->type == IBV_QPT_XRC_SEND)
		xrc_requests_draw(end, operation);
	if (!endpoint_is_reliable(end))
		leave_untold(operation);
	if (plan->type == IBV_QPT_UD)
		datagrams_draw(end, operation);
	windows_draw(end, operation);
	panes_draw(end, operation);
	if (operation->uses_pane && needs_fence(end, operation))
		operation->flags |= IBV_SEND_FENCE;
	operation->is_echoed = operation->opcode == IBV_WR_RDMA_READ && !is_last &&
			       operation->expected == IBV_WC_SUCCESS && chance(end, 30);
}

static void spoil_local(struct endpoint *end, struct operation *operation)
{
	struct ibv_sge *sge = &operation->sge[random_below(&end->random, operation->sge_count)];

	while (!sge->length)
		sge = &operation->sge[random_below(&end->random, operation->sge_count)];
	if ((operation->opcode == IBV_WR_RDMA_READ || operation_is_atomic(operation)) &&
	    sge->length <= end->read_only->length && chance(end, 50)) {
		sge->lkey = end->read_only->key;
		sge->addr = end->read_only->iova;
	} else if (chance(end, 50)) {
		sge->lkey ^= 1u << random_below(&end->random, 32);
	} else {
		sge->addr = end->source->iova + end->source->length - sge->length + 1;
	}
}

bool operation_place(struct endpoint *end, struct operation *operation)
{
	uint32_t count = (uint32_t)random_between(&end->random, 1, end->plan->cap.max_send_sge);
	uint32_t left = operation->length;
	uint64_t position;

	if (operation->is_echo) {
		operation->source_end = end->source_ring.head;
		return true;
	}
	position = byte_ring_take(&end->source_ring, left + count * ELEMENT_GAP_MAX);
	if (position == UINT64_MAX)
		return false;
	operation->source_end = end->source_ring.head;
	operation->sge_count = count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t part = i + 1 == count ? left
					       : (uint32_t)random_between(&end->random, 0, left);

		position += random_below(&end->random, ELEMENT_GAP_MAX);
		operation->sge[i] =
			(struct ibv_sge){end->source->iova + position, part, end->source->key};
		/* Nobody looks at the key and the address of nothing. */
		if (!part && chance(end, 50))
			operation->sge[i] = (struct ibv_sge){0xdead0001, 0, 0xdeadbeef};
		position += part;
		left -= part;
	}
	if (!operation->length && chance(end, 50))
		operation->sge_count = 0;
	if (operation->expected == IBV_WC_LOC_PROT_ERR)
		spoil_local(end, operation);
	return true;
}
