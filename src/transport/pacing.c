/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: what may be under way
 *
 * The requester's cursor says exactly what is under way: the PSNs from psn_unacked
 * up to send_psn. Going back takes PSNs out of that range, sending puts them in
 * again, acknowledgements take them out at the other end. What a QP is charged with
 * is a function of the range:
 *
 *   outbound   the packets of SENDs and WRITEs in it, and a small packet for each
 *              READ or atomic request, and SEND that is lent, whose last PSN lies in it
 *   inbound    the answers of READs and atomics in it
 *
 * A PSN over which the cursor steps without sending it again (it was answered in
 * the meantime) is charged all the same: so the rule stays simple and the sums
 * return to exactly zero when the range is empty, which is asserted.
 *
 * A QP that is charged with nothing may send one packet whatever the others do, so that
 * nobody depends on the acknowledgements of another QP to be woken. The sum of a flow
 * may therefore pass its limit by a packet per QP, and READs that are repeated may
 * pass it by a request.
 */
#include "base/assert.h"
#include "transport/rc.h"
#include "transport/rc_wqe.h"

uint32_t pacing_read_packets(const struct qp *qp, uint32_t wanted)
{
	const struct flow *flow = qp->path.inbound;
	int64_t used = atomic_load_explicit(&flow->bytes_under_way, memory_order_relaxed);
	int64_t bytes_max = atomic_load_explicit(&flow->bytes_max, memory_order_relaxed);
	int64_t packets = 0;

	if (used < bytes_max)
		packets = (bytes_max - used) / flow_packet_cost(qp->path.payload_max);
	if (packets == 0 && qp->requester.inbound_charged == 0)
		packets = 1;
	return packets < wanted ? (uint32_t)packets : wanted;
}

int64_t pacing_cost(const struct qp *qp, const struct send_wqe *wqe, uint32_t first_psn,
		    uint32_t count)
{
	uint32_t payload_max = qp->path.payload_max;
	uint32_t last_psn = psn_add(first_psn, count - 1);
	uint32_t last_bytes = rc_wqe_payload_bytes(wqe, last_psn, payload_max);

	VBN_ASSERT(count && psn_is_within(last_psn, wqe->first_psn, wqe->psn_count));
	if (wqe->is_lent)
		return psn_add(last_psn, 1) == rc_wqe_end(wqe) ? FLOW_PACKET_COST_MIN : 0;
	/* Only the last packet of a message may be short. */
	return (int64_t)(count - 1) * flow_packet_cost(payload_max) + flow_packet_cost(last_bytes);
}

static uint32_t requests_ending_in(const struct rc_requester *requester, uint32_t first_psn,
				   uint32_t count)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < requester->read_count; i++) {
		const struct read_outstanding *read = &requester->reads[i];

		found += psn_is_within(psn_add(read->first_psn, read->psn_count - 1), first_psn,
				       count);
	}
	return found;
}

struct charge {
	int64_t outbound, inbound;
};

static struct charge charge_of_range(const struct qp *qp, uint32_t position, uint32_t from,
				     uint32_t to)
{
	struct charge charge = {0, 0};

	while (from != to) {
		const struct send_wqe *wqe = send_wqe_at(&qp->send_queue, position++);
		uint32_t here, left, count;

		if (rc_wqe_is_local(wqe))
			continue;
		here = psn_forward(from, rc_wqe_end(wqe));
		left = psn_forward(from, to);
		count = here < left ? here : left;
		if (rc_wqe_wants_answers(wqe)) {
			charge.inbound += pacing_cost(qp, wqe, from, count);
			charge.outbound += (int64_t)FLOW_PACKET_COST_MIN *
					   requests_ending_in(&qp->requester, from, count);
		} else {
			charge.outbound += pacing_cost(qp, wqe, from, count);
		}
		from = psn_add(from, count);
	}
	return charge;
}

static void charge_flows(struct qp *qp, struct charge charge)
{
	qp->requester.outbound_charged += charge.outbound;
	qp->requester.inbound_charged += charge.inbound;
	VBN_ASSERT(qp->requester.outbound_charged >= 0 && qp->requester.inbound_charged >= 0);
	if (charge.outbound)
		flow_add(qp->path.outbound, charge.outbound);
	if (charge.inbound)
		flow_add(qp->path.inbound, charge.inbound);
}

void pacing_charge(struct qp *qp, uint32_t position, uint32_t from, uint32_t to)
{
	charge_flows(qp, charge_of_range(qp, position, from, to));
}

void pacing_give_back(struct qp *qp, uint32_t position, uint32_t from, uint32_t to)
{
	struct charge charge = charge_of_range(qp, position, from, to);

	charge_flows(qp, (struct charge){-charge.outbound, -charge.inbound});
}

void pacing_release_all(struct qp *qp)
{
	charge_flows(qp, (struct charge){-qp->requester.outbound_charged,
					 -qp->requester.inbound_charged});
}
