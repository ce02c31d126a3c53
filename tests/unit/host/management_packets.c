/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/host/management_packets.h"

#include <string.h>

#include "base/byte_order.h"
#include "host/ports.h"

void fill_management(uint8_t *packet, uint8_t class, uint8_t method, uint16_t attribute)
{
	memset(packet, 0, DATAGRAM_BYTES);
	packet[0] = 0x64;
	packet[7] = 1;
	store_be32(packet + 12, 0x80010000);
	packet[19] = 1;
	packet[20] = 1;
	packet[21] = class;
	packet[22] = 2;
	packet[23] = method;
	store_be16(packet + 36, attribute);
}

void fill_message(uint8_t *packet, enum attribute attribute, uint32_t slot, uint32_t other_slot)
{
	uint32_t named = host_communication_id(slot, 0x1234567);
	uint32_t other = host_communication_id(other_slot, 0x7654321);
	bool is_first = attribute == SIDR_REP;

	fill_management(packet, 7, 3, (uint16_t)attribute);
	store_be32(packet + 44, is_first ? named : other);
	store_be32(packet + 48, is_first ? other : named);
}

void fill_request(uint8_t *packet, enum attribute attribute, uint64_t service_id)
{
	fill_management(packet, 7, 3, (uint16_t)attribute);
	store_be32(packet + 44, 0xffffffff);
	store_be64(packet + 52, service_id);
}
