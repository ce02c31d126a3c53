/* SPDX-License-Identifier: BSD-2-Clause */
/* All is read into memory first, so that slow output does not stretch what is compared. */
#include "tools/stat.h"

#include <stdlib.h>
#include <time.h>

static vbn_time monotonic_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (vbn_time)now.tv_sec * VBN_SECOND + (vbn_time)now.tv_nsec;
}

static int compare_qps(const void *a, const void *b)
{
	uint32_t x = ((const struct stats_qp_values *)a)->facts.number;
	uint32_t y = ((const struct stats_qp_values *)b)->facts.number;

	return (x > y) - (x < y);
}

static bool read_qps(const struct stats_room *room, struct stat_process *process)
{
	uint32_t entry_count = process->values.entry_count;

	process->qps = calloc(entry_count ? entry_count : 1, sizeof(*process->qps));
	if (!process->qps)
		return false;
	for (uint32_t i = 0; i < entry_count; i++) {
		struct stats_qp_values *qp = &process->qps[process->qp_count];

		process->qp_count += stats_read_qp(room, i, qp) == STATS_READ;
	}
	qsort(process->qps, process->qp_count, sizeof(*process->qps), compare_qps);
	return true;
}

static bool read_process(const struct host_view *view, struct stat_process *process)
{
	const struct stats_room *room = stats_room_look(view->file.fd, process->member.slot);
	bool has_memory = true;

	process->counted = STATS_EMPTY;
	if (!room)
		return true;
	process->counted = stats_read_process(room, process->member.generation, &process->values);
	if (process->counted == STATS_READ)
		has_memory = read_qps(room, process);
	stats_room_look_away(room);
	return has_memory;
}

bool snapshot_take(const struct host_view *view, int32_t pid, struct snapshot *snapshot)
{
	*snapshot = (struct snapshot){.taken_at = monotonic_now()};
	if (!view)
		return true;
	snapshot->processes = calloc(HOST_SLOTS, sizeof(*snapshot->processes));
	if (!snapshot->processes)
		return false;
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		struct stat_process *process = &snapshot->processes[snapshot->process_count];

		if (!host_view_member(view, slot, &process->member) ||
		    (pid && process->member.pid != pid))
			continue;
		snapshot->process_count++;
		if (!read_process(view, process)) {
			snapshot_free(snapshot);
			return false;
		}
	}
	return true;
}

void snapshot_free(struct snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->process_count; i++)
		free(snapshot->processes[i].qps);
	free(snapshot->processes);
	*snapshot = (struct snapshot){0};
}

const struct stat_process *snapshot_find(const struct snapshot *snapshot,
					 const struct stat_process *process)
{
	for (size_t i = 0; i < snapshot->process_count; i++) {
		const struct stat_process *other = &snapshot->processes[i];

		if (other->member.slot == process->member.slot &&
		    other->member.generation == process->member.generation &&
		    other->member.started_ns == process->member.started_ns &&
		    other->counted == STATS_READ)
			return other;
	}
	return NULL;
}

const struct stats_qp_values *snapshot_find_qp(const struct stat_process *process,
					       const struct stats_qp_values *qp)
{
	return process->qp_count ? bsearch(qp, process->qps, process->qp_count,
					   sizeof(*process->qps), compare_qps)
				 : NULL;
}

uint64_t snapshot_not_taken(const struct stat_process *process)
{
	uint64_t count = 0;

	for (unsigned i = REASON_NONE + 1; i < REASON_COUNT; i++)
		count += process->values.received[i];
	return count;
}
