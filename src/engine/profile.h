/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Profiles: what kind of device a program is to see. Programs branch on identity and limits,
 * and take a GID index for granted; a profile leads them down the branch that a machine with
 * such a device would. Only what the device says and grants differs, not what it does.
 */
#ifndef VBN_ENGINE_PROFILE_H
#define VBN_ENGINE_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

struct settings;

/* Which place of the GID table an address gets. */
struct gid_layout {
	bool has_link_local;	      /* also where the settings do not ask for it */
	uint32_t link_local_place;    /* of the first one, if they have a place of their own */
	uint32_t first_place, stride; /* of all others */
};

struct profile {
	const char *name;
	uint32_t vendor_id, part_id, hardware_version;
	uint32_t qp_wr_max, sge_max, inline_max, cqe_max, srq_wr_max, rd_atomic_max;
	struct gid_layout gids;
};

/* NULL: there is none of that name. */
const struct profile *profile_named(const char *name);
/* The names, for a sentence. */
extern const char profile_names[];
/* The one that @settings choose, or our own. */
const struct profile *profile_of(const struct settings *settings);

#endif
