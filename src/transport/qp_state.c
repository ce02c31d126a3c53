/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: the states of a queue pair
 *
 *   RESET   nothing is remembered
 *   INIT    receives may be posted
 *   RTR     requests of the peer are executed and answered
 *   RTS     requests of our own go out as well
 *   SQD     requests already started are finished, no new one is started
 *   SQE     a datagram of our own failed: sends are flushed, the peers' are received
 *   ERR     both queues are flushed, in order, as completions are asked for
 *
 * Every move passes through qp_set_state(). There are two ways into ERR. By
 * modify_qp() the program wants silence: queued answers and a NAK that is due are
 * dropped. By qp_fail() the QP met an error of its own or of its peer: what it
 * owes the peer still goes out, for the peer learns from the NAK what was wrong.
 * In both cases nothing of ours is sent any more, timers stop and what the QP
 * had under way in its flows is given back at once.
 */
#include "transport/transport.h"

#include <string.h>

#include "base/assert.h"
#include "transport/qp_state.h"
#include "transport/qp_transitions.h"
#include "transport/rc.h"
#include "transport/rc_direct.h"
#include "transport/receive.h"

#define ACCESS_REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

void qp_set_state(struct qp *qp, enum ibv_qp_state state)
{
	VBN_ASSERT(qp_transition_find(qp->type, qp->state, state, NULL));
	qp->state = state;
}

void qp_report_drained(struct qp *qp, struct outbox *out)
{
	if (qp->state != IBV_QPS_SQD || !qp->wants_drained_event ||
	    qp->requester.drain_is_reported || qp_is_draining(qp))
		return;
	qp->requester.drain_is_reported = true;
	outbox_add_event(out, IBV_EVENT_SQ_DRAINED);
}

void qp_requester_reset(struct qp *qp)
{
	if (qp->path.outbound)
		pacing_release_all(qp);
	memset(&qp->requester, 0, sizeof(qp->requester));
	qp->uc_again_at = VBN_TIME_NEVER;
	qp->requester.send_position = qp->send_queue.started;
	qp->requester.unacked_position = qp->send_queue.started;
	qp->requester.unacked_position = qp->send_queue.started;
	qp->requester.retry_deadline = VBN_TIME_NEVER;
	qp->requester.rnr_deadline = VBN_TIME_NEVER;
	qp->requester.probe_deadline = VBN_TIME_NEVER;
}

bool qp_is_draining(const struct qp *qp)
{
	return qp->state == IBV_QPS_SQD &&
	       (qp->send_queue.done != qp->send_queue.started || rc_direct_is_under_way(qp));
}

/* Nothing of our own goes out from here on. */
static void requester_stop(struct qp *qp)
{
	rc_retry_stop(qp);
	if (qp->path.outbound)
		pacing_release_all(qp);
}

static void requester_start(struct qp *qp)
{
	struct rc_requester *requester = &qp->requester;

	qp_requester_reset(qp);
	requester->psn_next = qp->attr.sq_psn;
	requester->psn_unacked = qp->attr.sq_psn;
	requester->psn_acked = qp->attr.sq_psn;
	requester->send_psn = qp->attr.sq_psn;
	requester->retries_left = qp->attr.retry_cnt;
	requester->rnr_retries_left = qp->attr.rnr_retry;
}

static void enter_reset(struct qp *qp, const struct core *core)
{
	work_queue_clear(&qp->send_queue);
	receive_forget(qp);
	qp_requester_reset(qp);
	memset(&qp->attr, 0, sizeof(qp->attr));
	memset(&qp->path, 0, sizeof(qp->path));
	memset(&qp->first_complaint, 0, sizeof(qp->first_complaint));
	rc_responder_reset(qp, core->holds);
	qp->access = 0;
	qp->wants_drained_event = false;
	qp->has_flushed_sends = false;
}

static void enter_sqd(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	qp->wants_drained_event = (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) && attr->en_sqd_async_notify;
	qp->requester.drain_is_reported = false;
}

/* The work of a move; @from is where the QP was, its state is set already. */
static void enter(struct qp *qp, enum ibv_qp_state from, const struct ibv_qp_attr *attr, int mask,
		  const struct core *core)
{
	switch (qp->state) {
	case IBV_QPS_RESET:
		enter_reset(qp, core);
		break;
	case IBV_QPS_RTR:
		rc_responder_reset(qp, core->holds);
		break;
	case IBV_QPS_RTS:
		if (from == IBV_QPS_RTR)
			requester_start(qp);
		if (from == IBV_QPS_SQE) {
			qp->has_flushed_sends = false;
			qp->requester.send_position = qp->send_queue.started;
		}
		break;
	case IBV_QPS_SQD:
		if (from == IBV_QPS_RTS)
			enter_sqd(qp, attr, mask);
		break;
	case IBV_QPS_ERR:
		requester_stop(qp);
		rc_responder_stop(qp, core->holds);
		break;
	case IBV_QPS_INIT:
	case IBV_QPS_SQE:
	case IBV_QPS_UNKNOWN:
		break;
	}
}

void qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask, const struct path *path,
	       const struct core *core)
{
	enum ibv_qp_state from = qp->state;

	qp_attributes_store(qp, attr, mask);
	if (mask & IBV_QP_ACCESS_FLAGS)
		qp->access = attr->qp_access_flags & ACCESS_REMOTE;
	if (path)
		qp->path = *path;
	if (!(mask & IBV_QP_STATE))
		return;
	qp_set_state(qp, attr->qp_state);
	enter(qp, from, attr, mask, core);
	if (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS)
		VBN_ASSERT(qp->path.payload_max &&
			   (qp_is_datagram(qp) || (qp->path.outbound && qp->path.inbound)));
}

void qp_fail(struct qp *qp, const struct complaint *complaint)
{
	if (qp->state == IBV_QPS_ERR)
		return;
	qp->first_complaint = *complaint;
	qp->first_complaint.qpn = qp->number;
	qp_set_state(qp, IBV_QPS_ERR);
	requester_stop(qp);
}

/* No program can ask for this move, so that the table does not have it. */
void qp_fail_sends(struct qp *qp, const struct complaint *complaint)
{
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return;
	VBN_ASSERT(qp_is_unreliable(qp));
	qp->first_complaint = *complaint;
	qp->first_complaint.qpn = qp->number;
	qp->state = IBV_QPS_SQE;
}

/* PSNs are shown as they stand now, as drivers do; where the side is not running, as stored. */
static void query_psns(const struct qp *qp, struct ibv_qp_attr *attr)
{
	bool sends = qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
		     qp->state == IBV_QPS_SQE;

	if (sends || qp->state == IBV_QPS_RTR)
		attr->rq_psn = qp->responder.psn_expected;
	if (sends)
		attr->sq_psn = qp->requester.psn_next;
}

void qp_query(const struct qp *qp, struct ibv_qp_attr *attr)
{
	*attr = qp->attr;
	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	attr->cap = qp->cap;
	attr->sq_draining = qp_is_draining(qp);
	query_psns(qp, attr);
}
