/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: a pool without a lock
 *
 * The pool is a bitmap of claimed buffers and the buffers behind it. Claiming
 * reads a word, picks its lowest clear bit and sets it atomically; whoever finds
 * that bit set already lost the race to another QP and looks at the word anew.
 * A claim acquires and a release releases, so that the new owner of a buffer
 * writes after the last read of the old one. A buffer has one owner, the QP whose
 * ring holds its index, and everything in it is read and written under that
 * QP's lock.
 *
 * Claims are for the rare packet behind a gap: that every QP starts its search
 * at the first word costs less than anything that would spread them.
 */
#include "transport/hold.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"

#define CACHE_LINE_BYTES 64
#define WORD_BITS 64

static size_t bitmap_bytes(uint32_t buffer_count)
{
	size_t bytes = buffer_count / WORD_BITS * sizeof(uint64_t);

	return (bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
}

size_t hold_pool_bytes(uint32_t buffer_count)
{
	return bitmap_bytes(buffer_count) + (size_t)buffer_count * sizeof(struct hold_buffer);
}

void hold_pool_init(struct hold_pool *pool, void *memory, uint32_t buffer_count)
{
	VBN_ASSERT(buffer_count % WORD_BITS == 0 && buffer_count < HOLD_NONE);
	pool->claimed = memory;
	pool->buffers = (struct hold_buffer *)((uint8_t *)memory + bitmap_bytes(buffer_count));
	pool->buffer_count = buffer_count;
}

/* The bit that was claimed in @word, or WORD_BITS when all are taken. */
static uint32_t claim_bit(_Atomic uint64_t *word)
{
	uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);

	while (~seen) {
		uint32_t bit = (uint32_t)__builtin_ctzll(~seen);
		uint64_t mask = 1ull << bit;

		seen = atomic_fetch_or_explicit(word, mask, memory_order_acquire);
		if (!(seen & mask))
			return bit;
	}
	return WORD_BITS;
}

static uint16_t claim(struct hold_pool *pool)
{
	for (uint32_t word = 0; word < pool->buffer_count / WORD_BITS; word++) {
		uint32_t bit = claim_bit(&pool->claimed[word]);

		if (bit < WORD_BITS)
			return (uint16_t)(word * WORD_BITS + bit);
	}
	return HOLD_NONE;
}

uint16_t hold_take(struct hold_pool *pool, const struct packet *packet)
{
	/* Of lent payload there is nothing to keep. */
	uint32_t bytes = packet_is_lent(packet) ? 0 : packet->payload_bytes;
	struct hold_buffer *buffer;
	uint16_t index;

	/* Links may carry more than a path MTU; such a packet is too dear to keep. */
	if (bytes > sizeof(buffer->bytes))
		return HOLD_NONE;
	index = claim(pool);
	if (index == HOLD_NONE)
		return HOLD_NONE;

	buffer = &pool->buffers[index];
	buffer->packet = *packet;
	buffer->packet.payload = buffer->bytes;
	if (bytes > 0)
		memcpy(buffer->bytes, packet->payload, bytes);
	return index;
}

void hold_release(struct hold_pool *pool, uint16_t index)
{
	uint64_t mask = 1ull << index % WORD_BITS;
	uint64_t seen;

	VBN_ASSERT(index < pool->buffer_count);
	seen = atomic_fetch_and_explicit(&pool->claimed[index / WORD_BITS], ~mask,
					 memory_order_release);
	VBN_ASSERT(seen & mask);
}
