/* SPDX-License-Identifier: BSD-2-Clause */
/* Each datagram reaches the socket of the slot in its QPN, or of somebody who lives. */
#include "unit/host/members.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MEMBERS 24

static void check_set(const struct host_slot_set *set)
{
	static struct steering_plan plan;
	struct sock_filter program[100];
	uint32_t count;

	plan.members = *set;
	count = steering_program(&plan, program, 100);
	assert_true(count < 100);
	for (uint32_t qpn = 0; qpn < 1u << 24; qpn += 0x7fff) {
		uint8_t packet[12] = {
			[5] = (uint8_t)(qpn >> 16), [6] = (uint8_t)(qpn >> 8), [7] = (uint8_t)qpn};
		uint32_t slot = host_slot_of_qpn(qpn);
		uint32_t expected = host_slot_set_has(set, slot) ? slot : lowest_slot(set);

		assert_int_equal(run_program(program, count, packet, sizeof(packet)), expected);
		for (uint32_t bytes = 0; bytes < 8; bytes++)
			assert_int_equal(run_program(program, count, packet, bytes),
					 lowest_slot(set));
	}
}

static void the_program_finds_each_slot_of_a_set(void **state)
{
	struct host_slot_set set;

	(void)state;
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		set = (struct host_slot_set){0};
		host_slot_set_add(&set, slot);
		check_set(&set);
	}
	memset(&set, 0xff, sizeof(set));
	check_set(&set);
	srandom(1);
	for (int i = 0; i < 64; i++) {
		set = (struct host_slot_set){{(uint64_t)random() << 32 ^ (uint64_t)random(),
					      (uint64_t)random() << 33 ^ (uint64_t)random()}};
		check_set(&set);
	}
}

static struct member members[MEMBERS];

static void join_all(const struct link_address *address)
{
	for (int i = 0; i < MEMBERS; i++) {
		assert_int_equal(member_join(&members[i]), 0);
		assert_int_equal(member_open(&members[i], address), 0);
	}
}

static void leave_all(void)
{
	for (int i = 0; i < MEMBERS; i++) {
		if (members[i].host)
			member_leave(&members[i]);
	}
}

static bool all_are_reached(const struct link_address *address)
{
	for (int i = 0; i < MEMBERS; i++) {
		if (members[i].host && !is_reached(&members[i], address))
			return false;
	}
	return true;
}

static struct member *lowest_member(void)
{
	struct member *first = NULL;

	for (int i = 0; i < MEMBERS; i++) {
		if (members[i].host &&
		    (!first || host_slot(members[i].host) < host_slot(first->host)))
			first = &members[i];
	}
	return first;
}

static void members_are_reached_on(const char *text)
{
	struct link_address address = members_address(text);

	join_all(&address);
	assert_true(all_are_reached(&address));
	for (int i = 0; i < MEMBERS; i += 3)
		member_leave(&members[i]);
	assert_true(all_are_reached(&address));
	leave_all();
}

static void each_member_is_reached(void **state)
{
	(void)state;
	members_are_reached_on("127.24.2.1");
}

static void each_member_is_reached_over_ipv6(void **state)
{
	(void)state;
	members_are_reached_on("::1");
}

static void what_is_nobodys_goes_to_the_lowest(void **state)
{
	struct link_address address = members_address("127.24.2.2");
	uint32_t unclaimed = 0;
	size_t lengths[HOST_SLOTS + 8], expected = 0;

	(void)state;
	join_all(&address);
	/* So that slot 0 is nobody's, most of the time. */
	while (host_slot(lowest_member()->host) == 0)
		member_leave(lowest_member());
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		bool is_claimed = false;

		for (int i = 0; i < MEMBERS; i++)
			is_claimed |= members[i].host && host_slot(members[i].host) == slot;
		if (is_claimed)
			continue;
		send_to_qpn(&address, slot << HOST_QPN_BITS | 5, 12);
		unclaimed++;
	}
	for (size_t bytes = 0; bytes <= 5; bytes++)
		send_to_qpn(&address, 0xffffff, bytes);
	expected = unclaimed + 6;
	assert_int_equal(receive_all(lowest_member()->receiver.fd, lengths, HOST_SLOTS + 8),
			 expected);
	assert_true(all_are_reached(&address));
	leave_all();
}

static void a_slot_is_given_on_without_what_was_queued(void **state)
{
	struct link_address address = members_address("127.24.2.3");
	struct member stays, goes;
	uint32_t slot;
	size_t lengths[8];

	(void)state;
	assert_int_equal(member_join(&stays), 0);
	assert_int_equal(member_open(&stays, &address), 0);
	assert_int_equal(member_join(&goes), 0);
	assert_int_equal(member_open(&goes, &address), 0);
	slot = host_slot(goes.host);
	for (int i = 0; i < 4; i++)
		send_to_qpn(&address, slot << HOST_QPN_BITS, 40);
	member_leave(&goes);
	/* Until chance gives the slot again. */
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(member_join(&goes), 0);
		if (host_slot(goes.host) == slot)
			break;
		member_leave(&goes);
	}
	assert_int_equal(host_slot(goes.host), slot);
	assert_int_equal(member_open(&goes, &address), 0);
	assert_int_equal(receive_all(goes.receiver.fd, lengths, 8), 0);
	assert_true(is_reached(&goes, &address));
	member_leave(&goes);
	member_leave(&stays);
}

static void without_steering_all_share_one_socket(void **state)
{
	const struct host_options options = {.has_no_steering = true};
	struct link_address address = members_address("127.24.2.4");
	struct member pair[2], steering;
	size_t lengths[4];

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(member_join_with(&pair[i], &options), 0);
		assert_int_equal(member_open(&pair[i], &address), 0);
	}
	/* Whoever comes later has to take it as it is. */
	assert_int_equal(member_join(&steering), 0);
	assert_int_equal(member_open(&steering, &address), 0);
	for (int i = 0; i < 2; i++) {
		send_to_qpn(&address, host_slot(pair[i].host) << HOST_QPN_BITS, 48);
		assert_int_equal(receive_all(pair[!i].receiver.fd, lengths, 4), 1);
	}
	send_to_qpn(&address, host_slot(pair[0].host) << HOST_QPN_BITS, 48);
	member_leave(&pair[1]);
	assert_int_equal(receive_all(steering.receiver.fd, lengths, 4), 1);
	member_leave(&pair[0]);
	member_leave(&steering);
}

static void several_addresses_are_steered_apart(void **state)
{
	struct link_address addresses[HOST_ADDRESSES_MAX + 1];
	struct descriptor receivers[2][HOST_ADDRESSES_MAX], none;
	struct member pair[2];
	const char *why;
	size_t lengths[4];

	(void)state;
	for (int i = 0; i <= HOST_ADDRESSES_MAX; i++) {
		char text[32];

		snprintf(text, sizeof(text), "127.24.3.%d", i + 1);
		addresses[i] = members_address(text);
	}
	for (int m = 0; m < 2; m++) {
		assert_int_equal(member_join(&pair[m]), 0);
		for (int i = 0; i < HOST_ADDRESSES_MAX; i++)
			assert_int_equal(host_open_address(pair[m].host, &addresses[i],
							   &receivers[m][i], &why),
					 0);
		assert_int_equal(host_open_address(pair[m].host, &addresses[HOST_ADDRESSES_MAX],
						   &none, &why),
				 -ENOSPC);
		assert_non_null(why);
		assert_int_equal(host_open_address(pair[m].host, &addresses[3], &none, &why),
				 -EALREADY);
	}
	for (int m = 0; m < 2; m++) {
		for (int i = 0; i < HOST_ADDRESSES_MAX; i++) {
			send_to_qpn(&addresses[i], host_slot(pair[m].host) << HOST_QPN_BITS, 48);
			assert_int_equal(receive_all(receivers[m][i].fd, lengths, 4), 1);
		}
	}
	for (int m = 0; m < 2; m++) {
		for (int i = 0; i < HOST_ADDRESSES_MAX; i++)
			descriptor_close(&receivers[m][i]);
		member_leave(&pair[m]);
	}
}

/* All programs of a user share what may be in flight: half of it is left alone. */
static void few_groups_are_whole_where_files_are_few(void **state)
{
	struct descriptor receivers[HOST_ADDRESSES_MAX];
	struct rlimit before, few;
	struct member member;
	const char *why;
	size_t lengths[4];
	int whole = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){1024, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(member_join(&member), 0);
	for (int i = 0; i < HOST_ADDRESSES_MAX; i++) {
		char text[32];
		struct link_address address;

		snprintf(text, sizeof(text), "127.24.4.%d", i + 1);
		address = members_address(text);
		assert_int_equal(host_open_address(member.host, &address, &receivers[i], &why), 0);
		whole += member.host->addresses[i].is_steered;
		send_to_qpn(&address, host_slot(member.host) << HOST_QPN_BITS, 48);
		assert_int_equal(receive_all(receivers[i].fd, lengths, 4), 1);
	}
	assert_int_equal(whole, 4);
	for (int i = 0; i < HOST_ADDRESSES_MAX; i++)
		descriptor_close(&receivers[i]);
	member_leave(&member);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_finds_each_slot_of_a_set),
		cmocka_unit_test(each_member_is_reached),
		cmocka_unit_test(each_member_is_reached_over_ipv6),
		cmocka_unit_test(what_is_nobodys_goes_to_the_lowest),
		cmocka_unit_test(a_slot_is_given_on_without_what_was_queued),
		cmocka_unit_test(without_steering_all_share_one_socket),
		cmocka_unit_test(several_addresses_are_steered_apart),
		cmocka_unit_test(few_groups_are_whole_where_files_are_few),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
