/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena: runs programs on the software NIC and tells what the NIC is like here.
 */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

struct subcommand {
	const char *name;
	int (*run)(int argc, char **argv);
};

static const char usage[] =
	"usage: verbena run [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
	"       verbena info [--json]\n"
	"       verbena stat [--pid PID] [--all] [--json] [--interval SECONDS [--count N]]\n"
	"       verbena bench [latency] [throughput] [qps] [pages] [market-data]\n"
	"                     [OPTION...]\n"
	"       verbena --version | --help\n"
	"\n"
	"  run    start a program whose verbs calls reach Verbena, a software RDMA NIC\n"
	"  info   devices, GIDs, limits, and why an interface is not usable\n"
	"  stat   what running programs send, receive and drop, live\n"
	"  bench  latency and throughput beside TCP, UDP, UCX and libfabric\n"
	"\n"
	"`verbena run --help` and its like list their options; see also verbena(1).\n";

int main(int argc, char **argv)
{
	static const struct subcommand subcommands[] = {{"run", command_run},
							{"info", command_info},
							{"stat", command_stat},
							{"bench", command_bench}};
	const char *word = argc > 1 ? argv[1] : "";

	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
		fputs(usage, stdout);
		return STATUS_GOOD;
	}
	if (strcmp(word, "--version") == 0) {
		puts("verbena " VERBENA_VERSION);
		return STATUS_GOOD;
	}
	for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
		if (strcmp(word, subcommands[i].name) == 0)
			return subcommands[i].run(argc - 1, argv + 1);
	if (*word)
		fprintf(stderr, "verbena: there is no subcommand \"%s\".\n", word);
	fputs(usage, stderr);
	return STATUS_USAGE;
}
