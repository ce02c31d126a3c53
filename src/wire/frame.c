/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/frame.h"

#include <string.h>

#include "base/assert.h"
#include "base/byte_order.h"
#include "wire/packet.h"

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define PROTOCOL_UDP 17
#define IPV4_DONT_FRAGMENT 0x4000

/* Bytes not read yet; each reader takes its header from the front and trims the end. */
struct rest {
	const uint8_t *bytes;
	size_t length;
};

static void rest_skip(struct rest *rest, size_t count)
{
	rest->bytes += count;
	rest->length -= count;
}

/* Adds to the sum of 16-bit words of RFC 1071; only the last piece may be of odd length. */
static uint64_t sum_add(uint64_t sum, const uint8_t *bytes, size_t length)
{
	size_t i;

	for (i = 0; i + 1 < length; i += 2)
		sum += load_be16(bytes + i);
	return i < length ? sum + ((uint32_t)bytes[i] << 8) : sum;
}

static uint16_t sum_fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Folded sum of pseudo header and datagram: 0xffff where the checksum field is right. */
static uint16_t udp_sum(const struct icrc_envelope *envelope, const uint8_t *udp, size_t length)
{
	size_t address_bytes = envelope->is_ipv6 ? 16 : 4;
	uint64_t sum = PROTOCOL_UDP + length;

	sum = sum_add(sum, envelope->source, address_bytes);
	sum = sum_add(sum, envelope->destination, address_bytes);
	return sum_fold(sum_add(sum, udp, length));
}

static enum frame_verdict parse_ipv4(struct rest *rest, struct frame_envelope *envelope)
{
	const uint8_t *ip = rest->bytes;
	size_t total_bytes;

	if (rest->length < IPV4_HEADER_BYTES)
		return FRAME_SHORT;
	if (ip[0] >> 4 != 4 || ip[9] != PROTOCOL_UDP)
		return FRAME_OTHER;
	if (ip[0] != 0x45 || load_be16(ip + 6) & ~IPV4_DONT_FRAGMENT)
		return FRAME_UNSUPPORTED;
	if (sum_fold(sum_add(0, ip, IPV4_HEADER_BYTES)) != 0xffff)
		return FRAME_CHECKSUM;
	total_bytes = load_be16(ip + 2);
	if (total_bytes < IPV4_HEADER_BYTES)
		return FRAME_LENGTH;
	if (total_bytes > rest->length)
		return FRAME_SHORT;
	envelope->traffic_class = ip[1];
	envelope->icrc.identification = load_be16(ip + 4);
	envelope->icrc.dont_fragment = load_be16(ip + 6) & IPV4_DONT_FRAGMENT;
	envelope->hop_limit = ip[8];
	memcpy(envelope->icrc.source, ip + 12, 4);
	memcpy(envelope->icrc.destination, ip + 16, 4);
	rest->length = total_bytes;
	rest_skip(rest, IPV4_HEADER_BYTES);
	return FRAME_ROCE;
}

static enum frame_verdict parse_ipv6(struct rest *rest, struct frame_envelope *envelope)
{
	const uint8_t *ip = rest->bytes;
	size_t total_bytes;

	if (rest->length < IPV6_HEADER_BYTES)
		return FRAME_SHORT;
	if (ip[0] >> 4 != 6 || ip[6] != PROTOCOL_UDP)
		return FRAME_OTHER;
	total_bytes = IPV6_HEADER_BYTES + (size_t)load_be16(ip + 4);
	if (total_bytes > rest->length)
		return FRAME_SHORT;
	envelope->icrc.is_ipv6 = true;
	envelope->traffic_class = (uint8_t)(load_be32(ip) >> 20);
	envelope->flow_label = load_be32(ip) & 0xfffff;
	envelope->hop_limit = ip[7];
	memcpy(envelope->icrc.source, ip + 8, 16);
	memcpy(envelope->icrc.destination, ip + 24, 16);
	rest->length = total_bytes;
	rest_skip(rest, IPV6_HEADER_BYTES);
	return FRAME_ROCE;
}

/* The datagram fills its IP packet exactly: the ICRC covers both lengths. */
static enum frame_verdict parse_udp(struct rest *rest, struct frame_envelope *envelope)
{
	const uint8_t *udp = rest->bytes;

	if (rest->length < UDP_HEADER_BYTES)
		return FRAME_LENGTH;
	if (load_be16(udp + 2) != ROCE_UDP_PORT)
		return FRAME_OTHER;
	if (load_be16(udp + 4) != rest->length || rest->length < UDP_HEADER_BYTES + ICRC_BYTES)
		return FRAME_LENGTH;
	envelope->icrc.source_port = load_be16(udp);
	envelope->has_udp_checksum = load_be16(udp + 6) != 0;
	if (envelope->has_udp_checksum && udp_sum(&envelope->icrc, udp, rest->length) != 0xffff)
		return FRAME_CHECKSUM;
	rest_skip(rest, UDP_HEADER_BYTES);
	return FRAME_ROCE;
}

static enum frame_verdict parse_ip(uint16_t ethertype, struct rest *rest,
				   struct frame_envelope *envelope)
{
	if (ethertype == ETHERTYPE_IPV4)
		return parse_ipv4(rest, envelope);
	if (ethertype == ETHERTYPE_IPV6)
		return parse_ipv6(rest, envelope);
	return FRAME_OTHER;
}

enum frame_verdict frame_parse(const uint8_t *bytes, size_t length, struct frame *frame)
{
	struct rest rest = {bytes, length};
	struct frame_envelope envelope = {0};
	enum frame_verdict verdict;

	if (length < ETHERNET_HEADER_BYTES)
		return FRAME_SHORT;
	memcpy(envelope.destination_mac, bytes, 6);
	memcpy(envelope.source_mac, bytes + 6, 6);
	rest_skip(&rest, ETHERNET_HEADER_BYTES);
	verdict = parse_ip(load_be16(bytes + 12), &rest, &envelope);
	if (verdict == FRAME_ROCE)
		verdict = parse_udp(&rest, &envelope);
	if (verdict != FRAME_ROCE)
		return verdict;
	*frame = (struct frame){
		.envelope = envelope,
		.bth = rest.bytes,
		.bth_bytes = rest.length - ICRC_BYTES,
		.icrc = icrc_load(rest.bytes + rest.length - ICRC_BYTES),
	};
	return FRAME_ROCE;
}

static void emit_ethernet(const struct frame_envelope *envelope, uint8_t *bytes)
{
	memcpy(bytes, envelope->destination_mac, 6);
	memcpy(bytes + 6, envelope->source_mac, 6);
	store_be16(bytes + 12, envelope->icrc.is_ipv6 ? ETHERTYPE_IPV6 : ETHERTYPE_IPV4);
}

static void emit_ipv4(const struct frame_envelope *envelope, size_t udp_bytes, uint8_t *ip)
{
	ip[0] = 0x45;
	ip[1] = envelope->traffic_class;
	store_be16(ip + 2, (uint16_t)(IPV4_HEADER_BYTES + udp_bytes));
	store_be16(ip + 4, envelope->icrc.identification);
	store_be16(ip + 6, envelope->icrc.dont_fragment ? IPV4_DONT_FRAGMENT : 0);
	ip[8] = envelope->hop_limit;
	ip[9] = PROTOCOL_UDP;
	store_be16(ip + 10, 0);
	memcpy(ip + 12, envelope->icrc.source, 4);
	memcpy(ip + 16, envelope->icrc.destination, 4);
	store_be16(ip + 10, (uint16_t)~sum_fold(sum_add(0, ip, IPV4_HEADER_BYTES)));
}

static void emit_ipv6(const struct frame_envelope *envelope, size_t udp_bytes, uint8_t *ip)
{
	store_be32(ip, 0x60000000 | (uint32_t)envelope->traffic_class << 20 |
			       (envelope->flow_label & 0xfffff));
	store_be16(ip + 4, (uint16_t)udp_bytes);
	ip[6] = PROTOCOL_UDP;
	ip[7] = envelope->hop_limit;
	memcpy(ip + 8, envelope->icrc.source, 16);
	memcpy(ip + 24, envelope->icrc.destination, 16);
}

/* With the datagram already behind the header, for the checksum's sake. */
static void emit_udp(const struct frame_envelope *envelope, size_t udp_bytes, uint8_t *udp)
{
	uint16_t checksum;

	store_be16(udp, envelope->icrc.source_port);
	store_be16(udp + 2, ROCE_UDP_PORT);
	store_be16(udp + 4, (uint16_t)udp_bytes);
	store_be16(udp + 6, 0);
	if (!envelope->has_udp_checksum)
		return;
	checksum = (uint16_t)~udp_sum(&envelope->icrc, udp, udp_bytes);
	/* Zero would say that there is none; the other zero of ones' complement serves. */
	store_be16(udp + 6, checksum ? checksum : 0xffff);
}

void frame_emit_grh(const struct frame_envelope *envelope, size_t bth_bytes, uint8_t *bytes)
{
	size_t udp_bytes = UDP_HEADER_BYTES + bth_bytes + ICRC_BYTES;

	VBN_ASSERT(bth_bytes <= UINT16_MAX / 2);
	if (envelope->icrc.is_ipv6) {
		emit_ipv6(envelope, udp_bytes, bytes);
		return;
	}
	memset(bytes, 0, GRH_BYTES - IPV4_HEADER_BYTES);
	emit_ipv4(envelope, udp_bytes, bytes + GRH_BYTES - IPV4_HEADER_BYTES);
}

size_t frame_emit(const struct frame *frame, uint8_t *bytes, size_t room)
{
	const struct frame_envelope *envelope = &frame->envelope;
	size_t ip_bytes = envelope->icrc.is_ipv6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES;
	size_t udp_bytes = UDP_HEADER_BYTES + frame->bth_bytes + ICRC_BYTES;
	uint8_t *udp = bytes + ETHERNET_HEADER_BYTES + ip_bytes;

	if (frame->bth_bytes > UINT16_MAX || ip_bytes + udp_bytes > UINT16_MAX ||
	    ETHERNET_HEADER_BYTES + ip_bytes + udp_bytes > room)
		return 0;
	/* The packet goes first: it may lie where the headers will. */
	memmove(udp + UDP_HEADER_BYTES, frame->bth, frame->bth_bytes);
	icrc_store(udp + UDP_HEADER_BYTES + frame->bth_bytes, frame->icrc);
	emit_ethernet(envelope, bytes);
	if (envelope->icrc.is_ipv6)
		emit_ipv6(envelope, udp_bytes, bytes + ETHERNET_HEADER_BYTES);
	else
		emit_ipv4(envelope, udp_bytes, bytes + ETHERNET_HEADER_BYTES);
	emit_udp(envelope, udp_bytes, udp);
	return ETHERNET_HEADER_BYTES + ip_bytes + udp_bytes;
}
