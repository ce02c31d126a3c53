/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checker: what the owner of a connection is told.
 *
 *   - of ESTABLISHED, REJECTED, UNREACHABLE and CONNECT_ERROR at most one, and exactly one before
 *     a connection that nobody let go is closed, unless its own program refused it;
 *   - DISCONNECTED once after ESTABLISHED, never without it;
 *   - TIMEWAIT_EXIT at most once, only after the end, and always after a DISCONNECTED;
 *   - REQUEST, RESPONSE and the answer of a query at most once, before all that;
 *   - nothing but GONE after the owner let go, and GONE only then, once.
 */
#ifndef VBN_TESTS_SIM_CHECK_CM_H
#define VBN_TESTS_SIM_CHECK_CM_H

#include "sim/cm_world.h"

struct check_cm {
	struct cm_world *world;
	struct check_cm_record {
		uint64_t life; /* which connection of the slot; 0: none was seen */
		uint32_t told[CM_EVENT_KIND_COUNT];
		bool asked;   /* its program connected or asked; or it was told of a request */
		bool refused; /* by its own program */
		bool released;
	} records[CM_WORLD_SIDES][CM_WORLD_SLOTS];
	uint64_t established, ended, gone; /* in all */
};

void check_cm_init(struct check_cm *check, struct cm_world *world);
/* The program of @slot connects or asks; refuses; lets go. Before the call. */
void check_cm_asks(struct check_cm *check, const struct cm_slot *slot);
void check_cm_refuses(struct check_cm *check, const struct cm_slot *slot);
void check_cm_releases(struct check_cm *check, const struct cm_slot *slot);
void check_cm_event(struct check_cm *check, const struct cm_slot *slot,
		    const struct cm_event *event);
/* Its host forgot everything: nobody owes its owner anything. */
void check_cm_killed(struct check_cm *check, uint32_t side);
/* Nothing happens any more: all that were released are gone, and nothing waits for a deadline. */
void check_cm_at_rest(struct check_cm *check);

#endif
