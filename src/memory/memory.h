/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: registered memory and who may touch it
 *
 * A memory region is a slot of the key table, found by its key (lkey and rkey are
 * the same random number). Every access, local or remote, names a key, a range
 * in the region's address space (iova), the protection domain of the QP and the
 * right it needs. All checks come first, then the bytes move, with the slot
 * pinned meanwhile; deregistration waits for pins. A range is checked without
 * any sum that could wrap: offset and length against what is left.
 *
 * A memory window is a key of the same table with a range and rights of its own
 * (window.h). A null region has bytes that nobody keeps: reads give zeros, what is
 * written is gone.
 *
 * A zero-length access checks no key at all (the address may be anything), as
 * NICs do. Otherwise the order is key, protection domain, rights, range and, for
 * atomics, alignment; the first that fails is the reason.
 *
 * A complaint's address and length are those of the access, or of the part of it
 * that lies in the list element that failed. Its limit is how many bytes of the region
 * lie from that address on (0 outside of it), for MEMORY_FAULT how many bytes were
 * moved, and for ATOMIC_MISALIGNED the alignment asked for.
 *
 * Threads: look-ups and copies from any thread without a lock; registration and
 * deregistration are serialised by the caller.
 */
#ifndef VBN_MEMORY_MEMORY_H
#define VBN_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/pin_table.h"
#include "base/reason.h"
#include "memory/copy.h"

enum mr_kind { MR_MEMORY, MR_NULL, MR_WINDOW };

/* What a key gives access to. Fields change only while the slot is not published. */
struct mr {
	uint64_t iova;	  /* address by which keys name the first byte */
	uint64_t length;  /* iova + length and address + length do not pass 2^64 */
	uint8_t *address; /* host address of the first byte */
	uint32_t pd;	  /* number of the protection domain */
	uint32_t access;  /* IBV_ACCESS_* without the optional ones; windows: REMOTE_* only */
	uint64_t owner;	  /* type 2 windows: the QP that bound it (access.owner); 0: any QP */
	enum mr_kind kind;
	uint32_t parent; /* windows: key of the region; 0: not bound */
};

struct mr_slot {
	struct pin_slot pin; /* its number is the key */
	struct mr mr;
	_Atomic uint32_t window;       /* window.c; 0: no window */
	_Atomic uint32_t window_count; /* regions: windows that are bound to it */
};

_Static_assert(sizeof(struct mr_slot) == 64, "a look-up touches one cache line");

struct memory {
	struct pin_table keys;
};

#define MEMORY_KEY_FREE_BITS 8

/* @slots: @slot_count (a power of two) zeroed slots that outlive @memory. */
void memory_init(struct memory *memory, struct mr_slot *slots, uint32_t slot_count);

/*
 * Registers @mr under @key, a random number. Returns its slot, or NULL when the
 * key is taken (draw again) or the table is full (pin_table_is_full()).
 */
struct mr_slot *memory_register(struct memory *memory, const struct mr *mr, uint32_t key);

/* What a copy needs besides the bytes. */
struct access {
	const struct memory *memory;
	const struct copier *copier;
	uint32_t pd;
	uint64_t owner; /* which QP it is that asks; never 0 */
};

/*
 * Local scatter/gather lists. @offset counts bytes of the list as if it were one
 * buffer; the range must lie inside it (our own mistake otherwise). Every element
 * that the range touches is checked before the first byte moves. On a reason
 * other than NONE, @complaint (may be NULL) holds the facts; after MEMORY_FAULT, or
 * when a region was deregistered meanwhile, part of the bytes may have been copied.
 */
enum reason sge_gather(const struct access *access, const struct ibv_sge *list, uint32_t count,
		       uint64_t offset, uint8_t *bytes, size_t length, struct complaint *complaint);
enum reason sge_scatter(const struct access *access, const struct ibv_sge *list, uint32_t count,
			uint64_t offset, const uint8_t *bytes, size_t length,
			struct complaint *complaint);
/* Checks all elements of the list, wholly, without touching memory. @rights: 0 or LOCAL_WRITE. */
enum reason sge_check(const struct access *access, const struct ibv_sge *list, uint32_t count,
		      uint32_t rights, struct complaint *complaint);
/*
 * Where the bytes of one element lie, all checked as by sge_check(). Nothing is held: the
 * address is good for advice to the system, not for access.
 */
enum reason sge_locate(const struct access *access, const struct ibv_sge *sge, uint32_t rights,
		       void **host, struct complaint *complaint);
/*
 * Where the bytes of a range lie, held until sge_let_go(): at most *@count pieces, which becomes
 * how many there are. False: nothing is held, for a check failed, the range has more
 * pieces, or some of it lies nowhere (a null region).
 */
struct held_piece {
	uint8_t *host;
	size_t length;
	struct mr_slot *slot; /* NULL: not of a region, and not to be let go */
};
bool sge_hold(const struct access *access, const struct ibv_sge *list, uint32_t list_count,
	      uint64_t offset, size_t length, uint32_t rights, struct held_piece *pieces,
	      uint32_t *count);
void sge_let_go(const struct held_piece *pieces, uint32_t count);
/* Sum of the lengths; a single element of length 0 counts 0 bytes. */
uint64_t sge_bytes(const struct ibv_sge *list, uint32_t count);

/*
 * Remote access by rkey. @rights is one of IBV_ACCESS_REMOTE_WRITE, _READ,
 * _ATOMIC. remote_check() checks a whole message before its first packet is
 * executed; the others check their own range again, since a region may be
 * deregistered between two packets.
 */
enum reason remote_check(const struct access *access, uint32_t rkey, uint64_t iova, uint64_t length,
			 uint32_t rights, struct complaint *complaint);
enum reason remote_write(const struct access *access, uint32_t rkey, uint64_t iova,
			 const uint8_t *bytes, size_t length, struct complaint *complaint);
enum reason remote_read(const struct access *access, uint32_t rkey, uint64_t iova, uint8_t *bytes,
			size_t length, struct complaint *complaint);
/*
 * The alignment of iova and host address is checked here (ATOMIC_MISALIGNED). Host
 * byte order throughout.
 */
enum reason remote_fetch_add(const struct access *access, uint32_t rkey, uint64_t iova,
			     uint64_t add, uint64_t *original, struct complaint *complaint);
enum reason remote_compare_swap(const struct access *access, uint32_t rkey, uint64_t iova,
				uint64_t compare, uint64_t swap, uint64_t *original,
				struct complaint *complaint);

#endif
