/* SPDX-License-Identifier: BSD-2-Clause */
/* Access by a peer: WRITE, READ and atomics on a region named by its rkey. */
#include "memory/mr.h"

enum reason remote_check(const struct access *access, uint32_t rkey, uint64_t iova, uint64_t length,
			 uint32_t rights, struct complaint *complaint)
{
	const struct span span = {.key = rkey, .rights = rights, .address = iova, .length = length};

	return length ? mr_check(access, &span, complaint) : REASON_NONE;
}

enum reason remote_write(const struct access *access, uint32_t rkey, uint64_t iova,
			 const uint8_t *bytes, size_t length, struct complaint *complaint)
{
	const struct span span = {
		.key = rkey, .rights = IBV_ACCESS_REMOTE_WRITE, .address = iova, .length = length};

	return length ? mr_write(access, &span, bytes, complaint) : REASON_NONE;
}

enum reason remote_read(const struct access *access, uint32_t rkey, uint64_t iova, uint8_t *bytes,
			size_t length, struct complaint *complaint)
{
	const struct span span = {
		.key = rkey, .rights = IBV_ACCESS_REMOTE_READ, .address = iova, .length = length};

	return length ? mr_read(access, &span, bytes, complaint) : REASON_NONE;
}

/*
 * Alignment is looked at last, so that a bad key is called a bad key. The host
 * address counts as well: under an iova of one's own choice the two may differ,
 * and a locked instruction across two cache lines stops the whole machine.
 */
static enum reason atomic_pin(const struct access *access, const struct span *span,
			      struct mr_slot **slot, uint64_t **target, struct complaint *complaint)
{
	enum reason reason;
	uint8_t *host;

	reason = mr_pin(access, span, slot, &host, complaint);
	if (reason != REASON_NONE)
		return reason;
	if (span->address % 8 || (uintptr_t)host % 8) {
		mr_unpin(*slot);
		return mr_complain(span, REASON_ATOMIC_MISALIGNED, 8, complaint);
	}
	*target = (uint64_t *)(void *)host;
	return REASON_NONE;
}

enum reason remote_fetch_add(const struct access *access, uint32_t rkey, uint64_t iova,
			     uint64_t add, uint64_t *original, struct complaint *complaint)
{
	const struct span span = {
		.key = rkey, .rights = IBV_ACCESS_REMOTE_ATOMIC, .address = iova, .length = 8};
	struct mr_slot *slot;
	enum reason reason;
	uint64_t *target = NULL;
	bool went_well;

	reason = atomic_pin(access, &span, &slot, &target, complaint);
	if (reason != REASON_NONE)
		return reason;
	went_well = access->copier->fetch_add(target, add, original);
	mr_unpin(slot);
	return went_well ? REASON_NONE : mr_complain(&span, REASON_MEMORY_FAULT, 0, complaint);
}

enum reason remote_compare_swap(const struct access *access, uint32_t rkey, uint64_t iova,
				uint64_t compare, uint64_t swap, uint64_t *original,
				struct complaint *complaint)
{
	const struct span span = {
		.key = rkey, .rights = IBV_ACCESS_REMOTE_ATOMIC, .address = iova, .length = 8};
	struct mr_slot *slot;
	enum reason reason;
	uint64_t *target = NULL;
	bool went_well;

	reason = atomic_pin(access, &span, &slot, &target, complaint);
	if (reason != REASON_NONE)
		return reason;
	went_well = access->copier->compare_swap(target, compare, swap, original);
	mr_unpin(slot);
	return went_well ? REASON_NONE : mr_complain(&span, REASON_MEMORY_FAULT, 0, complaint);
}
