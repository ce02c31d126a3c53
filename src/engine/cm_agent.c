/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent of an engine: one lock around the pure state machine (cm/cm.h), and what lies
 * around that: messages from and to QP 1, memory of connections, deadlines.
 *
 * A turn is the time under the lock. What the state machine says meanwhile is collected; at the
 * end of the turn events are told, still under the lock, so that they keep their order, and
 * messages leave after it. Messages of two turns may overtake each other then, as on a wire.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"
#include "engine/explain.h"

#define BUCKETS 4096
/* Each costs a message or two; the next call goes on. */
#define DEADLINES_MAX 64
/*
 * A lost message is repeated soon at first: the peer's regular time to answer is seconds. Linux
 * takes a repeated request for what it is.
 */
#define EARLY_NS (100 * VBN_MILLISECOND)
/* Of established connections: two minutes of silence end one (cm/watch.h). */
#define WATCH_NS (15 * VBN_SECOND)
/*
 * perftest, qperf and others say "I listen" before they do; the kernel's detours and the hardware's
 * hide that. A process that only has to get a core again does so within this time.
 */
#define LISTENER_NS (100 * VBN_MILLISECOND)

void cm_fill_path(const struct link_address *local, const struct link_address *remote,
		  struct cm_path *path)
{
	memcpy(path->local_gid, local->gid, sizeof(path->local_gid));
	memcpy(path->remote_gid, remote->gid, sizeof(path->remote_gid));
	/* Link-local addresses mean something on their interface only. */
	path->device = local->scope;
}

static struct gsi_way way_of(const struct cm_path *path)
{
	struct gsi_way way = {0};

	memcpy(way.source.gid, path->local_gid, sizeof(way.source.gid));
	memcpy(way.destination.gid, path->remote_gid, sizeof(way.destination.gid));
	way.source.scope = path->device;
	way.destination.scope = path->device;
	return way;
}

void cm_turn_begin(struct cm_turn *turn, struct engine *engine)
{
	turn->connections = atomic_load(&engine->connections);
	turn->now = clock_now();
	turn->incoming = NULL;
	cm_out_clear(&turn->out);
	pthread_mutex_lock(&turn->connections->lock);
}

/* The lock is held. True: somebody may oversleep it. */
static bool renew_deadline(struct connections *connections)
{
	vbn_time before = atomic_load(&connections->next_deadline);
	vbn_time next = vbn_time_min(cm_next_deadline(&connections->agent), connections->next_look);

	if (next != before)
		atomic_store(&connections->next_deadline, next);
	return next < before;
}

void cm_turn_send(struct cm_turn *turn)
{
	/* What cannot be sent is lost, as on a wire, and repeated. */
	for (uint32_t i = 0; i < turn->out.datagram_count; i++) {
		struct gsi_way way = way_of(&turn->out.datagrams[i].path);

		(void)gsi_send(turn->connections->engine, &way, turn->out.datagrams[i].bytes);
	}
	turn->out.datagram_count = 0;
}

void cm_turn_make_room(struct cm_turn *turn)
{
	const struct cm_out *out = &turn->out;

	if (out->datagram_count + 2 <= CM_OUT_DATAGRAMS && out->event_count + 2 <= CM_OUT_EVENTS)
		return;
	for (uint32_t i = 0; i < turn->out.event_count; i++)
		cm_tell_event(turn, &turn->out.events[i]);
	turn->out.event_count = 0;
	cm_turn_send(turn);
}

void cm_turn_end(struct cm_turn *turn)
{
	struct connections *connections = turn->connections;
	struct engine *engine = connections->engine;
	bool is_sooner;

	for (uint32_t i = 0; i < turn->out.event_count; i++)
		cm_tell_event(turn, &turn->out.events[i]);
	is_sooner = renew_deadline(connections);
	pthread_mutex_unlock(&connections->lock);
	cm_turn_send(turn);
	if (is_sooner)
		helper_notice(engine, atomic_load(&connections->next_deadline));
}

void cm_turn_end_and_run(struct cm_turn *turn)
{
	struct engine *engine = turn->connections->engine;
	bool has_sent = turn->out.datagram_count != 0;

	cm_turn_end(turn);
	if (has_sent)
		gsi_run(engine);
}

struct cm_connection *cm_connection_create(struct connections *connections, void *owner)
{
	struct cm_connection *connection = calloc(1, sizeof(*connection));
	uint32_t slot = gsi_slot(connections->engine);

	if (!connection)
		return NULL;
	while (!cm_connection_init(&connections->agent, connection,
				   host_communication_id(slot, random_number()), owner))
		;
	return connection;
}

/* Members of this host are watched by it, and may be stopped for as long as anybody likes. */
void cm_choose_watch(struct connections *connections, struct cm_connection *connection,
		     const struct link_address *peer)
{
	if (cm_is_near(connections->engine, peer))
		connection->timing.watch_ns = 0;
}

void cm_connection_drop(struct connections *connections, struct cm_connection *connection)
{
	cm_forget(&connections->agent, connection);
	free(connection);
}

static bool is_request(const struct cm_message *message)
{
	return message->kind == CM_REQ || message->kind == CM_SIDR_REQ;
}

static enum reason handle(void *context, const struct gsi_datagram *datagram)
{
	struct connections *connections = context;
	struct cm_arrival arrival = {0};
	struct cm_incoming incoming = {0};
	struct cm_message message;
	enum reason reason;
	struct cm_turn turn;

	reason = cm_message_parse(datagram->mad, &message);
	if (reason)
		return reason;
	cm_fill_path(&datagram->destination, &datagram->source, &arrival.path);
	arrival.message = &message;
	cm_turn_begin(&turn, connections->engine);
	if (is_request(&message)) {
		cm_request_prepare(connections, datagram, &message, &incoming, &arrival);
		turn.incoming = &incoming;
	}
	reason = cm_receive(&connections->agent, &arrival, turn.now, &turn.out);
	cm_request_release(connections, &incoming, &arrival);
	cm_turn_end(&turn);
	return reason;
}

void connections_serve(struct connections *connections, vbn_time now)
{
	if (atomic_load(&connections->death_count))
		connections_bury(connections);
	if (atomic_load(&connections->next_deadline) <= now)
		cm_resolving_serve(connections, now);
	for (int i = 0; i < DEADLINES_MAX; i++) {
		struct cm_turn turn;
		bool has_any;

		if (atomic_load(&connections->next_deadline) > now)
			return;
		connections_look_for_dead(connections, now);
		cm_turn_begin(&turn, connections->engine);
		has_any = cm_deadline(&connections->agent, now, &turn.out);
		cm_turn_end(&turn);
		if (!has_any)
			return;
	}
}

static void setup(struct connections *connections)
{
	struct cm_setup setup = {
		.timing = CM_TIMING_LINUX,
		.transaction_high = random_number(),
		.bucket_count = BUCKETS,
		.buckets = connections->buckets,
	};

	setup.timing.early_ns = EARLY_NS;
	setup.timing.watch_ns = WATCH_NS;
	setup.timing.listener_ns = LISTENER_NS;
	random_bytes(&setup.hash_key, sizeof(setup.hash_key));
	cm_agent_init(&connections->agent, &setup);
}

static struct connections *create(struct engine *engine)
{
	struct connections *connections = calloc(1, sizeof(*connections));

	if (!connections)
		return NULL;
	connections->buckets =
		calloc((size_t)CM_TABLE_COUNT * BUCKETS, sizeof(struct cm_connection *));
	if (!connections->buckets) {
		free(connections);
		return NULL;
	}
	connections->engine = engine;
	pthread_mutex_init(&connections->lock, NULL);
	pthread_mutex_init(&connections->deaths_lock, NULL);
	LIST_INIT(&connections->ids);
	LIST_INIT(&connections->listeners);
	LIST_INIT(&connections->resolving);
	connections->next_look = VBN_TIME_NEVER;
	atomic_init(&connections->next_deadline, VBN_TIME_NEVER);
	setup(connections);
	return connections;
}

struct connections *connections_of(struct engine *engine)
{
	static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
	struct connections *connections = atomic_load(&engine->connections);

	if (connections)
		return connections;
	/* The slot of the process is part of all ids. */
	membership_join(engine);
	pthread_mutex_lock(&making);
	connections = atomic_load(&engine->connections);
	if (!connections) {
		connections = create(engine);
		atomic_store(&engine->connections, connections);
		if (connections)
			gsi_set_handler(engine, handle, connections);
	}
	pthread_mutex_unlock(&making);
	if (!connections)
		errno = ENOMEM;
	return connections;
}

static struct cm_connection *any_connection(const struct connections *connections)
{
	for (size_t i = 0; i < BUCKETS; i++)
		if (connections->buckets[i])
			return connections->buckets[i];
	return NULL;
}

/* Endpoints are gone; what lingers for peers that may ask again is forgotten. */
void connections_fini(struct connections *connections)
{
	struct cm_connection *connection;

	if (!connections)
		return;
	while ((connection = any_connection(connections)))
		cm_connection_drop(connections, connection);
	pthread_mutex_destroy(&connections->lock);
	pthread_mutex_destroy(&connections->deaths_lock);
	free(connections->buckets);
	free(connections);
}

void connections_leave(struct connections *connections)
{
	struct cm_turn turn = {.connections = connections, .now = clock_now()};
	struct engine_cm_id *id;

	if (pthread_mutex_trylock(&connections->lock) != 0)
		return;
	LIST_FOREACH(id, &connections->ids, next)
	{
		struct cm_connection *connection = id->connection;

		if (!connection)
			continue;
		id->connection = NULL;
		cm_turn_make_room(&turn);
		cm_release(&connections->agent, connection, turn.now, &turn.out);
	}
	cm_turn_end(&turn);
}
