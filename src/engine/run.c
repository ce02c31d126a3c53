/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything one QP has to send, complete and tell: the outbox of the transport is
 * emptied into the link's batch, the CQs and the event queue, until nothing is left
 * or the turn is over. The QP's lock is held throughout, so packets of one QP leave
 * in order and completions arrive in order.
 */
#include "engine/pass.h"

#include <string.h>

#include "engine/explain.h"
#include "engine/pace.h"

/* A QP with more to send than that lets others have a turn; its timer brings it back. */
#define ROUNDS_MAX 16

static void send_batch(struct engine_qp *qp, struct pass *pass)
{
	const struct target *target = &pass->target;
	struct send_batch *batch = &pass->batch;

	if (batch->message_count) {
		struct link *link = target->link->link;

		counters_add(&qp->engine->statistics.room->head.process.sent, batch->message_count);
		link->ops->send(link, target->route, batch, pass->core.now);
		/* An answer may come soon: whoever polls looks for it. */
		atomic_store_explicit(&target->link->last_traffic, pass->core.now,
				      memory_order_relaxed);
		pace_left(target->flow);
	}
	batch->message_count = batch->bytes_used = 0;
}

static struct target target_of(const struct engine_qp *qp, const struct packet_out *out)
{
	if (qp->ahs)
		return ah_target(qp, out->wqe_position, out->packet.dest_qpn);
	return (struct target){
		.link = qp->link,
		.route = &qp->route,
		.flow = pace_flow(qp),
	};
}

/* The batch takes one more message, of at most @bytes bytes, to @target. */
static void make_room(struct engine_qp *qp, struct pass *pass, const struct target *target,
		      uint32_t bytes)
{
	const struct send_batch *batch = &pass->batch;

	if (batch->message_count == SEND_BATCH_MESSAGES ||
	    batch->bytes_used + bytes > SEND_BATCH_BYTES || target->route != pass->target.route ||
	    target->slot != pass->target.slot)
		send_batch(qp, pass);
	pass->target = *target;
}

/* False: the payload could not be read; what the outbox holds behind it is stale. */
static bool add_message(struct engine_qp *qp, struct pass *pass, const struct packet_out *out)
{
	struct send_batch *batch = &pass->batch;
	struct target target = target_of(qp, out);
	uint32_t payload_bytes = out->packet.payload_bytes;
	uint32_t pad_bytes = packet_pad_bytes(payload_bytes);
	uint8_t *bytes;
	size_t header_bytes;

	make_room(qp, pass, &target,
		  PACKET_HEADER_BYTES_MAX + payload_bytes + pad_bytes + ICRC_BYTES);
	bytes = batch->bytes + batch->bytes_used;
	header_bytes = packet_emit_header(&out->packet, bytes);
	if (payload_bytes) {
		struct complaint complaint = {0};

		if (payload_copy(qp->qp, out, &pass->core, bytes + header_bytes, &complaint))
			return qp_payload_failed(qp->qp, out, &complaint, &pass->core);
		memset(bytes + header_bytes + payload_bytes, 0, pad_bytes);
	}
	batch->messages[batch->message_count++] = (struct send_message){
		.offset = batch->bytes_used,
		.length = (uint32_t)header_bytes + payload_bytes + pad_bytes,
	};
	batch->bytes_used += (uint32_t)header_bytes + payload_bytes + pad_bytes + ICRC_BYTES;
	return true;
}

static bool batch_packets(struct engine_qp *qp, struct pass *pass)
{
	bool is_whole = true;

	for (uint32_t i = 0; is_whole && i < pass->outbox.packet_count; i++)
		is_whole = add_message(qp, pass, &pass->outbox.packets[i]);
	/* A program that sees a completion may end: what was to leave before it leaves now. */
	if (pass->outbox.completion_count || pass->outbox.event_count)
		send_batch(qp, pass);
	return is_whole;
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

/* Who waits for the event itself needs no wake-up. Without a pass nobody does. */
static void notify_channel(struct event_queue *channel, const struct event *notify,
			   struct pass *pass)
{
	if (pass && channel == pass->audience.events) {
		pass->has_told = true;
		event_queue_leave(channel, notify);
	} else {
		event_queue_push(channel, notify);
	}
}

/* False: the CQ has overrun, and with it goes the QP. */
static bool push_completion(struct engine_qp *qp, const struct completion *completion, vbn_time now,
			    struct pass *pass)
{
	struct engine_cq *cq = srq_cq_of(qp, completion);
	struct cq_entry entry = {
		.completion = *completion,
		.owner = qp,
		.qpn = qp->qp->number,
		.timestamp_ns = now,
	};
	struct event notify = {.object = cq->object};
	struct event overrun = {.object = cq->object, .type = IBV_EVENT_CQ_ERR};
	struct complaint complaint = {.reason = REASON_CQ_OVERRUN};
	enum cq_push_result result;

	if (completion->is_receive)
		qp->told_at = now;
	if (completion->status != IBV_WC_SUCCESS)
		explain_status(qp, completion);
	if (pass && cq == pass->audience.cq)
		pass->has_told = true;
	pthread_mutex_lock(&cq->lock);
	result = cq_push(cq, &entry);
	if (result == CQ_PUSHED_NOTIFY && cq->channel)
		notify_channel(cq->channel, &notify, pass);
	if (result == CQ_OVERRUN_FIRST && cq->async)
		event_queue_push(cq->async, &overrun);
	/* It is lost, and nobody will poll it. */
	if (result != CQ_PUSHED && result != CQ_PUSHED_NOTIFY && completion->srq)
		srq_return_slot(completion);
	complaint.limit = cq->queue.capacity;
	pthread_mutex_unlock(&cq->lock);
	if (result == CQ_OVERRUN_FIRST)
		explain_event(qp->qp->number, IBV_EVENT_CQ_ERR, &complaint);
	return result == CQ_PUSHED || result == CQ_PUSHED_NOTIFY;
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

/* What is left in the batch is for the caller to send. */
static bool empty_outbox(struct engine_qp *qp, struct pass *pass)
{
	struct outbox *out = &pass->outbox;
	bool has_overrun = false;
	bool has_more;

	/* Before anybody hears of what happened. */
	statistics_show_state(qp);
	direct_follow_qp(qp);
	has_more = !batch_packets(qp, pass);
	for (uint32_t i = 0; i < out->completion_count; i++)
		if (!push_completion(qp, &out->completions[i], pass->core.now, pass))
			has_overrun = true;
	raise_events(qp, out);
	if (has_overrun)
		has_more |= overrun(qp, &pass->core);
	outbox_clear(out);
	return has_more;
}

bool run_outbox(struct engine_qp *qp, struct pass *pass)
{
	bool has_more = empty_outbox(qp, pass);

	send_batch(qp, pass);
	return has_more;
}

bool run_straight(struct engine_qp *qp, const struct core *core)
{
	struct completion completion;
	bool is_signalled;

	qp_grant_direct(qp->qp, DIRECT_STEP_BYTES);
	while (!qp_has_started_all(qp->qp)) {
		if (!qp_perform(qp->qp, core, &completion, &is_signalled))
			return false;
		if (is_signalled && !push_completion(qp, &completion, clock_now(), NULL)) {
			overrun(qp, core);
			return false;
		}
	}
	return true;
}

/* The batch fills up over several outboxes: the more packets leave at once, the cheaper. */
void run_qp(struct engine_qp *qp, struct pass *pass)
{
	struct engine *engine = qp->engine;
	vbn_time deadline = pass->core.now, ack_deadline;
	vbn_time datagrams_at = VBN_TIME_NEVER;
	bool has_more = true;

	if (qp->flow)
		membership_refresh(engine, qp->flow, &qp->window_seen);

	qp_grant_direct(qp->qp, DIRECT_STEP_BYTES);
	for (int rounds = 0; has_more && rounds < ROUNDS_MAX; rounds++) {
		if (qp->ahs)
			datagrams_at = pace_datagrams(qp, pass);
		srq_enter(qp);
		pace_enter(qp);
		has_more = qp_output(qp->qp, &pass->core, &pass->outbox);
		pace_leave(qp);
		srq_leave(qp);
		has_more |= empty_outbox(qp, pass);
	}
	has_more |= qp_wants_direct(qp->qp);
	send_batch(qp, pass);
	ack_deadline = qp_ack_deadline(qp->qp);
	if (!has_more)
		deadline = qp_next_deadline(qp->qp);
	deadline = vbn_time_min(deadline, datagrams_at);
	if (!timers_set_at_latest(&engine->timers, &qp->timer, deadline))
		deadline = VBN_TIME_NEVER;
	/* Few are ever held, and the timers of all QPs share one lock. */
	if (ack_deadline != VBN_TIME_NEVER || timer_is_set(&qp->ack_timer))
		timers_set(&engine->held_acks, &qp->ack_timer, ack_deadline);
	deadline = vbn_time_min(deadline, ack_deadline);
	if (deadline != VBN_TIME_NEVER)
		helper_notice(engine, deadline);
}

void run_owed_ack(struct engine_qp *qp, struct pass *pass)
{
	if (qp_owes_ack(qp->qp))
		run_qp(qp, pass);
}
