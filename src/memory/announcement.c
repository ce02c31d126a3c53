/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/announcement.h"

#include "base/assert.h"

void announcements_use(struct announcements *announcements, uint32_t index, uint32_t first)
{
	struct announcement *cell = &announcements->cells[index];

	VBN_ASSERT(index < ANNOUNCEMENT_CELLS);
	if (atomic_load(&cell->sequence) == 0)
		atomic_store(&cell->sequence, first & ~1u);
	if (atomic_load(&announcements->used_count) <= index)
		atomic_store(&announcements->used_count, index + 1);
}

uint32_t announcement_begin(struct announcement *cell, uint32_t key, uint32_t qpn)
{
	uint32_t sequence = atomic_load_explicit(&cell->sequence, memory_order_relaxed);

	/* Odd, and another one if it was odd. */
	sequence = (sequence | 1) + (sequence & 1) * 2;

	/* Nothing of it is seen before the end of the last one. */
	atomic_store_explicit(&cell->key, key, memory_order_release);
	atomic_store_explicit(&cell->qpn, qpn, memory_order_release);
	atomic_store_explicit(&cell->is_shared, 0, memory_order_release);
	/* An exchange: nothing behind it is looked at before it. */
	atomic_exchange(&cell->sequence, sequence);
	return sequence;
}

void announcement_is_by_sharing(struct announcement *cell)
{
	/* Stays in front of the access where stores stay in order; else it may only be waited for longer. */
	atomic_store_explicit(&cell->is_shared, 1, memory_order_release);
}

void announcement_end(struct announcement *cell)
{
	uint32_t sequence = atomic_load_explicit(&cell->sequence, memory_order_relaxed);

	VBN_ASSERT(sequence & 1);
	/*
	 * Seen behind the access. Whether it still stands is looked at next, and that look may come before
	 * others see this: they wait for us then.
	 */
	atomic_store_explicit(&cell->sequence, sequence + 1, memory_order_release);
}

uint32_t announcements_count(const struct announcements *announcements)
{
	uint32_t count = atomic_load(&announcements->used_count);

	return count < ANNOUNCEMENT_CELLS ? count : ANNOUNCEMENT_CELLS;
}

/*
 * Another announcement may have begun between the loads. Then the one of @sequence is over, and
 * the new one is not granted what is taken back.
 */
bool announcement_covers(const struct announcement *cell,
			 const struct announcement_subject *subject, uint32_t *sequence)
{
	*sequence = atomic_load(&cell->sequence);
	if (!(*sequence & 1))
		return false;
	return (subject->key &&
		atomic_load_explicit(&cell->key, memory_order_relaxed) == subject->key) ||
	       (subject->qpn &&
		atomic_load_explicit(&cell->qpn, memory_order_relaxed) == subject->qpn);
}

bool announcement_can_be_outwaited(const struct announcement *cell)
{
	return atomic_load_explicit(&cell->is_shared, memory_order_acquire) != 0;
}

bool announcement_lasts(const struct announcement *cell, uint32_t sequence)
{
	return atomic_load(&cell->sequence) == sequence;
}
