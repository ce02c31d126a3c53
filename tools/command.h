/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subcommands of `verbena`, each in a file of its own name. They get their own
 * words, the subcommand first, and return the exit status.
 */
#ifndef VBN_TOOLS_COMMAND_H
#define VBN_TOOLS_COMMAND_H

/*
 * Statuses of our own, as env(1) and shells have them. A program that was started
 * keeps its own, since it takes our place.
 */
enum command_status {
	STATUS_GOOD = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_NOT_EXECUTABLE = 126,
	STATUS_NOT_FOUND = 127,
};

/* Returns only when the program could not be started. */
int command_run(int argc, char **argv);
int command_info(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_bench(int argc, char **argv);

#endif
