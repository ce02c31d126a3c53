/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/run_settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/profile.h"
#include "engine/settings.h"
#include "link/link.h"

static bool is_word(const char *value, const char *const *words, char *why, size_t why_bytes)
{
	size_t length = (size_t)snprintf(why, why_bytes, "known are");

	for (const char *const *word = words; *word; word++) {
		if (strcmp(value, *word) == 0)
			return true;
		if (length < why_bytes)
			length += (size_t)snprintf(why + length, why_bytes - length, " %s", *word);
	}
	return false;
}

static bool check_link(const char *value, char *why, size_t why_bytes)
{
	static const char *const words[] = {"auto", "shm", "udp", NULL};

	return is_word(value, words, why, why_bytes);
}

static bool check_direct(const char *value, char *why, size_t why_bytes)
{
	static const char *const words[] = {"auto", "off", "vm", NULL};

	return is_word(value, words, why, why_bytes);
}

static bool check_adopt(const char *value, char *why, size_t why_bytes)
{
	static const char *const words[] = {"off", "safe", "all", NULL};

	return is_word(value, words, why, why_bytes);
}

static bool check_log(const char *value, char *why, size_t why_bytes)
{
	static const char *const words[] = {"none", "error", "info", "debug", NULL};

	return is_word(value, words, why, why_bytes);
}

static bool check_part_id(const char *value, char *why, size_t why_bytes)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(value, &end, 0);
	if (*value >= '0' && *value <= '9' && !*end && !errno && number <= UINT32_MAX)
		return true;
	snprintf(why, why_bytes, "write a number such as 4119 or 0x1017");
	return false;
}

static bool check_profile(const char *value, char *why, size_t why_bytes)
{
	if (profile_named(value))
		return true;
	snprintf(why, why_bytes, "known are %s", profile_names);
	return false;
}

static bool check_fault(const char *value, char *why, size_t why_bytes)
{
	return link_fault_check(value, why, why_bytes);
}

/*
 * Binding a socket is the one test of "is this address mine" that holds for 127/8,
 * namespaces and IPv6 alike. Broadcast addresses can be bound too; sending to one
 * without asking for it is refused.
 */
static int try_address(const struct link_address *address)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	bool is_ipv4 = link_address_is_ipv4(address);
	const struct sockaddr *to = is_ipv4 ? (void *)&in : (void *)&in6;
	socklen_t length = is_ipv4 ? sizeof(in) : sizeof(in6);
	int fd = socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int error = 0;

	if (fd < 0)
		return errno;
	memcpy(&in.sin_addr, address->gid + 12, 4);
	memcpy(&in6.sin6_addr, address->gid, 16);
	if (bind(fd, to, length) != 0)
		error = errno;
	in.sin_port = in6.sin6_port = htons(4791);
	if (!error && connect(fd, to, length) != 0)
		error = errno;
	close(fd);
	return error;
}

static bool is_host_address(const struct link_address *address)
{
	static const uint8_t nothing[16];

	if (memcmp(address->gid, nothing, 16) == 0 || address->gid[0] == 0xff)
		return false;
	/* 0/8 is "this network", 224/4 multicast. */
	return !link_address_is_ipv4(address) || (address->gid[12] != 0 && address->gid[12] < 0xe0);
}

static bool check_address(const char *value, char *why, size_t why_bytes)
{
	struct link_address address;
	int error;

	if (!settings_parse_address(value, &address)) {
		snprintf(why, why_bytes, "write an address such as 127.0.0.2");
		return false;
	}
	error = is_host_address(&address) ? try_address(&address) : EACCES;
	if (error == 0)
		return true;
	if (error == EADDRNOTAVAIL || error == EINVAL)
		snprintf(why, why_bytes,
			 "it is no address of this machine; any of 127/8 is, such as 127.0.0.2");
	else if (error == EACCES)
		snprintf(why, why_bytes, "it is not the address of one host");
	else
		snprintf(why, why_bytes, "it cannot be bound: %s", strerror(error));
	return false;
}

/* Nothing is left behind and nothing is cut: the library opens the file itself. */
static bool check_capture(const char *value, char *why, size_t why_bytes)
{
	struct stat status;
	int fd;

	if (stat(value, &status) == 0) {
		if (S_ISDIR(status.st_mode))
			errno = EISDIR;
		else if (access(value, W_OK) == 0)
			return true;
	} else {
		fd = open(value, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0) {
			close(fd);
			unlink(value);
			return true;
		}
	}
	snprintf(why, why_bytes, "it cannot be written: %s", strerror(errno));
	return false;
}

const struct run_setting run_settings[] = {
	{"link", "VERBENA_LINK", check_link},
	{"address", "VERBENA_ADDRESS", check_address},
	{"fault", "VERBENA_FAULT", check_fault},
	{"capture", "VERBENA_CAPTURE", check_capture},
	{"direct", "VERBENA_DIRECT", check_direct},
	{"adopt", "VERBENA_ADOPT", check_adopt},
	{"profile", "VERBENA_PROFILE", check_profile},
	{"part-id", "VERBENA_PART_ID", check_part_id},
	{"log", "VERBENA_LOG", check_log},
};
const size_t run_setting_count = sizeof(run_settings) / sizeof(run_settings[0]);

/* The program may change its folder before it opens the file. */
static const char *absolute_path(const char *value, char *path, size_t path_bytes)
{
	char folder[PATH_MAX];

	if (*value == '/' || !getcwd(folder, sizeof(folder)))
		return value;
	snprintf(path, path_bytes, "%s/%s", folder, value);
	return path;
}

bool run_setting_apply(const struct run_setting *setting, const char *value)
{
	char why[256], path[2 * PATH_MAX];

	if (!setting->check(value, why, sizeof(why))) {
		fprintf(stderr, "verbena run: --%s %s: %s.\n", setting->option, value, why);
		return false;
	}
	if (setting->check == check_capture)
		value = absolute_path(value, path, sizeof(path));
	if (setenv(setting->variable, value, 1) != 0) {
		fprintf(stderr, "verbena run: %s\n", strerror(errno));
		return false;
	}
	return true;
}

bool run_settings_check_environment(void)
{
	struct settings settings;
	char why[256];

	if (!settings_read(&settings))
		return false;
	for (size_t i = 0; i < run_setting_count; i++) {
		const char *value = getenv(run_settings[i].variable);

		if (value && *value && !run_settings[i].check(value, why, sizeof(why))) {
			fprintf(stderr, "verbena run: %s=%s: %s.\n", run_settings[i].variable,
				value, why);
			return false;
		}
	}
	return true;
}
