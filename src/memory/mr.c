/* SPDX-License-Identifier: BSD-2-Clause */
/* The key table: registering regions, and the one way into them, through all checks. */
#include "memory/mr.h"

#include <string.h>

#include "base/assert.h"

void memory_init(struct memory *memory, struct mr_slot *slots, uint32_t slot_count)
{
	pin_table_init(&memory->keys, slots, sizeof(*slots), slot_count, MEMORY_KEY_FREE_BITS);
}

static bool is_inside_64_bits(uint64_t start, uint64_t length)
{
	return length == 0 || length - 1 <= UINT64_MAX - start;
}

struct mr_slot *memory_register(struct memory *memory, const struct mr *mr, uint32_t key)
{
	struct mr_slot *slot;

	VBN_ASSERT(mr->kind != MR_WINDOW);
	VBN_ASSERT(is_inside_64_bits(mr->iova, mr->length));
	VBN_ASSERT(is_inside_64_bits((uintptr_t)mr->address, mr->length));
	slot = (struct mr_slot *)pin_table_claim(&memory->keys, key);
	if (!slot)
		return NULL;
	slot->mr = *mr;
	pin_slot_publish(&slot->pin, key);
	return slot;
}

enum reason mr_complain(const struct span *span, enum reason reason, uint64_t limit,
			struct complaint *complaint)
{
	if (complaint)
		*complaint = (struct complaint){
			.reason = reason,
			.key = span->key,
			.address = span->address,
			.length = span->length,
			.limit = limit,
		};
	return reason;
}

static enum reason reason_of_missing(uint32_t missing)
{
	if (missing & IBV_ACCESS_REMOTE_WRITE)
		return REASON_KEY_NO_REMOTE_WRITE;
	if (missing & IBV_ACCESS_REMOTE_READ)
		return REASON_KEY_NO_REMOTE_READ;
	if (missing & IBV_ACCESS_REMOTE_ATOMIC)
		return REASON_KEY_NO_REMOTE_ATOMIC;
	return REASON_KEY_NO_LOCAL_WRITE;
}

uint64_t mr_room(const struct mr *mr, uint64_t address)
{
	/* Wraps to a huge offset when @address lies before the region. */
	const uint64_t offset = address - mr->iova;

	return offset < mr->length ? mr->length - offset : 0;
}

/* In integers: a region may begin at address 0. */
uint8_t *mr_host(const struct mr *mr, uint64_t address)
{
	return (uint8_t *)((uintptr_t)mr->address + (uintptr_t)(address - mr->iova));
}

/* A window has no lkey, and a bound one of type 2 is of no use to other QPs (IBA 10.6.7.2). */
static enum reason check_window(const struct mr *mr, const struct access *access,
				const struct span *span)
{
	const uint32_t remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC;

	if (!(span->rights & remote))
		return REASON_KEY_UNKNOWN;
	return mr->owner && mr->owner != access->owner ? REASON_WINDOW_OTHER_QP : REASON_NONE;
}

static enum reason check(const struct mr *mr, const struct access *access, const struct span *span,
			 uint64_t room)
{
	if (mr->pd != access->pd)
		return REASON_KEY_PD_MISMATCH;
	if (mr->kind == MR_WINDOW) {
		enum reason reason = check_window(mr, access, span);

		if (reason != REASON_NONE)
			return reason;
	}
	if (span->rights & ~mr->access)
		return reason_of_missing(span->rights & ~mr->access);
	if (span->length > room)
		return REASON_KEY_RANGE;
	return REASON_NONE;
}

static inline enum reason pin(const struct access *access, const struct span *span,
			      struct mr_slot **slot_out, uint8_t **host,
			      struct complaint *complaint)
{
	struct mr_slot *slot = (struct mr_slot *)pin_table_pin(&access->memory->keys, span->key);
	enum reason reason;
	uint64_t room;

	if (!slot)
		return mr_complain(span, REASON_KEY_UNKNOWN, 0, complaint);
	room = mr_room(&slot->mr, span->address);
	reason = check(&slot->mr, access, span, room);
	if (reason != REASON_NONE) {
		mr_unpin(slot);
		return mr_complain(span, reason, room, complaint);
	}
	*slot_out = slot;
	*host = mr_host(&slot->mr, span->address);
	return REASON_NONE;
}

enum reason mr_pin(const struct access *access, const struct span *span, struct mr_slot **slot,
		   uint8_t **host, struct complaint *complaint)
{
	return pin(access, span, slot, host, complaint);
}

void mr_unpin(struct mr_slot *slot)
{
	pin_slot_unpin(&slot->pin);
}

enum reason mr_check(const struct access *access, const struct span *span,
		     struct complaint *complaint)
{
	struct mr_slot *slot;
	uint8_t *host;
	enum reason reason = mr_pin(access, span, &slot, &host, complaint);

	if (reason == REASON_NONE)
		mr_unpin(slot);
	return reason;
}

/* How many bytes came through. At address 0, which a region may begin with, nothing ever is. */
static size_t write_bytes(const struct access *access, const struct mr *mr, uint8_t *host,
			  const uint8_t *bytes, size_t length)
{
	if (mr->kind == MR_NULL)
		return length;
	return host ? access->copier->copy(host, bytes, length) : 0;
}

static size_t read_bytes(const struct access *access, const struct mr *mr, const uint8_t *host,
			 uint8_t *bytes, size_t length)
{
	if (mr->kind != MR_NULL)
		return host ? access->copier->copy(bytes, host, length) : 0;
	memset(bytes, 0, length);
	return length;
}

enum reason mr_write(const struct access *access, const struct span *span, const uint8_t *bytes,
		     struct complaint *complaint)
{
	struct mr_slot *slot;
	uint8_t *host;
	enum reason reason = pin(access, span, &slot, &host, complaint);
	size_t copied;

	if (reason != REASON_NONE)
		return reason;
	copied = write_bytes(access, &slot->mr, host, bytes, span->length);
	mr_unpin(slot);
	if (copied < span->length)
		return mr_complain(span, REASON_MEMORY_FAULT, copied, complaint);
	return REASON_NONE;
}

enum reason mr_read(const struct access *access, const struct span *span, uint8_t *bytes,
		    struct complaint *complaint)
{
	struct mr_slot *slot;
	uint8_t *host;
	enum reason reason = pin(access, span, &slot, &host, complaint);
	size_t copied;

	if (reason != REASON_NONE)
		return reason;
	copied = read_bytes(access, &slot->mr, host, bytes, span->length);
	mr_unpin(slot);
	if (copied < span->length)
		return mr_complain(span, REASON_MEMORY_FAULT, copied, complaint);
	return REASON_NONE;
}
