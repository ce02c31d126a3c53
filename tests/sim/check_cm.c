/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/check_cm.h"

#include <string.h>

void check_cm_init(struct check_cm *check, struct cm_world *world)
{
	memset(check, 0, sizeof(*check));
	check->world = world;
}

/* What is known of the connection that uses @slot now. */
static struct check_cm_record *record_of(struct check_cm *check, const struct cm_slot *slot)
{
	struct check_cm_record *record = &check->records[slot->side][slot->index];

	if (record->life != slot->life) {
		memset(record, 0, sizeof(*record));
		record->life = slot->life;
	}
	return record;
}

static void complain(struct check_cm *check, const struct cm_slot *slot, const char *what)
{
	cm_world_fail(check->world, "events", "%c %x: %s", 'a' + (int)slot->side,
		      slot->connection.local_id, what);
}

void check_cm_asks(struct check_cm *check, const struct cm_slot *slot)
{
	record_of(check, slot)->asked = true;
}

void check_cm_refuses(struct check_cm *check, const struct cm_slot *slot)
{
	record_of(check, slot)->refused = true;
}

static uint32_t outcomes(const struct check_cm_record *record)
{
	return record->told[CM_EVENT_ESTABLISHED] + record->told[CM_EVENT_REJECTED] +
	       record->told[CM_EVENT_UNREACHABLE] + record->told[CM_EVENT_CONNECT_ERROR] +
	       record->told[CM_EVENT_SIDR_RESPONSE];
}

/* Before it is closed its owner has heard how it ended. */
static void check_closed(struct check_cm *check, const struct cm_slot *slot,
			 const struct check_cm_record *record)
{
	bool is_asked_service = record->told[CM_EVENT_SIDR_REQUEST];

	if (record->asked && !is_asked_service && !record->refused && outcomes(record) != 1)
		complain(check, slot, "closed, and nobody told its owner how it ended");
	if (record->told[CM_EVENT_ESTABLISHED] != record->told[CM_EVENT_DISCONNECTED])
		complain(check, slot, "closed without DISCONNECTED");
	if (record->told[CM_EVENT_DISCONNECTED] && !record->told[CM_EVENT_TIMEWAIT_EXIT])
		complain(check, slot, "closed without TIMEWAIT_EXIT");
}

void check_cm_releases(struct check_cm *check, const struct cm_slot *slot)
{
	struct check_cm_record *record = record_of(check, slot);

	if (slot->connection.state == CM_CLOSED)
		check_closed(check, slot, record);
	record->released = true;
}

/* An event of @kind may come now. */
static bool is_in_turn(const struct check_cm_record *record, enum cm_event_kind kind)
{
	const uint32_t *told = record->told;
	bool has_ended = told[CM_EVENT_DISCONNECTED] || told[CM_EVENT_TIMEWAIT_EXIT];

	switch (kind) {
	case CM_EVENT_REQUEST:
	case CM_EVENT_SIDR_REQUEST:
		return !record->asked;
	case CM_EVENT_RESPONSE:
	case CM_EVENT_SIDR_RESPONSE:
	case CM_EVENT_ESTABLISHED:
	case CM_EVENT_REJECTED:
	case CM_EVENT_UNREACHABLE:
	case CM_EVENT_CONNECT_ERROR:
		return record->asked && !record->refused && !outcomes(record) && !has_ended;
	case CM_EVENT_DISCONNECTED:
		return told[CM_EVENT_ESTABLISHED] && !has_ended;
	case CM_EVENT_TIMEWAIT_EXIT:
		return told[CM_EVENT_DISCONNECTED] || told[CM_EVENT_REJECTED] ||
		       told[CM_EVENT_CONNECT_ERROR] || record->refused;
	case CM_EVENT_GONE:
		return record->released;
	case CM_EVENT_KIND_COUNT:
		break;
	}
	return false;
}

void check_cm_event(struct check_cm *check, const struct cm_slot *slot,
		    const struct cm_event *event)
{
	struct check_cm_record *record = record_of(check, slot);

	if (!is_in_turn(record, event->kind) || record->told[event->kind] ||
	    (record->released && event->kind != CM_EVENT_GONE))
		cm_world_fail(check->world, "events", "%c %x: %s is out of turn",
			      'a' + (int)slot->side, slot->connection.local_id,
			      cm_event_name(event->kind));
	record->told[event->kind]++;
	if (event->kind == CM_EVENT_REQUEST || event->kind == CM_EVENT_SIDR_REQUEST)
		record->asked = true;
	check->established += event->kind == CM_EVENT_ESTABLISHED;
	check->ended += event->kind == CM_EVENT_DISCONNECTED;
	check->gone += event->kind == CM_EVENT_GONE;
}

void check_cm_killed(struct check_cm *check, uint32_t side)
{
	memset(check->records[side], 0, sizeof(check->records[side]));
}

void check_cm_at_rest(struct check_cm *check)
{
	for (uint32_t side = 0; side < CM_WORLD_SIDES; side++) {
		struct cm_side *it = &check->world->sides[side];

		for (uint32_t i = 0; i < CM_WORLD_SLOTS; i++)
			if (it->slots[i].is_used)
				cm_world_fail(check->world, "leak", "%c %x is left over in %s",
					      'a' + (int)side, it->slots[i].connection.local_id,
					      cm_state_name(it->slots[i].connection.state));
		if (it->agent.connection_count)
			cm_world_fail(check->world, "leak", "%c has %u connections left",
				      'a' + (int)side, it->agent.connection_count);
		for (uint32_t i = 0; i < CM_TABLE_COUNT * CM_WORLD_BUCKETS; i++)
			if (it->buckets[i])
				cm_world_fail(check->world, "leak", "%c has somebody in a table",
					      'a' + (int)side);
	}
}
