/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/counters.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/explain.h"

static void put(FILE *file, const char *name, uint64_t value)
{
	fprintf(file, "%s %llu\n", name, (unsigned long long)value);
}

void counters_write(const struct stats_process *counters, const char *file_name)
{
	FILE *file = fopen(file_name, "ae");

	if (!file) {
		explain_note(LOG_ERROR, "the counters cannot be written to %s: %s", file_name,
			     strerror(errno));
		return;
	}
	put(file, "packets_sent", atomic_load(&counters->sent));
	put(file, "packets_taken", atomic_load(&counters->received[REASON_NONE]));
	if (atomic_load(&counters->forwarded))
		put(file, "packets_forwarded", atomic_load(&counters->forwarded));
	for (int reason = REASON_NONE + 1; reason < REASON_COUNT; reason++) {
		uint64_t count = atomic_load(&counters->received[reason]);

		if (count)
			put(file, reason_counter_name((enum reason)reason), count);
	}
	fclose(file);
}
