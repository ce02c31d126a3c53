/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sysfs access that libibverbs offers to its friends. Our devices have no folder in
 * sysfs; for them the files that an adapter's folder has are answered here, as the interface
 * is now and in the kernel's words. What lies below device/ is what an adapter shares
 * with its interface: where the interface has a parent (a PCI function), where that is. Everything else
 * is read from the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "verbs/devices.h"
#include "verbs/export.h"
#include "verbs/library.h"

#define TEXT_MAX 64
#define PORT_FOLDER "ports/1/"

/* Their header is not installed. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

EXPORT const char *ibv_get_sysfs_path(void)
{
	const char *path = secure_getenv("SYSFS_PATH");

	return path ? path : "/sys";
}

/* One of our devices, as it is now. */
struct own_device {
	struct device device;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
};

/* A file that is always the same, or depends on the device. */
struct own_file {
	const char *name;
	const char *text;
	void (*print)(const struct own_device *own, char *text); /* TEXT_MAX bytes */
};

/* A folder with a file for each index. print: 0, or the errno that reading the file gives. */
struct own_table {
	const char *folder;
	int (*print)(const struct own_device *own, uint32_t index, char *text);
};

__attribute__((format(printf, 2, 3))) static int print(char *text, const char *format, ...)
{
	va_list words;

	va_start(words, format);
	vsnprintf(text, TEXT_MAX, format, words);
	va_end(words);
	return 0;
}

static void print_guid(char *text, uint64_t guid)
{
	uint8_t bytes[8];

	memcpy(bytes, &guid, sizeof(bytes));
	print(text, "%04x:%04x:%04x:%04x", load_be16(bytes), load_be16(bytes + 2),
	      load_be16(bytes + 4), load_be16(bytes + 6));
}

/* --- of the device and its port --- */

static void print_firmware(const struct own_device *own, char *text)
{
	print(text, "%.*s", (int)sizeof(own->attr.fw_ver), own->attr.fw_ver);
}

static void print_revision(const struct own_device *own, char *text)
{
	print(text, "%x", own->attr.hw_ver);
}

static void print_node_guid(const struct own_device *own, char *text)
{
	print_guid(text, own->attr.node_guid);
}

static void print_image_guid(const struct own_device *own, char *text)
{
	print_guid(text, own->attr.sys_image_guid);
}

static void print_state(const struct own_device *own, char *text)
{
	print(text, own->port.state == IBV_PORT_ACTIVE ? "4: ACTIVE" : "1: DOWN");
}

static void print_physical_state(const struct own_device *own, char *text)
{
	print(text, own->port.state == IBV_PORT_ACTIVE ? "5: LinkUp" : "3: Disabled");
}

static void print_link_layer(const struct own_device *own, char *text)
{
	print(text, own->device.is_infiniband ? "InfiniBand" : "Ethernet");
}

static void print_lid(const struct own_device *own, char *text)
{
	print(text, "0x%x", own->port.lid);
}

static void print_manager_lid(const struct own_device *own, char *text)
{
	print(text, "0x%x", own->port.sm_lid);
}

static const struct own_file own_files[] = {
	{"board_id", "Verbena", NULL},
	{"hca_type", "software", NULL},
	{"node_type", "1: CA", NULL},
	{"fw_ver", NULL, print_firmware},
	{"hw_rev", NULL, print_revision},
	{"node_guid", NULL, print_node_guid},
	{"sys_image_guid", NULL, print_image_guid},
	{PORT_FOLDER "state", NULL, print_state},
	{PORT_FOLDER "phys_state", NULL, print_physical_state},
	{PORT_FOLDER "link_layer", NULL, print_link_layer},
	/* What device_fill_port_attr() says in numbers. */
	{PORT_FOLDER "rate", "100 Gb/sec (4X EDR)", NULL},
	{PORT_FOLDER "lid", NULL, print_lid},
	{PORT_FOLDER "sm_lid", NULL, print_manager_lid},
};

/* --- of its tables: empty places are a zero GID, and nothing else can be read of them --- */

static int print_gid(const struct own_device *own, uint32_t index, char *text)
{
	static const uint8_t empty[16];
	const uint8_t *gid = own->device.gids[index].is_valid ? own->device.gid_shown[index]
							      : empty;

	return print(text, "%04x:%04x:%04x:%04x:%04x:%04x:%04x:%04x", load_be16(gid),
		     load_be16(gid + 2), load_be16(gid + 4), load_be16(gid + 6), load_be16(gid + 8),
		     load_be16(gid + 10), load_be16(gid + 12), load_be16(gid + 14));
}

static int print_gid_type(const struct own_device *own, uint32_t index, char *text)
{
	if (!own->device.gids[index].is_valid)
		return EINVAL;
	return print(text, own->device.is_infiniband ? "IB/RoCE v1" : "RoCE v2");
}

static int print_interface(const struct own_device *own, uint32_t index, char *text)
{
	if (!own->device.gids[index].is_valid || own->device.is_infiniband)
		return EINVAL;
	return print(text, "%s", own->device.interface);
}

static int print_pkey(const struct own_device *own, uint32_t index, char *text)
{
	(void)own;
	return index ? ENOENT : print(text, "0x%04x", DEVICE_PKEY);
}

static const struct own_table own_tables[] = {
	{PORT_FOLDER "gids/", print_gid},
	{PORT_FOLDER "gid_attrs/types/", print_gid_type},
	{PORT_FOLDER "gid_attrs/ndevs/", print_interface},
	{PORT_FOLDER "pkeys/", print_pkey},
};

/* The rest of a name: a place in a table, in digits. */
static bool parse_index(const char *digits, uint32_t *index)
{
	size_t length = strspn(digits, "0123456789");

	if (!length || length > 2 || digits[length])
		return false;
	*index = (uint32_t)strtoul(digits, NULL, 10);
	return *index < DEVICE_GIDS_MAX;
}

/* 0, or the errno that opening or reading the file gives. */
static int print_own_file(const struct own_device *own, const char *name, char *text)
{
	uint32_t index;

	for (size_t i = 0; i < sizeof(own_files) / sizeof(own_files[0]); i++) {
		const struct own_file *file = &own_files[i];

		if (strcmp(file->name, name) != 0)
			continue;
		if (file->text)
			print(text, "%s", file->text);
		else
			file->print(own, text);
		return 0;
	}
	for (size_t i = 0; i < sizeof(own_tables) / sizeof(own_tables[0]); i++) {
		size_t length = strlen(own_tables[i].folder);

		if (strncmp(own_tables[i].folder, name, length) == 0 &&
		    parse_index(name + length, &index))
			return own_tables[i].print(own, index, text);
	}
	return ENOENT;
}

/* Length of the text, or -1 and errno. */
static int read_own_file(const struct listed_device *listed, const char *name, char *buf,
			 size_t size)
{
	const struct settings *settings = library_settings();
	struct own_device own;
	char text[TEXT_MAX];
	int error = -device_look_again(settings, &listed->device, &own.device);

	if (!error) {
		device_fill_attr(&own.device, settings, &own.attr);
		device_fill_port_attr(&own.device, &own.port);
		error = print_own_file(&own, name, text);
	}
	/* Half an answer is none, as from the disk. */
	if (!error && strlen(text) >= size)
		error = ENOBUFS;
	if (error) {
		errno = error;
		return -1;
	}
	memcpy(buf, text, strlen(text) + 1);
	return (int)strlen(text);
}

static int read_real_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[512];
	ssize_t length;
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	length = read(fd, buf, size);
	close(fd);
	if (length > 0) {
		if (buf[length - 1] == '\n')
			buf[--length] = '\0';
		else if ((size_t)length < size)
			buf[length] = '\0';
		else
			return -1;
	}
	return (int)length;
}

/*
 * Where the device is, not what it is: the rest below device/ would tell of another one, by which
 * programs look for its driver.
 */
static bool is_about_place(const char *file)
{
	return strcmp(file, "device/numa_node") == 0 || strcmp(file, "device/local_cpus") == 0 ||
	       strcmp(file, "device/local_cpulist") == 0;
}

/* Whether it is the interface of this name; sysfs may be that of another network namespace. */
static bool is_about(const char *dir, const struct device *device)
{
	char text[16];

	return read_real_file(dir, "ifindex", text, sizeof(text)) > 0 &&
	       strtoul(text, NULL, 10) == device->interface_index;
}

static int read_of_interface(const struct device *device, const char *file, char *buf, size_t size)
{
	char dir[256];

	snprintf(dir, sizeof(dir), "%s/class/net/%s", ibv_get_sysfs_path(), device->interface);
	if (is_about(dir, device))
		return read_real_file(dir, file, buf, size);
	errno = ENOENT;
	return -1;
}

EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	struct listed_device *listed = listed_device_by_path(dir);
	int length;

	if (!listed)
		return read_real_file(dir, file, buf, size);
	if (is_about_place(file))
		length = read_of_interface(&listed->device, file, buf, size);
	else
		length = read_own_file(listed, file, buf, size);
	listed_device_release(listed);
	return length;
}
