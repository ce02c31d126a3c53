/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opcodes of the base transport header and what each implies (IBA table 38).
 * The properties are a type of their own, so that an opcode is never taken for
 * a mask.
 */
#ifndef VBN_WIRE_OPCODE_H
#define VBN_WIRE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

/* Upper three bits of an opcode. */
enum service { SERVICE_RC = 0, SERVICE_UC = 1, SERVICE_RD = 2, SERVICE_UD = 3, SERVICE_XRC = 5 };

/* Lower five bits; the same for each service that knows the operation. */
enum opcode {
	OPCODE_SEND_FIRST = 0x00,
	OPCODE_SEND_MIDDLE = 0x01,
	OPCODE_SEND_LAST = 0x02,
	OPCODE_SEND_LAST_IMM = 0x03,
	OPCODE_SEND_ONLY = 0x04,
	OPCODE_SEND_ONLY_IMM = 0x05,
	OPCODE_WRITE_FIRST = 0x06,
	OPCODE_WRITE_MIDDLE = 0x07,
	OPCODE_WRITE_LAST = 0x08,
	OPCODE_WRITE_LAST_IMM = 0x09,
	OPCODE_WRITE_ONLY = 0x0a,
	OPCODE_WRITE_ONLY_IMM = 0x0b,
	OPCODE_READ_REQUEST = 0x0c,
	OPCODE_READ_RESPONSE_FIRST = 0x0d,
	OPCODE_READ_RESPONSE_MIDDLE = 0x0e,
	OPCODE_READ_RESPONSE_LAST = 0x0f,
	OPCODE_READ_RESPONSE_ONLY = 0x10,
	OPCODE_ACKNOWLEDGE = 0x11,
	OPCODE_ATOMIC_ACKNOWLEDGE = 0x12,
	OPCODE_COMPARE_SWAP = 0x13,
	OPCODE_FETCH_ADD = 0x14,
	OPCODE_SEND_LAST_INVALIDATE = 0x16,
	OPCODE_SEND_ONLY_INVALIDATE = 0x17,
	OPCODE_COUNT = 0x20
};

/* Congestion notification packet of RoCEv2 (annex A17.9.3): a whole byte. */
#define OPCODE_BYTE_CNP 0x81u

typedef struct {
	uint32_t bits;
} opcode_properties;

enum {
	OPCODE_IS_REQUEST = 1u << 0,
	OPCODE_IS_RESPONSE = 1u << 1,
	OPCODE_STARTS = 1u << 2, /* FIRST or ONLY, and all single-packet kinds */
	OPCODE_ENDS = 1u << 3,	 /* LAST or ONLY, and all single-packet kinds */
	OPCODE_IS_SEND = 1u << 4,
	OPCODE_IS_WRITE = 1u << 5,
	OPCODE_IS_READ = 1u << 6,     /* request or response */
	OPCODE_IS_ATOMIC = 1u << 7,   /* request or answer */
	OPCODE_HAS_PAYLOAD = 1u << 8, /* may carry payload */
	OPCODE_HAS_RETH = 1u << 9,
	OPCODE_HAS_AETH = 1u << 10,
	OPCODE_HAS_ATOMIC_ETH = 1u << 11,
	OPCODE_HAS_ATOMIC_ACK_ETH = 1u << 12,
	OPCODE_HAS_IMMEDIATE = 1u << 13,
	OPCODE_HAS_IETH = 1u << 14,
	OPCODE_HAS_DETH = 1u << 15,
	OPCODE_HAS_XRCETH = 1u << 16,
	OPCODE_IS_CNP = 1u << 17,
	OPCODE_IS_KNOWN = 1u << 18,
	/*
	 * A request of a reliable service for an operation that is not offered, or that does not
	 * exist: all that is known is where its BTH ends. Whoever awaits it has to refuse it.
	 */
	OPCODE_IS_UNOFFERED = 1u << 19,
};

static inline uint8_t opcode_byte(enum service service, enum opcode opcode)
{
	return (uint8_t)(service << 5 | (unsigned)opcode);
}

static inline enum service opcode_service(uint8_t byte)
{
	return (enum service)(byte >> 5);
}

static inline enum opcode opcode_operation(uint8_t byte)
{
	return (enum opcode)(byte & 0x1f);
}

struct opcode_facts {
	opcode_properties properties;
	uint32_t header_bytes;
};
/* By the whole byte. Here for the two look-ups below, which every packet needs several times. */
extern const struct opcode_facts opcode_table[256] __attribute__((visibility("hidden")));

/*
 * All zero for a byte that is no opcode of any service, which nobody can answer. OPCODE_IS_KNOWN is
 * clear for those that are only refused, too.
 */
static inline opcode_properties opcode_properties_of(uint8_t byte)
{
	return opcode_table[byte].properties;
}

static inline bool opcode_has(opcode_properties properties, uint32_t bits)
{
	return (properties.bits & bits) == bits;
}

/* Bytes of BTH and all extension headers of this opcode, as far as known; 0: it is none. */
static inline uint32_t opcode_header_bytes(uint8_t byte)
{
	return opcode_table[byte].header_bytes;
}

/* "RC SEND_FIRST", for traces; "unknown 0x.." kinds answer "UNKNOWN". */
const char *opcode_name(uint8_t byte);

#endif
