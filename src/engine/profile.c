/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/profile.h"

#include <stddef.h>
#include <string.h>

#include "engine/device.h"
#include "engine/settings.h"

/* What the transport can do at most. */
#define RD_ATOMIC_MAX 16

/* docs/device.md has the table. */
static const struct profile profiles[] = {
	{
		.name = "verbena",
		.vendor_id = DEVICE_VENDOR_ID,
		.part_id = DEVICE_PART_ID,
		.hardware_version = DEVICE_HARDWARE_VERSION,
		.qp_wr_max = DEVICE_MAX_QP_WR,
		.sge_max = DEVICE_MAX_SGE,
		.inline_max = DEVICE_MAX_INLINE,
		.cqe_max = DEVICE_MAX_CQE,
		.srq_wr_max = DEVICE_MAX_SRQ_WR,
		.rd_atomic_max = RD_ATOMIC_MAX,
		.gids = {.first_place = 0, .stride = 1},
	},
	/* The kernel's soft RoCE: its identity, its small CQs, and index 0 is link-local. */
	{
		.name = "rxe-like",
		.vendor_id = 0xffffff,
		.part_id = 0,
		.hardware_version = 0,
		.qp_wr_max = 16384,
		.sge_max = 32,
		.inline_max = 512,
		.cqe_max = 32767,
		.srq_wr_max = 32768,
		.rd_atomic_max = RD_ATOMIC_MAX,
		.gids = {.has_link_local = true,
			 .link_local_place = 0,
			 .first_place = 1,
			 .stride = 1},
	},
	/* A large adapter: what stands for RoCE v1 there, before each address, is empty here. */
	{
		.name = "large-nic",
		.vendor_id = 0x02c9,
		.part_id = 4119,
		.hardware_version = 0,
		.qp_wr_max = 32768,
		.sge_max = 30,
		.inline_max = 892,
		.cqe_max = 4194303,
		.srq_wr_max = 32767,
		.rd_atomic_max = RD_ATOMIC_MAX,
		.gids = {.has_link_local = true,
			 .link_local_place = 1,
			 .first_place = 3,
			 .stride = 2},
	},
	/* Little of everything: the branches for devices that cannot do what one hopes for. */
	{
		.name = "small-inline",
		.vendor_id = DEVICE_VENDOR_ID,
		.part_id = 2,
		.hardware_version = DEVICE_HARDWARE_VERSION,
		.qp_wr_max = 1024,
		.sge_max = 4,
		.inline_max = 32,
		.cqe_max = 8192,
		.srq_wr_max = 1024,
		.rd_atomic_max = 1,
		.gids = {.first_place = 0, .stride = 1},
	},
};

const char profile_names[] = "verbena, rxe-like, large-nic or small-inline";

const struct profile *profile_named(const char *name)
{
	for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++)
		if (strcmp(profiles[i].name, name) == 0)
			return &profiles[i];
	return NULL;
}

const struct profile *profile_of(const struct settings *settings)
{
	return settings->profile ? settings->profile : &profiles[0];
}
