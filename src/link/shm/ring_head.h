/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The word that begins a packet in a ring: the upper half says that it is the one
 * that is expected here, the lower what it is.
 *
 *   bits 63..32  stamp: session's nonce + position, never all 0 together with the rest
 *   bit  26      the rest of the ring is skipped
 *   bits 25..24  marks of the packet (enum ring_mark)
 *   bits 23..16  index of its path
 *   bits 15..0   bytes
 */
#ifndef VBN_LINK_SHM_RING_HEAD_H
#define VBN_LINK_SHM_RING_HEAD_H

#include <string.h>

#include "link/shm/ring.h"

#define RING_HEAD_IS_SKIP (1ull << 26)
#define RING_HEAD_MARKS_SHIFT 24
#define RING_HEAD_MARKS 3u

_Static_assert(RING_PACKET_BYTES_MAX <= 0xffff, "lengths fit the head");
_Static_assert(RING_PATHS <= 0x100, "paths fit the head");
_Static_assert((RING_LINES & (RING_LINES - 1)) == 0, "positions wrap around");
_Static_assert(sizeof(struct ring) <= LINK_SHM_RING_HEADER_BYTES, "the header fits its room");

static inline _Atomic uint64_t *ring_head_at(struct ring *ring, uint64_t position)
{
	return (_Atomic uint64_t *)(void *)(ring->lines + position % RING_LINES * RING_LINE_BYTES);
}

/* The line is going to be read here; a line on its way between two cores takes longer than a packet. */
static inline void ring_fetch_line(struct ring *ring, uint64_t position)
{
	__builtin_prefetch(ring_head_at(ring, position));
}

/* It is going to be written to, and shall be this core's alone. */
static inline void ring_claim_line(struct ring *ring, uint64_t position)
{
#ifdef __x86_64__
	/* The compiler's own needs to be told of the processor; one that does not know this passes over it. */
	__asm__ volatile("prefetchw %0" : : "m"(*ring_head_at(ring, position)));
#else
	__builtin_prefetch(ring_head_at(ring, position), 1);
#endif
}

static inline uint64_t ring_head_stamp(uint32_t nonce, uint64_t position)
{
	return (uint64_t)(nonce + (uint32_t)position) << 32;
}

/*
 * What the reader says in `taken`: of which session, and the lower half of its position. A reader that
 * was late may say it of an earlier session when a new one has begun.
 */
static inline uint64_t ring_taken_of(uint32_t nonce, uint64_t position)
{
	return ring_head_stamp(nonce, position) | (uint32_t)position;
}

static inline uint64_t ring_head_of(uint32_t bytes, uint32_t path, uint32_t marks)
{
	return bytes | (uint64_t)path << 16 | (uint64_t)marks << RING_HEAD_MARKS_SHIFT;
}

static inline uint32_t ring_head_marks(uint64_t head)
{
	return (uint32_t)(head >> RING_HEAD_MARKS_SHIFT) & RING_HEAD_MARKS;
}

static inline uint32_t ring_lines_of(uint32_t bytes)
{
	return (RING_HEAD_BYTES + bytes + RING_LINE_BYTES - 1) / RING_LINE_BYTES;
}

static inline void ring_path_load(const struct ring_path *entry, struct link_path *path)
{
	uint64_t source[2], destination[2];
	uint32_t marks = atomic_load(&entry->marks);

	for (int i = 0; i < 2; i++) {
		source[i] = atomic_load(&entry->source[i]);
		destination[i] = atomic_load(&entry->destination[i]);
	}
	*path = (struct link_path){
		.source.scope = atomic_load(&entry->source_scope),
		.destination.scope = atomic_load(&entry->destination_scope),
		.traffic_class = (uint8_t)marks,
		.hop_limit = (uint8_t)(marks >> 8),
	};
	memcpy(path->source.gid, source, sizeof(source));
	memcpy(path->destination.gid, destination, sizeof(destination));
}

#endif
