/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a side: regions, and copies that are looked at and fault when they are told to. */
#include "fuzz/pair.h"

#include <string.h>

#include "base/assert.h"

/* --- copies --- */

struct side *copying_side;

static bool faults(void)
{
	return copying_side->uses_left && --copying_side->uses_left == 0;
}

static size_t copy_checked(void *to, const void *from, size_t length)
{
	size_t count = faults() ? length / 2 : length;

	check_copy(copying_side->pair, to, from, length);
	memcpy(to, from, count);
	return count;
}

static bool fetch_add_checked(uint64_t *target, uint64_t add, uint64_t *original)
{
	check_copy(copying_side->pair, target, original, sizeof(*target));
	if (faults())
		return false;
	*original = *target;
	*target += add;
	return true;
}

static bool compare_swap_checked(uint64_t *target, uint64_t compare, uint64_t swap,
				 uint64_t *original)
{
	check_copy(copying_side->pair, target, original, sizeof(*target));
	if (faults())
		return false;
	*original = *target;
	if (*target == compare)
		*target = swap;
	return true;
}

const struct copier copier_checked = {
	.copy = copy_checked,
	.fetch_add = fetch_add_checked,
	.compare_swap = compare_swap_checked,
};

/* --- payload that is lent --- */

#define LEND_BYTES_MIN 300

static const uint8_t *find_lent(const struct side *owner, const struct reach_step *step)
{
	for (int kind = 0; kind < REGION_COUNT; kind++) {
		uint64_t offset = step->address - region_iova((enum region_kind)kind);

		if (owner->regions[kind] &&
		    step->key == region_key(owner, (enum region_kind)kind) &&
		    region_pd((enum region_kind)kind) == PD && offset < REGION_BYTES &&
		    step->length <= REGION_BYTES - offset)
			return owner->arena + region_offset((enum region_kind)kind) + offset;
	}
	return NULL;
}

/* By way of a buffer, so that each end of it is looked at as a copy. */
static void move_piece(const struct side *side, const struct held_piece *piece,
		       const uint8_t *there)
{
	static uint8_t bytes[REGION_BYTES];

	VBN_ASSERT(piece->length <= sizeof(bytes));
	check_copy(side->pair, bytes, there, piece->length);
	memcpy(bytes, there, piece->length);
	check_copy(side->pair, piece->host, bytes, piece->length);
	memcpy(piece->host, bytes, piece->length);
}

/* What faults has moved all but its last piece. */
static bool fetch_lent(struct reach *reach, const struct reach_step *step)
{
	const struct side *side = copying_side;
	const uint8_t *there = find_lent(side->peer, step);
	uint32_t bytes = 0;

	VBN_ASSERT(reach == &side->reach && step->is_read && !step->offset);
	VBN_ASSERT(step->bytes && step->bytes == step->length);
	if (!there)
		return false;
	for (uint32_t i = 0; i < step->piece_count; i++) {
		if (faults())
			return false;
		move_piece(side, &step->pieces[i], there + bytes);
		bytes += (uint32_t)step->pieces[i].length;
	}
	VBN_ASSERT(bytes == step->bytes);
	return true;
}

/* It performs nothing itself. */
void side_open_reach(struct side *side)
{
	side->reach = (struct reach){
		.bytes_min = UINT32_MAX, .fetch = fetch_lent, .lend_bytes_min = LEND_BYTES_MIN};
}

/* --- memory --- */

uint32_t region_offset(enum region_kind kind)
{
	return GUARD_BYTES + (uint32_t)kind * (REGION_BYTES + GUARD_BYTES);
}

uint64_t region_iova(enum region_kind kind)
{
	return 0x0000700000000000ull + region_offset(kind);
}

uint32_t region_pd(enum region_kind kind)
{
	return kind == REGION_FOREIGN ? PD_FOREIGN : PD;
}

uint32_t region_key(const struct side *side, enum region_kind kind)
{
	/* The slot is cut out of the number above its low eight bits. */
	return ((uint32_t)kind + 1) << 8 | (0x40u + (uint32_t)(side - side->pair->sides));
}

void side_register(struct side *side, enum region_kind kind)
{
	static const uint32_t rights[REGION_COUNT] = {
		[REGION_OPEN] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				IBV_ACCESS_MW_BIND,
		[REGION_LOCAL] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
		[REGION_READ_ONLY] = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND,
		[REGION_FOREIGN] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct mr mr = {.iova = region_iova(kind),
			.length = REGION_BYTES,
			.address = side->arena + region_offset(kind),
			.pd = region_pd(kind),
			.access = rights[kind]};

	if (side->regions[kind])
		return;
	side->regions[kind] = memory_register(&side->keys, &mr, region_key(side, kind));
	VBN_ASSERT(side->regions[kind]);
}

void side_deregister(struct side *side, enum region_kind kind)
{
	/* While a window is bound to it, the program is told EBUSY. */
	if (!side->regions[kind] || atomic_load(&side->regions[kind]->window_count))
		return;
	pin_slot_retire(&side->regions[kind]->pin);
	pin_table_release(&side->keys.keys, &side->regions[kind]->pin);
	side->regions[kind] = NULL;
}

/* No byte stands at the same place on both sides: one that is copied is seen to change. */
void side_open_memory(struct side *side)
{
	uint32_t own = side == side->pair->sides ? 0 : 85;

	memset(side->slots, 0, sizeof(side->slots));
	memory_init(&side->keys, side->slots, KEY_SLOTS);
	for (uint32_t i = 0; i < ARENA_BYTES; i++)
		side->arena[i] = (uint8_t)(i * 7 + (i >> 8) + own);
	memcpy(side->shadow, side->arena, ARENA_BYTES);
	for (int kind = 0; kind < REGION_COUNT; kind++) {
		side->regions[kind] = NULL;
		side_register(side, (enum region_kind)kind);
	}
}
