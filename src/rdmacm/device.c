/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/device.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "rdmacm/library.h"

struct entry {
	struct cm_device device; /* the first: device_return() */
	LIST_ENTRY(entry) next;
	struct ibv_device *listed;
	unsigned int users; /* endpoints and lists */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, entry) entries; /* under lock */

int devices_expect(const char *call)
{
	static atomic_bool is_met;
	struct ibv_device **list;
	int count = 0;

	/* Looking costs system calls, and what was there once will do. */
	if (atomic_load_explicit(&is_met, memory_order_relaxed))
		return 0;
	list = ibv_get_device_list(&count);
	if (list)
		ibv_free_device_list(list);
	if (list && count) {
		atomic_store_explicit(&is_met, true, memory_order_relaxed);
		return 0;
	}
	return fail(ENODEV, call,
		    "there is no device: no network interface is up and has an address "
		    "(verbena info tells more)");
}

/* The child of a fork leaves the parent's devices alone. The lock is held. */
static void forget_inherited(void)
{
	struct entry *entry, *next;

	for (entry = LIST_FIRST(&entries); entry; entry = next) {
		next = LIST_NEXT(entry, next);
		if (vbn_cm_is_inherited(entry->device.context))
			LIST_REMOVE(entry, next);
	}
}

static int look_at(struct entry *entry)
{
	struct ibv_device_attr attr;
	int error = ibv_query_device(entry->device.context, &attr);

	if (error)
		return error;
	entry->device.max_initiator_depth = (uint8_t)attr.max_qp_init_rd_atom;
	entry->device.max_responder_resources = (uint8_t)attr.max_qp_rd_atom;
	return 0;
}

static struct entry *open_entry(struct ibv_device *listed)
{
	struct entry *entry = calloc(1, sizeof(*entry));
	int error = ENOMEM;

	if (entry) {
		entry->listed = listed;
		entry->device.context = ibv_open_device(listed);
		error = entry->device.context ? look_at(entry) : errno;
		if (!error) {
			LIST_INSERT_HEAD(&entries, entry, next);
			return entry;
		}
		if (entry->device.context)
			ibv_close_device(entry->device.context);
	}
	free(entry);
	errno = error;
	return NULL;
}

/* The lock is held. NULL with errno. */
static struct entry *find_or_open(struct ibv_device *listed)
{
	struct entry *entry;

	LIST_FOREACH(entry, &entries, next)
	if (entry->listed == listed)
		return entry;
	return open_entry(listed);
}

static struct ibv_device *find_listed(struct ibv_device **list, const struct cm_way *way)
{
	for (; *list; list++)
		if ((uint32_t)ibv_get_device_index(*list) == way->device_index &&
		    strcmp(ibv_get_device_name(*list), way->device) == 0)
			return *list;
	return NULL;
}

/*
 * The same interface under another object: its addresses have changed since the device was
 * opened, and the one that is open still serves. The lock is held.
 */
static struct entry *find_open(const struct cm_way *way)
{
	struct entry *entry;

	LIST_FOREACH(entry, &entries, next)
	if ((uint32_t)ibv_get_device_index(entry->listed) == way->device_index &&
	    strcmp(ibv_get_device_name(entry->listed), way->device) == 0)
		return entry;
	return NULL;
}

static struct entry *find_for(const struct cm_way *way)
{
	struct entry *entry = find_open(way);
	struct ibv_device **list, *listed;

	if (entry)
		return entry;
	list = ibv_get_device_list(NULL);
	if (!list)
		return NULL;
	listed = find_listed(list, way);
	errno = ENODEV;
	entry = listed ? find_or_open(listed) : NULL;
	ibv_free_device_list(list);
	return entry;
}

struct cm_device *device_take(const struct cm_way *way, const char *call)
{
	struct entry *entry;

	pthread_mutex_lock(&lock);
	forget_inherited();
	entry = find_for(way);
	if (entry && !entry->device.pd) {
		entry->device.pd = ibv_alloc_pd(entry->device.context);
		if (!entry->device.pd)
			entry = NULL;
	}
	if (entry)
		entry->users++;
	pthread_mutex_unlock(&lock);
	if (!entry)
		vbn_cm_explain(errno, call, "device %s cannot be opened", way->device);
	return entry ? &entry->device : NULL;
}

void device_return(struct cm_device *device)
{
	struct entry *entry = (struct entry *)device;

	pthread_mutex_lock(&lock);
	if (--entry->users == 0 && !vbn_cm_is_inherited(device->context)) {
		/* Whoever still uses them keeps them: the next endpoint takes them up again. */
		if (device->pd && ibv_dealloc_pd(device->pd) == 0)
			device->pd = NULL;
		if (device->xrcd && ibv_close_xrcd(device->xrcd) == 0)
			device->xrcd = NULL;
	}
	pthread_mutex_unlock(&lock);
}

struct ibv_xrcd *device_xrcd(struct cm_device *device)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd;

	pthread_mutex_lock(&lock);
	if (!device->xrcd)
		device->xrcd = ibv_open_xrcd(device->context, &attr);
	xrcd = device->xrcd;
	pthread_mutex_unlock(&lock);
	return xrcd;
}

/* The lock is held. */
static struct ibv_context **list_contexts(struct ibv_device **list, int listed, int *count)
{
	struct ibv_context **contexts = calloc((size_t)listed + 1, sizeof(struct ibv_context *));

	*count = 0;
	for (int i = 0; contexts && i < listed; i++) {
		struct entry *entry = find_or_open(list[i]);

		/* One that cannot be opened is left out. */
		if (!entry)
			continue;
		entry->users++;
		contexts[(*count)++] = entry->device.context;
	}
	return contexts;
}

EXPORT struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **contexts = NULL;
	int listed = 0, count = 0;
	struct ibv_device **list = ibv_get_device_list(&listed);

	if (list && listed) {
		pthread_mutex_lock(&lock);
		forget_inherited();
		contexts = list_contexts(list, listed, &count);
		pthread_mutex_unlock(&lock);
	} else if (list) {
		errno = vbn_cm_explain(ENODEV, "rdma_get_devices", "there is no device");
	}
	if (list)
		ibv_free_device_list(list);
	if (num_devices)
		*num_devices = count;
	return contexts;
}

static struct cm_device *find_by_context(const struct ibv_context *context)
{
	struct cm_device *found = NULL;
	struct entry *entry;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(entry, &entries, next)
	if (entry->device.context == context)
		found = &entry->device;
	pthread_mutex_unlock(&lock);
	return found;
}

EXPORT void rdma_free_devices(struct ibv_context **list)
{
	for (struct ibv_context **context = list; *context; context++) {
		struct cm_device *device = find_by_context(*context);

		if (device)
			device_return(device);
	}
	free(list);
}
