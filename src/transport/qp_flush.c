/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flushing in ERR: every request without outcome completes with WR_FLUSH_ERR,
 * signalled or not, in order, each exactly once (IBA 10.3.1, C9-220). Posting goes on
 * being accepted in ERR and feeds the same loops.
 */
#include "transport/rc.h"

static struct completion *add_flushed(const struct qp *qp, struct outbox *out, uint64_t wr_id,
				      uint32_t position)
{
	struct completion *completion = outbox_add_completion(out);

	completion->wr_id = wr_id;
	completion->status = IBV_WC_WR_FLUSH_ERR;
	completion->slots_released = position + 1;
	completion->complaint.reason = REASON_FLUSHED;
	completion->complaint.qpn = qp->number;
	return completion;
}

static bool flush_sends(struct qp *qp, struct outbox *out)
{
	struct work_queue *queue = &qp->send_queue;

	for (; queue->done != queue->posted; queue->done++) {
		const struct send_wqe *wqe = send_wqe_at(queue, queue->done);
		struct completion *completion;

		if (!outbox_completions_room(out))
			return true;
		completion = add_flushed(qp, out, wqe->wr_id, queue->done);
		completion->opcode = send_wqe_completion_opcode(wqe);
		qp->has_flushed_sends = true;
		if (queue->started == queue->done)
			queue->started++;
	}
	return false;
}

static bool flush_receives(struct qp *qp, struct outbox *out)
{
	struct work_queue *queue = &qp->recv_queue;

	for (; queue->done != queue->posted; queue->done++) {
		const struct recv_wqe *wqe = recv_wqe_at(queue, queue->done);
		struct completion *completion;

		if (!outbox_completions_room(out))
			return true;
		completion = add_flushed(qp, out, wqe->wr_id, queue->done);
		completion->opcode = IBV_WC_RECV;
		completion->is_receive = true;
	}
	return false;
}

bool qp_flush_output(struct qp *qp, struct outbox *out)
{
	bool is_full = flush_sends(qp, out);

	return flush_receives(qp, out) || is_full;
}
