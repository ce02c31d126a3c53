/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/shm/ring.h"

#include "link/shm/ring_head.h"

void ring_reader_begin(struct ring_reader *reader, struct ring *ring, uint64_t members)
{
	/* Others may ask for packets meanwhile. */
	if (reader->ring != ring)
		reader->ring = ring;
	reader->path_count = 0;
	reader->taken = 0;
	atomic_store(&reader->state, RING_AWAITED);
	atomic_store(&reader->position, 0);
	atomic_store(&reader->members, members);
}

static uint64_t position_of(const struct ring_reader *reader)
{
	return atomic_load_explicit(&reader->position, memory_order_relaxed);
}

static void advance(struct ring_reader *reader, uint32_t lines)
{
	atomic_store_explicit(&reader->position, position_of(reader) + lines, memory_order_relaxed);
}

static enum ring_reader_state state_of(const struct ring_reader *reader)
{
	return (enum ring_reader_state)atomic_load_explicit(&reader->state, memory_order_relaxed);
}

/*
 * The session of the writer that we expect; 0: it has not begun. It has to stand there before and after
 * the members are read, or it may be the predecessor's.
 */
static uint64_t find_session(const struct ring_reader *reader)
{
	struct ring *ring = reader->ring;
	uint64_t session = atomic_load(&ring->session);
	uint64_t members = atomic_load(&ring->members);

	if (members != atomic_load(&reader->members) || session != atomic_load(&ring->session))
		return 0;
	return session;
}

static bool begins(struct ring_reader *reader)
{
	uint64_t session = find_session(reader);

	if (!session)
		return false;
	reader->nonce = (uint32_t)session;
	atomic_store(&reader->state, RING_IS_READ);
	return true;
}

/* NULL: there is no such path. */
static const struct link_path *find_path(struct ring_reader *reader, uint32_t index)
{
	if (index >= reader->path_count) {
		uint32_t count = atomic_load(&reader->ring->path_count);

		if (count > RING_PATHS || index >= count)
			return NULL;
		for (; reader->path_count < count; reader->path_count++)
			ring_path_load(&reader->ring->paths[reader->path_count],
				       &reader->paths[reader->path_count]);
	}
	return &reader->paths[index];
}

static uint64_t load_head(const struct ring_reader *reader)
{
	return atomic_load_explicit(ring_head_at(reader->ring, position_of(reader)),
				    memory_order_acquire);
}

static bool is_expected(const struct ring_reader *reader, uint64_t head)
{
	return head >> 32 == ring_head_stamp(reader->nonce, position_of(reader)) >> 32;
}

static bool is_skip(const struct ring_reader *reader, uint64_t head)
{
	return is_expected(reader, head) && (head & RING_HEAD_IS_SKIP);
}

static uint32_t lines_left(const struct ring_reader *reader)
{
	return RING_LINES - (uint32_t)(position_of(reader) % RING_LINES);
}

/* False: it makes no sense. */
static bool read_packet(struct ring_reader *reader, uint64_t head, struct ring_packet *packet)
{
	uint32_t length = (uint16_t)head;

	/* Whoever skips writes a packet behind it; two skips in a row would be a way to go round. */
	if (!is_expected(reader, head) || (head & RING_HEAD_IS_SKIP))
		return false;
	packet->length = length;
	packet->lines = ring_lines_of(length);
	packet->is_damaged = (ring_head_marks(head) & RING_IS_DAMAGED) != 0;
	packet->is_lent = (ring_head_marks(head) & RING_IS_LENT) != 0;
	packet->path = find_path(reader, (uint8_t)(head >> 16));
	packet->bytes =
		(const uint8_t *)ring_head_at(reader->ring, position_of(reader)) + RING_HEAD_BYTES;
	return packet->path && length >= BTH_BYTES && length <= RING_PACKET_BYTES_MAX &&
	       packet->lines <= lines_left(reader);
}

/* What stands behind a packet is wanted while that is taken in. */
static void fetch_next(const struct ring_reader *reader)
{
	ring_fetch_line(reader->ring, position_of(reader) + 1);
}

bool ring_reader_look(struct ring_reader *reader, struct ring_packet *packet)
{
	uint64_t head;

	if (state_of(reader) == RING_IS_BROKEN ||
	    (state_of(reader) == RING_AWAITED && !begins(reader)))
		return false;
	head = load_head(reader);
	if (head && is_skip(reader, head)) {
		advance(reader, lines_left(reader));
		head = load_head(reader);
	}
	if (!head)
		return false;
	fetch_next(reader);
	if (read_packet(reader, head, packet))
		return true;
	atomic_store(&reader->state, RING_IS_BROKEN);
	return false;
}

void ring_reader_done(struct ring_reader *reader, const struct ring_packet *packet)
{
	advance(reader, packet->lines);
}

/*
 * By any thread: the position may be old by now, and the writer be writing bytes of a packet there.
 * Whatever this sees then, the one who reads looks for himself.
 */
__attribute__((no_sanitize("thread"))) static uint64_t peek_head(const struct ring_reader *reader)
{
	return *(const volatile uint64_t *)ring_head_at(reader->ring, position_of(reader));
}

bool ring_reader_has_packet(const struct ring_reader *reader)
{
	switch (state_of(reader)) {
	case RING_AWAITED:
		return find_session(reader) != 0;
	case RING_IS_READ:
		if (!peek_head(reader))
			return false;
		fetch_next(reader);
		return true;
	case RING_IS_BROKEN:
		break;
	}
	return false;
}

void ring_reader_show_taken(struct ring_reader *reader)
{
	uint64_t position = position_of(reader);

	if (reader->taken == position)
		return;
	reader->taken = position;
	atomic_store_explicit(&reader->ring->taken, ring_taken_of(reader->nonce, position),
			      memory_order_release);
}

bool ring_reader_must_tell(struct ring_reader *reader)
{
	struct ring *ring = reader->ring;

	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&ring->waits, memory_order_relaxed) &&
	       atomic_exchange(&ring->waits, 0);
}

void ring_set_asleep(struct ring *ring, bool is_asleep)
{
	atomic_store(&ring->is_asleep, is_asleep);
}
