/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam's events, handed to the parts that act on them. What a QP takes in and
 * gives out depends on its state only here; the parts do not ask again.
 */
#include "transport/transport.h"

#include "transport/rc.h"
#include "wire/opcode.h"

/* Requests of the peer are executed and answered. */
static bool responds(const struct qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;
}

/* Requests of our own are under way or may start. */
static bool requests(const struct qp *qp)
{
	return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;
}

/*
 * Completions are made at once, not with the output: a batch may hold an acknowledgement and
 * behind it the peer's next SEND, and a program expects its own send done before that.
 */
static enum reason take_answer(struct qp *qp, const struct packet *packet, const struct core *core,
			       struct outbox *out)
{
	enum reason reason = rc_completer_receive(qp, packet, core);

	rc_completer_output(qp, out);
	return reason;
}

enum reason qp_receive(struct qp *qp, const struct packet *packet, const struct core *core,
		       struct outbox *out)
{
	opcode_properties properties = opcode_properties_of(packet->opcode);

	if (opcode_service(packet->opcode) != SERVICE_RC)
		return REASON_DROP_SERVICE;
	if (opcode_has(properties, OPCODE_IS_RESPONSE))
		return requests(qp) ? take_answer(qp, packet, core, out) : REASON_DROP_QP_STATE;
	if (opcode_has(properties, OPCODE_IS_REQUEST))
		return responds(qp) ? rc_responder_receive(qp, packet, core, out)
				    : REASON_DROP_QP_STATE;
	return REASON_DROP_OPCODE;
}

void qp_deadline(struct qp *qp, const struct core *core)
{
	if (requests(qp))
		rc_retry_deadline(qp, core);
}

vbn_time qp_next_deadline(const struct qp *qp)
{
	const struct rc_requester *requester = &qp->requester;

	if (!requests(qp))
		return VBN_TIME_NEVER;
	return vbn_time_min(requester->retry_deadline,
			    vbn_time_min(requester->rnr_deadline, requester->probe_deadline));
}

/*
 * Every step may move the QP to ERROR, so each looks at the state anew. In ERROR
 * held packets are given back and what is owed to the peer still goes out. The completer
 * reports what had its outcome before and the request that failed; once a send was
 * flushed nothing but flushes may follow (C9-220).
 */
bool qp_output(struct qp *qp, const struct core *core, struct outbox *out)
{
	bool is_full = false;

	if (responds(qp) || qp->state == IBV_QPS_ERR) {
		is_full |= rc_responder_run_held(qp, core, out);
		is_full |= rc_replay_output(qp, core, out);
	}
	if (requests(qp) || (qp->state == IBV_QPS_ERR && !qp->has_flushed_sends))
		is_full |= rc_completer_output(qp, out);
	if (requests(qp))
		is_full |= rc_requester_output(qp, core, out);
	if (qp->state == IBV_QPS_ERR)
		is_full |= qp_flush_output(qp, out);
	return is_full;
}
