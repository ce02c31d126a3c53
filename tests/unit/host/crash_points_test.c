/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A member dies before its n-th store into the registry, for every n of joining, opening an
 * address, claiming ports, listening, writing into rings, burying and leaving. Whoever comes next must
 * join, receive, claim the same ports, and find no trace.
 */
#include "unit/host/members.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/rings.h"

/* More than a whole life has; a life that needs more fails the test. */
#define STORES_MAX 2000
#define LIVED 0

static uint32_t stores_left;

static void die_at_last_store(void)
{
	if (stores_left-- == 0)
		kill(getpid(), SIGKILL);
}

static const struct host_port_wish wish = {.space = HOST_PORT_SPACE_TCP, .port = 7174};

/* Claims of the kinds that there are, a listener, and one that is given back. */
static int use_ports(struct host *host, struct host_ports **ports)
{
	const struct host_port_wish any = {.space = HOST_PORT_SPACE_UDP};
	struct host_port *wanted, *ephemeral;
	int error = host_ports_open(host, ports);

	if (!error)
		error = host_port_claim(*ports, &wish, &wanted);
	if (!error)
		error = host_port_listen(*ports, wanted);
	if (!error)
		error = host_port_claim(*ports, &any, &ephemeral);
	if (!error)
		host_port_release(*ports, ephemeral);
	return error;
}

/* To and from a slot that nobody has: nobody reads them. */
static bool use_rings(struct host *host)
{
	uint32_t other = (host_slot(host) + HOST_SLOTS / 2) % HOST_SLOTS;
	void *out = host_ring_map(host, host_slot(host), other);
	void *in = host_ring_map(host, other, host_slot(host));

	if (!out || !in)
		return false;
	memset(out, 1, LINK_SHM_RING_BYTES);
	memset(in, 1, LINK_SHM_RING_BYTES);
	return true;
}

/* In a child: a life that ends before store @n. */
static void live(const struct link_address *address, uint32_t n, uint32_t dead_slot)
{
	struct descriptor receiver;
	struct host_ports *ports;
	struct host *host;
	const char *why;

	stores_left = n;
	atomic_store(&host_store_hook, die_at_last_store);
	if (host_join(&(struct host_options){.sharing = REGISTRY_SHARES_MEMORY}, &host, &why) != 0)
		_exit(1);
	/* Whatever happened to it meanwhile: somebody who is dead is buried. */
	if (dead_slot != HOST_SLOT_NONE)
		host_bury_all(host);
	if (host_open_address(host, address, &receiver, &why) != 0)
		_exit(2);
	if (use_ports(host, &ports) != 0)
		_exit(3);
	if (!use_rings(host))
		_exit(4);
	host_ports_close(ports);
	descriptor_close(&receiver);
	host_leave(host);
	_exit(LIVED);
}

/* True when the life was whole: n is beyond its last store. */
static bool end_a_life(const struct link_address *address, uint32_t n, uint32_t dead_slot)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0)
		live(address, n, dead_slot);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGKILL);
		return false;
	}
	assert_int_equal(WEXITSTATUS(status), LIVED);
	return true;
}

static uint32_t count_unburied(const struct host *host)
{
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
		count += (atomic_load(&registry_slot(&host->registry, slot)->generation) & 3) != 0;
	return count;
}

/* Somebody comes, is reached, and sees @expected members and no dead. */
static void come_after(const struct link_address *address, uint32_t expected)
{
	struct host_ports *ports;
	struct member next;

	assert_int_equal(member_join(&next), 0);
	assert_int_equal(count_members(next.host), expected);
	assert_int_equal(count_unburied(next.host), expected);
	assert_int_equal(ring_memory(next.host), 0);
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
		assert_int_equal(registry_slot(&next.host->registry, slot)->sharing, 0);
	assert_int_equal(member_open(&next, address), 0);
	assert_true(is_reached(&next, address));
	assert_int_equal(use_ports(next.host, &ports), 0);
	host_ports_close(ports);
	member_leave(&next);
}

static void alone_at_any_store(void **state)
{
	struct link_address address = members_address("127.24.6.1");
	uint32_t n = 0;

	(void)state;
	while (!end_a_life(&address, n, HOST_SLOT_NONE)) {
		come_after(&address, 1);
		assert_true(++n < STORES_MAX);
	}
	/* At least its slot was cleared, filled, and cleared again. */
	assert_true(n > 2 * HOST_ADDRESSES_MAX * 6);
}

/* Served by processes of their own: forked children of this one must not find a thread's lock. */
static void beside_others_at_any_store(void **state)
{
	struct link_address address = members_address("127.24.6.2");
	struct child_member lasting = child_join(&address), dead;
	struct member member;
	uint32_t n = 0, whole_count = 0;

	(void)state;
	assert_int_equal(lasting.error, 0);
	/*
	 * Each life also buries one who died before; but if chance gives it that one's slot it has
	 * nobody to bury and is whole with fewer stores.
	 */
	while (whole_count < 4) {
		dead = child_join(&address);
		assert_int_equal(dead.error, 0);
		child_kill(&dead);
		whole_count = end_a_life(&address, n, dead.slot) ? whole_count + 1 : 0;
		assert_true(++n < STORES_MAX);
	}
	come_after(&address, 2);
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(member_open(&member, &address), 0);
	assert_true(is_reached(&member, &address));
	assert_true(n > 3 * HOST_ADDRESSES_MAX * 6);
	assert_int_equal(child_leave(&lasting), 0);
	assert_int_equal(count_members(member.host), 1);
	member_leave(&member);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone_at_any_store),
		cmocka_unit_test(beside_others_at_any_store),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
