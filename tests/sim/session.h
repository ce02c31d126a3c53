/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection from its making to its end, as a program with a connection manager
 * lives it, maybe several times with the same QPs:
 *
 *   runs      both ends post what is drawn for them
 *   breaks    an end saw an error, or all is done; a moment later both go to ERR
 *   flushes   until everything posted has completed
 *   rests     until no packet of it can be on its way; then memory is judged
 *   over      after the last life; the QPs are in RESET
 */
#ifndef VBN_TESTS_SIM_SESSION_H
#define VBN_TESTS_SIM_SESSION_H

#include "sim/endpoint.h"

enum session_state { SESSION_RUNS, SESSION_BREAKS, SESSION_FLUSHES, SESSION_RESTS, SESSION_OVER };

/* What befalls end 0 in the middle of its work; see upset.c. */
enum session_upset {
	UPSET_NONE,
	UPSET_ERROR,
	UPSET_DESTROY,
	UPSET_DRAIN,
	UPSET_REVOKE,
	UPSET_HOLE
};

struct session_plan {
	uint32_t lives;
	enum session_upset upset;
	uint32_t upset_after; /* so many operations of end 0 have completed */
	uint64_t grace_ns;    /* from the first error to ERR on both ends */
	uint64_t drain_ns;    /* stay in SQD after it is drained */
	uint64_t linger_ns;   /* longest life of a packet */
	uint64_t rts_ns;      /* end 1 stays in RTR for so long */
	bool has_poison;      /* hostile packets may hit the expected PSN */
	bool revokes_source;  /* UPSET_REVOKE: what is sent from goes */
};

struct session {
	struct world *world;
	struct session_plan plan;
	struct endpoint_plan end_plans[2];
	struct endpoint ends[2];
	uint32_t end_count; /* 1: a QP that is connected to itself */
	enum session_state state;
	uint32_t life;
	bool upset_is_done;
	bool has_lost_memory;	/* a region was revoked or has a hole */
	struct region *revoked; /* of end 0; what it held then is below */
	uint8_t *revoked_bytes;
};

/* Ends are in place, QPs in RESET: the first life begins. */
void session_start(struct session *session);
void session_break(struct session *session);
/* After progress of whatever kind: is it time for the next state? */
void session_look(struct session *session);
bool session_expects_remote_errors(const struct session *session);

#endif
