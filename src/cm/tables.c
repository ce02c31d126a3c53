/* SPDX-License-Identifier: BSD-2-Clause */
/* How connections are hashed, chained and compared. */
#include "cm/tables.h"

#include <string.h>

#include "base/byte_order.h"

static uint64_t mix(const struct cm_agent *agent, uint64_t hash, uint64_t value)
{
	/* The secret is factor as well: what collides cannot be told from outside. */
	hash = (hash ^ value) * (agent->hash_key | 1);
	return hash ^ hash >> 29;
}

static struct cm_connection **bucket(const struct cm_agent *agent, enum cm_table table,
				     uint64_t hash)
{
	return &agent->buckets[table][(hash ^ hash >> 32) & agent->bucket_mask];
}

static uint64_t hash_of(const struct cm_agent *agent, uint32_t number)
{
	return mix(agent, agent->hash_key >> 32, number);
}

static uint64_t hash_of_peer(const struct cm_agent *agent, const struct cm_path *path,
			     uint32_t number)
{
	uint64_t hash = mix(agent, hash_of(agent, number), load_be64(path->remote_gid));

	return mix(agent, hash, load_be64(path->remote_gid + 8));
}

static bool gid_is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

bool path_same_peer(const struct cm_path *a, const struct cm_path *b)
{
	return memcmp(a->remote_gid, b->remote_gid, sizeof(a->remote_gid)) == 0 &&
	       (a->device == b->device || !gid_is_link_local(a->remote_gid));
}

static struct cm_connection **bucket_of(const struct cm_agent *agent,
					const struct cm_connection *connection, enum cm_table table)
{
	const struct cm_path *path = &connection->path;
	uint32_t qpn = connection->remote_qpn;

	switch (table) {
	case CM_BY_LOCAL_ID:
		return bucket(agent, table, hash_of(agent, connection->local_id));
	case CM_BY_REMOTE_ID:
		return bucket(agent, table, hash_of_peer(agent, path, connection->remote_id));
	case CM_BY_REMOTE_QP:
		return qpn ? bucket(agent, table, hash_of_peer(agent, path, qpn)) : NULL;
	case CM_TABLE_COUNT:
		break;
	}
	return NULL;
}

void table_insert(struct cm_agent *agent, struct cm_connection *connection, enum cm_table table)
{
	struct cm_link *link = &connection->links[table];
	struct cm_connection **slot = bucket_of(agent, connection, table);

	if (!slot)
		return;
	link->next = *slot;
	link->slot = slot;
	if (link->next)
		link->next->links[table].slot = &link->next;
	*slot = connection;
}

void table_remove(struct cm_connection *connection, enum cm_table table)
{
	struct cm_link *link = &connection->links[table];

	if (!link->slot)
		return;
	*link->slot = link->next;
	if (link->next)
		link->next->links[table].slot = link->slot;
	link->next = NULL;
	link->slot = NULL;
}

struct cm_connection *cm_find(const struct cm_agent *agent, uint32_t local_id)
{
	struct cm_connection *at = *bucket(agent, CM_BY_LOCAL_ID, hash_of(agent, local_id));

	while (at && at->local_id != local_id)
		at = at->links[CM_BY_LOCAL_ID].next;
	return at;
}

struct cm_connection *table_by_remote_id(const struct cm_agent *agent, const struct cm_path *path,
					 uint32_t remote_id, bool is_sidr)
{
	uint64_t hash = hash_of_peer(agent, path, remote_id);
	struct cm_connection *at = *bucket(agent, CM_BY_REMOTE_ID, hash);

	while (at && (at->remote_id != remote_id || at->is_sidr != is_sidr ||
		      !path_same_peer(&at->path, path)))
		at = at->links[CM_BY_REMOTE_ID].next;
	return at;
}

struct cm_connection *table_by_remote_qp(const struct cm_agent *agent, const struct cm_path *path,
					 uint32_t qpn)
{
	uint64_t hash = hash_of_peer(agent, path, qpn);
	struct cm_connection *at = *bucket(agent, CM_BY_REMOTE_QP, hash);

	while (at && (at->remote_qpn != qpn || !path_same_peer(&at->path, path)))
		at = at->links[CM_BY_REMOTE_QP].next;
	return at;
}
