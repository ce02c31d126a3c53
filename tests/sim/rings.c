/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/rings.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/host.h"
#include "sim/memory_way.h"

/* Until a host that was woken looks; and until it does when it is stopped. */
#define WOKEN_NS_MAX 2000u
#define STOPPED_NS_MAX (100 * VBN_MICROSECOND)
#define STOPPED_IN 200u /* looks */
#define LOOK_PACKETS 64u

struct queue {
	struct datagram *first, **end;
};

/* From one host to another. */
struct way {
	struct memory_way *memory;
	/* What is in the ring, and what waits for room: they keep what a ring does not carry. */
	struct queue written, waiting;
	uint8_t bytes[DATAGRAM_BYTES_MAX];
};

struct rings {
	struct random_stream random;
	struct way ways[WORLD_HOSTS_MAX][WORLD_HOSTS_MAX];
};

static void queue_put(struct queue *queue, struct datagram *datagram)
{
	datagram->next = NULL;
	*queue->end = datagram;
	queue->end = &datagram->next;
}

static struct datagram *queue_take(struct queue *queue)
{
	struct datagram *datagram = queue->first;

	if (!datagram)
		return NULL;
	queue->first = datagram->next;
	if (!queue->first)
		queue->end = &queue->first;
	datagram->next = NULL;
	return datagram;
}

struct rings *rings_create(struct world *world, uint64_t seed)
{
	struct rings *rings = calloc(1, sizeof(*rings));

	VBN_ASSERT(rings);
	(void)world;
	rings->random.state = seed ^ 0x72696e6773;
	for (uint32_t from = 0; from < WORLD_HOSTS_MAX; from++)
		for (uint32_t to = 0; to < WORLD_HOSTS_MAX; to++) {
			struct way *way = &rings->ways[from][to];

			way->memory = memory_way_create(random_next(&rings->random));
			way->written.end = &way->written.first;
			way->waiting.end = &way->waiting.first;
		}
	return rings;
}

static void free_all(struct world *world, struct queue *queue)
{
	struct datagram *datagram;

	while ((datagram = queue_take(queue)))
		world_datagram_free(world, datagram);
}

void rings_destroy(struct world *world, struct rings *rings)
{
	for (uint32_t from = 0; from < WORLD_HOSTS_MAX; from++)
		for (uint32_t to = 0; to < WORLD_HOSTS_MAX; to++) {
			free_all(world, &rings->ways[from][to].written);
			free_all(world, &rings->ways[from][to].waiting);
			memory_way_destroy(rings->ways[from][to].memory);
		}
	free(rings);
}

static void look(struct world *world, void *subject, uint64_t argument);

static void look_later(struct world *world, struct way *way, uint64_t ns_max)
{
	world_schedule(world, world->now + random_below(&world->rings->random, ns_max), look, way,
		       0);
}

/* Moves what waits, as far as there is room. */
static void write_waiting(struct world *world, struct way *way)
{
	struct datagram *datagram;

	while ((datagram = way->waiting.first) &&
	       memory_way_write(way->memory, datagram->bytes, datagram->length - ICRC_BYTES,
				datagram->is_lent))
		queue_put(&way->written, queue_take(&way->waiting));
	if (memory_way_must_wake(way->memory))
		look_later(world, way, WOKEN_NS_MAX);
}

/* The writer was told that there is room. */
static void told(struct world *world, void *subject, uint64_t argument)
{
	(void)argument;
	write_waiting(world, subject);
}

static bool take_one(struct world *world, struct way *way)
{
	struct datagram *datagram;
	uint32_t length;
	bool is_lent;

	if (!memory_way_read(way->memory, way->bytes, sizeof(way->bytes), &length, &is_lent))
		return false;
	datagram = queue_take(&way->written);
	if (!datagram || length + ICRC_BYTES != datagram->length) {
		world_fail(world, "rings", "a packet of %u bytes that was not written so", length);
		return false;
	}
	if (is_lent != datagram->is_lent)
		world_fail(world, "rings", "a packet whose mark is another one");
	/* The ring's own bytes are what the host gets, and its mark. */
	memcpy(datagram->bytes, way->bytes, length);
	datagram->is_lent = is_lent;
	host_take_in(world->hosts[datagram->to], datagram);
	return true;
}

/* The host reads, sleeps if there is no more, and is woken. */
static void look(struct world *world, void *subject, uint64_t argument)
{
	struct way *way = subject;
	uint32_t taken = 0;

	(void)argument;
	if (random_below(&world->rings->random, STOPPED_IN) == 0) {
		look_later(world, way, STOPPED_NS_MAX);
		return;
	}
	while (taken < LOOK_PACKETS && take_one(world, way))
		taken++;
	if (memory_way_is_broken(way->memory))
		world_fail(world, "rings", "a ring is broken that nobody meddled with");
	if (memory_way_must_tell(way->memory))
		world_schedule(world,
			       world->now + random_below(&world->rings->random, WOKEN_NS_MAX), told,
			       way, 0);
	if (taken == LOOK_PACKETS || !memory_way_sleep(way->memory))
		look_later(world, way, WOKEN_NS_MAX);
}

void rings_deliver(struct world *world, struct datagram *datagram)
{
	struct way *way = &world->rings->ways[datagram->from][datagram->to];

	queue_put(&way->waiting, datagram);
	write_waiting(world, way);
}
