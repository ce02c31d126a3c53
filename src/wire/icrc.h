/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariant CRC of RoCEv2 (annex A17.3.3)
 *
 * CRC-32 (reflected 0x04c11db7) over eight bytes of ones, the IP and UDP headers
 * and everything up to the ICRC, with the fields that routers may change set to
 * ones. It covers the IPv4 identification, which a UDP socket neither sets nor
 * sees; icrc_solve_identification() finds the one value that makes a received
 * CRC right: the CRC is linear, so 16 of its 32 bits pin the identification and
 * the other 16 remain as the check.
 */
#ifndef VBN_WIRE_ICRC_H
#define VBN_WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the ICRC covers of the IP and UDP headers. Addresses in network order. */
struct icrc_envelope {
	bool is_ipv6;
	uint8_t source[16]; /* IPv4: the first four bytes */
	uint8_t destination[16];
	uint16_t identification; /* IPv4 only, host order */
	bool dont_fragment;	 /* IPv4 only */
	uint16_t source_port;	 /* host order; the destination port is 4791 */
};

/*
 * The ICRC of a packet: @bth_bytes bytes from the first of the BTH to the last
 * before the ICRC, padding included. The value is stored least significant byte
 * first on the wire.
 */
uint32_t icrc_compute(const struct icrc_envelope *envelope, const uint8_t *bth, size_t bth_bytes);

/*
 * The same in two steps, for many packets of one length: what the IP and UDP headers
 * contribute, as a value to go on from; then a packet. The second step writes to
 * byte 4 of the BTH, which the ICRC does not cover, and restores it.
 */
uint32_t icrc_of_headers(const struct icrc_envelope *envelope, size_t bth_bytes);
uint32_t icrc_continue(uint32_t headers, uint8_t *bth, size_t bth_bytes);
/* From @headers with identification 0 to those with @identification. IPv4 only. */
uint32_t icrc_number_headers(uint32_t headers, uint16_t identification);

/*
 * Whether some identification makes @received right for @envelope (whose own
 * identification is ignored); then it is stored to @identification. IPv4 only.
 */
bool icrc_solve_identification(const struct icrc_envelope *envelope, const uint8_t *bth,
			       size_t bth_bytes, uint32_t received, uint16_t *identification);
/*
 * The same where the ICRC is known with some identification: @difference is what was
 * received, exclusive or that; @change what the right identification is, exclusive or that.
 */
bool icrc_solve_difference(uint32_t difference, size_t bth_bytes, uint16_t *change);

static inline uint32_t icrc_load(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

static inline void icrc_store(uint8_t *bytes, uint32_t icrc)
{
	bytes[0] = (uint8_t)icrc;
	bytes[1] = (uint8_t)(icrc >> 8);
	bytes[2] = (uint8_t)(icrc >> 16);
	bytes[3] = (uint8_t)(icrc >> 24);
}

#endif
