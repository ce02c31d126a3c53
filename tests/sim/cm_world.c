/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/cm_world.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#define FAR_FUTURE (365ull * 24 * 3600 * VBN_SECOND)

void cm_world_init(struct cm_world *world, const struct cm_world_user *user, FILE *trace_text)
{
	memset(world, 0, sizeof(*world));
	world->user = *user;
	trace_init(&world->trace, trace_text);
	for (uint32_t side = 0; side < CM_WORLD_SIDES; side++) {
		struct cm_path *path = &world->sides[side].path;

		path->local_gid[10] = path->local_gid[11] = 0xff;
		path->local_gid[12] = 10;
		memcpy(path->remote_gid, path->local_gid, 16);
		path->local_gid[15] = (uint8_t)(1 + side);
		path->remote_gid[15] = (uint8_t)(2 - side);
	}
}

void cm_world_start(struct cm_world *world, uint32_t side, const struct cm_timing *timing,
		    uint64_t secret)
{
	struct cm_side *it = &world->sides[side];
	struct cm_setup setup = {
		.timing = *timing,
		.hash_key = secret,
		.transaction_high = (uint32_t)secret,
		.bucket_count = CM_WORLD_BUCKETS,
		.buckets = it->buckets,
	};

	cm_agent_init(&it->agent, &setup);
	for (uint32_t i = 0; i < CM_WORLD_SLOTS; i++)
		it->slots[i].is_used = false;
}

struct cm_slot *cm_world_slot(struct cm_world *world, uint32_t side, uint32_t local_id)
{
	struct cm_side *it = &world->sides[side];

	for (uint32_t i = 0; i < CM_WORLD_SLOTS; i++) {
		struct cm_slot *slot = &it->slots[i];

		if (slot->is_used)
			continue;
		if (!cm_connection_init(&it->agent, &slot->connection, local_id, slot))
			return NULL;
		slot->is_used = true;
		slot->side = side;
		slot->index = i;
		slot->life = ++world->lives;
		slot->deadlines = slot->sent = 0;
		return slot;
	}
	return NULL;
}

struct cm_slot *cm_world_slot_of(struct cm_connection *connection)
{
	return connection->owner;
}

void cm_world_fail(struct cm_world *world, const char *checker, const char *format, ...)
{
	char text[200];
	va_list arguments;

	if (world->has_failed)
		return;
	world->has_failed = true;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	snprintf(world->failure, sizeof(world->failure), "at %llu ns, %s: %s",
		 (unsigned long long)world->now, checker, text);
}

static struct trace_place place_of(const struct cm_world *world, uint32_t side)
{
	return (struct trace_place){.now = world->now, .host = side, .qp_index = TRACE_NO_QP};
}

/* Loses the last that there is no room for: a network may. */
static void fly(struct cm_world *world, uint32_t to, const uint8_t bytes[MAD_BYTES], uint64_t delay)
{
	struct cm_in_flight *datagram;

	if (world->flight_count == CM_WORLD_FLIGHT)
		return;
	datagram = &world->flight[world->flight_count++];
	datagram->due = world->now + delay;
	datagram->order = ++world->orders;
	datagram->to = to;
	memcpy(datagram->bytes, bytes, MAD_BYTES);
}

void cm_world_inject(struct cm_world *world, uint32_t to, const uint8_t bytes[MAD_BYTES],
		     uint64_t delay)
{
	fly(world, to, bytes, delay);
}

static void send(struct cm_world *world, uint32_t from, const struct cm_datagram *datagram)
{
	struct trace_place place = place_of(world, from);
	struct cm_message message;
	uint8_t bytes[MAD_BYTES];
	struct cm_fate fate;

	world->datagrams++;
	if (memcmp(&datagram->path, &world->sides[from].path, sizeof(datagram->path)) != 0)
		cm_world_fail(world, "path", "a datagram leaves for somewhere else");
	if (cm_message_parse(datagram->bytes, &message) != REASON_NONE) {
		cm_world_fail(world, "message", "what was sent is no message");
		return;
	}
	memcpy(bytes, datagram->bytes, MAD_BYTES);
	fate = world->user.fate(world, from, bytes);
	trace_note(&world->trace, &place, "%s %x to %x%s%s%s", cm_kind_name(message.kind),
		   message.local_id, message.remote_id, fate.copies == 0 ? ", lost" : "",
		   fate.copies > 1 ? ", repeated" : "", fate.is_damaged ? ", damaged" : "");
	for (uint32_t i = 0; i < fate.copies; i++)
		fly(world, 1 - from, bytes, fate.delays[i]);
}

static void tell(struct cm_world *world, uint32_t side, const struct cm_event *event)
{
	struct trace_place place = place_of(world, side);
	struct cm_slot *slot = cm_world_slot_of(event->connection);

	world->events++;
	trace_note(&world->trace, &place, "tells %s to %x, reason %u", cm_event_name(event->kind),
		   event->connection->local_id, event->reason);
	world->user.event(world, slot, event);
	if (event->kind == CM_EVENT_GONE)
		slot->is_used = false;
}

void cm_world_carry_out(struct cm_world *world, uint32_t side)
{
	struct cm_out out = world->out;

	cm_out_clear(&world->out);
	for (uint32_t i = 0; i < out.datagram_count; i++)
		send(world, side, &out.datagrams[i]);
	for (uint32_t i = 0; i < out.event_count; i++)
		tell(world, side, &out.events[i]);
}

/* The index of the datagram that arrives next. */
static uint32_t first_in_flight(const struct cm_world *world)
{
	uint32_t first = 0;

	for (uint32_t i = 1; i < world->flight_count; i++) {
		const struct cm_in_flight *one = &world->flight[i], *best = &world->flight[first];

		if (one->due < best->due || (one->due == best->due && one->order < best->order))
			first = i;
	}
	return first;
}

vbn_time cm_world_next(const struct cm_world *world)
{
	vbn_time next = VBN_TIME_NEVER;

	for (uint32_t side = 0; side < CM_WORLD_SIDES; side++)
		next = vbn_time_min(next, cm_next_deadline(&world->sides[side].agent));
	if (world->flight_count)
		next = vbn_time_min(next, world->flight[first_in_flight(world)].due);
	return next;
}

/* The slot that a request may take, if somebody serves it. */
static struct cm_slot *spare_for(struct cm_world *world, uint32_t side,
				 const struct cm_message *message, uint16_t *refusal)
{
	uint32_t local_id;

	if (message->kind != CM_REQ && message->kind != CM_SIDR_REQ)
		return NULL;
	local_id = world->user.serves(world, side, message, refusal);
	return local_id ? cm_world_slot(world, side, local_id) : NULL;
}

static void arrive(struct cm_world *world, uint32_t side, const uint8_t bytes[MAD_BYTES])
{
	struct cm_side *it = &world->sides[side];
	struct trace_place place = place_of(world, side);
	struct cm_message message;
	struct cm_arrival arrival = {.path = it->path, .message = &message};
	struct cm_slot *spare;
	enum reason reason;

	if (cm_message_parse(bytes, &message) != REASON_NONE)
		return;
	it->heard++;
	if (world->user.hears)
		world->user.hears(world, side, &message);
	spare = spare_for(world, side, &message, &arrival.refusal);
	arrival.spare = spare ? &spare->connection : NULL;
	reason = cm_receive(&it->agent, &arrival, world->now, &world->out);
	trace_note(&world->trace, &place, "hears %s %x%s%s", cm_kind_name(message.kind),
		   message.local_id, reason == REASON_NONE ? "" : ", ",
		   reason == REASON_NONE ? "" : reason_counter_name(reason));
	if (spare && spare->connection.state == CM_IDLE) {
		cm_forget(&it->agent, &spare->connection);
		spare->is_used = false;
	}
	cm_world_carry_out(world, side);
}

static void pass_deadline(struct cm_world *world, uint32_t side)
{
	struct cm_agent *agent = &world->sides[side].agent;
	struct cm_slot *slot = cm_world_slot_of(agent->heap);
	bool is_question = slot->connection.state == CM_ESTABLISHED;

	slot->deadlines++;
	if (!cm_deadline(agent, world->now, &world->out))
		cm_world_fail(world, "deadline", "a deadline that was there is gone");
	slot->sent += is_question ? 0 : world->out.datagram_count;
	cm_world_carry_out(world, side);
	if (cm_next_deadline(agent) != VBN_TIME_NEVER &&
	    cm_next_deadline(agent) > world->now + FAR_FUTURE)
		cm_world_fail(world, "deadline", "a deadline that nobody lives to see");
}

void cm_world_step(struct cm_world *world)
{
	vbn_time next = cm_world_next(world);
	uint32_t first = first_in_flight(world);

	if (next < world->now) {
		cm_world_fail(world, "deadline", "something was due in the past");
		return;
	}
	world->now = next;
	if (world->flight_count && world->flight[first].due == next) {
		struct cm_in_flight datagram = world->flight[first];

		world->flight[first] = world->flight[--world->flight_count];
		arrive(world, datagram.to, datagram.bytes);
		return;
	}
	pass_deadline(world, cm_next_deadline(&world->sides[0].agent) == next ? 0 : 1);
}
