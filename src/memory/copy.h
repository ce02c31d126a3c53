/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: the one way in which payload moves
 *
 * Programs poll the last byte of a buffer that a peer writes, and rely on what a
 * NIC gives them: when that byte is there, all bytes before it are. So every copy
 * into memory of the program moves its body, then comes a store fence, then
 * the last word by one store. A body below COPY_STRING_BYTES_MIN runs in ascending order; a
 * longer one in no order, as is fastest. An aligned piece of 8, 4, 2 or 1 bytes is never torn.
 *
 * Memory may have gone away under a registration. A NIC pins it; here an access
 * faults. The instructions that may fault stand in a table (the fixup table),
 * and a signal handler that finds its faulting instruction there continues
 * behind it; the copy returns how far it came. The table is read-only data of
 * this layer; the handler belongs to the engine.
 *
 * Where no handler can help (the thread blocks SIGSEGV, or the handler was
 * replaced) the caller passes a copier that goes through the kernel. Everything
 * that moves payload takes a copier.
 */
#ifndef VBN_MEMORY_COPY_H
#define VBN_MEMORY_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct copier {
	/*
	 * Copies @length bytes between ranges that do not overlap, in the order told
	 * above. @length returned means success; less means a fault, and at least that
	 * many bytes were copied: stores and loads go in units, and what a faulting unit
	 * did is not counted (up to 127 bytes directly, up to a page through the kernel).
	 */
	size_t (*copy)(void *to, const void *from, size_t length);
	/* 64-bit atomics on aligned host memory; false on a fault, nothing changed. */
	bool (*fetch_add)(uint64_t *target, uint64_t add, uint64_t *original);
	bool (*compare_swap)(uint64_t *target, uint64_t compare, uint64_t swap, uint64_t *original);
};

/* Bodies of at least so many bytes may become visible in any order, before the last word. */
#define COPY_STRING_BYTES_MIN 2048u

/* Plain loads and stores under the fixup table. Needs the handler installed. */
extern const struct copier copier_direct;

/* False where this processor has no fixup table: then copier_direct catches no fault. */
extern const bool copy_catches_faults;

/*
 * If @instruction is one of ours that may fault, the address to continue at,
 * else 0. Async-signal-safe; called from the handler.
 */
uintptr_t copy_fixup_find(uintptr_t instruction);

#endif
