/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/host.h"
#include "sim/rings.h"

void world_init(struct world *world, uint64_t seed, FILE *trace_text)
{
	*world = (struct world){.random = {seed}};
	trace_init(&world->trace, trace_text);
}

static void free_list(struct datagram *datagram)
{
	while (datagram) {
		struct datagram *next = datagram->next;

		free(datagram);
		datagram = next;
	}
}

void world_fini(struct world *world)
{
	for (uint32_t i = 0; i < world->host_count; i++)
		host_destroy(world->hosts[i]);
	/* Packets on their way are subjects of events. */
	for (uint32_t i = 0; i < world->event_count; i++)
		if (link_is_delivery(world->events[i].action))
			free(world->events[i].subject);
	if (world->rings)
		rings_destroy(world, world->rings);
	free_list(world->free_datagrams);
	free(world->events);
}

struct observer *world_observe(struct world *world, void *context)
{
	struct observer *observer = &world->observers[world->observer_count++];

	VBN_ASSERT(world->observer_count <= WORLD_OBSERVERS_MAX);
	observer->context = context;
	return observer;
}

static bool is_earlier(const struct world_event *a, const struct world_event *b)
{
	return a->time < b->time || (a->time == b->time && a->order < b->order);
}

void world_schedule(struct world *world, vbn_time time, world_action *action, void *subject,
		    uint64_t argument)
{
	struct world_event event = {time, world->events_ever++, action, subject, argument};
	uint32_t hole;

	VBN_ASSERT(time >= world->now);
	if (world->event_count == world->event_room) {
		world->event_room = world->event_room ? world->event_room * 2 : 256;
		world->events = realloc(world->events, world->event_room * sizeof(event));
		VBN_ASSERT(world->events);
	}
	for (hole = world->event_count++; hole > 0; hole = (hole - 1) / 2) {
		if (!is_earlier(&event, &world->events[(hole - 1) / 2]))
			break;
		world->events[hole] = world->events[(hole - 1) / 2];
	}
	world->events[hole] = event;
}

static struct world_event take_first(struct world *world)
{
	struct world_event first = world->events[0], last = world->events[--world->event_count];
	uint32_t hole = 0, child;

	while ((child = 2 * hole + 1) < world->event_count) {
		if (child + 1 < world->event_count &&
		    is_earlier(&world->events[child + 1], &world->events[child]))
			child++;
		if (!is_earlier(&world->events[child], &last))
			break;
		world->events[hole] = world->events[child];
		hole = child;
	}
	world->events[hole] = last;
	return first;
}

bool world_step(struct world *world)
{
	struct world_event event;

	if (!world->event_count || world->has_failed)
		return false;
	event = take_first(world);
	world->now = event.time;
	event.action(world, event.subject, event.argument);
	return !world->has_failed;
}

void world_run(struct world *world, vbn_time until)
{
	while (world->event_count && world->events[0].time <= until && !world->has_failed)
		world_step(world);
	if (!world->has_failed && world->now < until && until != VBN_TIME_NEVER)
		world->now = until;
}

struct datagram *world_datagram(struct world *world)
{
	struct datagram *datagram = world->free_datagrams;

	if (datagram)
		world->free_datagrams = datagram->next;
	else
		datagram = malloc(sizeof(*datagram));
	VBN_ASSERT(datagram);
	datagram->next = NULL;
	datagram->is_corrupted = datagram->is_hostile = datagram->is_lent = false;
	return datagram;
}

void world_datagram_free(struct world *world, struct datagram *datagram)
{
	datagram->next = world->free_datagrams;
	world->free_datagrams = datagram;
}

void world_fail(struct world *world, const char *checker, const char *format, ...)
{
	va_list list;
	int length;

	if (world->has_failed)
		return;
	world->has_failed = true;
	length = snprintf(world->failure, sizeof(world->failure),
			  "at %llu ns, %s: ", (unsigned long long)world->now, checker);
	va_start(list, format);
	vsnprintf(world->failure + length, sizeof(world->failure) - (size_t)length, format, list);
	va_end(list);
	if (world->trace.text)
		fprintf(world->trace.text, "FAILED %s\n", world->failure);
}
