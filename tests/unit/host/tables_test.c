/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory by which members access each other's: whose bytes are whose, and when they are empty. */
#include "unit/host/members.h"

#include <string.h>
#include <unistd.h>

#include "host/tables.h"

#define ADDRESS "127.24.9.1"

static struct link_address address;

static void begin(struct member *member)
{
	address = members_address(ADDRESS);
	assert_int_equal(member_join(member), 0);
	assert_int_equal(member_open(member, &address), 0);
}

static bool is_empty(const void *bytes, size_t length)
{
	const uint8_t *byte = bytes;

	for (size_t i = 0; i < length; i++)
		if (byte[i])
			return false;
	return true;
}

static void what_one_writes_the_other_reads(void **state)
{
	struct member a, b;
	uint8_t *own, *cells;

	(void)state;
	begin(&a);
	begin(&b);
	own = host_tables_open(a.host);
	assert_non_null(own);
	assert_ptr_equal(host_tables_open(a.host), own);
	own[REGISTRY_TABLES_BYTES - 1] = 0x5a;
	assert_memory_equal(host_tables_look(b.host, host_slot(a.host)), own,
			    REGISTRY_TABLES_BYTES);
	cells = host_announcements_open(a.host, host_slot(b.host));
	assert_non_null(cells);
	cells[0] = cells[REGISTRY_ANNOUNCEMENTS_BYTES - 1] = 0x77;
	assert_memory_equal((const uint8_t *)host_announcements_look(b.host) +
				    (size_t)host_slot(a.host) * REGISTRY_ANNOUNCEMENTS_BYTES,
			    cells, REGISTRY_ANNOUNCEMENTS_BYTES);
	/* And nobody else's. */
	assert_true(is_empty(host_announcements_look(a.host),
			     (size_t)HOST_SLOTS * REGISTRY_ANNOUNCEMENTS_BYTES));
	assert_true(is_empty(host_tables_look(a.host, host_slot(b.host)), REGISTRY_TABLES_BYTES));
	member_leave(&b);
	member_leave(&a);
}

/* What is behind a room is another one's: the last of all ends with the file. */
static void rooms_do_not_overlap(void **state)
{
	(void)state;
	assert_int_equal(registry_tables_offset(0), registry_ring_offset(0, HOST_SLOTS));
	assert_int_equal(registry_announcements_offset(0, 0), registry_tables_offset(HOST_SLOTS));
	assert_int_equal(registry_announcements_offset(HOST_SLOTS - 1, HOST_SLOTS - 1) +
				 REGISTRY_ANNOUNCEMENTS_BYTES,
			 REGISTRY_BYTES);
	assert_int_equal(registry_announcements_offset(1, 0),
			 registry_announcements_offset(0, 0) + REGISTRY_ANNOUNCEMENTS_BYTES);
}

/* Who left or died has published nothing, and announces nothing. */
static void what_is_over_is_empty(void **state)
{
	struct member a, b;
	uint32_t slot;

	(void)state;
	begin(&a);
	begin(&b);
	slot = host_slot(a.host);
	memset(host_tables_open(a.host), 1, REGISTRY_TABLES_BYTES);
	memset(host_announcements_open(a.host, host_slot(b.host)), 1, REGISTRY_ANNOUNCEMENTS_BYTES);
	assert_false(is_empty(host_tables_look(b.host, slot), REGISTRY_TABLES_BYTES));
	member_leave(&a);
	assert_true(is_empty(host_tables_look(b.host, slot), REGISTRY_TABLES_BYTES));
	assert_true(is_empty(host_announcements_look(b.host),
			     (size_t)HOST_SLOTS * REGISTRY_ANNOUNCEMENTS_BYTES));
	member_leave(&b);
}

/* Nor does the next member in a slot inherit what nobody has buried. */
static void a_new_member_begins_with_nothing(void **state)
{
	struct member a, b;
	uint32_t slot;

	(void)state;
	begin(&a);
	begin(&b);
	slot = host_slot(b.host);
	/* As if it had been left there before. */
	for (int i = 0; i < 2; i++) {
		uint64_t offset = i ? registry_announcements_offset(slot, host_slot(a.host))
				    : registry_tables_offset(slot);

		assert_int_equal(pwrite(b.host->registry_file.fd, "x", 1, (off_t)offset), 1);
	}
	assert_false(is_empty(host_tables_look(a.host, slot), 1));
	assert_true(is_empty(host_tables_open(b.host), REGISTRY_TABLES_BYTES));
	assert_true(is_empty(host_announcements_open(b.host, host_slot(a.host)),
			     REGISTRY_ANNOUNCEMENTS_BYTES));
	member_leave(&b);
	member_leave(&a);
}

static void senders_are_those_who_are_attached(void **state)
{
	struct member a, b;
	struct host_peer *peer;

	(void)state;
	begin(&a);
	begin(&b);
	assert_false(host_is_sender(b.host, host_slot(a.host)));
	peer = host_attach(a.host, &address, host_slot(b.host) << HOST_QPN_BITS | 5);
	assert_non_null(peer);
	assert_true(host_is_sender(b.host, host_slot(a.host)));
	assert_false(host_is_sender(a.host, host_slot(b.host)));
	host_detach(a.host, peer);
	assert_false(host_is_sender(b.host, host_slot(a.host)));
	member_leave(&b);
	member_leave(&a);
}

/* By the kernel's word, whatever stands in the registry. */
static void the_process_of_a_peer_is_known(void **state)
{
	struct child_member child;
	struct host_peer *peer;
	struct member a;

	(void)state;
	begin(&a);
	child = child_join(&address);
	assert_int_equal(child.error, 0);
	atomic_store(&registry_slot(&a.host->registry, child.slot)->pid, 1);
	peer = host_attach(a.host, &address, child.slot << HOST_QPN_BITS | 5);
	assert_non_null(peer);
	assert_int_equal(host_peer_process(peer), child.pid);
	host_detach(a.host, peer);
	child_kill(&child);
	member_leave(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_one_writes_the_other_reads),
		cmocka_unit_test(rooms_do_not_overlap),
		cmocka_unit_test(what_is_over_is_empty),
		cmocka_unit_test(a_new_member_begins_with_nothing),
		cmocka_unit_test(senders_are_those_who_are_attached),
		cmocka_unit_test(the_process_of_a_peer_is_known),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
