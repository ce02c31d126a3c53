/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress: take packets from links, feed QPs, let each QP that was fed run once,
 * serve deadlines. Done by whoever polls, posts or is the helper; several threads
 * may be here, each link is read by one at a time.
 *
 * A thread that finds a link locked does not wait: it leaves a kick, and whoever
 * holds the lock looks for kicks after letting go, so that nothing that a thread
 * came for is left lying.
 */
#include <sched.h>
#include <string.h>

#include "engine/cm_state.h"
#include "engine/datagram.h"
#include "engine/multicast.h"
#include "engine/pass.h"
#include "host/forward.h"

#define RECEIVE_BUDGET 64
/* Turns of one call on one link: more is left to the next caller or the helper. */
#define RECEIVE_ROUNDS_MAX 64
#define DEADLINES_MAX 64
/*
 * Another thread that polls without a pause leaves a kick each time, and a call of ours must
 * end. What it came for then is its own to take: it finds the lock free when it comes again,
 * and if it does not, the helper is woken by the descriptor.
 */
#define KICK_ROUNDS_MAX 8
/* Of a poller that waits for a packet: together some hundred nanoseconds. */
#define RING_LOOKS 8

struct receiver {
	struct link_sink sink;
	struct engine *engine;
	const struct engine_link *link;
	struct pass *pass;
	bool is_forwarding; /* other members' packets: none is forwarded again */
};

static void count_received(struct engine *engine, enum reason reason, uint64_t count)
{
	counters_add(&engine->statistics.room->head.process.received[reason], count);
}

static void receiver_drop(struct link_sink *sink, enum reason reason, uint64_t count)
{
	count_received(((struct receiver *)sink)->engine, reason, count);
}

static void run_touched(struct pass *pass)
{
	for (uint32_t i = 0; i < pass->touched_count; i++) {
		struct engine_qp *qp = pass->touched[i];

		pthread_mutex_lock(&qp->lock);
		/* It would cost a system call before the program can answer, and one of its own. */
		pass->core.may_hold_ack =
			(pass->has_told || qp->is_written) && qp->answer_trust &&
			!atomic_load_explicit(&qp->engine->is_leaving, memory_order_relaxed);
		qp->is_written = false;
		run_qp(qp, pass);
		pthread_mutex_unlock(&qp->lock);
		pin_slot_unpin(&qp->slot->pin);
	}
	pass->core.may_hold_ack = false;
	pass->touched_count = 0;
}

/* Takes over the caller's pin, unless the QP stands there already. */
static void touch(struct pass *pass, struct engine_qp *qp)
{
	for (uint32_t i = 0; i < pass->touched_count; i++)
		if (pass->touched[i] == qp) {
			pin_slot_unpin(&qp->slot->pin);
			return;
		}
	if (pass->touched_count == PASS_TOUCHED_MAX)
		run_touched(pass);
	pass->touched[pass->touched_count++] = qp;
}

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

static bool ends_silent_write(const struct packet *packet)
{
	opcode_properties properties = opcode_properties_of(packet->opcode);

	return opcode_has(properties, OPCODE_IS_WRITE | OPCODE_ENDS) &&
	       !opcode_has(properties, OPCODE_HAS_IMMEDIATE);
}

static enum reason feed_qp(struct engine_qp *qp, const struct receiver *receiver,
			   const struct link_packet *arrived, const struct packet *packet)
{
	enum reason reason = REASON_DROP_SOURCE;
	struct pass *pass = receiver->pass;
	struct datagram_source source;

	/* Its type and device are fixed: the lock is not needed yet. */
	if (qp->ahs)
		datagram_source_fill(qp->device, arrived, &source);
	pthread_mutex_lock(&qp->lock);
	if (hears(qp, receiver, arrived, packet)) {
		pass->core.source = qp->ahs ? &source : NULL;
		srq_enter(qp);
		reason = qp_receive(qp->qp, packet, &pass->core, &pass->outbox);
		srq_leave(qp);
		pass->has_unreliable |= qp_is_unreliable(qp->qp);
		if (!reason && ends_silent_write(packet)) {
			qp->is_written = true;
			qp->told_at = pass->core.now;
		}
		if (pass->outbox.completion_count || pass->outbox.event_count ||
		    pass->outbox.packet_count)
			run_outbox(qp, pass); /* run_qp() follows in any case */
		pass->core.source = NULL;
	}
	pthread_mutex_unlock(&qp->lock);
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
		enum reason reason = feed_qp(qp, receiver, arrived, packet);

		if (i == 0 || reason == REASON_NONE)
			outcome = reason;
		touch(receiver->pass, qp);
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
			counters_add(&engine->statistics.room->head.process.forwarded, 1);
		else
			count_received(engine, reason, 1);
	} else if (membership_forward(engine, slot, arrived))
		counters_add(&engine->statistics.room->head.process.forwarded, 1);
	else
		count_received(engine, REASON_DROP_NO_QP, 1);
}

/* Of memory that another process can change meanwhile only a copy is checked. */
static enum reason parse(const struct link_packet *arrived, struct packet *packet)
{
	uint8_t header[PACKET_HEADER_BYTES_MAX];
	enum reason reason;

	if (!arrived->is_shared)
		return packet_parse(arrived->bytes, arrived->length, packet);
	memcpy(header, arrived->bytes,
	       arrived->length < sizeof(header) ? arrived->length : sizeof(header));
	reason = packet_parse(header, arrived->length, packet);
	if (!reason)
		packet->payload = arrived->bytes + (packet->payload - header);
	return reason;
}

/* Another member's, perhaps; but nobody has anything to send to us for others through memory. */
static void deliver_to_nobody(const struct receiver *receiver, const struct link_packet *arrived,
			      uint32_t qpn)
{
	struct engine *engine = receiver->engine;

	if (receiver->link != engine->shm_link &&
	    membership_forward(engine, host_slot_of_qpn(qpn), arrived))
		counters_add(&engine->statistics.room->head.process.forwarded, 1);
	else
		count_received(engine, REASON_DROP_NO_QP, 1);
}

static void receiver_deliver(struct link_sink *sink, const struct link_packet *arrived)
{
	struct receiver *receiver = (struct receiver *)sink;
	bool is_shm = receiver->link == receiver->engine->shm_link;
	struct packet packet;
	enum reason reason = parse(arrived, &packet);
	struct engine_qp *qp;
	struct pin_slot *slot;

	if (!reason && (packet.pkey & 0x7fff) != (DEVICE_PKEY & 0x7fff))
		reason = REASON_DROP_PKEY;
	if (reason) {
		count_received(receiver->engine, reason, 1);
		return;
	}
	if (packet.dest_qpn == MULTICAST_QPN && !is_shm) {
		deliver_to_group(receiver, arrived, &packet);
		return;
	}
	if (packet.dest_qpn == MAD_QPN && !is_shm) {
		deliver_management(receiver, arrived, &packet);
		return;
	}
	slot = pin_table_pin(&receiver->engine->qps, packet.dest_qpn);
	if (!slot) {
		deliver_to_nobody(receiver, arrived, packet.dest_qpn);
		return;
	}
	qp = ((struct qp_slot *)slot)->qp;
	count_received(receiver->engine, feed_qp(qp, receiver, arrived, &packet), 1);
	touch(receiver->pass, qp);
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

uint32_t progress_forwarded(struct engine *engine, struct host *host, struct pass *pass,
			    uint32_t budget)
{
	struct receiver receiver = {
		.sink = {.deliver = forwarded_deliver, .drop = receiver_drop},
		.engine = engine,
		.pass = pass,
		.is_forwarding = true,
	};
	uint32_t taken = host_forward_receive(host, &receiver.sink, budget);

	run_touched(pass);
	return taken;
}

static bool has_packets(const struct engine_link *link, vbn_time now)
{
	return link->link->ops->next_deadline(link->link) <= now;
}

/* For those of this host who send to us: we are not stopped, and have read all there was. */
static void tell_served(struct engine *engine, const struct engine_link *link, vbn_time now)
{
	struct host *host = membership_host(engine);

	if (host && link_has_address(engine, link))
		host_served(host, &link->local, now);
}

/*
 * The receive lock is held. Reads until a turn brings nothing new, and for a sender without
 * acknowledgements, who goes by the time of that look alone, until one brings nothing.
 */
static bool read_link(struct engine *engine, struct engine_link *link, struct pass *pass)
{
	struct receiver receiver = {
		.sink = {.deliver = receiver_deliver, .drop = receiver_drop},
		.engine = engine,
		.link = link,
		.pass = pass,
	};
	bool has_found = false;

	for (int rounds = 0; rounds < RECEIVE_ROUNDS_MAX; rounds++) {
		vbn_time looked_at = rounds ? clock_now() : pass->core.now;
		uint32_t taken = link->link->ops->receive(link->link, &receiver.sink,
							  RECEIVE_BUDGET, pass->core.now);

		run_touched(pass);
		has_found |= taken != 0;
		if (taken < RECEIVE_BUDGET)
			tell_served(engine, link, looked_at);
		/* A descriptor that gave less than asked is empty; a queue may have grown. */
		if (!taken || !(pass->has_unreliable || has_packets(link, pass->core.now)))
			break;
	}
	if (has_found)
		atomic_store_explicit(&link->last_traffic, pass->core.now, memory_order_relaxed);
	return has_found;
}

static bool serve_link(struct engine *engine, struct engine_link *link, struct pass *pass)
{
	bool has_found = false;
	int rounds = 0;

	do {
		atomic_store(&link->is_kicked, true);
		if (pthread_mutex_trylock(&link->receive_lock) != 0)
			return has_found;
		atomic_store(&link->is_kicked, false);
		has_found |= read_link(engine, link, pass);
		pthread_mutex_unlock(&link->receive_lock);
	} while (atomic_load(&link->is_kicked) && ++rounds < KICK_ROUNDS_MAX);
	return has_found;
}

static struct engine_qp *qp_of_ack_timer(struct timer *timer)
{
	return (struct engine_qp *)((char *)timer - offsetof(struct engine_qp, ack_timer));
}

static bool pin_ack_timer(struct timer *timer)
{
	struct engine_qp *qp = qp_of_ack_timer(timer);

	return pin_table_pin(&qp->engine->qps, qp->qp->number) != NULL;
}

/* Sends the acknowledgements that may not be held longer than until @horizon. */
static void serve_held_acks(struct engine *engine, struct pass *pass, vbn_time horizon,
			    bool may_wait)
{
	for (int i = 0; i < DEADLINES_MAX; i++) {
		struct timer *timer = timers_pop(&engine->held_acks, horizon, pin_ack_timer);
		struct engine_qp *qp;

		if (!timer)
			return;
		qp = qp_of_ack_timer(timer);
		if (may_wait)
			pthread_mutex_lock(&qp->lock);
		if (may_wait || pthread_mutex_trylock(&qp->lock) == 0) {
			note_answer(qp, false);
			run_qp(qp, pass);
			pthread_mutex_unlock(&qp->lock);
		}
		pin_slot_unpin(&qp->slot->pin);
	}
}

static void release_acks(struct engine *engine, bool may_wait)
{
	struct pass *pass;

	if (timers_next(&engine->held_acks) == VBN_TIME_NEVER)
		return;
	pass = pass_begin(engine);
	serve_held_acks(engine, pass, VBN_TIME_NEVER - 1, may_wait);
	pass_end(pass);
}

void progress_release_acks(struct engine *engine)
{
	release_acks(engine, true);
}

void progress_release_acks_at_exit(struct engine *engine)
{
	atomic_store(&engine->is_leaving, true);
	release_acks(engine, false);
}

static struct engine_qp *qp_of_timer(struct timer *timer)
{
	return (struct engine_qp *)((char *)timer - offsetof(struct engine_qp, timer));
}

static bool pin_timer(struct timer *timer)
{
	struct engine_qp *qp = qp_of_timer(timer);

	return pin_table_pin(&qp->engine->qps, qp->qp->number) != NULL;
}

static void serve_deadlines(struct engine *engine, struct pass *pass)
{
	for (int i = 0; i < DEADLINES_MAX; i++) {
		struct timer *timer = timers_pop(&engine->timers, pass->core.now, pin_timer);
		struct engine_qp *qp;

		if (!timer)
			return;
		qp = qp_of_timer(timer);
		pthread_mutex_lock(&qp->lock);
		if (qp->flow && qp->qp->requester.retry_deadline <= pass->core.now)
			membership_suspect(engine, qp->flow);
		qp_deadline(qp->qp, &pass->core);
		run_qp(qp, pass);
		pthread_mutex_unlock(&qp->lock);
		pin_slot_unpin(&qp->slot->pin);
	}
}

bool progress_link_is_warm(const struct engine_link *link, vbn_time now)
{
	vbn_time last = atomic_load_explicit(&link->last_traffic, memory_order_relaxed);

	return now < vbn_time_add(last, ENGINE_LINK_WARM_NS) || has_packets(link, now);
}

/*
 * A link may be left with packets: held back by fault injection, or more than one turn
 * takes. Whoever goes away now leaves them to the helper. (What waits in a socket wakes
 * it by itself.)
 */
static void leave_to_helper(struct engine *engine, vbn_time now)
{
	uint32_t link_count = atomic_load_explicit(&engine->link_count, memory_order_acquire);

	for (uint32_t i = 0; i < link_count; i++) {
		struct link *link = engine->links[i].link;
		vbn_time deadline = link->ops->next_deadline(link);

		if (deadline != VBN_TIME_NEVER)
			helper_notice(engine, deadline < now ? now : deadline);
	}
}

static void serve_connections(struct engine *engine, vbn_time now)
{
	struct connections *connections = atomic_load(&engine->connections);

	if (connections)
		connections_serve(connections, now);
}

bool progress(struct engine *engine, bool all, const struct audience *audience)
{
	struct pass *pass = audience->now ? pass_begin_at(engine, audience->now)
					  : pass_begin(engine);
	uint32_t link_count = atomic_load_explicit(&engine->link_count, memory_order_acquire);
	bool has_found = false;

	pass->audience = *audience;
	/* A program that polls on did not answer; otherwise they leave when their time is over. */
	serve_held_acks(engine, pass, audience->cq ? VBN_TIME_NEVER - 1 : pass->core.now, true);
	/* Nobody else watches the cold ones where a helper may not be. */
	all |= atomic_load_explicit(&engine->helper.state, memory_order_relaxed) != HELPER_RUNNING;
	for (uint32_t i = 0; i < link_count; i++) {
		struct engine_link *link = &engine->links[i];

		if (all || progress_link_is_warm(link, pass->core.now))
			has_found |= serve_link(engine, link, pass);
	}
	has_found |= membership_poll(engine, pass);
	serve_deadlines(engine, pass);
	cq_serve_held_events(engine, pass->core.now);
	if (gsi_next_deadline(&engine->gsi) <= pass->core.now)
		gsi_serve(engine, pass->core.now);
	serve_connections(engine, pass->core.now);
	membership_guard(engine, pass->core.now);
	/* What the deadlines or the last QPs sent to this process itself. */
	if (engine->self_link && has_packets(engine->self_link, pass->core.now))
		has_found |= serve_link(engine, engine->self_link, pass);
	leave_to_helper(engine, pass->core.now);
	pass_end(pass);
	return has_found;
}

bool progress_rings(struct engine *engine, struct engine_cq *cq)
{
	struct engine_link *link = atomic_load_explicit(&engine->shm_link, memory_order_acquire);
	struct pass *pass;
	bool has_found;

	if (!link || !link_shm_has_packet(engine->rings, RING_LOOKS))
		return false;
	pass = pass_begin(engine);
	pass->audience = (struct audience){.cq = cq, .now = pass->core.now};
	atomic_store_explicit(&engine->last_poll, pass->core.now, memory_order_relaxed);
	serve_held_acks(engine, pass, VBN_TIME_NEVER - 1, true);
	has_found = serve_link(engine, link, pass);
	pass_end(pass);
	return has_found;
}

void progress_after_send(struct engine *engine)
{
	struct engine_link *self = engine->self_link;

	if (self && has_packets(self, 0)) {
		struct pass *pass = pass_begin(engine);

		serve_link(engine, self, pass);
		pass_end(pass);
	}
	leave_to_helper(engine, 1);
}

vbn_time progress_next_deadline(struct engine *engine)
{
	uint32_t link_count = atomic_load_explicit(&engine->link_count, memory_order_acquire);
	vbn_time next = vbn_time_min(timers_next(&engine->timers), timers_next(&engine->held_acks));

	next = vbn_time_min(next, timers_next(&engine->held_events));
	next = vbn_time_min(next, gsi_next_deadline(&engine->gsi));
	if (atomic_load(&engine->connections))
		next = vbn_time_min(next,
				    connections_next_deadline(atomic_load(&engine->connections)));
	for (uint32_t i = 0; i < link_count; i++) {
		struct link *link = engine->links[i].link;

		next = vbn_time_min(next, link->ops->next_deadline(link));
	}
	return next;
}

void progress_membership(struct engine *engine)
{
	struct pass *pass = pass_begin(engine);

	membership_serve(engine, pass);
	pass_end(pass);
}
