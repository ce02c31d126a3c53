/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When output can be left out: most packets that a QP takes in leave it with nothing to do but to
 * acknowledge them, and asking all of its parts costs as much as taking the packet in.
 *
 * Each condition below is one of the things that qp_output() would act on. Progress of a requester that
 * has requests under way moves its deadlines, so there all of them must be done.
 */
#include "transport/transport.h"

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
