/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices of a machine made for the purpose: a network namespace with interfaces of its own, in
 * a child. Where neither root nor a user namespace is to be had, the test is skipped.
 */
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/device.h"
#include "unit/engine/in_child.h"

#define SKIPPED 77

static void run(const char *command)
{
	if (system(command) != 0) {
		fprintf(stderr, "%s failed\n", command);
		_exit(CHILD_WRONG);
	}
}

static void enter_namespace(void)
{
	if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		_exit(SKIPPED);
	if (system("ip link set lo up && ip link add va type veth peer name vb "
		   ">/dev/null 2>&1") != 0)
		_exit(SKIPPED);
}

static void expect_child(void (*body)(void))
{
	int status = in_child(body);

	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		skip();
	assert_true(child_succeeded(status));
}

static struct settings with_address(const char *text)
{
	struct settings settings = {.has_address = true};

	CHECK(settings_parse_address(text, &settings.address));
	return settings;
}

static bool is_address(const struct link_address *address, const char *text)
{
	struct link_address expected;

	CHECK(settings_parse_address(text, &expected));
	return link_address_is_equal(address, &expected);
}

/* va has two IPv4 addresses, one with a label, and a global IPv6 one; vb has none. */
static void add_addresses(void)
{
	run("ip link set va up && ip link set vb up");
	run("ip addr add fd66::5/64 dev va nodad");
	run("ip addr add 10.66.0.5/24 dev va");
	run("ip addr add 10.77.0.9/16 dev va label va:1");
	run("ip addr add fd66::1/128 dev lo");
	run("ip addr add fe80::66/64 dev va nodad && ip addr add fe80::67/64 dev vb nodad");
}

static void check_list(void)
{
	struct settings settings = {0};
	struct device *devices;
	size_t count;

	enter_namespace();
	add_addresses();
	devices = device_list(&settings, &count);
	CHECK(devices && count == 2);
	CHECK(strcmp(devices[0].name, "vbn0") == 0 && strcmp(devices[0].interface, "va") == 0);
	CHECK(strcmp(devices[1].name, "vbn1") == 0 && strcmp(devices[1].interface, "lo") == 0);
	CHECK(!devices[0].is_loopback && devices[1].is_loopback);
	CHECK(devices[0].interface_index == if_nametoindex("va"));
	CHECK(devices[0].gid_count == 3);
	CHECK(is_address(&devices[0].gids[0].address, "10.66.0.5"));
	CHECK(is_address(&devices[0].gids[1].address, "10.77.0.9"));
	CHECK(is_address(&devices[0].gids[2].address, "fd66::5"));
	CHECK(memcmp(devices[0].gid_shown[2], devices[0].gids[2].address.gid, 16) == 0);
	CHECK(is_address(&devices[1].gids[0].address, "127.0.0.1"));
	CHECK(devices[0].guid != 0 && devices[1].guid != 0 && devices[0].guid != devices[1].guid);
	free(devices);
	/* Link-local ones come last, with their interface, and only if asked for. */
	settings.has_link_local_gids = true;
	devices = device_list(&settings, &count);
	CHECK(devices && count == 3);
	CHECK(devices[0].interface_index < devices[1].interface_index);
	const struct device *va = &devices[strcmp(devices[0].interface, "va") == 0 ? 0 : 1];

	CHECK(va->gid_count >= 4 && is_address(&va->gids[2].address, "fd66::5"));
	for (uint32_t i = 3; i < va->gid_count; i++) {
		CHECK(va->gids[i].address.gid[0] == 0xfe);
		CHECK(va->gids[i].address.scope == va->interface_index);
	}
	CHECK(devices[2].is_loopback);
	free(devices);
}

static void check_mtu(void)
{
	static const struct {
		unsigned int bytes;
		enum ibv_mtu mtu;
	} rows[] = {
		{128, IBV_MTU_256},   {340, IBV_MTU_256},   {595, IBV_MTU_256},
		{596, IBV_MTU_512},   {1107, IBV_MTU_512},  {1108, IBV_MTU_1024},
		{1500, IBV_MTU_1024}, {2131, IBV_MTU_1024}, {2132, IBV_MTU_2048},
		{4179, IBV_MTU_2048}, {4180, IBV_MTU_4096}, {9000, IBV_MTU_4096},
	};
	struct settings settings = {0};

	enter_namespace();
	run("ip link set va up && ip addr add 10.66.0.5/24 dev va");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_port_attr attr;
		struct device *devices;
		char command[64];
		size_t count;

		snprintf(command, sizeof(command), "ip link set va mtu %u", rows[i].bytes);
		run(command);
		devices = device_list(&settings, &count);
		CHECK(devices && count == 2);
		CHECK(devices[0].interface_mtu == rows[i].bytes);
		device_fill_port_attr(&devices[0], &attr);
		CHECK(attr.active_mtu == rows[i].mtu && attr.max_mtu == IBV_MTU_4096);
		CHECK(devices[1].active_mtu == IBV_MTU_4096);
		free(devices);
	}
}

static void check_addresses(void)
{
	static const char *const on_loopback[] = {"127.0.0.1", "127.66.0.1", "127.255.255.254"};
	struct settings settings;
	struct device *devices;
	size_t count;

	enter_namespace();
	add_addresses();
	for (size_t i = 0; i < 3; i++) {
		settings = with_address(on_loopback[i]);
		devices = device_list(&settings, &count);
		CHECK(devices && count == 1 && devices[0].is_loopback);
		CHECK(devices[0].gid_count == 1 && strcmp(devices[0].name, "vbn0") == 0);
		CHECK(is_address(&devices[0].gids[0].address, on_loopback[i]));
		free(devices);
	}
	settings = with_address("10.77.0.9");
	devices = device_list(&settings, &count);
	CHECK(devices && count == 1 && strcmp(devices[0].interface, "va") == 0);
	CHECK(devices[0].gid_count == 1 && is_address(&devices[0].gids[0].address, "10.77.0.9"));
	free(devices);
	settings = with_address("10.9.9.9");
	devices = device_list(&settings, &count);
	CHECK(devices && count == 0);
	free(devices);
}

/* GUID and LID lead back to the address, each by itself. */
static void check_infiniband(void)
{
	struct settings settings = {.is_infiniband = true};
	struct link_address peer;
	struct device *devices;
	uint8_t gid[16];
	size_t count;

	enter_namespace();
	add_addresses();
	devices = device_list(&settings, &count);
	CHECK(devices && count == 2 && devices[0].is_infiniband);
	CHECK(devices[0].lid == 5 && devices[0].gid_count == 1);
	CHECK(devices[0].gid_shown[0][0] == 0xfe && devices[0].gid_shown[0][1] == 0x80);
	CHECK(memcmp(devices[0].gid_shown[0] + 8, &devices[0].guid, 8) == 0);
	peer = device_lid_address(&devices[0], 7);
	CHECK(is_address(&peer, "10.66.0.7"));
	peer = device_lid_address(&devices[0], devices[0].lid);
	CHECK(is_address(&peer, "10.66.0.5"));
	peer = device_gid_address(&devices[0], devices[0].gid_shown[0]);
	CHECK(is_address(&peer, "10.66.0.5"));
	memcpy(gid, devices[0].gid_shown[0], 16);
	gid[15] = 77;
	peer = device_gid_address(&devices[0], gid);
	CHECK(is_address(&peer, "10.66.0.77"));
	CHECK(devices[1].lid == 1);
	free(devices);
	/* Each address has its own prefix, which tells the host part. */
	settings = with_address("10.77.0.9");
	settings.is_infiniband = true;
	devices = device_list(&settings, &count);
	CHECK(devices && count == 1 && devices[0].lid == 9 && devices[0].subnet_bits == 16);
	peer = device_lid_address(&devices[0], 0x0102);
	CHECK(is_address(&peer, "10.77.1.2"));
	free(devices);
	/* A host part that is no LID makes no device: 127.66.0.1 is host 0x420001 of 127/8. */
	settings = with_address("127.66.0.1");
	settings.is_infiniband = true;
	devices = device_list(&settings, &count);
	CHECK(devices && count == 0);
	free(devices);
}

static char told[2048];

static void tell(void *context, const char *text)
{
	CHECK(context == told);
	size_t length = strlen(told);

	snprintf(told + length, sizeof(told) - length, "%s\n", text);
}

static void check_reasons(void)
{
	struct settings settings = {0};

	enter_namespace();
	run("ip link set vb up");
	run("ip link set vb addrgenmode none && ip addr flush dev vb");
	device_explain_unused(&settings, tell, told);
	CHECK(strcmp(told, "vb has no IP address\nva is down; bring it up with ip link set\n") ==
		      0 ||
	      strcmp(told, "va is down; bring it up with ip link set\nvb has no IP address\n") ==
		      0);
	told[0] = '\0';
	settings = with_address("10.9.9.9");
	device_explain_unused(&settings, tell, told);
	CHECK(strcmp(told, "no interface has the address that VERBENA_ADDRESS asks for\n") == 0);
}

/* More interfaces than any table of fixed size would hold. */
static void check_many(void)
{
	struct settings settings = {0};
	struct device *devices;
	size_t count;

	enter_namespace();
	for (int i = 0; i < 35; i++) {
		char command[128];

		snprintf(command, sizeof(command),
			 "ip link add w%d type veth peer name x%d && ip link set w%d up", i, i, i);
		run(command);
	}
	run("ip addr add 10.66.0.5/24 dev w34");
	devices = device_list(&settings, &count);
	CHECK(devices && count == 2 && strcmp(devices[0].interface, "w34") == 0);
	free(devices);
}

static void devices_in_order(void **state)
{
	(void)state;
	expect_child(check_list);
}

static void the_mtu_leaves_room_for_headers(void **state)
{
	(void)state;
	expect_child(check_mtu);
}

static void one_address_is_one_device(void **state)
{
	(void)state;
	expect_child(check_addresses);
}

static void infiniband_leads_back_to_addresses(void **state)
{
	(void)state;
	expect_child(check_infiniband);
}

static void unused_interfaces_have_a_reason(void **state)
{
	(void)state;
	expect_child(check_reasons);
}

static void many_interfaces_hide_none(void **state)
{
	(void)state;
	expect_child(check_many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_in_order),
		cmocka_unit_test(the_mtu_leaves_room_for_headers),
		cmocka_unit_test(one_address_is_one_device),
		cmocka_unit_test(infiniband_leads_back_to_addresses),
		cmocka_unit_test(unused_interfaces_have_a_reason),
		cmocka_unit_test(many_interfaces_hide_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
