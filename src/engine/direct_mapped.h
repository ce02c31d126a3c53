/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester's part of adoption: pages of peers, mapped here
 *
 * Where a peer says that bytes of a region lie in the registry's file (published.h), they are mapped at
 * the first access to them, and stay mapped as long as a queue pair remembers them, beside what it has
 * learnt of their key (direct_reach.c). Queue pairs to the same process share mappings. A mapping is found by the
 * region's key and the generation of its entry, so one of a region that is over is never used
 * again; and whether the grant still stands is looked at before and behind each access, as ever.
 *
 * Nothing that the peer says is trusted: pages are mapped only of its own room in the file, and the
 * file cannot become shorter, so an access ends well or in an error of the copy.
 *
 * What is written to a page that its owner has put others in the place of (it gave up waiting for us)
 * is read by nobody.
 */
#ifndef VBN_ENGINE_DIRECT_MAPPED_H
#define VBN_ENGINE_DIRECT_MAPPED_H

#include "memory/published.h"
#include "memory/reach.h"

#define MAPPED_MAX 8192u /* in a process */

struct direct_peer;
struct engine;
struct mapped_pages;

/* What a queue pair remembers of one region; zeroed: nothing. Under its lock. */
struct mapped_region {
	uint32_t key, generation;
	uint64_t offset, length;    /* of its shared bytes, in the file */
	struct mapped_pages *pages; /* in which they are */
	uint8_t *bytes;		    /* where; NULL: they could not be mapped */
};

/* Whether @grant says so of all @bytes bytes from @address of the peer's memory on. */
bool mapped_is_shared(const struct published_grant *grant, uint64_t address, uint64_t bytes);
/*
 * Where the @bytes bytes from @address of @peer's memory on are, which @grant covers; NULL: they are not
 * all among the shared ones, or cannot be mapped. @region is renewed if it is another one's.
 */
uint8_t *mapped_find(struct mapped_region *region, struct engine *engine, struct direct_peer *peer,
		     const struct published_grant *grant, uint64_t address, uint64_t bytes);
/* The queue pair forgets it. */
void mapped_forget(struct mapped_region *region, struct engine *engine);

/* Moves the bytes of @step to or from @there. False: a fault. */
bool mapped_move(uint8_t *there, const struct reach_step *step);
/* False: not aligned, or a fault, and nothing was done. */
bool mapped_atomic(uint8_t *there, const struct reach_atomic *atomic, uint64_t *original);

#endif
