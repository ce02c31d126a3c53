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

/* A QP with more to send than that lets others have a turn; its timer brings it back. */
#define ROUNDS_MAX 16

static void send_batch(struct engine_qp *qp, struct pass *pass)
{
	struct send_batch *batch = &pass->batch;

	if (batch->message_count) {
		struct link *link = qp->link->link;

		counters_add(&qp->engine->counters.sent, batch->message_count);
		link->ops->send(link, &qp->route, batch, pass->core.now);
		/* An answer may come soon: whoever polls looks for it. */
		atomic_store_explicit(&qp->link->last_traffic, pass->core.now,
				      memory_order_relaxed);
	}
	batch->message_count = batch->bytes_used = 0;
}

/* False: the payload could not be read; what the outbox holds behind it is stale. */
static bool add_message(struct engine_qp *qp, struct pass *pass, const struct packet_out *out)
{
	struct send_batch *batch = &pass->batch;
	uint32_t payload_bytes = out->packet.payload_bytes;
	uint32_t pad_bytes = packet_pad_bytes(payload_bytes);
	uint8_t *bytes;
	size_t header_bytes;

	if (batch->message_count == SEND_BATCH_MESSAGES ||
	    batch->bytes_used + PACKET_HEADER_BYTES_MAX + payload_bytes + pad_bytes + ICRC_BYTES >
		    SEND_BATCH_BYTES)
		send_batch(qp, pass);
	bytes = batch->bytes + batch->bytes_used;
	header_bytes = packet_emit_header(&out->packet, bytes);
	if (payload_bytes) {
		struct complaint complaint = {0};

		if (payload_copy(qp->qp, out, &pass->core, bytes + header_bytes, &complaint)) {
			qp_payload_failed(qp->qp, out, &complaint, &pass->core);
			return false;
		}
		memset(bytes + header_bytes + payload_bytes, 0, pad_bytes);
	}
	batch->messages[batch->message_count++] = (struct send_message){
		.offset = batch->bytes_used,
		.length = (uint32_t)header_bytes + payload_bytes + pad_bytes,
	};
	batch->bytes_used += (uint32_t)header_bytes + payload_bytes + pad_bytes + ICRC_BYTES;
	return true;
}

static bool send_packets(struct engine_qp *qp, struct pass *pass)
{
	bool is_whole = true;

	for (uint32_t i = 0; is_whole && i < pass->outbox.packet_count; i++)
		is_whole = add_message(qp, pass, &pass->outbox.packets[i]);
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

/* False: the CQ has overrun, and with it goes the QP. */
static bool push_completion(struct engine_qp *qp, const struct completion *completion, vbn_time now)
{
	struct engine_cq *cq = completion->is_receive ? qp->recv_cq : qp->send_cq;
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

	if (completion->status != IBV_WC_SUCCESS)
		explain_status(qp, completion);
	pthread_mutex_lock(&cq->lock);
	result = completion_queue_push(&cq->queue, &entry);
	if (result == CQ_PUSHED_NOTIFY && cq->channel)
		event_queue_push(cq->channel, &notify);
	if (result == CQ_OVERRUN_FIRST && cq->async)
		event_queue_push(cq->async, &overrun);
	complaint.limit = cq->queue.capacity;
	pthread_mutex_unlock(&cq->lock);
	if (result == CQ_OVERRUN_FIRST)
		explain_event(qp->qp->number, IBV_EVENT_CQ_ERR, &complaint);
	return result == CQ_PUSHED || result == CQ_PUSHED_NOTIFY;
}

/* True: the QP went to ERROR by this, and has flushes to tell. */
static bool overrun(struct engine_qp *qp, struct pass *pass)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (qp->qp->state == IBV_QPS_ERR)
		return false;
	qp_modify(qp->qp, &attr, IBV_QP_STATE, NULL, &pass->core);
	return true;
}

static void raise_events(struct engine_qp *qp, const struct outbox *out)
{
	for (uint32_t i = 0; i < out->event_count; i++) {
		struct event event = {.object = qp->object, .type = out->events[i]};

		if (event.type == IBV_EVENT_QP_ACCESS_ERR || event.type == IBV_EVENT_QP_REQ_ERR ||
		    event.type == IBV_EVENT_QP_FATAL)
			explain_event(qp->qp->number, event.type, &qp->qp->first_complaint);
		if (qp->async)
			event_queue_push(qp->async, &event);
	}
}

bool run_outbox(struct engine_qp *qp, struct pass *pass)
{
	struct outbox *out = &pass->outbox;
	bool has_overrun = false;
	bool has_more = !send_packets(qp, pass);

	for (uint32_t i = 0; i < out->completion_count; i++)
		if (!push_completion(qp, &out->completions[i], pass->core.now))
			has_overrun = true;
	raise_events(qp, out);
	if (has_overrun)
		has_more |= overrun(qp, pass);
	outbox_clear(out);
	return has_more;
}

void run_qp(struct engine_qp *qp, struct pass *pass)
{
	struct engine *engine = qp->engine;
	vbn_time deadline = pass->core.now;
	bool has_more = true;

	for (int rounds = 0; has_more && rounds < ROUNDS_MAX; rounds++) {
		has_more = qp_output(qp->qp, &pass->core, &pass->outbox);
		has_more |= run_outbox(qp, pass);
	}
	if (!has_more)
		deadline = qp_next_deadline(qp->qp);
	timers_set(&engine->timers, &qp->timer, deadline);
	if (deadline != VBN_TIME_NEVER)
		helper_notice(engine, deadline);
}
