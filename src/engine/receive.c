/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/receive.h"

#include "engine/datagram.h"
#include "engine/multicast.h"
#include "engine/pass.h"
#include "engine/tell.h"
#include "host/forward.h"

/* So long at most another thread waits that wants to post: a few microseconds of full packets. */
#define OPEN_PACKETS_MAX 8

static void count_received(struct engine *engine, enum reason reason, uint64_t count)
{
	counters_add(&engine->statistics.room->head.process.received[reason], count);
}

static void count_forwarded(struct engine *engine)
{
	counters_add(&engine->statistics.room->head.process.forwarded, 1);
}

static void receiver_drop(struct link_sink *sink, enum reason reason, uint64_t count)
{
	count_received(((struct receiver *)sink)->engine, reason, count);
}

/* --- QPs that were fed --- */

/* It would cost a system call before the program can answer, and one of its own. */
static bool may_hold_ack(const struct engine_qp *qp, const struct pass *pass)
{
	return (pass->has_told || qp->is_written) && qp->answer_trust &&
	       !atomic_load_explicit(&qp->engine->is_leaving, memory_order_relaxed);
}

/* False: it has to leave. */
static bool hold_ack(struct engine_qp *qp, struct pass *pass)
{
	if (!pass->core.may_hold_ack)
		return false;
	pass->core.may_hold_ack = qp_hold_ack(qp->qp, &pass->core) &&
				  held_acks_set(qp, qp_ack_deadline(qp->qp));
	if (pass->core.may_hold_ack)
		helper_notice(qp->engine, qp_ack_deadline(qp->qp));
	return pass->core.may_hold_ack;
}

/* True: it has nothing to do but to hold an acknowledgement, perhaps, and that is seen to. */
static bool rests(struct engine_qp *qp, struct pass *pass)
{
	if (!qp_rests(qp->qp))
		return false;
	return qp_owes_ack(qp->qp) ? hold_ack(qp, pass) : !qp->ack_place;
}

/* The QP's lock is held. */
static void run_fed(struct engine_qp *qp, struct pass *pass)
{
	pass->core.may_hold_ack = may_hold_ack(qp, pass);
	qp->is_written = false;
	if (!rests(qp, pass))
		run_qp(qp, pass);
	pass->core.may_hold_ack = false;
}

static void run_touched(struct pass *pass)
{
	for (uint32_t i = 0; i < pass->touched_count; i++) {
		struct engine_qp *qp = pass->touched[i];

		brief_lock_take(&qp->lock);
		run_fed(qp, pass);
		brief_lock_release(&qp->lock);
		pin_slot_unpin(&qp->slot->pin);
	}
	pass->touched_count = 0;
}

/* Takes over the caller's pin, unless the QP stands there already. Its place. */
static uint32_t touch(struct pass *pass, struct engine_qp *qp)
{
	for (uint32_t i = 0; i < pass->touched_count; i++)
		if (pass->touched[i] == qp) {
			pin_slot_unpin(&qp->slot->pin);
			return i;
		}
	if (pass->touched_count == PASS_TOUCHED_MAX)
		run_touched(pass);
	pass->touched[pass->touched_count] = qp;
	return pass->touched_count++;
}

/* --- the open one --- */

/* The only states that a QP goes to by itself; others have to see that first. */
static bool has_failed(const struct qp *qp)
{
	return qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE;
}

/* What packets left in the outbox goes to the program, and they count as taken before it hears of them. */
static void hand_over(struct receiver *receiver)
{
	struct outbox *out = &receiver->pass->outbox;

	if (receiver->taken)
		count_received(receiver->engine, REASON_NONE, receiver->taken);
	receiver->taken = 0;
	/* Whatever is left to do then, run_qp() follows in any case. */
	if (out->packet_count || out->event_count || has_failed(receiver->open->qp))
		run_outbox(receiver->open, receiver->pass);
	else if (out->completion_count)
		tell_program(receiver->open, receiver->pass);
}

static void close_open(struct receiver *receiver)
{
	if (!receiver->open)
		return;
	hand_over(receiver);
	brief_lock_release(&receiver->open->lock);
	receiver->open = NULL;
}

/* The caller's pin is taken over. */
static void open_pinned(struct receiver *receiver, struct engine_qp *qp)
{
	const struct engine_cq *polled = receiver->pass->audience.cq;

	receiver->open_index = touch(receiver->pass, qp);
	brief_lock_take(&qp->lock);
	receiver->open = qp;
	receiver->open_count = 0;
	receiver->has_poller = polled && (polled == qp->recv_cq || polled == qp->send_cq);
	receiver->pass->has_unreliable |= qp_is_unreliable(qp->qp);
}

/* False: nobody has that number. */
static bool open_number(struct receiver *receiver, uint32_t qpn)
{
	struct pin_slot *slot;

	if (receiver->open && receiver->open->qp->number == qpn)
		return true;
	close_open(receiver);
	slot = pin_table_pin(&receiver->engine->qps, qpn);
	if (slot)
		open_pinned(receiver, ((struct qp_slot *)slot)->qp);
	return slot != NULL;
}

/* It runs without being closed before. */
static void run_open(struct receiver *receiver)
{
	struct pass *pass = receiver->pass;
	struct engine_qp *qp = receiver->open;

	hand_over(receiver);
	run_fed(qp, pass);
	brief_lock_release(&qp->lock);
	pass->touched[receiver->open_index] = pass->touched[--pass->touched_count];
	pin_slot_unpin(&qp->slot->pin);
	receiver->open = NULL;
}

void receiver_end_turn(struct receiver *receiver)
{
	if (receiver->open)
		run_open(receiver);
	run_touched(receiver->pass);
}

/* --- one packet --- */

/* A connected QP hears its peer only: right addresses, both of them, by the chosen link. */
static bool comes_from_peer(const struct engine_qp *qp, const struct receiver *receiver,
			    const struct link_packet *packet)
{
	return qp->link == receiver->link &&
	       link_address_is_equal(&qp->route.path.destination, &packet->source) &&
	       link_address_is_equal(&qp->route.path.source, &packet->destination);
}

/* A UD QP hears anybody who sends to its device, or to a group that it is attached to. */
static bool hears(const struct engine_qp *qp, const struct receiver *receiver,
		  const struct link_packet *arrived, const struct packet *packet)
{
	if (!qp->ahs)
		return comes_from_peer(qp, receiver, arrived);
	return packet->dest_qpn == MULTICAST_QPN ||
	       device_has_address(qp->device, &arrived->destination);
}

static bool ends_silent_write(opcode_properties properties)
{
	return opcode_has(properties, OPCODE_IS_WRITE | OPCODE_ENDS) &&
	       !opcode_has(properties, OPCODE_HAS_IMMEDIATE);
}

/* The QP is open, and the outbox has room for what the packet may complete. */
static enum reason feed_qp(struct engine_qp *qp, struct pass *pass,
			   const struct link_packet *arrived, const struct packet *packet)
{
	struct datagram_source source;
	enum reason reason;

	if (qp->ahs) {
		datagram_source_fill(qp->device, arrived, &source);
		pass->core.source = &source;
	}
	srq_enter(qp);
	reason = qp_receive(qp->qp, packet, &pass->core, &pass->outbox);
	srq_leave(qp);
	pass->core.source = NULL;
	return reason;
}

/* To the QP that is open. */
static enum reason feed(struct receiver *receiver, const struct link_packet *arrived,
			const struct packet *packet)
{
	opcode_properties properties = opcode_properties_of(packet->opcode);
	struct pass *pass = receiver->pass;
	struct engine_qp *qp = receiver->open;
	enum reason reason;

	if (!hears(qp, receiver, arrived, packet))
		return REASON_DROP_SOURCE;
	if (pass->outbox.completion_count && opcode_has(properties, OPCODE_IS_RESPONSE))
		hand_over(receiver);
	reason = feed_qp(qp, pass, arrived, packet);
	if (!reason && ends_silent_write(properties)) {
		qp->is_written = true;
		qp->told_at = pass->core.now;
	}
	return reason;
}

/* A copy for each QP that is attached. Counted once, as taken if one of them took it. */
static void deliver_to_group(struct receiver *receiver, const struct link_packet *arrived,
			     const struct packet *packet)
{
	enum reason outcome = REASON_DROP_NO_QP;
	struct engine_qp *qp;

	for (uint32_t i = 0; (qp = multicast_pin_member(receiver->engine, receiver->link, i));
	     i++) {
		enum reason reason;

		open_pinned(receiver, qp);
		reason = feed(receiver, arrived, packet);
		close_open(receiver);
		if (i == 0 || reason == REASON_NONE)
			outcome = reason;
	}
	count_received(receiver->engine, outcome, 1);
}

/* What is another process' is forwarded, once: the steering may not know of it. */
static void deliver_management(const struct receiver *receiver, const struct link_packet *arrived,
			       const struct packet *packet)
{
	struct engine *engine = receiver->engine;
	enum reason reason;
	uint32_t slot;

	if (receiver->is_forwarding || receiver->link == engine->self_link ||
	    !membership_is_others(engine, arrived, &slot)) {
		reason = gsi_receive(engine, arrived, packet);
		if (reason == REASON_DROP_CM_ID && !receiver->is_forwarding &&
		    membership_share(engine, arrived))
			count_forwarded(engine);
		else
			count_received(engine, reason, 1);
	} else if (membership_forward(engine, slot, arrived))
		count_forwarded(engine);
	else
		count_received(engine, REASON_DROP_NO_QP, 1);
}

/* Another member's, perhaps; but nobody has anything to send to us for others through memory. */
static void deliver_to_nobody(const struct receiver *receiver, const struct link_packet *arrived,
			      uint32_t qpn)
{
	struct engine *engine = receiver->engine;

	if (receiver->link != engine->shm_link &&
	    membership_forward(engine, host_slot_of_qpn(qpn), arrived))
		count_forwarded(engine);
	else
		count_received(engine, REASON_DROP_NO_QP, 1);
}

/* QP 1 is not served through memory, nor are groups. True: it was for one of these. */
static bool deliver_elsewhere(struct receiver *receiver, const struct link_packet *arrived,
			      const struct packet *packet)
{
	if (packet->dest_qpn != MULTICAST_QPN && packet->dest_qpn != MAD_QPN)
		return false;
	if (receiver->link == receiver->engine->shm_link)
		return false;
	close_open(receiver);
	if (packet->dest_qpn == MULTICAST_QPN)
		deliver_to_group(receiver, arrived, packet);
	else
		deliver_management(receiver, arrived, packet);
	return true;
}

static void deliver_to_qp(struct receiver *receiver, const struct link_packet *arrived,
			  const struct packet *packet)
{
	enum reason reason;

	if (!open_number(receiver, packet->dest_qpn)) {
		deliver_to_nobody(receiver, arrived, packet->dest_qpn);
		return;
	}
	reason = feed(receiver, arrived, packet);
	if (reason)
		count_received(receiver->engine, reason, 1);
	else
		receiver->taken++;
	if (!receiver->keeps_open || packet_is_lent(packet) ||
	    ++receiver->open_count == OPEN_PACKETS_MAX)
		close_open(receiver);
	else if (!receiver->has_poller || !outbox_completions_room(&receiver->pass->outbox))
		hand_over(receiver);
}

/* Of memory that another process can change meanwhile only a copy is checked. */
static enum reason parse(const struct link_packet *arrived, struct packet *packet)
{
	enum reason reason = arrived->is_shared
				     ? packet_parse_shared(arrived->bytes, arrived->length, packet)
				     : packet_parse(arrived->bytes, arrived->length, packet);

	if (!reason && (packet->pkey & 0x7fff) != (DEVICE_PKEY & 0x7fff))
		reason = REASON_DROP_PKEY;
	if (!reason && arrived->is_lent && !lent_parse(packet))
		reason = REASON_DROP_LENT;
	return reason;
}

static void receiver_deliver(struct link_sink *sink, const struct link_packet *arrived)
{
	struct receiver *receiver = (struct receiver *)sink;
	struct packet packet;
	enum reason reason = parse(arrived, &packet);

	if (reason)
		count_received(receiver->engine, reason, 1);
	else if (!deliver_elsewhere(receiver, arrived, &packet))
		deliver_to_qp(receiver, arrived, &packet);
}

/* Forwarded by another member: its own link has received it, on an address that both have. */
static void forwarded_deliver(struct link_sink *sink, const struct link_packet *arrived)
{
	struct receiver *receiver = (struct receiver *)sink;

	receiver->link = links_find(receiver->engine, &arrived->destination);
	if (receiver->link)
		receiver_deliver(sink, arrived);
	else
		count_received(receiver->engine, REASON_DROP_NO_QP, 1);
}

struct receiver receiver_of_link(struct engine *engine, const struct engine_link *link,
				 struct pass *pass)
{
	return (struct receiver){
		.sink = {.deliver = receiver_deliver, .drop = receiver_drop},
		.engine = engine,
		.link = link,
		.pass = pass,
		.keeps_open = link == engine->shm_link,
	};
}

struct receiver receiver_of_members(struct engine *engine, struct pass *pass)
{
	return (struct receiver){
		.sink = {.deliver = forwarded_deliver, .drop = receiver_drop},
		.engine = engine,
		.pass = pass,
		.is_forwarding = true,
	};
}
