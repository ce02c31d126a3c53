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

#include "engine/pass.h"

#define RECEIVE_BUDGET 64
/* Turns of one call on one link: more is left to the next caller or the helper. */
#define RECEIVE_ROUNDS_MAX 64
#define DEADLINES_MAX 64

struct receiver {
	struct link_sink sink;
	struct engine *engine;
	const struct engine_link *link;
	struct pass *pass;
};

static void count_received(struct engine *engine, enum reason reason, uint64_t count)
{
	counters_add(&engine->counters.received[reason], count);
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
		run_qp(qp, pass);
		pthread_mutex_unlock(&qp->lock);
		pin_slot_unpin(&qp->slot->pin);
	}
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

static enum reason feed_qp(struct engine_qp *qp, const struct receiver *receiver,
			   const struct link_packet *arrived, const struct packet *packet)
{
	enum reason reason = REASON_DROP_SOURCE;
	struct pass *pass = receiver->pass;

	pthread_mutex_lock(&qp->lock);
	if (comes_from_peer(qp, receiver, arrived)) {
		reason = qp_receive(qp->qp, packet, &pass->core, &pass->outbox);
		if (pass->outbox.completion_count || pass->outbox.event_count ||
		    pass->outbox.packet_count)
			run_outbox(qp, pass); /* run_qp() follows in any case */
	}
	pthread_mutex_unlock(&qp->lock);
	return reason;
}

static void receiver_deliver(struct link_sink *sink, const struct link_packet *arrived)
{
	struct receiver *receiver = (struct receiver *)sink;
	struct packet packet;
	enum reason reason = packet_parse(arrived->bytes, arrived->length, &packet);
	struct pin_slot *slot;

	if (!reason && (packet.pkey & 0x7fff) != (DEVICE_PKEY & 0x7fff))
		reason = REASON_DROP_PKEY;
	if (reason) {
		count_received(receiver->engine, reason, 1);
		return;
	}
	slot = pin_table_pin(&receiver->engine->qps, packet.dest_qpn);
	if (!slot) {
		count_received(receiver->engine, REASON_DROP_NO_QP, 1);
		return;
	}
	struct engine_qp *qp = ((struct qp_slot *)slot)->qp;

	count_received(receiver->engine, feed_qp(qp, receiver, arrived, &packet), 1);
	touch(receiver->pass, qp);
}

static bool has_packets(const struct engine_link *link, vbn_time now)
{
	return link->link->ops->next_deadline(link->link) <= now;
}

/* The receive lock is held. Reads until a turn brings nothing new. */
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
		uint32_t taken = link->link->ops->receive(link->link, &receiver.sink,
							  RECEIVE_BUDGET, pass->core.now);

		run_touched(pass);
		has_found |= taken != 0;
		/* A descriptor that gave less than asked is empty; a queue may have grown. */
		if (!taken || !has_packets(link, pass->core.now))
			break;
	}
	if (has_found)
		atomic_store_explicit(&link->last_traffic, pass->core.now, memory_order_relaxed);
	return has_found;
}

static bool serve_link(struct engine *engine, struct engine_link *link, struct pass *pass)
{
	bool has_found = false;

	do {
		atomic_store(&link->is_kicked, true);
		if (pthread_mutex_trylock(&link->receive_lock) != 0)
			return has_found;
		atomic_store(&link->is_kicked, false);
		has_found |= read_link(engine, link, pass);
		pthread_mutex_unlock(&link->receive_lock);
	} while (atomic_load(&link->is_kicked));
	return has_found;
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

bool progress(struct engine *engine, bool all)
{
	struct pass *pass = pass_begin(engine);
	uint32_t link_count = atomic_load_explicit(&engine->link_count, memory_order_acquire);
	bool has_found = false;

	/* Nobody else watches the cold ones where a helper may not be. */
	all |= atomic_load_explicit(&engine->helper.state, memory_order_relaxed) != HELPER_RUNNING;
	for (uint32_t i = 0; i < link_count; i++) {
		struct engine_link *link = &engine->links[i];

		if (all || progress_link_is_warm(link, pass->core.now))
			has_found |= serve_link(engine, link, pass);
	}
	serve_deadlines(engine, pass);
	/* What the deadlines or the last QPs sent to this process itself. */
	if (engine->self_link && has_packets(engine->self_link, pass->core.now))
		has_found |= serve_link(engine, engine->self_link, pass);
	leave_to_helper(engine, pass->core.now);
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
	vbn_time next = timers_next(&engine->timers);

	for (uint32_t i = 0; i < link_count; i++) {
		struct link *link = engine->links[i].link;

		next = vbn_time_min(next, link->ops->next_deadline(link));
	}
	return next;
}
