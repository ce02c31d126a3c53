/* SPDX-License-Identifier: BSD-2-Clause */
/* From a packet to the bytes of its headers: the reverse of parse.c, in the same order. */
#include <string.h>

#include "base/assert.h"
#include "base/byte_order.h"
#include "wire/packet.h"

/* What follows a BTH. Most packets of a long message have nothing. */
#define EXTENSIONS \
	(OPCODE_HAS_XRCETH | OPCODE_HAS_DETH | OPCODE_HAS_RETH | OPCODE_HAS_AETH | \
	 OPCODE_HAS_ATOMIC_ETH | OPCODE_HAS_ATOMIC_ACK_ETH | OPCODE_HAS_IMMEDIATE | \
	 OPCODE_HAS_IETH | OPCODE_IS_CNP)

/* As three words, since bytes one by one are three times as many stores. */
static uint8_t *emit_bth(const struct packet *packet, uint8_t *bytes)
{
	uint32_t flags = (uint32_t)packet->solicited << 23 | (uint32_t)packet->migration << 22 |
			 packet_pad_bytes(packet->payload_bytes) << 20;

	store_be32(bytes, (uint32_t)packet->opcode << 24 | flags | packet->pkey);
	store_be32(bytes + 4, (uint32_t)packet->fecn << 31 | (uint32_t)packet->becn << 30 |
				      (packet->dest_qpn & 0xffffff));
	store_be32(bytes + 8, (uint32_t)packet->ack_requested << 31 | (packet->psn & 0xffffff));
	return bytes + BTH_BYTES;
}

static uint8_t *emit_reth(const struct packet *packet, uint8_t *bytes)
{
	store_be64(bytes, packet->reth.address);
	store_be32(bytes + 8, packet->reth.rkey);
	store_be32(bytes + 12, packet->reth.length);
	return bytes + RETH_BYTES;
}

static uint8_t *emit_aeth(const struct packet *packet, uint8_t *bytes)
{
	bytes[0] = packet->aeth.syndrome;
	store_be24(bytes + 1, packet->aeth.msn);
	return bytes + AETH_BYTES;
}

static uint8_t *emit_atomic_eth(const struct packet *packet, uint8_t *bytes)
{
	store_be64(bytes, packet->atomic.address);
	store_be32(bytes + 8, packet->atomic.rkey);
	store_be64(bytes + 12, packet->atomic.swap_or_add);
	store_be64(bytes + 20, packet->atomic.compare);
	return bytes + ATOMIC_ETH_BYTES;
}

static uint8_t *emit_deth(const struct packet *packet, uint8_t *bytes)
{
	store_be32(bytes, packet->deth.qkey);
	store_be32(bytes + 4, packet->deth.source_qpn & 0xffffff);
	return bytes + DETH_BYTES;
}

static uint8_t *emit_extensions(const struct packet *packet, opcode_properties has, uint8_t *bytes)
{
	if (opcode_has(has, OPCODE_HAS_XRCETH)) {
		store_be32(bytes, packet->xrc_srqn & 0xffffff);
		bytes += XRCETH_BYTES;
	}
	if (opcode_has(has, OPCODE_HAS_DETH))
		bytes = emit_deth(packet, bytes);
	if (opcode_has(has, OPCODE_HAS_RETH))
		bytes = emit_reth(packet, bytes);
	if (opcode_has(has, OPCODE_HAS_AETH))
		bytes = emit_aeth(packet, bytes);
	if (opcode_has(has, OPCODE_HAS_ATOMIC_ETH))
		bytes = emit_atomic_eth(packet, bytes);
	if (opcode_has(has, OPCODE_HAS_ATOMIC_ACK_ETH)) {
		store_be64(bytes, packet->atomic_original);
		bytes += ATOMIC_ACK_ETH_BYTES;
	}
	if (opcode_has(has, OPCODE_HAS_IMMEDIATE)) {
		memcpy(bytes, &packet->immediate, IMMEDIATE_BYTES);
		bytes += IMMEDIATE_BYTES;
	}
	if (opcode_has(has, OPCODE_HAS_IETH)) {
		store_be32(bytes, packet->invalidate_rkey);
		bytes += IETH_BYTES;
	}
	if (opcode_has(has, OPCODE_IS_CNP)) {
		memset(bytes, 0, CNP_RESERVED_BYTES);
		bytes += CNP_RESERVED_BYTES;
	}
	return bytes;
}

size_t packet_emit_header(const struct packet *packet, uint8_t *bytes)
{
	opcode_properties has = opcode_properties_of(packet->opcode);
	uint8_t *end;

	VBN_ASSERT(opcode_has(has, OPCODE_IS_KNOWN));
	VBN_ASSERT(!packet->payload_bytes || opcode_has(has, OPCODE_HAS_PAYLOAD));
	end = emit_bth(packet, bytes);
	if (has.bits & EXTENSIONS)
		end = emit_extensions(packet, has, end);
	return (size_t)(end - bytes);
}
