/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers of acknowledgements and of the two timer fields: AETH syndromes (IBA
 * table 43), RNR NAK timer codes (table 45), local ACK timeout (9.7.6.1.3).
 */
#ifndef VBN_WIRE_SYNDROME_H
#define VBN_WIRE_SYNDROME_H

#include <stdint.h>

#include "base/time.h"

/* The values are those of the two bits on the wire. */
enum syndrome_kind { SYNDROME_ACK, SYNDROME_RNR, SYNDROME_RESERVED, SYNDROME_NAK };

/* Credits are not used: 31 says "no limit" and never deadlocks a peer. */
#define SYNDROME_ACK_UNLIMITED 0x1fu
#define SYNDROME_RNR_BASE 0x20u
#define SYNDROME_NAK_SEQUENCE 0x60u
#define SYNDROME_NAK_INVALID_REQUEST 0x61u
#define SYNDROME_NAK_REMOTE_ACCESS 0x62u
#define SYNDROME_NAK_REMOTE_OPERATION 0x63u

static inline enum syndrome_kind syndrome_kind(uint8_t syndrome)
{
	return (enum syndrome_kind)(syndrome >> 5 & 3);
}

/* How long an RNR NAK with this 5-bit code asks to wait. Code 0 is the longest. */
uint64_t rnr_timer_ns(uint8_t code);

/* T = 4.096 us * 2^code, or 0 for code 0, which means "no timer". @code is 0 to 31. */
uint64_t ack_timeout_ns(uint8_t code);

#endif
