/* SPDX-License-Identifier: BSD-2-Clause */
/* A fork leaves the member as it was, and its child holds nothing of it. */
#include "unit/host/members.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_child_lets_go_of_all(void **state)
{
	struct link_address address = members_address("127.24.10.1");
	struct registry_member before, after;
	struct member member;
	size_t descriptors = count_descriptors();
	int status = -1;
	pid_t pid;

	(void)state;
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(member_open(&member, &address), 0);
	assert_true(registry_read(&member.host->registry, host_slot(member.host), &before));
	pid = fork();
	if (pid == 0) {
		host_close_inherited(member.host);
		descriptor_close(&member.receiver);
		_exit(count_descriptors() == descriptors ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(registry_read(&member.host->registry, host_slot(member.host), &after));
	assert_memory_equal(&before, &after, sizeof(before));
	assert_true(is_reached(&member, &address));
	member_leave(&member);
	assert_int_equal(count_descriptors(), descriptors);
}

/* The parent dies while a child that closed what it inherited goes on. */
static void a_child_outlives_its_parent_unnoticed(void **state)
{
	struct link_address address = members_address("127.24.10.2");
	struct member member;
	int ends[2], status = -1;
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		struct descriptor receiver;
		struct host *host;
		const char *why;

		close(ends[1]);
		if (host_join(&(struct host_options){0}, &host, &why) != 0 ||
		    host_open_address(host, &address, &receiver, &why) != 0)
			_exit(1);
		if (fork() == 0) {
			host_close_inherited(host);
			descriptor_close(&receiver);
			/* Until the test is over. */
			_exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
		}
		/* Without leaving, as most programs end. */
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(WEXITSTATUS(status), 0);
	/* The grandchild may not have closed everything yet; that is waited for. */
	for (int i = 0; i < 100; i++) {
		struct host_slot_set claimed;

		host_names_claimed(geteuid(), &claimed);
		if (!claimed.bits[0] && !claimed.bits[1])
			break;
		host_pause(10 * VBN_MILLISECOND);
	}
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(count_members(member.host), 1);
	assert_int_equal(member_open(&member, &address), 0);
	assert_true(is_reached(&member, &address));
	member_leave(&member);
	close(ends[0]);
	close(ends[1]);
}

/* A program that closes all descriptors it does not know loses what is ours, and no more. */
static void a_member_without_descriptors_leaves_in_peace(void **state)
{
	struct link_address address = members_address("127.24.10.3");
	struct member robbed, other;

	(void)state;
	assert_int_equal(member_join(&robbed), 0);
	assert_int_equal(member_open(&robbed, &address), 0);
	close(robbed.host->registry_file.fd);
	close(robbed.host->addresses[0].vault.fd);
	close(robbed.host->addresses[0].steering.fd);
	assert_int_equal(dup2(STDERR_FILENO, robbed.host->ask.fd), robbed.host->ask.fd);
	assert_int_equal(host_ask_descriptor(robbed.host), -1);
	host_serve(robbed.host);
	/* It cannot give the registry, nor can it be taken; but it holds its claim. */
	assert_int_equal(member_join(&other), -EAGAIN);
	close(robbed.host->ask.fd);
	member_leave(&robbed);
	assert_int_equal(member_join(&other), 0);
	assert_int_equal(count_members(other.host), 1);
	member_leave(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_lets_go_of_all),
		cmocka_unit_test(a_child_outlives_its_parent_unnoticed),
		cmocka_unit_test(a_member_without_descriptors_leaves_in_peace),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
