/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How programs find their way: which GID they take by themselves, the name of its interface, and
 * where the device sits. The network is a namespace of this program's own, with one interface whose
 * link-local address is older than its IPv4 address.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cases/loop.h"
#include "tools/fail.h"
#include "tools/nic.h"

#define SKIP 77
#define PORT 1
#define INTERFACE "veth0"
#define OWN "10.81.0.1"
#define LINK_LOCAL "fe80::5"
#define TYPE_ROCE_V2 "RoCE v2"
#define TEXT_BYTES 64

/* Their header is not installed. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static void run(const char *command)
{
	if (system(command) != 0)
		give_up("failed: %s", command);
}

static void enter_network(void)
{
	if (unshare(CLONE_NEWNET) != 0 || system("ip -V >/dev/null 2>&1") != 0) {
		fprintf(stderr, "skipped: a network namespace needs root and the ip command\n");
		exit(SKIP);
	}
	run("ip link add " INTERFACE " type veth peer name veth1");
	run("ip link set " INTERFACE " addrgenmode none");
	run("ip link set veth1 addrgenmode none");
	run("ip address add " LINK_LOCAL "/64 dev " INTERFACE " nodad");
	run("ip address add " OWN "/24 dev " INTERFACE);
	run("ip link set veth1 up");
	run("ip link set " INTERFACE " up");
}

static int open_first(void **state)
{
	struct nic *nic = calloc(1, sizeof(*nic));

	assert_non_null(nic);
	nic_open(nic, NIC_GID_IPV4);
	*state = nic;
	return 0;
}

static int close_first(void **state)
{
	nic_close(*state);
	free(*state);
	return 0;
}

/* Length of the text, or -1 and errno. */
static int read_file(const struct nic *nic, const char *file, char text[TEXT_BYTES])
{
	errno = 0;
	return ibv_read_sysfs_file(nic->context->device->ibdev_path, file, text, TEXT_BYTES);
}

static int read_of_gid(const struct nic *nic, const char *folder, int index, char text[TEXT_BYTES])
{
	char file[TEXT_BYTES];

	snprintf(file, sizeof(file), "ports/%d/%s/%d", PORT, folder, index);
	return read_file(nic, file, text);
}

static void expect_file(const struct nic *nic, const char *file, const char *text)
{
	char seen[TEXT_BYTES];

	assert_int_equal(read_file(nic, file, seen), strlen(text));
	assert_string_equal(seen, text);
}

/* --- which GID programs take --- */

static int table_length(const struct nic *nic)
{
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(nic->context, PORT, &port), 0);
	return port.gid_tbl_len;
}

static union ibv_gid gid_at(const struct nic *nic, int index)
{
	union ibv_gid gid;

	assert_int_equal(ibv_query_gid(nic->context, PORT, index, &gid), 0);
	return gid;
}

static bool is_ipv4(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw);
}

static bool is_link_local(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid->raw);
}

static bool has_type_file(const struct nic *nic, int index)
{
	char type[TEXT_BYTES];

	return read_of_gid(nic, "gid_attrs/types", index, type) > 0 &&
	       strcmp(type, TYPE_ROCE_V2) == 0;
}

static int take_first(const struct nic *nic)
{
	(void)nic;
	return 0;
}

static int take_first_ipv4_of_type(const struct nic *nic)
{
	struct ibv_gid_entry entry;

	for (int i = 0; i < table_length(nic); i++)
		if (ibv_query_gid_ex(nic->context, PORT, (uint32_t)i, &entry, 0) == 0 &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2 && is_ipv4(&entry.gid))
			return i;
	return -1;
}

static int take_from_whole_table(const struct nic *nic)
{
	struct ibv_gid_entry entries[256];
	ssize_t count = ibv_query_gid_table(nic->context, entries, 256, 0);

	for (ssize_t i = 0; i < count; i++)
		if (entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 && is_ipv4(&entries[i].gid))
			return (int)entries[i].gid_index;
	return -1;
}

/* Kind by kind, best first; types are read from files. */
static int take_by_files(const struct nic *nic)
{
	for (int wants_ipv4 = 1; wants_ipv4 >= 0; wants_ipv4--)
		for (int i = 0; i < table_length(nic); i++) {
			union ibv_gid gid = gid_at(nic, i);

			if (has_type_file(nic, i) && is_ipv4(&gid) == wants_ipv4)
				return i;
		}
	return -1;
}

/* From the first entry on to what is better, over empty ones and those of another kind. */
static int take_by_walking(const struct nic *nic)
{
	int taken = 0;

	for (int i = 1; i < table_length(nic); i++) {
		union ibv_gid now = gid_at(nic, taken), next = gid_at(nic, i);

		if (!is_ipv4(&next))
			continue;
		if (!is_ipv4(&now) || (!has_type_file(nic, taken) && has_type_file(nic, i)))
			taken = i;
	}
	return taken;
}

/* To some a private network's address is no better than a link-local one: the lower index. */
static int take_first_usable(const struct nic *nic)
{
	for (int i = 0; i < table_length(nic); i++) {
		union ibv_gid gid = gid_at(nic, i);

		if (has_type_file(nic, i) && (is_ipv4(&gid) || is_link_local(&gid)))
			return i;
	}
	return -1;
}

static const struct heuristic {
	const char *name;
	int (*take)(const struct nic *nic);
	bool goes_by_order;
} heuristics[] = {
	{"the first", take_first, true},
	{"the first usable one", take_first_usable, true},
	{"the first of IPv4 by type", take_first_ipv4_of_type, false},
	{"the first of IPv4 in the whole table", take_from_whole_table, false},
	{"the best by files", take_by_files, false},
	{"the best by walking", take_by_walking, false},
};

/* Profiles of adapters have their order too, which puts the link-local address first. */
static bool has_order_of_adapters(void)
{
	return getenv("VERBENA_PROFILE") != NULL;
}

static void programs_take_the_ipv4_gid(void **state)
{
	uint8_t wanted[16] = {[10] = 0xff, [11] = 0xff};

	assert_int_equal(inet_pton(AF_INET, OWN, wanted + 12), 1);
	for (size_t i = 0; i < sizeof(heuristics) / sizeof(heuristics[0]); i++) {
		const struct heuristic *heuristic = &heuristics[i];
		union ibv_gid gid;
		int index;

		if (heuristic->goes_by_order && has_order_of_adapters())
			continue;
		index = heuristic->take(*state);
		assert_true(index >= 0);
		gid = gid_at(*state, index);
		if (memcmp(gid.raw, wanted, sizeof(wanted)) != 0)
			fail_msg("%s is at %d, and not " OWN, heuristic->name, index);
	}
}

/* Otherwise nothing was shown above. */
static void link_local_gid_is_there_where_asked_for(void **state)
{
	bool is_asked_for = has_order_of_adapters() || getenv("VERBENA_LINK_LOCAL");
	int found = 0;

	for (int i = 0; i < table_length(*state); i++) {
		union ibv_gid gid = gid_at(*state, i);

		found += is_link_local(&gid);
	}
	assert_int_equal(found, is_asked_for);
}

/* --- what files say --- */

/* By the index in the table and by file. */
static void every_gid_has_an_interface(void **state)
{
	const struct nic *nic = *state;

	for (int i = 0; i < table_length(nic); i++) {
		union ibv_gid gid = gid_at(nic, i), shown;
		struct ibv_gid_entry entry;
		char text[TEXT_BYTES], name[IF_NAMESIZE];

		assert_int_equal(read_of_gid(nic, "gids", i, text), 39);
		assert_int_equal(inet_pton(AF_INET6, text, shown.raw), 1);
		assert_memory_equal(shown.raw, gid.raw, sizeof(gid.raw));
		if (ibv_query_gid_ex(nic->context, PORT, (uint32_t)i, &entry, 0) != 0) {
			assert_int_equal(read_of_gid(nic, "gid_attrs/ndevs", i, text), -1);
			assert_int_equal(errno, EINVAL);
			assert_int_equal(read_of_gid(nic, "gid_attrs/types", i, text), -1);
			assert_int_equal(errno, EINVAL);
			continue;
		}
		assert_non_null(if_indextoname(entry.ndev_ifindex, name));
		assert_string_equal(name, INTERFACE);
		assert_int_equal(read_of_gid(nic, "gid_attrs/ndevs", i, text), strlen(INTERFACE));
		assert_string_equal(text, INTERFACE);
		assert_true(has_type_file(nic, i));
	}
}

static void files_that_are_not_there(void **state)
{
	static const char *const names[] = {
		"",
		"ports/2/state",
		"ports/1/",
		"ports/1/gids",
		"ports/1/gids/",
		"ports/1/gids/-1",
		"ports/1/gids/16",
		"ports/1/gids/0x0",
		"ports/1/gids/99999999999999999999",
		"ports/1/pkeys/1",
		"device/vendor",
		"device/../board_id",
	};
	char text[TEXT_BYTES];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(read_file(*state, names[i], text), -1);
		assert_int_equal(errno, ENOENT);
	}
}

static void identity_is_not_zero(void **state)
{
	const struct nic *nic = *state;
	struct ibv_device_attr attr;
	char text[TEXT_BYTES], guid[TEXT_BYTES];
	const uint8_t *bytes = (const uint8_t *)&attr.node_guid;

	assert_int_equal(ibv_query_device(nic->context, &attr), 0);
	assert_true(attr.node_guid != 0);
	assert_true(attr.sys_image_guid != 0);
	snprintf(guid, sizeof(guid), "%02x%02x:%02x%02x:%02x%02x:%02x%02x", bytes[0], bytes[1],
		 bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]);
	expect_file(nic, "node_guid", guid);
	assert_int_equal(read_file(nic, "sys_image_guid", text), strlen(guid));
	expect_file(nic, "fw_ver", attr.fw_ver);
	expect_file(nic, "node_type", "1: CA");
	expect_file(nic, "ports/1/link_layer", "Ethernet");
	expect_file(nic, "ports/1/lid", "0x0");
	expect_file(nic, "ports/1/pkeys/0", "0xffff");
}

/* A program without a PCI device to ask computes with these. */
static void speed_is_that_of_the_port(void **state)
{
	const struct nic *nic = *state;
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(nic->context, PORT, &port), 0);
	assert_int_equal(port.active_width, 2);
	assert_int_equal(port.active_speed, 32);
	expect_file(nic, "ports/1/rate", "100 Gb/sec (4X EDR)");
}

static void await_file(const struct nic *nic, const char *file, const char *wanted)
{
	uint64_t deadline = loop_deadline();
	char text[TEXT_BYTES] = "";

	while (read_file(nic, file, text) < 0 || strcmp(text, wanted) != 0) {
		if (loop_is_over(deadline))
			fail_msg("%s is \"%s\" and not \"%s\"", file, text, wanted);
		sched_yield();
	}
}

static void state_follows_the_interface(void **state)
{
	await_file(*state, "ports/1/state", "4: ACTIVE");
	expect_file(*state, "ports/1/phys_state", "5: LinkUp");
	run("ip link set veth1 down");
	await_file(*state, "ports/1/state", "1: DOWN");
	expect_file(*state, "ports/1/phys_state", "3: Disabled");
	run("ip link set veth1 up");
	await_file(*state, "ports/1/state", "4: ACTIVE");
}

/* --- where the device sits --- */

static void parent_is_absent(void **state)
{
	const struct nic *nic = *state;
	char path[PATH_MAX], resolved[PATH_MAX], text[TEXT_BYTES];

	snprintf(path, sizeof(path), "%s/device", nic->context->device->ibdev_path);
	assert_null(realpath(path, resolved));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(read_file(nic, "device/numa_node", text), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(read_file(nic, "device/local_cpus", text), -1);
	assert_int_equal(errno, ENOENT);
}

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fprintf(file, "%s\n", text) > 0);
	assert_int_equal(fclose(file), 0);
}

static void make_folder(char *path, size_t bytes, const char *name)
{
	size_t length = strlen(path);

	snprintf(path + length, bytes - length, "/%s", name);
	assert_int_equal(mkdir(path, 0755), 0);
}

/* A sysfs where the interface is one of a PCI function. Returns to its root's name. */
static void make_tree(char root[PATH_MAX], const char *index)
{
	char folder[PATH_MAX], device[PATH_MAX];

	snprintf(root, PATH_MAX, "/tmp/verbena-sysfs-XXXXXX");
	assert_non_null(mkdtemp(root));
	snprintf(folder, sizeof(folder), "%s", root);
	make_folder(folder, sizeof(folder), "class");
	make_folder(folder, sizeof(folder), "net");
	make_folder(folder, sizeof(folder), INTERFACE);
	write_file(folder, "ifindex", index);
	snprintf(device, sizeof(device), "%s", folder);
	make_folder(device, sizeof(device), "device");
	write_file(device, "numa_node", "1");
	write_file(device, "local_cpus", "ff00");
	write_file(device, "vendor", "0x15b3");
}

static void remove_tree(const char *root)
{
	char command[PATH_MAX + 16];

	snprintf(command, sizeof(command), "rm -r %s", root);
	run(command);
}

static void parent_is_that_of_the_interface(void **state)
{
	char root[PATH_MAX], index[16], text[TEXT_BYTES];

	snprintf(index, sizeof(index), "%u", if_nametoindex(INTERFACE));
	make_tree(root, index);
	setenv("SYSFS_PATH", root, 1);
	expect_file(*state, "device/numa_node", "1");
	expect_file(*state, "device/local_cpus", "ff00");
	assert_int_equal(read_file(*state, "device/vendor", text), -1);
	unsetenv("SYSFS_PATH");
	remove_tree(root);
}

/* The sysfs of another network namespace may have an interface of this name. */
static void parent_of_another_interface_is_none(void **state)
{
	char root[PATH_MAX], text[TEXT_BYTES];

	make_tree(root, "4711");
	setenv("SYSFS_PATH", root, 1);
	assert_int_equal(read_file(*state, "device/numa_node", text), -1);
	assert_int_equal(errno, ENOENT);
	unsetenv("SYSFS_PATH");
	remove_tree(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_take_the_ipv4_gid),
		cmocka_unit_test(link_local_gid_is_there_where_asked_for),
		cmocka_unit_test(every_gid_has_an_interface),
		cmocka_unit_test(files_that_are_not_there),
		cmocka_unit_test(identity_is_not_zero),
		cmocka_unit_test(speed_is_that_of_the_port),
		cmocka_unit_test(state_follows_the_interface),
		cmocka_unit_test(parent_is_absent),
		cmocka_unit_test(parent_is_that_of_the_interface),
		cmocka_unit_test(parent_of_another_interface_is_none),
	};

	fail_after(100);
	enter_network();
	return cmocka_run_group_tests(tests, open_first, close_first);
}
