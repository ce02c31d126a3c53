/* SPDX-License-Identifier: BSD-2-Clause */
/* A small key table with the regions that the tests of this layer work on. */
#ifndef VBN_TESTS_REGION_H
#define VBN_TESTS_REGION_H

#include "memory/memory.h"

#define REGION_PD 7u
#define REGION_SLOTS 16u
#define REGION_BYTES 256u

struct region {
	struct memory memory;
	struct mr_slot slots[REGION_SLOTS];
	_Alignas(64) uint8_t bytes[REGION_BYTES];
	struct access access;
};

/* An empty table; the bytes count up from 0; accesses come from REGION_PD. */
void region_init(struct region *region);
/* Registers bytes [@from, @from + @length) under @key, named by their own address. */
struct mr_slot *region_add(struct region *region, uint32_t key, size_t from, size_t length,
			   uint32_t access);
/* The same bytes, named from @iova on. */
struct mr_slot *region_add_at(struct region *region, uint32_t key, size_t from, size_t length,
			      uint32_t access, uint64_t iova);
void region_remove(struct region *region, struct mr_slot *slot);
uint64_t region_address(const struct region *region, size_t index);

/*
 * A copier that moves at most copier_short_limit bytes in its life, and no atomics:
 * memory that went away.
 */
extern const struct copier copier_short;
extern size_t copier_short_limit;

#endif
