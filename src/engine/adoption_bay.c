/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages that come into being filled
 *
 * A page that is touched is cleared, and then written over. userfaultfd's UFFDIO_COPY makes a page with
 * the bytes that it is to have, and maps it, in one step. It does so only in memory that is registered with a
 * userfaultfd, and only where no page is yet. Who touches such memory meanwhile would wait for one
 * who never comes; but nobody else runs, and the mover does not.
 *
 * The bay is a range of addresses where a piece's pages of the file are mapped while nobody knows them:
 * on the way there they are filled in it and then take the place of the old ones (mremap), on the way
 * back they leave their place for it, to be copied from. It is as large as a piece and as aligned, since
 * the kernel moves whole tables of pages only between places of the same alignment. Between two pieces
 * nothing is mapped there, and nobody is there to take the place.
 *
 * All of it may be refused: by kernels before 5.11 (UFFD_USER_MODE_ONLY, which needs no privilege),
 * sandboxes, or limits. What is refused once while pages are moved is not tried again in the
 * same move; what a copy is refused, as where larger pages came into being at once, is asked for the
 * next piece again.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/adoption_internal.h"

/* Newer than the headers may be. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

/* For less the calls around the copies take longer than is won. */
#define WORTHWHILE_BYTES (128u << 10)
/* In the middle of it lies a range that begins at a multiple. */
#define RESERVED_BYTES (2 * PIECE_BYTES)

static int open_userfaultfd(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) == 0)
		return fd;
	close(fd);
	return -1;
}

static void close_userfaultfd(struct bay *bay)
{
	if (bay->userfaultfd >= 0)
		close(bay->userfaultfd);
	bay->userfaultfd = -1;
}

void bay_open(struct bay *bay, size_t length)
{
	void *reserved;

	*bay = (struct bay){.userfaultfd = -1};
	if (length >= WORTHWHILE_BYTES)
		bay->userfaultfd = open_userfaultfd();
	if (bay->userfaultfd < 0)
		return;
	reserved = mmap(NULL, RESERVED_BYTES, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (reserved == MAP_FAILED)
		close_userfaultfd(bay);
	else
		bay->reserved = (uintptr_t)reserved;
}

void bay_close(struct bay *bay)
{
	close_userfaultfd(bay);
	if (bay->reserved)
		(void)munmap((void *)bay->reserved, RESERVED_BYTES);
	bay->reserved = 0;
}

uintptr_t bay_place(const struct bay *bay, uintptr_t start)
{
	uintptr_t aligned = (bay->reserved + PIECE_BYTES - 1) & ~(PIECE_BYTES - 1);

	return aligned + start % PIECE_BYTES;
}

bool bay_map(struct bay *bay, const struct piece *piece, int fd)
{
	if (bay->userfaultfd < 0)
		return false;
	if (mmap((void *)bay_place(bay, piece->start), piece->length, PROT_READ | PROT_WRITE,
		 MAP_FIXED | MAP_SHARED, fd, (off_t)piece->offset) != MAP_FAILED)
		return true;
	bay_close(bay);
	return false;
}

static bool move(uintptr_t from, uintptr_t to, size_t length)
{
	return mremap((void *)from, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)to) !=
	       MAP_FAILED;
}

bool bay_take(struct bay *bay, const struct piece *piece)
{
	if (bay->userfaultfd < 0)
		return false;
	if (move(piece->start, bay_place(bay, piece->start), piece->length))
		return true;
	bay_close(bay);
	return false;
}

bool bay_put(struct bay *bay, const struct piece *piece)
{
	if (move(bay_place(bay, piece->start), piece->start, piece->length))
		return true;
	bay_close(bay);
	return false;
}

void bay_drop(struct bay *bay, const struct piece *piece)
{
	(void)munmap((void *)bay_place(bay, piece->start), piece->length);
}

bool bay_watch(const struct bay *bay, uintptr_t start, size_t length)
{
	struct uffdio_register range = {.range = {start, length},
					.mode = UFFDIO_REGISTER_MODE_MISSING};

	return ioctl(bay->userfaultfd, UFFDIO_REGISTER, &range) == 0;
}

void bay_unwatch(struct bay *bay, uintptr_t start, size_t length)
{
	struct uffdio_range range = {start, length};

	/* To close it ends all that it watches, and cannot fail. */
	if (ioctl(bay->userfaultfd, UFFDIO_UNREGISTER, &range) != 0)
		close_userfaultfd(bay);
}

bool bay_copy(const struct bay *bay, uintptr_t to, uintptr_t from, size_t length)
{
	while (length) {
		struct uffdio_copy copy = {.dst = to, .src = from, .len = length};

		if (ioctl(bay->userfaultfd, UFFDIO_COPY, &copy) == 0)
			return true;
		/* What stopped it in the middle it meets at once the next time. */
		if (errno != EAGAIN || copy.copy <= 0)
			return false;
		to += (size_t)copy.copy;
		from += (size_t)copy.copy;
		length -= (size_t)copy.copy;
	}
	return true;
}
