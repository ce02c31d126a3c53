/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GID table of a device: each address gets its place by the profile's layout and keeps it
 * while it is there. A place that was left is filled by the next new address.
 */
#ifndef VBN_ENGINE_GID_TABLE_H
#define VBN_ENGINE_GID_TABLE_H

#include "engine/device.h"
#include "engine/profile.h"

/* False: there is no place left. */
bool gid_table_add(struct device *device, const struct link_address *address,
		   const struct gid_layout *layout);
/* Places of addresses that are not among @count ones at @present become empty. */
void gid_table_keep(struct device *device, const struct device_gid *present, uint32_t count);
bool gid_table_has(const struct device *device, const struct link_address *address);
/* An IPv6 address that means something on its own link only. */
bool gid_is_link_local(const struct link_address *address);

#endif
