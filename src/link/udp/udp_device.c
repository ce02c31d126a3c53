/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which device a route leaves by. The routing table is asked (rtnetlink), since
 * nothing else tells it for a socket that may not be connected; the driver's name
 * comes from the device itself (ethtool). Neither needs a privilege, and where one
 * is refused the device counts as an unknown one.
 */
#include "link/descriptor.h"
#include "link/udp/udp.h"

#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct route_request {
	struct nlmsghdr header;
	struct rtmsg route;
	uint8_t attributes[3 * RTA_SPACE(16)];
};

static void add_attribute(struct route_request *request, uint16_t type, const void *value,
			  size_t bytes)
{
	struct rtattr *attribute =
		(struct rtattr *)((uint8_t *)request + NLMSG_ALIGN(request->header.nlmsg_len));

	attribute->rta_type = type;
	attribute->rta_len = (uint16_t)RTA_LENGTH(bytes);
	memcpy(RTA_DATA(attribute), value, bytes);
	request->header.nlmsg_len += (uint32_t)RTA_SPACE(bytes);
}

static void fill_request(const struct link_path *path, struct route_request *request)
{
	bool is_ipv4 = link_address_is_ipv4(&path->destination);
	size_t skip = is_ipv4 ? 12 : 0, bytes = 16 - skip;

	*request = (struct route_request){
		.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(request->route)),
			   .nlmsg_type = RTM_GETROUTE,
			   .nlmsg_flags = NLM_F_REQUEST},
		.route = {.rtm_family = is_ipv4 ? AF_INET : AF_INET6,
			  .rtm_dst_len = (uint8_t)(bytes * 8),
			  .rtm_src_len = (uint8_t)(bytes * 8)},
	};
	add_attribute(request, RTA_DST, path->destination.gid + skip, bytes);
	add_attribute(request, RTA_SRC, path->source.gid + skip, bytes);
	if (path->destination.scope)
		add_attribute(request, RTA_OIF, &path->destination.scope,
			      sizeof(path->destination.scope));
}

/* The interface index in an answer; 0: there is none. */
static unsigned int read_answer(const uint8_t *bytes, size_t length)
{
	const struct nlmsghdr *header = (const struct nlmsghdr *)bytes;
	unsigned int device = 0;

	if (!NLMSG_OK(header, length) || header->nlmsg_type != RTM_NEWROUTE ||
	    header->nlmsg_len < NLMSG_LENGTH(sizeof(struct rtmsg)))
		return 0;
	size_t left = RTM_PAYLOAD(header);

	for (const struct rtattr *attribute = RTM_RTA(NLMSG_DATA(header)); RTA_OK(attribute, left);
	     attribute = RTA_NEXT(attribute, left))
		if (attribute->rta_type == RTA_OIF && RTA_PAYLOAD(attribute) >= sizeof(device))
			memcpy(&device, RTA_DATA(attribute), sizeof(device));
	return device;
}

static unsigned int find_device(const struct link_path *path)
{
	_Alignas(NLMSG_ALIGNTO) uint8_t answer[1024];
	struct route_request request;
	int fd = descriptor_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t length = -1;

	if (fd < 0)
		return 0;
	fill_request(path, &request);
	/* The kernel answers inside the call that asks, so there is nothing to wait for. */
	if (send(fd, &request, request.header.nlmsg_len, 0) >= 0)
		length = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
	close(fd);
	return length < 0 ? 0 : read_answer(answer, (size_t)length);
}

static bool is_loopback(int fd, struct ifreq *request)
{
	return ioctl(fd, SIOCGIFFLAGS, request) == 0 && (request->ifr_flags & IFF_LOOPBACK);
}

static bool is_veth(int fd, struct ifreq *request)
{
	struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};

	request->ifr_data = (void *)&driver;
	return ioctl(fd, SIOCETHTOOL, request) == 0 &&
	       strncmp(driver.driver, "veth", sizeof(driver.driver)) == 0;
}

bool udp_device_is_virtual(const struct link_path *path)
{
	unsigned int device = find_device(path);
	struct ifreq request = {{{0}}, {{0}}};
	bool is_virtual;
	int fd;

	if (!device || !if_indextoname(device, request.ifr_name))
		return false;
	fd = descriptor_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	is_virtual = is_loopback(fd, &request) || is_veth(fd, &request);
	close(fd);
	return is_virtual;
}
