/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/pin_table.h"

#include "base/assert.h"

void pin_table_init(struct pin_table *table, void *slots, size_t slot_bytes, uint32_t slot_count,
		    uint32_t free_bits)
{
	VBN_ASSERT(slot_count && (slot_count & (slot_count - 1)) == 0);
	VBN_ASSERT(slot_bytes >= sizeof(struct pin_slot) && free_bits < 32);
	*table = (struct pin_table){
		.slots = slots,
		.slot_bytes = slot_bytes,
		.slot_count = slot_count,
		.free_bits = free_bits,
	};
}

static bool is_number(uint32_t number)
{
	return number != PIN_NUMBER_EMPTY && number != PIN_NUMBER_RETIRED;
}

bool pin_table_is_full(const struct pin_table *table)
{
	return table->used_count >= (table->slot_count + 1) / 2;
}

struct pin_slot *pin_table_claim(struct pin_table *table, uint32_t number)
{
	struct pin_slot *slot = pin_table_slot(table, number);

	if (!is_number(number) || pin_table_is_full(table) ||
	    atomic_load_explicit(&slot->number, memory_order_relaxed) != PIN_NUMBER_EMPTY)
		return NULL;
	/* A failed pin may still hold its count for a moment; it changes nothing. */
	table->used_count++;
	return slot;
}

void pin_slot_publish(struct pin_slot *slot, uint32_t number)
{
	atomic_store(&slot->number, number);
}

void pin_slot_retire(struct pin_slot *slot)
{
	atomic_store(&slot->number, PIN_NUMBER_RETIRED);
}

bool pin_slot_is_idle(const struct pin_slot *slot)
{
	return atomic_load(&slot->pins) == 0;
}

void pin_table_release(struct pin_table *table, struct pin_slot *slot)
{
	VBN_ASSERT(atomic_load(&slot->number) == PIN_NUMBER_RETIRED);
	VBN_ASSERT(table->used_count > 0);
	atomic_store(&slot->number, PIN_NUMBER_EMPTY);
	table->used_count--;
}
