/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payload on its way out: from where a packet says it lies to the link's buffer, or its place alone.
 * Keys and rights are checked here once more, at the last moment, since a region may have
 * been deregistered after its request was started.
 */
#include "transport/transport.h"

#include <string.h>

#include "base/assert.h"
#include "transport/rc.h"
#include "transport/uc.h"
#include "transport/ud.h"

/* The program may have withdrawn the right of the QP since the request was admitted. */
static enum reason copy_answer(const struct qp *qp, const struct access *own,
			       const struct payload *payload, uint8_t *bytes, uint32_t length,
			       struct complaint *complaint)
{
	struct access access = *own;

	access.pd = payload->remote.pd;
	if (!(qp->access & IBV_ACCESS_REMOTE_READ)) {
		if (complaint)
			*complaint = (struct complaint){.key = payload->remote.rkey,
							.address = payload->remote.iova,
							.length = length};
		return REASON_QP_NO_REMOTE_READ;
	}
	return remote_read(&access, payload->remote.rkey, payload->remote.iova, bytes, length,
			   complaint);
}

static enum reason copy(const struct qp *qp, const struct access *access,
			const struct payload *payload, uint8_t *bytes, uint32_t length,
			struct complaint *complaint)
{
	switch (payload->kind) {
	case PAYLOAD_NONE:
		break;
	case PAYLOAD_INLINE:
		memcpy(bytes, payload->inline_bytes, length);
		return REASON_NONE;
	case PAYLOAD_SGE:
		return sge_gather(access, payload->sge.list, payload->sge.count,
				  payload->sge.offset, bytes, length, complaint);
	case PAYLOAD_REMOTE:
		return copy_answer(qp, access, payload, bytes, length, complaint);
	case PAYLOAD_LENT:
		break;
	}
	vbn_assert_failed("a packet with payload to copy says where it lies", __FILE__, __LINE__);
}

/* Whose payload it is, and why it cannot be had. */
static enum reason complain(const struct qp *qp, enum reason reason, struct complaint *complaint)
{
	if (reason != REASON_NONE && complaint) {
		complaint->reason = reason;
		complaint->qpn = qp->number;
	}
	return reason;
}

enum reason payload_copy(const struct qp *qp, const struct packet_out *packet,
			 const struct core *core, uint8_t *bytes, struct complaint *complaint)
{
	struct access access = access_of(qp, core);
	enum reason reason;

	if (!packet->packet.payload_bytes)
		return REASON_NONE;
	reason =
		copy(qp, &access, &packet->payload, bytes, packet->packet.payload_bytes, complaint);
	return complain(qp, reason, complaint);
}

enum reason payload_lend(const struct qp *qp, const struct packet_out *packet,
			 const struct core *core, struct lent_payload *lent,
			 struct complaint *complaint)
{
	const struct ibv_sge *whole = packet->payload.sge.list;
	struct access access = access_of(qp, core);
	/* The sum may wrap; the range check refuses what that gives. */
	const struct ibv_sge part = {.addr = whole->addr + packet->payload.sge.offset,
				     .length = packet->packet.payload_bytes,
				     .lkey = whole->lkey};
	enum reason reason = sge_check(&access, &part, 1, 0, complaint);

	VBN_ASSERT(packet->payload.kind == PAYLOAD_LENT && packet->payload.sge.count == 1);
	*lent = (struct lent_payload){
		.address = part.addr, .key = part.lkey, .length = part.length};
	return complain(qp, reason, complaint);
}

bool qp_payload_failed(struct qp *qp, const struct packet_out *packet,
		       const struct complaint *complaint, const struct core *core)
{
	(void)core;
	switch (packet->payload.kind) {
	case PAYLOAD_LENT:
	case PAYLOAD_SGE:
		if (qp_is_datagram(qp)) {
			ud_send_failed(qp, packet, complaint);
			return false;
		}
		if (qp_is_uc(qp)) {
			uc_send_failed(qp, packet, complaint);
			return false;
		}
		if (packet->leads_ack)
			qp->responder.ack_is_due = true;
		/* In ERR the request is flushed like all others. */
		if (qp->state != IBV_QPS_ERR)
			rc_requester_fail_wqe(qp, packet->wqe_position, packet->packet.psn,
					      IBV_WC_LOC_PROT_ERR, complaint);
		return false;
	case PAYLOAD_REMOTE:
		if (packet->payload.remote.was_sent)
			return true;
		rc_replay_failed(qp, packet->packet.psn, complaint);
		return false;
	case PAYLOAD_NONE:
	case PAYLOAD_INLINE:
		break;
	}
	vbn_assert_failed("only payload that is checked can fail", __FILE__, __LINE__);
}
