/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of devices.
 *
 * Programs compare pointers of two lists and use a device after they gave its list
 * back, which works with rdma-core. So the devices of the newest list stay in a table;
 * the next list returns the same pointer for a device that has not changed. One whose
 * addresses have changed is a new object, since contexts and QPs work with the old one.
 */
#include "verbs/devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/explain.h"
#include "verbs/export.h"
#include "verbs/library.h"

static struct listed_device **table; /* of the newest list, under library_lock() */
static size_t table_count;

/* Under library_lock(). */
static void drop(struct listed_device *device)
{
	if (--device->references == 0)
		free(device);
}

void listed_device_hold(struct listed_device *device)
{
	library_lock();
	device->references++;
	library_unlock();
}

void listed_device_release(struct listed_device *device)
{
	library_lock();
	drop(device);
	library_unlock();
}

struct listed_device *listed_device_by_path(const char *path)
{
	struct listed_device *found = NULL;

	library_lock();
	for (size_t i = 0; i < table_count && !found; i++)
		if (strcmp(table[i]->ibv.ibdev_path, path) == 0)
			found = table[i];
	if (found)
		found->references++;
	library_unlock();
	return found;
}

static bool is_same_gids(const struct device *a, const struct device *b)
{
	for (uint32_t i = 0; i < a->gid_count; i++)
		if (a->gids[i].is_valid != b->gids[i].is_valid ||
		    memcmp(a->gid_shown[i], b->gid_shown[i], sizeof(a->gid_shown[i])) != 0 ||
		    !link_address_is_equal(&a->gids[i].address, &b->gids[i].address))
			return false;
	return true;
}

static bool is_same(const struct device *a, const struct device *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->interface, b->interface) == 0 &&
	       a->interface_index == b->interface_index && a->interface_mtu == b->interface_mtu &&
	       a->guid == b->guid && a->lid == b->lid && a->active_mtu == b->active_mtu &&
	       a->gid_count == b->gid_count && is_same_gids(a, b);
}

static struct listed_device *create(const struct device *device, size_t index)
{
	struct listed_device *listed = calloc(1, sizeof(*listed));

	if (!listed)
		return NULL;
	listed->device = *device;
	listed->ibv.node_type = IBV_NODE_CA;
	listed->ibv.transport_type = IBV_TRANSPORT_IB;
	snprintf(listed->ibv.name, sizeof(listed->ibv.name), "%s", device->name);
	snprintf(listed->ibv.dev_name, sizeof(listed->ibv.dev_name), "uverbs%zu", index);
	snprintf(listed->ibv.dev_path, sizeof(listed->ibv.dev_path),
		 "/sys/class/infiniband_verbs/uverbs%zu", index);
	snprintf(listed->ibv.ibdev_path, sizeof(listed->ibv.ibdev_path), "/sys/class/infiniband/%s",
		 device->name);
	return listed;
}

/* The object for @device at place @index, held for the caller. */
static struct listed_device *find_or_create(const struct device *device, size_t index)
{
	struct listed_device *listed;

	for (size_t i = 0; i < table_count; i++)
		if (is_same(&table[i]->device, device)) {
			table[i]->references++;
			return table[i];
		}
	listed = create(device, index);
	if (listed)
		listed->references = 1;
	return listed;
}

/* @list: room for @count + 1 pointers. */
static bool fill(struct listed_device **list, const struct device *devices, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		list[i] = find_or_create(&devices[i], i);
		if (!list[i]) {
			while (i > 0)
				drop(list[--i]);
			return false;
		}
	}
	return true;
}

/* Puts @list in the table's place, with references of its own. */
static bool refresh_table(struct listed_device **list, size_t count)
{
	struct listed_device **copy = calloc(count + 1, sizeof(struct listed_device *));

	if (!copy)
		return false;
	for (size_t i = 0; i < count; i++) {
		copy[i] = list[i];
		copy[i]->references++;
	}
	for (size_t i = 0; i < table_count; i++)
		drop(table[i]);
	free(table);
	table = copy;
	table_count = count;
	return true;
}

static struct listed_device **make_list(const struct device *devices, size_t count)
{
	struct listed_device **list = calloc(count + 1, sizeof(struct listed_device *));

	if (!list)
		return NULL;
	library_lock();
	if (!fill(list, devices, count)) {
		free(list);
		list = NULL;
	} else if (!refresh_table(list, count)) {
		for (size_t i = 0; i < count; i++)
			drop(list[i]);
		free(list);
		list = NULL;
	}
	library_unlock();
	return list;
}

EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct listed_device **list;
	struct device *devices;
	size_t count;

	if (num_devices)
		*num_devices = 0;
	devices = device_list(library_settings(), &count);
	if (!devices)
		return NULL;
	list = make_list(devices, count);
	free(devices);
	if (!list) {
		errno = explain_call(ENOMEM, "ibv_get_device_list", "no memory for the list");
		return NULL;
	}
	if (num_devices)
		*num_devices = (int)count;
	/* The first member of each element is its ibv_device. */
	return (struct ibv_device **)list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	library_lock();
	for (size_t i = 0; list[i]; i++)
		drop(listed_device_of(list[i]));
	library_unlock();
	free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return listed_device_of(device)->device.guid;
}

/* The interface's index serves: it is unique and stays while the interface does. */
EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	return (int)listed_device_of(device)->device.interface_index;
}
