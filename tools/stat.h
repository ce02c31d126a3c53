/* SPDX-License-Identifier: BSD-2-Clause */
/* What `verbena stat` tells: a snapshot of all processes, written in one of two forms. */
#ifndef VBN_TOOLS_STAT_H
#define VBN_TOOLS_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/observe.h"
#include "host/stats.h"

struct stat_process {
	struct registry_member member;
	enum stats_result counted; /* only after STATS_READ is what follows set */
	struct stats_process_values values;
	struct stats_qp_values *qps;
	size_t qp_count; /* listed; values.qp_count exist */
};

struct snapshot {
	vbn_time taken_at;
	struct stat_process *processes; /* by slot */
	size_t process_count;
};

struct stat_options {
	int32_t pid; /* 0: all processes */
	bool as_json;
	bool all_counters; /* also those that are 0 */
	double interval;   /* seconds; 0: once */
	uint64_t count;	   /* 0: without end */
};

/* --- gathering (stat_snapshot.c) --- */

/* Reads what @view (NULL: nobody) shows; @pid as in the options. False: no memory. */
bool snapshot_take(const struct host_view *view, int32_t pid, struct snapshot *snapshot);
void snapshot_free(struct snapshot *snapshot);
/* The same process in another snapshot, and the same QP in another of its process; or NULL. */
const struct stat_process *snapshot_find(const struct snapshot *snapshot,
					 const struct stat_process *process);
const struct stats_qp_values *snapshot_find_qp(const struct stat_process *process,
					       const struct stats_qp_values *qp);
/* Packets that arrived and that no QP took in. */
uint64_t snapshot_not_taken(const struct stat_process *process);

/* --- writing --- */

/* @before is NULL: totals; else what happened since, a second. */
void stat_write_text(const struct snapshot *now, const struct snapshot *before,
		     const struct stat_options *options);
void stat_write_json(const struct snapshot *now);

/* An address as people write it; @text has INET6_ADDRSTRLEN bytes. "-" for none. */
const char *stat_address(const uint8_t gid[16], char *text);
/* "RTS", "ERR"; "?" for numbers that are none. */
const char *stat_state_word(uint8_t state);

#endif
