/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GID table: index 0 is the address most programs want (see engine/device.h).
 * Every index below the table's length answers, empty ones with a zero GID.
 */
#include <errno.h>
#include <string.h>
#include <sys/types.h>

#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/export.h"

static int check_index(const char *call, uint32_t port, uint32_t index)
{
	if (port != PORT_NUMBER)
		return explain_call(EINVAL, call, "port %u does not exist; the only port is %d",
				    port, PORT_NUMBER);
	if (index >= DEVICE_GIDS_MAX)
		return explain_call(EINVAL, call,
				    "GID index %u lies behind the table of %d entries", index,
				    DEVICE_GIDS_MAX);
	return 0;
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index,
			 union ibv_gid *gid)
{
	const struct device *device = context_device(context);
	int error = check_index("ibv_query_gid", port_num, (uint32_t)index);

	if (error) {
		errno = error;
		return -1;
	}
	memset(gid, 0, sizeof(*gid));
	if (device->gids[index].is_valid)
		memcpy(gid, device->gid_shown[index], sizeof(*gid));
	return 0;
}

static void fill_entry(const struct device *device, uint32_t index, void *entry, size_t size)
{
	struct ibv_gid_entry all = {
		.gid_index = index,
		.port_num = PORT_NUMBER,
		.gid_type = device->is_infiniband ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = device->is_infiniband ? 0 : device->interface_index,
	};

	memcpy(&all.gid, device->gid_shown[index], sizeof(all.gid));
	if (size > sizeof(all)) {
		memset((char *)entry + sizeof(all), 0, size - sizeof(all));
		size = sizeof(all);
	}
	memcpy(entry, &all, size);
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
			     struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	const struct device *device = context_device(context);
	int error = check_index("ibv_query_gid_ex", port_num, gid_index);

	if (error)
		return error;
	if (flags)
		return explain_call(EOPNOTSUPP, "ibv_query_gid_ex", "no flag is defined; got 0x%x",
				    flags);
	/* Programs walk the table by index to see which entries are used: no fault of theirs. */
	if (!device->gids[gid_index].is_valid)
		return ENODATA;
	fill_entry(device, gid_index, entry, entry_size);
	return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				    size_t max_entries, uint32_t flags, size_t entry_size)
{
	const struct device *device = context_device(context);
	size_t filled = 0;

	if (flags)
		return -explain_call(EOPNOTSUPP, "ibv_query_gid_table",
				     "no flag is defined; got 0x%x", flags);
	for (uint32_t i = 0; i < device->gid_count; i++) {
		if (!device->gids[i].is_valid)
			continue;
		if (filled == max_entries)
			return -explain_call(EINVAL, "ibv_query_gid_table",
					     "the table holds more than the %zu entries there is "
					     "room for; gid_tbl_len of the port is always enough",
					     max_entries);
		fill_entry(device, i, (char *)entries + filled * entry_size, entry_size);
		filled++;
	}
	return (ssize_t)filled;
}

/* The values of the kernel's file gid_attrs/types, not those of enum ibv_gid_type. */
enum sysfs_gid_type { SYSFS_GID_TYPE_IB_ROCE_V1, SYSFS_GID_TYPE_ROCE_V2 };

/* Private to rdma-core, but called by ibv_devinfo and pyverbs. */
int gid_query_sysfs_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
			 enum sysfs_gid_type *type);

EXPORT int gid_query_sysfs_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
				enum sysfs_gid_type *type)
{
	const struct device *device = context_device(context);
	int error = check_index("ibv_query_gid_type", port_num, index);

	if (error) {
		errno = error;
		return -1;
	}
	*type = device->is_infiniband ? SYSFS_GID_TYPE_IB_ROCE_V1 : SYSFS_GID_TYPE_ROCE_V2;
	return 0;
}
EXPORT_PRIVATE(gid_query_sysfs_type, "ibv_query_gid_type");
