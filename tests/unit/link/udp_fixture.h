/* SPDX-License-Identifier: BSD-2-Clause */
/* Two ends of UDP links, a batch to fill and a keeper of what arrives. */
#ifndef VBN_TESTS_LINK_UDP_FIXTURE_H
#define VBN_TESTS_LINK_UDP_FIXTURE_H

#include "unit/link/link_fixture.h"

#include <sys/socket.h>
#include <unistd.h>

#include "link/udp/udp.h"

static struct keeper keeper;
static struct send_batch batch;

struct ends {
	struct link *a, *b;
	struct link_path path;
	struct link_route route;
};

static inline bool has_ipv6(void)
{
	static const struct sockaddr_in6 loopback = {.sin6_family = AF_INET6,
						     .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&loopback, sizeof(loopback)) == 0;

	close(fd);
	return has;
}

/* Two links, or one that sends to itself where both addresses are the same. */
static inline struct ends open_ends_with(const char *a, const char *b,
					 const struct link_udp_options *options)
{
	struct ends ends = {.path = {.source = address_of(a),
				     .destination = address_of(b),
				     .entropy = 0x12345}};

	assert_int_equal(link_udp_open(&ends.path.source, options, &ends.a), 0);
	ends.b = ends.a;
	if (!link_address_is_equal(&ends.path.source, &ends.path.destination))
		assert_int_equal(link_udp_open(&ends.path.destination, options, &ends.b), 0);
	assert_int_equal(ends.a->ops->open_route(ends.a, &ends.path, &ends.route), 0);
	keeper_reset(&keeper);
	batch.message_count = batch.bytes_used = 0;
	return ends;
}

static inline struct ends open_ends(const char *a, const char *b)
{
	static const struct link_udp_options options;

	return open_ends_with(a, b, &options);
}

/* A plain socket at port 4791 of @address, which waits two seconds: strangers' eyes. */
static inline int plain_reader(const struct link_address *address)
{
	bool is_ipv4 = link_address_is_ipv4(address);
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT)};
	const struct timeval patience = {.tv_sec = 2};
	int fd = socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0), on = 1;

	memcpy(&in.sin_addr, address->gid + 12, 4);
	memcpy(&in6.sin6_addr, address->gid, 16);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (is_ipv4) {
		setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on));
		assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	} else {
		setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on));
		assert_int_equal(bind(fd, (struct sockaddr *)&in6, sizeof(in6)), 0);
	}
	return fd;
}

static inline void close_ends(struct ends *ends)
{
	ends->a->ops->close(ends->a);
	if (ends->b != ends->a)
		ends->b->ops->close(ends->b);
}

static inline void send_batch(struct ends *ends)
{
	ends->a->ops->send(ends->a, &ends->route, &batch, time_now());
	batch.message_count = batch.bytes_used = 0;
}

#endif
