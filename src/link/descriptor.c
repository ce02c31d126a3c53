/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Above what select() can hold and programs usually reach, below the usual soft limit. */
#define HIGH_NUMBER 900

static int high_number(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return HIGH_NUMBER;
	if (limit.rlim_cur > 8 * HIGH_NUMBER)
		return 4 * HIGH_NUMBER;
	return limit.rlim_cur > HIGH_NUMBER + 64 ? HIGH_NUMBER : (int)limit.rlim_cur / 2;
}

struct descriptor descriptor_adopt(int fd)
{
	struct descriptor descriptor = {.fd = fd};
	struct stat status;
	int moved;

	if (fd < 0)
		return descriptor;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, high_number());
	if (moved >= 0) {
		close(fd);
		descriptor.fd = moved;
	}
	if (fstat(descriptor.fd, &status) == 0) {
		descriptor.device = status.st_dev;
		descriptor.inode = status.st_ino;
	}
	return descriptor;
}

bool descriptor_is_ours(const struct descriptor *descriptor)
{
	struct stat status;

	return descriptor->fd >= 0 && fstat(descriptor->fd, &status) == 0 &&
	       status.st_dev == descriptor->device && status.st_ino == descriptor->inode;
}

void descriptor_close(struct descriptor *descriptor)
{
	if (descriptor_is_ours(descriptor))
		close(descriptor->fd);
	descriptor->fd = -1;
}
