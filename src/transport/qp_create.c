/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Life of a queue pair in memory of the caller: the struct, then the send ring,
 * then the receive ring, each on a cache line of its own.
 */
#include "transport/transport.h"

#include "base/assert.h"
#include "transport/qp_state.h"
#include "transport/rc.h"
#include "transport/receive.h"
#include "transport/srq.h"

#define QP_ALIGNMENT 64u

static size_t line_round(size_t bytes)
{
	return (bytes + QP_ALIGNMENT - 1) & ~(size_t)(QP_ALIGNMENT - 1);
}

static size_t send_bytes(const struct ibv_qp_cap *cap)
{
	return line_round(
		work_queue_send_bytes(cap->max_send_wr, cap->max_send_sge, cap->max_inline_data));
}

static size_t recv_bytes(const struct ibv_qp_cap *cap)
{
	return line_round(work_queue_recv_bytes(cap->max_recv_wr, cap->max_recv_sge));
}

static bool is_possible(const struct ibv_qp_cap *cap)
{
	return cap->max_send_wr <= WORK_QUEUE_WR_MAX && cap->max_recv_wr <= WORK_QUEUE_WR_MAX &&
	       cap->max_send_sge <= WORK_QUEUE_SGE_MAX && cap->max_recv_sge <= WORK_QUEUE_SGE_MAX &&
	       cap->max_inline_data <= WORK_QUEUE_INLINE_MAX;
}

size_t qp_bytes(const struct ibv_qp_cap *cap)
{
	if (!is_possible(cap))
		return 0;
	return line_round(sizeof(struct qp)) + send_bytes(cap) + recv_bytes(cap);
}

struct qp *qp_init(void *memory, const struct ibv_qp_cap *cap, enum ibv_qp_type type,
		   uint32_t number, uint32_t pd, bool signals_all)
{
	struct qp *qp = memory;
	uint8_t *rings = (uint8_t *)memory + line_round(sizeof(struct qp));

	VBN_ASSERT(((uintptr_t)memory & (QP_ALIGNMENT - 1)) == 0);
	VBN_ASSERT(is_possible(cap));
	qp->number = number;
	qp->incarnation = number;
	qp->pd = pd;
	qp->type = type;
	qp->signals_all = signals_all;
	qp->cap = *cap;
	qp->counters = &qp->own_counters;
	qp->srq_slot = SRQ_NO_SLOT;
	work_queue_init_send(&qp->send_queue, rings, cap->max_send_wr, cap->max_send_sge,
			     cap->max_inline_data);
	work_queue_init_recv(&qp->recv_queue, rings + send_bytes(cap), cap->max_recv_wr,
			     cap->max_recv_sge);
	qp_requester_reset(qp);
	rc_responder_reset(qp, NULL);
	return qp;
}

void qp_attach_srq(struct qp *qp, struct srq *srq)
{
	VBN_ASSERT(qp->recv_queue.limit == 0);
	qp->srq = srq;
}

void qp_attach_xrc(struct qp *qp, struct xrc_domain *domain)
{
	VBN_ASSERT(qp->type == IBV_QPT_XRC_RECV);
	qp->xrc = domain;
}

void qp_count_in(struct qp *qp, struct qp_counters *counters)
{
	qp->counters = counters;
}

void qp_fini(struct qp *qp, struct hold_pool *holds)
{
	qp_requester_reset(qp);
	rc_responder_reset(qp, holds);
	receive_forget(qp);
}
