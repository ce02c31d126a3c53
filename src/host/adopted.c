/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/adopted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "host/host_internal.h"

_Static_assert(sizeof(off_t) == 8, "offsets of adopted pages are long");
_Static_assert(REGISTRY_BYTES < ADOPTED_ROOMS_OFFSET, "rooms begin behind the rest");
_Static_assert(REGISTRY_LONG_BYTES <= ADOPTED_PEER_LOCKS, "the locks of peers are no owner's");

/* Strides in use that one punch goes around; more are left for the next one. */
#define LOCKS_MAX 4096u

int adopted_reopen(int fd)
{
	char path[32];
	int reopened;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reopened = open(path, O_RDWR | O_CLOEXEC);
	return reopened < 0 ? -errno : reopened;
}

static struct flock lock_of(short type, enum adopted_user user, uint64_t offset, uint64_t length)
{
	return (struct flock){
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)(offset + (user == ADOPTED_BY_PEER ? ADOPTED_PEER_LOCKS : 0)),
		.l_len = (off_t)length,
	};
}

int adopted_lock(int reopened, enum adopted_user user, uint64_t offset, uint64_t length)
{
	struct flock lock = lock_of(F_RDLCK, user, offset, length);

	return fcntl(reopened, F_OFD_SETLK, &lock) ? -errno : 0;
}

/* The first lock found in the range, or one over all of it where that cannot be told. */
static bool find_lock(int fd, enum adopted_user user, uint64_t offset, uint64_t length,
		      struct flock *lock)
{
	*lock = lock_of(F_WRLCK, user, offset, length);
	if (fcntl(fd, F_OFD_GETLK, lock) == 0)
		return lock->l_type != F_UNLCK;
	*lock = lock_of(F_RDLCK, user, offset, length);
	return true;
}

bool adopted_is_locked(int fd, enum adopted_user user, uint64_t offset, uint64_t length)
{
	struct flock lock;

	return find_lock(fd, user, offset, length, &lock);
}

static bool punch(int fd, uint64_t offset, uint64_t end)
{
	return offset >= end || registry_punch(fd, offset, end - offset);
}

static uint64_t stride_down(uint64_t offset)
{
	return offset & ~(ADOPTED_STRIDE_BYTES - 1);
}

/*
 * The lock that is found need not be the first one: what lies before it is looked at by itself.
 * @budget bounds all of it.
 */
static bool punch_around(int fd, uint64_t offset, uint64_t end, uint32_t *budget)
{
	bool is_gone = true;
	struct flock lock;

	while (offset < end && *budget) {
		uint64_t first, last;

		--*budget;
		if (!find_lock(fd, ADOPTED_BY_OWNER, offset, end - offset, &lock))
			return punch(fd, offset, end) && is_gone;
		is_gone = false;
		first = (uint64_t)lock.l_start < offset ? offset : (uint64_t)lock.l_start;
		last = lock.l_len ? (uint64_t)lock.l_start + (uint64_t)lock.l_len - 1 : end - 1;
		punch_around(fd, offset, stride_down(first), budget);
		offset = stride_down(last) + ADOPTED_STRIDE_BYTES;
	}
	return is_gone && offset >= end;
}

bool adopted_punch(int fd, uint64_t offset, uint64_t length)
{
	uint32_t budget = LOCKS_MAX;

	return punch_around(fd, offset, offset + length, &budget);
}

const struct descriptor *host_adopted_file(const struct host *host)
{
	return host->registry.bytes == REGISTRY_LONG_BYTES ? &host->registry_file : NULL;
}

void host_adopted_reclaim(struct host *host, uint32_t slot)
{
	const struct descriptor *file = host_adopted_file(host);

	if (file && descriptor_is_ours(file))
		(void)adopted_punch(file->fd, adopted_room_offset(slot), ADOPTED_ROOM_BYTES);
}
