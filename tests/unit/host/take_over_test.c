/* SPDX-License-Identifier: BSD-2-Clause */
/* All members are stopped, or dead with a child left behind: a newcomer comes in all the same. */
#include "unit/host/members.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* Whether descriptors may be taken out of a child, as a newcomer would. */
static bool may_take(void)
{
	struct child_member child = child_join(NULL);
	int process = (int)syscall(SYS_pidfd_open, child.pid, 0);
	int fd = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, 2, 0);

	if (process >= 0)
		close(process);
	if (fd >= 0)
		close(fd);
	child_kill(&child);
	return fd >= 0;
}

static void stop(const struct child_member *child)
{
	int status;

	kill(child->pid, SIGSTOP);
	assert_int_equal(waitpid(child->pid, &status, WUNTRACED), child->pid);
	assert_true(WIFSTOPPED(status));
}

static void a_newcomer_takes_from_those_who_are_stopped(void **state)
{
	struct link_address address = members_address("127.24.9.1");
	struct child_member children[3];
	struct member member;
	size_t descriptors = count_descriptors();

	(void)state;
	for (int i = 0; i < 3; i++)
		children[i] = child_join(&address);
	for (int i = 0; i < 3; i++)
		stop(&children[i]);
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(count_members(member.host), 4);
	assert_int_equal(member_open(&member, &address), 0);
	assert_true(is_reached(&member, &address));
	for (int i = 0; i < 3; i++)
		kill(children[i].pid, SIGCONT);
	/* They are as they were. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(child_leave(&children[i]), 0);
	assert_int_equal(count_members(member.host), 1);
	assert_true(is_reached(&member, &address));
	member_leave(&member);
	assert_int_equal(count_descriptors(), descriptors);
}

static void taking_works_without_asking(void **state)
{
	const struct host_options options = {.asks_nobody = true};
	struct link_address address = members_address("127.24.9.2");
	struct child_member child = child_join(&address);
	struct member member;
	vbn_time began = clock_now();

	(void)state;
	assert_int_equal(member_join_with(&member, &options), 0);
	assert_int_equal(member_open(&member, &address), 0);
	assert_true(clock_now() - began < VBN_SECOND);
	assert_int_equal(count_members(member.host), 2);
	assert_true(is_reached(&member, &address));
	assert_int_equal(child_leave(&child), 0);
	member_leave(&member);
}

/* In a child: joins, opens, makes a copy of itself behind the C library's back, and dies. */
static void leave_a_copy(const struct link_address *address, int told)
{
	struct descriptor receiver;
	struct host *host;
	const char *why;
	pid_t copy;

	if (host_join(&(struct host_options){0}, &host, &why) != 0 ||
	    host_open_address(host, address, &receiver, &why) != 0)
		_exit(1);
	copy = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (copy == 0) {
		for (;;)
			pause();
	}
	if (write(told, &copy, sizeof(copy)) != sizeof(copy))
		_exit(1);
	kill(getpid(), SIGKILL);
}

static void a_copy_of_the_dead_is_found(void **state)
{
	struct link_address address = members_address("127.24.9.3");
	struct member member;
	pid_t pid, copy = 0;
	int told[2], status = -1;

	(void)state;
	assert_int_equal(pipe(told), 0);
	pid = fork();
	if (pid == 0)
		leave_a_copy(&address, told[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(read(told[0], &copy, sizeof(copy)), sizeof(copy));
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(count_members(member.host), 2);
	assert_int_equal(member_open(&member, &address), 0);
	assert_true(is_reached(&member, &address));
	kill(copy, SIGKILL);
	/* Its descriptors are closed once its name is free. */
	for (int i = 0; i < 2000 && count_members(member.host) > 1; i++) {
		host_pause(VBN_MILLISECOND);
		host_bury_all(member.host);
	}
	assert_int_equal(count_members(member.host), 1);
	assert_true(is_reached(&member, &address));
	member_leave(&member);
	close(told[0]);
	close(told[1]);
}

/* In a child: a stopped member in another network namespace, in the slot @slot. */
static void live_elsewhere(uint32_t slot, int told)
{
	struct host *host = NULL;
	const char *why;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!members_isolate())
		_exit(1);
	do {
		if (host)
			host_leave(host);
		if (host_join(&(struct host_options){0}, &host, &why) != 0)
			_exit(1);
	} while (host_slot(host) != slot);
	if (write(told, "x", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* The same slot in another namespace is somebody else, though the user is the same. */
static void members_of_other_networks_are_no_help(void **state)
{
	const uint32_t slot = 5;
	struct host_asked asked = {0};
	int told[2], fd;
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(told), 0);
	pid = fork();
	if (pid == 0)
		live_elsewhere(slot, told[1]);
	close(told[1]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	host_slot_set_add(&asked.ours, slot);
	/* Neither when all processes are searched, nor when that one is. */
	for (int i = 0; i < 2; i++) {
		asked.pids[slot] = i ? pid : 0;
		fd = host_take_registry(geteuid(), &asked);
		assert_true(fd < 0);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(told[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_newcomer_takes_from_those_who_are_stopped),
		cmocka_unit_test(taking_works_without_asking),
		cmocka_unit_test(a_copy_of_the_dead_is_found),
		cmocka_unit_test(members_of_other_networks_are_no_help),
	};

	members_isolate_or_skip();
	if (!may_take()) {
		fprintf(stderr, "skipped: this system does not let a process take descriptors\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
