/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/check_watch.h"

#include <string.h>

/* All questions without an answer, the wait before the first, and one to spare. */
#define INTERVALS_TO_THE_END (CM_WATCH_TRIES + 2)

void check_watch_init(struct check_watch *check, struct cm_world *world)
{
	memset(check, 0, sizeof(*check));
	check->world = world;
}

static void complain(struct check_watch *check, const struct cm_slot *slot, const char *what)
{
	cm_world_fail(check->world, "watch", "%c %x: %s", 'a' + (int)slot->side,
		      slot->connection.local_id, what);
}

/* NULL: it was never established. */
static struct check_watch_record *record_of(struct check_watch *check, const struct cm_slot *slot)
{
	struct check_watch_record *record = &check->records[slot->side][slot->index];

	return record->life == slot->life ? record : NULL;
}

/* The established connection of @side with these ids, or NULL. */
static struct cm_slot *established(struct check_watch *check, uint32_t side, uint32_t local_id,
				   uint32_t remote_id)
{
	struct cm_connection *connection = cm_find(&check->world->sides[side].agent, local_id);

	if (!connection || connection->remote_id != remote_id ||
	    connection->state != CM_ESTABLISHED)
		return NULL;
	return cm_world_slot_of(connection);
}

void check_watch_sends(struct check_watch *check, uint32_t side, const struct cm_message *message)
{
	struct cm_slot *slot = message->kind == CM_LAP ? established(check, side, message->local_id,
								     message->remote_id)
						       : NULL;
	struct check_watch_record *record = slot ? record_of(check, slot) : NULL;

	if (!record)
		return;
	if (record->asked && check->world->now < record->asked_at + check->watch_ns)
		complain(check, slot, "asks again too soon");
	record->asked++;
	record->asked_at = check->world->now;
	if (!record->answered && record->asked > CM_WATCH_TRIES_FIRST)
		complain(check, slot, "asks on, and nobody ever answered");
}

void check_watch_hears(struct check_watch *check, uint32_t side, const struct cm_message *message)
{
	struct cm_slot *slot =
		message->kind == CM_APR
			? established(check, side, message->remote_id, message->local_id)
			: NULL;
	struct check_watch_record *record = slot ? record_of(check, slot) : NULL;

	if (!record || !record->asked)
		return;
	record->answered++;
	record->answered_at = check->world->now;
}

static bool is_over(enum cm_state state)
{
	return state == CM_TIMEWAIT || state == CM_REFUSED || state == CM_CLOSED;
}

static void forsake(struct check_watch *check, const struct cm_slot *slot)
{
	struct check_watch_record *record = record_of(check, slot);

	if (record && !record->forsaken_at)
		record->forsaken_at = check->world->now;
}

static void check_silence(struct check_watch *check, const struct cm_slot *slot,
			  const struct check_watch_record *record)
{
	check->silent++;
	if (!record->answered)
		complain(check, slot, "ended for silence, and its peer never answered");
	else if (check->world->now < record->answered_at + CM_WATCH_TRIES * check->watch_ns)
		complain(check, slot, "ended for silence, and its peer answered lately");
}

static void check_unknown(struct check_watch *check, const struct cm_slot *slot)
{
	struct cm_agent *agent = &check->world->sides[1 - slot->side].agent;
	struct cm_connection *peer = cm_find(agent, slot->connection.remote_id);

	check->unknown++;
	if (!check->is_deceived && peer && peer->remote_id == slot->connection.local_id &&
	    !is_over(peer->state))
		complain(check, slot, "ended as unknown, and its peer knows it");
}

static void check_end(struct check_watch *check, const struct cm_slot *slot,
		      const struct cm_event *event)
{
	const struct check_watch_record *record = record_of(check, slot);

	if (!record || record->parted)
		return;
	if (!event->has_message && event->reason == CM_REJECT_TIMEOUT)
		check_silence(check, slot, record);
	if (event->has_message && event->message.kind == CM_APR)
		check_unknown(check, slot);
}

void check_watch_event(struct check_watch *check, const struct cm_slot *slot,
		       const struct cm_event *event)
{
	struct cm_slot *peer;

	if (event->kind == CM_EVENT_ESTABLISHED)
		check->records[slot->side][slot->index] =
			(struct check_watch_record){.life = slot->life};
	if (event->kind == CM_EVENT_DISCONNECTED)
		check_end(check, slot, event);
	if (!is_over(slot->connection.state))
		return;
	peer = established(check, 1 - slot->side, slot->connection.remote_id,
			   slot->connection.local_id);
	if (peer)
		forsake(check, peer);
}

void check_watch_looks(struct check_watch *check, const struct cm_slot *slot)
{
	const struct check_watch_record *record = record_of(check, slot);

	if (!check->watch_ns || check->is_deceived || !record || !record->answered ||
	    !record->forsaken_at)
		return;
	if (check->world->now >
	    record->forsaken_at + check->delay_max + INTERVALS_TO_THE_END * check->watch_ns)
		complain(check, slot, "its peer has been gone for long, and nobody told it");
}

void check_watch_parts(struct check_watch *check, const struct cm_slot *slot)
{
	struct check_watch_record *record = record_of(check, slot);

	if (record)
		record->parted = true;
}

void check_watch_killed(struct check_watch *check, uint32_t side)
{
	struct cm_slot *slots = check->world->sides[1 - side].slots;

	memset(check->records[side], 0, sizeof(check->records[side]));
	for (uint32_t i = 0; i < CM_WORLD_SLOTS; i++)
		if (slots[i].is_used)
			forsake(check, &slots[i]);
}
