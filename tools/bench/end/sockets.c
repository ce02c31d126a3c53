/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/end/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool sockets_may_retry(void)
{
	return errno == EAGAIN || errno == EINTR;
}

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
		end_fail("\"%s\" is no address", text);
	return address;
}

/* Bound to our address; the port is the kernel's choice and is returned. */
static uint16_t bind_somewhere(int fd, const char *own)
{
	struct sockaddr_in address = address_of(own, 0);
	socklen_t length = sizeof(address);

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		end_fail_errno("bind");
	if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
		end_fail_errno("getsockname");
	return ntohs(address.sin_port);
}

static void connect_to(int fd, const char *peer, uint16_t port)
{
	struct sockaddr_in address = address_of(peer, port);

	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		end_fail_errno("connect");
}

/* The passive end listens, the active one connects. */
static int meet_by_tcp(struct end *end, int fd)
{
	uint16_t port = bind_somewhere(fd, end->address), theirs;
	int on = 1, connection = fd;

	if (!end->is_active && listen(fd, 1) != 0)
		end_fail_errno("listen");
	end_exchange(end, &port, &theirs, sizeof(port));
	if (end->is_active) {
		connect_to(fd, end->peer_address, theirs);
	} else {
		connection = accept(fd, NULL, NULL);
		if (connection < 0)
			end_fail_errno("accept");
		close(fd);
	}
	if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
		end_fail_errno("setsockopt(TCP_NODELAY)");
	return connection;
}

static int meet_by_udp(struct end *end, int fd)
{
	uint16_t port = bind_somewhere(fd, end->address), theirs;

	end_exchange(end, &port, &theirs, sizeof(port));
	connect_to(fd, end->peer_address, theirs);
	return fd;
}

struct sockets *sockets_open(struct end *end, int type, bool polls)
{
	struct sockets *sockets = end_need(calloc(1, sizeof(*sockets)), "calloc");
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		end_fail_errno("socket");
	sockets->polls = polls;
	sockets->bytes = end_need(malloc(ORDER_SIZE_MAX), "malloc");
	memset(sockets->bytes, 1, ORDER_SIZE_MAX);
	sockets->fd = type == SOCK_STREAM ? meet_by_tcp(end, fd) : meet_by_udp(end, fd);
	return sockets;
}
