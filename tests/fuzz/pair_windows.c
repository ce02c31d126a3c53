/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory windows of a side, and what they may let the peer do. A bind grants its bytes from
 * the moment when it is posted, since it may be executed in the same call, and they are taken back
 * only when an invalidation, a new bind or a message that invalidates is known to be done. What
 * was flushed may have been executed.
 */
#include "fuzz/pair.h"

#include <string.h>

#include "base/assert.h"
#include "memory/window.h"

#define LOW_BITS 0xffu
#define WINDOW_WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

void side_open_windows(struct side *side)
{
	side->grant_count = 0;
	for (uint32_t i = 0; i < WINDOWS; i++) {
		enum ibv_mw_type type = i ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1;
		uint32_t key = (REGION_COUNT + 1 + i) << 8 | 1;

		side->mws[i] = (struct ibv_mw){.rkey = key, .type = type};
		side->windows[i] = window_create(&side->keys, type, PD, key);
		VBN_ASSERT(side->windows[i]);
	}
}

void side_close_windows(struct side *side)
{
	for (uint32_t i = 0; i < WINDOWS; i++) {
		VBN_ASSERT(window_close(side->windows[i]));
		VBN_ASSERT(pin_slot_is_idle(&side->windows[i]->pin));
		window_release(&side->keys, side->windows[i]);
	}
	for (int kind = 0; kind < REGION_COUNT; kind++)
		VBN_ASSERT(!side->regions[kind] ||
			   atomic_load(&side->regions[kind]->window_count) == 0);
}

/* --- grants --- */

static bool is_inside(uint64_t address, uint64_t length, enum region_kind kind)
{
	uint64_t offset = address - region_iova(kind);

	return offset <= REGION_BYTES && length <= REGION_BYTES - offset;
}

/* The region of a bind that may succeed; REGION_COUNT: none does. */
static enum region_kind region_of(const struct side *side, const struct ibv_mw_bind_info *info)
{
	for (int i = 0; i < REGION_COUNT; i++) {
		enum region_kind kind = (enum region_kind)i;
		bool forbids = kind == REGION_FOREIGN ||
			       (kind == REGION_READ_ONLY && info->mw_access_flags & WINDOW_WRITES);

		if (info->mr->lkey == region_key(side, kind) && !forbids &&
		    is_inside(info->addr, info->length, kind))
			return kind;
	}
	return REGION_COUNT;
}

bool side_note_bind(struct side *side, const struct ibv_send_wr *wr, struct record *record)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
	struct grant *grant = &side->grants[side->grant_count];
	enum region_kind kind;

	record->window = (uint32_t)(wr->bind_mw.mw - side->mws);
	record->key = wr->bind_mw.rkey;
	record->is_impossible = (wr->bind_mw.rkey ^ wr->bind_mw.mw->rkey) & ~LOW_BITS;
	if (!info->length)
		return true;
	kind = region_of(side, info);
	record->is_impossible |= kind == REGION_COUNT;
	if (record->is_impossible)
		return true;
	if (side->grant_count == GRANTS)
		return false;
	side->grant_count++;
	*grant = (struct grant){
		.window = record->window,
		.key = record->key,
		.count = side->sends.posted,
		.offset = region_offset(kind) + (uint32_t)(info->addr - region_iova(kind)),
		.bytes = (uint32_t)info->length,
		.may_write = info->mw_access_flags & WINDOW_WRITES,
	};
	return true;
}

static bool is_before(const struct grant *grant, uint32_t count)
{
	return (int32_t)(grant->count - count) < 0;
}

/* What is posted behind @count may bind the same key anew. */
static void end_key(struct side *side, uint32_t key, uint32_t count)
{
	for (uint32_t i = 0; i < side->grant_count; i++) {
		struct grant *grant = &side->grants[i];

		grant->is_over |= grant->key == key && is_before(grant, count) &&
				  side->mws[grant->window].type == IBV_MW_TYPE_2;
	}
}

/* A bind of type 1 replaces those before. */
static void end_window(struct side *side, uint32_t window, uint32_t count)
{
	for (uint32_t i = 0; i < side->grant_count; i++)
		side->grants[i].is_over |= side->grants[i].window == window &&
					   is_before(&side->grants[i], count);
}

void side_forget_grants(struct side *side)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < side->grant_count; i++)
		if (!side->grants[i].is_over)
			side->grants[kept++] = side->grants[i];
	side->grant_count = kept;
}

void side_note_window(struct side *side, const struct completion *completion,
		      const struct record *record)
{
	uint32_t count = (uint32_t)completion->wr_id;

	if (completion->status != IBV_WC_SUCCESS)
		return;
	if (!record) {
		if (completion->wc_flags & IBV_WC_WITH_INV)
			end_key(side, completion->immediate, side->sends.done);
	} else if (record->opcode == IBV_WR_LOCAL_INV) {
		end_key(side, record->key, count);
	} else if (record->opcode == IBV_WR_BIND_MW) {
		VBN_ASSERT(!record->is_impossible);
		if (side->mws[record->window].type == IBV_MW_TYPE_1)
			end_window(side, record->window, count);
	}
}

bool side_window_covers(const struct side *side, uint32_t offset)
{
	for (uint32_t i = 0; i < side->grant_count; i++) {
		const struct grant *grant = &side->grants[i];

		if (grant->may_write && offset - grant->offset < grant->bytes)
			return true;
	}
	return false;
}

/* Each region counts the windows that are bound to it, and each lies inside of its region. */
void check_windows(const struct side *side)
{
	for (int i = 0; i < REGION_COUNT; i++) {
		enum region_kind kind = (enum region_kind)i;
		uint32_t count = 0;

		for (uint32_t k = 0; k < WINDOWS; k++) {
			const struct mr *mr = &side->windows[k]->mr;

			if (mr->parent != region_key(side, kind))
				continue;
			count++;
			VBN_ASSERT(mr->address >= side->arena + region_offset(kind));
			VBN_ASSERT(mr->address + mr->length <=
				   side->arena + region_offset(kind) + REGION_BYTES);
		}
		VBN_ASSERT(side->regions[kind]
				   ? atomic_load(&side->regions[kind]->window_count) == count
				   : count == 0);
	}
}
