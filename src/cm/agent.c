/* SPDX-License-Identifier: BSD-2-Clause */
/* How agents and connections begin, and how connections are forgotten. */
#include <string.h>

#include "base/assert.h"
#include "cm/cm.h"
#include "cm/deadlines.h"
#include "cm/tables.h"

void cm_agent_init(struct cm_agent *agent, const struct cm_setup *setup)
{
	VBN_ASSERT(setup->bucket_count && (setup->bucket_count & (setup->bucket_count - 1)) == 0);
	memset(agent, 0, sizeof(*agent));
	agent->timing = setup->timing;
	agent->hash_key = setup->hash_key;
	agent->transaction_high = setup->transaction_high;
	agent->bucket_mask = setup->bucket_count - 1;
	for (uint32_t i = 0; i < setup->bucket_count * CM_TABLE_COUNT; i++)
		setup->buckets[i] = NULL;
	for (uint32_t table = 0; table < CM_TABLE_COUNT; table++)
		agent->buckets[table] = setup->buckets + (size_t)table * setup->bucket_count;
}

bool cm_connection_init(struct cm_agent *agent, struct cm_connection *connection, uint32_t local_id,
			void *owner)
{
	if (local_id == 0 || cm_find(agent, local_id))
		return false;
	memset(connection, 0, sizeof(*connection));
	connection->owner = owner;
	connection->timing = agent->timing;
	connection->local_id = local_id;
	connection->transaction = (uint64_t)agent->transaction_high << 32 | local_id;
	connection->deadline = VBN_TIME_NEVER;
	table_insert(agent, connection, CM_BY_LOCAL_ID);
	agent->connection_count++;
	return true;
}

void cm_forget(struct cm_agent *agent, struct cm_connection *connection)
{
	for (enum cm_table table = 0; table < CM_TABLE_COUNT; table++)
		table_remove(connection, table);
	deadline_set(agent, connection, VBN_TIME_NEVER);
	agent->connection_count--;
}
