/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rings between members: one piece of memory has one address, whoever maps it in this process; it is
 * given back when a member leaves or dies, but for what somebody who lives may still read; and no
 * child of a fork has it.
 */
#include "unit/host/members.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/rings.h"

static struct link_address address;

static uint8_t *map(const struct member *member, uint32_t from, uint32_t to)
{
	uint8_t *bytes = host_ring_map(member->host, from, to);

	assert_non_null(bytes);
	assert_int_equal((uintptr_t)bytes % 4096, 0);
	return bytes;
}

static uint32_t slot_of(const struct member *member)
{
	return host_slot(member->host);
}

static void begin(struct member *member)
{
	address = members_address("127.24.12.1");
	assert_int_equal(member_join(member), 0);
	assert_int_equal(member_open(member, &address), 0);
}

static bool holds(const uint8_t *bytes, int value)
{
	for (uint32_t i = 0; i < LINK_SHM_RING_BYTES; i++)
		if (bytes[i] != value)
			return false;
	return true;
}

static void one_ring_has_one_address(void **state)
{
	struct member a, b;
	uint8_t *out, *in;

	(void)state;
	begin(&a);
	begin(&b);
	out = map(&a, slot_of(&a), slot_of(&b));
	in = map(&a, slot_of(&b), slot_of(&a));
	assert_ptr_equal(map(&b, slot_of(&a), slot_of(&b)), out);
	assert_ptr_equal(map(&b, slot_of(&b), slot_of(&a)), in);
	assert_ptr_equal(map(&a, slot_of(&a), slot_of(&b)), out);
	assert_true(holds(out, 0));
	memset(out, 1, LINK_SHM_RING_BYTES);
	assert_true(holds(in, 0));
	memset(in, 2, LINK_SHM_RING_BYTES);
	assert_true(holds(out, 1));
	/* It is there as long as one of the two is. */
	member_leave(&a);
	memset(in, 3, LINK_SHM_RING_BYTES);
	assert_true(holds(out, 0));
	member_leave(&b);
}

/* The rooms of all pairs of slots are apart from each other and from the rest of the file. */
static void rings_lie_apart(void **state)
{
	static bool is_used[HOST_SLOTS * HOST_SLOTS];
	uint64_t first = registry_claims_offset(HOST_SLOTS);

	(void)state;
	for (uint32_t from = 0; from < HOST_SLOTS; from++)
		for (uint32_t to = 0; to < HOST_SLOTS; to++) {
			uint64_t offset = registry_ring_offset(from, to), index;

			assert_true(offset >= first &&
				    offset + LINK_SHM_RING_BYTES <= REGISTRY_BYTES);
			assert_int_equal(offset % 4096, 0);
			assert_int_equal((offset - first) % LINK_SHM_RING_BYTES, 0);
			index = (offset - first) / LINK_SHM_RING_BYTES;
			assert_false(is_used[index]);
			is_used[index] = true;
		}
}

/* Nobody but those who are connected needs memory for rings, and those only what they write. */
static void memory_comes_with_writing(void **state)
{
	struct member a, b;
	uint8_t *out;

	(void)state;
	begin(&a);
	begin(&b);
	assert_int_equal(ring_memory(a.host), 0);
	out = map(&a, slot_of(&a), slot_of(&b));
	assert_int_equal(ring_memory(a.host), 0);
	out[5000] = 1;
	assert_in_range(ring_memory(a.host), 1, 4096);
	memset(out, 1, LINK_SHM_RING_BYTES);
	assert_int_equal(ring_memory(a.host), LINK_SHM_RING_BYTES);
	member_leave(&b);
	assert_int_equal(ring_memory(a.host), 0);
	member_leave(&a);
}

/* Both directions, and with several peers. */
static void who_leaves_takes_it_along(void **state)
{
	struct member members[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		begin(&members[i]);
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 4; j++)
			if (i != j)
				memset(map(&members[i], slot_of(&members[i]), slot_of(&members[j])),
				       i + 1, LINK_SHM_RING_BYTES);
	for (uint64_t left = 3; left > 0; left--) {
		assert_int_equal(ring_memory(members[0].host),
				 (left + 1) * left * LINK_SHM_RING_BYTES);
		member_leave(&members[left]);
		/* Those of the others are as they were. */
		for (uint64_t i = 0; i < left; i++)
			for (uint64_t j = 0; j < left; j++)
				if (i != j)
					assert_true(holds(map(&members[0], slot_of(&members[i]),
							      slot_of(&members[j])),
							  (int)i + 1));
	}
	assert_int_equal(ring_memory(members[0].host), 0);
	member_leave(&members[0]);
}

struct pair_of_rings {
	uint8_t *out, *in;
};

static struct pair_of_rings write_to_both(const struct member *member, uint32_t slot)
{
	struct pair_of_rings rings = {map(member, slot_of(member), slot),
				      map(member, slot, slot_of(member))};

	memset(rings.out, 1, LINK_SHM_RING_BYTES);
	memset(rings.in, 2, LINK_SHM_RING_BYTES);
	return rings;
}

static void who_is_buried_leaves_nothing(void **state)
{
	struct child_member child;
	struct pair_of_rings rings;
	struct member member;

	(void)state;
	begin(&member);
	child = child_join(&address);
	assert_int_equal(child.error, 0);
	rings = write_to_both(&member, child.slot);
	child_kill(&child);
	assert_int_equal(ring_memory(member.host), 2 * LINK_SHM_RING_BYTES);
	host_bury_all(member.host);
	assert_int_equal(ring_memory(member.host), 0);
	assert_true(holds(rings.out, 0) && holds(rings.in, 0));
	member_leave(&member);
}

/* We are connected, and may not have read all that it sent; what we sent is for nobody. */
static void what_we_may_still_read_is_left(void **state)
{
	struct child_member child;
	struct pair_of_rings rings;
	struct host_peer *peer;
	struct member member;
	uint32_t qpn;

	(void)state;
	begin(&member);
	child = child_join(&address);
	assert_int_equal(child.error, 0);
	qpn = child.slot << HOST_QPN_BITS | 5;
	peer = host_attach(member.host, &address, qpn);
	assert_non_null(peer);
	rings = write_to_both(&member, child.slot);
	child_kill(&child);
	/* Somebody else buries it. */
	child = child_join(&address);
	assert_int_equal(child.error, 0);
	assert_int_equal(count_members(member.host), 2);
	assert_true(holds(rings.in, 2));
	if (child.slot == qpn >> HOST_QPN_BITS) {
		/* Somebody else has its slot: what is his is left to him. */
		host_rings_let_go(member.host, child.slot);
		assert_true(holds(rings.in, 2));
		child_kill(&child);
		host_bury_all(member.host);
		child = child_join(&address);
	}
	assert_true(holds(rings.out, 0));
	host_peer_died(member.host, peer);
	host_detach(member.host, peer);
	child_kill(&child);
	host_bury_all(member.host);
	/* Looking at holes fills them, as polling does. */
	assert_true(ring_memory(member.host) > 0);
	host_rings_let_go(member.host, qpn >> HOST_QPN_BITS);
	assert_int_equal(ring_memory(member.host), 0);
	member_leave(&member);
}

/* Nor do we take it ourselves when we notice the death: another thread may be in the middle of a packet. */
static void what_we_may_still_read_outlasts_our_noticing(void **state)
{
	struct child_member child;
	struct pair_of_rings rings;
	struct host_peer *peers[2];
	struct member member;
	uint32_t slot;

	(void)state;
	begin(&member);
	child = child_join(&address);
	assert_int_equal(child.error, 0);
	slot = child.slot;
	for (int i = 0; i < 2; i++) {
		peers[i] = host_attach(member.host, &address, slot << HOST_QPN_BITS | 5);
		assert_non_null(peers[i]);
	}
	rings = write_to_both(&member, slot);
	child_kill(&child);
	host_peer_died(member.host, peers[0]);
	assert_false(host_is_attached(member.host, slot_of(&member), slot));
	assert_true(holds(rings.in, 2));
	assert_true(holds(rings.out, 0));
	/* Another connection is left. */
	host_detach(member.host, peers[0]);
	host_rings_let_go(member.host, slot);
	assert_true(holds(rings.in, 2));
	host_detach(member.host, peers[1]);
	host_rings_let_go(member.host, slot);
	assert_true(holds(rings.in, 0));
	member_leave(&member);
}

static void the_living_lose_nothing(void **state)
{
	struct child_member child;
	struct pair_of_rings rings;
	struct member member;

	(void)state;
	begin(&member);
	child = child_join(&address);
	assert_int_equal(child.error, 0);
	rings = write_to_both(&member, child.slot);
	host_rings_let_go(member.host, child.slot);
	host_rings_let_go(member.host, slot_of(&member));
	host_bury_all(member.host);
	host_guard(member.host);
	assert_true(holds(rings.out, 1) && holds(rings.in, 2));
	/* It was killed, and nobody has noticed so far. */
	child_kill(&child);
	host_rings_let_go(member.host, child.slot);
	assert_true(holds(rings.out, 0) && holds(rings.in, 0));
	member_leave(&member);
}

/* False: there is no memory. */
static bool is_mapped(const uint8_t *bytes)
{
	int ends[2];
	bool is;

	assert_int_equal(pipe(ends), 0);
	is = write(ends[1], bytes, 1) == 1;
	assert_true(is || errno == EFAULT);
	close(ends[0]);
	close(ends[1]);
	return is;
}

/* The child begins a life of its own, in which it maps rings of its own. */
static void child_of_fork(struct member *inherited, const uint8_t *ring)
{
	struct member own = {.host = NULL}, peer = {.host = NULL};
	const char *why;

	if (is_mapped(ring))
		_exit(1);
	descriptor_close(&inherited->receiver);
	host_close_inherited(inherited->host);
	/* The parent answers; here is no thread that does. */
	if (host_join(&(struct host_options){0}, &own.host, &why) != 0 ||
	    host_join(&(struct host_options){0}, &peer.host, &why) != 0)
		_exit(2);
	if (map(&own, slot_of(&own), slot_of(&peer)) != map(&peer, slot_of(&own), slot_of(&peer)))
		_exit(3);
	memset(map(&own, slot_of(&own), slot_of(&peer)), 9, LINK_SHM_RING_BYTES);
	host_leave(own.host);
	host_leave(peer.host);
	_exit(0);
}

static void a_child_has_no_ring(void **state)
{
	struct member member, neighbour;
	struct pair_of_rings rings;
	int status = -1;
	pid_t pid;

	(void)state;
	begin(&member);
	/* Its slot is not free for the child, which would leave it empty. */
	begin(&neighbour);
	rings = write_to_both(&member, slot_of(&neighbour));
	pid = fork();
	if (pid == 0)
		child_of_fork(&member, rings.out);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(is_mapped(rings.out));
	assert_true(holds(rings.out, 1) && holds(rings.in, 2));
	member_leave(&neighbour);
	member_leave(&member);
	assert_false(is_mapped(rings.out));
}

/* A program that closes what it does not know. */
static void without_the_file_there_is_no_ring(void **state)
{
	struct member robbed;
	uint32_t slot;
	uint8_t *ring;

	(void)state;
	begin(&robbed);
	slot = (slot_of(&robbed) + 1) % HOST_SLOTS;
	ring = map(&robbed, slot_of(&robbed), slot);
	close(robbed.host->registry_file.fd);
	assert_null(host_ring_map(robbed.host, slot, slot_of(&robbed)));
	assert_int_equal(errno, EBADF);
	/* What is mapped stays so. */
	assert_ptr_equal(map(&robbed, slot_of(&robbed), slot), ring);
	host_rings_let_go(robbed.host, slot);
	member_leave(&robbed);
}

static void who_wakes_finds_who_sleeps(void **state)
{
	struct link_shm_name name;
	struct member a, b;
	size_t lengths[4];

	(void)state;
	begin(&a);
	begin(&b);
	name = host_wake_name(a.host, slot_of(&b));
	assert_int_equal(sendto(host_wake_descriptor(a.host)->fd, "", 1, MSG_DONTWAIT,
				(struct sockaddr *)&name.address, name.length),
			 1);
	assert_int_equal(receive_all(host_wake_descriptor(b.host)->fd, lengths, 4), 1);
	assert_int_equal(lengths[0], 1);
	assert_int_equal(receive_all(host_wake_descriptor(a.host)->fd, lengths, 4), 0);
	member_leave(&b);
	/* Nobody lives there. */
	assert_int_equal(sendto(host_wake_descriptor(a.host)->fd, "", 1, MSG_DONTWAIT,
				(struct sockaddr *)&name.address, name.length),
			 -1);
	member_leave(&a);
}

static void what_a_member_says_of_itself(void **state)
{
	const struct host_options options = {.sharing = REGISTRY_SHARES_MEMORY |
							REGISTRY_SHARES_FAR};
	struct host_peer *peer;
	struct member a, b;
	uint32_t slot, generation;

	(void)state;
	begin(&a);
	assert_int_equal(member_join_with(&b, &options), 0);
	slot = slot_of(&b);
	generation = host_generation(b.host);
	assert_int_equal(host_sharing(a.host, slot), options.sharing);
	assert_int_equal(host_sharing(b.host, slot_of(&a)), 0);
	peer = host_attach(a.host, &address, slot << HOST_QPN_BITS | 5);
	assert_non_null(peer);
	assert_int_equal(host_peer_generation(peer), generation);
	host_detach(a.host, peer);
	member_leave(&b);
	assert_int_equal(host_sharing(a.host, slot), 0);
	for (uint32_t i = 0; i < HOST_SLOTS; i++)
		assert_int_equal(host_sharing(a.host, i), 0);
	member_leave(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_ring_has_one_address),
		cmocka_unit_test(rings_lie_apart),
		cmocka_unit_test(memory_comes_with_writing),
		cmocka_unit_test(who_leaves_takes_it_along),
		cmocka_unit_test(who_is_buried_leaves_nothing),
		cmocka_unit_test(what_we_may_still_read_is_left),
		cmocka_unit_test(what_we_may_still_read_outlasts_our_noticing),
		cmocka_unit_test(the_living_lose_nothing),
		cmocka_unit_test(a_child_has_no_ring),
		cmocka_unit_test(without_the_file_there_is_no_ring),
		cmocka_unit_test(who_wakes_finds_who_sleeps),
		cmocka_unit_test(what_a_member_says_of_itself),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
