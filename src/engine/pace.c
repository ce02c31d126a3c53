/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/pace.h"

#include "engine/ah.h"
#include "engine/pass.h"

/* A queue in this process keeps whatever it is given; what waits for room in a ring has a limit. */
struct engine_flow *pace_flow(const struct engine_qp *qp)
{
	if (!qp_is_uc(qp->qp) || (qp->qp->path.is_lossless && !qp->flow->peer))
		return NULL;
	return qp->flow;
}

void pace_enter(struct engine_flow *flow)
{
	pthread_mutex_lock(&flow->pace_lock);
}

void pace_leave(struct engine_flow *flow)
{
	pthread_mutex_unlock(&flow->pace_lock);
}

void pace_left(struct engine_flow *flow)
{
	pthread_mutex_lock(&flow->pace_lock);
	flow_pace_left(&flow->flow, clock_now());
	pthread_mutex_unlock(&flow->pace_lock);
}

static bool may_leave(struct engine *engine, struct engine_flow *flow, uint32_t cost, vbn_time now,
		      vbn_time *again_at)
{
	bool may;

	pthread_mutex_lock(&flow->pace_lock);
	membership_refresh(engine, flow, &flow->pace_window_seen);
	may = flow_pace_admit(&flow->flow, cost, now, again_at);
	pthread_mutex_unlock(&flow->pace_lock);
	return may;
}

vbn_time pace_datagrams(struct engine_qp *qp, struct pass *pass)
{
	const struct work_queue *queue = &qp->qp->send_queue;
	vbn_time again_at = VBN_TIME_NEVER;
	uint32_t count = 0;

	while (qp->qp->state == IBV_QPS_RTS && count < OUTBOX_PACKETS &&
	       queue->started + count != queue->posted) {
		uint32_t position = queue->started + count;
		const struct send_wqe *wqe = send_wqe_at(queue, position);
		struct engine_flow *flow = ah_flow(qp, position, wqe->remote_qpn);

		if (flow && !may_leave(qp->engine, flow, flow_packet_cost(wqe->length),
				       pass->core.now, &again_at))
			break;
		count++;
	}
	pass->core.datagrams_max = count;
	return again_at;
}
