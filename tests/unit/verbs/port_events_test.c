/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of a device whose interface goes down, comes up, gets and loses addresses:
 * the loopback interface of a network namespace of the test's own.
 */
#include <errno.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

#define SKIP 77

/* --- the interface --- */

static void control(unsigned long what, struct ifreq *request)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, what, request), 0);
	close(fd);
}

static struct ifreq named(const char *name)
{
	struct ifreq request = {0};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	return request;
}

static void set_up_or_down(const char *name, bool is_up)
{
	struct ifreq request = named(name);

	control(SIOCGIFFLAGS, &request);
	request.ifr_flags =
		(short)(is_up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
	control(SIOCSIFFLAGS, &request);
}

/* Under a label of its own it stands beside the others, and goes when the label is set down. */
static void set_address(const char *name, const char *address)
{
	struct ifreq request = named(name);
	struct sockaddr_in *in = (struct sockaddr_in *)&request.ifr_addr;

	in->sin_family = AF_INET;
	assert_int_equal(inet_pton(AF_INET, address, &in->sin_addr), 1);
	control(SIOCSIFADDR, &request);
}

/* --- what the device says --- */

static enum ibv_port_state state_of(struct ibv_context *context)
{
	struct ibv_port_attr attr;

	assert_int_equal(ibv_query_port(context, 1, &attr), 0);
	return attr.state;
}

/* Index of the GID of an IPv4 address, or -1. */
static int index_of(struct ibv_context *context, const char *address)
{
	union ibv_gid wanted = {.raw = {[10] = 0xff, [11] = 0xff}}, gid;

	assert_int_equal(inet_pton(AF_INET, address, wanted.raw + 12), 1);
	for (int i = 0; i < 16; i++) {
		assert_int_equal(ibv_query_gid(context, 1, i, &gid), 0);
		if (memcmp(&gid, &wanted, sizeof(gid)) == 0)
			return i;
	}
	return -1;
}

static void expect(struct ibv_context *context, enum ibv_event_type type)
{
	struct ibv_async_event event = next_event(context);

	assert_string_equal(ibv_event_type_str(event.event_type), ibv_event_type_str(type));
	assert_int_equal(event.element.port_num, 1);
	ibv_ack_async_event(&event);
}

static bool has_event(struct ibv_context *context)
{
	struct pollfd ready = {.fd = context->async_fd, .events = POLLIN};

	return poll(&ready, 1, 0) == 1;
}

/* A program that asks for an event while there is none. */
static struct ibv_context *open_watched(void)
{
	struct ibv_context *context = open_first();
	int flags = fcntl(context->async_fd, F_GETFL);
	struct ibv_async_event event;

	assert_int_equal(fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
	errno = 0;
	assert_int_equal(ibv_get_async_event(context, &event), -1);
	assert_int_equal(errno, EAGAIN);
	return context;
}

/* --- tests --- */

static void the_state_is_right_where_nobody_watches(void **state)
{
	struct ibv_context *context = open_first();

	(void)state;
	assert_int_equal(state_of(context), IBV_PORT_ACTIVE);
	set_up_or_down("lo", false);
	assert_int_equal(state_of(context), IBV_PORT_DOWN);
	set_up_or_down("lo", true);
	assert_int_equal(state_of(context), IBV_PORT_ACTIVE);
	expect(context, IBV_EVENT_PORT_ERR);
	expect(context, IBV_EVENT_PORT_ACTIVE);
	assert_false(has_event(context));
	assert_int_equal(ibv_close_device(context), 0);
}

static void down_and_up(void **state)
{
	struct ibv_context *context = open_watched(), *other = open_first();

	(void)state;
	for (int round = 0; round < 20; round++) {
		set_up_or_down("lo", false);
		expect(context, IBV_EVENT_PORT_ERR);
		assert_int_equal(state_of(context), IBV_PORT_DOWN);
		set_up_or_down("lo", true);
		expect(context, IBV_EVENT_PORT_ACTIVE);
		assert_int_equal(state_of(context), IBV_PORT_ACTIVE);
	}
	/* The other one heard of it as well. */
	expect(other, IBV_EVENT_PORT_ERR);
	assert_int_equal(ibv_close_device(other), 0);
	set_up_or_down("lo", false);
	expect(context, IBV_EVENT_PORT_ERR);
	set_up_or_down("lo", true);
	expect(context, IBV_EVENT_PORT_ACTIVE);
	assert_false(has_event(context));
	assert_int_equal(ibv_close_device(context), 0);
}

static void addresses_come_and_go(void **state)
{
	struct ibv_context *context = open_watched();
	int first, second;

	(void)state;
	assert_int_equal(index_of(context, "127.0.0.1"), 0);
	set_address("lo:1", "10.84.0.1");
	expect(context, IBV_EVENT_GID_CHANGE);
	first = index_of(context, "10.84.0.1");
	assert_true(first > 0);
	set_address("lo:2", "11.84.0.2");
	expect(context, IBV_EVENT_GID_CHANGE);
	second = index_of(context, "11.84.0.2");
	assert_true(second > 0 && second != first);
	/* The others keep their places, and the free one is filled again. */
	set_up_or_down("lo:1", false);
	expect(context, IBV_EVENT_GID_CHANGE);
	assert_int_equal(index_of(context, "10.84.0.1"), -1);
	assert_int_equal(index_of(context, "127.0.0.1"), 0);
	assert_int_equal(index_of(context, "11.84.0.2"), second);
	set_address("lo:3", "12.84.0.3");
	expect(context, IBV_EVENT_GID_CHANGE);
	assert_int_equal(index_of(context, "12.84.0.3"), first);
	set_up_or_down("lo:3", false);
	expect(context, IBV_EVENT_GID_CHANGE);
	set_up_or_down("lo:2", false);
	expect(context, IBV_EVENT_GID_CHANGE);
	assert_int_equal(state_of(context), IBV_PORT_ACTIVE);
	assert_int_equal(ibv_close_device(context), 0);
}

/* A QP that leaves RESET is reason enough to watch: the program may have its own poll set. */
static void traffic_and_a_poll_set_of_the_program(void **state)
{
	struct pair *pair = pair_create(false);
	struct ibv_sge sge = sge_of(pair, 0, 0, 1000);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)pair->bytes[1], .rkey = pair->mr[1]->rkey},
	};
	struct ibv_send_wr *bad;

	(void)state;
	for (int round = 0; round < 10; round++) {
		set_address("lo:1", "10.84.0.1");
		expect(pair->context, IBV_EVENT_GID_CHANGE);
		assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
		next_success(pair->cq[0]);
		set_up_or_down("lo:1", false);
		expect(pair->context, IBV_EVENT_GID_CHANGE);
	}
	pair_destroy(pair);
}

/* Then nobody tells it of changes, but it is not told what is not so. */
static void a_program_that_closes_what_it_does_not_know(void **state)
{
	struct ibv_context *context;

	(void)state;
#ifdef __SANITIZE_THREAD__
	/* Such a program is a race by nature: the helper looks whether a descriptor is still its own. */
	skip();
#endif
	context = open_watched();
	for (int fd = 3; fd < 8192; fd++)
		if (fd != context->async_fd)
			close(fd);
	set_up_or_down("lo", false);
	assert_int_equal(state_of(context), IBV_PORT_DOWN);
	set_up_or_down("lo", true);
	assert_int_equal(state_of(context), IBV_PORT_ACTIVE);
	assert_int_equal(ibv_close_device(context), 0);
}

static void *wait_for_event(void *argument)
{
	struct ibv_async_event event;

	assert_int_equal(ibv_get_async_event(argument, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
	ibv_ack_async_event(&event);
	return NULL;
}

static void a_thread_that_blocks_is_told(void **state)
{
	struct ibv_context *context = open_first();
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, wait_for_event, context), 0);
	set_address("lo:1", "10.84.0.1");
	assert_int_equal(pthread_join(thread, NULL), 0);
	set_up_or_down("lo:1", false);
	assert_int_equal(ibv_close_device(context), 0);
}

/* Under the InfiniBand link layer, where the LID is the host part of the first address. */
static void the_lid_follows_the_address(void **state)
{
	struct ibv_context *context = open_watched();
	struct ibv_port_attr attr;

	(void)state;
	assert_int_equal(ibv_query_port(context, 1, &attr), 0);
	assert_int_equal(attr.lid, 1);
	set_address("lo", "10.0.0.7");
	do {
		struct ibv_async_event event = next_event(context);

		/* The old address goes before the new one comes. */
		assert_true(event.event_type == IBV_EVENT_PORT_ERR ||
			    event.event_type == IBV_EVENT_PORT_ACTIVE ||
			    event.event_type == IBV_EVENT_LID_CHANGE ||
			    event.event_type == IBV_EVENT_GID_CHANGE);
		assert_int_equal(ibv_query_port(context, 1, &attr), 0);
	} while (attr.lid != 7 || attr.state != IBV_PORT_ACTIVE);
	assert_int_equal(ibv_close_device(context), 0);
}

/* --- */

static bool isolate(void)
{
	struct ifreq request = named("lo");
	bool is_alone = unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (is_alone) {
		/* Its coming and going with the interface would be events of its own. */
		FILE *file = fopen("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "w");

		is_alone = !file || fputs("1", file) >= 0;
		is_alone &= !file || fclose(file) == 0;
		request.ifr_flags = IFF_UP;
		is_alone &= ioctl(fd, SIOCSIFFLAGS, &request) == 0;
	}
	close(fd);
	return is_alone;
}

static int run_infiniband(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lid_follows_the_address),
	};

	setenv("VERBENA_LINK_LAYER", "infiniband", 1);
	return cmocka_run_group_tests_name("port_events_infiniband", tests, NULL, NULL);
}

/* In a process of its own, since settings are read once. */
static int in_child(int (*run)(void))
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(isolate() ? run() : SKIP);
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_state_is_right_where_nobody_watches),
		cmocka_unit_test(down_and_up),
		cmocka_unit_test(addresses_come_and_go),
		cmocka_unit_test(traffic_and_a_poll_set_of_the_program),
		cmocka_unit_test(a_thread_that_blocks_is_told),
		cmocka_unit_test(a_program_that_closes_what_it_does_not_know),
	};
	int failed;

	unsetenv("VERBENA_ADDRESS");
	failed = in_child(run_infiniband);
	if (failed == SKIP || !isolate()) {
		puts("skipped: this user may not make a network namespace");
		return SKIP;
	}
	return cmocka_run_group_tests_name("port_events", tests, NULL, NULL) + failed;
}
