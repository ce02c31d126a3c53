/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/names.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "link/descriptor.h"

/* __SO_ACCEPTCON, as the list shows it. */
#define ACCEPTS_FLAG 0x10000u
#define PREFIX "verbena/"
/* A system with more sockets than that is asked name by name. */
#define LINES_MAX 1000000
/* Those who wait for a lock connect to it and are never accepted. */
#define LOCK_BACKLOG 128
#define LOCK_PAUSE_NS VBN_MILLISECOND
#define OVERFLOW_USER 65534
#define LISTENING_FLAG 0x10000u /* in /proc/net/unix */

/* The longest of all our names has less than 90 characters; sun_path has room for 107. */
#define NAME_TEXT_BYTES (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

struct host_name host_name_of_text(const char *text)
{
	struct host_name name = {.address.sun_family = AF_UNIX};
	size_t length = strnlen(text, NAME_TEXT_BYTES);

	memcpy(name.address.sun_path + 1, text, length);
	name.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
	return name;
}

struct host_name host_name_of_slot(uid_t user, uint32_t slot, const char *part)
{
	char text[NAME_TEXT_BYTES];

	snprintf(text, sizeof(text), PREFIX "%u/%u/%u%s", REGISTRY_LAYOUT, user, slot, part);
	return host_name_of_text(text);
}

bool host_name_is_of(const char *text, uid_t user)
{
	char before[NAME_TEXT_BYTES];

	snprintf(before, sizeof(before), PREFIX "%u/%u/", REGISTRY_LAYOUT, user);
	return strncmp(text, before, strlen(before)) == 0;
}

void host_address_text(const struct link_address *address, char text[HOST_ADDRESS_TEXT_BYTES])
{
	char gid[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, address->gid, gid, sizeof(gid));
	snprintf(text, HOST_ADDRESS_TEXT_BYTES, "%s%%%u", gid, address->scope);
}

struct host_name host_name_at(uid_t user, uint32_t slot, const struct link_address *address)
{
	char text[HOST_ADDRESS_TEXT_BYTES], part[HOST_ADDRESS_TEXT_BYTES + 4];

	host_address_text(address, text);
	snprintf(part, sizeof(part), "/at/%s", text);
	return host_name_of_slot(user, slot, part);
}

struct host_name host_name_of_lock(uid_t user, const struct link_address *address)
{
	char text[NAME_TEXT_BYTES], of_address[HOST_ADDRESS_TEXT_BYTES] = "";

	if (address)
		host_address_text(address, of_address);
	snprintf(text, sizeof(text), PREFIX "%u/%u/lock%s%s", REGISTRY_LAYOUT, user,
		 address ? "/" : "", of_address);
	return host_name_of_text(text);
}

int host_name_bind(const struct host_name *name, int type, int backlog)
{
	int fd = descriptor_socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&name->address, name->length) == 0 &&
	    (backlog == 0 || listen(fd, backlog) == 0))
		return fd;
	error = -errno;
	close(fd);
	return error;
}

int host_name_connect(const struct host_name *name, int type, struct ucred *owner)
{
	int fd = descriptor_socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t length = sizeof(*owner);
	int error;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&name->address, name->length) == 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, owner, &length) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/*
 * The name of the listening socket in a line of /proc/net/unix, or NULL. The kernel writes '@' for
 * the leading 0. Connections that nobody has accepted bear the name as well, and do not count.
 */
static const char *name_in_line(char *line)
{
	char *name = strstr(line, " @" PREFIX);
	unsigned int flags;

	if (!name || sscanf(line, "%*s %*x %*x %x", &flags) != 1 || !(flags & ACCEPTS_FLAG))
		return NULL;
	name[strcspn(name, "\n")] = '\0';
	return name + 2;
}

/* "Num RefCount Protocol Flags Type St Inode Path": the flags of who listens. */
static bool is_listening_line(const char *line)
{
	const char *flags = strchr(line, ':');
	unsigned int value;

	return flags && sscanf(flags + 1, "%*x %*x %x", &value) == 1 && value & LISTENING_FLAG;
}

bool host_names_list(void (*each)(void *context, const char *name, bool is_listening),
		     void *context)
{
	/* A thread may have a network namespace of its own. */
	FILE *file = fopen("/proc/thread-self/net/unix", "re");
	char line[512];
	uint32_t lines = 0;

	if (!file)
		return false;
	while (lines < LINES_MAX && fgets(line, sizeof(line), file)) {
		const char *name = name_in_line(line);

		lines++;
		if (name)
			each(context, name, is_listening_line(line));
	}
	fclose(file);
	/* The first line is a heading: without it this is no list. */
	return lines > 0 && lines < LINES_MAX;
}

struct claimed_search {
	struct host_slot_set *claimed;
	char before[48]; /* what stands before the slot */
};

/* A claim counts from binding on, listening or not. */
static void claimed_each(void *context, const char *name, bool is_listening)
{
	struct claimed_search *search = context;
	size_t length = strlen(search->before);
	unsigned long slot;
	char *end;

	(void)is_listening;
	if (strncmp(name, search->before, length) != 0)
		return;
	name += length;
	if (name[0] < '0' || name[0] > '9')
		return;
	slot = strtoul(name, &end, 10);
	if (*end == '\0' && slot < HOST_SLOTS)
		host_slot_set_add(search->claimed, (uint32_t)slot);
}

/* Each call leaves a connection at the owner, which counts against its backlog. */
static bool claim_exists(uid_t user, uint32_t slot)
{
	struct host_name name = host_name_of_slot(user, slot, HOST_NAME_CLAIM);
	struct ucred owner;
	int fd = host_name_connect(&name, HOST_NAME_TYPE, &owner);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || fd == -EAGAIN;
}

void host_names_claimed(uid_t user, struct host_slot_set *claimed)
{
	struct claimed_search search = {.claimed = claimed};

	*claimed = (struct host_slot_set){0};
	snprintf(search.before, sizeof(search.before), PREFIX "%u/%u/", REGISTRY_LAYOUT, user);
	if (host_names_list(claimed_each, &search))
		return;
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		if (claim_exists(user, slot))
			host_slot_set_add(claimed, slot);
	}
}

bool host_member_stands(uid_t user, uint32_t slot)
{
	/* Of all its names the only one that can be connected to without being noticed. */
	struct host_name name = host_name_of_slot(user, slot, HOST_NAME_FORWARD);
	struct ucred owner;
	int fd = host_name_connect(&name, SOCK_DGRAM, &owner);

	if (fd >= 0)
		close(fd);
	return fd != -ECONNREFUSED;
}

/*
 * Users that our user namespace has no number for all appear as the same one. Only where all
 * numbers are mapped is that one a user.
 */
static bool all_users_are_mapped(void)
{
	FILE *file = fopen("/proc/self/uid_map", "re");
	unsigned long first, outside, count = 0;

	if (!file)
		return false;
	if (fscanf(file, "%lu %lu %lu", &first, &outside, &count) != 3)
		count = 0;
	fclose(file);
	return count >= UINT32_MAX;
}

bool host_is_user(uid_t user, uid_t other)
{
	return user == other && (user != OVERFLOW_USER || all_users_are_mapped());
}

/* Returns when the holder of the lock is gone, at @deadline, or soon. */
static void wait_for_holder(const struct host_name *name, vbn_time deadline)
{
	struct ucred owner;
	int fd = host_name_connect(name, HOST_NAME_TYPE, &owner);
	vbn_time now = clock_now();
	struct pollfd hang_up = {.fd = fd};

	if (fd < 0) {
		/* It is just gone, or not listening yet. */
		host_pause(LOCK_PAUSE_NS);
		return;
	}
	if (now < deadline)
		poll(&hang_up, 1, (int)((deadline - now) / VBN_MILLISECOND) + 1);
	close(fd);
}

int host_lock_take(uid_t user, const struct link_address *address, vbn_time deadline)
{
	struct host_name name = host_name_of_lock(user, address);

	for (;;) {
		int fd = host_name_bind(&name, HOST_NAME_TYPE, LOCK_BACKLOG);

		if (fd != -EADDRINUSE)
			return fd;
		if (clock_now() >= deadline)
			return -EAGAIN;
		wait_for_holder(&name, deadline);
	}
}

void host_pause(uint64_t ns)
{
	struct timespec time = {.tv_sec = (time_t)(ns / VBN_SECOND),
				.tv_nsec = (long)(ns % VBN_SECOND)};

	nanosleep(&time, NULL);
}
