/* SPDX-License-Identifier: BSD-2-Clause */
/* How requests end: failures of all services, completions of those without acknowledgements. */
#include "transport/service.h"

void send_fail(const struct qp *qp, struct send_wqe *wqe, enum ibv_wc_status status,
	       const struct complaint *complaint)
{
	if (wqe->has_failed)
		return;
	wqe->has_failed = true;
	wqe->status = status;
	wqe->complaint = *complaint;
	wqe->complaint.qpn = qp->number;
}

void send_complete(const struct qp *qp, const struct send_wqe *wqe, struct outbox *out)
{
	struct completion *completion = outbox_add_completion(out);

	completion->wr_id = wqe->wr_id;
	completion->opcode = send_wqe_completion_opcode(wqe);
	completion->slots_released = qp->send_queue.done + 1;
	completion->status = IBV_WC_SUCCESS;
	if (wqe->has_failed) {
		completion->status = wqe->status;
		completion->complaint = wqe->complaint;
	}
}
