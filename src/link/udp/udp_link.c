/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets and routes of the UDP link
 *
 * One socket is bound to the local address and port 4791 and receives everything.
 * A few others, bound to ports from 0xc000 up, only send: packets of one connection
 * share a source port, which gives the network its entropy. No socket is ever
 * connected: an unconnected one with DF writes identification 0, which the ICRC
 * covers; a connected one counts from a random start.
 */
#include "link/descriptor.h"
#include "link/udp/udp.h"

#include <errno.h>
#include <linux/udp.h>
#include <stdlib.h>
#include <unistd.h>

/* The lowest source port of RoCEv2 (annex A17.3.1.1). */
#define SOURCE_PORT_MIN 0xc000
#define SOURCE_PORT_TRIES 64
/* Asked for; the system grants net.core.rmem_max. */
#define RECEIVE_BUFFER_BYTES (8 << 20)
/*
 * Bytes under way towards one receiver whose buffer is not known: what the default
 * buffer (212,992 bytes, doubled for bookkeeping) holds with some left for others.
 */
#define FLOW_BYTES_MAX (96 << 10)

static int set_option(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) == 0 ? 0 : -errno;
}

/* A socket of the link's family that sets DF and leaves the identification at 0. */
static int open_socket(const struct udp_link *udp)
{
	int fd = descriptor_socket(udp->is_ipv4 ? AF_INET : AF_INET6,
				   SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
	int error;

	if (fd < 0)
		return -errno;
	/* PROBE sets DF and does not believe ICMP about the path MTU: the MTU is the user's. */
	error = udp->is_ipv4 ? set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
			     : set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
	if (!error && !udp->is_ipv4)
		error = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (error) {
		close(fd);
		return error;
	}
	return fd;
}

/* Each of these may be refused; the link works without, only less well. */
static void tune_receiver(struct udp_link *udp)
{
	int fd = udp->receiver.fd;

	set_option(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
	udp->has_gro = set_option(fd, IPPROTO_UDP, UDP_GRO, 1) == 0;
	if (udp->is_ipv4) {
		set_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
		set_option(fd, IPPROTO_IP, IP_RECVTTL, 1);
		return;
	}
	set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	set_option(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
	/* NICs send no UDP checksum over IPv6 either; the ICRC covers the packet. */
	set_option(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
}

static int bind_receiver(struct udp_link *udp, const struct link_udp_options *options)
{
	struct sockaddr_storage address;
	socklen_t length = link_socket_address(&udp->local, ROCE_UDP_PORT, &address);
	int fd = open_socket(udp);

	int error;

	if (fd < 0)
		return fd;
	error = udp->is_group ? udp_group_prepare(udp, fd) : 0;
	if (!error && bind(fd, (struct sockaddr *)&address, length) != 0)
		error = -errno;
	if (error) {
		close(fd);
		return error;
	}
	/* What is granted counts. */
	set_option(fd, SOL_SOCKET, SO_RCVBUF,
		   options->receive_buffer_bytes ? (int)options->receive_buffer_bytes
						 : RECEIVE_BUFFER_BYTES);
	udp->receiver = descriptor_adopt(fd);
	return 0;
}

static int open_receiver(struct udp_link *udp, const struct link_udp_options *options)
{
	int error = 0;

	if (options->receiver.fd > 0)
		udp->receiver = options->receiver;
	else
		error = bind_receiver(udp, options);
	if (!error)
		tune_receiver(udp);
	return error;
}

static int open_sender(struct udp_link *udp, struct udp_sender *sender, unsigned int *seed)
{
	struct sockaddr_storage address;
	int fd = open_socket(udp);

	if (fd < 0)
		return fd;
	for (int tries = 0; tries < SOURCE_PORT_TRIES; tries++) {
		uint16_t port = (uint16_t)(SOURCE_PORT_MIN | (rand_r(seed) & 0x3fff));
		socklen_t length = link_socket_address(&udp->local, port, &address);

		if (bind(fd, (struct sockaddr *)&address, length) == 0) {
			sender->socket = descriptor_adopt(fd);
			sender->port = port;
			/* Nobody reads here: what strangers send is to take no memory. */
			set_option(sender->socket.fd, SOL_SOCKET, SO_RCVBUF, 0);
			return 0;
		}
		if (errno != EADDRINUSE)
			break;
	}
	int error = -errno;

	close(fd);
	return error;
}

static int open_senders(struct udp_link *udp)
{
	unsigned int seed = (unsigned int)getpid() ^ (unsigned int)(uintptr_t)udp;

	for (int i = 0; i < UDP_SENDERS; i++) {
		int error = open_sender(udp, &udp->senders[i], &seed);

		if (error)
			return error;
	}
	return 0;
}

/*
 * Whether the kernel has a route: asked by connecting a socket that is thrown away,
 * since connecting one that sends would change its identifications.
 */
static int probe_route(const struct udp_link *udp, const struct link_route *route)
{
	struct sockaddr_storage local;
	socklen_t length = link_socket_address(&udp->local, 0, &local);
	int fd = open_socket(udp);
	int error = 0;

	if (fd < 0)
		return fd;
	if (bind(fd, (struct sockaddr *)&local, length) != 0 ||
	    udp_group_choose_interface(udp, &route->path, fd) != 0 ||
	    connect(fd, (const struct sockaddr *)&route->to,
		    udp->is_ipv4 ? sizeof(route->to.in) : sizeof(route->to.in6)) != 0)
		error = -errno;
	close(fd);
	return error;
}

static int udp_open_route(struct link *link, const struct link_path *path, struct link_route *route)
{
	struct udp_link *udp = (struct udp_link *)link;
	struct sockaddr_storage to;
	int error;

	if (link_address_is_ipv4(&path->destination) != udp->is_ipv4 || udp->is_group)
		return -EINVAL;
	link_socket_address(&path->destination, ROCE_UDP_PORT, &to);
	route->path = *path;
	memcpy(&route->to, &to, sizeof(route->to));
	route->sender = (path->entropy ^ path->entropy >> 14) % UDP_SENDERS;
	route->source_port = udp->senders[route->sender].port;
	route->gso_key = 0;
	if (path->is_unprobed)
		return 0;
	error = probe_route(udp, route);
	if (!error)
		error = udp_group_choose_interface(udp, path,
						   udp->senders[route->sender].socket.fd);
	route->gso_key = error ? 0 : udp_gso_key(udp, path);
	return error;
}

static int udp_descriptor(struct link *link, vbn_time now)
{
	struct udp_link *udp = (struct udp_link *)link;

	return descriptor_use(&udp->receiver, &udp->receiver_looked_at, now);
}

static vbn_time udp_next_deadline(const struct link *link)
{
	(void)link;
	return VBN_TIME_NEVER;
}

static void udp_close_inherited(struct link *link)
{
	struct udp_link *udp = (struct udp_link *)link;

	descriptor_close(&udp->receiver);
	for (int i = 0; i < UDP_SENDERS; i++)
		descriptor_close(&udp->senders[i].socket);
}

static void udp_close(struct link *link)
{
	udp_close_inherited(link);
	udp_receive_release((struct udp_link *)link);
	free(link);
}

static const struct link_ops udp_ops = {
	.open_route = udp_open_route,
	.send = udp_send,
	.receive = udp_receive,
	.descriptor = udp_descriptor,
	.next_deadline = udp_next_deadline,
	.set_joined = udp_group_set_joined,
	.close = udp_close,
	.close_inherited = udp_close_inherited,
};

int link_udp_open(const struct link_address *local, const struct link_udp_options *options,
		  struct link **link)
{
	struct udp_link *udp = aligned_alloc(64, (sizeof(*udp) + 63) & ~(size_t)63);
	int error;

	if (!udp) {
		struct descriptor receiver = options->receiver;

		if (receiver.fd > 0)
			descriptor_close(&receiver);
		return -ENOMEM;
	}
	memset(udp, 0, sizeof(*udp));
	udp->link = (struct link){
		.ops = &udp_ops,
		.properties = {.name = "udp",
			       .payload_max = PACKET_MTU_MAX,
			       .flow_bytes_max = FLOW_BYTES_MAX},
	};
	udp->local = *local;
	udp->is_ipv4 = link_address_is_ipv4(local);
	udp->is_group = link_address_is_multicast(local);
	udp->gso = options->gso;
	udp->receiver.fd = -1;
	for (int i = 0; i < UDP_SENDERS; i++)
		udp->senders[i].socket.fd = -1;
	error = open_receiver(udp, options);
	if (!error && !udp->is_group)
		error = open_senders(udp);
	if (!error)
		error = udp_receive_prepare(udp);
	if (error) {
		udp_close(&udp->link);
		return error;
	}
	/* An older kernel would not refuse a segment size: it would send a giant. */
	if (!udp->is_group &&
	    set_option(udp->senders[0].socket.fd, IPPROTO_UDP, UDP_SEGMENT, 0) != 0)
		udp->gso = LINK_GSO_OFF;
	*link = &udp->link;
	return 0;
}
