/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions that follow each other go to the same CQ mostly, and are pushed there under one hold of
 * its lock. Nothing is explained under it: that writes to standard error.
 */
#include "engine/tell.h"

#include "engine/explain.h"
#include "engine/pass.h"

struct pushing {
	struct engine_qp *qp;
	struct pass *pass; /* NULL: nobody looks on */
	vbn_time now;
	struct engine_cq *cq; /* which is locked; NULL: none */
	bool has_overrun;
};

static void let_go(struct pushing *pushing)
{
	if (pushing->cq)
		brief_lock_release(&pushing->cq->lock);
	pushing->cq = NULL;
}

static void take_hold(struct pushing *pushing, struct engine_cq *cq)
{
	if (pushing->cq == cq)
		return;
	let_go(pushing);
	if (pushing->pass && cq == pushing->pass->audience.cq)
		pushing->pass->has_told = true;
	brief_lock_take(&cq->lock);
	pushing->cq = cq;
}

static void explain_status(struct engine_qp *qp, const struct completion *completion)
{
	if (completion->status == IBV_WC_WR_FLUSH_ERR) {
		qp->flush_count++;
		return;
	}
	explain_completion(qp->qp->number, completion->wr_id, completion->status,
			   &completion->complaint);
}

/* Who waits for the event itself needs no wake-up. */
static void notify_channel(struct engine_cq *cq, struct pass *pass)
{
	const struct event notify = {.object = cq->object};

	if (!cq->channel)
		return;
	if (pass && cq->channel == pass->audience.events) {
		pass->has_told = true;
		event_queue_leave(cq->channel, &notify);
	} else {
		event_queue_push(cq->channel, &notify);
	}
}

/* The entry is lost, and nobody will poll it. */
static void note_overrun(struct pushing *pushing, struct engine_cq *cq,
			 const struct completion *completion, bool is_first)
{
	struct event event = {.object = cq->object, .type = IBV_EVENT_CQ_ERR};
	struct complaint complaint = {.reason = REASON_CQ_OVERRUN, .limit = cq->queue.capacity};

	pushing->has_overrun = true;
	if (completion->srq)
		srq_return_slot(completion->srq, completion->srq_slot);
	if (!is_first)
		return;
	if (cq->async)
		event_queue_push(cq->async, &event);
	let_go(pushing);
	explain_event(pushing->qp->qp->number, IBV_EVENT_CQ_ERR, &complaint);
}

static struct engine_cq *cq_of(const struct engine_qp *qp, const struct completion *completion)
{
	if (completion->srq)
		return srq_cq_of(qp, completion);
	return completion->is_receive ? qp->recv_cq : qp->send_cq;
}

/* The program is just polling this CQ, and gets it right away. */
static bool is_given(struct pushing *pushing, struct engine_cq *cq, struct cq_entry *entry)
{
	struct audience *audience = pushing->pass ? &pushing->pass->audience : NULL;

	return audience && cq == audience->cq && audience->room &&
	       cq_give(cq, entry, audience->room);
}

static void push_completion(struct pushing *pushing, const struct completion *completion)
{
	struct engine_qp *qp = pushing->qp;
	struct engine_cq *cq = cq_of(qp, completion);
	struct cq_entry entry = cq_entry_of(completion, qp, qp->qp->number, pushing->now);

	if (completion->is_receive)
		qp->told_at = pushing->now;
	if (completion->status != IBV_WC_SUCCESS) {
		let_go(pushing);
		explain_status(qp, completion);
	}
	take_hold(pushing, cq);
	if (is_given(pushing, cq, &entry))
		return;
	switch (cq_push(cq, &entry)) {
	case CQ_PUSHED:
	case CQ_PUSHED_HOLD:
		break;
	case CQ_PUSHED_NOTIFY:
		notify_channel(cq, pushing->pass);
		break;
	case CQ_OVERRUN_FIRST:
		note_overrun(pushing, cq, completion, true);
		break;
	case CQ_OVERRUN_AGAIN:
		note_overrun(pushing, cq, completion, false);
		break;
	}
}

/* True: the QP went to ERROR by this, and has flushes to tell. */
static bool overrun(struct engine_qp *qp, const struct core *core)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (qp->qp->state == IBV_QPS_ERR)
		return false;
	srq_enter(qp);
	qp_modify(qp->qp, &attr, IBV_QP_STATE, NULL, core);
	srq_leave(qp);
	return true;
}

static void tell_listeners(const struct engine_qp *qp, enum ibv_event_type type)
{
	const struct qp_listener *listener;

	LIST_FOREACH(listener, &qp->listeners, next)
	{
		struct event event = {.object = listener->object, .type = type};

		if (listener->async)
			event_queue_push(listener->async, &event);
	}
}

static void raise_events(struct engine_qp *qp, const struct outbox *out)
{
	for (uint32_t i = 0; i < out->event_count; i++) {
		enum ibv_event_type type = out->events[i];

		if (type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_QP_REQ_ERR ||
		    type == IBV_EVENT_QP_FATAL)
			explain_event(qp->qp->number, type, &qp->qp->first_complaint);
		tell_listeners(qp, type);
	}
}

bool tell_program(struct engine_qp *qp, struct pass *pass)
{
	struct outbox *out = &pass->outbox;
	struct pushing pushing = {.qp = qp, .pass = pass, .now = pass->core.now};
	bool has_more = false;

	for (uint32_t i = 0; i < out->completion_count; i++)
		push_completion(&pushing, &out->completions[i]);
	let_go(&pushing);
	if (out->event_count)
		raise_events(qp, out);
	if (pushing.has_overrun)
		has_more = overrun(qp, &pass->core);
	outbox_clear(out);
	return has_more;
}

bool tell_completion(struct engine_qp *qp, const struct completion *completion,
		     const struct core *core)
{
	/* Asking for the time takes as long as a short WRITE. */
	struct pushing pushing = {.qp = qp,
				  .now = qp->send_cq->has_timestamps ? clock_now() : core->now};

	push_completion(&pushing, completion);
	let_go(&pushing);
	if (pushing.has_overrun)
		overrun(qp, core);
	return !pushing.has_overrun;
}
