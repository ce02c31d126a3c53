/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From bytes to a checked packet. All lengths are settled before the first
 * extension header is read: the header length follows from the opcode, so the
 * readers below need no checks of their own.
 */
#include <string.h>

#include "base/byte_order.h"
#include "wire/packet.h"

/* What an opcode need not have. All else is set for each packet; zeroing it first would take longer than that. */
#define EXTENSIONS_BEGIN offsetof(struct packet, reth)
#define EXTENSIONS_END offsetof(struct packet, payload)

/* Reserved bits of the BTH are ignored, as IBA 9.2 demands of receivers. */
static inline void parse_bth(const uint8_t *bytes, struct packet *packet)
{
	uint32_t first = load_be32(bytes);
	uint32_t second = load_be32(bytes + 4);
	uint32_t third = load_be32(bytes + 8);

	packet->opcode = (uint8_t)(first >> 24);
	packet->solicited = first & 1u << 23;
	packet->migration = first & 1u << 22;
	packet->fecn = second & 1u << 31;
	packet->becn = second & 1u << 30;
	packet->ack_requested = third & 1u << 31;
	packet->pkey = (uint16_t)first;
	packet->dest_qpn = second & 0xffffff;
	packet->psn = third & 0xffffff;
}

static const uint8_t *parse_reth(const uint8_t *bytes, struct packet *packet)
{
	packet->reth.address = load_be64(bytes);
	packet->reth.rkey = load_be32(bytes + 8);
	packet->reth.length = load_be32(bytes + 12);
	return bytes + RETH_BYTES;
}

static const uint8_t *parse_aeth(const uint8_t *bytes, struct packet *packet)
{
	packet->aeth.syndrome = bytes[0];
	packet->aeth.msn = load_be24(bytes + 1);
	return bytes + AETH_BYTES;
}

static const uint8_t *parse_atomic_eth(const uint8_t *bytes, struct packet *packet)
{
	packet->atomic.address = load_be64(bytes);
	packet->atomic.rkey = load_be32(bytes + 8);
	packet->atomic.swap_or_add = load_be64(bytes + 12);
	packet->atomic.compare = load_be64(bytes + 20);
	return bytes + ATOMIC_ETH_BYTES;
}

/* In the order of the wire; no opcode has all, and none has two of one kind. */
static void parse_extensions(const uint8_t *bytes, opcode_properties has, struct packet *packet)
{
	if (opcode_has(has, OPCODE_HAS_XRCETH)) {
		packet->xrc_srqn = load_be24(bytes + 1);
		bytes += XRCETH_BYTES;
	}
	if (opcode_has(has, OPCODE_HAS_DETH)) {
		packet->deth.qkey = load_be32(bytes);
		packet->deth.source_qpn = load_be24(bytes + 5);
		bytes += DETH_BYTES;
	}
	if (opcode_has(has, OPCODE_HAS_RETH))
		bytes = parse_reth(bytes, packet);
	if (opcode_has(has, OPCODE_HAS_AETH))
		bytes = parse_aeth(bytes, packet);
	if (opcode_has(has, OPCODE_HAS_ATOMIC_ETH))
		bytes = parse_atomic_eth(bytes, packet);
	if (opcode_has(has, OPCODE_HAS_ATOMIC_ACK_ETH))
		packet->atomic_original = load_be64(bytes);
	/* The value belongs to the application: it keeps the order of the wire. */
	if (opcode_has(has, OPCODE_HAS_IMMEDIATE))
		memcpy(&packet->immediate, bytes, IMMEDIATE_BYTES);
	if (opcode_has(has, OPCODE_HAS_IETH))
		packet->invalidate_rkey = load_be32(bytes);
}

/* At least a BTH, of which @bytes are the headers, as far as they are there. */
static inline enum reason parse(const uint8_t *bytes, size_t length, struct packet *packet)
{
	opcode_properties has;
	size_t header_bytes, rest, pad;

	if (bytes[1] & 0x0f)
		return REASON_DROP_VERSION;
	has = opcode_properties_of(bytes[0]);
	header_bytes = opcode_header_bytes(bytes[0]);
	if (!header_bytes)
		return REASON_DROP_OPCODE;
	if (length < header_bytes)
		return REASON_DROP_SHORT;
	rest = length - header_bytes;
	pad = bytes[1] >> 4 & 3;
	if (pad > rest || rest & 3 || (rest && !opcode_has(has, OPCODE_HAS_PAYLOAD)))
		return REASON_DROP_PAD;
	/* No datagram is as long as this; it keeps payload_bytes exact for any caller. */
	if (rest > UINT32_MAX)
		return REASON_DROP_PAD;

	parse_bth(bytes, packet);
	memset((uint8_t *)packet + EXTENSIONS_BEGIN, 0, EXTENSIONS_END - EXTENSIONS_BEGIN);
	if (header_bytes > BTH_BYTES)
		parse_extensions(bytes + BTH_BYTES, has, packet);
	packet->payload_bytes = (uint32_t)(rest - pad);
	return REASON_NONE;
}

enum reason packet_parse(const uint8_t *bytes, size_t length, struct packet *packet)
{
	if (length < BTH_BYTES)
		return REASON_DROP_SHORT;
	packet->payload = bytes + opcode_header_bytes(bytes[0]);
	return parse(bytes, length, packet);
}

enum reason packet_parse_shared(const uint8_t *bytes, size_t length, struct packet *packet)
{
	uint8_t headers[PACKET_HEADER_BYTES_MAX];
	size_t header_bytes;

	if (length < BTH_BYTES)
		return REASON_DROP_SHORT;
	memcpy(headers, bytes, BTH_BYTES);
	header_bytes = opcode_header_bytes(headers[0]);
	packet->payload = bytes + header_bytes;
	if (header_bytes > length)
		header_bytes = length;
	if (header_bytes > BTH_BYTES)
		memcpy(headers + BTH_BYTES, bytes + BTH_BYTES, header_bytes - BTH_BYTES);
	return parse(headers, length, packet);
}
