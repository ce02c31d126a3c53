/* SPDX-License-Identifier: BSD-2-Clause */
/* Members find each other, whoever comes first; slots run out and come back. */
#include "unit/host/members.h"

#include <errno.h>
#include <unistd.h>

static void the_first_member_is_alone(void **state)
{
	struct member member;
	struct registry_member own;

	(void)state;
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(count_members(member.host), 1);
	assert_true(registry_read(&member.host->registry, host_slot(member.host), &own));
	assert_int_equal(own.pid, getpid());
	assert_true(own.command[0] != '\0');
	assert_int_equal(own.address_count, 0);
	member_leave(&member);
}

static void two_members_see_each_other(void **state)
{
	struct link_address address = members_address("127.24.1.1");
	struct registry_member seen;
	struct member members[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(member_join(&members[i]), 0);
		assert_int_equal(member_open(&members[i], &address), 0);
	}
	assert_int_not_equal(host_slot(members[0].host), host_slot(members[1].host));
	for (int i = 0; i < 2; i++) {
		assert_true(registry_read(&members[i].host->registry, host_slot(members[!i].host),
					  &seen));
		assert_int_equal(seen.address_count, 1);
		assert_true(link_address_is_equal(&seen.addresses[0].address, &address));
		assert_true(seen.addresses[0].buffer_bytes > 4096);
		assert_true(is_reached(&members[i], &address));
	}
	member_leave(&members[0]);
	assert_int_equal(count_members(members[1].host), 1);
	assert_true(is_reached(&members[1], &address));
	member_leave(&members[1]);
}

static void slots_run_out_and_come_back(void **state)
{
	static struct member members[HOST_SLOTS];
	struct member late;

	(void)state;
	for (uint32_t i = 0; i < HOST_SLOTS; i++)
		assert_int_equal(member_join(&members[i]), 0);
	assert_int_equal(count_members(members[0].host), HOST_SLOTS);
	assert_int_equal(member_join(&late), -EUSERS);
	member_leave(&members[77]);
	assert_int_equal(member_join(&late), 0);
	member_leave(&late);
	for (uint32_t i = 0; i < HOST_SLOTS; i++) {
		if (members[i].host)
			member_leave(&members[i]);
	}
}

static void a_child_joins_its_parent(void **state)
{
	struct link_address address = members_address("127.24.1.2");
	struct child_member child;
	struct member member;

	(void)state;
	assert_int_equal(member_join(&member), 0);
	assert_int_equal(member_open(&member, &address), 0);
	child = child_join(&address);
	assert_int_equal(child.error, 0);
	assert_int_not_equal(child.slot, host_slot(member.host));
	assert_int_equal(count_members(member.host), 2);
	assert_true(is_reached(&member, &address));
	assert_int_equal(child_leave(&child), 0);
	assert_int_equal(count_members(member.host), 1);
	member_leave(&member);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_member_is_alone),
		cmocka_unit_test(two_members_see_each_other),
		cmocka_unit_test(slots_run_out_and_come_back),
		cmocka_unit_test(a_child_joins_its_parent),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
