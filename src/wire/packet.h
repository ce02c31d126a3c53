/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A RoCEv2 packet in checked form: what stands between the UDP header and the
 * ICRC, as values. Parsing turns bytes into this or says why not; emitting is
 * the reverse. State machines never see bytes.
 */
#ifndef VBN_WIRE_PACKET_H
#define VBN_WIRE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "wire/opcode.h"

#define ROCE_UDP_PORT 4791
#define ICRC_BYTES 4
#define GRH_BYTES 40
#define BTH_BYTES 12
#define RETH_BYTES 16
#define AETH_BYTES 4
#define ATOMIC_ETH_BYTES 28
#define ATOMIC_ACK_ETH_BYTES 8
#define IMMEDIATE_BYTES 4
#define IETH_BYTES 4
#define DETH_BYTES 8
#define XRCETH_BYTES 4
/* A CNP is a BTH and so many reserved bytes; they count as its header. */
#define CNP_RESERVED_BYTES 16
/* The longest header: BTH, XRCETH and AtomicETH. */
#define PACKET_HEADER_BYTES_MAX 44
/* Path MTUs are 256 to 4096; a link may carry more where both ends agree. */
#define PACKET_MTU_MAX 4096

struct packet {
	uint8_t opcode; /* the whole byte: service and operation */
	bool solicited;
	bool migration; /* MigReq, as sent: RC and UC ignore it here */
	bool fecn;
	bool becn;
	bool ack_requested;
	uint16_t pkey;
	uint32_t dest_qpn;
	uint32_t psn;

	/* Extension headers: valid where the opcode has them, otherwise zero. */
	struct {
		uint64_t address;
		uint32_t rkey;
		uint32_t length;
	} reth;
	struct {
		uint8_t syndrome;
		uint32_t msn;
	} aeth;
	struct {
		uint64_t address;
		uint32_t rkey;
		uint64_t swap_or_add;
		uint64_t compare;
	} atomic;
	uint64_t atomic_original;
	uint32_t immediate; /* network byte order, as in ibv_wc.imm_data */
	uint32_t invalidate_rkey;
	struct {
		uint32_t qkey;
		uint32_t source_qpn;
	} deth;
	uint32_t xrc_srqn;

	/* Where the payload lies in the sender's memory, if it is lent (lent.h). */
	uint64_t lent_address;
	uint32_t lent_key; /* 0: it is not */

	/*
	 * Bytes after the headers, without padding. Points into the caller's buffer; NULL where they are lent.
	 */
	const uint8_t *payload;
	uint32_t payload_bytes;
};

static inline bool packet_is_lent(const struct packet *packet)
{
	return packet->lent_key != 0;
}

/*
 * Reads @length bytes from the first of the BTH to the last before the ICRC.
 * Returns REASON_NONE and fills @packet (payload points into @bytes), or the
 * reason to drop it: DROP_SHORT, DROP_VERSION, DROP_OPCODE, DROP_PAD. Never
 * reads outside of the range; any bytes are fine.
 */
enum reason packet_parse(const uint8_t *bytes, size_t length, struct packet *packet);

/*
 * The same of bytes that another process can change at any time: its headers are read once, and only
 * what was read then is checked. The payload may change on.
 */
enum reason packet_parse_shared(const uint8_t *bytes, size_t length, struct packet *packet);

/*
 * Writes BTH and extension headers of @packet to @bytes, at least
 * PACKET_HEADER_BYTES_MAX of them, and returns how many. PadCnt is computed from
 * payload_bytes; payload itself is not looked at. The caller places payload, then
 * packet_pad_bytes() zeros, then the ICRC behind it.
 */
size_t packet_emit_header(const struct packet *packet, uint8_t *bytes);

static inline uint32_t packet_pad_bytes(uint32_t payload_bytes)
{
	return -payload_bytes & 3;
}

#endif
