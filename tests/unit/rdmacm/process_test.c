/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes of one host: a child that connects, and what its parent hears when the child
 * ends in one way or another. Children are this program anew (`process_test ROLE NUMBER`), since
 * the runtimes of sanitizers do not stand a child that forks off a program with threads.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/rdmacm/fixture.h"

enum ending { ENDING_BY_EXIT, ENDING_BY_DISCONNECT, ENDING_BY_KILL, ENDING_BEFORE_ANSWER };

static const char *const roles[] = {"exit", "disconnect", "kill", "before-answer"};

#define ROLE_COUNT (sizeof(roles) / sizeof(roles[0]))
#define LISTENER "listen"
#define FORSAKEN "forsaken"
#define REFUSED "refused"
/* Of a process that is no member of this host, and clears up nothing here. */
#define STRANGER_ADDRESS "127.0.18.109"
#define INVALID_SERVICE_ID 8
#define LISTENERS 5

/* In the child: no assertion of the framework, whose report is the parent's. */
static void demand(bool is_true)
{
	if (!is_true)
		_exit(3);
}

static struct rdma_cm_event *take(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	demand(rdma_get_cm_event(channel, &event) == 0);
	demand(event->event == type && event->status == 0);
	return event;
}

static void connect_and_end(uint16_t port, enum ending ending)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
	struct rdma_conn_param param = parameters("child", 6);
	struct sockaddr_in address = own_address(port);
	struct rdma_cm_id *id = NULL;

	demand(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	demand(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000) == 0);
	demand(rdma_ack_cm_event(take(channel, RDMA_CM_EVENT_ADDR_RESOLVED)) == 0);
	demand(rdma_resolve_route(id, 1000) == 0);
	demand(rdma_ack_cm_event(take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED)) == 0);
	demand(rdma_create_qp(id, NULL, &attr) == 0);
	demand(rdma_connect(id, &param) == 0);
	if (ending == ENDING_BEFORE_ANSWER) {
		/* Until the parent has seen the request. */
		raise(SIGSTOP);
		exit(0);
	}
	demand(rdma_ack_cm_event(take(channel, RDMA_CM_EVENT_ESTABLISHED)) == 0);
	if (ending == ENDING_BY_EXIT)
		exit(0);
	if (ending == ENDING_BY_KILL)
		raise(SIGKILL);
	demand(rdma_disconnect(id) == 0);
	demand(rdma_ack_cm_event(take(channel, RDMA_CM_EVENT_DISCONNECTED)) == 0);
	rdma_destroy_qp(id);
	demand(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
	exit(0);
}

/* The port is told through the descriptor @fd. */
static void listen_until_killed(int fd)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = own_address(0);
	struct rdma_cm_id *id = NULL;
	uint16_t port;

	demand(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	demand(rdma_bind_addr(id, (struct sockaddr *)&address) == 0 && rdma_listen(id, 4) == 0);
	port = ntohs(rdma_get_src_port(id));
	demand(write(fd, &port, sizeof(port)) == sizeof(port));
	pause();
	_exit(0);
}

static void tell(int fd, const void *bytes, size_t length)
{
	demand(write(fd, bytes, length) == (ssize_t)length);
}

static time_t seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Nothing is told of a request that was not accepted; but a QP for it is told nothing any more. */
static bool is_withdrawn(struct rdma_event_channel *channel, struct rdma_cm_id *request)
{
	time_t until = seconds() + PATIENCE_MS / 1000;

	while (seconds() < until) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
		int mask;

		if (rdma_init_qp_attr(request, &attr, &mask) != 0)
			return true;
		demand(!has_event(channel, 1));
	}
	return false;
}

/* Tells its port, that a request has come, and that it was withdrawn. */
static void listen_and_be_forsaken(int fd)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = own_address(0);
	struct rdma_cm_id *id = NULL;
	struct rdma_cm_event *event;
	uint16_t port;

	demand(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	demand(rdma_bind_addr(id, (struct sockaddr *)&address) == 0 && rdma_listen(id, 4) == 0);
	port = ntohs(rdma_get_src_port(id));
	tell(fd, &port, sizeof(port));
	event = take(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	tell(fd, "r", 1);
	tell(fd, is_withdrawn(channel, event->id) ? "w" : "-", 1);
	/* What is for others may come by us as long as nobody has buried us. */
	pause();
	_exit(0);
}

static void connect_to_nobody(uint16_t port)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
	struct rdma_conn_param param = parameters(NULL, 0);
	struct sockaddr_in address = own_address(port);
	struct rdma_cm_id *id = NULL;
	struct rdma_cm_event *event = NULL;

	demand(inet_pton(AF_INET, getenv("PEER_ADDRESS"), &address.sin_addr) == 1);
	demand(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	demand(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000) == 0);
	demand(rdma_ack_cm_event(take(channel, RDMA_CM_EVENT_ADDR_RESOLVED)) == 0);
	demand(rdma_resolve_route(id, 1000) == 0);
	demand(rdma_ack_cm_event(take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED)) == 0);
	demand(rdma_create_qp(id, NULL, &attr) == 0);
	demand(rdma_connect(id, &param) == 0);
	demand(has_event(channel, PATIENCE_MS) && rdma_get_cm_event(channel, &event) == 0);
	demand(event->event == RDMA_CM_EVENT_REJECTED && event->status == INVALID_SERVICE_ID);
	_exit(0);
}

static int be_child(const char *role, const char *number)
{
	int value = (int)strtol(number, NULL, 10);

	if (strcmp(role, LISTENER) == 0)
		listen_until_killed(value);
	if (strcmp(role, FORSAKEN) == 0)
		listen_and_be_forsaken(value);
	if (strcmp(role, REFUSED) == 0)
		connect_to_nobody((uint16_t)value);
	for (unsigned ending = 0; ending < ROLE_COUNT; ending++) {
		if (strcmp(role, roles[ending]) == 0)
			connect_and_end((uint16_t)value, (enum ending)ending);
	}
	return 2;
}

static pid_t start_child(const char *role, int number)
{
	char text[16];
	pid_t child = fork();

	assert_true(child >= 0);
	if (child)
		return child;
	snprintf(text, sizeof(text), "%d", number);
	execl("/proc/self/exe", "process_test", role, text, (char *)NULL);
	_exit(127);
}

static void await_child(pid_t child, enum ending ending)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(ending == ENDING_BY_KILL ? WIFSIGNALED(status) : WIFEXITED(status));
	if (ending != ENDING_BY_KILL)
		assert_int_equal(WEXITSTATUS(status), 0);
}

static struct rdma_cm_id *accept_child(struct rdma_event_channel *channel)
{
	struct rdma_conn_param param = parameters(NULL, 0);
	struct rdma_cm_event *event = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;

	assert_string_equal(event->param.conn.private_data, "child");
	assert_int_equal(rdma_ack_cm_event(event), 0);
	create_qp(id);
	assert_int_equal(rdma_accept(id, &param), 0);
	pass_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

static void child_connects_and_parts(enum ending ending)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *listener = create_listener(channel, RDMA_PS_TCP, 4), *id;
	uint16_t port = ntohs(rdma_get_src_port(listener));
	pid_t child = start_child(roles[ending], port);

	id = accept_child(channel);
	pass_event(channel, RDMA_CM_EVENT_DISCONNECTED);
	await_child(child, ending);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

static void child_disconnects(void **state)
{
	(void)state;
	child_connects_and_parts(ENDING_BY_DISCONNECT);
}

/* Without having destroyed anything, as most programs do. */
static void child_exits(void **state)
{
	(void)state;
	child_connects_and_parts(ENDING_BY_EXIT);
}

/* Nobody of it is left to say so; the processes of a host notice it themselves. */
static void child_is_killed(void **state)
{
	(void)state;
	child_connects_and_parts(ENDING_BY_KILL);
}

static void child_exits_before_it_is_accepted(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *listener = create_listener(channel, RDMA_PS_TCP, 4);
	uint16_t port = ntohs(rdma_get_src_port(listener));
	struct rdma_conn_param param = parameters(NULL, 0);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	pid_t child = start_child(roles[ENDING_BEFORE_ANSWER], port);
	int status;

	(void)state;
	event = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	create_qp(id);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(kill(child, SIGCONT), 0);
	await_child(child, ENDING_BY_EXIT);
	/* Whether its refusal has arrived or not, a connection does not come about. */
	if (rdma_accept(id, &param) == 0)
		rdma_ack_cm_event(expect_status(channel, RDMA_CM_EVENT_REJECTED, 6));
	else
		assert_int_equal(errno, EINVAL);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

/* The port of a listener that was killed is free at once. */
static void port_of_the_dead_is_free(void **state)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	int told[2];
	uint16_t port;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(told), 0);
	child = start_child(LISTENER, told[1]);
	assert_int_equal(read(told[0], &port, sizeof(port)), sizeof(port));
	channel = create_channel();
	listener = create_id(channel, RDMA_PS_TCP);
	struct sockaddr_in address = own_address(port);

	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&address), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
	close(told[0]);
	close(told[1]);
}

static char hear(int fd)
{
	char byte = 0;

	assert_int_equal(read(fd, &byte, 1), 1);
	return byte;
}

/*
 * Who gives up before he is answered does not know whom he asked, and says so to the address. Of
 * all who listen there it reaches the right one, in whatever slot that lives.
 */
static void giving_up_reaches_who_was_asked(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_conn_param param = parameters(NULL, 0);
	pid_t children[LISTENERS];
	int told[LISTENERS][2];
	uint16_t ports[LISTENERS];

	(void)state;
	for (int i = 0; i < LISTENERS; i++) {
		assert_int_equal(pipe(told[i]), 0);
		children[i] = start_child(FORSAKEN, told[i][1]);
		close(told[i][1]);
		assert_int_equal(read(told[i][0], &ports[i], sizeof(ports[i])), sizeof(ports[i]));
	}
	for (int i = 0; i < LISTENERS; i++) {
		struct rdma_cm_id *id = create_id(channel, RDMA_PS_TCP);
		struct sockaddr_in address = own_address(ports[i]);

		assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
		pass_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
		assert_int_equal(rdma_resolve_route(id, 1000), 0);
		pass_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
		create_qp(id);
		assert_int_equal(rdma_connect(id, &param), 0);
		assert_int_equal(hear(told[i][0]), 'r');
		rdma_destroy_qp(id);
		assert_int_equal(rdma_destroy_id(id), 0);
		assert_int_equal(hear(told[i][0]), 'w');
	}
	for (int i = 0; i < LISTENERS; i++) {
		assert_int_equal(kill(children[i], SIGKILL), 0);
		await_child(children[i], ENDING_BY_KILL);
		close(told[i][0]);
	}
	rdma_destroy_event_channel(channel);
}

/* Those who are left refuse what the killed one was asked, also by a stranger. */
static void the_dead_are_answered_for(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *listener = create_listener(channel, RDMA_PS_TCP, 1);
	char own[INET_ADDRSTRLEN];
	uint16_t port;
	int told[2];
	pid_t child;

	(void)state;
	snprintf(own, sizeof(own), "%s", getenv("VERBENA_ADDRESS"));
	assert_int_equal(pipe(told), 0);
	child = start_child(LISTENER, told[1]);
	assert_int_equal(read(told[0], &port, sizeof(port)), sizeof(port));
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	setenv("PEER_ADDRESS", own, 1);
	setenv("VERBENA_ADDRESS", STRANGER_ADDRESS, 1);
	setenv("VERBENA_SHARE", "0", 1);
	child = start_child(REFUSED, port);
	setenv("VERBENA_ADDRESS", own, 1);
	unsetenv("VERBENA_SHARE");
	await_child(child, ENDING_BY_EXIT);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
	close(told[0]);
	close(told[1]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(child_disconnects),
		cmocka_unit_test(child_exits),
		cmocka_unit_test(child_is_killed),
		cmocka_unit_test(child_exits_before_it_is_accepted),
		cmocka_unit_test(port_of_the_dead_is_free),
		cmocka_unit_test(giving_up_reaches_who_was_asked),
		cmocka_unit_test(the_dead_are_answered_for),
	};

	if (argc == 3)
		return be_child(argv[1], argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
