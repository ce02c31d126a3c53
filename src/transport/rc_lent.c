/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/rc_lent.h"

#include "base/assert.h"
#include "transport/counting.h"
#include "transport/rc.h"
#include "transport/rc_wqe.h"

/* --- the requester --- */

/* One element: the place of several would be as many. */
bool rc_lent_is_due(const struct qp *qp, const struct send_wqe *wqe)
{
	const struct reach *reach = qp->path.reach;

	return reach && reach->lend_bytes_min && wqe->length >= reach->lend_bytes_min &&
	       !qp->requester.lends_nothing && rc_wqe_is_send(wqe) && !wqe->is_inline &&
	       wqe->sge_count == 1;
}

uint32_t rc_lent_packets(const struct qp *qp, const struct send_wqe *wqe)
{
	uint32_t left = psn_forward(qp->requester.send_psn, rc_wqe_end(wqe));
	uint32_t most = LENT_BYTES_MAX / qp->path.payload_max;

	if (most == 0)
		most = 1;
	return left < most ? left : most;
}

void rc_lent_refused(struct qp *qp, uint32_t psn)
{
	uint32_t position = qp->requester.unacked_position;
	bool was_lent = false;

	VBN_ASSERT(qp->requester.send_psn == qp->requester.psn_unacked);
	for (; position != qp->send_queue.started; position++) {
		const struct send_wqe *wqe = send_wqe_at(&qp->send_queue, position);

		was_lent |= wqe->is_lent && psn_is_within(psn, wqe->first_psn, wqe->psn_count);
	}
	if (!was_lent)
		return;
	qp->requester.lends_nothing = true;
	while (position-- != qp->requester.unacked_position)
		send_wqe_at(&qp->send_queue, position)->is_lent = false;
}

/* --- the responder --- */

bool rc_lent_fits(const struct qp *qp, const struct packet *packet)
{
	opcode_properties properties = opcode_properties_of(packet->opcode);

	return opcode_has(properties, OPCODE_IS_SEND) && packet->payload_bytes > 0 &&
	       (opcode_has(properties, OPCODE_ENDS) ||
		packet->payload_bytes % qp->path.payload_max == 0);
}

static void count(struct qp *qp, const struct packet *packet)
{
	qp_counters_add(qp->counters, QP_LENT_BYTES, packet->payload_bytes);
	if (opcode_has(opcode_properties_of(packet->opcode), OPCODE_ENDS))
		qp_count(qp, QP_LENT_SENDS);
}

enum reason rc_lent_fetch(struct qp *qp, const struct recv_wqe *wqe, const struct packet *packet,
			  const struct access *access, const struct core *core, uint64_t received)
{
	struct reach *reach = qp->path.reach;
	struct held_piece pieces[REACH_PIECES_MAX];
	struct reach_step step = {
		.is_read = true,
		.key = packet->lent_key,
		.address = packet->lent_address,
		.length = packet->payload_bytes,
		.bytes = packet->payload_bytes,
		.pieces = pieces,
		.piece_count = REACH_PIECES_MAX,
		.copier = core->copier,
		.now = core->now,
	};
	bool is_fetched;

	/* What is wrong with the receive is found, and told, when the payload comes by packets. */
	if (!reach || !reach->fetch ||
	    !sge_hold(access, wqe->sge, wqe->sge_count, received, step.bytes,
		      IBV_ACCESS_LOCAL_WRITE, pieces, &step.piece_count))
		return REASON_DROP_LENT;
	is_fetched = reach->fetch(reach, &step);
	sge_let_go(pieces, step.piece_count);
	if (!is_fetched)
		return REASON_DROP_LENT;
	count(qp, packet);
	return REASON_NONE;
}
