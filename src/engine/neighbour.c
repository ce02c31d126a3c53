/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/neighbour.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/descriptor.h"

#define DISCARD_PORT 9
#define ANSWER_BYTES 2048
#define ATTRIBUTES_BYTES 64

#define STATES_KNOWN (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

/* --- netlink: one question, one answer --- */

struct question {
	struct nlmsghdr header;
	union {
		struct rtmsg route;
		struct ndmsg neighbour;
	} body;
	uint8_t attributes[ATTRIBUTES_BYTES];
};

_Static_assert(sizeof(struct rtmsg) == sizeof(struct ndmsg),
	       "attributes begin at different places behind routes and neighbours");
_Static_assert(offsetof(struct question, attributes) == NLMSG_SPACE(sizeof(struct rtmsg)),
	       "attributes do not begin where the kernel looks for them");

union answer {
	struct nlmsghdr header;
	uint8_t bytes[ANSWER_BYTES];
};

static struct question question_of(uint16_t type)
{
	return (struct question){
		.header = {.nlmsg_len = offsetof(struct question, attributes),
			   .nlmsg_type = type,
			   .nlmsg_flags = NLM_F_REQUEST},
	};
}

static void put(struct question *question, uint16_t type, const void *bytes, size_t length)
{
	struct rtattr attribute = {.rta_len = (unsigned short)RTA_LENGTH(length), .rta_type = type};
	uint8_t *at = (uint8_t *)question + question->header.nlmsg_len;

	memcpy(at, &attribute, sizeof(attribute));
	memcpy(at + RTA_LENGTH(0), bytes, length);
	question->header.nlmsg_len += (uint32_t)RTA_SPACE(length);
}

static void put_address(struct question *question, uint16_t type,
			const struct link_address *address)
{
	if (link_address_is_ipv4(address))
		put(question, type, address->gid + 12, 4);
	else
		put(question, type, address->gid, 16);
}

static unsigned char family_of(const struct link_address *address)
{
	return link_address_is_ipv4(address) ? AF_INET : AF_INET6;
}

/* 0 and the answer of type @type; a negative errno: that of the kernel, or of its way here. */
static int ask(const struct question *question, uint16_t type, union answer *answer)
{
	int fd = descriptor_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), error = 0;
	ssize_t got = -1;

	if (fd < 0)
		return -errno;
	/* The kernel has answered when it has taken the question. */
	if (send(fd, question, question->header.nlmsg_len, MSG_DONTWAIT) >= 0)
		got = recv(fd, answer->bytes, sizeof(answer->bytes), MSG_DONTWAIT);
	if (got < 0)
		error = -errno;
	close(fd);
	if (error)
		return error;
	if (!NLMSG_OK(&answer->header, (size_t)got))
		return -EBADMSG;
	if (answer->header.nlmsg_type == NLMSG_ERROR &&
	    answer->header.nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)))
		error = ((struct nlmsgerr *)NLMSG_DATA(&answer->header))->error;
	if (error)
		return error;
	return answer->header.nlmsg_type == type &&
			       answer->header.nlmsg_len >= NLMSG_LENGTH(sizeof(struct rtmsg))
		       ? 0
		       : -EBADMSG;
}

/* --- the way --- */

static void take_gateway(const struct rtattr *attribute, struct link_address *hop)
{
	const uint8_t *bytes = RTA_DATA(attribute);
	size_t length = RTA_PAYLOAD(attribute);

	/* A router of the other family: its own stands behind the family. */
	if (attribute->rta_type == RTA_VIA && length > sizeof(sa_family_t)) {
		bytes += sizeof(sa_family_t);
		length -= sizeof(sa_family_t);
	}
	if (length == 16) {
		memcpy(hop->gid, bytes, length);
	} else if (length == 4) {
		memset(hop->gid, 0, 10);
		memset(hop->gid + 10, 0xff, 2);
		memcpy(hop->gid + 12, bytes, length);
	}
}

static void read_route(const union answer *answer, struct neighbour *neighbour)
{
	const struct rtmsg *route = NLMSG_DATA(&answer->header);
	const struct rtattr *attribute = RTM_RTA(route);
	size_t left = RTM_PAYLOAD(&answer->header);

	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		if (attribute->rta_type == RTA_GATEWAY || attribute->rta_type == RTA_VIA)
			take_gateway(attribute, &neighbour->hop);
		else if (attribute->rta_type == RTA_OIF &&
			 RTA_PAYLOAD(attribute) == sizeof(neighbour->interface_index))
			memcpy(&neighbour->interface_index, RTA_DATA(attribute),
			       sizeof(neighbour->interface_index));
	}
}

/* Whether those on its link have addresses that are asked for. */
static bool interface_asks(uint32_t index)
{
	int fd = descriptor_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {0};
	bool asks = fd >= 0 && if_indextoname(index, request.ifr_name) &&
		    ioctl(fd, SIOCGIFFLAGS, &request) == 0 &&
		    !(request.ifr_flags & (IFF_NOARP | IFF_LOOPBACK));

	if (fd >= 0)
		close(fd);
	return asks;
}

static bool is_zero(const struct link_address *address)
{
	static const uint8_t zeros[16];

	return memcmp(address->gid + (link_address_is_ipv4(address) ? 12 : 0), zeros,
		      link_address_is_ipv4(address) ? 4 : 16) == 0;
}

/* NEIGHBOUR_SOUGHT: there is a hop that can be asked for. */
static enum neighbour_state find_hop(struct neighbour *neighbour)
{
	const struct link_address *source = &neighbour->source;
	const struct link_address *destination = &neighbour->destination;
	struct question question = question_of(RTM_GETROUTE);
	struct rtmsg *route = &question.body.route;
	uint8_t bits = link_address_is_ipv4(destination) ? 32 : 128;
	bool has_source = !is_zero(source) &&
			  link_address_is_ipv4(source) == link_address_is_ipv4(destination);
	union answer answer = {0};
	int error;

	neighbour->hop = *destination;
	neighbour->interface_index = 0;
	route->rtm_family = family_of(destination);
	route->rtm_dst_len = bits;
	route->rtm_src_len = has_source ? bits : 0;
	put_address(&question, RTA_DST, destination);
	if (has_source)
		put_address(&question, RTA_SRC, source);
	if (destination->scope)
		put(&question, RTA_OIF, &destination->scope, sizeof(destination->scope));
	error = ask(&question, RTM_NEWROUTE, &answer);
	if (error == -ENETUNREACH || error == -EHOSTUNREACH)
		return NEIGHBOUR_UNKNOWN;
	/* It cannot be told, or this machine itself or a group is meant. */
	if (error || ((const struct rtmsg *)NLMSG_DATA(&answer.header))->rtm_type != RTN_UNICAST)
		return NEIGHBOUR_KNOWN;
	read_route(&answer, neighbour);
	return neighbour->interface_index && interface_asks(neighbour->interface_index)
		       ? NEIGHBOUR_SOUGHT
		       : NEIGHBOUR_KNOWN;
}

/* --- the hop --- */

static enum neighbour_state state_of_hop(const struct neighbour *neighbour)
{
	struct question question = question_of(RTM_GETNEIGH);
	union answer answer = {0};
	uint16_t state;
	int error;

	question.body.neighbour.ndm_family = family_of(&neighbour->hop);
	question.body.neighbour.ndm_ifindex = (int)neighbour->interface_index;
	put_address(&question, NDA_DST, &neighbour->hop);
	error = ask(&question, RTM_NEWNEIGH, &answer);
	if (error == -ENOENT || error == -ENODEV)
		return NEIGHBOUR_UNKNOWN;
	/* It cannot be told. */
	if (error)
		return NEIGHBOUR_KNOWN;
	state = ((const struct ndmsg *)NLMSG_DATA(&answer.header))->ndm_state;
	if (state & STATES_KNOWN)
		return NEIGHBOUR_KNOWN;
	return state & NUD_INCOMPLETE ? NEIGHBOUR_SOUGHT : NEIGHBOUR_UNKNOWN;
}

enum neighbour_state neighbour_look(struct neighbour *neighbour)
{
	enum neighbour_state state = find_hop(neighbour);

	return state == NEIGHBOUR_SOUGHT ? state_of_hop(neighbour) : state;
}

static void live_to_next_hop(int fd, const struct link_address *destination)
{
	const int hops = 1;

	if (link_address_is_ipv4(destination))
		(void)setsockopt(fd, IPPROTO_IP, IP_TTL, &hops, sizeof(hops));
	else
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &hops, sizeof(hops));
}

void neighbour_seek(const struct neighbour *neighbour)
{
	struct sockaddr_storage storage;
	socklen_t length = link_socket_address(&neighbour->source, 0, &storage);
	int fd = descriptor_socket(family_of(&neighbour->destination),
				   SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	live_to_next_hop(fd, &neighbour->destination);
	/* By the way that was asked for; where that fails the next look tells. */
	if (is_zero(&neighbour->source) || bind(fd, (struct sockaddr *)&storage, length) == 0) {
		length = link_socket_address(&neighbour->destination, DISCARD_PORT, &storage);
		(void)sendto(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&storage,
			     length);
	}
	close(fd);
}
