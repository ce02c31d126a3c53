/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers of this host that died without a word: killed, or gone by exec().
 *
 * A kernel takes down the connections of its dead. Here nobody is left who could, but the
 * processes of a host watch those they have connections with (membership.h), and who survives
 * ends his own at once: nobody is there who would have to be told.
 *
 * Before a QP is connected nobody watches. What has to be repeated then may be for somebody dead,
 * whose socket still takes it in: before it is repeated we look, once in a while, and clear up, so
 * that it comes to another process of that address, who refuses it. Where the dead one was
 * the last of its address nobody would. A peer that was near when the connection began and has no
 * address on this host any more is dead as well. And who died between its answer and the
 * moment when the QP here was connected was never watched: that is looked at when a connection is
 * confirmed. Another one may have its slot by then, who does not receive on its address; one that does is
 * taken for it, and the retries of the QP end the connection.
 */
#include <string.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"

/* A look reads the list of all unix sockets of the machine. */
#define LOOK_AGAIN_NS (100 * VBN_MILLISECOND)

void connections_note_death(struct engine *engine, const struct link_address *address,
			    uint32_t slot)
{
	struct connections *connections = atomic_load(&engine->connections);
	uint32_t count;

	if (!connections)
		return;
	pthread_mutex_lock(&connections->deaths_lock);
	count = atomic_load(&connections->death_count);
	/* More at once than that are left to the timeouts of their connections. */
	if (count < CM_DEATHS_MAX) {
		connections->deaths[count] = (struct dead_peer){*address, slot};
		atomic_store(&connections->death_count, count + 1);
	}
	pthread_mutex_unlock(&connections->deaths_lock);
	helper_notice(engine, 0);
}

static bool take_one(struct connections *connections, struct dead_peer *dead)
{
	uint32_t count;

	pthread_mutex_lock(&connections->deaths_lock);
	count = atomic_load(&connections->death_count);
	if (count) {
		*dead = connections->deaths[count - 1];
		atomic_store(&connections->death_count, count - 1);
	}
	pthread_mutex_unlock(&connections->deaths_lock);
	return count != 0;
}

static bool is_with(const struct cm_connection *connection, const struct dead_peer *dead)
{
	return connection->remote_id &&
	       host_slot_of_communication_id(connection->remote_id) == dead->slot &&
	       memcmp(connection->path.remote_gid, dead->address.gid, sizeof(dead->address.gid)) ==
		       0;
}

void connections_bury(struct connections *connections)
{
	struct dead_peer dead;

	while (take_one(connections, &dead)) {
		struct engine_cm_id *id;
		struct cm_turn turn;

		cm_turn_begin(&turn, connections->engine);
		LIST_FOREACH(id, &connections->ids, next)
		{
			if (!id->connection || !is_with(id->connection, &dead))
				continue;
			cm_turn_make_room(&turn);
			cm_peer_died(&connections->agent, id->connection, turn.now, &turn.out);
		}
		cm_turn_end(&turn);
	}
}

bool cm_is_near(struct engine *engine, const struct link_address *address)
{
	const struct host *host = membership_host(engine);

	return host && host_has_receiver(host, address);
}

static bool waits_for_answer(const struct cm_connection *connection)
{
	return connection->state == CM_REQ_SENT || connection->state == CM_REP_SENT ||
	       connection->state == CM_DREQ_SENT || connection->state == CM_SIDR_SENT;
}

/* All who wait for near peers whose address nobody has any more. */
static void give_up_absent(struct connections *connections)
{
	struct engine_cm_id *id;
	struct cm_turn turn;

	cm_turn_begin(&turn, connections->engine);
	LIST_FOREACH(id, &connections->ids, next)
	{
		if (!id->connection || !id->has_near_peer || !waits_for_answer(id->connection) ||
		    cm_is_near(id->engine, &id->destination))
			continue;
		cm_turn_make_room(&turn);
		cm_peer_died(&connections->agent, id->connection, turn.now, &turn.out);
	}
	cm_turn_end(&turn);
}

void cm_look_at_peer(struct engine_cm_id *id, uint32_t remote_id)
{
	const struct host *host = membership_host(id->engine);
	uint32_t slot = host_slot_of_communication_id(remote_id);

	if (host && id->has_near_peer && host_slot_has_left(host, slot, &id->destination))
		connections_note_death(id->engine, &id->destination, slot);
}

static bool is_repetition_due(struct connections *connections, vbn_time now)
{
	const struct cm_agent *agent = &connections->agent;
	bool is_due;

	pthread_mutex_lock(&connections->lock);
	is_due = cm_next_deadline(agent) <= now && waits_for_answer(agent->heap);
	pthread_mutex_unlock(&connections->lock);
	return is_due;
}

void connections_look_for_dead(struct connections *connections, vbn_time now)
{
	struct host *host = membership_host(connections->engine);
	vbn_time last = atomic_load(&connections->looked_at);

	if (!host || now < vbn_time_add(last, LOOK_AGAIN_NS) ||
	    !is_repetition_due(connections, now) ||
	    !atomic_compare_exchange_strong(&connections->looked_at, &last, now))
		return;
	host_bury_all(host);
	give_up_absent(connections);
}
