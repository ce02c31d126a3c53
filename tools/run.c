/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena run: starts a program with our library in front of the distribution's. The
 * program takes the place of this process, so signals, terminal and exit status
 * are its own.
 */
#include "tools/command.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/library_path.h"
#include "tools/program_file.h"
#include "tools/run_settings.h"

#define SETTINGS_MAX 16
#define FIRST_SETTING 256 /* getopt's values below are characters */

static const char usage[] =
	"usage: verbena run [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
	"\n"
	"  --address A       be the host with this one address; any of 127/8 will do\n"
	"  --link L          auto (default): shared memory inside one host; udp: sockets even inside\n"
	"                    one process; shm: nothing but memory, also between addresses\n"
	"  --direct auto|vm|off\n"
	"                    whether memory of other processes of this host is accessed by\n"
	"                    system calls instead of packets: where it pays, always, or never\n"
	"  --adopt off|safe|all\n"
	"                    whether they access registered memory by themselves: never, if the\n"
	"                    program has one thread, or always, with other threads stopped\n"
	"                    for the moment in which it is put into shared pages\n"
	"  --fault SPEC      lose, repeat, reorder, delay, damage packets on purpose, such as\n"
	"                    loss=1%,reorder=2%,dup=1%,corrupt=0.1%,delay=50us..2ms,seed=7\n"
	"  --capture FILE    write every packet to FILE, which Wireshark reads\n"
	"  --profile NAME    be a device of another kind: rxe-like, large-nic, small-inline\n"
	"  --part-id N       the vendor_part_id that the device shows\n"
	"  --log LEVEL       none, error, info or debug (default error)\n"
	"\n"
	"Each option has a variable VERBENA_LINK, VERBENA_ADDRESS and so on.\n";

/* STATUS_GOOD: the program is argv[optind]. */
static int read_options(int argc, char **argv)
{
	struct option options[SETTINGS_MAX + 2] = {{"help", no_argument, NULL, 'h'}};
	int choice;

	for (size_t i = 0; i < run_setting_count; i++)
		options[i + 1] = (struct option){run_settings[i].option, required_argument, NULL,
						 FIRST_SETTING + (int)i};
	/* '+': the first word that is no option is the program. */
	while ((choice = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		if (choice == 'h') {
			fputs(usage, stdout);
			exit(STATUS_GOOD);
		}
		if (choice < FIRST_SETTING) {
			fputs(usage, stderr);
			return STATUS_USAGE;
		}
		if (!run_setting_apply(&run_settings[choice - FIRST_SETTING], optarg))
			return STATUS_USAGE;
	}
	if (optind == argc) {
		fprintf(stderr, "verbena run: no program is named.\n%s", usage);
		return STATUS_USAGE;
	}
	return run_settings_check_environment() ? STATUS_GOOD : STATUS_USAGE;
}

static bool put_library_first(void)
{
	char directory[4096];

	if (library_directory(directory))
		return library_put_first();
	fprintf(stderr, "verbena run: there is no %s in %s; build it first.\n", LIBRARY_NAME,
		directory);
	return false;
}

static int start(char **words)
{
	char path[2 * PATH_MAX], why[PATH_MAX + 256];
	int error = program_find(words[0], path, sizeof(path));

	if (error == ENOENT) {
		fprintf(stderr, "verbena run: there is no program \"%s\".\n", words[0]);
		return STATUS_NOT_FOUND;
	}
	if (error == 0 && program_evades_library(path, why, sizeof(why)))
		fprintf(stderr, "verbena run: %s runs without Verbena: %s.\n", words[0], why);
	execvp(words[0], words);
	if (errno == ENOENT) {
		fprintf(stderr, "verbena run: the interpreter that %s asks for does not exist.\n",
			path);
		return STATUS_NOT_FOUND;
	}
	fprintf(stderr, "verbena run: %s cannot be started: %s.\n", words[0], strerror(errno));
	return STATUS_NOT_EXECUTABLE;
}

int command_run(int argc, char **argv)
{
	int status = read_options(argc, argv);

	if (status != STATUS_GOOD)
		return status;
	if (setenv("VERBENA_LOG", "error", 0) != 0 || !put_library_first())
		return STATUS_FAILED;
	return start(argv + optind);
}
