/* SPDX-License-Identifier: BSD-2-Clause */
/* Members are killed: all others are still reached, and nothing of the dead stays. */
#include "unit/host/members.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 12

/* Members whose slot the registry has, dead or alive. */
static uint32_t count_used_slots(const struct host *host)
{
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
		count += (atomic_load(&registry_slot(&host->registry, slot)->generation) & 3) != 0;
	return count;
}

static void the_dead_are_buried_by_who_joins(void **state)
{
	struct link_address address = members_address("127.24.5.1");
	struct child_member children[CHILDREN];
	struct member first, second;

	(void)state;
	assert_int_equal(member_join(&first), 0);
	assert_int_equal(member_open(&first, &address), 0);
	for (int i = 0; i < CHILDREN; i++) {
		children[i] = child_join(&address);
		assert_int_equal(children[i].error, 0);
	}
	for (int i = 0; i < CHILDREN; i += 2)
		child_kill(&children[i]);
	/* The first one is reached all the time, whoever dies. */
	assert_true(is_reached(&first, &address));
	assert_int_equal(count_members(first.host), 1 + CHILDREN);
	assert_int_equal(member_join(&second), 0);
	assert_int_equal(count_members(first.host), 2 + CHILDREN / 2);
	assert_int_equal(member_open(&second, &address), 0);
	assert_true(is_reached(&first, &address));
	assert_true(is_reached(&second, &address));
	for (int i = 1; i < CHILDREN; i += 2)
		child_kill(&children[i]);
	assert_true(is_reached(&first, &address));
	assert_true(is_reached(&second, &address));
	member_leave(&first);
	assert_true(is_reached(&second, &address));
	member_leave(&second);
}

static void what_the_dead_had_goes_to_who_lives(void **state)
{
	struct link_address address = members_address("127.24.5.2");
	struct child_member child;
	struct member first;
	uint32_t generation;
	size_t lengths[4];

	(void)state;
	assert_int_equal(member_join(&first), 0);
	assert_int_equal(member_open(&first, &address), 0);
	child = child_join(&address);
	generation = atomic_load(&registry_slot(&first.host->registry, child.slot)->generation);
	assert_false(host_bury(first.host, child.slot, generation));
	send_to_qpn(&address, child.slot << HOST_QPN_BITS, 40);
	assert_int_equal(receive_all(first.receiver.fd, lengths, 4), 0);
	child_kill(&child);
	assert_true(host_bury(first.host, child.slot, generation));
	assert_int_equal(count_members(first.host), 1);
	send_to_qpn(&address, child.slot << HOST_QPN_BITS, 40);
	assert_int_equal(receive_all(first.receiver.fd, lengths, 4), 1);
	member_leave(&first);
}

/* Nobody has connections with any of them. */
static void each_member_buries_those_below_it(void **state)
{
	struct link_address address = members_address("127.24.5.4");
	struct child_member children[4];
	struct member first, last;

	(void)state;
	assert_int_equal(member_join(&first), 0);
	assert_int_equal(member_open(&first, &address), 0);
	for (int i = 0; i < 4; i++) {
		children[i] = child_join(&address);
		assert_int_equal(children[i].error, 0);
	}
	assert_int_equal(member_join(&last), 0);
	assert_int_equal(member_open(&last, &address), 0);
	host_guard(first.host);
	host_guard(last.host);
	assert_int_equal(count_members(first.host), 6);
	/* Wherever their slots lie, one of the two is the next above each of them. */
	for (int i = 0; i < 4; i++)
		child_kill(&children[i]);
	host_guard(last.host);
	host_guard(first.host);
	assert_int_equal(count_members(first.host), 2);
	assert_true(is_reached(&first, &address));
	assert_true(is_reached(&last, &address));
	member_leave(&last);
	member_leave(&first);
}

/* Who buries it has not its address, and cannot steer there. */
static void the_dead_of_other_addresses_are_steered_around(void **state)
{
	struct link_address address = members_address("127.24.5.5");
	struct member stays, passes;
	struct child_member child;
	size_t lengths[4];

	(void)state;
	assert_int_equal(member_join(&stays), 0);
	assert_int_equal(member_open(&stays, &address), 0);
	child = child_join(&address);
	assert_int_equal(child.error, 0);
	child_kill(&child);
	/* Who comes buries all who are dead. */
	assert_int_equal(member_join(&passes), 0);
	assert_int_equal(count_members(stays.host), 2);
	host_guard(stays.host);
	send_to_qpn(&address, child.slot << HOST_QPN_BITS, 40);
	assert_int_equal(receive_all(stays.receiver.fd, lengths, 4), 1);
	member_leave(&passes);
	member_leave(&stays);
}

static void a_generation_is_never_seen_again(void **state)
{
	struct member member, stays;
	uint32_t before = 0, slot = 0;

	(void)state;
	assert_int_equal(member_join(&stays), 0);
	for (int seen = 0, i = 0; seen < 3 && i < 10000; i++) {
		uint32_t generation;

		assert_int_equal(member_join(&member), 0);
		generation = atomic_load(&member.host->own->generation);
		if (seen == 0 || host_slot(member.host) == slot) {
			slot = host_slot(member.host);
			assert_true(generation > before);
			before = generation;
			seen++;
		}
		member_leave(&member);
	}
	assert_int_equal(before, 10);
	member_leave(&stays);
}

static void a_peer_is_dead_when_it_was_killed_and_not_before(void **state)
{
	struct link_address address = members_address("127.24.5.3");
	struct child_member child;
	struct host_peer *peer;
	struct member first;

	(void)state;
	assert_int_equal(member_join(&first), 0);
	assert_int_equal(member_open(&first, &address), 0);
	child = child_join(&address);
	peer = host_attach(first.host, &address, child.slot << HOST_QPN_BITS | 9);
	assert_non_null(peer);
	for (int i = 0; i < 3; i++) {
		assert_false(host_peer_is_dead(peer));
		/* Until the next look at the name. */
		host_pause(60 * VBN_MILLISECOND);
	}
	child_kill(&child);
	assert_int_equal(poll(&(struct pollfd){host_peer_descriptor(peer), POLLIN, 0}, 1, 5000), 1);
	host_peer_died(first.host, peer);
	assert_true(host_peer_is_dead(peer));
	assert_int_equal(count_members(first.host), 1);
	host_detach(first.host, peer);
	member_leave(&first);
}

static void many_lives_leave_nothing_behind(void **state)
{
	struct link_address address = members_address("127.24.5.4");
	struct child_member child;
	struct member member;
	size_t descriptors;

	(void)state;
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(member_open(&member, &address), 0);
	descriptors = count_descriptors();
	for (int i = 0; i < 1000; i++) {
		child = child_join(i % 2 ? &address : NULL);
		assert_int_equal(child.error, 0);
		if (i % 4 < 2)
			child_kill(&child);
		else
			assert_int_equal(child_leave(&child), 0);
	}
	assert_int_equal(count_descriptors(), descriptors);
	/* The last ones left by themselves. */
	host_bury_all(member.host);
	assert_int_equal(count_used_slots(member.host), 1);
	assert_true(is_reached(&member, &address));
	member_leave(&member);
}

static void a_host_without_members_is_made_anew(void **state)
{
	struct link_address address = members_address("127.24.5.5");
	struct member member;

	(void)state;
	for (int i = 0; i < 50; i++) {
		struct child_member child = child_join(&address);

		assert_int_equal(child.error, 0);
		child_kill(&child);
		assert_int_equal(member_join(&member), 0);
		assert_int_equal(count_members(member.host), 1);
		assert_int_equal(member_open(&member, &address), 0);
		assert_true(is_reached(&member, &address));
		member_leave(&member);
	}
}

static void many_that_come_at_once_are_one_host(void **state)
{
	struct link_address address = members_address("127.24.5.6");
	struct member member;
	pid_t waiting[CHILDREN];
	int gate[2], told[2];
	char byte;

	(void)state;
	assert_int_equal(pipe(gate), 0);
	assert_int_equal(pipe(told), 0);
	for (int i = 0; i < CHILDREN; i++) {
		waiting[i] = fork();
		if (waiting[i] == 0) {
			struct child_member own;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(gate[1]);
			if (read(gate[0], &byte, 1) != 0)
				_exit(1);
			own = child_join(&address);
			if (write(told[1], own.error ? "-" : "+", 1) != 1)
				_exit(2);
			pause();
		}
	}
	close(gate[0]);
	close(gate[1]);
	for (int i = 0; i < CHILDREN; i++) {
		struct pollfd one = {told[0], POLLIN, 0};

		assert_int_equal(poll(&one, 1, 10000), 1);
		assert_int_equal(read(told[0], &byte, 1), 1);
		assert_int_equal(byte, '+');
	}
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(count_members(member.host), 1 + CHILDREN);
	assert_int_equal(member_open(&member, &address), 0);
	assert_true(is_reached(&member, &address));
	for (int i = 0; i < CHILDREN; i++) {
		kill(waiting[i], SIGKILL);
		waitpid(waiting[i], NULL, 0);
	}
	close(told[0]);
	close(told[1]);
	member_leave(&member);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_dead_are_buried_by_who_joins),
		cmocka_unit_test(what_the_dead_had_goes_to_who_lives),
		cmocka_unit_test(each_member_buries_those_below_it),
		cmocka_unit_test(the_dead_of_other_addresses_are_steered_around),
		cmocka_unit_test(a_generation_is_never_seen_again),
		cmocka_unit_test(a_peer_is_dead_when_it_was_killed_and_not_before),
		cmocka_unit_test(many_lives_leave_nothing_behind),
		cmocka_unit_test(a_host_without_members_is_made_anew),
		cmocka_unit_test(many_that_come_at_once_are_one_host),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
