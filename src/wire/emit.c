/* SPDX-License-Identifier: BSD-2-Clause */
/* From a packet to the bytes of its headers: the reverse of parse.c, in the same order. */
#include <string.h>

#include "base/assert.h"
#include "base/byte_order.h"
#include "wire/packet.h"

static uint8_t *emit_bth(const struct packet *packet, uint8_t *bytes)
{
	bytes[0] = packet->opcode;
	bytes[1] = (uint8_t)(packet->solicited << 7 | packet->migration << 6 |
			     packet_pad_bytes(packet->payload_bytes) << 4);
	store_be16(bytes + 2, packet->pkey);
	bytes[4] = (uint8_t)(packet->fecn << 7 | packet->becn << 6);
	store_be24(bytes + 5, packet->dest_qpn);
	bytes[8] = (uint8_t)(packet->ack_requested << 7);
	store_be24(bytes + 9, packet->psn);
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
	const uint8_t *end;

	VBN_ASSERT(opcode_has(has, OPCODE_IS_KNOWN));
	VBN_ASSERT(!packet->payload_bytes || opcode_has(has, OPCODE_HAS_PAYLOAD));
	end = emit_extensions(packet, has, emit_bth(packet, bytes));
	return (size_t)(end - bytes);
}
