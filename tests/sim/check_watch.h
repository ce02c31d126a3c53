/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checker: established connections that ask whether their peer still knows them.
 *
 *   - none ends for its peer's silence unless that answered once, and not for as long as
 *     CM_WATCH_TRIES questions take;
 *   - none ends because its peer does not know it while the peer does;
 *   - one whose peer answered once, and then was killed or ended the connection, has ended in time;
 *   - questions come no faster than was agreed, and who never answered is asked CM_WATCH_TRIES_FIRST
 *     times.
 *
 * That each end is told once is for check_cm.h.
 */
#ifndef VBN_TESTS_SIM_CHECK_WATCH_H
#define VBN_TESTS_SIM_CHECK_WATCH_H

#include "sim/cm_world.h"

struct check_watch {
	struct cm_world *world;
	uint64_t watch_ns;  /* of all agents; 0: nobody asks */
	uint64_t delay_max; /* of the network */
	bool is_deceived;   /* messages may lie, or ids come again: they prove nothing */
	struct check_watch_record {
		uint64_t life; /* which connection of the slot; since it is established */
		vbn_time asked_at, answered_at;
		uint32_t asked, answered;
		bool parted;	      /* its program said farewell */
		vbn_time forsaken_at; /* since then the peer does not know it; 0: it does */
	} records[CM_WORLD_SIDES][CM_WORLD_SLOTS];
	uint64_t silent, unknown; /* that ended so, in all */
};

void check_watch_init(struct check_watch *check, struct cm_world *world);
/* A message leaves @side, or arrives there; before the agent sees it. */
void check_watch_sends(struct check_watch *check, uint32_t side, const struct cm_message *message);
void check_watch_hears(struct check_watch *check, uint32_t side, const struct cm_message *message);
void check_watch_event(struct check_watch *check, const struct cm_slot *slot,
		       const struct cm_event *event);
/* The program of @slot, which is established, looks at it, or says farewell. */
void check_watch_looks(struct check_watch *check, const struct cm_slot *slot);
void check_watch_parts(struct check_watch *check, const struct cm_slot *slot);
/* Its host forgot everything. */
void check_watch_killed(struct check_watch *check, uint32_t side);

#endif
