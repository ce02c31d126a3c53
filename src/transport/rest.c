/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When output can be left out, or cut short. Most packets that a QP takes in leave it with nothing to do but to
 * acknowledge them, and most posts with one packet to send, an acknowledgement perhaps before it. Asking
 * all parts of the QP costs more than either.
 *
 * Each condition below is one of the things that qp_output() would act on. Progress of a requester that
 * has requests under way moves its deadlines, so there all of them must be done for it to rest.
 */
#include "transport/counting.h"
#include "transport/rc.h"
#include "transport/rc_wqe.h"

static bool requester_rests(const struct qp *qp)
{
	const struct work_queue *queue = &qp->send_queue;

	return queue->done == queue->posted && !qp->requester.probe_is_due;
}

/* What is owed of answers, refusals and events. */
static bool responder_rests(const struct rc_responder *responder)
{
	return !responder->response_count && !responder->held_count && !responder->nak_is_due &&
	       !responder->event_is_due;
}

bool qp_rests(const struct qp *qp)
{
	return (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_RTR) && requester_rests(qp) &&
	       responder_rests(&qp->responder);
}

/* All outcomes were told. */
static bool completer_rests(const struct qp *qp)
{
	return qp->send_queue.done == qp->requester.unacked_position;
}

/* A WRITE may have to leave before the ACK that is held (rc_replay.c), which output sees to. */
static bool is_plain(const struct qp *qp)
{
	const struct work_queue *queue = &qp->send_queue;

	return rc_wqe_is_send(send_wqe_at(queue, queue->started)) || !qp->responder.ack_is_due;
}

bool qp_has_one_packet(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC && qp->state == IBV_QPS_RTS &&
	       rc_requester_has_one_packet(qp) && is_plain(qp) && completer_rests(qp) &&
	       responder_rests(&qp->responder);
}

void qp_output_one_packet(struct qp *qp, const struct core *core, struct outbox *out)
{
	bool owes_ack = qp->responder.ack_is_due;

	if (owes_ack)
		rc_replay_output(qp, core, out);
	rc_requester_output_one_packet(qp, core, out);
	counting_sent(qp, 1 + owes_ack, out->packets[out->packet_count - 1].packet.payload_bytes);
}
