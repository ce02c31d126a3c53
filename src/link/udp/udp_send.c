/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A batch to datagrams. The ICRC is computed here, since only here all that it
 * covers is known: ports, addresses, and the identification, which is 0.
 */
#include "link/udp/udp.h"

#include <errno.h>

struct sending {
	struct mmsghdr headers[SEND_BATCH_MESSAGES];
	struct iovec vectors[SEND_BATCH_MESSAGES];
	/* One control buffer serves all messages: they share the route. */
	_Alignas(16) uint8_t control[2 * CMSG_SPACE(sizeof(int))];
};

static void add_control(struct sending *sending, size_t *length, int level, int type, int value)
{
	struct cmsghdr *header = (struct cmsghdr *)(sending->control + *length);

	header->cmsg_level = level;
	header->cmsg_type = type;
	header->cmsg_len = CMSG_LEN(sizeof(value));
	memcpy(CMSG_DATA(header), &value, sizeof(value));
	*length += CMSG_SPACE(sizeof(value));
}

/* Traffic class and hop limit, where they differ from the system's defaults. */
static size_t fill_control(struct sending *sending, const struct udp_link *udp,
			   const struct link_path *path)
{
	size_t length = 0;

	if (path->traffic_class)
		add_control(sending, &length, udp->is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
			    udp->is_ipv4 ? IP_TOS : IPV6_TCLASS, path->traffic_class);
	if (path->hop_limit)
		add_control(sending, &length, udp->is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
			    udp->is_ipv4 ? IP_TTL : IPV6_HOPLIMIT, path->hop_limit);
	return length;
}

static void fill_envelope(const struct link_route *route, bool is_ipv4,
			  struct icrc_envelope *envelope)
{
	*envelope = (struct icrc_envelope){
		.is_ipv6 = !is_ipv4,
		.dont_fragment = is_ipv4,
		.source_port = route->source_port,
	};
	if (is_ipv4) {
		memcpy(envelope->source, route->path.source.gid + 12, 4);
		memcpy(envelope->destination, route->path.destination.gid + 12, 4);
	} else {
		memcpy(envelope->source, route->path.source.gid, 16);
		memcpy(envelope->destination, route->path.destination.gid, 16);
	}
}

static void finish_message(const struct icrc_envelope *envelope, struct send_batch *batch,
			   const struct send_message *message)
{
	uint8_t *bytes = batch->bytes + message->offset;

	icrc_store(bytes + message->length, icrc_compute(envelope, bytes, message->length));
	if (message->damaged_bit) {
		uint32_t bit = (message->damaged_bit - 1) % ((message->length + ICRC_BYTES) * 8);

		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

/* What cannot be sent now is lost: the transport repeats it, as it would on a wire. */
static void transmit(int fd, struct mmsghdr *headers, unsigned int count)
{
	while (count) {
		int sent = sendmmsg(fd, headers, count, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			sent = 1; /* the first of them failed; the others may go through */
		headers += sent;
		count -= (unsigned int)sent;
	}
}

void udp_send(struct link *link, const struct link_route *route, struct send_batch *batch,
	      vbn_time now)
{
	struct udp_link *udp = (struct udp_link *)link;
	struct udp_sender *sender = &udp->senders[route->sender];
	int fd = descriptor_use(&sender->socket, &sender->looked_at, now);
	struct icrc_envelope envelope;
	struct sending sending;
	size_t control_length = fill_control(&sending, udp, &route->path);

	/* The program closed it, or it is the program's now: all is lost, as on a cut wire. */
	if (fd < 0)
		return;
	fill_envelope(route, udp->is_ipv4, &envelope);
	for (uint32_t i = 0; i < batch->message_count; i++) {
		const struct send_message *message = &batch->messages[i];

		finish_message(&envelope, batch, message);
		sending.vectors[i] = (struct iovec){batch->bytes + message->offset,
						    message->length + ICRC_BYTES};
		sending.headers[i].msg_hdr = (struct msghdr){
			.msg_name = (void *)&route->to,
			.msg_namelen = udp->is_ipv4 ? sizeof(route->to.in) : sizeof(route->to.in6),
			.msg_iov = &sending.vectors[i],
			.msg_iovlen = 1,
			.msg_control = control_length ? sending.control : NULL,
			.msg_controllen = control_length,
		};
	}
	transmit(fd, sending.headers, batch->message_count);
}
