/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting to the send queue: everything that can be judged without memory keys or
 * the peer is judged here, so that a wrong request fails in the call that made it.
 */
#include "transport/transport.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"

#define ATOMIC_BYTES 8

enum operation { OPERATION_SEND, OPERATION_WRITE, OPERATION_READ, OPERATION_ATOMIC };

static int refuse(struct complaint *complaint, const struct qp *qp, int error, enum reason reason,
		  uint64_t length, uint64_t limit)
{
	if (complaint)
		*complaint = (struct complaint){
			.reason = reason, .qpn = qp->number, .length = length, .limit = limit};
	return error;
}

/* Requests posted in SQD wait, requests posted in ERR are flushed (IBA 10.3.1). */
static bool state_takes_sends(enum ibv_qp_state state)
{
	switch (state) {
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
		return true;
	case IBV_QPS_RESET:
	case IBV_QPS_INIT:
	case IBV_QPS_RTR:
	case IBV_QPS_UNKNOWN:
		break;
	}
	return false;
}

/* The value comes from a program and newer headers have more of them: not an enum to us. */
static int operation_of(unsigned opcode, enum operation *operation)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		*operation = OPERATION_SEND;
		return 0;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		*operation = OPERATION_WRITE;
		return 0;
	case IBV_WR_RDMA_READ:
		*operation = OPERATION_READ;
		return 0;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		*operation = OPERATION_ATOMIC;
		return 0;
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_TSO:
	case IBV_WR_DRIVER1:
	case IBV_WR_ATOMIC_WRITE:
		return EOPNOTSUPP;
	default:
		return EINVAL;
	}
}

static int check_list(const struct qp *qp, const struct ibv_send_wr *wr,
		      struct complaint *complaint)
{
	uint32_t sge_max = qp->send_queue.sge_max;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > sge_max)
		return refuse(complaint, qp, EINVAL, REASON_CALL_LIMIT, (uint32_t)wr->num_sge,
			      sge_max);
	if (wr->num_sge && !wr->sg_list)
		return refuse(complaint, qp, EINVAL, REASON_CALL_INVALID, 0, 0);
	return 0;
}

static int check_length(const struct qp *qp, const struct ibv_send_wr *wr, enum operation operation,
			uint64_t length, struct complaint *complaint)
{
	uint32_t inline_max = qp->send_queue.inline_max;

	if (length > MESSAGE_BYTES_MAX)
		return refuse(complaint, qp, EINVAL, REASON_MESSAGE_TOO_LONG, length,
			      MESSAGE_BYTES_MAX);
	if (operation == OPERATION_ATOMIC && length != ATOMIC_BYTES)
		return refuse(complaint, qp, EINVAL, REASON_CALL_INVALID, length, ATOMIC_BYTES);
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return 0;
	/* There is nothing to take along: these bring data here. */
	if (operation == OPERATION_READ || operation == OPERATION_ATOMIC)
		return refuse(complaint, qp, EINVAL, REASON_CALL_INVALID, 0, 0);
	if (length > inline_max)
		return refuse(complaint, qp, EINVAL, REASON_CALL_LIMIT, length, inline_max);
	return 0;
}

/* The list may name any address, also none: a copy that faults comes back short. */
static bool copy_inline(struct send_wqe *wqe, const struct ibv_send_wr *wr,
			const struct copier *copier)
{
	uint8_t *bytes = wqe->inline_bytes;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (!sge->length)
			continue;
		if (copier->copy(bytes, (const void *)(uintptr_t)sge->addr, sge->length) !=
		    sge->length)
			return false;
		bytes += sge->length;
	}
	return true;
}

static void fill_target(struct send_wqe *wqe, const struct ibv_send_wr *wr,
			enum operation operation)
{
	switch (operation) {
	case OPERATION_SEND:
		break;
	case OPERATION_WRITE:
	case OPERATION_READ:
		wqe->remote_address = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
		break;
	case OPERATION_ATOMIC:
		wqe->remote_address = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
		break;
	}
}

static void fill(const struct qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr,
		 enum operation operation, uint32_t length)
{
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = wr->wr_id;
	wqe->immediate = wr->imm_data;
	wqe->length = length;
	wqe->flags = (uint16_t)wr->send_flags;
	wqe->opcode = (uint8_t)wr->opcode;
	wqe->is_signalled = qp->signals_all || (wr->send_flags & IBV_SEND_SIGNALED);
	wqe->is_inline = wr->send_flags & IBV_SEND_INLINE;
	fill_target(wqe, wr, operation);
	if (wqe->is_inline || !wr->num_sge)
		return;
	wqe->sge_count = (uint16_t)wr->num_sge;
	memcpy(wqe->sge, wr->sg_list, wqe->sge_count * sizeof(*wr->sg_list));
}

static int check(const struct qp *qp, const struct ibv_send_wr *wr, enum operation *operation,
		 uint64_t *length, struct complaint *complaint)
{
	int error;

	if (!state_takes_sends(qp->state))
		return refuse(complaint, qp, EINVAL, REASON_CALL_STATE, 0, 0);
	error = operation_of((unsigned)wr->opcode, operation);
	if (error)
		return refuse(complaint, qp, error, REASON_OPCODE_UNSUPPORTED, 0, 0);
	error = check_list(qp, wr, complaint);
	if (error)
		return error;
	*length = sge_bytes(wr->sg_list, (uint32_t)wr->num_sge);
	error = check_length(qp, wr, *operation, *length, complaint);
	if (error)
		return error;
	if (work_queue_is_full(&qp->send_queue))
		return refuse(complaint, qp, ENOMEM, REASON_CALL_LIMIT, qp->send_queue.limit,
			      qp->send_queue.limit);
	return 0;
}

int qp_post_send(struct qp *qp, const struct ibv_send_wr *wr, const struct copier *copier,
		 struct complaint *complaint)
{
	struct send_wqe *wqe;
	enum operation operation;
	uint64_t length;
	int error = check(qp, wr, &operation, &length, complaint);

	if (error)
		return error;
	wqe = send_wqe_at(&qp->send_queue, qp->send_queue.posted);
	fill(qp, wqe, wr, operation, (uint32_t)length);
	if (wqe->is_inline && !copy_inline(wqe, wr, copier))
		return refuse(complaint, qp, EFAULT, REASON_MEMORY_FAULT, length, 0);
	qp->send_queue.posted++;
	return 0;
}

void qp_unpost_sends(struct qp *qp, uint32_t count)
{
	VBN_ASSERT(count <= qp->send_queue.posted - qp->send_queue.started);
	qp->send_queue.posted -= count;
}
