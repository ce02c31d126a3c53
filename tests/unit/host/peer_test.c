/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members that one is connected with: how they are found, how much may be under way to
 * them, and in which ways they can go. And whoever attaches, detaches or buries may
 * itself die before any of its stores, and leaves nothing behind.
 */
#include "unit/host/members.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STORES_MAX 2000
#define ADDRESS "127.24.8.1"

static struct link_address address;

static uint32_t qpn_in(uint32_t slot)
{
	return slot << HOST_QPN_BITS | 5;
}

static struct host_peer *attach(const struct member *member, uint32_t slot)
{
	return host_attach(member->host, &address, qpn_in(slot));
}

static bool is_bit_set(const struct member *member, uint32_t slot)
{
	return atomic_load(&member->host->own->sends_to[slot / 64]) >> slot % 64 & 1;
}

static void begin(struct member *member)
{
	address = members_address(ADDRESS);
	assert_int_equal(member_join(member), 0);
	assert_int_equal(member_open(member, &address), 0);
}

static struct child_member begin_child(void)
{
	struct child_member child = child_join(&address);

	assert_int_equal(child.error, 0);
	return child;
}

static void await_death(const struct host_peer *peer)
{
	struct pollfd watch = {.fd = host_peer_descriptor(peer), .events = POLLIN};

	assert_true(watch.fd >= 0);
	assert_int_equal(poll(&watch, 1, (int)(PATIENCE_NS / VBN_MILLISECOND)), 1);
}

static bool is_readable(const struct host_peer *peer)
{
	struct pollfd watch = {.fd = host_peer_descriptor(peer), .events = POLLIN};

	return poll(&watch, 1, 0) != 0;
}

static void await_found_dead(struct host_peer *peer)
{
	vbn_time deadline = clock_now() + PATIENCE_NS;

	while (!host_peer_is_dead(peer)) {
		assert_true(clock_now() < deadline);
		host_pause(VBN_MILLISECOND);
	}
}

static int64_t window_to(const struct member *member, struct host_peer *peer)
{
	uint64_t seen = UINT64_MAX;

	return host_peer_window(member->host, peer, &seen);
}

static int64_t half_buffer(const struct host_peer *peer)
{
	return (int64_t)atomic_load(&peer->remote->addresses[peer->address_index].buffer_bytes) / 2;
}

static void attaching_is_counted(void **state)
{
	struct host_peer *peer, *again;
	struct child_member child;
	struct member member;
	uint64_t seen = UINT64_MAX;

	(void)state;
	begin(&member);
	child = begin_child();
	peer = attach(&member, child.slot);
	assert_non_null(peer);
	assert_true(is_bit_set(&member, child.slot));
	assert_true(host_peer_window(member.host, peer, &seen) > 1);
	again = attach(&member, child.slot);
	assert_ptr_equal(again, peer);
	/* Nothing changed for others. */
	assert_int_equal(host_peer_window(member.host, peer, &seen), 0);
	host_detach(member.host, again);
	assert_true(is_bit_set(&member, child.slot));
	assert_false(host_peer_is_dead(peer));
	assert_false(is_readable(peer));
	host_detach(member.host, peer);
	assert_false(is_bit_set(&member, child.slot));
	assert_int_equal(child_leave(&child), 0);
	member_leave(&member);
}

static void strangers_are_no_peers(void **state)
{
	struct link_address elsewhere = members_address("192.0.2.1"), scoped;
	struct child_member child;
	struct member member;

	(void)state;
	begin(&member);
	child = begin_child();
	scoped = address;
	scoped.scope = 3;
	assert_null(host_attach(member.host, &elsewhere, qpn_in(child.slot)));
	assert_null(host_attach(member.host, &scoped, qpn_in(child.slot)));
	assert_null(host_attach(member.host, &address, UINT32_MAX));
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		if (slot != child.slot && slot != host_slot(member.host))
			assert_null(attach(&member, slot));
	}
	assert_int_equal(child_leave(&child), 0);
	assert_null(attach(&member, child.slot));
	member_leave(&member);
}

static void one_is_a_peer_of_oneself(void **state)
{
	struct host_peer *peer;
	struct member member;

	(void)state;
	begin(&member);
	peer = attach(&member, host_slot(member.host));
	assert_non_null(peer);
	assert_int_equal(host_peer_descriptor(peer), -1);
	assert_false(host_peer_is_dead(peer));
	assert_int_equal(window_to(&member, peer), half_buffer(peer));
	assert_int_equal(host_own_window(member.host, &address), half_buffer(peer));
	host_served(member.host, &address, 4711);
	assert_int_equal(atomic_load(host_peer_served_at(peer)), 4711);
	host_detach(member.host, peer);
	member_leave(&member);
}

static void the_window_is_shared_by_all_senders(void **state)
{
	struct member members[3];
	struct host_peer *peers[3];
	struct child_member child;
	uint64_t seen = UINT64_MAX;

	(void)state;
	begin(&members[0]);
	child = begin_child();
	for (uint32_t i = 1; i < 3; i++)
		begin(&members[i]);
	for (uint32_t i = 0; i < 3; i++) {
		peers[i] = attach(&members[i], child.slot);
		assert_non_null(peers[i]);
		assert_int_equal(window_to(&members[i], peers[i]), half_buffer(peers[i]) / (i + 1));
	}
	assert_int_equal(host_peer_window(members[0].host, peers[0], &seen),
			 half_buffer(peers[0]) / 3);
	host_detach(members[2].host, peers[2]);
	assert_int_equal(host_peer_window(members[0].host, peers[0], &seen),
			 half_buffer(peers[0]) / 2);
	/* Who leaves counts no more, whatever it had attached. */
	host_detach(members[1].host, peers[1]);
	for (uint32_t i = 1; i < 3; i++)
		member_leave(&members[i]);
	assert_int_equal(window_to(&members[0], peers[0]), half_buffer(peers[0]));
	host_detach(members[0].host, peers[0]);
	child_kill(&child);
	member_leave(&members[0]);
}

static void nonsense_in_the_registry_is_harmless(void **state)
{
	struct registry_slot *slot;
	struct host_peer *peer;
	struct child_member child;
	struct member member;

	(void)state;
	begin(&member);
	child = begin_child();
	peer = attach(&member, child.slot);
	assert_non_null(peer);
	slot = registry_slot(&member.host->registry, child.slot);
	atomic_store(&slot->addresses[0].buffer_bytes, 0);
	assert_int_equal(window_to(&member, peer), 1);
	for (uint32_t i = 0; i < HOST_SLOTS; i++) {
		struct registry_slot *any = registry_slot(&member.host->registry, i);

		for (uint32_t word = 0; word < HOST_SLOTS / 64; word++)
			atomic_store(&any->sends_to[word], UINT64_MAX);
	}
	atomic_store(&slot->addresses[0].buffer_bytes, UINT32_MAX);
	/* Those where nobody lives do not count. */
	assert_int_equal(window_to(&member, peer), UINT32_MAX / 2 / 2);
	atomic_store(&slot->address_count, UINT32_MAX);
	assert_null(host_attach(member.host, &(struct link_address){{9}, 9}, qpn_in(child.slot)));
	host_detach(member.host, peer);
	child_kill(&child);
	member_leave(&member);
}

static void a_killed_peer_is_buried(void **state)
{
	struct host_peer *peer;
	struct child_member child;
	struct member member;

	(void)state;
	begin(&member);
	child = begin_child();
	peer = attach(&member, child.slot);
	assert_non_null(peer);
	child_kill(&child);
	await_death(peer);
	assert_int_equal(count_members(member.host), 2);
	host_peer_died(member.host, peer);
	assert_true(host_peer_is_dead(peer));
	assert_int_equal(count_members(member.host), 1);
	assert_false(is_bit_set(&member, child.slot));
	assert_null(attach(&member, child.slot));
	assert_true(window_to(&member, peer) >= 1);
	host_peer_died(member.host, peer);
	host_detach(member.host, peer);
	member_leave(&member);
}

/* Who has its slot behind it may be somebody else, who is told apart by his addresses. */
static void a_successor_elsewhere_is_not_taken_for_it(void **state)
{
	struct link_address here = members_address("127.24.12.71"), there = here;
	struct child_member child;
	struct member member;
	uint32_t slot;

	(void)state;
	there.gid[15]++;
	begin(&member);
	child = child_join(&here);
	assert_int_equal(child.error, 0);
	slot = child.slot;
	assert_false(host_slot_has_left(member.host, slot, &here));
	assert_true(host_slot_has_left(member.host, slot, &there));
	assert_true(host_slot_has_left(member.host, (slot + 1) % HOST_SLOTS, &here) ||
		    (slot + 1) % HOST_SLOTS == host_slot(member.host));
	child_kill(&child);
	assert_true(host_slot_has_left(member.host, slot, &here));
	host_bury_all(member.host);
	assert_true(host_slot_has_left(member.host, slot, &here));
	member_leave(&member);
}

static void a_peer_that_left_is_found_dead(void **state)
{
	struct host_peer *peer;
	struct member members[2];

	(void)state;
	begin(&members[0]);
	begin(&members[1]);
	peer = attach(&members[0], host_slot(members[1].host));
	assert_non_null(peer);
	member_leave(&members[1]);
	await_found_dead(peer);
	host_peer_died(members[0].host, peer);
	host_detach(members[0].host, peer);
	member_leave(&members[0]);
}

/* Of two members that connect one is first, and attaches before the other has the address. */
static void an_address_may_be_listed_later(void **state)
{
	uint64_t seen = UINT64_MAX;
	struct member members[2];
	struct host_peer *peer, *again;
	int64_t window;

	(void)state;
	begin(&members[0]);
	assert_int_equal(member_join(&members[1]), 0);
	peer = attach(&members[0], host_slot(members[1].host));
	assert_non_null(peer);
	assert_null(host_peer_served_at(peer));
	assert_int_equal(host_peer_window(members[0].host, peer, &seen), 0);
	assert_int_equal(member_open(&members[1], &address), 0);
	again = attach(&members[0], host_slot(members[1].host));
	assert_ptr_equal(again, peer);
	window = host_peer_window(members[0].host, peer, &seen);
	assert_int_equal(window, half_buffer(peer));
	host_served(members[1].host, &address, 4712);
	assert_int_equal(atomic_load(host_peer_served_at(peer)), 4712);
	host_peer_died(members[0].host, peer);
	assert_null(host_peer_served_at(peer));
	host_detach(members[0].host, peer);
	host_detach(members[0].host, peer);
	member_leave(&members[1]);
	member_leave(&members[0]);
}

/* A slot that is taken again is another peer. */
static void a_successor_is_another_peer(void **state)
{
	struct host_peer *peer, *successor;
	struct child_member child;
	struct member member;
	struct registry_slot *slot;
	uint32_t generation;

	(void)state;
	begin(&member);
	child = begin_child();
	peer = attach(&member, child.slot);
	assert_non_null(peer);
	slot = registry_slot(&member.host->registry, child.slot);
	generation = atomic_load(&slot->generation);
	atomic_store(&slot->generation, generation + 4);
	assert_true(host_peer_is_dead(peer));
	successor = attach(&member, child.slot);
	assert_non_null(successor);
	assert_ptr_not_equal(successor, peer);
	host_peer_died(member.host, peer);
	host_detach(member.host, peer);
	assert_true(is_bit_set(&member, child.slot));
	assert_false(host_peer_is_dead(successor));
	assert_int_equal(count_members(member.host), 2);
	host_detach(member.host, successor);
	child_kill(&child);
	member_leave(&member);
}

enum last_act { ACT_EXEC, ACT_COPY };

/* A member that joins, and at a word from us does something that hides its end. */
static pid_t begin_actor(enum last_act act, int ends[2], uint32_t *slot)
{
	char byte;
	pid_t child;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	child = fork();
	if (child) {
		close(ends[1]);
		assert_int_equal(read(ends[0], slot, sizeof(*slot)), sizeof(*slot));
		return child;
	}
	struct descriptor receiver;
	struct host *host;
	const char *why;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(ends[0]);
	if (host_join(&(struct host_options){0}, &host, &why) != 0 ||
	    host_open_address(host, &address, &receiver, &why) != 0 ||
	    write(ends[1], &host->slot, sizeof(host->slot)) != sizeof(host->slot) ||
	    read(ends[1], &byte, 1) != 1)
		_exit(1);
	if (act == ACT_COPY) {
		pid_t copy = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

		/* Should the test fail, nobody else ends it. */
		if (copy == 0)
			alarm(60);
		while (copy == 0)
			pause();
		if (write(ends[1], &copy, sizeof(copy)) != sizeof(copy))
			_exit(1);
		_exit(0);
	}
	execlp("sleep", "sleep", "100", (char *)NULL);
	_exit(1);
}

static void a_peer_that_calls_exec_is_found_dead(void **state)
{
	struct host_peer *peer;
	struct member member;
	uint32_t slot;
	int ends[2];
	pid_t actor;

	(void)state;
	/* The actor comes first, so that it inherits no member. */
	address = members_address(ADDRESS);
	actor = begin_actor(ACT_EXEC, ends, &slot);
	begin(&member);
	peer = attach(&member, slot);
	assert_non_null(peer);
	assert_false(host_peer_is_dead(peer));
	assert_int_equal(write(ends[0], "x", 1), 1);
	await_found_dead(peer);
	host_peer_died(member.host, peer);
	assert_int_equal(count_members(member.host), 1);
	host_detach(member.host, peer);
	kill(actor, SIGKILL);
	waitpid(actor, NULL, 0);
	close(ends[0]);
	member_leave(&member);
}

static void a_copy_does_not_hide_the_death(void **state)
{
	struct host_peer *peer;
	struct member member;
	pid_t actor, copy;
	uint32_t slot;
	int ends[2];

	(void)state;
	address = members_address(ADDRESS);
	actor = begin_actor(ACT_COPY, ends, &slot);
	begin(&member);
	peer = attach(&member, slot);
	assert_non_null(peer);
	assert_int_equal(write(ends[0], "x", 1), 1);
	assert_int_equal(read(ends[0], &copy, sizeof(copy)), sizeof(copy));
	waitpid(actor, NULL, 0);
	await_death(peer);
	host_peer_died(member.host, peer);
	assert_true(host_peer_is_dead(peer));
	host_detach(member.host, peer);
	/* The copy holds the claim; nobody may take it for the member. */
	assert_null(attach(&member, slot));
	kill(copy, SIGKILL);
	close(ends[0]);
	member_leave(&member);
}

static void a_stopped_peer_is_alive(void **state)
{
	struct host_peer *peer, *again;
	struct child_member child;
	struct member member;
	int status;

	(void)state;
	begin(&member);
	child = begin_child();
	kill(child.pid, SIGSTOP);
	assert_int_equal(waitpid(child.pid, &status, WUNTRACED), child.pid);
	/* So many that those who wait to be answered by it fill its queue. */
	for (int i = 0; i < 3 * (int)HOST_SLOTS; i++) {
		peer = attach(&member, child.slot);
		assert_non_null(peer);
		host_detach(member.host, peer);
	}
	peer = attach(&member, child.slot);
	again = attach(&member, child.slot);
	assert_ptr_equal(peer, again);
	assert_false(host_peer_is_dead(peer));
	assert_false(is_readable(peer));
	child_kill(&child);
	await_death(peer);
	host_detach(member.host, peer);
	host_detach(member.host, peer);
	member_leave(&member);
}

static void descriptors_do_not_grow(void **state)
{
	struct child_member child;
	struct member member;
	size_t before;

	(void)state;
	begin(&member);
	child = begin_child();
	before = count_descriptors();
	for (int i = 0; i < 500; i++) {
		struct host_peer *peer = attach(&member, child.slot);

		assert_non_null(peer);
		host_detach(member.host, peer);
	}
	assert_int_equal(count_descriptors(), before);
	assert_int_equal(child_leave(&child), 0);
	member_leave(&member);
}

/* --- dying before the n-th store --- */

static uint32_t stores_left;

static void die_in_time(void)
{
	if (stores_left-- == 0)
		raise(SIGKILL);
}

/* Attaches to @stays and @dies, sees the latter die, detaches; killed before the n-th store. */
static _Noreturn void act_until(uint32_t n, uint32_t stays, struct child_member *dies)
{
	struct descriptor receiver;
	struct host_peer *peers[2];
	struct host *host;
	const char *why;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (host_join(&(struct host_options){0}, &host, &why) != 0 ||
	    host_open_address(host, &address, &receiver, &why) != 0)
		_exit(1);
	stores_left = n;
	atomic_store(&host_store_hook, die_in_time);
	peers[0] = host_attach(host, &address, qpn_in(stays));
	peers[1] = host_attach(host, &address, qpn_in(dies->slot));
	if (!peers[0] || !peers[1])
		_exit(2);
	kill(dies->pid, SIGKILL);
	await_death(peers[1]);
	host_peer_died(host, peers[1]);
	host_detach(host, peers[1]);
	host_detach(host, peers[0]);
	_exit(0);
}

/* Whether the one who acted came to its end. */
static bool die_at(const struct member *member, uint32_t n)
{
	struct child_member victim = begin_child();
	uint32_t own = host_slot(member->host);
	struct host_peer *self;
	int status;
	pid_t actor = fork();

	if (actor == 0) {
		host_close_inherited(member->host);
		act_until(n, own, &victim);
	}
	assert_int_equal(waitpid(actor, &status, 0), actor);
	assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
	child_kill(&victim);
	/* Who comes next clears up behind both. */
	host_bury_all(member->host);
	assert_int_equal(count_members(member->host), 1);
	assert_null(attach(member, victim.slot));
	self = attach(member, own);
	assert_int_equal(window_to(member, self), half_buffer(self));
	host_detach(member->host, self);
	assert_true(is_reached(member, &address));
	return status == 0;
}

static void death_before_any_store_is_harmless(void **state)
{
	struct member member;
	uint32_t n = 0;

	(void)state;
	begin(&member);
	while (!die_at(&member, n)) {
		n++;
		assert_true(n < STORES_MAX);
	}
	/* Two attachments, their changes, and a burial: it did go through stores. */
	assert_true(n > 20);
	print_message("died before each of %u stores\n", n);
	member_leave(&member);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peer_that_calls_exec_is_found_dead),
		cmocka_unit_test(a_copy_does_not_hide_the_death),
		cmocka_unit_test(attaching_is_counted),
		cmocka_unit_test(strangers_are_no_peers),
		cmocka_unit_test(one_is_a_peer_of_oneself),
		cmocka_unit_test(the_window_is_shared_by_all_senders),
		cmocka_unit_test(nonsense_in_the_registry_is_harmless),
		cmocka_unit_test(a_killed_peer_is_buried),
		cmocka_unit_test(a_successor_elsewhere_is_not_taken_for_it),
		cmocka_unit_test(a_peer_that_left_is_found_dead),
		cmocka_unit_test(an_address_may_be_listed_later),
		cmocka_unit_test(a_successor_is_another_peer),
		cmocka_unit_test(a_stopped_peer_is_alive),
		cmocka_unit_test(descriptors_do_not_grow),
		cmocka_unit_test(death_before_any_store_is_harmless),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
