/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams to packets. A datagram is hostile until its ICRC was right; nothing is
 * allocated or logged for it.
 */
#include "link/udp/udp.h"

void udp_receive_prepare(struct udp_link *udp)
{
	for (int i = 0; i < UDP_RECEIVE_BATCH; i++) {
		udp->vectors[i] = (struct iovec){udp->bytes[i], UDP_DATAGRAM_BYTES};
		udp->headers[i].msg_hdr = (struct msghdr){
			.msg_name = &udp->sources[i],
			.msg_iov = &udp->vectors[i],
			.msg_iovlen = 1,
			.msg_control = udp->control[i],
		};
	}
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

static void read_control(struct udp_link *udp, struct msghdr *message, struct link_packet *packet,
			 struct link_sink *sink)
{
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
	     header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_RXQ_OVFL) {
			uint32_t seen;

			memcpy(&seen, CMSG_DATA(header), sizeof(seen));
			if (seen != udp->overflow_seen)
				sink->drop(sink, REASON_DROP_SOCKET_OVERFLOW,
					   seen - udp->overflow_seen);
			udp->overflow_seen = seen;
		} else if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TOS) {
			packet->traffic_class = *CMSG_DATA(header);
		} else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_TCLASS) {
			int traffic_class;

			memcpy(&traffic_class, CMSG_DATA(header), sizeof(traffic_class));
			packet->traffic_class = (uint8_t)traffic_class;
		}
	}
}

/* Most packets are a Verbena's: identification 0 and DF. Only others are solved for. */
static bool icrc_is_right(struct udp_link *udp, struct link_packet *packet, uint32_t received,
			  vbn_time now)
{
	struct icrc_envelope envelope = {
		.is_ipv6 = !udp->is_ipv4,
		.dont_fragment = udp->is_ipv4,
		.source_port = packet->source_port,
	};
	size_t skip = udp->is_ipv4 ? 12 : 0;

	memcpy(envelope.source, packet->source.gid + skip, 16 - skip);
	memcpy(envelope.destination, udp->local.gid + skip, 16 - skip);
	if (icrc_compute(&envelope, packet->bytes, packet->length) == received)
		return true;
	if (!udp->is_ipv4)
		return false;
	for (int tries = 0; tries < 2; tries++) {
		if (icrc_solve_identification(&envelope, packet->bytes, packet->length, received,
					      &packet->identification))
			return udp_ident_accept(udp, packet->source.gid, packet->identification,
						now);
		envelope.dont_fragment = false;
	}
	return false;
}

static void take_datagram(struct udp_link *udp, struct mmsghdr *header, struct link_sink *sink,
			  vbn_time now)
{
	const uint8_t *bytes = header->msg_hdr.msg_iov->iov_base;
	size_t length = header->msg_len;
	struct link_packet packet = {.bytes = bytes, .destination = udp->local};

	read_control(udp, &header->msg_hdr, &packet, sink);
	if (header->msg_hdr.msg_flags & MSG_TRUNC) {
		sink->drop(sink, REASON_DROP_TOO_LONG, 1);
		return;
	}
	if (length < BTH_BYTES + ICRC_BYTES) {
		sink->drop(sink, REASON_DROP_SHORT, 1);
		return;
	}
	packet.length = length - ICRC_BYTES;
	source_address(udp, header->msg_hdr.msg_name, &packet);
	if (!icrc_is_right(udp, &packet, icrc_load(bytes + packet.length), now)) {
		sink->drop(sink, REASON_DROP_ICRC, 1);
		return;
	}
	sink->deliver(sink, &packet);
}

uint32_t udp_receive(struct link *link, struct link_sink *sink, uint32_t budget, vbn_time now)
{
	struct udp_link *udp = (struct udp_link *)link;
	int fd = descriptor_use(&udp->receiver, &udp->receiver_looked_at, now);
	uint32_t taken = 0;

	while (fd >= 0 && taken < budget) {
		int count;

		for (int i = 0; i < UDP_RECEIVE_BATCH; i++) {
			udp->headers[i].msg_hdr.msg_namelen = sizeof(udp->sources[i]);
			udp->headers[i].msg_hdr.msg_controllen = UDP_CONTROL_BYTES;
		}
		count = recvmmsg(fd, udp->headers, UDP_RECEIVE_BATCH, MSG_DONTWAIT, NULL);
		if (count <= 0)
			break;
		for (int i = 0; i < count; i++)
			take_datagram(udp, &udp->headers[i], sink, now);
		taken += (uint32_t)count;
		if (count < UDP_RECEIVE_BATCH)
			break;
	}
	return taken;
}
