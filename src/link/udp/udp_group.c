/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: multicast groups
 *
 * A group is received by a socket of its own, bound to the group's address, which is the
 * destination that the ICRC covers. The kernel gives each socket that is bound so a copy, in this
 * process or another, of this user or another, and no socket what it has not joined itself.
 *
 * Sending needs no more than a route: of IPv4 the kernel takes the interface that has the source
 * address; of IPv6 it is told. What is sent comes back to receivers on this host as well.
 */
#include "link/udp/udp.h"

#include <errno.h>
#include <netinet/in.h>

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

static int set_int(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) == 0 ? 0 : -errno;
}

int udp_group_prepare(const struct udp_link *udp, int fd)
{
	int error = set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);

	if (error)
		return error;
	if (udp->is_ipv4)
		return set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	/* Kernels before 4.20 do not know it, and give too much, which nobody is attached to. */
	set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	return 0;
}

static int change_ipv4(const struct udp_link *udp, bool is_joined)
{
	struct ip_mreqn request = {.imr_ifindex = (int)udp->local.scope};

	memcpy(&request.imr_multiaddr, udp->local.gid + 12, 4);
	return setsockopt(udp->receiver.fd, IPPROTO_IP,
			  is_joined ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request,
			  sizeof(request));
}

static int change_ipv6(const struct udp_link *udp, bool is_joined)
{
	struct ipv6_mreq request = {.ipv6mr_interface = udp->local.scope};

	memcpy(&request.ipv6mr_multiaddr, udp->local.gid, 16);
	return setsockopt(udp->receiver.fd, IPPROTO_IPV6,
			  is_joined ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &request,
			  sizeof(request));
}

int udp_group_set_joined(struct link *link, bool is_joined)
{
	struct udp_link *udp = (struct udp_link *)link;
	int result;

	if (!udp->is_group || !descriptor_is_ours(&udp->receiver))
		return -EINVAL;
	result = udp->is_ipv4 ? change_ipv4(udp, is_joined) : change_ipv6(udp, is_joined);
	return result == 0 ? 0 : -errno;
}

int udp_group_choose_interface(const struct udp_link *udp, const struct link_path *path, int fd)
{
	if (udp->is_ipv4 || !link_address_is_multicast(&path->destination))
		return 0;
	return set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)path->destination.scope);
}
