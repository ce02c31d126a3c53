/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: a batch to datagrams
 *
 * The ICRC is computed here, since only here all that it covers is known: ports,
 * addresses, and the identification.
 *
 * Neighbours of equal length, the last of them may be shorter, form a run: one message
 * to the kernel, which cuts it into segments again, late and for little (GSO). The first
 * segment bears identification 0, the next 1 and so on. Where GSO may not be used a run is
 * one packet, so its identification is 0. All runs of a batch leave in one
 * system call.
 *
 * When the kernel refuses a run, it and what is left of the batch are made anew as runs of
 * one packet: their ICRCs change with the identification.
 */
#include "link/udp/udp.h"

#include <errno.h>
#include <netinet/udp.h>

#define LABELS_BYTES (2 * CMSG_SPACE(sizeof(int)))
#define CONTROL_BYTES (LABELS_BYTES + CMSG_SPACE(sizeof(uint16_t)))

struct run {
	uint32_t first_message, message_count;
};

struct sending {
	const struct udp_link *udp;
	const struct link_route *route;
	struct send_batch *batch;
	int fd;
	struct icrc_envelope envelope;
	/* What the headers of packets of this length contribute to the ICRC. */
	uint32_t headers_length, headers_icrc;
	uint32_t run_count, vector_count, segmented_count;
	struct run runs[SEND_BATCH_MESSAGES];
	struct mmsghdr headers[SEND_BATCH_MESSAGES];
	struct iovec vectors[SEND_BATCH_MESSAGES];
	/* Traffic class and hop limit; a run of several has a copy with its segment size. */
	size_t labels_length;
	_Alignas(16) uint8_t labels[LABELS_BYTES];
	_Alignas(16) uint8_t control[SEND_BATCH_MESSAGES / 2][CONTROL_BYTES];
};

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

/* Traffic class and hop limit, where they differ from the system's defaults. */
static void fill_labels(struct sending *sending)
{
	const struct link_path *path = &sending->route->path;
	bool is_ipv4 = sending->udp->is_ipv4;
	int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, value;

	sending->labels_length = 0;
	if (path->traffic_class) {
		value = path->traffic_class;
		sending->labels_length = add_control(sending->labels, sending->labels_length, level,
						     is_ipv4 ? IP_TOS : IPV6_TCLASS, &value,
						     sizeof(value));
	}
	if (path->hop_limit) {
		value = path->hop_limit;
		sending->labels_length = add_control(sending->labels, sending->labels_length, level,
						     is_ipv4 ? IP_TTL : IPV6_HOPLIMIT, &value,
						     sizeof(value));
	}
}

static void fill_envelope(struct sending *sending)
{
	const struct link_route *route = sending->route;
	bool is_ipv4 = sending->udp->is_ipv4;
	size_t skip = is_ipv4 ? 12 : 0;

	sending->envelope = (struct icrc_envelope){
		.is_ipv6 = !is_ipv4,
		.dont_fragment = is_ipv4,
		.source_port = route->source_port,
	};
	memcpy(sending->envelope.source, route->path.source.gid + skip, 16 - skip);
	sending->headers_length = sending->headers_icrc = 0;
	memcpy(sending->envelope.destination, route->path.destination.gid + skip, 16 - skip);
}

/* --- runs --- */

uint32_t udp_send_run_length(const struct send_batch *batch, uint32_t first)
{
	uint32_t segment_bytes = batch->messages[first].length + ICRC_BYTES;
	uint32_t run_bytes = segment_bytes, count = 1;

	while (count < UDP_RUN_SEGMENTS_MAX && first + count < batch->message_count) {
		uint32_t bytes = batch->messages[first + count].length + ICRC_BYTES;

		if (bytes > segment_bytes || run_bytes + bytes > UDP_RUN_BYTES_MAX)
			break;
		run_bytes += bytes;
		count++;
		if (bytes < segment_bytes)
			break;
	}
	return count;
}

/* A second time undoes it. */
static void damage_message(struct send_batch *batch, const struct send_message *message)
{
	uint32_t bit;

	if (!message->damaged_bit)
		return;
	bit = (message->damaged_bit - 1) % ((message->length + ICRC_BYTES) * 8);
	batch->bytes[message->offset + bit / 8] ^= (uint8_t)(1 << bit % 8);
}

static void finish_message(struct sending *sending, const struct send_message *message,
			   uint32_t identification)
{
	uint8_t *bytes = sending->batch->bytes + message->offset;
	uint32_t icrc;

	if (sending->headers_length != message->length) {
		sending->headers_length = message->length;
		sending->headers_icrc = icrc_of_headers(&sending->envelope, message->length);
	}
	icrc = icrc_number_headers(sending->headers_icrc, (uint16_t)identification);
	icrc_store(bytes + message->length, icrc_continue(icrc, bytes, message->length));
	damage_message(sending->batch, message);
}

/* Messages that lie one behind the other, which is the rule, become one vector. */
static void add_vector(struct sending *sending, struct msghdr *header,
		       const struct send_message *message)
{
	uint8_t *bytes = sending->batch->bytes + message->offset;
	size_t length = message->length + ICRC_BYTES;
	struct iovec *last = header->msg_iov + header->msg_iovlen - 1;

	if (header->msg_iovlen && (uint8_t *)last->iov_base + last->iov_len == bytes) {
		last->iov_len += length;
		return;
	}
	sending->vectors[sending->vector_count++] = (struct iovec){bytes, length};
	header->msg_iovlen++;
}

static void set_segments(struct sending *sending, struct msghdr *header, uint32_t segment_bytes)
{
	uint16_t value = (uint16_t)segment_bytes;
	uint8_t *control = sending->control[sending->segmented_count++];

	memcpy(control, sending->labels, sending->labels_length);
	header->msg_control = control;
	header->msg_controllen = add_control(control, sending->labels_length, IPPROTO_UDP,
					     UDP_SEGMENT, &value, sizeof(value));
}

static void add_run(struct sending *sending, uint32_t first, uint32_t count)
{
	const struct send_message *messages = &sending->batch->messages[first];
	bool is_ipv4 = sending->udp->is_ipv4;
	struct msghdr *header = &sending->headers[sending->run_count].msg_hdr;

	sending->runs[sending->run_count++] = (struct run){first, count};
	*header = (struct msghdr){
		.msg_name = (void *)&sending->route->to,
		.msg_namelen = is_ipv4 ? sizeof(sending->route->to.in)
				       : sizeof(sending->route->to.in6),
		.msg_iov = &sending->vectors[sending->vector_count],
		.msg_control = sending->labels_length ? sending->labels : NULL,
		.msg_controllen = sending->labels_length,
	};
	for (uint32_t i = 0; i < count; i++) {
		finish_message(sending, &messages[i], is_ipv4 ? i : 0);
		add_vector(sending, header, &messages[i]);
	}
	if (count > 1)
		set_segments(sending, header, messages[0].length + ICRC_BYTES);
}

static void add_runs(struct sending *sending, uint32_t first, bool with_gso)
{
	uint32_t count;

	sending->run_count = sending->vector_count = sending->segmented_count = 0;
	for (; first < sending->batch->message_count; first += count) {
		count = with_gso ? udp_send_run_length(sending->batch, first) : 1;
		add_run(sending, first, count);
	}
}

/* --- to the kernel --- */

/*
 * What cannot be sent now is lost: the transport repeats it, as it would on a wire. False:
 * GSO was refused; @left is the first message that is still to be sent.
 */
static bool transmit(struct sending *sending, uint32_t *left)
{
	uint32_t next = 0;

	while (next < sending->run_count) {
		const struct run *run = &sending->runs[next];
		int sent = sendmmsg(sending->fd, &sending->headers[next], sending->run_count - next,
				    MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && run->message_count > 1 && udp_gso_is_refusal(errno)) {
			*left = run->first_message;
			return false;
		}
		/* Without one sent the first failed; the others may go through. */
		next += sent > 0 ? (uint32_t)sent : 1;
	}
	return true;
}

static void take_back_damage(struct send_batch *batch, uint32_t first)
{
	for (uint32_t i = first; i < batch->message_count; i++)
		damage_message(batch, &batch->messages[i]);
}

void udp_send(struct link *link, const struct link_route *route, struct send_batch *batch,
	      vbn_time now)
{
	struct udp_link *udp = (struct udp_link *)link;
	struct udp_sender *sender = &udp->senders[route->sender];
	struct sending sending;
	uint32_t left;

	sending.udp = udp;
	sending.route = route;
	sending.batch = batch;
	sending.fd = descriptor_use(&sender->socket, &sender->looked_at, now);
	/* The program closed it, or it is the program's now: all is lost, as on a cut wire. */
	if (sending.fd < 0)
		return;
	fill_labels(&sending);
	fill_envelope(&sending);
	add_runs(&sending, 0, udp_gso_may_be_used(udp, route));
	if (transmit(&sending, &left))
		return;
	udp_gso_remember_refusal(udp, route);
	take_back_damage(batch, left);
	add_runs(&sending, left, false);
	transmit(&sending, &left);
}
