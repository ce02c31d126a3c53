/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as datagrams that a UDP socket hands over. The file under test is included, since
 * the way in from a datagram is not for others to call. What must hold: a datagram
 * is delivered or counted under one reason, never both and never neither; so is each segment
 * of a run, whatever the kernel says of their size; what is delivered lies inside of it, and
 * its ICRC is right for the identification that is told.
 *
 * An input is datagrams one behind the other: a byte of flags, one that chooses the source,
 * two of length, segment size or identification, then the bytes.
 */
#include "link/udp/udp_receive.c" /* the file under test */

#include <limits.h>
#include <stdlib.h>

#include "base/assert.h"
#include "wire/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

enum flag {
	FLAG_TRUNCATED = 1,
	FLAG_OVERFLOWN = 2,
	FLAG_MARKED = 4,	     /* a traffic class comes along */
	FLAG_RIGHT = 8,		     /* the ICRC is made right, with an identification */
	FLAG_MAY_BE_FRAGMENTED = 16, /* the ICRC is made for a header without DF */
	FLAG_LATER = 32,
	FLAG_RUN = 64, /* a segment size comes along */
};

struct counting_sink {
	struct link_sink sink;
	const struct udp_link *udp;
	const uint8_t *start; /* of the next segment */
	size_t left, segment_bytes;
	uint32_t delivered, dropped, overflown;
};

static struct icrc_envelope envelope_of(const struct udp_link *udp, const uint8_t *source,
					uint16_t port)
{
	struct icrc_envelope envelope = {.is_ipv6 = !udp->is_ipv4, .source_port = port};
	size_t skip = udp->is_ipv4 ? 12 : 0;

	memcpy(envelope.source, source + skip, 16 - skip);
	memcpy(envelope.destination, udp->local.gid + skip, 16 - skip);
	return envelope;
}

/* The segment whose turn it is. */
static size_t next_segment(struct counting_sink *counting)
{
	size_t length = counting->left < counting->segment_bytes ? counting->left
								 : counting->segment_bytes;

	counting->start += length;
	counting->left -= length;
	return length;
}

static void deliver(struct link_sink *sink, const struct link_packet *packet)
{
	struct counting_sink *counting = (struct counting_sink *)sink;
	struct icrc_envelope envelope =
		envelope_of(counting->udp, packet->source.gid, packet->source_port);
	uint32_t icrc = icrc_load(packet->bytes + packet->length);
	struct packet parsed;
	bool is_right = false;

	VBN_ASSERT(packet->bytes == counting->start);
	VBN_ASSERT(packet->length + ICRC_BYTES == next_segment(counting));
	envelope.identification = packet->identification;
	for (int tries = 0; tries < 2; tries++) {
		envelope.dont_fragment = tries == 0 && !envelope.is_ipv6;
		is_right |= icrc_compute(&envelope, packet->bytes, packet->length) == icrc;
	}
	VBN_ASSERT(is_right);
	if (packet_parse(packet->bytes, packet->length, &parsed) == REASON_NONE)
		VBN_ASSERT(parsed.payload + parsed.payload_bytes <= packet->bytes + packet->length);
	counting->delivered++;
}

static void drop(struct link_sink *sink, enum reason reason, uint64_t count)
{
	struct counting_sink *counting = (struct counting_sink *)sink;

	if (reason == REASON_DROP_SOCKET_OVERFLOW) {
		counting->overflown += (uint32_t)count;
		return;
	}
	VBN_ASSERT(count == 1);
	VBN_ASSERT(reason == REASON_DROP_TOO_LONG || reason == REASON_DROP_SHORT ||
		   reason == REASON_DROP_ICRC);
	next_segment(counting);
	counting->dropped++;
}

/* What the kernel says beside the datagram. */
static size_t add_control(uint8_t *control, size_t at, int level, int type, const void *value,
			  size_t bytes)
{
	struct cmsghdr *header = (struct cmsghdr *)(control + at);

	header->cmsg_level = level;
	header->cmsg_type = type;
	header->cmsg_len = CMSG_LEN(bytes);
	memcpy(CMSG_DATA(header), value, bytes);
	return at + CMSG_SPACE(bytes);
}

static void fill_source(const struct udp_link *udp, uint8_t choice,
			struct sockaddr_storage *storage)
{
	memset(storage, 0, sizeof(*storage));
	if (udp->is_ipv4) {
		struct sockaddr_in *in = (struct sockaddr_in *)storage;

		in->sin_port = htons(0xc000u + choice % 4);
		in->sin_addr.s_addr = htonl(0x7f000000u + choice);
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)storage;

		in6->sin6_port = htons(0xc000u + choice % 4);
		in6->sin6_addr.s6_addr[15] = choice;
	}
}

/* Makes the last four bytes the ICRC of what is before them. */
static void make_right(const struct udp_link *udp, const struct sockaddr_storage *storage,
		       uint8_t flags, uint16_t identification, uint8_t *bytes, size_t length)
{
	struct link_packet packet = {.bytes = bytes};
	struct icrc_envelope envelope;

	source_address(udp, storage, &packet);
	envelope = envelope_of(udp, packet.source.gid, packet.source_port);
	envelope.dont_fragment = udp->is_ipv4 && !(flags & FLAG_MAY_BE_FRAGMENTED);
	envelope.identification = udp->is_ipv4 ? identification : 0;
	icrc_store(bytes + length - ICRC_BYTES,
		   icrc_compute(&envelope, bytes, length - ICRC_BYTES));
}

/* Sizes that the kernel has no reason to tell as well. */
static int segment_size(const uint8_t head[4])
{
	static const int odd[] = {0, -1, INT_MIN, INT_MAX, 65535, 65536};

	if (!(head[0] & FLAG_RUN))
		return 0;
	return head[3] < 6 ? odd[head[3]] : head[3];
}

static size_t fill_control(const struct udp_link *udp, const uint8_t head[4], uint8_t *control)
{
	uint8_t flags = head[0];
	int segment_bytes = segment_size(head);
	uint32_t seen = udp->overflow_seen + 3;
	uint8_t type_of_service = flags;
	int traffic_class = flags;
	size_t length = 0;

	if (flags & FLAG_OVERFLOWN)
		length = add_control(control, length, SOL_SOCKET, SO_RXQ_OVFL, &seen, sizeof(seen));
	if (flags & FLAG_MARKED && udp->is_ipv4)
		length = add_control(control, length, IPPROTO_IP, IP_TOS, &type_of_service, 1);
	else if (flags & FLAG_MARKED)
		length = add_control(control, length, IPPROTO_IPV6, IPV6_TCLASS, &traffic_class,
				     sizeof(traffic_class));
	if (flags & FLAG_RUN)
		length = add_control(control, length, IPPROTO_UDP, UDP_GRO, &segment_bytes,
				     sizeof(segment_bytes));
	return length;
}

static void make_all_right(struct udp_link *udp, const uint8_t head[4], uint8_t *bytes,
			   size_t length, size_t segment_bytes)
{
	uint16_t identification = (uint16_t)(head[2] << 8 | head[3]);

	while (length) {
		size_t here = length < segment_bytes ? length : segment_bytes;

		if (here >= ICRC_BYTES)
			make_right(udp, &udp->sources[0], head[0], identification++, bytes, here);
		bytes += here;
		length -= here;
	}
}

static void receive_one(struct udp_link *udp, const uint8_t head[4], const uint8_t *bytes,
			size_t length, vbn_time now)
{
	/* Of exactly its size, so that a byte too far is seen. */
	uint8_t *exact = malloc(length + !length);
	int told = segment_size(head);
	size_t segment_bytes = told > 0 && (size_t)told < length ? (size_t)told : length;
	uint32_t count = length ? (uint32_t)((length + segment_bytes - 1) / segment_bytes) : 1;
	struct counting_sink counting = {.sink = {deliver, drop},
					 .udp = udp,
					 .start = exact,
					 .left = length,
					 .segment_bytes = segment_bytes};
	struct mmsghdr header = {.msg_len = (unsigned int)length};

	VBN_ASSERT(exact);
	memcpy(exact, bytes, length);
	udp->vectors[0] = (struct iovec){exact, length};
	header.msg_hdr = udp->headers[0].msg_hdr;
	header.msg_hdr.msg_flags = head[0] & FLAG_TRUNCATED ? MSG_TRUNC : 0;
	header.msg_hdr.msg_controllen = fill_control(udp, head, udp->control[0]);
	fill_source(udp, head[1], &udp->sources[0]);
	if (head[0] & FLAG_RIGHT)
		make_all_right(udp, head, exact, length, segment_bytes);
	VBN_ASSERT(take_message(udp, &header, &counting.sink, now) == count);
	VBN_ASSERT(counting.delivered + counting.dropped == count && counting.left == 0);
	VBN_ASSERT(counting.overflown == (head[0] & FLAG_OVERFLOWN ? 3 : 0));
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static struct udp_link udp;
	vbn_time now = VBN_SECOND;

	if (!length)
		return 0;
	memset(&udp, 0, offsetof(struct udp_link, control));
	udp.is_ipv4 = bytes[0] & 1;
	udp.local.gid[15] = 1;
	if (udp.is_ipv4) {
		udp.local.gid[10] = udp.local.gid[11] = 0xff;
		udp.local.gid[12] = 127;
	}
	VBN_ASSERT(udp_receive_prepare(&udp) == 0);
	bytes++;
	length--;
	while (length >= 4) {
		size_t wanted = bytes[2] ? bytes[2] : bytes[3] * 16u;
		size_t count = wanted < length - 4 ? wanted : length - 4;

		if (bytes[0] & FLAG_LATER)
			now += bytes[3] * VBN_MILLISECOND;
		receive_one(&udp, bytes, bytes + 4, count, now);
		bytes += 4 + count;
		length -= 4 + count;
	}
	udp_receive_release(&udp);
	return 0;
}
