/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting to the receive queue; keys are checked when a message arrives. */
#include "transport/transport.h"

#include <errno.h>

#include "transport/refuse_request.h"

static int check(const struct qp *qp, const struct ibv_recv_wr *wr, struct complaint *complaint)
{
	const struct work_queue *queue = &qp->recv_queue;

	/* Its receives are posted to the SRQ, or to those of its domain, or it receives nothing. */
	if (qp->srq || qp->type == IBV_QPT_XRC_RECV || qp->type == IBV_QPT_XRC_SEND)
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_INVALID, 0, 0);
	/* In every other state receives are accepted; in ERR they are flushed. */
	if (qp->state == IBV_QPS_RESET)
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_STATE, 0, 0);
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue->sge_max)
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_LIMIT,
				      (uint32_t)wr->num_sge, queue->sge_max);
	if (wr->num_sge && !wr->sg_list)
		return refuse_request(complaint, qp->number, EINVAL, REASON_CALL_INVALID, 0, 0);
	if (work_queue_is_full(queue))
		return refuse_request(complaint, qp->number, ENOMEM, REASON_CALL_LIMIT,
				      queue->limit, queue->limit);
	return 0;
}

int qp_post_recv(struct qp *qp, const struct ibv_recv_wr *wr, struct complaint *complaint)
{
	int error = check(qp, wr, complaint);

	if (error)
		return error;
	recv_wqe_fill(recv_wqe_at(&qp->recv_queue, qp->recv_queue.posted), wr);
	qp->recv_queue.posted++;
	return 0;
}
