/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets on top of ours: who waits for data, for the end, or for a while, is told.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/rsocket.h>

#include "unit/rdmacm/fixture.h"

#define ROUNDS 100
#define SHORT_MS 30
#define SHORT_ROUNDS 5
#define MANY 40
#define KILLED "killed"
#define NO_DEVICE "no-device"
#define NOBODYS_ADDRESS "198.51.100.79"

struct ends {
	int listener, server, client;
};

static void *accept_one(void *argument)
{
	struct ends *ends = argument;

	ends->server = raccept(ends->listener, NULL, NULL);
	return NULL;
}

/* At a port of its own choice. */
static int listen_somewhere(struct sockaddr_in *address)
{
	int socket = rsocket(AF_INET, SOCK_STREAM, 0);
	socklen_t length = sizeof(*address);

	if (socket < 0 && errno == ENOSYS)
		skip();
	assert_true(socket >= 0);
	*address = own_address(0);
	assert_int_equal(rbind(socket, (struct sockaddr *)address, sizeof(*address)), 0);
	assert_int_equal(rlisten(socket, 4), 0);
	assert_int_equal(rgetsockname(socket, (struct sockaddr *)address, &length), 0);
	return socket;
}

static void connect_ends(struct ends *ends)
{
	struct sockaddr_in address;
	pthread_t thread;

	ends->listener = listen_somewhere(&address);
	assert_int_equal(pthread_create(&thread, NULL, accept_one, ends), 0);
	ends->client = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rconnect(ends->client, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(ends->server >= 0);
}

static void close_ends(const struct ends *ends)
{
	assert_int_equal(rclose(ends->client), 0);
	assert_int_equal(rclose(ends->server), 0);
	assert_int_equal(rclose(ends->listener), 0);
}

/* Ways of waiting: whether @socket can be read within @milliseconds. */
static int wait_by_select(int socket, int milliseconds)
{
	struct timeval patience = {.tv_sec = milliseconds / 1000,
				   .tv_usec = milliseconds % 1000 * 1000};
	fd_set readable;

	FD_ZERO(&readable);
	FD_SET(socket, &readable);
	return rselect(socket + 1, &readable, NULL, NULL, &patience);
}

static int wait_by_poll(int socket, int milliseconds)
{
	struct pollfd entry = {.fd = socket, .events = POLLIN};

	return rpoll(&entry, 1, milliseconds);
}

/* One among many, the others of which are none. */
static int wait_by_large_poll(int socket, int milliseconds)
{
	struct pollfd entries[MANY];

	for (int i = 0; i < MANY; i++)
		entries[i] = (struct pollfd){.fd = i ? -1 : socket, .events = POLLIN};
	return rpoll(entries, MANY, milliseconds);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void waits_end_with_data(int (*wait)(int socket, int milliseconds))
{
	struct ends ends;
	char byte = 'a';

	connect_ends(&ends);
	for (int round = 0; round < ROUNDS; round++) {
		int from = round % 2 ? ends.client : ends.server;
		int to = round % 2 ? ends.server : ends.client;

		assert_int_equal(rsend(from, &byte, 1, 0), 1);
		assert_int_equal(wait(to, PATIENCE_MS), 1);
		assert_int_equal(rrecv(to, &byte, 1, 0), 1);
		assert_int_equal(byte, 'a');
		assert_int_equal(wait(to, 0), 0);
	}
	close_ends(&ends);
}

static void selecting_ends_with_data(void **state)
{
	(void)state;
	waits_end_with_data(wait_by_select);
}

static void polling_ends_with_data(void **state)
{
	(void)state;
	waits_end_with_data(wait_by_poll);
}

/* A wait that ran out does not disturb the next one, which may run out too, or end with data. */
static void waits_run_out(int (*wait)(int socket, int milliseconds))
{
	struct ends ends;
	char byte = 'a';

	connect_ends(&ends);
	for (int round = 0; round < SHORT_ROUNDS; round++) {
		uint64_t begun = now_ms();

		assert_int_equal(wait(ends.server, SHORT_MS), 0);
		/* The clock may be read a part of a millisecond late at the beginning. */
		assert_in_range(now_ms() - begun, SHORT_MS - 1, PATIENCE_MS);
		assert_int_equal(rsend(ends.client, &byte, 1, 0), 1);
		assert_int_equal(wait(ends.server, PATIENCE_MS), 1);
		assert_int_equal(rrecv(ends.server, &byte, 1, 0), 1);
	}
	close_ends(&ends);
}

static void selecting_runs_out(void **state)
{
	(void)state;
	waits_run_out(wait_by_select);
}

static void polling_runs_out(void **state)
{
	(void)state;
	waits_run_out(wait_by_poll);
	waits_run_out(wait_by_large_poll);
}

/* Who waits for data hears that the other end is closed. */
static void closing_is_heard(void **state)
{
	struct ends ends;
	char byte;

	(void)state;
	connect_ends(&ends);
	assert_int_equal(rshutdown(ends.client, SHUT_RDWR), 0);
	assert_int_equal(wait_by_select(ends.server, PATIENCE_MS), 1);
	assert_int_equal(rrecv(ends.server, &byte, 1, 0), 0);
	close_ends(&ends);
}

static int be_killed(const char *port)
{
	struct sockaddr_in address = own_address((uint16_t)strtol(port, NULL, 10));
	int socket = rsocket(AF_INET, SOCK_STREAM, 0);
	char byte;

	if (rconnect(socket, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	    rrecv(socket, &byte, 1, 0) == 1)
		raise(SIGKILL);
	return 1;
}

/* With an address that no interface has there is no device. */
static int find_no_device(void)
{
	static const int types[] = {SOCK_DGRAM, SOCK_STREAM};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		errno = 0;
		if (rsocket(AF_INET, types[i], 0) != -1 || (errno != ENODEV && errno != ENOSYS))
			return 1;
	}
	return 0;
}

static pid_t start_child(const char *role, const char *argument)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child)
		return child;
	execl("/proc/self/exe", "rsocket_test", role, argument, (char *)NULL);
	_exit(127);
}

static void without_a_device_there_are_no_sockets(void **state)
{
	char own[64];
	pid_t child;
	int status;

	(void)state;
	snprintf(own, sizeof(own), "%s", getenv("VERBENA_ADDRESS"));
	setenv("VERBENA_ADDRESS", NOBODYS_ADDRESS, 1);
	setenv("VERBENA_LOG", "none", 1);
	child = start_child(NO_DEVICE, "");
	setenv("VERBENA_ADDRESS", own, 1);
	setenv("VERBENA_LOG", "error", 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Whoever waits for a killed peer hears of it, and closing does not wait for its answers. */
static void killed_peer_is_left(void **state)
{
	struct sockaddr_in address;
	struct ends ends;
	uint64_t begun;
	char byte = 'a', port[16];
	pid_t child;
	int status;

	(void)state;
	ends.listener = listen_somewhere(&address);
	snprintf(port, sizeof(port), "%u", ntohs(address.sin_port));
	child = start_child(KILLED, port);
	ends.server = raccept(ends.listener, NULL, NULL);
	assert_true(ends.server >= 0);
	assert_int_equal(rsend(ends.server, &byte, 1, 0), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	begun = now_ms();
	assert_int_equal(wait_by_select(ends.server, PATIENCE_MS), 1);
	assert_true(rrecv(ends.server, &byte, 1, 0) <= 0);
	assert_int_equal(rclose(ends.server), 0);
	assert_in_range(now_ms() - begun, 0, PATIENCE_MS);
	assert_int_equal(rclose(ends.listener), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selecting_ends_with_data),
		cmocka_unit_test(polling_ends_with_data),
		cmocka_unit_test(selecting_runs_out),
		cmocka_unit_test(polling_runs_out),
		cmocka_unit_test(closing_is_heard),
		cmocka_unit_test(killed_peer_is_left),
		cmocka_unit_test(without_a_device_there_are_no_sockets),
	};

	if (argc == 3 && strcmp(argv[1], KILLED) == 0)
		return be_killed(argv[2]);
	if (argc == 3 && strcmp(argv[1], NO_DEVICE) == 0)
		return find_no_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
