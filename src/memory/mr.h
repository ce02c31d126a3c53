/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One access to one memory region: checks it and holds the region meanwhile.
 * Inside the memory layer only; local and remote access share it.
 */
#ifndef VBN_MEMORY_MR_H
#define VBN_MEMORY_MR_H

#include "memory/memory.h"

/* What is about to be touched. Nothing in it is trusted. */
struct span {
	uint32_t key;
	uint32_t rights;  /* IBV_ACCESS_* that are needed; 0 for a local read */
	uint64_t address; /* iova of the first byte */
	uint64_t length;  /* bytes, not 0 */
};

/*
 * Checks @span in this order: key, protection domain, rights, range. On NONE the
 * region is held until mr_unpin() and *@host is the first byte; otherwise
 * nothing is held and @complaint (may be NULL) has the facts.
 */
enum reason mr_pin(const struct access *access, const struct span *span, struct mr_slot **slot,
		   uint8_t **host, struct complaint *complaint);
void mr_unpin(struct mr_slot *slot);
/* The checks alone. */
enum reason mr_check(const struct access *access, const struct span *span,
		     struct complaint *complaint);

/* Checks, then moves @span->length bytes; MEMORY_FAULT when not all could be moved. */
enum reason mr_write(const struct access *access, const struct span *span, const uint8_t *bytes,
		     struct complaint *complaint);
enum reason mr_read(const struct access *access, const struct span *span, uint8_t *bytes,
		    struct complaint *complaint);

/* Bytes of the region from @address on; 0 when it lies outside. */
uint64_t mr_room(const struct mr *mr, uint64_t address);
/* Where @address, which lies in the region, is in our memory. */
uint8_t *mr_host(const struct mr *mr, uint64_t address);

/* Fills @complaint, if there is one, and returns @reason. */
enum reason mr_complain(const struct span *span, enum reason reason, uint64_t limit,
			struct complaint *complaint);

#endif
