/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payload that is lent
 *
 * Between two processes of one host a packet of a SEND need not carry its payload. In its place
 * stands where that lies in the sender's memory, by a key of the sender's, and the receiver copies it
 * from there. Such a packet is not bound to the path MTU: it stands for as many packets, with
 * one PSN each, as its payload would fill. There is nothing like it in the specification, and none
 * leaves the host: what bears it is a mark beside the packet (link_packet.is_lent).
 *
 *   bytes 0..7    address of the first byte, as the key names it
 *   bytes 8..11   key
 *   bytes 12..15  length in bytes
 *
 * All in the order of the host.
 */
#ifndef VBN_WIRE_LENT_H
#define VBN_WIRE_LENT_H

#include <string.h>

#include "wire/packet.h"

#define LENT_BYTES 16u

struct lent_payload {
	uint64_t address;
	uint32_t key;
	uint32_t length;
};

_Static_assert(sizeof(struct lent_payload) == LENT_BYTES, "it has no padding");

static inline void lent_emit(const struct lent_payload *lent, uint8_t bytes[LENT_BYTES])
{
	memcpy(bytes, lent, LENT_BYTES);
}

/*
 * @packet was parsed and is marked as lent: its payload becomes what that names. False: it makes no sense.
 * Reads the payload once.
 */
static inline bool lent_parse(struct packet *packet)
{
	struct lent_payload lent;

	if (packet->payload_bytes != LENT_BYTES || opcode_service(packet->opcode) != SERVICE_RC ||
	    !opcode_has(opcode_properties_of(packet->opcode), OPCODE_IS_SEND))
		return false;
	memcpy(&lent, packet->payload, LENT_BYTES);
	packet->lent_address = lent.address;
	packet->lent_key = lent.key;
	packet->payload = NULL;
	packet->payload_bytes = lent.length;
	return lent.key && lent.length;
}

#endif
