/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checker: counts and windows stay in bounds
 *
 * Looked at whenever a QP rests, from the fields that the transport keeps:
 *
 *   - of services that answer, PSNs stand in the order unacked, send, next, and no more than half of the space
 *     is outstanding; the acknowledged one lies between unacked and next;
 *   - READs and atomics outstanding do not pass max_rd_atomic, answers queued do not
 *     pass what the responder has room for, packets held stay in their window;
 *   - ring positions stand in the order released, done, started, posted, and no more
 *     is posted than was granted;
 *   - of UC the request that is sent from stands between done and started;
 *   - a QP is charged with what leads to its peer and is under way: the packets of SENDs and
 *     WRITEs, and a small one for a READ, an atomic or a SEND whose payload is lent;
 *   - a QP without anything outstanding is charged with nothing, no charge is
 *     negative, and the charges of all QPs of a flow add up to the flow;
 *   - what UC has in a peer's buffer, as far as is known, does not pass the window, except
 *     for a packet alone, and it is charged to nobody;
 *   - of an SRQ no more slots are in use than were granted, none less than are waiting or
 *     taken, and in the end those that wait are all that is in use;
 *   - the buffers of the hold pool that are taken are those that QPs hold.
 */
#include "sim/check_bounds.h"

#include "base/psn.h"
#include "transport/rc_wqe.h"

#define NAME "bounds"

#define CLAIM(world, claim) \
	((claim) ? (void)0 : world_fail(world, NAME, "%s does not hold", #claim))

static uint32_t forward(uint32_t from, uint32_t to)
{
	return (to - from) & PSN_MASK;
}

static void check_psns(struct world *world, const struct qp *qp)
{
	const struct rc_requester *requester = &qp->requester;
	uint32_t outstanding = forward(requester->psn_unacked, requester->psn_next);
	uint32_t under_way = forward(requester->psn_unacked, requester->send_psn);
	uint32_t acked = forward(requester->psn_unacked, requester->psn_acked);

	CLAIM(world, outstanding < PSN_HALF);
	CLAIM(world, under_way <= outstanding);
	CLAIM(world, acked <= outstanding);
	CLAIM(world, requester->read_count <= QP_RD_ATOMIC_MAX);
	CLAIM(world, requester->read_count <= qp->attr.max_rd_atomic || !requester->read_count);
	CLAIM(world,
	      (requester->answered & 1) == 0 || requester->psn_unacked == requester->psn_next);
	CLAIM(world, requester->retries_left <= qp->attr.retry_cnt);
	CLAIM(world, requester->rnr_retries_left <= qp->attr.rnr_retry);
}

static void check_position(struct world *world, const struct qp *qp)
{
	const struct work_queue *queue = &qp->send_queue;

	if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD)
		CLAIM(world,
		      qp->requester.send_position - queue->done <= queue->started - queue->done);
}

static void check_queue(struct world *world, const struct work_queue *queue, bool has_started)
{
	uint32_t released = atomic_load(&queue->released);

	CLAIM(world, queue->posted - released <= queue->limit);
	CLAIM(world, queue->posted - queue->done <= queue->posted - released);
	if (has_started)
		CLAIM(world, queue->posted - queue->started <= queue->posted - queue->done);
}

static void check_responder(struct world *world, const struct rc_responder *responder)
{
	uint32_t held = 0;

	CLAIM(world, responder->response_count <= 2 * QP_RD_ATOMIC_MAX);
	if (responder->held_count == 0)
		return;
	for (uint32_t i = 0; i < HOLD_WINDOW; i++)
		held += responder->held[i] != HOLD_NONE;
	CLAIM(world, held == responder->held_count);
}

/* Of @count PSNs of @wqe, the first of which is @psn; a READ or atomic costs by its requests. */
static int64_t cost_of(const struct qp *qp, const struct send_wqe *wqe, uint32_t psn,
		       uint32_t count)
{
	uint32_t mtu = qp->path.payload_max;
	uint32_t done = forward(wqe->first_psn, psn) + count;
	uint32_t short_by = done == wqe->psn_count ? wqe->psn_count * mtu - wqe->length : 0;

	if (rc_wqe_wants_answers(wqe))
		return 0;
	if (wqe->is_lent)
		return done == wqe->psn_count ? FLOW_PACKET_COST_MIN : 0;
	return (int64_t)(count - 1) * flow_packet_cost(mtu) + flow_packet_cost(mtu - short_by);
}

static int64_t cost_of_requests(const struct rc_requester *requester)
{
	int64_t cost = 0;

	for (uint32_t i = 0; i < requester->read_count; i++) {
		const struct read_outstanding *read = &requester->reads[i];
		uint32_t last = psn_add(read->first_psn, read->psn_count - 1);

		if (psn_is_before(last, requester->send_psn))
			cost += FLOW_PACKET_COST_MIN;
	}
	return cost;
}

/* What it has under way is what it is charged with, whatever it was when it was sent. */
static void check_outbound(struct world *world, const struct qp *qp)
{
	const struct rc_requester *requester = &qp->requester;
	uint32_t position = requester->unacked_position, psn = requester->psn_unacked;
	int64_t cost = cost_of_requests(requester);

	while (psn != requester->send_psn) {
		const struct send_wqe *wqe = send_wqe_at(&qp->send_queue, position++);
		uint32_t left = forward(psn, requester->send_psn), count;

		if (wqe->psn_count == 0)
			continue;
		count = wqe->psn_count - forward(wqe->first_psn, psn);
		count = count < left ? count : left;
		cost += cost_of(qp, wqe, psn, count);
		psn = psn_add(psn, count);
	}
	CLAIM(world, requester->outbound_charged == cost);
}

static void check_charges(struct world *world, const struct qp *qp)
{
	const struct rc_requester *requester = &qp->requester;
	bool is_idle = !qp_is_unreliable(qp) && requester->psn_unacked == requester->send_psn;

	CLAIM(world, requester->outbound_charged >= 0);
	CLAIM(world, requester->inbound_charged >= 0);
	if (is_idle || qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE ||
	    qp->state == IBV_QPS_RESET) {
		CLAIM(world, requester->outbound_charged == 0);
		CLAIM(world, requester->inbound_charged == 0);
	}
}

static void check_srq(struct host *host, const struct srq *srq)
{
	uint32_t taken = 0;

	for (uint32_t i = 0; i < host->qp_count; i++) {
		const struct qp *qp = host->qps[i].qp;

		taken += qp && qp->srq == srq && qp->srq_slot != SRQ_NO_SLOT;
	}
	CLAIM(host->world, srq->used_count <= srq->wr_max);
	CLAIM(host->world, srq->waiting_count + taken <= srq->used_count);
	CLAIM(host->world, srq->taken_count == taken);
}

static void check_srqs(struct host *host)
{
	check_srq(host, &host->srq);
	for (uint32_t i = 0; i < host->xrc_srq_count; i++)
		check_srq(host, &host->xrc_srqs[i]);
}

/* A packet may be larger than the window, and then it is alone. */
static void check_pace(struct world *world, const struct flow *flow)
{
	int64_t bytes = flow_pace_bytes(flow);

	CLAIM(world,
	      bytes <= atomic_load(&flow->bytes_max) || bytes <= flow_packet_cost(PACKET_MTU_MAX));
	CLAIM(world, atomic_load(&flow->bytes_under_way) == 0);
}

static void check_flows(struct host *host)
{
	int64_t outbound = 0, inbound = 0, outbound_sum = 0;

	for (uint32_t i = 0; i < host->qp_count; i++) {
		const struct qp *qp = host->qps[i].qp;

		outbound += qp ? qp->requester.outbound_charged : 0;
		inbound += qp ? qp->requester.inbound_charged : 0;
	}
	for (uint32_t i = 0; i < WORLD_HOSTS_MAX; i++)
		outbound_sum += atomic_load(&host->outbound[i].bytes_under_way);
	CLAIM(host->world, outbound == outbound_sum);
	for (uint32_t i = 0; i < WORLD_HOSTS_MAX; i++)
		check_pace(host->world, &host->uc_outbound[i]);
	CLAIM(host->world, inbound == atomic_load(&host->inbound.bytes_under_way));
}

static void check_pool(struct host *host)
{
	uint64_t claimed = atomic_load(&host->holds.claimed[0]);
	uint32_t reserved = host->limits.hold_free < 64 ? 64 - host->limits.hold_free : 0;
	uint32_t held = 0;

	for (uint32_t i = 0; i < host->qp_count; i++)
		held += host->qps[i].qp ? host->qps[i].qp->responder.held_count : 0;
	CLAIM(host->world, (uint32_t)__builtin_popcountll(claimed) == held + reserved);
}

static void rests(void *context, struct host_qp *host_qp)
{
	struct world *world = context;
	const struct qp *qp = host_qp->qp;

	if (!qp_is_unreliable(qp))
		check_psns(world, qp);
	if (qp_is_uc(qp))
		check_position(world, qp);
	check_queue(world, &qp->send_queue, true);
	check_queue(world, &qp->recv_queue, false);
	check_responder(world, &qp->responder);
	check_charges(world, qp);
	if (!qp_is_unreliable(qp) && (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD))
		check_outbound(world, qp);
	check_srqs(host_qp->host);
	check_flows(host_qp->host);
	check_pool(host_qp->host);
}

void check_bounds_attach(struct world *world)
{
	world_observe(world, world)->rests = rests;
}

void check_bounds_idle(struct host *host)
{
	check_flows(host);
	check_pool(host);
	/* Nothing was lost on the way from taken to polled. */
	CLAIM(host->world, host->srq.used_count == host->srq.waiting_count);
	for (uint32_t i = 0; i < host->xrc_srq_count; i++)
		CLAIM(host->world, host->xrc_srqs[i].used_count == host->xrc_srqs[i].waiting_count);
	for (uint32_t i = 0; i < host->qp_count; i++)
		if (host->qps[i].qp)
			CLAIM(host->world, host->qps[i].qp->responder.held_count == 0);
	CLAIM(host->world, atomic_load(&host->inbound.bytes_under_way) == 0);
	for (uint32_t i = 0; i < WORLD_HOSTS_MAX; i++)
		CLAIM(host->world, atomic_load(&host->outbound[i].bytes_under_way) == 0);
}
