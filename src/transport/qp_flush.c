/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flushing in ERR, and of sends alone in SQE: every request without outcome completes with
 * WR_FLUSH_ERR, signalled or not, in order, each exactly once (IBA 10.3.1, C9-220). Posting
 * goes on being accepted and feeds the same loops.
 *
 * Of an SRQ's receives only the one that the QP had taken is flushed; the others are there
 * for other QPs. So that the program knows when nothing of the SRQ is this QP's any
 * more, and nothing will be, it is told once: LAST_WQE_REACHED (IBA 11.6.3.1), behind the last
 * completion.
 */
#include "transport/receive.h"
#include "transport/service.h"

static void mark_flushed(const struct qp *qp, struct completion *completion)
{
	completion->status = IBV_WC_WR_FLUSH_ERR;
	completion->complaint = (struct complaint){.reason = REASON_FLUSHED, .qpn = qp->number};
}

bool qp_flush_sends(struct qp *qp, struct outbox *out)
{
	struct work_queue *queue = &qp->send_queue;

	for (; queue->done != queue->posted; queue->done++) {
		const struct send_wqe *wqe = send_wqe_at(queue, queue->done);
		struct completion *completion;

		if (!outbox_completions_room(out))
			return true;
		completion = outbox_add_completion(out);
		completion->wr_id = wqe->wr_id;
		completion->slots_released = queue->done + 1;
		mark_flushed(qp, completion);
		completion->opcode = send_wqe_completion_opcode(wqe);
		qp->has_flushed_sends = true;
		if (queue->started == queue->done)
			queue->started++;
	}
	return false;
}

static bool flush_receives(struct qp *qp, struct outbox *out)
{
	while (receive_take_to_flush(qp)) {
		if (!outbox_completions_room(out))
			return true;
		mark_flushed(qp, receive_complete(qp, out));
	}
	if (qp->srq && !qp->xrc && !qp->last_wqe_is_told) {
		qp->last_wqe_is_told = true;
		outbox_add_event(out, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
	return false;
}

bool qp_flush_output(struct qp *qp, struct outbox *out)
{
	bool is_full = qp_flush_sends(qp, out);

	return flush_receives(qp, out) || is_full;
}
