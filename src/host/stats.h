/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics of one process, where others can read them while it runs
 *
 * Each slot of the registry has a room in the same file. Its owner alone writes it, and
 * counts there directly: showing costs nothing. Whoever reads it asks nobody, so it works for
 * stopped processes too. Without a registry ordinary memory of the same layout serves.
 *
 *   byte 0      struct stats_head: what this is, whose, counters of the process
 *   byte 4096   STATS_QPS entries, one for each QP
 *
 * Which number is which counter follows from the lists in base/reason.h and
 * base/qp_counters.h. `format` is a hash of those names and of the sizes, so that builds that
 * differ in them do not show each other nonsense, even if nobody thought of raising
 * REGISTRY_LAYOUT.
 *
 * `owner` is the generation of the registry's slot that the room belongs to, written last when
 * a member takes the room over: until then readers see nothing of what a dead one left.
 *
 * An entry has a generation as a slot has: odd while its facts are written, and changed
 * when they were. Counters and the state change without it, each by itself. Readers distrust
 * all that they read: numbers are cut to their limits, text is copied with a bound.
 */
#ifndef VBN_HOST_STATS_H
#define VBN_HOST_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/adoption.h"
#include "base/qp_counters.h"
#include "base/reason.h"
#include "host/registry.h"
#include "link/link.h"

struct host;

struct stats_process {
	_Atomic uint64_t sent;
	_Atomic uint64_t forwarded; /* to the process of this host whose they are */
	/* By reason; under NONE those that a QP took in. */
	_Atomic uint64_t received[REASON_COUNT];
	/* How many there are now, by what became of their adoption; once there is a peer for it. */
	_Atomic uint32_t regions[ADOPTION_COUNT];
};

#define STATS_HEAD_BYTES 4096u
#define STATS_LINK_BYTES 8 /* name of a link, ends with 0 */

struct stats_qp {
	_Atomic uint32_t generation;
	_Atomic uint32_t number; /* 0: nobody's */
	_Atomic uint32_t dest_number;
	_Atomic uint8_t type, state;	      /* enum ibv_qp_type, ibv_qp_state */
	_Atomic uint64_t local[2], remote[2]; /* GIDs in network order */
	_Atomic uint64_t link;
	_Alignas(64) struct qp_counters counters;
};

#define STATS_QPS ((REGISTRY_STATS_BYTES - STATS_HEAD_BYTES) / (uint32_t)sizeof(struct stats_qp))

struct stats_head {
	_Atomic uint32_t format;
	_Atomic uint32_t owner;
	_Atomic uint32_t qp_count;    /* QPs that exist */
	_Atomic uint32_t entry_count; /* entries that were ever used are below it */
	_Alignas(64) struct stats_process process;
};

struct stats_room {
	union {
		struct stats_head head;
		uint8_t head_room[STATS_HEAD_BYTES];
	};
	struct stats_qp qps[];
};

/* --- the owner (one thread at a time, unless a comment says otherwise) --- */

/*
 * Maps @slot's room of the registry @fd for its owner, empty, shown as @generation's. NULL with
 * errno: it cannot be mapped.
 */
struct stats_room *stats_room_open(int fd, uint32_t slot, uint32_t generation);
/* The room of the member @host. NULL with errno. */
struct stats_room *host_open_stats(const struct host *host);
/* The same in ordinary memory. */
struct stats_room *stats_room_private(void);
void stats_room_close(struct stats_room *room);
/*
 * In the child of a fork: what is written from now on is the child's alone, at the same
 * address. The parent's room is not touched.
 */
void stats_room_detach(struct stats_room *room);

struct stats_qp_facts {
	uint32_t number, dest_number;
	uint8_t type, state;
	uint8_t local[16], remote[16]; /* GIDs; 0: not connected */
	char link[STATS_LINK_BYTES];   /* "": not connected */
};

/* A QP begins in @entry, its counters at 0. */
void stats_qp_begin(struct stats_qp *entry, const struct stats_qp_facts *facts);
/* Counters may be raised meanwhile by another thread. */
void stats_qp_change(struct stats_qp *entry, const struct stats_qp_facts *facts);
void stats_qp_end(struct stats_qp *entry);
/* Any thread. */
static inline void stats_qp_set_state(struct stats_qp *entry, uint8_t state)
{
	if (atomic_load_explicit(&entry->state, memory_order_relaxed) != state)
		atomic_store_explicit(&entry->state, state, memory_order_relaxed);
}

/* --- readers: any process, any time --- */

struct stats_process_values {
	uint64_t sent, received[REASON_COUNT];
	uint32_t regions[ADOPTION_COUNT];
	uint32_t qp_count;
	uint32_t entry_count; /* at most STATS_QPS */
};

struct stats_qp_values {
	struct stats_qp_facts facts;
	uint64_t counters[QP_COUNTER_COUNT];
};

/* Maps a room for reading. NULL with errno. */
const struct stats_room *stats_room_look(int fd, uint32_t slot);
void stats_room_look_away(const struct stats_room *room);

enum stats_result {
	STATS_READ,
	STATS_EMPTY,	/* nothing of @generation's is there, or not any more */
	STATS_DIFFERENT /* another build wrote it, with other counters */
};

enum stats_result stats_read_process(const struct stats_room *room, uint32_t generation,
				     struct stats_process_values *values);
/* STATS_EMPTY: nobody's entry, or it changed each time it was looked at. */
enum stats_result stats_read_qp(const struct stats_room *room, uint32_t index,
				struct stats_qp_values *values);

#endif
