/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/forward.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "host/host_internal.h"
#include "host/steering.h"
#include "link/descriptor.h"

/* As much as a datagram from outside may have. */
#define PACKET_BYTES_MAX 4224
#define STEER_AGAIN_NS VBN_MILLISECOND
#define QPN_OFFSET 5 /* of the destination QPN's three bytes, in the BTH */

/* What precedes the packet. Both ends run on one machine: native byte order. */
struct forward_header {
	uint32_t layout;
	uint32_t packet_bytes;
	struct link_address source, destination;
	uint16_t source_port;
	uint16_t identification;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t reserved[2];
};

union credentials_room {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(struct ucred))];
};

int host_forward_open(struct host *host)
{
	struct host_name name = host_name_of_slot(host->user, host->slot, HOST_NAME_FORWARD);
	int fd = host_name_bind(&name, SOCK_DGRAM, 0), on = 1;

	if (fd < 0)
		return fd;
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0) {
		int error = -errno;

		close(fd);
		return error;
	}
	host->forward = descriptor_adopt(fd);
	return 0;
}

int host_forward_descriptor(const struct host *host)
{
	return host->forward.fd;
}

/* By itself the kernel would show the real user; members are of one effective user. */
static void show_credentials(const struct host *host, struct msghdr *message,
			     union credentials_room *room)
{
	struct ucred own = {.pid = getpid(), .uid = host->user, .gid = getegid()};

	memset(room, 0, sizeof(*room));
	message->msg_control = room->bytes;
	message->msg_controllen = sizeof(room->bytes);
	room->header.cmsg_level = SOL_SOCKET;
	room->header.cmsg_type = SCM_CREDENTIALS;
	room->header.cmsg_len = CMSG_LEN(sizeof(own));
	memcpy(CMSG_DATA(&room->header), &own, sizeof(own));
}

/*
 * What lies in the queues of members that are stopped counts against our socket's send
 * buffer. A socket of its own has none of that behind it.
 */
static bool send_by_another_socket(const struct msghdr *message)
{
	int fd = descriptor_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_sent;

	if (fd < 0)
		return false;
	is_sent = sendmsg(fd, message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
	close(fd);
	return is_sent;
}

bool host_forward(struct host *host, uint32_t slot, const struct link_packet *packet)
{
	struct forward_header header = {
		.layout = REGISTRY_LAYOUT,
		.packet_bytes = (uint32_t)packet->length,
		.source = packet->source,
		.destination = packet->destination,
		.source_port = packet->source_port,
		.identification = packet->identification,
		.traffic_class = packet->traffic_class,
		.hop_limit = packet->hop_limit,
	};
	struct iovec parts[2] = {{&header, sizeof(header)},
				 {(void *)(uintptr_t)packet->bytes, packet->length}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	union credentials_room room;
	struct host_name name;

	/* A name in a slot where nobody lives may be anybody's. */
	if (slot >= HOST_SLOTS || packet->length > PACKET_BYTES_MAX ||
	    !registry_generation_is_member(
		    atomic_load(&registry_slot(&host->registry, slot)->generation)))
		return false;
	if (!descriptor_is_ours(&host->forward))
		return false;
	name = host_name_of_slot(host->user, slot, HOST_NAME_FORWARD);
	message.msg_name = &name.address;
	message.msg_namelen = name.length;
	show_credentials(host, &message, &room);
	if (sendmsg(host->forward.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return true;
	return errno == EAGAIN && send_by_another_socket(&message);
}

static bool is_of_our_user(const struct host *host, struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	struct ucred sender;

	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS ||
	    header->cmsg_len != CMSG_LEN(sizeof(sender)))
		return false;
	memcpy(&sender, CMSG_DATA(header), sizeof(sender));
	return host_is_user(host->user, sender.uid);
}

/* QP 1 is everybody's; its receiver knows that the packet was forwarded already. */
static bool is_ours(const struct host *host, const uint8_t *bytes)
{
	uint32_t qpn = load_be24(bytes + QPN_OFFSET);

	return qpn == HOST_MANAGEMENT_QPN || host_slot_of_qpn(qpn) == host->slot;
}

/* REASON_NONE when @packet_bytes bytes are a packet for us. */
static enum reason check(const struct host *host, struct msghdr *message, size_t length,
			 const struct forward_header *header, const uint8_t *bytes)
{
	if (!is_of_our_user(host, message))
		return REASON_DROP_SOURCE;
	if (message->msg_flags & MSG_TRUNC)
		return REASON_DROP_TOO_LONG;
	if (length < sizeof(*header) + BTH_BYTES || header->layout != REGISTRY_LAYOUT ||
	    header->packet_bytes != length - sizeof(*header))
		return REASON_DROP_SHORT;
	/* Forwarded once more it might go round for ever. */
	return is_ours(host, bytes) ? REASON_NONE : REASON_DROP_NO_QP;
}

/* False: nothing is there. */
static bool receive_one(struct host *host, struct link_sink *sink)
{
	struct forward_header header;
	uint8_t bytes[PACKET_BYTES_MAX];
	struct iovec parts[2] = {{&header, sizeof(header)}, {bytes, sizeof(bytes)}};
	/* Room for credentials and nothing else: descriptors that come along are not taken. */
	union credentials_room room;
	struct msghdr message = {
		.msg_iov = parts,
		.msg_iovlen = 2,
		.msg_control = room.bytes,
		.msg_controllen = sizeof(room.bytes),
	};
	ssize_t length = recvmsg(host->forward.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	enum reason reason;

	if (length < 0)
		return false;
	reason = check(host, &message, (size_t)length, &header, bytes);
	if (reason != REASON_NONE)
		sink->drop(sink, reason, 1);
	else
		sink->deliver(sink, &(struct link_packet){
					    .bytes = bytes,
					    .length = header.packet_bytes,
					    .source = header.source,
					    .destination = header.destination,
					    .traffic_class = header.traffic_class,
					    .hop_limit = header.hop_limit,
					    .source_port = header.source_port,
					    .identification = header.identification,
				    });
	return true;
}

uint32_t host_forward_receive(struct host *host, struct link_sink *sink, uint32_t budget)
{
	uint32_t taken = 0;

	if (!descriptor_is_ours(&host->forward))
		return 0;
	while (taken < budget && receive_one(host, sink))
		taken++;
	return taken;
}

void host_steer_again(struct host *host, const struct link_address *address, vbn_time now)
{
	uint32_t count = atomic_load(&host->address_count);

	for (uint32_t i = 0; i < count; i++) {
		struct host_address *own = &host->addresses[i];
		vbn_time last = atomic_load(&own->steered_again_at);

		if (!link_address_is_equal(&own->address, address) ||
		    own->address.scope != address->scope)
			continue;
		if (own->is_steered && now >= vbn_time_add(last, STEER_AGAIN_NS) &&
		    atomic_compare_exchange_strong(&own->steered_again_at, &last, now))
			steering_update(host, own);
		return;
	}
}
