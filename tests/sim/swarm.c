/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * swarm --seeds A..B [--shard I/N] [--twice]   runs the seeds A to B, or the I-th of N parts
 * swarm --shard I/N                            as many seeds as VERBENA_SWARM_SEEDS says
 * swarm --seed S [--trace]                     one seed, with its plan and its trace
 * swarm --rings ...                            hosts have rings in memory between them (rings.h)
 * swarm --file PATH                            the first word of each line is a seed
 *
 * Exits 1 when a seed failed and prints the command that repeats it.
 */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "sim/swarm_run.h"

#define SEEDS_DEFAULT 10000

struct options {
	uint64_t first, last;
	uint64_t shard, shard_count;
	bool is_single, with_trace, runs_twice, has_rings;
	const char *file;
};

struct totals {
	uint64_t seeds, failed, events, packets, counted;
};

static bool run_one(uint64_t seed, const struct options *options, struct totals *totals)
{
	struct swarm_result result = swarm_run(seed, options->with_trace ? stdout : NULL);

	totals->seeds++;
	totals->events += result.events;
	totals->packets += result.packets;
	totals->counted += result.counted;
	if (!result.has_failed && options->runs_twice &&
	    swarm_run(seed, NULL).trace_hash != result.trace_hash) {
		result.has_failed = true;
		snprintf(result.failure, sizeof(result.failure), "two runs differ");
	}
	if (!result.has_failed)
		return true;
	totals->failed++;
	printf("FAILED seed %llu: %s\n  repeat with: %s%s --seed %llu --trace\n",
	       (unsigned long long)seed, result.failure, program_invocation_name,
	       options->has_rings ? " --rings" : "", (unsigned long long)seed);
	fflush(stdout);
	return false;
}

static bool parse_number(const char *text, char **end, uint64_t *number)
{
	errno = 0;
	*number = strtoull(text, end, 10);
	return *end != text && errno == 0;
}

static bool parse_seeds(const char *text, struct options *options)
{
	char *end;

	if (!parse_number(text, &end, &options->first) || strncmp(end, "..", 2) != 0)
		return false;
	return parse_number(end + 2, &end, &options->last) && *end == '\0' &&
	       options->first <= options->last;
}

static bool parse_shard(const char *text, struct options *options)
{
	char *end;

	if (!parse_number(text, &end, &options->shard) || *end != '/')
		return false;
	return parse_number(end + 1, &end, &options->shard_count) && *end == '\0' &&
	       options->shard < options->shard_count;
}

static bool parse_seed(const char *text, struct options *options)
{
	char *end;

	options->is_single = true;
	if (!parse_number(text, &end, &options->first) || *end != '\0')
		return false;
	options->last = options->first;
	return true;
}

static bool parse_option(char **argument, struct options *options, int *used)
{
	*used = 1;
	if (strcmp(argument[0], "--trace") == 0)
		return options->with_trace = true;
	if (strcmp(argument[0], "--twice") == 0)
		return options->runs_twice = true;
	if (strcmp(argument[0], "--rings") == 0)
		return options->has_rings = swarm_use_rings();
	*used = 2;
	if (!argument[1])
		return false;
	if (strcmp(argument[0], "--seeds") == 0)
		return parse_seeds(argument[1], options);
	if (strcmp(argument[0], "--seed") == 0)
		return parse_seed(argument[1], options);
	if (strcmp(argument[0], "--shard") == 0)
		return parse_shard(argument[1], options);
	options->file = argument[1];
	return strcmp(argument[0], "--file") == 0;
}

static bool run_file(const struct options *options, struct totals *totals)
{
	FILE *file = fopen(options->file, "r");
	char line[256], *end;
	uint64_t seed;

	if (!file) {
		perror(options->file);
		return false;
	}
	while (fgets(line, sizeof(line), file))
		if (parse_number(line, &end, &seed))
			run_one(seed, options, totals);
	fclose(file);
	return totals->failed == 0;
}

static bool run_range(const struct options *options, struct totals *totals)
{
	for (uint64_t seed = options->first; seed <= options->last; seed++)
		if (seed % options->shard_count == options->shard)
			run_one(seed, options, totals);
	return totals->failed == 0;
}

static uint64_t seeds_wanted(void)
{
	const char *text = getenv("VERBENA_SWARM_SEEDS");
	uint64_t count;
	char *end;

	if (text && parse_number(text, &end, &count) && *end == '\0' && count)
		return count;
	return SEEDS_DEFAULT;
}

static void print_totals(const struct totals *totals)
{
	printf("%llu seeds, %llu failed, %llu events, %llu packets",
	       (unsigned long long)totals->seeds, (unsigned long long)totals->failed,
	       (unsigned long long)totals->events, (unsigned long long)totals->packets);
	if (swarm_counts)
		printf(", %llu %s", (unsigned long long)totals->counted, swarm_counts);
	putchar('\n');
}

int main(int argc, char **argv)
{
	struct options options = {.first = 1, .last = seeds_wanted(), .shard_count = 1};
	struct totals totals = {0};
	bool is_good;

	/* Worlds come and go: their memory stays with the process. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	for (int i = 1, used; i < argc; i += used) {
		if (!parse_option(&argv[i], &options, &used)) {
			fprintf(stderr, "swarm: cannot take \"%s\"; see the top of swarm.c\n",
				argv[i]);
			return 2;
		}
	}
	if (options.is_single)
		swarm_describe(options.first, stdout);
	is_good = options.file ? run_file(&options, &totals) : run_range(&options, &totals);
	print_totals(&totals);
	return is_good ? 0 : 1;
}
