/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Above what select() can hold and programs usually reach, below the usual soft limit. */
#define HIGH_NUMBER 900
/* In the middle of what select() can hold. */
#define APART_NUMBER (FD_SETSIZE / 2)

static int high_number(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return HIGH_NUMBER;
	if (limit.rlim_cur > 8 * HIGH_NUMBER)
		return 4 * HIGH_NUMBER;
	return limit.rlim_cur > HIGH_NUMBER + 64 ? HIGH_NUMBER : (int)limit.rlim_cur / 2;
}

int descriptor_socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}

int descriptor_epoll_create(void)
{
	return (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
}

int descriptor_epoll_change(int set, int operation, int fd, struct epoll_event *event)
{
	return (int)syscall(SYS_epoll_ctl, set, operation, fd, event);
}

int descriptor_epoll_look(int set, struct epoll_event *events, int room)
{
	return (int)syscall(SYS_epoll_pwait, set, events, room, 0, NULL, 0);
}

struct descriptor descriptor_recognise(int fd)
{
	struct descriptor descriptor = {.fd = fd};
	struct stat status;

	if (fd >= 0 && fstat(fd, &status) == 0) {
		descriptor.device = status.st_dev;
		descriptor.inode = status.st_ino;
	}
	return descriptor;
}

struct descriptor descriptor_adopt(int fd)
{
	int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, high_number());

	if (moved < 0)
		return descriptor_recognise(fd);
	close(fd);
	return descriptor_recognise(moved);
}

int descriptor_set_apart(int fd)
{
	int error = errno, moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, APART_NUMBER);

	errno = error;
	if (moved < 0)
		return fd;
	close(moved < FD_SETSIZE ? fd : moved);
	return moved < FD_SETSIZE ? moved : fd;
}

bool descriptor_is_ours(const struct descriptor *descriptor)
{
	struct stat status;

	return descriptor->fd >= 0 && fstat(descriptor->fd, &status) == 0 &&
	       status.st_dev == descriptor->device && status.st_ino == descriptor->inode;
}

int descriptor_use(const struct descriptor *descriptor, _Atomic vbn_time *looked_at, vbn_time now)
{
	vbn_time last = atomic_load_explicit(looked_at, memory_order_relaxed);

	if (now >= last && now - last < DESCRIPTOR_TRUST_NS)
		return descriptor->fd;
	if (!descriptor_is_ours(descriptor))
		return -1;
	atomic_store_explicit(looked_at, now, memory_order_relaxed);
	return descriptor->fd;
}

void descriptor_close(struct descriptor *descriptor)
{
	if (descriptor_is_ours(descriptor))
		close(descriptor->fd);
	descriptor->fd = -1;
}
