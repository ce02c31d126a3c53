/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taking descriptors out of a member that does not answer
 *
 * A member that is stopped keeps all that a newcomer needs, and pidfd_getfd() copies a
 * descriptor out of a process without its help, where the newcomer would be allowed to
 * debug it. The registry is found by its file name among the member's descriptors, a vault
 * by the number that the registry has for it. Whatever comes out is checked by its kind
 * as if a stranger had sent it.
 *
 * A process that died may have left a child behind that still has its descriptors under the
 * same numbers, and the claim with them. Such a child is looked for among all processes
 * of the user.
 */
#include "host/host_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#define REGISTRY_LINK "/memfd:verbena-registry (deleted)"
#define ENTRIES_MAX 65536

static int copy_descriptor(pid_t pid, int number)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), fd;

	if (process < 0)
		return -errno;
	fd = (int)syscall(SYS_pidfd_getfd, process, number, 0);
	if (fd < 0)
		fd = -errno;
	close(process);
	return fd;
}

/* A directory entry's number, or -1. */
static int number_of(const struct dirent *entry)
{
	char *end;
	long number = strtol(entry->d_name, &end, 10);

	return end == entry->d_name || *end || number < 0 || number > INT32_MAX ? -1 : (int)number;
}

/* Whether @fd is this host's registry, and one of the members @ours lives in it. */
static bool has_one_of(int fd, const struct host_slot_set *ours)
{
	struct registry registry = {0};
	bool has_one = false, is_ours;

	if (registry_map(fd, &registry) != 0)
		return false;
	is_ours = registry_is_of_this_network(&registry);
	for (uint32_t slot = 0; slot < HOST_SLOTS && is_ours && !has_one; slot++)
		has_one = host_slot_set_has(ours, slot) &&
			  registry_generation_is_member(
				  atomic_load(&registry_slot(&registry, slot)->generation));
	registry_unmap(&registry);
	return has_one;
}

static int copy_if_registry(DIR *folder, const struct dirent *entry, pid_t pid,
			    const struct host_slot_set *ours)
{
	char target[sizeof(REGISTRY_LINK)];
	int number = number_of(entry), fd;
	ssize_t length =
		number < 0 ? -1 : readlinkat(dirfd(folder), entry->d_name, target, sizeof(target));

	if (length != sizeof(REGISTRY_LINK) - 1 ||
	    memcmp(target, REGISTRY_LINK, sizeof(REGISTRY_LINK) - 1) != 0)
		return -ENOENT;
	fd = copy_descriptor(pid, number);
	if (fd >= 0 && !has_one_of(fd, ours)) {
		close(fd);
		return -ENOENT;
	}
	return fd;
}

/* The registry among the descriptors of process @pid; -ENOENT: it has none. */
static int copy_registry(pid_t pid, const struct host_slot_set *ours)
{
	char path[32];
	const struct dirent *entry;
	DIR *folder;
	int fd = -ENOENT;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	folder = opendir(path);
	if (!folder)
		return -errno;
	for (uint32_t i = 0; i < ENTRIES_MAX && fd == -ENOENT; i++) {
		entry = readdir(folder);
		if (!entry)
			break;
		fd = copy_if_registry(folder, entry, pid, ours);
	}
	closedir(folder);
	return fd;
}

static bool is_process_of(const DIR *processes, const struct dirent *entry, uid_t user)
{
	struct stat status;

	return number_of(entry) > 0 &&
	       fstatat(dirfd((DIR *)(uintptr_t)processes), entry->d_name, &status, 0) == 0 &&
	       status.st_uid == user;
}

/*
 * Looks at all processes of @user: the registry out of the first that has it, or, if @number is
 * not negative, that descriptor out of the first that has the registry as well.
 */
static int search_processes(uid_t user, const struct host_slot_set *ours, int number)
{
	DIR *processes = opendir("/proc");
	const struct dirent *entry;
	int fd = -ENOENT;

	if (!processes)
		return -errno;
	for (uint32_t i = 0; i < ENTRIES_MAX && fd < 0; i++) {
		entry = readdir(processes);
		if (!entry)
			break;
		if (!is_process_of(processes, entry, user))
			continue;
		fd = copy_registry(number_of(entry), ours);
		if (fd >= 0 && number >= 0) {
			close(fd);
			fd = copy_descriptor(number_of(entry), number);
		}
	}
	closedir(processes);
	return fd;
}

int host_take_registry(uid_t user, const struct host_asked *asked)
{
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++) {
		int fd = asked->pids[slot] > 0 ? copy_registry(asked->pids[slot], &asked->ours)
					       : -ENOENT;

		if (fd >= 0)
			return fd;
	}
	return search_processes(user, &asked->ours, -1);
}

int host_take_descriptor(uid_t user, const struct host_asked *asked, uint32_t slot, int number)
{
	struct host_slot_set one = {0};
	int fd;

	if (number < 0)
		return -ENOENT;
	fd = asked->pids[slot] > 0 ? copy_descriptor(asked->pids[slot], number) : -ESRCH;
	if (fd != -ESRCH)
		return fd;
	host_slot_set_add(&one, slot);
	return search_processes(user, &one, number);
}
