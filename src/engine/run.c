/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything one QP has to send, complete and tell: the outbox of the transport is
 * emptied into the link (in place, or by a batch), the CQs and the event queue, until nothing is
 * left or the turn is over. The QP's lock is held throughout, so packets of one QP leave
 * in order and completions arrive in order.
 */
#include "engine/pass.h"

#include <string.h>

#include "engine/pace.h"
#include "engine/tell.h"

/* A QP with more to send than that lets others have a turn; its timer brings it back. */
#define ROUNDS_MAX 16

static void count_sent(struct engine_qp *qp, uint32_t count)
{
	counters_add(&qp->engine->statistics.room->head.process.sent, count);
}

static void note_sent(struct engine_qp *qp, const struct pass *pass, struct engine_link *link,
		      struct engine_flow *flow, uint32_t count)
{
	count_sent(qp, count);
	/* An answer may come soon: whoever polls looks for it. */
	atomic_store_explicit(&link->last_traffic, pass->core.now, memory_order_relaxed);
	if (flow)
		pace_left(flow);
}

static void send_batch(struct engine_qp *qp, struct pass *pass)
{
	const struct target *target = &pass->target;
	struct send_batch *batch = &pass->batch;

	if (batch->message_count) {
		struct link *link = target->link->link;

		link->ops->send(link, target->route, batch, pass->core.now);
		note_sent(qp, pass, target->link, target->flow, batch->message_count);
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

/* Its payload stays where it is. */
static bool is_lent(const struct packet_out *out)
{
	return out->payload.kind == PAYLOAD_LENT;
}

/* Of the whole message, at most. */
static uint32_t bytes_needed(const struct packet_out *out)
{
	uint32_t payload_bytes = out->packet.payload_bytes;

	if (is_lent(out))
		return PACKET_HEADER_BYTES_MAX + LENT_BYTES;
	return PACKET_HEADER_BYTES_MAX + payload_bytes + packet_pad_bytes(payload_bytes);
}

static uint32_t emit_lent(const struct engine_qp *qp, const struct core *core,
			  const struct packet_out *out, uint8_t *bytes, struct complaint *complaint)
{
	struct packet packet = out->packet;
	struct lent_payload lent;
	uint32_t header_bytes;

	if (payload_lend(qp->qp, out, core, &lent, complaint))
		return 0;
	packet.payload_bytes = LENT_BYTES;
	header_bytes = (uint32_t)packet_emit_header(&packet, bytes);
	lent_emit(&lent, bytes + header_bytes);
	return header_bytes + LENT_BYTES;
}

/* How long the message is that lies at @bytes now; 0: its payload could not be read. */
static uint32_t emit_message(const struct engine_qp *qp, const struct core *core,
			     const struct packet_out *out, uint8_t *bytes,
			     struct complaint *complaint)
{
	uint32_t payload_bytes = out->packet.payload_bytes;
	uint32_t pad_bytes = packet_pad_bytes(payload_bytes);
	uint32_t header_bytes;

	if (is_lent(out))
		return emit_lent(qp, core, out, bytes, complaint);
	header_bytes = (uint32_t)packet_emit_header(&out->packet, bytes);
	if (!payload_bytes)
		return header_bytes;
	if (payload_copy(qp->qp, out, core, bytes + header_bytes, complaint))
		return 0;
	if (pad_bytes)
		memset(bytes + header_bytes + payload_bytes, 0, pad_bytes);
	return header_bytes + payload_bytes + pad_bytes;
}

/* False: the payload could not be read; what the outbox holds behind it is stale. */
static bool add_message(struct engine_qp *qp, struct pass *pass, const struct packet_out *out)
{
	struct send_batch *batch = &pass->batch;
	struct target target = target_of(qp, out);
	struct complaint complaint = {0};
	uint32_t length;

	make_room(qp, pass, &target, bytes_needed(out) + ICRC_BYTES);
	length = emit_message(qp, &pass->core, out, batch->bytes + batch->bytes_used, &complaint);
	if (!length)
		return qp_payload_failed(qp->qp, out, &complaint, &pass->core);
	batch->messages[batch->message_count++] = (struct send_message){
		.offset = batch->bytes_used,
		.length = length,
		.is_lent = is_lent(out),
	};
	batch->bytes_used += length + ICRC_BYTES;
	return true;
}

/* The packets of an outbox that were made in place, from the first on. */
struct in_place {
	uint32_t used; /* packets that are done with */
	uint32_t sent; /* of them; the others nobody needs */
	bool is_whole; /* false: what the outbox holds behind them is stale */
};

static struct in_place write_in_place(struct engine_qp *qp, const struct core *core,
				      const struct outbox *outbox, struct link_outlet *outlet)
{
	const struct link_ops *ops = qp->link->link->ops;
	struct in_place in_place = {.is_whole = true};
	struct complaint complaint = {0};

	while (in_place.is_whole && in_place.used < outbox->packet_count) {
		const struct packet_out *out = &outbox->packets[in_place.used];
		uint8_t *bytes = ops->room(outlet, bytes_needed(out));
		uint32_t length;

		if (!bytes)
			break;
		in_place.used++;
		length = emit_message(qp, core, out, bytes, &complaint);
		if (length) {
			ops->commit(outlet, &qp->route, length, is_lent(out));
			in_place.sent++;
		} else {
			in_place.is_whole = qp_payload_failed(qp->qp, out, &complaint, core);
		}
	}
	return in_place;
}

/* Where packets of a connected QP are made if its link can do that; NULL: not now. */
static struct link_outlet *begin_in_place(const struct engine_qp *qp)
{
	struct link *link = qp->link ? qp->link->link : NULL;

	return !qp->ahs && link && link->ops->begin ? link->ops->begin(link, &qp->route) : NULL;
}

static void end_in_place(const struct engine_qp *qp, struct link_outlet *outlet)
{
	qp->link->link->ops->end(qp->link->link, outlet);
}

/* Of what is in the outbox, all that is neither made in place nor stale. False: the rest is. */
static bool batch_from(struct engine_qp *qp, struct pass *pass, const struct outbox *outbox,
		       const struct in_place *in_place)
{
	bool is_whole = in_place->is_whole;

	for (uint32_t i = in_place->used; is_whole && i < outbox->packet_count; i++)
		is_whole = add_message(qp, pass, &outbox->packets[i]);
	return is_whole;
}

static bool batch_packets(struct engine_qp *qp, struct pass *pass)
{
	struct in_place in_place = {.is_whole = true};
	/* Others that wait in the batch come first. */
	bool may_pass = pass->outbox.packet_count && !pass->batch.message_count;
	struct link_outlet *outlet = may_pass ? begin_in_place(qp) : NULL;
	bool is_whole;

	if (outlet) {
		in_place = write_in_place(qp, &pass->core, &pass->outbox, outlet);
		end_in_place(qp, outlet);
	}
	if (in_place.sent)
		note_sent(qp, pass, qp->link, pace_flow(qp), in_place.sent);
	is_whole = batch_from(qp, pass, &pass->outbox, &in_place);
	/* A program that sees a completion may end: what was to leave before it leaves now. */
	if (pass->outbox.completion_count || pass->outbox.event_count)
		send_batch(qp, pass);
	return is_whole;
}

/* What is left in the batch is for the caller to send. */
static bool empty_outbox(struct engine_qp *qp, struct pass *pass)
{
	bool has_more;

	/* Before anybody hears of what happened. */
	statistics_show_state(qp);
	direct_follow_qp(qp);
	has_more = !batch_packets(qp, pass);
	return tell_program(qp, pass) || has_more;
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

	while (!qp_has_started_all(qp->qp)) {
		if (!qp_perform(qp->qp, core, &completion, &is_signalled))
			return false;
		if (is_signalled && !tell_completion(qp, &completion, core))
			return false;
	}
	return true;
}

/* There is no room in place for the rest. False: it is stale. */
static bool send_rest(struct engine_qp *qp, const struct core *core, const struct outbox *outbox,
		      const struct in_place *in_place)
{
	struct pass *pass = pass_begin_with(qp->engine, core->copier);
	bool is_whole = batch_from(qp, pass, outbox, in_place);

	send_batch(qp, pass);
	pass_end(pass);
	return is_whole;
}

/* What the retry timer needs, now that something is under way. */
static void follow_deadline(struct engine_qp *qp)
{
	vbn_time deadline = qp_next_deadline(qp->qp);

	if (timers_set_at_latest(&qp->engine->timers, &qp->timer, deadline))
		helper_notice(qp->engine, deadline);
}

bool run_one_packet(struct engine_qp *qp, const struct core *core)
{
	struct link_outlet *outlet = qp_has_one_packet(qp->qp) ? begin_in_place(qp) : NULL;
	struct in_place in_place;
	struct outbox outbox;

	if (!outlet)
		return false;
	outbox_clear(&outbox);
	qp_output_one_packet(qp->qp, core, &outbox);
	in_place = write_in_place(qp, core, &outbox, outlet);
	end_in_place(qp, outlet);
	count_sent(qp, in_place.sent);
	if (in_place.used != outbox.packet_count)
		in_place.is_whole = send_rest(qp, core, &outbox, &in_place);
	held_acks_set(qp, VBN_TIME_NEVER);
	follow_deadline(qp);
	return in_place.is_whole;
}

/* An acknowledgement that was held is in the outbox: before the peer can know of it. */
static void let_go_of_ack(struct engine_qp *qp)
{
	if (qp->ack_place && !qp_owes_ack(qp->qp))
		held_acks_set(qp, VBN_TIME_NEVER);
}

/* The batch fills up over several outboxes: the more packets leave at once, the cheaper. */
void run_qp(struct engine_qp *qp, struct pass *pass)
{
	struct engine *engine = qp->engine;
	vbn_time deadline = pass->core.now, ack_deadline;
	vbn_time datagrams_at = VBN_TIME_NEVER;
	struct engine_flow *pace = pace_flow(qp);
	bool has_more = true;

	/* Room in a ring is for us alone. */
	if (qp->flow && qp->flow->link != engine->shm_link)
		membership_refresh(engine, qp->flow, &qp->window_seen);

	qp_grant_direct(qp->qp, DIRECT_STEP_BYTES);
	for (int rounds = 0; has_more && rounds < ROUNDS_MAX; rounds++) {
		if (qp->ahs)
			datagrams_at = pace_datagrams(qp, pass);
		srq_enter(qp);
		if (pace)
			pace_enter(pace);
		has_more = qp_output(qp->qp, &pass->core, &pass->outbox);
		if (pace)
			pace_leave(pace);
		srq_leave(qp);
		let_go_of_ack(qp);
		has_more |= empty_outbox(qp, pass);
	}
	has_more |= qp_wants_direct(qp->qp);
	if (pass->batch.message_count)
		send_batch(qp, pass);
	ack_deadline = qp_ack_deadline(qp->qp);
	if (!has_more)
		deadline = qp_next_deadline(qp->qp);
	deadline = vbn_time_min(deadline, datagrams_at);
	/* Where it cannot be held after all it leaves by the next turn. */
	if (!held_acks_set(qp, ack_deadline))
		deadline = pass->core.now;
	if (!timers_set_at_latest(&engine->timers, &qp->timer, deadline))
		deadline = VBN_TIME_NEVER;
	deadline = vbn_time_min(deadline, ack_deadline);
	if (deadline != VBN_TIME_NEVER)
		helper_notice(engine, deadline);
}

void run_owed_ack(struct engine_qp *qp, struct pass *pass)
{
	if (qp_owes_ack(qp->qp))
		run_qp(qp, pass);
}
