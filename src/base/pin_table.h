/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: numbers that cannot be guessed, looked up without a lock
 *
 * Keys of memory regions and QP numbers are drawn at random, and a packet that
 * bears one must find its object in a few nanoseconds while another thread may
 * be destroying it. A table has a power of two of slots; the number's bits above
 * its low "free" bits select the slot, and the whole number is compared. There is no
 * probing: whoever inserts draws numbers until one falls on an empty slot, which
 * takes two draws on average in a table that is half full, its limit.
 *
 * A reader pins a slot (count up), looks whether the number still stands there,
 * uses what the slot describes, and unpins. A remover marks the slot
 * retired, which stops new pins, and waits until the count is zero; then nobody
 * uses the object, and the slot becomes empty. Count up before look, and mark
 * before wait, both sequentially consistent: one of the two always sees the other.
 *
 * Inserting and removing are serialised by the caller. Slots live in memory that
 * the caller hands in, zeroed, and never move.
 */
#ifndef VBN_BASE_PIN_TABLE_H
#define VBN_BASE_PIN_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIN_NUMBER_EMPTY 0u
#define PIN_NUMBER_RETIRED UINT32_MAX

/* First member of every slot. Neither constant above is ever somebody's number. */
struct pin_slot {
	_Atomic uint32_t number;
	_Atomic uint32_t pins;
};

struct pin_table {
	uint8_t *slots;
	size_t slot_bytes;
	uint32_t slot_count; /* a power of two */
	uint32_t free_bits;  /* low bits of a number that do not select its slot */
	uint32_t used_count;
};

/* @slots: @slot_count times @slot_bytes bytes of zeros that outlive the table. */
void pin_table_init(struct pin_table *table, void *slots, size_t slot_bytes, uint32_t slot_count,
		    uint32_t free_bits);

/*
 * The empty slot for @number, or NULL when another number holds it or the number
 * is no valid one; then the caller draws again. The caller fills the slot in and calls
 * pin_slot_publish(). A full table (half of the slots) answers NULL to all;
 * pin_table_is_full() tells.
 */
struct pin_slot *pin_table_claim(struct pin_table *table, uint32_t number);
void pin_slot_publish(struct pin_slot *slot, uint32_t number);
bool pin_table_is_full(const struct pin_table *table);

/* The slot that @number selects, whatever stands there; for owners of slots. Any thread. */
static inline struct pin_slot *pin_table_slot(const struct pin_table *table, uint32_t number)
{
	uint32_t index = (number >> table->free_bits) & (table->slot_count - 1);

	return (struct pin_slot *)(table->slots + index * table->slot_bytes);
}

/* The slot of @number, pinned, or NULL. Any thread; every packet asks for some. */
static inline void pin_slot_unpin(struct pin_slot *slot)
{
	atomic_fetch_sub_explicit(&slot->pins, 1, memory_order_release);
}

static inline struct pin_slot *pin_table_pin(const struct pin_table *table, uint32_t number)
{
	struct pin_slot *slot = pin_table_slot(table, number);

	/* Looked at first without a pin, so that wrong numbers cost no write. */
	if (number == PIN_NUMBER_EMPTY || number == PIN_NUMBER_RETIRED ||
	    atomic_load_explicit(&slot->number, memory_order_relaxed) != number)
		return NULL;
	atomic_fetch_add(&slot->pins, 1);
	if (atomic_load(&slot->number) == number)
		return slot;
	pin_slot_unpin(slot);
	return NULL;
}

/*
 * Removal in two steps: after pin_slot_retire() no new pin succeeds; when
 * pin_slot_is_idle() nobody holds an old one and pin_table_release() frees the
 * slot. The caller waits in between, in its own way.
 */
void pin_slot_retire(struct pin_slot *slot);
bool pin_slot_is_idle(const struct pin_slot *slot);
void pin_table_release(struct pin_table *table, struct pin_slot *slot);

#endif
