/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets for QP 1 as steering sees them. */
#ifndef VBN_TESTS_HOST_MANAGEMENT_PACKETS_H
#define VBN_TESTS_HOST_MANAGEMENT_PACKETS_H

#include <stdint.h>

/* With the ICRC, which the socket still has. */
#define DATAGRAM_BYTES 280
#define PACKET_BYTES 276

/* Messages of the connection manager. */
enum attribute {
	REQ = 0x10,
	MRA,
	REJ,
	REP,
	RTU,
	DREQ,
	DREP,
	SIDR_REQ,
	SIDR_REP,
	LAP,
	APR,
};

/* A MAD of @class and @method to QP 1; everything else is 0. */
void fill_management(uint8_t *packet, uint8_t class, uint8_t method, uint16_t attribute);
/* One whose identifiers say @slot: the one that counts, and the other one @other_slot. */
void fill_message(uint8_t *packet, enum attribute attribute, uint32_t slot, uint32_t other_slot);
void fill_request(uint8_t *packet, enum attribute attribute, uint64_t service_id);

#endif
