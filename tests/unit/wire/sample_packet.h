/* SPDX-License-Identifier: BSD-2-Clause */
/* Legal packets of any opcode with random contents, for round trips. */
#ifndef VBN_TESTS_SAMPLE_PACKET_H
#define VBN_TESTS_SAMPLE_PACKET_H

#include <string.h>

#include "base/random.h"
#include "wire/packet.h"

#define SAMPLE_PAYLOAD_BYTES_MAX 300
/* Header, payload and padding. */
#define SAMPLE_BYTES_MAX (PACKET_HEADER_BYTES_MAX + SAMPLE_PAYLOAD_BYTES_MAX + 3)

static inline void sample_bytes(struct random_stream *random, uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)random_next(random);
}

/* A packet of known @opcode: what it does not carry is zero. @payload backs it. */
static inline struct packet sample_packet(struct random_stream *random, uint8_t opcode,
					  uint8_t payload[SAMPLE_PAYLOAD_BYTES_MAX])
{
	opcode_properties has = opcode_properties_of(opcode);
	struct packet packet = {
		.opcode = opcode,
		.solicited = random_next(random) & 1,
		.migration = random_next(random) & 1,
		.fecn = random_next(random) & 1,
		.becn = random_next(random) & 1,
		.ack_requested = random_next(random) & 1,
		.pkey = (uint16_t)random_next(random),
		.dest_qpn = random_next(random) & 0xffffff,
		.psn = random_next(random) & 0xffffff,
		.payload = payload,
	};

	if (opcode_has(has, OPCODE_HAS_RETH)) {
		packet.reth.address = random_next(random);
		packet.reth.rkey = (uint32_t)random_next(random);
		packet.reth.length = (uint32_t)random_next(random);
	}
	if (opcode_has(has, OPCODE_HAS_AETH)) {
		packet.aeth.syndrome = (uint8_t)random_next(random);
		packet.aeth.msn = random_next(random) & 0xffffff;
	}
	if (opcode_has(has, OPCODE_HAS_ATOMIC_ETH)) {
		packet.atomic.address = random_next(random);
		packet.atomic.rkey = (uint32_t)random_next(random);
		packet.atomic.swap_or_add = random_next(random);
		packet.atomic.compare = random_next(random);
	}
	if (opcode_has(has, OPCODE_HAS_ATOMIC_ACK_ETH))
		packet.atomic_original = random_next(random);
	if (opcode_has(has, OPCODE_HAS_IMMEDIATE))
		packet.immediate = (uint32_t)random_next(random);
	if (opcode_has(has, OPCODE_HAS_IETH))
		packet.invalidate_rkey = (uint32_t)random_next(random);
	if (opcode_has(has, OPCODE_HAS_DETH)) {
		packet.deth.qkey = (uint32_t)random_next(random);
		packet.deth.source_qpn = random_next(random) & 0xffffff;
	}
	if (opcode_has(has, OPCODE_HAS_XRCETH))
		packet.xrc_srqn = random_next(random) & 0xffffff;
	if (opcode_has(has, OPCODE_HAS_PAYLOAD))
		packet.payload_bytes =
			(uint32_t)random_between(random, 0, SAMPLE_PAYLOAD_BYTES_MAX);
	sample_bytes(random, payload, packet.payload_bytes);
	return packet;
}

/* Whether both say the same in every header field and in length and bytes of payload. */
static inline bool sample_is_equal(const struct packet *a, const struct packet *b)
{
	return a->opcode == b->opcode && a->solicited == b->solicited &&
	       a->migration == b->migration && a->fecn == b->fecn && a->becn == b->becn &&
	       a->ack_requested == b->ack_requested && a->pkey == b->pkey &&
	       a->dest_qpn == b->dest_qpn && a->psn == b->psn &&
	       a->reth.address == b->reth.address && a->reth.rkey == b->reth.rkey &&
	       a->reth.length == b->reth.length && a->aeth.syndrome == b->aeth.syndrome &&
	       a->aeth.msn == b->aeth.msn && a->atomic.address == b->atomic.address &&
	       a->atomic.rkey == b->atomic.rkey && a->atomic.compare == b->atomic.compare &&
	       a->atomic.swap_or_add == b->atomic.swap_or_add &&
	       a->atomic_original == b->atomic_original && a->immediate == b->immediate &&
	       a->invalidate_rkey == b->invalidate_rkey && a->deth.qkey == b->deth.qkey &&
	       a->deth.source_qpn == b->deth.source_qpn && a->xrc_srqn == b->xrc_srqn &&
	       a->payload_bytes == b->payload_bytes &&
	       (!a->payload_bytes || memcmp(a->payload, b->payload, a->payload_bytes) == 0);
}

/* All bytes before the ICRC to @bytes, at least SAMPLE_BYTES_MAX; returns how many. */
static inline size_t sample_emit(const struct packet *packet, uint8_t *bytes)
{
	size_t length = packet_emit_header(packet, bytes);

	memcpy(bytes + length, packet->payload, packet->payload_bytes);
	length += packet->payload_bytes;
	memset(bytes + length, 0, packet_pad_bytes(packet->payload_bytes));
	return length + packet_pad_bytes(packet->payload_bytes);
}

#endif
