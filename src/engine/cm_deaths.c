/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers of this host that died without a word: killed, or gone by exec().
 *
 * A kernel takes down the connections of its dead. Here nobody is left who could, but the
 * processes of a host watch those they have connections with (membership.h), and who survives
 * takes down his own: the DREQ is answered by whoever of the peer's address still lives, since
 * nobody has those ids any more. Where nobody does it is repeated, and in the end the
 * program hears DISCONNECTED with a timeout.
 *
 * Before a connection is established nobody watches. What has to be repeated then may be for
 * somebody dead, whose socket still takes it in: we look, once in a while, and clear up, so
 * that the next repetition comes to somebody who refuses it.
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
	return connection->state == CM_ESTABLISHED &&
	       host_slot_of_qpn(connection->remote_qpn) == dead->slot &&
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
			(void)cm_disconnect(&connections->agent, id->connection, NULL, turn.now,
					    &turn.out);
		}
		cm_turn_end(&turn);
	}
}

void connections_look_for_dead(struct connections *connections, vbn_time now)
{
	struct host *host = membership_host(connections->engine);
	vbn_time last = atomic_load(&connections->looked_at);

	if (host && now >= vbn_time_add(last, LOOK_AGAIN_NS) &&
	    atomic_compare_exchange_strong(&connections->looked_at, &last, now))
		host_bury_all(host);
}
