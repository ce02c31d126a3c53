/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/gid_table.h"

#include <string.h>

bool gid_is_link_local(const struct link_address *address)
{
	return address->gid[0] == 0xfe && (address->gid[1] & 0xc0) == 0x80;
}

static bool is_among(const struct device_gid *gids, uint32_t count,
		     const struct link_address *address)
{
	for (uint32_t i = 0; i < count; i++)
		if (gids[i].is_valid && link_address_is_equal(&gids[i].address, address))
			return true;
	return false;
}

bool gid_table_has(const struct device *device, const struct link_address *address)
{
	return is_among(device->gids, device->gid_count, address);
}

static uint32_t place_for(const struct device *device, const struct link_address *address,
			  const struct gid_layout *layout)
{
	uint32_t place = layout->first_place;

	if (layout->has_link_local && gid_is_link_local(address) &&
	    !device->gids[layout->link_local_place].is_valid)
		return layout->link_local_place;
	while (place < DEVICE_GIDS_MAX && device->gids[place].is_valid)
		place += layout->stride;
	return place;
}

bool gid_table_add(struct device *device, const struct link_address *address,
		   const struct gid_layout *layout)
{
	uint32_t place = place_for(device, address, layout);

	if (place >= DEVICE_GIDS_MAX)
		return false;
	device->gids[place] = (struct device_gid){.address = *address, .is_valid = true};
	memcpy(device->gid_shown[place], address->gid, sizeof(device->gid_shown[place]));
	if (place >= device->gid_count)
		device->gid_count = place + 1;
	return true;
}

void gid_table_keep(struct device *device, const struct device_gid *present, uint32_t count)
{
	for (uint32_t i = 0; i < device->gid_count; i++)
		device->gids[i].is_valid &= is_among(present, count, &device->gids[i].address);
}
