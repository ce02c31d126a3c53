/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Request packets as rows of a table: what a peer sends, one step at a time. E is the
 * PSN that the responder expects first.
 */
#ifndef VBN_TESTS_REQUEST_STEP_H
#define VBN_TESTS_REQUEST_STEP_H

#include "unit/transport/rc_fixture.h"

#define MTU 1024u
#define E 0x000100u
/* Receives land here, WRITEs there. */
#define RECV_OFFSET 0x10000u
#define WRITE_OFFSET 0x20000u
#define WRITE_IOVA (FIXTURE_IOVA + WRITE_OFFSET)

/* Payload that differs at every position of the message, so that a wrong offset shows. */
static inline uint8_t message_byte(uint32_t offset)
{
	return (uint8_t)(offset * 7 + (offset >> 8) + 1);
}

/* One request packet: its place in the message, and what its headers say. */
struct step {
	enum opcode operation;
	uint32_t length; /* of the payload */
	uint32_t offset; /* in the message */
	uint64_t iova;	 /* RETH or AtomicETH */
	uint32_t reth_length;
	uint32_t rkey; /* 0: FIXTURE_KEY */
	bool ack_requested, solicited;
};

static inline struct packet step_packet(const struct step *step, uint32_t psn)
{
	static uint8_t payload_bytes[PACKET_MTU_MAX + 4];
	struct packet packet = fixture_packet(step->operation, psn);

	for (uint32_t i = 0; i < step->length && i < sizeof(payload_bytes); i++)
		payload_bytes[i] = message_byte(step->offset + i);
	packet.payload = payload_bytes;
	packet.payload_bytes = step->length;
	packet.reth.address = step->iova;
	packet.reth.rkey = step->rkey ? step->rkey : FIXTURE_KEY;
	packet.reth.length = step->reth_length;
	packet.atomic.address = step->iova;
	packet.atomic.rkey = packet.reth.rkey;
	packet.atomic.swap_or_add = 5;
	packet.immediate = htobe32(0xcafe0001);
	packet.invalidate_rkey = packet.reth.rkey;
	packet.ack_requested = step->ack_requested;
	packet.solicited = step->solicited;
	return packet;
}

static inline enum reason send_step(struct fixture *f, const struct step *step, uint32_t psn)
{
	struct packet packet = step_packet(step, psn);

	return fixture_receive(f, &packet);
}

static inline enum reason send_step_only(struct fixture *f, const struct step *step, uint32_t psn)
{
	struct packet packet = step_packet(step, psn);

	return fixture_receive_only(f, &packet);
}

static inline uint32_t held_buffers(const struct fixture *f)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < f->holds.buffer_count / 64; i++)
		count += (uint32_t)__builtin_popcountll(atomic_load(&f->holds.claimed[i]));
	return count;
}

static inline void expect_bytes(const struct fixture *f, uint32_t offset, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		assert_int_equal(f->memory[offset + i], message_byte(i));
	assert_int_equal(f->memory[offset + length], 0);
	assert_int_equal(f->memory[offset - 1], 0);
}

#define SEND(op, bytes, at) \
	{ \
		.operation = OPCODE_SEND_##op, .length = (bytes), .offset = (at) \
	}
#define WRITE(op, bytes, at, whole) \
	{ \
		.operation = OPCODE_WRITE_##op, .length = (bytes), .offset = (at), \
		.iova = WRITE_IOVA, .reth_length = (whole) \
	}
#define READ(at, whole) \
	{ \
		.operation = OPCODE_READ_REQUEST, .iova = (at), .reth_length = (whole) \
	}
#define WRONG_KEY(op, bytes) \
	{ \
		.operation = OPCODE_##op, .length = (bytes), .iova = WRITE_IOVA, \
		.reth_length = 64, .rkey = 0x00abcd02 \
	}

#endif
