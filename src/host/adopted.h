/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: room in the registry's file for pages of programs
 *
 * Memory that peers access without its owner lies in this file: the owner has put pages of it in
 * the place of its program's (engine/adoption.h), peers map the same. Each slot has
 * ADOPTED_ROOM_BYTES of offsets, far behind everything else, cut into strides of
 * ADOPTED_STRIDE_BYTES; each piece of memory has a stride for itself and uses its beginning. The rest is a
 * gap: a mapping that its program makes longer (mremap) finds zeros there, not its neighbour. The
 * file is sparse: what nobody wrote takes no memory.
 *
 * Whose pages are still in use is said by locks (open file description locks) on the stride's
 * offsets. Whoever maps a stride opens the file anew, locks, maps, and closes: the mapping keeps the
 * open file, and the lock, for exactly as long as it lasts, through fork() and after the
 * program closed descriptors it did not know. Nobody ever waits for such a lock; it is only asked about.
 *
 *   ADOPTED_BY_OWNER  the owner's program, or a child that it forked, has these pages for its memory:
 *                     they must not be punched out
 *   ADOPTED_BY_PEER   a peer has them mapped, and if it was stopped in the middle of an access may still
 *                     write to them: they may go, but the stride is not used for anything else
 *
 * The second kind lies ADOPTED_PEER_LOCKS further on, where there is no file any more.
 *
 * Where the system refuses so long a file, or RLIMIT_FSIZE does, the registry is made without this
 * room, and nothing is adopted by any of its members.
 */
#ifndef VBN_HOST_ADOPTED_H
#define VBN_HOST_ADOPTED_H

#include <stdbool.h>
#include <stdint.h>

#include "host/registry.h"
#include "link/descriptor.h"

struct host;

#define ADOPTED_ROOMS_OFFSET (1ull << 60)
#define ADOPTED_ROOM_BYTES (1ull << 53)
#define ADOPTED_STRIDE_BYTES (1ull << 36)
#define ADOPTED_STRIDES (uint32_t)(ADOPTED_ROOM_BYTES / ADOPTED_STRIDE_BYTES)
#define ADOPTED_PEER_LOCKS (1ull << 61)
/* What may be used of a stride. */
#define ADOPTED_BYTES_MAX (ADOPTED_STRIDE_BYTES / 2)

/* The registry's file with the rooms. */
#define REGISTRY_LONG_BYTES (ADOPTED_ROOMS_OFFSET + HOST_SLOTS * ADOPTED_ROOM_BYTES)

static inline uint64_t adopted_room_offset(uint32_t slot)
{
	return ADOPTED_ROOMS_OFFSET + (uint64_t)slot * ADOPTED_ROOM_BYTES;
}

enum adopted_user { ADOPTED_BY_OWNER, ADOPTED_BY_PEER };

/*
 * The file @fd anew, for mapping; the caller closes it. Negative errno. Without it nothing can be
 * locked, hence mapped: -ENOENT where there is no /proc.
 */
int adopted_reopen(int fd);
/* Whatever is mapped by @reopened is @user's use of the strides that the range touches. 0 or errno < 0. */
int adopted_lock(int reopened, enum adopted_user user, uint64_t offset, uint64_t length);
/* Whether anybody's use of the range lasts, by another open file than @fd. Also where it cannot be told. */
bool adopted_is_locked(int fd, enum adopted_user user, uint64_t offset, uint64_t length);
/*
 * The pages of [@offset, @offset + @length), whole strides, go back to the system, except for strides
 * that an owner uses. Returns whether all are gone.
 */
bool adopted_punch(int fd, uint64_t offset, uint64_t length);

/* The file, if it has the rooms; or NULL. Good as long as the member is there. */
const struct descriptor *host_adopted_file(const struct host *host);
/* A room's pages go, as far as nobody uses them: @slot's claim is held, and it is empty. */
void host_adopted_reclaim(struct host *host, uint32_t slot);

#endif
