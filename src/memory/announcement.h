/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: taking back what a peer may be using right now
 *
 * Who writes into another process' memory by what that one has published (published.h) says so before,
 * in a cell of memory that he alone writes and the owner maps for reading:
 *
 *   the peer                                   the owner
 *   1 announce key and queue pair              1 change the entry's generation
 *   2 look at the entries: are they granted?   2 look at all cells: who announces it?
 *   3 write                                    3 wait until each of these has changed
 *   4 clear the announcement                   4 the memory is the owner's alone
 *   5 look again: does it still stand?
 *
 * Steps 1 and 2 of both sides are sequentially consistent stores and loads. Whatever comes first in
 * that order, one of the two sees the other: either the peer finds the entry changed and writes
 * nothing, or the owner finds the announcement and waits. An announcement lasts as long as a copy
 * of bounded length.
 *
 * A cell has a sequence number, odd while it announces. The owner waits for a change of
 * the number that it saw, so that a peer which announces again and again is not waited for twice:
 * a later announcement comes behind the change of the entry, and is not granted.
 *
 * Reading needs no announcement. It does no harm to the owner's memory, and step 5 tells the peer
 * whether what it read was still the owner's to give.
 *
 * A peer that dies in between leaves its cell as it is; the owner asks whether it lives. One
 * that is stopped between 2 and 4 keeps the owner waiting, for as long as the owner wishes. Step 5
 * is for that one: when it goes on it finds that it came too late, and does not report success.
 *
 * Where the pages are ones that both have mapped (is_shared), the owner can put others in their place
 * and needs not wait at all: the peer then writes to pages that nobody reads.
 *
 * Cells are not trusted: the owner reads a number of them that is cut to its limit, each once per
 * look, and a peer that writes nonsense delays the owner by what it would wait for a stopped one.
 */
#ifndef VBN_MEMORY_ANNOUNCEMENT_H
#define VBN_MEMORY_ANNOUNCEMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Of one process towards one other. */
#define ANNOUNCEMENT_CELLS 255u

struct announcement {
	_Alignas(64) _Atomic uint32_t sequence; /* odd: an access is under way */
	_Atomic uint32_t key;
	_Atomic uint32_t qpn;
	_Atomic uint32_t is_shared; /* written to are pages that both processes have mapped */
};

struct announcements {
	_Alignas(64) _Atomic uint32_t used_count; /* cells that ever announced are below it */
	struct announcement cells[ANNOUNCEMENT_CELLS];
};

/* --- the peer; a cell belongs to one thread at a time --- */

/*
 * @index is going to be used; before its first announcement. One thread at a time. A cell that was
 * never used begins behind @first, so that no two processes that have it one after the other
 * announce by the same numbers.
 */
void announcements_use(struct announcements *announcements, uint32_t index, uint32_t first);
/* What is looked at after this is looked at behind it. Returns the number of the announcement. */
uint32_t announcement_begin(struct announcement *cell, uint32_t key, uint32_t qpn);
/* Behind it, and before the access: which is by pages that both have mapped. */
void announcement_is_by_sharing(struct announcement *cell);
/* The access is behind us, seen so by who sees this. */
void announcement_end(struct announcement *cell);

/* --- the owner --- */

/* What is taken back: one of the two, the other is 0. */
struct announcement_subject {
	uint32_t key, qpn;
};

/* How many cells are to be looked at. */
uint32_t announcements_count(const struct announcements *announcements);
/* Whether an access to @subject is announced; then @sequence says which one. */
bool announcement_covers(const struct announcement *cell,
			 const struct announcement_subject *subject, uint32_t *sequence);
/*
 * Whether it is known to be by shared pages: then the owner need not wait for it, if it puts
 * others in the place of these.
 */
bool announcement_can_be_outwaited(const struct announcement *cell);
/* Whether that one lasts. */
bool announcement_lasts(const struct announcement *cell, uint32_t sequence);

#endif
