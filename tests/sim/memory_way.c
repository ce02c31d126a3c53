/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/memory_way.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "link/shm/ring.h"

#define MEMBERS ring_members(1, 2)

struct memory_way {
	struct ring_writer writer;
	struct ring_reader reader;
	uint32_t index; /* of the only pair of addresses */
	struct ring *ring;
};

struct memory_way *memory_way_create(uint64_t session)
{
	struct memory_way *way = calloc(1, sizeof(*way));
	struct link_path addresses = {.hop_limit = 1};

	VBN_ASSERT(way);
	way->ring = aligned_alloc(LINK_SHM_RING_HEADER_BYTES, LINK_SHM_RING_BYTES);
	VBN_ASSERT(way->ring);
	/* Whatever was there before. */
	memset(way->ring, 0x5a, LINK_SHM_RING_BYTES);
	ring_set_asleep(way->ring, true);
	ring_reader_begin(&way->reader, way->ring, MEMBERS);
	ring_writer_begin(&way->writer, way->ring, MEMBERS, session | 1);
	way->index = ring_writer_path(&way->writer, &addresses);
	return way;
}

void memory_way_destroy(struct memory_way *way)
{
	free(way->ring);
	free(way);
}

static bool try_to_write(struct memory_way *way, const uint8_t *bytes, uint32_t length,
			 bool is_lent)
{
	uint8_t *place = ring_writer_place(&way->writer, length);

	if (!place)
		return false;
	memcpy(place, bytes, length);
	ring_writer_publish(&way->writer, length, way->index, is_lent ? RING_IS_LENT : 0);
	return true;
}

bool memory_way_write(struct memory_way *way, const uint8_t *bytes, uint32_t length, bool is_lent)
{
	if (try_to_write(way, bytes, length, is_lent))
		return true;
	ring_writer_wait(&way->writer);
	return try_to_write(way, bytes, length, is_lent);
}

bool memory_way_must_wake(struct memory_way *way)
{
	return ring_writer_must_wake(&way->writer);
}

bool memory_way_read(struct memory_way *way, uint8_t *bytes, uint32_t room, uint32_t *length,
		     bool *is_lent)
{
	struct ring_packet packet;

	if (!ring_reader_look(&way->reader, &packet))
		return false;
	VBN_ASSERT(packet.length <= room);
	memcpy(bytes, packet.bytes, packet.length);
	*length = packet.length;
	*is_lent = packet.is_lent;
	ring_reader_done(&way->reader, &packet);
	return true;
}

bool memory_way_must_tell(struct memory_way *way)
{
	ring_reader_show_taken(&way->reader);
	return ring_reader_must_tell(&way->reader);
}

bool memory_way_sleep(struct memory_way *way)
{
	ring_set_asleep(way->ring, true);
	if (!ring_reader_has_packet(&way->reader))
		return true;
	ring_set_asleep(way->ring, false);
	return false;
}

bool memory_way_is_broken(const struct memory_way *way)
{
	return ring_reader_is_broken(&way->reader);
}
