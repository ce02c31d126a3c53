/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams for QP 1: whose socket each comes to, and that host_management_slot() says the same.
 */
#include "unit/host/management_packets.h"
#include "unit/host/members.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/byte_order.h"
#include "base/random.h"

#define MEMBERS 12

static struct member members[MEMBERS];
static struct host_ports *ports[MEMBERS];

static void join_all(const struct link_address *address)
{
	for (int i = 0; i < MEMBERS; i++) {
		assert_int_equal(member_join(&members[i]), 0);
		if (address)
			assert_int_equal(member_open(&members[i], address), 0);
		ports[i] = NULL;
	}
}

static void serve(int i)
{
	assert_int_equal(host_ports_open(members[i].host, &ports[i]), 0);
}

static void leave_all(void)
{
	for (int i = 0; i < MEMBERS; i++) {
		if (ports[i])
			host_ports_close(ports[i]);
		ports[i] = NULL;
		if (members[i].host)
			member_leave(&members[i]);
	}
}

static uint32_t slot_of(int i)
{
	return host_slot(members[i].host);
}

/* The one member that gets the packet; -1: none, -2: several. */
static int receiver_of(const struct link_address *address, const uint8_t *packet)
{
	struct pollfd polls[MEMBERS];
	uint8_t byte;
	int receiver = -1;

	for (int i = 0; i < MEMBERS; i++)
		polls[i] = (struct pollfd){
			.fd = members[i].host ? members[i].receiver.fd : -1,
			.events = POLLIN,
		};
	send_packet(address, packet, DATAGRAM_BYTES);
	/* Loopback delivers within the call; the wait is for a system that does not. */
	poll(polls, MEMBERS, 10);
	for (int i = 0; i < MEMBERS; i++)
		while (polls[i].fd >= 0 && recv(polls[i].fd, &byte, 1, MSG_DONTWAIT) > 0)
			receiver = receiver == -1 ? i : -2;
	return receiver;
}

/* And all members know it as well, but for what is nobody's in particular. */
static void assert_reaches(const struct link_address *address, const uint8_t *packet, int expected)
{
	assert_int_equal(receiver_of(address, packet), expected);
	for (int i = 0; i < MEMBERS; i++)
		if (members[i].host)
			assert_int_equal(host_management_slot(members[i].host, address, packet,
							      PACKET_BYTES),
					 slot_of(expected));
}

static int lowest_member(void)
{
	int lowest = -1;

	for (int i = 0; i < MEMBERS; i++)
		if (members[i].host && (lowest < 0 || slot_of(i) < slot_of(lowest)))
			lowest = i;
	return lowest;
}

static void messages_reach_their_slot_on(const char *text)
{
	static const enum attribute messages[] = {MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REP, LAP};
	struct link_address address = members_address(text);
	uint8_t packet[DATAGRAM_BYTES];

	join_all(&address);
	for (int i = 0; i < MEMBERS; i++) {
		for (size_t m = 0; m < sizeof(messages) / sizeof(messages[0]); m++) {
			fill_message(packet, messages[m], slot_of(i), slot_of((i + 1) % MEMBERS));
			assert_reaches(&address, packet, i);
		}
		fill_management(packet, 0x31, 0x81, 1);
		store_be64(packet + 28, host_transaction_id(slot_of(i), 99));
		assert_reaches(&address, packet, i);
	}
	leave_all();
}

static void messages_reach_their_slot(void **state)
{
	(void)state;
	messages_reach_their_slot_on("127.24.7.1");
}

static void messages_reach_their_slot_over_ipv6(void **state)
{
	(void)state;
	messages_reach_their_slot_on("::1");
}

static void what_is_nobodys_goes_to_who_serves(void **state)
{
	struct link_address address = members_address("127.24.7.2");
	uint8_t garbage[DATAGRAM_BYTES], request[DATAGRAM_BYTES];
	int highest = 0;

	(void)state;
	fill_management(garbage, 0x31, 1, 1);
	fill_request(request, REQ, host_service_id(HOST_PORT_SPACE_TCP, 7174));
	join_all(&address);
	/* Nobody serves: the lowest, and whoever has it keeps it. */
	assert_int_equal(receiver_of(&address, garbage), lowest_member());
	assert_int_equal(receiver_of(&address, request), lowest_member());
	for (int i = 0; i < MEMBERS; i++) {
		assert_int_equal(host_management_slot(members[i].host, &address, garbage,
						      PACKET_BYTES),
				 slot_of(i));
		if (slot_of(i) > slot_of(highest))
			highest = i;
	}
	serve(highest);
	assert_reaches(&address, garbage, highest);
	assert_reaches(&address, request, highest);
	/* Of several the lowest. One that serves keeps what it has. */
	for (int i = 0; i < MEMBERS; i++)
		if (i != highest)
			serve(i);
	assert_int_equal(receiver_of(&address, garbage), lowest_member());
	assert_int_equal(host_management_slot(members[highest].host, &address, garbage,
					      PACKET_BYTES),
			 slot_of(highest));
	leave_all();
}

static struct host_port *claim(int i, enum host_port_space space, const char *text, uint16_t number)
{
	const struct host_port_wish wish = {.space = space,
					    .address = members_address(text),
					    .port = number,
					    .is_family_only = !strchr(text, ':')};
	struct host_port *port = NULL;

	if (!ports[i])
		serve(i);
	assert_int_equal(host_port_claim(ports[i], &wish, &port), 0);
	return port;
}

static struct host_port *listen_on(int i, enum host_port_space space, const char *text,
				   uint16_t number)
{
	struct host_port *port = claim(i, space, text, number);

	assert_int_equal(host_port_listen(ports[i], port), 0);
	return port;
}

static void listeners_come_and_go(void **state)
{
	struct link_address address = members_address("127.24.7.3");
	struct host_port *tcp[MEMBERS], *udp, *waits;
	uint8_t packet[DATAGRAM_BYTES];

	(void)state;
	join_all(&address);
	for (int i = 0; i < MEMBERS; i++)
		tcp[i] = listen_on(i, HOST_PORT_SPACE_TCP, i % 2 ? "0.0.0.0" : "127.24.7.3",
				   (uint16_t)(5000 + i));
	udp = listen_on(3, HOST_PORT_SPACE_UDP, "127.24.7.3", 5001);
	for (int i = 0; i < MEMBERS; i++) {
		fill_request(packet, REQ, host_port_service_id(tcp[i]));
		assert_reaches(&address, packet, i);
	}
	fill_request(packet, SIDR_REQ, host_port_service_id(udp));
	assert_reaches(&address, packet, 3);
	/* A port that is only claimed hears nothing; given back, its requests are nobody's. */
	waits = claim(2, HOST_PORT_SPACE_TCP, "127.24.7.3", 6000);
	fill_request(packet, REQ, host_port_service_id(waits));
	assert_int_equal(receiver_of(&address, packet), lowest_member());
	fill_request(packet, REQ, host_port_service_id(tcp[5]));
	host_port_release(ports[5], tcp[5]);
	assert_int_equal(receiver_of(&address, packet), lowest_member());
	listen_on(4, HOST_PORT_SPACE_TCP, "0.0.0.0", 5005);
	assert_reaches(&address, packet, 4);
	/* Twice is as good as once. */
	assert_int_equal(host_port_listen(ports[4], tcp[4]), 0);
	host_ports_close(ports[4]);
	ports[4] = NULL;
	assert_int_equal(receiver_of(&address, packet), lowest_member());
	leave_all();
}

/* Two on one port at two addresses, and a host of its own beside a wildcard. */
static void the_address_decides(void **state)
{
	struct link_address addresses[3] = {members_address("127.24.7.4"),
					    members_address("127.24.7.5"),
					    members_address("127.24.7.6")};
	struct host_port_wish own = {.space = HOST_PORT_SPACE_TCP,
				     .address = addresses[2],
				     .port = 6001,
				     .is_confined = true};
	uint8_t packet[DATAGRAM_BYTES];
	struct descriptor receivers[3][2];
	struct host_port *port;
	const char *why;

	(void)state;
	join_all(NULL);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(host_open_address(members[i].host, &addresses[i], &receivers[i][0],
						   &why),
				 0);
		assert_int_equal(host_open_address(members[i].host, &addresses[(i + 1) % 3],
						   &receivers[i][1], &why),
				 0);
	}
	/* At address 0 are members 0 and 2, at 1: 1 and 0, at 2: 2 and 1. */
	listen_on(0, HOST_PORT_SPACE_TCP, "127.24.7.4", 6000);
	listen_on(1, HOST_PORT_SPACE_TCP, "127.24.7.5", 6000);
	listen_on(1, HOST_PORT_SPACE_TCP, "0.0.0.0", 6001);
	serve(2);
	assert_int_equal(host_port_claim(ports[2], &own, &port), 0);
	assert_int_equal(host_port_listen(ports[2], port), 0);
	for (int a = 0; a < 3; a++)
		for (uint16_t number = 6000; number <= 6001; number++) {
			static const int expected[3][2] = {{0, -1}, {1, 1}, {-1, 2}};
			int to = expected[a][number - 6000];
			size_t lengths[2];

			fill_request(packet, REQ, host_service_id(HOST_PORT_SPACE_TCP, number));
			if (to < 0)
				continue;
			send_packet(&addresses[a], packet, DATAGRAM_BYTES);
			assert_int_equal(
				receive_all(receivers[to][(a - to + 3) % 3].fd, lengths, 2), 1);
			for (int i = 0; i < 3; i++)
				assert_int_equal(host_management_slot(members[i].host,
								      &addresses[a], packet,
								      PACKET_BYTES),
						 slot_of(to));
		}
	for (int i = 0; i < 3; i++)
		for (int a = 0; a < 2; a++)
			descriptor_close(&receivers[i][a]);
	leave_all();
}

static void a_wildcard_of_ipv6_hears_ipv4_unless_told(void **state)
{
	struct link_address address = members_address("127.24.7.7");
	struct host_port_wish wish = {.space = HOST_PORT_SPACE_TCP, .port = 6100};
	uint8_t packet[DATAGRAM_BYTES];
	struct host_port *port;

	(void)state;
	join_all(&address);
	for (int i = 0; i < 2; i++) {
		serve(i);
		wish.is_family_only = i == 1;
		wish.port++;
		assert_int_equal(host_port_claim(ports[i], &wish, &port), 0);
		assert_int_equal(host_port_listen(ports[i], port), 0);
	}
	fill_request(packet, REQ, host_service_id(HOST_PORT_SPACE_TCP, 6101));
	assert_reaches(&address, packet, 0);
	fill_request(packet, REQ, host_service_id(HOST_PORT_SPACE_TCP, 6102));
	/* The lower one of the two that serve. */
	assert_int_equal(receiver_of(&address, packet), slot_of(0) < slot_of(1) ? 0 : 1);
	leave_all();
}

/* More than the program may have, of which the rest goes to one who knows whose it is. */
static void listeners_beyond_the_program_are_known(void **state)
{
	struct link_address address = members_address("127.24.7.8");
	uint8_t packet[DATAGRAM_BYTES];
	uint32_t direct = 0, all = 0;

	(void)state;
	join_all(NULL);
	/* Before the address is open, so that each is not a new program. */
	for (int i = 0; i < MEMBERS; i++)
		for (uint32_t n = 0; n < HOST_LISTENERS_MAX; n++)
			listen_on(i, HOST_PORT_SPACE_TCP, "0.0.0.0",
				  (uint16_t)(1000 + i * HOST_LISTENERS_MAX + n));
	for (int i = 0; i < MEMBERS; i++)
		assert_int_equal(member_open(&members[i], &address), 0);
	for (int i = 0; i < MEMBERS; i++)
		for (uint32_t n = 0; n < HOST_LISTENERS_MAX; n += 37) {
			uint32_t number = 1000 + (uint32_t)i * HOST_LISTENERS_MAX + n;
			int to;

			fill_request(packet, REQ,
				     host_service_id(HOST_PORT_SPACE_TCP, (uint16_t)number));
			all++;
			to = receiver_of(&address, packet);
			assert_true(to == i || to == lowest_member());
			direct += to == i;
			for (int m = 0; m < MEMBERS; m += 5)
				assert_int_equal(host_management_slot(members[m].host, &address,
								      packet, PACKET_BYTES),
						 slot_of(i));
		}
	assert_in_range(direct, all / 20, all - all / 20);
	{
		const struct host_port_wish wish = {.space = HOST_PORT_SPACE_TCP};
		struct host_port *one_more;

		assert_int_equal(host_port_claim(ports[0], &wish, &one_more), 0);
		assert_int_equal(host_port_listen(ports[0], one_more), -ENOSPC);
	}
	leave_all();
}

/* Of somebody who does not know whom he asked: the receiver's id is 0, whatever his own says. */
static void what_names_no_receiver_goes_to_who_serves(void **state)
{
	static const enum attribute messages[] = {MRA, REJ, REP, RTU, DREQ, DREP, LAP, APR};
	struct link_address address = members_address("127.24.7.12");
	uint8_t packet[DATAGRAM_BYTES];
	struct host_slot_set others;
	int lowest;

	(void)state;
	join_all(&address);
	for (int i = 0; i < MEMBERS; i++)
		serve(i);
	lowest = lowest_member();
	for (size_t m = 0; m < sizeof(messages) / sizeof(messages[0]); m++) {
		fill_message(packet, messages[m], slot_of(3), slot_of(4));
		assert_false(host_management_is_anonymous(packet, PACKET_BYTES));
		store_be32(packet + 48, 0);
		assert_true(host_management_is_anonymous(packet, PACKET_BYTES));
		assert_false(host_management_is_anonymous(packet, PACKET_BYTES - 1));
		assert_int_equal(receiver_of(&address, packet), lowest);
	}
	/* These have no receiver's id in that place. */
	fill_request(packet, REQ, host_service_id(HOST_PORT_SPACE_TCP, 7174));
	store_be32(packet + 48, 0);
	assert_false(host_management_is_anonymous(packet, PACKET_BYTES));
	fill_message(packet, SIDR_REP, slot_of(3), 0);
	assert_false(host_management_is_anonymous(packet, PACKET_BYTES));
	listen_on(5, HOST_PORT_SPACE_TCP, "127.24.7.12", 6500);
	listen_on(7, HOST_PORT_SPACE_TCP, "127.24.7.12", 6501);
	others = host_management_listeners(members[5].host, &address);
	for (int i = 0; i < MEMBERS; i++)
		assert_int_equal(host_slot_set_has(&others, slot_of(i)), i == 7);
	leave_all();
}

static void a_stopped_member_disturbs_nobody(void **state)
{
	struct link_address address = members_address("127.24.7.9");
	const struct host_port_wish wish = {
		.space = HOST_PORT_SPACE_TCP, .address = address, .port = 6200};
	struct child_member child = child_join(&address);
	uint8_t packet[DATAGRAM_BYTES];
	struct host_port *port;

	(void)state;
	assert_int_equal(child.error, 0);
	assert_int_equal(child_claim(&child, &wish, NULL), 0);
	assert_int_equal(child_listen(&child), 0);
	kill(child.pid, SIGSTOP);
	join_all(&address);
	port = listen_on(1, HOST_PORT_SPACE_TCP, "127.24.7.9", 6201);
	fill_request(packet, REQ, host_port_service_id(port));
	assert_reaches(&address, packet, 1);
	for (int i = 0; i < MEMBERS; i++) {
		fill_message(packet, REP, slot_of(i), child.slot);
		assert_reaches(&address, packet, i);
	}
	/* Its own wait for it. */
	fill_request(packet, REQ, host_service_id(HOST_PORT_SPACE_TCP, 6200));
	assert_int_equal(receiver_of(&address, packet), -1);
	assert_int_equal(host_management_slot(members[0].host, &address, packet, PACKET_BYTES),
			 child.slot);
	kill(child.pid, SIGCONT);
	assert_int_equal(child_leave(&child), 0);
	leave_all();
}

static void a_killed_listeners_port_is_free_at_once(void **state)
{
	struct link_address address = members_address("127.24.7.10");
	const struct host_port_wish wish = {
		.space = HOST_PORT_SPACE_TCP, .address = address, .port = 6300};
	uint8_t packet[DATAGRAM_BYTES];

	(void)state;
	fill_request(packet, REQ, host_service_id(HOST_PORT_SPACE_TCP, 6300));
	join_all(&address);
	for (int i = 0; i < 3; i++) {
		struct child_member child = child_join(&address);
		struct host_port *port;

		assert_int_equal(child.error, 0);
		assert_int_equal(child_claim(&child, &wish, NULL), 0);
		assert_int_equal(child_listen(&child), 0);
		assert_int_equal(receiver_of(&address, packet), -1);
		child_kill(&child);
		port = listen_on(i, HOST_PORT_SPACE_TCP, "127.24.7.10", 6300);
		assert_reaches(&address, packet, i);
		host_port_release(ports[i], port);
	}
	leave_all();
}

/* Garbage in the slots of others: never out of bounds, and those who live are reached. */
static void garbage_in_slots_is_no_harm(void **state)
{
	struct link_address address = members_address("127.24.7.11");
	struct random_stream numbers = {.state = 6};
	uint8_t packet[DATAGRAM_BYTES];
	struct host_port *port;

	(void)state;
	join_all(&address);
	port = listen_on(1, HOST_PORT_SPACE_TCP, "127.24.7.11", 6400);
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		struct registry_slot *room = registry_slot(&members[0].host->registry, slot);

		if (registry_generation_is_member(atomic_load(&room->generation)))
			continue;
		for (size_t i = 0; i < REGISTRY_SLOT_BYTES / 8; i++)
			((uint64_t *)room)[i] = random_next(&numbers);
		/* Nobody's claim is bound, so none of them may be a member's for long. */
		atomic_store(&room->generation, slot * 4 + 2);
	}
	for (uint32_t i = 0; i < 200; i++) {
		fill_request(packet, REQ, random_next(&numbers) & 0x13fffff);
		assert_true(host_management_slot(members[i % MEMBERS].host, &address, packet,
						 PACKET_BYTES) < HOST_SLOTS);
	}
	/* All who are dead are buried at the first conflict, or by whoever looks. */
	host_bury_all(members[0].host);
	fill_request(packet, REQ, host_port_service_id(port));
	assert_reaches(&address, packet, 1);
	leave_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_reach_their_slot),
		cmocka_unit_test(messages_reach_their_slot_over_ipv6),
		cmocka_unit_test(what_is_nobodys_goes_to_who_serves),
		cmocka_unit_test(listeners_come_and_go),
		cmocka_unit_test(the_address_decides),
		cmocka_unit_test(a_wildcard_of_ipv6_hears_ipv4_unless_told),
		cmocka_unit_test(listeners_beyond_the_program_are_known),
		cmocka_unit_test(what_names_no_receiver_goes_to_who_serves),
		cmocka_unit_test(a_stopped_member_disturbs_nobody),
		cmocka_unit_test(a_killed_listeners_port_is_free_at_once),
		cmocka_unit_test(garbage_in_slots_is_no_harm),
	};

	members_isolate_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
