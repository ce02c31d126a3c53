/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/link_seen.h"

#include <stdio.h>

#include "tools/stat.h"

static bool find_link(const struct snapshot *snapshot, char *name, size_t bytes)
{
	for (size_t i = 0; i < snapshot->process_count; i++) {
		const struct stat_process *process = &snapshot->processes[i];

		for (size_t j = 0; j < process->qp_count; j++) {
			const struct stats_qp_facts *facts = &process->qps[j].facts;

			if (!facts->link[0])
				continue;
			snprintf(name, bytes, "%.*s", STATS_LINK_BYTES, facts->link);
			return true;
		}
	}
	return false;
}

bool link_seen(pid_t pid, char *name, size_t bytes)
{
	struct host_view view;
	struct snapshot snapshot;
	bool is_seen = false;

	if (host_observe(&view) != 0)
		return false;
	if (snapshot_take(&view, pid, &snapshot)) {
		is_seen = find_link(&snapshot, name, bytes);
		snapshot_free(&snapshot);
	}
	host_view_close(&view);
	return is_seen;
}
