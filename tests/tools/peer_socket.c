/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/peer_socket.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/fail.h"

/* Both families where the machine has both. */
static int open_listener(uint16_t port)
{
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, off = 0;

	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
		if (bind(fd, (struct sockaddr *)&any6, sizeof(any6)) == 0)
			return fd;
		close(fd);
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fail_errno("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&any4, sizeof(any4)) != 0)
		fail_errno("bind");
	return fd;
}

int peer_socket_wait(const char *port)
{
	int listener = open_listener((uint16_t)strtoul(port, NULL, 10)), fd;

	if (listen(listener, 1) != 0)
		fail_errno("listen");
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		fail_errno("accept");
	close(listener);
	return fd;
}

int peer_socket_connect(const char *address, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
	int error = getaddrinfo(address, port, &hints, &found), fd;

	if (error)
		give_up("%s: %s", address, gai_strerror(error));
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fail_errno("socket");
	if (connect(fd, found->ai_addr, found->ai_addrlen) != 0)
		fail_errno("connect");
	freeaddrinfo(found);
	return fd;
}

void peer_socket_exchange(int fd, const void *own, void *theirs, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t count = send(fd, (const char *)own + done, length - done, MSG_NOSIGNAL);

		if (count < 0 && errno != EINTR)
			fail_errno("send to the peer");
		if (count > 0)
			done += (size_t)count;
	}
	for (size_t done = 0; done < length;) {
		ssize_t count = recv(fd, (char *)theirs + done, length - done, 0);

		if (count == 0)
			give_up("the peer went away");
		if (count < 0 && errno != EINTR)
			fail_errno("recv from the peer");
		if (count > 0)
			done += (size_t)count;
	}
}

void peer_socket_meet(int fd)
{
	char own = 'm', theirs;

	peer_socket_exchange(fd, &own, &theirs, 1);
}
