/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: memory windows
 *
 * A window lets peers into part of a region, with rights of its own, until it is bound anew
 * or invalidated (IBA 10.6.7). It is a slot of the key table like a region: while it is bound
 * the slot looks exactly like a region of the window's range, so an access costs no more. While
 * it is not bound the slot is retired, and no key finds it.
 *
 * Low bits of a key do not select its slot. So a window keeps its slot, and the upper 24 bits
 * of its key, which are random, for life; each bind gives it another low byte, by which a key
 * of an earlier bind is told from the present one.
 *
 *   type 1   bound to any QP's peers in its protection domain; a bind replaces the one before,
 *            a bind of no bytes ends it. Never invalidated.
 *   type 2   (2B) useful only to the peer of the QP that bound it. Must be free when it is
 *            bound; freed by invalidation through that same QP.
 *
 * Binds and invalidations are work requests: they run in the core, under one QP's lock,
 * while other QPs use windows and others may be binding the same one. Who changes a window
 * takes it first, by one exchange of its word; who finds it taken comes again later. A bind
 * fills the slot in only when nobody holds it, and comes again otherwise. So nothing here
 * waits. An invalidation needs no such care: all that moves bytes through a type 2 window
 * happens under the lock that its caller holds.
 *
 * A bound window counts on its region, which stays until the count is back at zero; it
 * goes back only when no access through the window is under way any more.
 */
#ifndef VBN_MEMORY_WINDOW_H
#define VBN_MEMORY_WINDOW_H

#include "memory/memory.h"

/*
 * A window that is not bound, under the random number @key; NULL as memory_register(), whose
 * caller is the same.
 */
struct mr_slot *window_create(struct memory *memory, enum ibv_mw_type type, uint32_t pd,
			      uint32_t key);
/*
 * The end of a window, bound or not. False: it is just being changed, try again. After true
 * the caller waits until pin_slot_is_idle() and calls window_release(), serialised like
 * window_create().
 */
bool window_close(struct mr_slot *window);
void window_release(struct memory *memory, struct mr_slot *window);

struct window_bind {
	uint32_t window;  /* a key of the window, of whatever bind */
	uint32_t key;	  /* from now on */
	uint32_t region;  /* lkey */
	uint32_t rights;  /* IBV_ACCESS_REMOTE_*, IBV_ACCESS_ZERO_BASED; others say nothing */
	uint64_t address; /* first byte, as the region's key names it */
	uint64_t length;  /* 0: type 1 is free then; type 2 is refused */
};

enum window_outcome {
	WINDOW_DONE,
	WINDOW_IN_USE, /* nothing happened, or only half of it: call again */
	WINDOW_REFUSED /* @complaint has the reason; an earlier bind stands, unless half undone */
};

/* Of access, the memory, protection domain and owner count. Any thread. */
enum window_outcome window_bind(const struct access *access, const struct window_bind *bind,
				struct complaint *complaint);
/* Whether window_invalidate() would do it now; it may be too late by then. */
enum reason window_check_invalidate(const struct access *access, uint32_t key,
				    struct complaint *complaint);
/*
 * Frees the type 2 window that is bound under @key. NONE, or INVALIDATE_REFUSED and
 * the facts. The caller is the QP of @access, under its lock.
 */
enum reason window_invalidate(const struct access *access, uint32_t key,
			      struct complaint *complaint);

#endif
