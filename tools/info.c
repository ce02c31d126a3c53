/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena info: what a program would see here, and what is in its way. It looks at
 * the machine as the library does, but binds no address and holds nothing.
 */
#include "tools/info.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/library_path.h"

static const char usage[] = "usage: verbena info [--json]\n"
			    "\n"
			    "  --json   for programs: one object\n";

const char *info_link_word(enum link_choice choice)
{
	switch (choice) {
	case LINK_CHOICE_AUTO:
		return "auto";
	case LINK_CHOICE_UDP:
		return "udp";
	case LINK_CHOICE_SHM:
		return "shm";
	}
	return "";
}

const char *info_log_word(enum log_level level)
{
	switch (level) {
	case LOG_NONE:
		return "none";
	case LOG_ERROR:
		return "error";
	case LOG_INFO:
		return "info";
	case LOG_DEBUG:
		return "debug";
	}
	return "";
}

const char *info_gid(const uint8_t gid[16], char *text)
{
	return inet_ntop(AF_INET6, gid, text, INET6_ADDRSTRLEN);
}

unsigned int info_mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

static void keep_line(void *context, const char *text)
{
	struct info *info = context;

	if (info->unused_count < INFO_UNUSED_MAX)
		info->unused[info->unused_count++] = strdup(text);
}

static bool gather(struct info *info)
{
	*info = (struct info){0};
	info->has_library = library_directory(info->library);
	info->settings_are_right = settings_read(&info->settings);
	info->devices = device_list(&info->settings, &info->device_count);
	if (!info->devices) {
		fprintf(stderr, "verbena info: the interfaces cannot be listed: %s.\n",
			strerror(errno));
		return false;
	}
	if (info->device_count)
		device_fill_attr(&info->devices[0], &info->settings, &info->limits);
	host_facts_find(info->settings.receive_buffer_bytes, &info->host);
	device_explain_unused(&info->settings, keep_line, info);
	return true;
}

static void let_go(struct info *info)
{
	for (size_t i = 0; i < info->unused_count; i++)
		free(info->unused[i]);
	free(info->devices);
}

int command_info(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
	bool as_json = false;
	struct info info;
	int choice, status;

	while ((choice = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (choice == 'h') {
			fputs(usage, stdout);
			return STATUS_GOOD;
		}
		if (choice != 'j') {
			fputs(usage, stderr);
			return STATUS_USAGE;
		}
		as_json = true;
	}
	if (optind != argc) {
		fputs(usage, stderr);
		return STATUS_USAGE;
	}
	if (!gather(&info))
		return STATUS_FAILED;
	if (as_json)
		info_write_json(&info);
	else
		info_write_text(&info);
	status = info.device_count ? STATUS_GOOD : STATUS_FAILED;
	let_go(&info);
	return status;
}
