/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One list of operations gives the properties, header lengths and names of all
 * 256 opcode bytes, all of them constants: a look-up on the data path is one load.
 */
#include "wire/opcode.h"

#include "wire/packet.h"

#define REQUEST (OPCODE_IS_KNOWN | OPCODE_IS_REQUEST)
#define RESPONSE (OPCODE_IS_KNOWN | OPCODE_IS_RESPONSE)
#define FIRST OPCODE_STARTS
#define LAST OPCODE_ENDS
#define ONLY (OPCODE_STARTS | OPCODE_ENDS)
#define SEND (REQUEST | OPCODE_IS_SEND | OPCODE_HAS_PAYLOAD)
#define WRITE (REQUEST | OPCODE_IS_WRITE | OPCODE_HAS_PAYLOAD)
#define READ_RESPONSE (RESPONSE | OPCODE_IS_READ | OPCODE_HAS_PAYLOAD)
#define ATOMIC (REQUEST | OPCODE_IS_ATOMIC | OPCODE_HAS_ATOMIC_ETH)

/*
 * Each entry is X(service, operation, properties); "extra" are the properties that
 * the service adds to every request.
 */
#define DATAGRAM_OPERATIONS(X, service, extra) \
	X(service, SEND_ONLY, SEND | ONLY | extra) \
	X(service, SEND_ONLY_IMM, SEND | ONLY | OPCODE_HAS_IMMEDIATE | extra)

#define CONNECTED_OPERATIONS(X, service, extra) \
	DATAGRAM_OPERATIONS(X, service, extra) \
	X(service, SEND_FIRST, SEND | FIRST | extra) \
	X(service, SEND_MIDDLE, SEND | extra) \
	X(service, SEND_LAST, SEND | LAST | extra) \
	X(service, SEND_LAST_IMM, SEND | LAST | OPCODE_HAS_IMMEDIATE | extra) \
	X(service, WRITE_FIRST, WRITE | FIRST | OPCODE_HAS_RETH | extra) \
	X(service, WRITE_MIDDLE, WRITE | extra) \
	X(service, WRITE_LAST, WRITE | LAST | extra) \
	X(service, WRITE_LAST_IMM, WRITE | LAST | OPCODE_HAS_IMMEDIATE | extra) \
	X(service, WRITE_ONLY, WRITE | ONLY | OPCODE_HAS_RETH | extra) \
	X(service, WRITE_ONLY_IMM, WRITE | ONLY | OPCODE_HAS_RETH | OPCODE_HAS_IMMEDIATE | extra)

#define RELIABLE_OPERATIONS(X, service, extra) \
	CONNECTED_OPERATIONS(X, service, extra) \
	X(service, SEND_LAST_INVALIDATE, SEND | LAST | OPCODE_HAS_IETH | extra) \
	X(service, SEND_ONLY_INVALIDATE, SEND | ONLY | OPCODE_HAS_IETH | extra) \
	X(service, READ_REQUEST, REQUEST | OPCODE_IS_READ | ONLY | OPCODE_HAS_RETH | extra) \
	X(service, COMPARE_SWAP, ATOMIC | ONLY | extra) \
	X(service, FETCH_ADD, ATOMIC | ONLY | extra) \
	X(service, READ_RESPONSE_FIRST, READ_RESPONSE | FIRST | OPCODE_HAS_AETH) \
	X(service, READ_RESPONSE_MIDDLE, READ_RESPONSE) \
	X(service, READ_RESPONSE_LAST, READ_RESPONSE | LAST | OPCODE_HAS_AETH) \
	X(service, READ_RESPONSE_ONLY, READ_RESPONSE | ONLY | OPCODE_HAS_AETH) \
	X(service, ACKNOWLEDGE, RESPONSE | ONLY | OPCODE_HAS_AETH) \
	X(service, ATOMIC_ACKNOWLEDGE, \
	  RESPONSE | OPCODE_IS_ATOMIC | ONLY | OPCODE_HAS_AETH | OPCODE_HAS_ATOMIC_ACK_ETH)

/*
 * The holes of the reliable services: reserved, or of operations that came later (FLUSH, ATOMIC
 * WRITE). Their bytes behind the BTH count as payload, since nobody looks at them.
 */
#define UNOFFERED (OPCODE_IS_UNOFFERED | OPCODE_IS_REQUEST | ONLY | OPCODE_HAS_PAYLOAD)
#define UNOFFERED_OPERATIONS(X, service) \
	X(service, 0x15) \
	X(service, 0x18) \
	X(service, 0x19) \
	X(service, 0x1a) \
	X(service, 0x1b) \
	X(service, 0x1c) \
	X(service, 0x1d) \
	X(service, 0x1e) \
	X(service, 0x1f)

#define ALL_OPERATIONS(X) \
	RELIABLE_OPERATIONS(X, RC, 0) \
	CONNECTED_OPERATIONS(X, UC, 0) \
	DATAGRAM_OPERATIONS(X, UD, OPCODE_HAS_DETH) \
	RELIABLE_OPERATIONS(X, XRC, OPCODE_HAS_XRCETH)

#define CNP_PROPERTIES (OPCODE_IS_KNOWN | OPCODE_IS_CNP | ONLY)

#define IF_HAS(bits, bit, bytes) (((bits) & (bit)) ? (bytes) : 0)
#define HEADER_BYTES(bits) \
	(BTH_BYTES + IF_HAS(bits, OPCODE_HAS_RETH, RETH_BYTES) + \
	 IF_HAS(bits, OPCODE_HAS_AETH, AETH_BYTES) + \
	 IF_HAS(bits, OPCODE_HAS_ATOMIC_ETH, ATOMIC_ETH_BYTES) + \
	 IF_HAS(bits, OPCODE_HAS_ATOMIC_ACK_ETH, ATOMIC_ACK_ETH_BYTES) + \
	 IF_HAS(bits, OPCODE_HAS_IMMEDIATE, IMMEDIATE_BYTES) + \
	 IF_HAS(bits, OPCODE_HAS_IETH, IETH_BYTES) + IF_HAS(bits, OPCODE_HAS_DETH, DETH_BYTES) + \
	 IF_HAS(bits, OPCODE_HAS_XRCETH, XRCETH_BYTES) + \
	 IF_HAS(bits, OPCODE_IS_CNP, CNP_RESERVED_BYTES))

/* clang-format off */
const struct opcode_facts opcode_table[256] = {
#define X(service, operation, bits) \
	[SERVICE_##service << 5 | OPCODE_##operation] = {{bits}, HEADER_BYTES(bits)},
	ALL_OPERATIONS(X)
#undef X
#define X(service, operation) [SERVICE_##service << 5 | (operation)] = {{UNOFFERED}, BTH_BYTES},
	UNOFFERED_OPERATIONS(X, RC)
	UNOFFERED_OPERATIONS(X, XRC)
#undef X
	[OPCODE_BYTE_CNP] = {{CNP_PROPERTIES}, HEADER_BYTES(CNP_PROPERTIES)},
};

static const char *const names[256] = {
#define X(service, operation, bits) \
	[SERVICE_##service << 5 | OPCODE_##operation] = #service " " #operation,
	ALL_OPERATIONS(X)
#undef X
	[OPCODE_BYTE_CNP] = "CNP",
};
/* clang-format on */

const char *opcode_name(uint8_t byte)
{
	return names[byte] ? names[byte] : "UNKNOWN";
}
