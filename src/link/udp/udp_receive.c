/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: datagrams to packets
 *
 * The kernel hands over messages: a datagram, or with GRO a run of datagrams of one source
 * and port, glued together; a control message tells their length, which all have but the
 * last, which may be shorter. The run may have been glued by the sender (GSO) and never
 * cut on the way, or by a NIC. Each segment is judged by itself: nothing about one follows
 * from another, they may even be for different QPs.
 *
 * A datagram is hostile until its ICRC was right; nothing is allocated or logged for it.
 *
 * What the socket had no room for is told with the next message that it had room for
 * (SO_RXQ_OVFL). The kernel counts what it would have queued: a run of datagrams that
 * came as one (GSO on loopback and veth, GRO of a NIC) counts as one.
 */
#include "link/udp/udp.h"

#include <errno.h>
#include <netinet/udp.h>
#include <sys/mman.h>

/*
 * Messages to ask for where runs are coming: few, so that what a caller gets exceeds
 * its budget by little.
 */
#define RUNS_BATCH 4

/* One message of the kernel's. */
struct arrival {
	struct link_packet packet; /* what the segments have in common */
	struct icrc_envelope envelope;
	/* What the headers of packets of this length contribute to the ICRC, with number 0. */
	size_t headers_length;
	uint32_t headers_icrc;
	uint8_t *bytes;
	size_t length;
	size_t segment_bytes; /* 0: one datagram */
	bool is_cut;	      /* its end did not fit */
};

static size_t buffer_room(const struct udp_link *udp)
{
	return udp->has_gro ? UDP_RUN_ROOM : UDP_DATAGRAM_BYTES;
}

static size_t buffers_bytes(const struct udp_link *udp)
{
	return UDP_RECEIVE_BATCH * (buffer_room(udp) + UDP_BUFFER_GAP);
}

/* The kernel writes over both lengths. */
static void ready_header(struct udp_link *udp, int index)
{
	udp->headers[index].msg_hdr.msg_namelen = sizeof(udp->sources[index]);
	udp->headers[index].msg_hdr.msg_controllen = sizeof(udp->control[index]);
}

int udp_receive_prepare(struct udp_link *udp)
{
	uint8_t *buffers = mmap(NULL, buffers_bytes(udp), PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (buffers == MAP_FAILED)
		return -ENOMEM;
	udp->buffers = buffers;
	udp->batch_wanted = UDP_RECEIVE_BATCH;
	for (int i = 0; i < UDP_RECEIVE_BATCH; i++) {
		udp->vectors[i] = (struct iovec){buffers, buffer_room(udp)};
		udp->headers[i].msg_hdr = (struct msghdr){
			.msg_name = &udp->sources[i],
			.msg_iov = &udp->vectors[i],
			.msg_iovlen = 1,
			.msg_control = udp->control[i],
		};
		ready_header(udp, i);
		buffers += buffer_room(udp) + UDP_BUFFER_GAP;
	}
	return 0;
}

void udp_receive_release(struct udp_link *udp)
{
	if (udp->buffers)
		munmap(udp->buffers, buffers_bytes(udp));
	udp->buffers = NULL;
}

static void source_address(const struct udp_link *udp, const struct sockaddr_storage *storage,
			   struct link_packet *packet)
{
	packet->source = (struct link_address){{0}, 0};
	if (udp->is_ipv4) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)storage;

		packet->source.gid[10] = packet->source.gid[11] = 0xff;
		memcpy(packet->source.gid + 12, &in->sin_addr, 4);
		packet->source_port = ntohs(in->sin_port);
		return;
	}
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)storage;

	memcpy(packet->source.gid, &in6->sin6_addr, 16);
	packet->source.scope = in6->sin6_scope_id;
	packet->source_port = ntohs(in6->sin6_port);
}

static void count_overflow(struct udp_link *udp, uint32_t seen, struct link_sink *sink)
{
	if (seen != udp->overflow_seen)
		sink->drop(sink, REASON_DROP_SOCKET_OVERFLOW, seen - udp->overflow_seen);
	udp->overflow_seen = seen;
}

static void read_control(struct udp_link *udp, struct msghdr *message, struct arrival *arrival,
			 struct link_sink *sink)
{
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
	     header = CMSG_NXTHDR(message, header)) {
		int value = 0;

		if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TOS) {
			arrival->packet.traffic_class = *CMSG_DATA(header);
			continue;
		}
		memcpy(&value, CMSG_DATA(header), sizeof(value));
		if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_RXQ_OVFL)
			count_overflow(udp, (uint32_t)value, sink);
		else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_TCLASS)
			arrival->packet.traffic_class = (uint8_t)value;
		else if ((header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TTL) ||
			 (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_HOPLIMIT))
			arrival->packet.hop_limit = (uint8_t)value;
		else if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO)
			arrival->segment_bytes = value > 0 ? (size_t)value : 0;
	}
}

static void fill_envelope(const struct udp_link *udp, const struct link_packet *packet,
			  struct icrc_envelope *envelope)
{
	size_t skip = udp->is_ipv4 ? 12 : 0;

	*envelope = (struct icrc_envelope){
		.is_ipv6 = !udp->is_ipv4,
		.dont_fragment = udp->is_ipv4,
		.source_port = packet->source_port,
	};
	memcpy(envelope->source, packet->source.gid + skip, 16 - skip);
	memcpy(envelope->destination, udp->local.gid + skip, 16 - skip);
}

static uint32_t headers_for(struct arrival *arrival, size_t length)
{
	if (arrival->headers_length != length) {
		arrival->headers_length = length;
		arrival->headers_icrc = icrc_of_headers(&arrival->envelope, length);
	}
	return arrival->headers_icrc;
}

static bool is_right_without_df(const struct arrival *arrival, struct link_packet *packet,
				uint32_t received)
{
	struct icrc_envelope envelope = arrival->envelope;

	envelope.dont_fragment = false;
	return icrc_solve_identification(&envelope, packet->bytes, packet->length, received,
					 &packet->identification);
}

/*
 * Most packets are a Verbena's, with DF: segments are numbered from 0, and what left alone
 * is 0. What bears another number, or came alone and was glued on the way, is solved for.
 */
static bool icrc_is_right(struct udp_link *udp, struct arrival *arrival, uint8_t *bytes,
			  uint16_t index, vbn_time now)
{
	struct link_packet *packet = &arrival->packet;
	uint32_t received = icrc_load(bytes + packet->length);
	uint32_t headers = headers_for(arrival, packet->length);
	uint32_t icrc;
	uint16_t change;

	if (!udp->is_ipv4) {
		packet->identification = 0;
		return icrc_continue(headers, bytes, packet->length) == received;
	}
	icrc = icrc_continue(icrc_number_headers(headers, index), bytes, packet->length);
	packet->identification = index;
	if (icrc == received)
		return true;
	if (icrc_solve_difference(icrc ^ received, packet->length, &change))
		packet->identification = index ^ change;
	else if (!is_right_without_df(arrival, packet, received))
		return false;
	return udp_ident_accept(udp, packet->source.gid, packet->identification, now);
}

static enum reason judge_segment(struct udp_link *udp, struct arrival *arrival, uint8_t *bytes,
				 size_t length, uint32_t index, vbn_time now)
{
	if (length > UDP_DATAGRAM_BYTES)
		return REASON_DROP_TOO_LONG;
	if (length < BTH_BYTES + ICRC_BYTES)
		return REASON_DROP_SHORT;
	arrival->packet.bytes = bytes;
	arrival->packet.length = length - ICRC_BYTES;
	if (!icrc_is_right(udp, arrival, bytes, (uint16_t)index, now))
		return REASON_DROP_ICRC;
	return REASON_NONE;
}

/* How many datagrams it was. */
static uint32_t take_segments(struct udp_link *udp, struct arrival *arrival, struct link_sink *sink,
			      vbn_time now)
{
	uint8_t *bytes = arrival->bytes;
	size_t left = arrival->length;
	uint32_t count = 0;

	do {
		bool is_last = !arrival->segment_bytes || arrival->segment_bytes >= left;
		/* What was cut off began in this one, or right behind it. */
		bool is_cut = arrival->is_cut && is_last && arrival->segment_bytes != left;
		size_t length = is_last ? left : arrival->segment_bytes;
		enum reason reason =
			is_cut ? REASON_DROP_TOO_LONG
			       : judge_segment(udp, arrival, bytes, length, count, now);

		if (reason)
			sink->drop(sink, reason, 1);
		else
			sink->deliver(sink, &arrival->packet);
		bytes += length;
		left -= length;
		count++;
	} while (left);
	return count;
}

static uint32_t take_message(struct udp_link *udp, struct mmsghdr *header, struct link_sink *sink,
			     vbn_time now)
{
	struct arrival arrival = {
		.packet = {.destination = udp->local},
		.bytes = header->msg_hdr.msg_iov->iov_base,
		.length = header->msg_len,
		.is_cut = header->msg_hdr.msg_flags & MSG_TRUNC,
	};

	read_control(udp, &header->msg_hdr, &arrival, sink);
	source_address(udp, header->msg_hdr.msg_name, &arrival.packet);
	fill_envelope(udp, &arrival.packet, &arrival.envelope);
	return take_segments(udp, &arrival, sink, now);
}

uint32_t udp_receive(struct link *link, struct link_sink *sink, uint32_t budget, vbn_time now)
{
	struct udp_link *udp = (struct udp_link *)link;
	int fd = descriptor_use(&udp->receiver, &udp->receiver_looked_at, now);
	uint32_t taken = 0;

	while (fd >= 0 && taken < budget) {
		int wanted = (int)udp->batch_wanted;
		int count = recvmmsg(fd, udp->headers, (unsigned int)wanted, MSG_DONTWAIT, NULL);
		uint32_t datagrams = 0;

		for (int i = 0; i < count; i++) {
			datagrams += take_message(udp, &udp->headers[i], sink, now);
			ready_header(udp, i);
		}
		taken += datagrams;
		if (count < wanted)
			break;
		udp->batch_wanted = datagrams > (uint32_t)count ? RUNS_BATCH : UDP_RECEIVE_BATCH;
	}
	return taken;
}
