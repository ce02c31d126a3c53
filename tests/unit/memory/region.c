/* SPDX-License-Identifier: BSD-2-Clause */
#include "region.h"

#include <string.h>

void region_init(struct region *region)
{
	size_t i;

	memset(region, 0, sizeof(*region));
	memory_init(&region->memory, region->slots, REGION_SLOTS);
	for (i = 0; i < REGION_BYTES; i++)
		region->bytes[i] = (uint8_t)i;
	region->access = (struct access){
		.memory = &region->memory, .copier = &copier_direct, .pd = REGION_PD};
}

struct mr_slot *region_add_at(struct region *region, uint32_t key, size_t from, size_t length,
			      uint32_t access, uint64_t iova)
{
	const struct mr mr = {
		.iova = iova,
		.length = length,
		.address = region->bytes + from,
		.pd = REGION_PD,
		.access = access,
	};

	return memory_register(&region->memory, &mr, key);
}

struct mr_slot *region_add(struct region *region, uint32_t key, size_t from, size_t length,
			   uint32_t access)
{
	return region_add_at(region, key, from, length, access, region_address(region, from));
}

void region_remove(struct region *region, struct mr_slot *slot)
{
	pin_slot_retire(&slot->pin);
	pin_table_release(&region->memory.keys, &slot->pin);
}

uint64_t region_address(const struct region *region, size_t index)
{
	return (uintptr_t)(region->bytes + index);
}

size_t copier_short_limit;

static size_t copy_short(void *to, const void *from, size_t length)
{
	size_t copied = length < copier_short_limit ? length : copier_short_limit;

	copier_short_limit -= copied;
	memcpy(to, from, copied);
	return copied;
}

static bool fetch_add_never(uint64_t *target, uint64_t add, uint64_t *original)
{
	(void)target;
	(void)add;
	(void)original;
	return false;
}

static bool compare_swap_never(uint64_t *target, uint64_t compare, uint64_t swap,
			       uint64_t *original)
{
	(void)target;
	(void)compare;
	(void)swap;
	(void)original;
	return false;
}

const struct copier copier_short = {
	.copy = copy_short,
	.fetch_add = fetch_add_never,
	.compare_swap = compare_swap_never,
};
