/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp_connects: what it takes to connect many times at once, over TCP
 *
 * Usage: tcp_connects -p PORT [-n CONNECTIONS] [SERVER]
 *
 * The client asks for all connections before it looks at the first answer, as cmtime does, and is
 * done when it has been told of all; the server accepts them meanwhile. The client prints the time
 * of one in microseconds. It is the peer of cmtime's step "connect".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sample.h"
#include "tools/fail.h"

#define CONNECTIONS_MAX 30000
#define SECONDS_MAX 300
#define EVENTS_AT_ONCE 64

static int sockets[CONNECTIONS_MAX];

static void allow_descriptors(size_t count)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		fail_errno("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		fail_errno("setrlimit");
	if (limit.rlim_cur < count + 16)
		give_up("this user may have %llu descriptors", (unsigned long long)limit.rlim_cur);
}

static void be_server(uint16_t port, size_t count)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(listener, (int)count) != 0)
		fail_errno("listening");
	for (size_t i = 0; i < count; i++) {
		sockets[i] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (sockets[i] < 0)
			fail_errno("accept");
	}
	/* The client closes first, so that the waiting at the end is its own. */
	for (size_t i = 0; i < count; i++) {
		char byte;

		if (recv(sockets[i], &byte, 1, 0) < 0)
			fail_errno("recv");
		close(sockets[i]);
	}
	close(listener);
}

static void begin(int epoll, size_t index, const struct sockaddr_in *address)
{
	struct epoll_event event = {.events = EPOLLOUT, .data.fd = sockets[index]};

	if (connect(sockets[index], (const struct sockaddr *)address, sizeof(*address)) != 0 &&
	    errno != EINPROGRESS)
		fail_errno("connect");
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, sockets[index], &event) != 0)
		fail_errno("epoll_ctl");
}

static void finish(int epoll, int fd)
{
	socklen_t length = sizeof(int);
	int error;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
		fail_errno("getsockopt");
	need_zero(error, "connect");
	if (epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL) != 0)
		fail_errno("epoll_ctl");
}

static void be_client(const char *server, uint16_t port, size_t count)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event events[EVENTS_AT_ONCE];
	uint64_t began;

	if (epoll < 0)
		fail_errno("epoll_create1");
	if (inet_pton(AF_INET, server, &address.sin_addr) != 1)
		give_up("\"%s\" is no address", server);
	for (size_t i = 0; i < count; i++) {
		sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (sockets[i] < 0)
			fail_errno("socket");
	}
	began = sample_now_ns();
	for (size_t i = 0; i < count; i++)
		begin(epoll, i, &address);
	for (size_t done = 0; done < count;) {
		int ready = epoll_wait(epoll, events, EVENTS_AT_ONCE, -1);

		if (ready < 0 && errno != EINTR)
			fail_errno("epoll_wait");
		for (int i = 0; i < ready; i++)
			finish(epoll, events[i].data.fd);
		done += ready > 0 ? (size_t)ready : 0;
	}
	printf("connect: %.3f us\n", (double)(sample_now_ns() - began) / 1000 / (double)count);
	for (size_t i = 0; i < count; i++)
		close(sockets[i]);
	close(epoll);
}

int main(int argc, char **argv)
{
	size_t count = 1000, port = 0;
	int option;

	while ((option = getopt(argc, argv, "p:n:")) != -1) {
		if (option == 'p')
			port = sample_count_argument(optarg, UINT16_MAX);
		else if (option == 'n')
			count = sample_count_argument(optarg, CONNECTIONS_MAX);
		else
			return 2;
	}
	if (!port)
		give_up("usage: tcp_connects -p PORT [-n CONNECTIONS] [SERVER]");
	fail_after(SECONDS_MAX);
	allow_descriptors(count);
	if (argv[optind])
		be_client(argv[optind], (uint16_t)port, count);
	else
		be_server((uint16_t)port, count);
	return 0;
}
