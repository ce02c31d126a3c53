/* SPDX-License-Identifier: BSD-2-Clause */
/* Two users, one address: the second is told who the first one is. */
#include "unit/host/members.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHER_USER 65533
#define SKIPPED 77

static void nobody_holds_an_address_at_first(void **state)
{
	struct link_address address = members_address("127.24.7.1");
	struct host_holder holder;

	(void)state;
	assert_int_equal(host_holders(&address, &holder, 1), 0);
}

static void all_holders_are_found(void **state)
{
	struct link_address address = members_address("127.24.7.2");
	struct link_address other = members_address("127.24.7.22");
	struct host_holder holders[4];
	struct child_member child;
	struct member member;
	bool has_own = false, has_child = false;

	(void)state;
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(member_open(&member, &address), 0);
	child = child_join(&address);
	assert_int_equal(host_holders(&other, holders, 4), 0);
	assert_int_equal(host_holders(&address, holders, 1), 2);
	assert_int_equal(host_holders(&address, holders, 4), 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(holders[i].uid, geteuid());
		assert_true(holders[i].is_of_our_host);
		assert_true(strlen(holders[i].command) > 0);
		has_own |= holders[i].pid == getpid();
		has_child |= holders[i].pid == child.pid;
	}
	assert_true(has_own && has_child);
	child_kill(&child);
	assert_int_equal(host_holders(&address, holders, 4), 1);
	member_leave(&member);
	assert_int_equal(host_holders(&address, holders, 4), 0);
}

/* The same link-local address on two interfaces is two addresses. */
static void the_interface_is_part_of_the_name(void **state)
{
	struct link_address first = members_address("fe80::77"), second = first;
	char texts[2][HOST_ADDRESS_TEXT_BYTES];

	(void)state;
	first.scope = 2;
	second.scope = 22;
	host_address_text(&first, texts[0]);
	host_address_text(&second, texts[1]);
	assert_string_equal(texts[0], "fe80::77%2");
	assert_string_equal(texts[1], "fe80::77%22");
}

/* In a child of another user: 0, or the line of the first claim that does not hold. */
static int be_another_user(const struct link_address *address, pid_t first)
{
	struct descriptor receiver;
	struct host_holder holder;
	struct host *host;
	const char *why;
	vbn_time began = clock_now();

	if (setuid(OTHER_USER) != 0)
		return SKIPPED;
	if (host_join(&(struct host_options){0}, &host, &why) != 0)
		return 1;
	if (count_members(host) != 1)
		return 2;
	began = clock_now();
	if (host_open_address(host, address, &receiver, &why) != -EADDRINUSE)
		return 3;
	/* Where it is known that nobody is about to close, nothing is waited for. */
	if (clock_now() - began > VBN_SECOND / 2)
		return 4;
	if (host_holders(address, &holder, 1) != 1)
		return 5;
	if (holder.pid != first || holder.uid != 0 || holder.is_of_our_host ||
	    holder.command[0] == '\0')
		return 6;
	host_leave(host);
	return 0;
}

static void another_user_is_told_who_holds_it(void **state)
{
	struct link_address address = members_address("127.24.7.3");
	struct member member;
	pid_t first = getpid(), pid;
	int status = -1;

	(void)state;
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(member_open(&member, &address), 0);
	pid = fork();
	if (pid == 0)
		_exit(be_another_user(&address, first));
	waitpid(pid, &status, 0);
	member_leave(&member);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED) {
		fprintf(stderr, "skipped: only root can become another user\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* A user of ours who binds our names hinders nobody, and is believed nothing. */
static void take_names_of(uid_t user, int told)
{
	for (uint32_t slot = 0; slot < HOST_SLOTS / 2; slot++) {
		struct host_name claim = host_name_of_slot(user, slot, HOST_NAME_CLAIM);
		struct host_name ask = host_name_of_slot(user, slot, HOST_NAME_ASK);

		if (host_name_bind(&claim, HOST_NAME_TYPE, 8) < 0 ||
		    host_name_bind(&ask, HOST_NAME_TYPE, 8) < 0)
			_exit(1);
	}
	if (write(told, "x", 1) != 1)
		_exit(1);
	pause();
}

static void names_of_strangers_are_ignored(void **state)
{
	struct link_address address = members_address("127.24.7.4");
	struct member members[2];
	uid_t user = geteuid();
	int told[2];
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(told), 0);
	pid = fork();
	if (pid == 0) {
		if (setuid(OTHER_USER) != 0)
			_exit(SKIPPED);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		take_names_of(user, told[1]);
	}
	close(told[1]);
	if (read(told[0], &byte, 1) != 1) {
		int status = -1;

		waitpid(pid, &status, 0);
		assert_int_equal(WEXITSTATUS(status), SKIPPED);
		fprintf(stderr, "skipped: only root can become another user\n");
		skip();
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(member_join(&members[i]), 0);
		assert_true(host_slot(members[i].host) >= HOST_SLOTS / 2);
		assert_int_equal(member_open(&members[i], &address), 0);
	}
	assert_int_equal(count_members(members[0].host), 2);
	for (int i = 0; i < 2; i++) {
		assert_true(is_reached(&members[i], &address));
		member_leave(&members[i]);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(told[0]);
}

/* Some other program has the port: that is found out within the bound. */
static void a_port_that_a_program_holds_is_in_use(void **state)
{
	struct link_address address = members_address("127.24.7.5");
	struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(4791)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct member member;
	vbn_time began;

	(void)state;
	memcpy(&local.sin_addr, address.gid + 12, 4);
	assert_int_equal(bind(fd, (struct sockaddr *)&local, sizeof(local)), 0);
	assert_int_equal(member_join(&member), 0);
	began = clock_now();
	assert_int_equal(member_open(&member, &address), -EADDRINUSE);
	assert_true(clock_now() - began < 3 * VBN_SECOND);
	close(fd);
	assert_int_equal(member_open(&member, &address), 0);
	member_leave(&member);
}

static void an_address_of_another_machine_is_not_available(void **state)
{
	struct link_address address = members_address("192.0.2.1");
	struct member member;

	(void)state;
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(member_open(&member, &address), -EADDRNOTAVAIL);
	member_leave(&member);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_holds_an_address_at_first),
		cmocka_unit_test(all_holders_are_found),
		cmocka_unit_test(the_interface_is_part_of_the_name),
		cmocka_unit_test(another_user_is_told_who_holds_it),
		cmocka_unit_test(names_of_strangers_are_ignored),
		cmocka_unit_test(a_port_that_a_program_holds_is_in_use),
		cmocka_unit_test(an_address_of_another_machine_is_not_available),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
