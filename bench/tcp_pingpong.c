/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp_pingpong: what a program pays that sleeps until its peer answers, over TCP
 *
 * Usage: tcp_pingpong -p PORT [-s BYTES] [-n ROUNDS] [SERVER]
 *
 * Both ends sleep in epoll_wait() and send with TCP_NODELAY. The client prints the median
 * time of one way in microseconds. It is the peer of perftest's programs with -e, which
 * sleep for a completion event.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sample.h"
#include "tools/fail.h"
#include "tools/peer_socket.h"

#define BYTES_MAX 65536
#define ROUNDS_MAX 10000000
#define SECONDS_MAX 300

struct end {
	int socket;
	int epoll;
	size_t size;
	char bytes[BYTES_MAX];
};

static void prepare(struct end *end)
{
	struct epoll_event readable = {.events = EPOLLIN};
	int on = 1;

	if (setsockopt(end->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
		fail_errno("setsockopt TCP_NODELAY");
	if (fcntl(end->socket, F_SETFL, O_NONBLOCK) != 0)
		fail_errno("fcntl");
	end->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (end->epoll < 0 || epoll_ctl(end->epoll, EPOLL_CTL_ADD, end->socket, &readable) != 0)
		fail_errno("epoll");
}

static void send_message(struct end *end)
{
	/* Never more than one message is under way, and the buffer holds that. */
	if (send(end->socket, end->bytes, end->size, MSG_NOSIGNAL) != (ssize_t)end->size)
		fail_errno("send");
}

static void await_message(struct end *end)
{
	for (size_t done = 0; done < end->size;) {
		struct epoll_event event;
		ssize_t count;

		if (epoll_wait(end->epoll, &event, 1, -1) < 0 && errno != EINTR)
			fail_errno("epoll_wait");
		count = recv(end->socket, end->bytes + done, end->size - done, 0);
		if (count == 0)
			give_up("the peer went away");
		if (count < 0 && errno != EAGAIN && errno != EINTR)
			fail_errno("recv");
		if (count > 0)
			done += (size_t)count;
	}
}

static void be_client(struct end *end, size_t rounds)
{
	uint64_t *trips = calloc(rounds, sizeof(*trips));

	need_object(trips, "calloc");
	for (size_t i = 0; i < rounds; i++) {
		uint64_t started = sample_now_ns();

		send_message(end);
		await_message(end);
		trips[i] = sample_now_ns() - started;
	}
	printf("median one way: %.3f us\n", (double)sample_median(trips, rounds) / 2000);
	free(trips);
}

static void be_server(struct end *end, size_t rounds)
{
	for (size_t i = 0; i < rounds; i++) {
		await_message(end);
		send_message(end);
	}
}

int main(int argc, char **argv)
{
	static struct end end = {.size = 16};
	const char *port = NULL, *server;
	size_t rounds = 10000;
	int option;

	while ((option = getopt(argc, argv, "p:s:n:")) != -1) {
		if (option == 'p')
			port = optarg;
		else if (option == 's')
			end.size = sample_count_argument(optarg, BYTES_MAX);
		else if (option == 'n')
			rounds = sample_count_argument(optarg, ROUNDS_MAX);
		else
			return 2;
	}
	if (!port)
		give_up("usage: tcp_pingpong -p PORT [-s BYTES] [-n ROUNDS] [SERVER]");
	fail_after(SECONDS_MAX);
	server = argv[optind];
	end.socket = server ? peer_socket_connect(server, port) : peer_socket_wait(port);
	prepare(&end);
	if (server)
		be_client(&end, rounds);
	else
		be_server(&end, rounds);
	close(end.epoll);
	close(end.socket);
	return 0;
}
