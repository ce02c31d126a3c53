/* SPDX-License-Identifier: BSD-2-Clause */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/pair.h"
#include "tools/library_path.h"

/* Two processors that we may use; one is not enough to be pinned to. */
static void find_cpus(struct place *place)
{
	cpu_set_t allowed;
	int found = 0;

	place->cpus[0] = place->cpus[1] = -1;
	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET((size_t)cpu, &allowed))
			place->cpus[found++] = cpu;
}

/* Any address of 127/8 is ours; these follow from the process number, so that runs do not meet. */
static void choose_addresses(struct place *place)
{
	unsigned pid = (unsigned)getpid();

	for (unsigned i = 0; i < 2; i++)
		snprintf(place->addresses[i], sizeof(place->addresses[i]), "127.%u.%u.%u",
			 64 + 64 * i + (pid >> 16 & 0x3f), pid >> 8 & 0xff, pid & 0xff);
}

static bool find_program(const char *directory, const char *name, char path[static 4096])
{
	if (snprintf(path, 4096, "%.4000s/%s", directory, name) > 0 && access(path, X_OK) == 0)
		return true;
	fprintf(stderr, "verbena bench: there is no %s in %s; build it first.\n", name, directory);
	return false;
}

bool place_find(struct place *place)
{
	char directory[4096];

	if (!library_directory(directory)) {
		fprintf(stderr, "verbena bench: there is no %s in %s; build it first.\n",
			LIBRARY_NAME, directory);
		return false;
	}
	find_cpus(place);
	choose_addresses(place);
	return find_program(directory, "bench_end", place->end_program) &&
	       find_program(directory, "bench_market_data", place->market_program);
}
