/* SPDX-License-Identifier: BSD-2-Clause */
/* The one place that knows of both kinds of receive queue. */
#include "transport/receive.h"

/* An XRC_RECV QP has its SRQ only while it has a WQE of it. */
static void let_go(struct qp *qp)
{
	qp->srq_slot = SRQ_NO_SLOT;
	if (qp->xrc)
		qp->srq = NULL;
}

bool receive_take_shared(struct qp *qp)
{
	/* A message that broke off on an unreliable connection has left one behind. */
	if (qp->srq_slot == SRQ_NO_SLOT)
		qp->srq_slot = srq_take(qp->srq);
	if (qp->srq_slot == SRQ_NO_SLOT) {
		let_go(qp);
		return false;
	}
	return true;
}

struct completion *receive_complete(struct qp *qp, struct outbox *out)
{
	struct completion *completion = outbox_add_completion(out);

	completion->wr_id = receive_taken(qp)->wr_id;
	completion->status = IBV_WC_SUCCESS;
	completion->opcode = IBV_WC_RECV;
	completion->is_receive = true;
	if (qp->srq) {
		completion->srq = qp->srq;
		completion->srq_slot = qp->srq_slot;
		srq_end_taken(qp->srq);
		let_go(qp);
	} else {
		completion->slots_released = ++qp->recv_queue.done;
	}
	return completion;
}

/* What waits in an SRQ is for others to take. */
bool receive_take_to_flush(struct qp *qp)
{
	return qp->srq ? qp->srq_slot != SRQ_NO_SLOT : receive_ring_has_one(qp);
}

void receive_forget(struct qp *qp)
{
	work_queue_clear(&qp->recv_queue);
	if (qp->srq && qp->srq_slot != SRQ_NO_SLOT) {
		srq_end_taken(qp->srq);
		srq_release(qp->srq, qp->srq_slot);
		let_go(qp);
	}
	qp->last_wqe_is_told = false;
}
