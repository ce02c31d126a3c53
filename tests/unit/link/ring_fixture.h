/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests of rings share: a ring between two pages that nobody may touch, a writer and a reader of
 * it, and packets that tell their number by every byte.
 */
#ifndef VBN_TESTS_RING_FIXTURE_H
#define VBN_TESTS_RING_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "link/shm/ring.h"
#include "link/shm/ring_head.h"

#define GUARD_BYTES 4096u
#define OWN 7u	  /* generation of the writer */
#define THEIRS 9u /* of the reader */
#define SESSION 0x1234567890abcdefull

static inline struct ring *guarded_ring_open(void)
{
	size_t bytes = LINK_SHM_RING_BYTES + 2 * GUARD_BYTES;
	uint8_t *room = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(room, MAP_FAILED);
	assert_int_equal(mprotect(room + GUARD_BYTES, LINK_SHM_RING_BYTES, PROT_READ | PROT_WRITE),
			 0);
	return (struct ring *)(void *)(room + GUARD_BYTES);
}

static inline void guarded_ring_close(struct ring *ring)
{
	munmap((uint8_t *)ring - GUARD_BYTES, LINK_SHM_RING_BYTES + 2 * GUARD_BYTES);
}

static inline uint8_t packet_byte(uint32_t number, uint32_t index)
{
	return (uint8_t)(number * 31 + index * 7 + (number >> 8) * 13 + (index >> 8) * 3);
}

static inline void fill_packet(uint8_t *bytes, uint32_t number, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		bytes[i] = packet_byte(number, i);
}

static inline bool is_packet(const uint8_t *bytes, uint32_t number, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		if (bytes[i] != packet_byte(number, i))
			return false;
	return true;
}

/* False: there was no room. */
static inline bool write_one(struct ring_writer *writer, uint32_t number, uint32_t length,
			     uint32_t path)
{
	uint8_t *place = ring_writer_place(writer, length);

	if (!place)
		return false;
	fill_packet(place, number, length);
	ring_writer_publish(writer, length, path, 0);
	return true;
}

static inline bool is_inside(const struct ring *ring, const struct ring_packet *packet)
{
	const uint8_t *end = (const uint8_t *)ring + LINK_SHM_RING_BYTES;

	return packet->bytes >= ring->lines && packet->bytes < end &&
	       packet->length <= (size_t)(end - packet->bytes);
}

#endif
