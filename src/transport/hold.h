/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Holding request packets that arrived before their turn
 *
 * A responder executes requests in PSN order. A packet behind a gap is kept in a
 * buffer of a pool that all QPs of an engine share, and executed when the gap is
 * filled; when the pool or the QP's window (HOLD_WINDOW packets past the expected
 * one) has no room it is dropped, and the requester repeats it anyway.
 *
 * Buffers are claimed by an atomic bit, so that QPs under different locks share
 * the pool without one of its own.
 */
#ifndef VBN_TRANSPORT_HOLD_H
#define VBN_TRANSPORT_HOLD_H

#include <stdatomic.h>
#include <stdint.h>

#include "wire/packet.h"

#define HOLD_WINDOW 64
#define HOLD_NONE UINT16_MAX

struct hold_buffer {
	struct packet packet; /* its payload points to the bytes below */
	uint8_t bytes[PACKET_MTU_MAX];
};

struct hold_pool {
	struct hold_buffer *buffers;
	_Atomic uint64_t *claimed; /* one bit for each buffer */
	uint32_t buffer_count;	   /* a multiple of 64, below HOLD_NONE */
};

/* @memory: hold_pool_bytes(@buffer_count) zeroed bytes, aligned to 64. */
size_t hold_pool_bytes(uint32_t buffer_count);
void hold_pool_init(struct hold_pool *pool, void *memory, uint32_t buffer_count);

/* A copy of @packet in a buffer of its own: its index, or HOLD_NONE. */
uint16_t hold_take(struct hold_pool *pool, const struct packet *packet);
void hold_release(struct hold_pool *pool, uint16_t index);

#endif
