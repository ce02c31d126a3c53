/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payload on its way out: from where a packet says it lies to the link's buffer.
 * Keys are checked here once more, at the last moment, since a region may have
 * been deregistered after its request was started.
 */
#include "transport/transport.h"

#include <string.h>

#include "base/assert.h"
#include "transport/rc.h"

enum reason payload_copy(const struct qp *qp, const struct packet_out *packet,
			 const struct core *core, uint8_t *bytes, struct complaint *complaint)
{
	struct access access = {.memory = core->memory, .copier = core->copier, .pd = qp->pd};
	const struct payload *payload = &packet->payload;
	uint32_t length = packet->packet.payload_bytes;

	if (!length)
		return REASON_NONE;
	switch (payload->kind) {
	case PAYLOAD_NONE:
		return REASON_NONE;
	case PAYLOAD_INLINE:
		memcpy(bytes, payload->inline_bytes, length);
		return REASON_NONE;
	case PAYLOAD_SGE:
		return sge_gather(&access, payload->sge.list, payload->sge.count,
				  payload->sge.offset, bytes, length, complaint);
	case PAYLOAD_REMOTE:
		return remote_read(&access, payload->remote.rkey, payload->remote.iova, bytes,
				   length, complaint);
	}
	VBN_ASSERT(!"a kind of payload");
	return REASON_NONE;
}

void qp_payload_failed(struct qp *qp, const struct packet_out *packet,
		       const struct complaint *complaint, const struct core *core)
{
	(void)core;
	switch (packet->payload.kind) {
	case PAYLOAD_SGE:
		/* In ERR the request is flushed like all others. */
		if (qp->state != IBV_QPS_ERR)
			rc_requester_fail_wqe(qp, packet->wqe_position, packet->packet.psn,
					      IBV_WC_LOC_PROT_ERR, complaint);
		return;
	case PAYLOAD_REMOTE:
		rc_replay_failed(qp, packet->packet.psn, complaint);
		return;
	case PAYLOAD_NONE:
	case PAYLOAD_INLINE:
		break;
	}
	VBN_ASSERT(!"a payload that can fail");
}
