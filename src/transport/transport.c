/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam's events, handed to the parts that act on them. What a QP takes in and
 * gives out depends on its state only here; the parts do not ask again.
 */
#include "transport/transport.h"

#include "transport/counting.h"
#include "transport/rc.h"
#include "transport/uc.h"
#include "transport/ud.h"
#include "transport/xrc.h"
#include "wire/opcode.h"

/* Requests of the peer are executed and answered. */
static bool responds(const struct qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
	       qp->state == IBV_QPS_SQE;
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

static enum service service_of(const struct qp *qp)
{
	if (qp_is_datagram(qp))
		return SERVICE_UD;
	return qp_is_uc(qp) ? SERVICE_UC : xrc_service_of(qp);
}

/* Of the two halves of an XRC connection one hears requests, the other answers. */
static bool is_half_of(const struct qp *qp, opcode_properties properties)
{
	if (qp->type == IBV_QPT_XRC_SEND)
		return opcode_has(properties, OPCODE_IS_RESPONSE);
	return qp->type != IBV_QPT_XRC_RECV || opcode_has(properties, OPCODE_IS_REQUEST);
}

static enum reason take_in(struct qp *qp, const struct packet *packet, const struct core *core,
			   struct outbox *out)
{
	opcode_properties properties = opcode_properties_of(packet->opcode);

	if (opcode_service(packet->opcode) != service_of(qp) || !is_half_of(qp, properties))
		return REASON_DROP_SERVICE;
	if (qp_is_unreliable(qp) && !responds(qp))
		return REASON_DROP_QP_STATE;
	if (qp_is_unreliable(qp))
		return qp_is_datagram(qp) ? ud_receive(qp, packet, core, out)
					  : uc_receive(qp, packet, core, out);
	if (opcode_has(properties, OPCODE_IS_RESPONSE))
		return requests(qp) ? take_answer(qp, packet, core, out) : REASON_DROP_QP_STATE;
	return responds(qp) ? rc_responder_receive(qp, packet, core, out) : REASON_DROP_QP_STATE;
}

enum reason qp_receive(struct qp *qp, const struct packet *packet, const struct core *core,
		       struct outbox *out)
{
	struct outbox_mark mark = outbox_mark(out);
	enum reason reason;

	counting_received(qp, packet);
	reason = take_in(qp, packet, core, out);
	counting_handed_out(qp, out, mark);
	return reason;
}

void qp_deadline(struct qp *qp, const struct core *core)
{
	if (requests(qp) && !qp_is_unreliable(qp))
		rc_retry_deadline(qp, core);
}

vbn_time qp_next_deadline(const struct qp *qp)
{
	const struct rc_requester *requester = &qp->requester;

	if (!requests(qp))
		return VBN_TIME_NEVER;
	if (qp_is_uc(qp))
		return uc_send_next_deadline(qp);
	return vbn_time_min(requester->retry_deadline,
			    vbn_time_min(requester->rnr_deadline, requester->probe_deadline));
}

vbn_time qp_ack_deadline(const struct qp *qp)
{
	return qp->responder.ack_is_held ? qp->responder.ack_held_until : VBN_TIME_NEVER;
}

bool qp_owes_ack(const struct qp *qp)
{
	return qp->responder.ack_is_due;
}

bool qp_perform(struct qp *qp, const struct core *core, struct completion *completion,
		bool *is_signalled)
{
	if (qp->type != IBV_QPT_RC || !rc_requester_perform(qp, core))
		return false;
	*is_signalled = rc_completer_end_oldest(qp, completion);
	return true;
}

/* Something for rc_replay_output(). */
static bool has_answers(const struct rc_responder *responder)
{
	return responder->event_is_due || responder->response_count || responder->ack_is_due ||
	       responder->nak_is_due;
}

/*
 * Every step may move the QP to ERROR, so each looks at the state anew. In ERROR
 * held packets are given back and what is owed to the peer still goes out. The completer
 * reports what had its outcome before and the request that failed; once a send was
 * flushed nothing but flushes may follow (C9-220).
 */
static bool output(struct qp *qp, const struct core *core, struct outbox *out,
		   struct outbox_mark mark)
{
	bool was_held = qp->responder.ack_is_held;
	uint32_t answers_end;
	bool is_full = false;

	if (responds(qp) || qp->state == IBV_QPS_ERR) {
		if (qp->responder.held_count)
			is_full |= rc_responder_run_held(qp, core, out);
		if (has_answers(&qp->responder))
			is_full |= rc_replay_output(qp, core, out);
	}
	answers_end = out->packet_count;
	if (requests(qp) || (qp->state == IBV_QPS_ERR && !qp->has_flushed_sends))
		is_full |= rc_completer_output(qp, out);
	if (requests(qp))
		is_full |= rc_requester_output(qp, core, out);
	if (was_held && answers_end > mark.packet_count)
		rc_replay_let_write_lead(out, answers_end - 1);
	if (qp->state == IBV_QPS_ERR)
		is_full |= qp_flush_output(qp, out);
	return is_full;
}

/* The same without a peer to answer; a failed send flushes the others, a failed receive all. */
static bool output_unreliable(struct qp *qp, const struct core *core, struct outbox *out)
{
	bool is_full = false;

	if (requests(qp) || (qp->state == IBV_QPS_ERR && !qp->has_flushed_sends))
		is_full |= qp_is_datagram(qp) ? ud_send_output(qp, core, out)
					      : uc_send_output(qp, core, out);
	if (is_full)
		return true;
	if (qp->state == IBV_QPS_SQE)
		is_full |= qp_flush_sends(qp, out);
	if (qp->state == IBV_QPS_ERR)
		is_full |= qp_flush_output(qp, out);
	return is_full;
}

bool qp_output(struct qp *qp, const struct core *core, struct outbox *out)
{
	struct outbox_mark mark = outbox_mark(out);
	bool is_full = qp_is_unreliable(qp) ? output_unreliable(qp, core, out)
					    : output(qp, core, out, mark);

	counting_handed_out(qp, out, mark);
	return is_full;
}
