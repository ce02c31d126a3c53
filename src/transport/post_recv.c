/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting to the receive queue; keys are checked when a message arrives. */
#include "transport/transport.h"

#include <errno.h>
#include <string.h>

static int refuse(struct complaint *complaint, const struct qp *qp, int error, enum reason reason,
		  uint64_t length, uint64_t limit)
{
	if (complaint)
		*complaint = (struct complaint){
			.reason = reason, .qpn = qp->number, .length = length, .limit = limit};
	return error;
}

static int check(const struct qp *qp, const struct ibv_recv_wr *wr, struct complaint *complaint)
{
	const struct work_queue *queue = &qp->recv_queue;

	/* In every other state receives are accepted; in ERR they are flushed. */
	if (qp->state == IBV_QPS_RESET)
		return refuse(complaint, qp, EINVAL, REASON_CALL_STATE, 0, 0);
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue->sge_max)
		return refuse(complaint, qp, EINVAL, REASON_CALL_LIMIT, (uint32_t)wr->num_sge,
			      queue->sge_max);
	if (wr->num_sge && !wr->sg_list)
		return refuse(complaint, qp, EINVAL, REASON_CALL_INVALID, 0, 0);
	if (work_queue_is_full(queue))
		return refuse(complaint, qp, ENOMEM, REASON_CALL_LIMIT, queue->limit, queue->limit);
	return 0;
}

int qp_post_recv(struct qp *qp, const struct ibv_recv_wr *wr, struct complaint *complaint)
{
	struct recv_wqe *wqe;
	int error = check(qp, wr, complaint);

	if (error)
		return error;
	wqe = recv_wqe_at(&qp->recv_queue, qp->recv_queue.posted);
	wqe->wr_id = wr->wr_id;
	wqe->sge_count = (uint32_t)wr->num_sge;
	wqe->length = sge_bytes(wr->sg_list, wqe->sge_count);
	if (wqe->sge_count)
		memcpy(wqe->sge, wr->sg_list, wqe->sge_count * sizeof(*wr->sg_list));
	qp->recv_queue.posted++;
	return 0;
}
