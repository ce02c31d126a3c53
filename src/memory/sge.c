/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scatter/gather lists: a list read or written as if it were one buffer.
 *
 * A range that touches several elements is walked twice, first to check all of
 * them, then to move the bytes, where each is checked again because it may have
 * been deregistered in between; then some bytes have moved already.
 */
#include "memory/mr.h"

#include "base/assert.h"

struct sge_walk {
	const struct ibv_sge *element;
	const struct ibv_sge *end;
	uint64_t offset; /* into the element */
	uint64_t left;	 /* bytes of the range not yet handed out */
};

static struct sge_walk sge_walk_start(const struct ibv_sge *list, uint32_t count, uint64_t offset,
				      uint64_t length)
{
	struct sge_walk walk = {.element = list, .end = list + count, .left = length};

	while (walk.element < walk.end && offset >= walk.element->length)
		offset -= walk.element++->length;
	VBN_ASSERT(length == 0 || walk.element < walk.end);
	walk.offset = offset;
	return walk;
}

/* The part of the range that lies in the next element; false when all is handed out. */
static bool sge_walk_next(struct sge_walk *walk, struct span *span)
{
	uint64_t room;

	if (walk->left == 0)
		return false;
	while (walk->offset == walk->element->length) {
		walk->offset = 0;
		walk->element++;
		VBN_ASSERT(walk->element < walk->end);
	}
	room = walk->element->length - walk->offset;
	span->key = walk->element->lkey;
	/* The sum may wrap; the range check refuses what that gives. */
	span->address = walk->element->addr + walk->offset;
	span->length = walk->left < room ? walk->left : room;
	walk->offset += span->length;
	walk->left -= span->length;
	return true;
}

static bool lies_in_one_element(const struct sge_walk *walk)
{
	return walk->left == 0 || walk->left <= walk->element->length - walk->offset;
}

/* Most lists have one element, and then there is no walk. */
static bool is_single(const struct ibv_sge *list, uint32_t count, uint64_t offset, uint64_t length)
{
	if (count != 1 || length == 0)
		return false;
	VBN_ASSERT(offset <= list->length && length <= list->length - offset);
	return true;
}

static struct span span_of_single(const struct ibv_sge *element, uint64_t offset, uint64_t length,
				  uint32_t rights)
{
	/* The sum may wrap, as in a walk. */
	return (struct span){.key = element->lkey,
			     .rights = rights,
			     .address = element->addr + offset,
			     .length = length};
}

static enum reason check_each(const struct access *access, struct sge_walk walk, uint32_t rights,
			      struct complaint *complaint)
{
	struct span span = {.rights = rights};
	enum reason reason = REASON_NONE;

	while (reason == REASON_NONE && sge_walk_next(&walk, &span))
		reason = mr_check(access, &span, complaint);
	return reason;
}

static enum reason gather_walk(const struct access *access, const struct ibv_sge *list,
			       uint32_t count, uint64_t offset, uint8_t *bytes, size_t length,
			       struct complaint *complaint)
{
	struct sge_walk walk = sge_walk_start(list, count, offset, length);
	struct span span = {.rights = 0};
	enum reason reason = REASON_NONE;

	if (!lies_in_one_element(&walk))
		reason = check_each(access, walk, span.rights, complaint);
	while (reason == REASON_NONE && sge_walk_next(&walk, &span)) {
		reason = mr_read(access, &span, bytes, complaint);
		bytes += span.length;
	}
	return reason;
}

enum reason sge_gather(const struct access *access, const struct ibv_sge *list, uint32_t count,
		       uint64_t offset, uint8_t *bytes, size_t length, struct complaint *complaint)
{
	if (is_single(list, count, offset, length)) {
		struct span span = span_of_single(list, offset, length, 0);

		return mr_read(access, &span, bytes, complaint);
	}
	return gather_walk(access, list, count, offset, bytes, length, complaint);
}

static enum reason scatter_walk(const struct access *access, const struct ibv_sge *list,
				uint32_t count, uint64_t offset, const uint8_t *bytes,
				size_t length, struct complaint *complaint)
{
	struct sge_walk walk = sge_walk_start(list, count, offset, length);
	struct span span = {.rights = IBV_ACCESS_LOCAL_WRITE};
	enum reason reason = REASON_NONE;

	if (!lies_in_one_element(&walk))
		reason = check_each(access, walk, span.rights, complaint);
	while (reason == REASON_NONE && sge_walk_next(&walk, &span)) {
		reason = mr_write(access, &span, bytes, complaint);
		bytes += span.length;
	}
	return reason;
}

enum reason sge_scatter(const struct access *access, const struct ibv_sge *list, uint32_t count,
			uint64_t offset, const uint8_t *bytes, size_t length,
			struct complaint *complaint)
{
	if (is_single(list, count, offset, length)) {
		struct span span = span_of_single(list, offset, length, IBV_ACCESS_LOCAL_WRITE);

		return mr_write(access, &span, bytes, complaint);
	}
	return scatter_walk(access, list, count, offset, bytes, length, complaint);
}

enum reason sge_check(const struct access *access, const struct ibv_sge *list, uint32_t count,
		      uint32_t rights, struct complaint *complaint)
{
	struct sge_walk walk = sge_walk_start(list, count, 0, sge_bytes(list, count));

	return check_each(access, walk, rights, complaint);
}

enum reason sge_locate(const struct access *access, const struct ibv_sge *sge, uint32_t rights,
		       void **host, struct complaint *complaint)
{
	const struct span span = {
		.key = sge->lkey, .rights = rights, .address = sge->addr, .length = sge->length};
	struct mr_slot *slot;
	uint8_t *first = NULL;
	enum reason reason = mr_pin(access, &span, &slot, &first, complaint);

	if (reason != REASON_NONE)
		return reason;
	mr_unpin(slot);
	*host = first;
	return REASON_NONE;
}

static bool hold_one(const struct access *access, const struct span *span, struct held_piece *piece)
{
	*piece = (struct held_piece){.length = span->length};
	if (mr_pin(access, span, &piece->slot, &piece->host, NULL) != REASON_NONE)
		return false;
	if (piece->slot->mr.kind != MR_NULL)
		return true;
	mr_unpin(piece->slot);
	return false;
}

/* What most lists are: a single element. */
static bool hold_part(const struct access *access, const struct ibv_sge *element, uint64_t offset,
		      size_t length, uint32_t rights, struct held_piece *piece, uint32_t *count)
{
	const struct span span = {.key = element->lkey,
				  .rights = rights,
				  .address = element->addr + offset,
				  .length = length};

	VBN_ASSERT(offset + length <= element->length);
	*count = 1;
	return hold_one(access, &span, piece);
}

bool sge_hold(const struct access *access, const struct ibv_sge *list, uint32_t list_count,
	      uint64_t offset, size_t length, uint32_t rights, struct held_piece *pieces,
	      uint32_t *count)
{
	struct sge_walk walk;
	struct span span = {.rights = rights};
	uint32_t held = 0;

	if (list_count == 1 && length && *count)
		return hold_part(access, list, offset, length, rights, pieces, count);
	walk = sge_walk_start(list, list_count, offset, length);
	while (sge_walk_next(&walk, &span)) {
		if (held == *count || !hold_one(access, &span, &pieces[held])) {
			sge_let_go(pieces, held);
			return false;
		}
		held++;
	}
	*count = held;
	return true;
}

void sge_let_go(const struct held_piece *pieces, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (pieces[i].slot)
			mr_unpin(pieces[i].slot);
}

uint64_t sge_bytes(const struct ibv_sge *list, uint32_t count)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < count; i++)
		bytes += list[i].length;
	return bytes;
}
