/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whole Ethernet frames around a RoCEv2 packet, as capture files hold them. The
 * links never see them: there the kernel makes the headers.
 */
#ifndef VBN_WIRE_FRAME_H
#define VBN_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/icrc.h"

#define ETHERNET_HEADER_BYTES 14
#define IPV4_HEADER_BYTES 20
#define IPV6_HEADER_BYTES 40
#define UDP_HEADER_BYTES 8
#define FRAME_HEADER_BYTES_MAX (ETHERNET_HEADER_BYTES + IPV6_HEADER_BYTES + UDP_HEADER_BYTES)

/* All that stands before the BTH. The UDP destination port is 4791. */
struct frame_envelope {
	uint8_t destination_mac[6];
	uint8_t source_mac[6];
	struct icrc_envelope icrc; /* addresses, source port and, for IPv4, what is only there */
	uint8_t traffic_class;	   /* IPv4: type of service; ECN in the low two bits */
	uint32_t flow_label;	   /* 20 bits; zero for IPv4 */
	uint8_t hop_limit;	   /* IPv4: time to live */
	bool has_udp_checksum;	   /* otherwise the field is zero */
};

struct frame {
	struct frame_envelope envelope;
	const uint8_t *bth; /* into the caller's bytes; maybe shorter than a BTH */
	size_t bth_bytes;   /* up to the ICRC, as packet_parse() takes them */
	uint32_t icrc;	    /* as received, not verified */
};

enum frame_verdict {
	FRAME_ROCE,	   /* a RoCEv2 packet */
	FRAME_OTHER,	   /* another protocol or port */
	FRAME_SHORT,	   /* ends before its headers or its stated length do */
	FRAME_LENGTH,	   /* the lengths of IP and UDP contradict each other */
	FRAME_CHECKSUM,	   /* wrong checksum of IPv4 or UDP */
	FRAME_UNSUPPORTED, /* IPv4 options or fragments, which RoCEv2 never has */
};

/*
 * Reads a frame of @length bytes without its frame check sequence; bytes behind
 * the IP packet are Ethernet padding and ignored. @frame is filled only for
 * FRAME_ROCE. Any bytes are fine. IPv6 extension headers make it FRAME_OTHER.
 */
enum frame_verdict frame_parse(const uint8_t *bytes, size_t length, struct frame *frame);

/*
 * Writes the frame to @bytes and returns its length, or 0 when it needs more than
 * @room bytes or IP cannot carry that many. frame->bth may lie anywhere, also where
 * it goes to. The short ones are not padded to Ethernet's minimum.
 */
size_t frame_emit(const struct frame *frame, uint8_t *bytes, size_t room);

/*
 * The GRH_BYTES in front of a datagram's payload in its receive (annex A17.4.5.2): the header of
 * IPv6, or 20 zeros and the header of IPv4. @bth_bytes as in struct frame, at most UINT16_MAX / 2.
 */
void frame_emit_grh(const struct frame_envelope *envelope, size_t bth_bytes, uint8_t *bytes);

#endif
