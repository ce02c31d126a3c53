/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/shm/ring.h"

#include <string.h>

#include "link/shm/ring_head.h"

/* An ACK, a short message, and the head behind that. */
#define LINES_PREPARED 3u

static _Atomic uint64_t *head_at(const struct ring_writer *writer, uint64_t position)
{
	return ring_head_at(writer->ring, position);
}

void ring_writer_begin(struct ring_writer *writer, struct ring *ring, uint64_t members,
		       uint64_t session)
{
	*writer = (struct ring_writer){.ring = ring, .nonce = (uint32_t)session};
	/* A reader of an earlier session may look meanwhile: it finds nothing, then this session. */
	atomic_store(&ring->session, 0);
	atomic_store(head_at(writer, 0), 0);
	atomic_store(&ring->path_count, 0);
	atomic_store(&ring->waits, 0);
	atomic_store(&ring->taken, 0);
	atomic_store(&ring->members, members);
	atomic_store(&ring->session, session);
}

static void store_path(struct ring_path *entry, const struct link_path *path)
{
	uint64_t source[2], destination[2];

	memcpy(source, path->source.gid, sizeof(source));
	memcpy(destination, path->destination.gid, sizeof(destination));
	for (int i = 0; i < 2; i++) {
		atomic_store(&entry->source[i], source[i]);
		atomic_store(&entry->destination[i], destination[i]);
	}
	atomic_store(&entry->source_scope, path->source.scope);
	atomic_store(&entry->destination_scope, path->destination.scope);
	atomic_store(&entry->marks, path->traffic_class | (uint32_t)path->hop_limit << 8);
}

static bool is_same(const struct link_path *a, const struct link_path *b)
{
	return link_address_is_equal(&a->source, &b->source) &&
	       link_address_is_equal(&a->destination, &b->destination) &&
	       a->source.scope == b->source.scope && a->destination.scope == b->destination.scope &&
	       a->traffic_class == b->traffic_class && a->hop_limit == b->hop_limit;
}

/* What the reader did to the entries is nothing to us but a path that is not found again. */
uint32_t ring_writer_path(struct ring_writer *writer, const struct link_path *path)
{
	uint32_t i;

	for (i = 0; i < writer->path_count; i++) {
		struct link_path known;

		ring_path_load(&writer->ring->paths[i], &known);
		if (is_same(&known, path))
			return i;
	}
	if (i == RING_PATHS)
		return RING_PATHS;
	store_path(&writer->ring->paths[i], path);
	atomic_store(&writer->ring->path_count, ++writer->path_count);
	return i;
}

/* Beside what the reader has not given back, and a line for the head behind. */
static bool has_room(const struct ring_writer *writer, uint32_t lines)
{
	uint64_t used = writer->position - writer->taken;

	/* A reader that counts wrongly leaves none. */
	return used <= RING_LINES && used + lines + 1 <= RING_LINES;
}

/* What is said of another session says nothing of this one. */
static void read_taken(struct ring_writer *writer)
{
	uint64_t word = atomic_load_explicit(&writer->ring->taken, memory_order_acquire);
	uint32_t position = (uint32_t)word;

	if (word == ring_taken_of(writer->nonce, position))
		writer->taken =
			writer->position - (uint32_t)((uint32_t)writer->position - position);
}

static bool find_room(struct ring_writer *writer, uint32_t lines)
{
	if (has_room(writer, lines))
		return true;
	read_taken(writer);
	return has_room(writer, lines);
}

/* The next head is wiped first. */
static void store_head(struct ring_writer *writer, uint64_t word, uint32_t lines)
{
	_Atomic uint64_t *head = head_at(writer, writer->position);

	word |= ring_head_stamp(writer->nonce, writer->position);
	writer->position += lines;
	atomic_store_explicit(head_at(writer, writer->position), 0, memory_order_relaxed);
	atomic_store_explicit(head, word, memory_order_release);
}

void ring_writer_prepare(const struct ring_writer *writer)
{
	for (uint32_t i = 0; i < LINES_PREPARED; i++)
		ring_claim_line(writer->ring, writer->position + i);
}

uint8_t *ring_writer_place(struct ring_writer *writer, uint32_t bytes)
{
	uint32_t lines = ring_lines_of(bytes);
	uint32_t left = RING_LINES - (uint32_t)(writer->position % RING_LINES);

	writer->skipped = lines > left ? left : 0;
	if (!find_room(writer, writer->skipped + lines))
		return NULL;
	return (uint8_t *)head_at(writer, writer->position + writer->skipped) + RING_HEAD_BYTES;
}

void ring_writer_publish(struct ring_writer *writer, uint32_t bytes, uint32_t path, uint32_t marks)
{
	if (writer->skipped)
		store_head(writer, RING_HEAD_IS_SKIP, writer->skipped);
	store_head(writer, ring_head_of(bytes, path, marks), ring_lines_of(bytes));
}

bool ring_writer_must_wake(struct ring_writer *writer)
{
	struct ring *ring = writer->ring;

	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&ring->is_asleep, memory_order_relaxed) &&
	       atomic_exchange(&ring->is_asleep, 0);
}

void ring_writer_wait(struct ring_writer *writer)
{
	atomic_store(&writer->ring->waits, 1);
	atomic_thread_fence(memory_order_seq_cst);
}
