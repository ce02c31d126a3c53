/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One agent, and a peer that is played by the test: it says whatever message, and the test looks
 * at each datagram and each event that comes of it.
 */
#ifndef VBN_TESTS_CM_BENCH_H
#define VBN_TESTS_CM_BENCH_H

#include "cm/cm.h"

#define BENCH_CONNECTIONS 8
#define BENCH_BUCKETS 4

/* What the peer calls itself, and what it connects. */
#define PEER_ID 0x7700aa01u
#define PEER_QPN 0x5511u
#define PEER_PSN 0x123456u
#define PEER_GUID 0x505400fffe770003ull
#define OWN_QPN 0x4400u
#define OWN_GUID 0x505400fffe770002ull
#define SERVICE 0x0000000001061c06ull

struct bench {
	struct cm_agent agent;
	struct cm_connection *buckets[CM_TABLE_COUNT * BENCH_BUCKETS];
	struct cm_connection connections[BENCH_CONNECTIONS];
	uint32_t used;
	struct cm_path path; /* to the peer */
	struct cm_out out;   /* of the last call */
	vbn_time now;
	uint32_t datagrams_seen, events_seen; /* of out */
	uint16_t refusal;		      /* with it requests are refused, no spare given */
};

void bench_begin(struct bench *bench);
void bench_begin_with(struct bench *bench, const struct cm_timing *timing);
/* A new connection: the ids are 0x1001, 0x1002, ... */
struct cm_connection *bench_new(struct bench *bench);
/* Forgets what the last call said; all of it must have been looked at. */
struct cm_out *bench_next(struct bench *bench);

/* --- messages --- */

struct cm_message own_req(void), own_rep(void), own_rej(uint16_t reason), own_sidr_req(void);
/* From the peer to @connection, with the ids that it knows. */
struct cm_message peer_says(const struct cm_connection *connection, enum cm_kind kind);
struct cm_message peer_req(void), peer_sidr_req(void);
/* Hears it at once; a REQ or SIDR_REQ gets a spare connection, which is then the newest. */
enum reason bench_hear(struct bench *bench, const struct cm_message *message);
enum reason bench_hear_from(struct bench *bench, const struct cm_path *path,
			    const struct cm_message *message);
struct cm_connection *bench_newest(struct bench *bench);

/* --- what came of it, one at a time and in order --- */

struct cm_message expect_datagram(struct bench *bench, enum cm_kind kind);
struct cm_event *expect_event(struct bench *bench, const struct cm_connection *connection,
			      enum cm_event_kind kind, uint16_t reason);
/* And nothing more. */
void expect_end(struct bench *bench);

/* --- time --- */

/* Lets the next deadline come, and returns when that was. */
vbn_time bench_deadline(struct bench *bench);
/* No deadline is left. */
void expect_no_deadline(struct bench *bench);

/* --- states --- */

/* A connection in that state, with the peer of above; the road there is checked. */
struct cm_connection *bench_active(struct bench *bench, enum cm_state state);
struct cm_connection *bench_passive(struct bench *bench, enum cm_state state);

#endif
