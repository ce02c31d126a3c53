/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena bench: Verbena beside what it is compared with, in one run; bench/README.md tells how.
 */
#include "tools/bench/bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"

#define INTERRUPTED_STATUS 130
#define SECONDS_MAX 86400.0

static const char usage[] =
	"usage: verbena bench [latency] [throughput] [qps] [pages] [market-data]\n"
	"                     [OPTION...]\n"
	"\n"
	"Measures Verbena beside TCP, UDP, bare shared memory and, where they are installed, UCX\n"
	"(ucx_perftest) and libfabric (fi_pingpong); all five kinds without a word.\n"
	"\n"
	"  --links LIST        of self,shm,udp (default: all that are there)\n"
	"  --against LIST      of tcp,udp,memory,ucx,libfabric, or none (default: all)\n"
	"  --sizes LIST        such as 16,4K,1M, up to 4M (default: twelve from 1 on)\n"
	"  --rounds N          in which everything takes turns (default 5)\n"
	"  --duration SECONDS  no round begins that would end later (default 170)\n"
	"  --json FILE         all figures, for programs; - is standard output\n"
	"  --samples           with every single sample in it\n"
	"  --report FILE.html  a page with plots\n"
	"  --quick             everything once, with tiny counts: does it work?\n";

struct bench_options {
	struct plan plan;
	const char *json_file, *report_file;
	bool with_samples, has_links, has_peers;
};

/* --- reading the command line; all return false after a sentence --- */

static bool take_size(const char *word, struct plan *plan)
{
	unsigned long long size;
	char *end;

	errno = 0;
	size = strtoull(word, &end, 10);
	if (size > ORDER_SIZE_MAX)
		errno = ERANGE;
	if (*end == 'K')
		size <<= 10;
	else if (*end == 'M')
		size <<= 20;
	if (*word < '0' || *word > '9' || errno || (*end && end[1]) ||
	    (*end && *end != 'K' && *end != 'M') || size == 0 || size > ORDER_SIZE_MAX) {
		fprintf(stderr,
			"verbena bench: \"%s\" is no size from 1 to 4M, such as 16 or 64K.\n",
			word);
		return false;
	}
	for (size_t i = 0; i < plan->size_count; i++)
		if (plan->sizes[i] == size)
			return true;
	if (plan->size_count == SIZES_MAX) {
		fprintf(stderr, "verbena bench: more than %d sizes.\n", SIZES_MAX);
		return false;
	}
	plan->sizes[plan->size_count++] = size;
	return true;
}

static bool take_link(const char *word, struct plan *plan)
{
	const struct contender *contender = contender_named(word);

	if (contender && contender_is_link(contender)) {
		plan->is_wanted[contender - contenders] = true;
		return true;
	}
	fprintf(stderr, "verbena bench: there is no link \"%s\"; there are self, shm and udp.\n",
		word);
	return false;
}

/* "ucx" stands for all of its contenders. */
static bool take_peer(const char *word, struct plan *plan)
{
	size_t length = strlen(word);
	bool is_found = strcmp(word, "none") == 0;

	for (size_t i = 0; i < contender_count && length; i++) {
		const char *id = contenders[i].id;

		if (contender_is_link(&contenders[i]) || strncmp(id, word, length) != 0 ||
		    (id[length] != '\0' && id[length] != '-'))
			continue;
		plan->is_wanted[i] = is_found = true;
	}
	if (!is_found)
		fprintf(stderr,
			"verbena bench: there is no peer \"%s\"; there are tcp, udp, memory, ucx and "
			"libfabric, or none.\n",
			word);
	return is_found;
}

static bool take_list(const char *list, struct plan *plan,
		      bool (*take)(const char *word, struct plan *plan))
{
	char copy[256], *rest = copy, *word;

	if ((size_t)snprintf(copy, sizeof(copy), "%s", list) >= sizeof(copy)) {
		fputs("verbena bench: a list is too long.\n", stderr);
		return false;
	}
	while ((word = strsep(&rest, ",")))
		if (!take(word, plan))
			return false;
	return true;
}

static bool take_rounds(const char *word, struct plan *plan)
{
	char *end;
	unsigned long rounds = strtoul(word, &end, 10);

	plan->rounds = (unsigned)rounds;
	if (*word >= '0' && *word <= '9' && !*end && rounds >= 1 && rounds <= ROUNDS_MAX)
		return true;
	fprintf(stderr, "verbena bench: \"%s\" is no number of rounds from 1 to %d.\n", word,
		ROUNDS_MAX);
	return false;
}

static bool take_seconds(const char *word, struct plan *plan)
{
	char *end;

	plan->seconds_max = strtod(word, &end);
	if (end != word && !*end && plan->seconds_max > 0 && plan->seconds_max <= SECONDS_MAX)
		return true;
	fprintf(stderr, "verbena bench: \"%s\" is no number of seconds, such as 60.\n", word);
	return false;
}

static bool take_kind(const char *word, struct plan *plan)
{
	if (strcmp(word, "latency") == 0)
		plan->latency = true;
	else if (strcmp(word, "throughput") == 0)
		plan->throughput = true;
	else if (strcmp(word, "qps") == 0)
		plan->qps = true;
	else if (strcmp(word, "pages") == 0)
		plan->pages = true;
	else if (strcmp(word, "market-data") == 0)
		plan->market = true;
	else {
		fprintf(stderr, "verbena bench: \"%s\" is nothing to measure.\n%s", word, usage);
		return false;
	}
	return true;
}

static bool take_option(int choice, const char *value, struct bench_options *options)
{
	struct plan *plan = &options->plan;

	switch (choice) {
	case 'l':
		options->has_links = true;
		return take_list(value, plan, take_link);
	case 'a':
		options->has_peers = true;
		return take_list(value, plan, take_peer);
	case 's':
		return take_list(value, plan, take_size);
	case 'n':
		return take_rounds(value, plan);
	case 'd':
		return take_seconds(value, plan);
	case 'j':
		options->json_file = value;
		return true;
	case 'e':
		options->with_samples = true;
		return true;
	case 'r':
		options->report_file = value;
		return true;
	case 'q':
		plan->is_quick = true;
		return true;
	default:
		fputs(usage, stderr);
		return false;
	}
}

static int compare_sizes(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void take_defaults(struct bench_options *options)
{
	static const char all_sizes[] = "1,8,16,64,256,1K,4K,16K,64K,256K,1M,4M";
	struct plan *plan = &options->plan;

	if (!plan->latency && !plan->throughput && !plan->qps && !plan->pages && !plan->market)
		plan->latency = plan->throughput = plan->qps = plan->pages = plan->market = true;
	for (size_t i = 0; i < contender_count; i++)
		if (!(contender_is_link(&contenders[i]) ? options->has_links : options->has_peers))
			plan->is_wanted[i] = true;
	if (plan->size_count == 0)
		take_list(plan->is_quick ? "8,16,1M" : all_sizes, plan, take_size);
	qsort(plan->sizes, plan->size_count, sizeof(plan->sizes[0]), compare_sizes);
	if (!plan->rounds)
		plan->rounds = plan->is_quick ? 1 : 5;
	plan->duration_ns = plan->is_quick ? 200000 : 15000000;
	plan->samples_max = plan->is_quick ? 200 : 20000;
	plan->snapshots = plan->is_quick ? 2000 : 40000;
	plan->qp_counts[0] = 1;
	plan->qp_counts[1] = plan->is_quick ? 4 : 64;
	plan->qp_counts[2] = plan->is_quick ? 16 : 10000;
}

static bool parse(int argc, char **argv, struct bench_options *options, bool *wants_help)
{
	static const struct option words[] = {{"links", required_argument, NULL, 'l'},
					      {"against", required_argument, NULL, 'a'},
					      {"sizes", required_argument, NULL, 's'},
					      {"rounds", required_argument, NULL, 'n'},
					      {"duration", required_argument, NULL, 'd'},
					      {"json", required_argument, NULL, 'j'},
					      {"samples", no_argument, NULL, 'e'},
					      {"report", required_argument, NULL, 'r'},
					      {"quick", no_argument, NULL, 'q'},
					      {"help", no_argument, NULL, 'h'},
					      {0}};
	int choice;

	*options = (struct bench_options){.plan = {.seconds_max = 170}};
	*wants_help = false;
	while ((choice = getopt_long(argc, argv, "h", words, NULL)) != -1) {
		if (choice == 'h')
			*wants_help = true;
		else if (!take_option(choice, optarg, options))
			return false;
	}
	for (int i = optind; i < argc; i++)
		if (!take_kind(argv[i], &options->plan))
			return false;
	if (options->with_samples && !options->json_file) {
		fputs("verbena bench: --samples go into the file of --json.\n", stderr);
		return false;
	}
	take_defaults(options);
	return true;
}

/* --- files --- */

/* Opened before anything is measured: a name that cannot be written is told at once. */
static bool open_file(const char *name, FILE **file)
{
	*file = NULL;
	if (!name)
		return true;
	*file = strcmp(name, "-") == 0 ? stdout : fopen(name, "we");
	if (*file)
		return true;
	fprintf(stderr, "verbena bench: %s cannot be written: %s.\n", name, strerror(errno));
	return false;
}

static bool close_file(const char *name, FILE *file)
{
	if (!file)
		return true;
	if ((file == stdout ? fflush(file) : fclose(file)) == 0)
		return true;
	fprintf(stderr, "verbena bench: %s cannot be written: %s.\n", name, strerror(errno));
	return false;
}

static bool write_all(const struct bench_options *options, const struct results *results,
		      FILE *json, FILE *report)
{
	bool is_good = true;

	if (json != stdout && report != stdout)
		table_write(stdout, &options->plan, results);
	if (json)
		results_write_json(json, &options->plan, results, options->with_samples);
	if (report)
		report_write(report, &options->plan, results);
	is_good = close_file(options->json_file, json) && is_good;
	return close_file(options->report_file, report) && is_good;
}

int command_bench(int argc, char **argv)
{
	struct bench_options options;
	struct results results = {0};
	FILE *json, *report;
	bool wants_help, is_good;

	if (!parse(argc, argv, &options, &wants_help))
		return STATUS_USAGE;
	if (wants_help) {
		fputs(usage, stdout);
		return STATUS_GOOD;
	}
	if (!open_file(options.json_file, &json) || !open_file(options.report_file, &report))
		return STATUS_FAILED;
	is_good = bench_measure(&options.plan, &results);
	is_good = write_all(&options, &results, json, report) && is_good;
	if (results.cell_count == 0 && !results.is_interrupted)
		fputs("verbena bench: nothing could be measured.\n", stderr);
	is_good = is_good && results.cell_count > 0;
	if (results.is_interrupted) {
		results_free(&results);
		return INTERRUPTED_STATUS;
	}
	results_free(&results);
	return is_good ? STATUS_GOOD : STATUS_FAILED;
}
