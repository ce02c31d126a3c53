/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting to the send queue: everything that can be judged without memory keys or
 * the peer is judged here, so that a wrong request fails in the call that made it.
 */
#include "transport/transport.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "transport/refuse_request.h"

#define ATOMIC_BYTES 8

/* Of IBV_ACCESS_*; what gives a window no right is allowed and says nothing. */
#define BIND_ACCESS_KNOWN \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED)

enum operation {
	OPERATION_SEND,
	OPERATION_WRITE,
	OPERATION_READ,
	OPERATION_ATOMIC,
	OPERATION_BIND,
	OPERATION_INVALIDATE,
};

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
	case IBV_WR_SEND_WITH_INV:
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
	case IBV_WR_BIND_MW:
		*operation = OPERATION_BIND;
		return 0;
	case IBV_WR_LOCAL_INV:
		*operation = OPERATION_INVALIDATE;
		return 0;
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
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_LIMIT,
				      (uint32_t)wr->num_sge, sge_max);
	if (wr->num_sge && !wr->sg_list)
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_INVALID, 0, 0);
	return 0;
}

/* A datagram is one packet. (Without a path it is going to be flushed, whatever its length.) */
static uint64_t message_bytes_max(const struct qp *qp)
{
	return qp_is_datagram(qp) && qp->path.payload_max ? qp->path.payload_max
							  : MESSAGE_BYTES_MAX;
}

static bool is_local(enum operation operation)
{
	return operation == OPERATION_BIND || operation == OPERATION_INVALIDATE;
}

/* The rest is seen when it is executed: keys may change until then. */
static int check_bind(const struct qp *qp, const struct ibv_send_wr *wr, enum ibv_mw_type type,
		      struct complaint *complaint)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
	bool is_unbind = type == IBV_MW_TYPE_1 && !info->length;

	if (!wr->bind_mw.mw || wr->bind_mw.mw->type != type)
		return refuse_request(complaint, qp->number, EINVAL, REASON_WINDOW_TYPE, 0, 0);
	if (info->mw_access_flags & ~(unsigned)BIND_ACCESS_KNOWN)
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_INVALID,
				      info->mw_access_flags, BIND_ACCESS_KNOWN);
	if (!is_unbind && (!info->mr || !info->length))
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_INVALID,
				      info->length, 0);
	return 0;
}

static int check_length(const struct qp *qp, const struct ibv_send_wr *wr, enum operation operation,
			uint64_t length, struct complaint *complaint)
{
	uint32_t inline_max = qp->send_queue.inline_max;

	if (length > message_bytes_max(qp))
		return refuse_request(complaint, qp->number, EINVAL, REASON_MESSAGE_TOO_LONG,
				      length, message_bytes_max(qp));
	if (operation == OPERATION_ATOMIC && length != ATOMIC_BYTES)
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_INVALID, length,
				      ATOMIC_BYTES);
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return 0;
	/* There is nothing to take along: these bring data here, or none anywhere. */
	if (operation == OPERATION_READ || operation == OPERATION_ATOMIC || is_local(operation))
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_INVALID, 0, 0);
	if (length > inline_max)
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_LIMIT, length,
				      inline_max);
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

static void fill_target(const struct qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr,
			enum operation operation)
{
	switch (operation) {
	case OPERATION_SEND:
		if (!qp_is_datagram(qp))
			break;
		wqe->remote_qpn = wr->wr.ud.remote_qpn;
		wqe->remote_qkey = wr->wr.ud.remote_qkey;
		break;
	case OPERATION_BIND:
	case OPERATION_INVALIDATE:
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

static void fill_bind(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

	wqe->bind = (struct window_bind){
		.window = wr->bind_mw.mw->rkey,
		.key = wr->bind_mw.rkey,
		.region = info->mr ? info->mr->lkey : 0,
		.rights = info->mw_access_flags,
		.address = info->addr,
		.length = info->length,
	};
}

static void fill(const struct qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr,
		 enum operation operation, uint32_t length)
{
	memset(wqe, 0, offsetof(struct send_wqe, status));
	wqe->wr_id = wr->wr_id;
	wqe->immediate = wr->imm_data;
	wqe->length = length;
	wqe->flags = (uint16_t)wr->send_flags;
	wqe->opcode = (uint8_t)wr->opcode;
	wqe->is_signalled = qp->signals_all || (wr->send_flags & IBV_SEND_SIGNALED);
	wqe->is_inline = wr->send_flags & IBV_SEND_INLINE;
	if (qp->type == IBV_QPT_XRC_SEND)
		wqe->remote_srqn = wr->qp_type.xrc.remote_srqn;
	if (operation == OPERATION_BIND)
		fill_bind(wqe, wr);
	if (is_local(operation))
		return;
	fill_target(qp, wqe, wr, operation);
	if (wqe->is_inline || !wr->num_sge)
		return;
	wqe->sge_count = (uint16_t)wr->num_sge;
	memcpy(wqe->sge, wr->sg_list, wqe->sge_count * sizeof(*wr->sg_list));
}

/*
 * What brings something back needs a peer that answers. Windows belong to RC and UC QPs, and
 * only RC has packets that invalidate one.
 */
static bool service_offers(const struct qp *qp, enum operation operation, unsigned opcode)
{
	bool is_send = operation == OPERATION_SEND && opcode != IBV_WR_SEND_WITH_INV;

	if (qp_is_datagram(qp))
		return is_send;
	if (qp_is_uc(qp))
		return is_send || operation == OPERATION_WRITE || is_local(operation);
	if (qp->type == IBV_QPT_XRC_SEND)
		return opcode != IBV_WR_SEND_WITH_INV && !is_local(operation);
	return true;
}

/* What each operation may bring along; for a bind, to windows of @type. */
static int check_operands(const struct qp *qp, const struct ibv_send_wr *wr,
			  enum operation operation, enum ibv_mw_type type, uint64_t *length,
			  struct complaint *complaint)
{
	int error = 0;

	*length = 0;
	if (operation == OPERATION_BIND)
		error = check_bind(qp, wr, type, complaint);
	else if (!is_local(operation))
		error = check_list(qp, wr, complaint);
	if (error)
		return error;
	if (!is_local(operation))
		*length = sge_bytes(wr->sg_list, (uint32_t)wr->num_sge);
	return check_length(qp, wr, operation, *length, complaint);
}

static int check(const struct qp *qp, const struct ibv_send_wr *wr, enum operation *operation,
		 enum ibv_mw_type type, uint64_t *length, struct complaint *complaint)
{
	int error;

	if (qp->type == IBV_QPT_XRC_RECV)
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_INVALID, 0, 0);
	if (!state_takes_sends(qp->state))
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_STATE, 0, 0);
	error = operation_of((unsigned)wr->opcode, operation);
	if (error)
		return refuse_request(complaint, qp->number, error, REASON_OPCODE_UNSUPPORTED, 0,
				      0);
	if (!service_offers(qp, *operation, (unsigned)wr->opcode))
		return refuse_request(complaint, qp->number, EINVAL, REASON_OPCODE_UNSUPPORTED, 0,
				      0);
	error = check_operands(qp, wr, *operation, type, length, complaint);
	if (error)
		return error;
	if (work_queue_is_full(&qp->send_queue))
		return refuse_request(complaint, qp->number, ENOMEM, REASON_CALL_LIMIT,
				      qp->send_queue.limit, qp->send_queue.limit);
	return 0;
}

static int post(struct qp *qp, const struct ibv_send_wr *wr, const struct copier *copier,
		enum ibv_mw_type type, struct complaint *complaint)
{
	struct send_wqe *wqe;
	enum operation operation;
	uint64_t length;
	int error = check(qp, wr, &operation, type, &length, complaint);

	if (error)
		return error;
	wqe = send_wqe_at(&qp->send_queue, qp->send_queue.posted);
	fill(qp, wqe, wr, operation, (uint32_t)length);
	if (copier && wqe->is_inline && !copy_inline(wqe, wr, copier))
		return refuse_request(complaint, qp->number, EFAULT, REASON_MEMORY_FAULT, length,
				      0);
	qp->send_queue.posted++;
	return 0;
}

int qp_post_send(struct qp *qp, const struct ibv_send_wr *wr, const struct copier *copier,
		 struct complaint *complaint)
{
	return post(qp, wr, copier, IBV_MW_TYPE_2, complaint);
}

int qp_post_bind_type_1(struct qp *qp, const struct ibv_send_wr *wr, struct complaint *complaint)
{
	VBN_ASSERT(wr->opcode == IBV_WR_BIND_MW);
	return post(qp, wr, NULL, IBV_MW_TYPE_1, complaint);
}

void qp_unpost_sends(struct qp *qp, uint32_t count)
{
	VBN_ASSERT(count <= qp->send_queue.posted - qp->send_queue.started);
	qp->send_queue.posted -= count;
}
