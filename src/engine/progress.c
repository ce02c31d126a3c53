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
#include "engine/cm_state.h"
#include "engine/pass.h"
#include "engine/receive.h"
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
/* Of a poller that waits for a packet, each some ten nanoseconds. */
#define RING_LOOKS 4
/* About a microsecond, less than reading an empty socket takes: deadlines and strangers can wait so long. */
#define REST_TICKS 2048

uint32_t progress_forwarded(struct engine *engine, struct host *host, struct pass *pass,
			    uint32_t budget)
{
	struct receiver receiver = receiver_of_members(engine, pass);
	uint32_t taken = host_forward_receive(host, &receiver.sink, budget);

	receiver_end_turn(&receiver);
	return taken;
}

static bool has_packets(const struct engine_link *link, vbn_time now)
{
	return link->link->ops->next_deadline(link->link) <= now;
}

/* For those of this host who send to us: we are not stopped, and have read all there was. */
static void tell_served(struct engine *engine, const struct engine_link *link, vbn_time now)
{
	struct host *host = link_has_address(engine, link) ? membership_host(engine) : NULL;

	if (host)
		host_served(host, &link->local, now);
}

/*
 * The receive lock is held. Reads until a turn brings nothing new, and for a sender without
 * acknowledgements, who goes by the time of that look alone, until one brings nothing.
 */
static bool read_link(struct engine *engine, struct engine_link *link, struct pass *pass)
{
	struct receiver receiver = receiver_of_link(engine, link, pass);
	bool has_found = false;

	for (int rounds = 0; rounds < RECEIVE_ROUNDS_MAX; rounds++) {
		vbn_time looked_at = rounds ? clock_now() : pass->core.now;
		uint32_t taken = link->link->ops->receive(link->link, &receiver.sink,
							  RECEIVE_BUDGET, pass->core.now);

		receiver_end_turn(&receiver);
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

/*
 * False: another thread has it, and knows that we came. It may have let go before it saw that, so
 * the lock is tried again behind the kick. Mostly nobody else is there, and no kick is left.
 */
static bool take_receive_lock(struct engine_link *link)
{
	if (pthread_mutex_trylock(&link->receive_lock) != 0) {
		atomic_store(&link->is_kicked, true);
		if (pthread_mutex_trylock(&link->receive_lock) != 0)
			return false;
	}
	if (atomic_load(&link->is_kicked))
		atomic_store(&link->is_kicked, false);
	return true;
}

static bool serve_link(struct engine *engine, struct engine_link *link, struct pass *pass)
{
	bool has_found = false;
	int rounds = 0;

	do {
		if (!take_receive_lock(link))
			return has_found;
		has_found |= read_link(engine, link, pass);
		pthread_mutex_unlock(&link->receive_lock);
	} while (atomic_load(&link->is_kicked) && ++rounds < KICK_ROUNDS_MAX);
	return has_found;
}

static void release_acks(struct engine *engine, bool may_wait)
{
	struct pass *pass;

	if (!held_acks_any(&engine->held_acks))
		return;
	pass = pass_begin(engine);
	held_acks_serve(engine, pass, VBN_TIME_NEVER, may_wait);
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
		brief_lock_take(&qp->lock);
		if (qp->flow && qp->qp->requester.retry_deadline <= pass->core.now)
			membership_suspect(engine, qp->flow);
		qp_deadline(qp->qp, &pass->core);
		run_qp(qp, pass);
		brief_lock_release(&qp->lock);
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

/* Packets come by rings alone, which every poll looks at. */
static bool comes_otherwise(struct engine *engine, vbn_time now)
{
	uint32_t link_count = atomic_load_explicit(&engine->link_count, memory_order_acquire);

	for (uint32_t i = 0; i < link_count; i++)
		if (&engine->links[i] != engine->shm_link &&
		    progress_link_is_warm(&engine->links[i], now))
			return true;
	return membership_is_warm(engine, now);
}

static void rest(struct engine *engine, bool has_found, vbn_time now)
{
	bool may_rest = !has_found && engine->shm_link && !comes_otherwise(engine, now);

	atomic_store_explicit(&engine->rested_at, may_rest ? clock_ticks() : 0,
			      memory_order_relaxed);
}

bool progress_is_due(const struct engine *engine)
{
	uint64_t rested_at = atomic_load_explicit(&engine->rested_at, memory_order_relaxed);

	return clock_ticks() - rested_at >= REST_TICKS || held_acks_any(&engine->held_acks);
}

bool progress(struct engine *engine, bool all, const struct audience *audience)
{
	struct pass *pass = audience->now ? pass_begin_at(engine, audience->now)
					  : pass_begin(engine);
	uint32_t link_count = atomic_load_explicit(&engine->link_count, memory_order_acquire);
	bool has_found = false;

	pass->audience = *audience;
	/* A program that polls on did not answer; otherwise they leave when their time is over. */
	if (held_acks_any(&engine->held_acks))
		held_acks_serve(engine, pass, audience->cq ? VBN_TIME_NEVER : pass->core.now, true);
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
	rest(engine, has_found, pass->core.now);
	pass_end(pass);
	return has_found;
}

/* Before anything else of a poll: the program polls on, and so did not answer. */
static void send_held_acks(struct engine *engine, vbn_time now)
{
	struct pass *pass;

	if (!held_acks_any(&engine->held_acks))
		return;
	pass = pass_begin_at(engine, now);
	held_acks_serve(engine, pass, VBN_TIME_NEVER, true);
	pass_end(pass);
}

/* As serve_link(), in the pass of the link. */
static bool serve_rings(struct engine *engine, struct engine_link *link,
			const struct audience *audience, vbn_time now)
{
	bool has_found = false;
	int rounds = 0;

	do {
		struct pass *pass;

		if (!take_receive_lock(link))
			return has_found;
		pass = pass_begin_kept(&link->pass, engine, now);
		pass->audience = *audience;
		has_found |= read_link(engine, link, pass);
		pthread_mutex_unlock(&link->receive_lock);
	} while (atomic_load(&link->is_kicked) && ++rounds < KICK_ROUNDS_MAX);
	return has_found;
}

bool progress_rings(struct engine *engine, const struct audience *audience)
{
	struct engine_link *link = atomic_load_explicit(&engine->shm_link, memory_order_acquire);
	vbn_time now;

	if (!link || !link_shm_has_packet(engine->rings, RING_LOOKS))
		return false;
	now = clock_now();
	atomic_store_explicit(&engine->last_poll, now, memory_order_relaxed);
	send_held_acks(engine, now);
	return serve_rings(engine, link, audience, now);
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
	vbn_time next =
		vbn_time_min(timers_next(&engine->timers), held_acks_next(&engine->held_acks));

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
