/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: pages of the program that peers access without it
 *
 * A peer can write into a program's memory by plain stores only if both have mapped the same pages. So
 * registered memory is adopted: the whole pages inside of a region (its interior) are copied into the
 * registry's file (host/adopted.h) and mapped from there at the same address. The program sees the
 * same bytes as before. When the last region there ends, the area is moved back: it becomes
 * ordinary memory again, for allocators rely on what is special about that (MADV_DONTNEED clears
 * it, mremap() makes it longer).
 *
 * Moving is a copy and then a change of what is mapped in place, for each piece of 2 MiB (adoption_move.c).
 * Whatever is written to the old pages in between would be lost. So
 *
 *   it takes place only within calls of the program that register, change or end regions or connect
 *   a QP; never on demand, since who is stopped cannot answer a demand;
 *   no peer is at it: before the region is published, or after it was withdrawn (direct.h);
 *   our helper rests (helpers_hold()), and all signals are blocked;
 *   nobody else runs. Either there is no other thread, or the others are stopped meanwhile, by a
 *   real-time signal that the program does not use (adoption_threads.c). What a thread has in the
 *   kernel, the signal interrupts; one that cannot be interrupted, or blocks that signal, cannot be
 *   stopped, and the move does not take place. (userfaultfd, which seems made for this, makes
 *   system calls of other threads fail with EFAULT, and their data is lost. It serves to fill pages, while
 *   nobody else runs.)
 *   no device is at it, as far as can be seen: a process with pinned pages, with descriptors by
 *   which pages are pinned, or with contexts of Linux AIO is left alone.
 *
 * VERBENA_ADOPT=safe adopts only where there is no other thread, so that no thread ever
 * notices anything. With `all` the others are stopped: a blocked call of theirs may return EINTR,
 * as with any signal. Moving back stops them in either mode, for an area that stays would be worse.
 * Where moving back is impossible the area is kept as it is, and tried again at the next of these
 * calls; meanwhile its memory is the program's like any other, but MADV_DONTNEED does not clear it.
 *
 * What is not adopted, base/adoption.h lists. Two regions share an area where the one's
 * interior lies within it; where they only overlap the second is not adopted. Regions that are
 * deregistered within 10 ms three times are not adopted any more.
 *
 * Moving back goes by what is mapped, not by what once was: the list of mappings tells where the
 * pages of the area are now. What the program unmapped is gone, what it mapped there instead
 * is left alone, what it moved (mremap) is moved back where it is. The pages in the file are given
 * up only when nobody has them mapped any more.
 *
 * fork: adopted pages are not inherited (MADV_DONTFORK), or the child would write into its parent's
 * memory. The child's handler maps the same pages privately in their place. It may see what is written to
 * registered memory after the fork, until it first writes to the page itself. A
 * child that comes from a raw clone() has nothing there, and an access ends it. vfork() and
 * posix_spawn() need nothing.
 *
 * Futexes that are shared between processes, waited for while the page moves, miss their wake-up:
 * the kernel knows them by the page. Ordinary ones are known by the address.
 *
 * Locks: adoption's own (one for all engines of a process) is taken outside of all others of the engine.
 */
#ifndef VBN_ENGINE_ADOPTION_H
#define VBN_ENGINE_ADOPTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/adoption.h"
#include "base/time.h"
#include "link/descriptor.h"

enum adopt_choice { ADOPT_CHOICE_SAFE, ADOPT_CHOICE_OFF, ADOPT_CHOICE_ALL };

/* Larger regions are not adopted unless the limit is raised. */
#define ADOPT_BYTES_MAX (1ull << 30)

/* An adopted piece of memory. */
struct adopted_area {
	LIST_ENTRY(adopted_area) next;
	uintptr_t start; /* whole pages */
	size_t length;
	uint64_t offset;     /* of the first byte in the registry's file */
	uint32_t user_count; /* regions; 0: it could not be moved back yet */
	uint32_t traits;     /* what the program had said of it (adoption_maps.h) */
	bool was_forked;     /* a child may have its pages */
	vbn_time adopted_at;
};

struct adoption_range {
	uintptr_t start;
	size_t length;
	uint32_t count;
};
#define ADOPTION_RANGES 256

struct adoption {
	LIST_ENTRY(adoption) next; /* all of the process */
	/* From adoption_open() on. */
	bool is_open;
	struct descriptor file; /* not ours to close */
	uint64_t room_offset;
	enum adopt_choice choice;
	uint64_t bytes_max;
	uint32_t areas_max;
	/* Under the lock of adoption. */
	LIST_HEAD(, adopted_area) areas;
	uint32_t area_count;
	_Atomic uint32_t kept_count; /* of them have no user */
	uint32_t next_stride;
	struct adoption_range short_lived[ADOPTION_RANGES];
};

struct adoption_options {
	enum adopt_choice choice;
	uint64_t bytes_max; /* 0: ADOPT_BYTES_MAX */
};

void adoption_init(struct adoption *adoption);
/*
 * Pages go to the room at @room_offset of @file, a registry's, of which this process is the owner. @file
 * stays the caller's, and open until adoption_close().
 */
void adoption_open(struct adoption *adoption, const struct descriptor *file, uint64_t room_offset,
		   const struct adoption_options *options);
bool adoption_is_open(const struct adoption *adoption);
/* All regions are gone. What could not be moved back stays where it is, for good. */
void adoption_close(struct adoption *adoption);

/*
 * Adopts what can be adopted of [@address, @address + @length), about which nobody else may be told
 * yet. The area has one more user; or NULL, and *@outcome says why. No lock is held.
 */
struct adopted_area *adoption_take(struct adoption *adoption, const void *address, uint64_t length,
				   enum adoption_verdict *outcome);
/* A user less. With the last one it is moved back; nobody else accesses it any more. */
void adoption_give_back(struct adoption *adoption, struct adopted_area *area);
/* Of what could not be moved back, what can be now. Costs nothing where there is nothing. */
void adoption_try_again(struct adoption *adoption);

/* Around fork, for all of the process. */
void adoption_before_fork(void);
void adoption_after_fork_in_parent(void);
void adoption_after_fork_in_child(void);

size_t adoption_page_size(void);

/* Mappings of this process that look like an area's and are a peer's of it, in the same process. */
bool adoption_add_foreign(const void *bytes);
void adoption_remove_foreign(const void *bytes);

#endif
