/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena stat: live counters of every process of this user. It reads what the processes
 * share and asks none of them, so a stopped one is shown like any other.
 */
#include "tools/stat.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/command.h"

#define INTERVAL_MAX 86400.0

static const char usage[] =
	"usage: verbena stat [--pid PID] [--all] [--json] [--interval SECONDS [--count N]]\n"
	"\n"
	"  --pid PID           this process only\n"
	"  --all               every counter, also those that are 0\n"
	"  --json              for programs: one object a line, with totals\n"
	"  --interval SECONDS  again and again: first totals, then what happens a second\n"
	"  --count N           stop after N times\n";

static bool parse_count(const char *text, uint64_t max, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *value > 0 && *value <= max;
}

static bool parse_interval(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	return end != text && !*end && *seconds >= 0.001 && *seconds <= INTERVAL_MAX;
}

/* False after a sentence. */
static bool take_option(int choice, const char *value, struct stat_options *options)
{
	uint64_t number = 0;

	switch (choice) {
	case 'p':
		if (parse_count(value, INT32_MAX, &number)) {
			options->pid = (int32_t)number;
			return true;
		}
		fprintf(stderr, "verbena stat: \"%s\" is no process number.\n", value);
		return false;
	case 'i':
		if (parse_interval(value, &options->interval))
			return true;
		fprintf(stderr, "verbena stat: \"%s\" is no number of seconds, such as 1 or 0.5.\n",
			value);
		return false;
	case 'c':
		if (parse_count(value, UINT64_MAX, &options->count))
			return true;
		fprintf(stderr, "verbena stat: \"%s\" is no number of times.\n", value);
		return false;
	case 'a':
		options->all_counters = true;
		return true;
	case 'j':
		options->as_json = true;
		return true;
	default:
		fputs(usage, stderr);
		return false;
	}
}

static bool parse(int argc, char **argv, struct stat_options *options, bool *wants_help)
{
	static const struct option words[] = {{"pid", required_argument, NULL, 'p'},
					      {"all", no_argument, NULL, 'a'},
					      {"json", no_argument, NULL, 'j'},
					      {"interval", required_argument, NULL, 'i'},
					      {"count", required_argument, NULL, 'c'},
					      {"help", no_argument, NULL, 'h'},
					      {0}};
	int choice;

	*options = (struct stat_options){0};
	*wants_help = false;
	while ((choice = getopt_long(argc, argv, "h", words, NULL)) != -1) {
		if (choice == 'h')
			*wants_help = true;
		else if (!take_option(choice, optarg, options))
			return false;
	}
	if (optind == argc && (options->interval > 0 || !options->count))
		return true;
	fputs(usage, stderr);
	return false;
}

/* --- one look --- */

struct looking {
	struct host_view view;
	bool has_view;
};

static void close_view(struct looking *looking)
{
	if (looking->has_view)
		host_view_close(&looking->view);
	looking->has_view = false;
}

static bool has_members(const struct host_view *view)
{
	struct registry_member member;

	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
		if (host_view_member(view, slot, &member))
			return true;
	return false;
}

static int open_view(struct looking *looking)
{
	int error;

	if (looking->has_view && has_members(&looking->view))
		return 0;
	/* The first member, or the first after the last one left: they may have a new registry. */
	close_view(looking);
	error = host_observe(&looking->view);
	looking->has_view = error == 0;
	return error == -ENOENT ? 0 : error;
}

/* False after a sentence. */
static bool look(struct looking *looking, int32_t pid, struct snapshot *snapshot)
{
	int error = open_view(looking);

	*snapshot = (struct snapshot){0};
	if (error == -EAGAIN)
		fputs("verbena stat: processes use Verbena here, but none answers, and the system "
		      "does not let this one look into them. Are all of them stopped?\n",
		      stderr);
	else if (error)
		fprintf(stderr, "verbena stat: what the processes share cannot be read: %s.\n",
			strerror(-error));
	if (error)
		return false;
	if (snapshot_take(looking->has_view ? &looking->view : NULL, pid, snapshot))
		return true;
	fputs("verbena stat: out of memory.\n", stderr);
	return false;
}

/* --- again and again --- */

static void wait_until(struct timespec *moment, double interval)
{
	time_t whole = (time_t)interval;

	moment->tv_sec += whole;
	moment->tv_nsec += (long)((interval - (double)whole) * 1e9);
	if (moment->tv_nsec >= 1000000000) {
		moment->tv_sec++;
		moment->tv_nsec -= 1000000000;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, moment, NULL) == EINTR)
		;
}

static void write_snapshot(const struct snapshot *now, const struct snapshot *before,
			   const struct stat_options *options)
{
	if (options->as_json) {
		stat_write_json(now);
	} else {
		if (before)
			putchar('\n');
		stat_write_text(now, before, options);
	}
	fflush(stdout);
}

static int run(const struct stat_options *options)
{
	struct looking looking = {0};
	struct snapshot now, before = {0};
	struct timespec moment;
	bool is_good = true;
	uint64_t times = 0;

	clock_gettime(CLOCK_MONOTONIC, &moment);
	while (is_good) {
		is_good = look(&looking, options->pid, &now);
		if (!is_good)
			break;
		write_snapshot(&now, times ? &before : NULL, options);
		snapshot_free(&before);
		before = now;
		times++;
		if (options->interval <= 0 || times == options->count)
			break;
		wait_until(&moment, options->interval);
	}
	/* Whoever asks for one process is told by the status whether it is there. */
	if (options->pid && !before.process_count)
		is_good = false;
	snapshot_free(&before);
	close_view(&looking);
	return is_good ? STATUS_GOOD : STATUS_FAILED;
}

int command_stat(int argc, char **argv)
{
	struct stat_options options;
	bool wants_help;

	if (!parse(argc, argv, &options, &wants_help))
		return STATUS_USAGE;
	if (wants_help) {
		fputs(usage, stdout);
		return STATUS_GOOD;
	}
	return run(&options);
}
