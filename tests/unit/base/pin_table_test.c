/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#include "base/pin_table.h"
#include "base/random.h"

#define SLOTS 8
#define FREE_BITS 4

/* What a table describes here: both words carry the number while it is published. */
struct entry {
	struct pin_slot slot;
	uint64_t first, second;
};

struct fixture {
	struct entry entries[SLOTS];
	struct pin_table table;
};

static void fixture_init(struct fixture *fixture)
{
	memset(fixture, 0, sizeof(*fixture));
	pin_table_init(&fixture->table, fixture->entries, sizeof(fixture->entries[0]), SLOTS,
		       FREE_BITS);
}

static struct entry *insert(struct fixture *fixture, uint32_t number)
{
	struct entry *entry = (struct entry *)pin_table_claim(&fixture->table, number);

	if (entry) {
		entry->first = number;
		entry->second = number;
		pin_slot_publish(&entry->slot, number);
	}
	return entry;
}

static void remove_entry(struct fixture *fixture, struct entry *entry)
{
	pin_slot_retire(&entry->slot);
	assert_true(pin_slot_is_idle(&entry->slot));
	pin_table_release(&fixture->table, &entry->slot);
}

/* True when @number is found; lets go of it again. */
static bool is_found(const struct fixture *fixture, uint32_t number)
{
	struct pin_slot *slot = pin_table_pin(&fixture->table, number);

	if (slot)
		pin_slot_unpin(slot);
	return slot != NULL;
}

static void the_whole_number_is_compared(void **state)
{
	struct fixture fixture;
	struct entry *entry;

	(void)state;
	fixture_init(&fixture);
	entry = insert(&fixture, 0xabc0035);
	assert_ptr_equal(entry, &fixture.entries[3]);
	assert_true(is_found(&fixture, 0xabc0035));
	/* The same slot, but another low or high bit. */
	assert_false(is_found(&fixture, 0xabc0034));
	assert_false(is_found(&fixture, 0xabd0035));
	assert_false(is_found(&fixture, 0x0000045));
	assert_true(pin_slot_is_idle(&entry->slot));
	remove_entry(&fixture, entry);
	assert_false(is_found(&fixture, 0xabc0035));
}

static void the_two_constants_are_nobodys_number(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	assert_null(pin_table_claim(&fixture.table, PIN_NUMBER_EMPTY));
	assert_null(pin_table_claim(&fixture.table, PIN_NUMBER_RETIRED));
	/* All slots are empty, which is written as number 0. */
	assert_false(is_found(&fixture, PIN_NUMBER_EMPTY));
	/* Slot 7 is retired, which is written as the number of all ones. */
	pin_slot_retire(&insert(&fixture, 0x71)->slot);
	assert_false(is_found(&fixture, PIN_NUMBER_RETIRED));
}

static void a_taken_slot_refuses_another_number(void **state)
{
	struct fixture fixture;
	struct entry *entry;

	(void)state;
	fixture_init(&fixture);
	entry = insert(&fixture, 0x21);
	assert_null(pin_table_claim(&fixture.table, 0x22));
	assert_null(pin_table_claim(&fixture.table, 0x21));
	pin_slot_retire(&entry->slot);
	/* Neither while the last reader may still hold it. */
	assert_null(pin_table_claim(&fixture.table, 0x22));
	pin_table_release(&fixture.table, &entry->slot);
	assert_ptr_equal(insert(&fixture, 0x22), entry);
	assert_false(is_found(&fixture, 0x21));
	assert_true(is_found(&fixture, 0x22));
}

static void half_of_the_slots_is_the_limit(void **state)
{
	struct fixture fixture;
	struct entry *first;

	(void)state;
	fixture_init(&fixture);
	first = insert(&fixture, 0x01);
	for (uint32_t i = 1; i < SLOTS / 2; i++) {
		assert_false(pin_table_is_full(&fixture.table));
		assert_non_null(insert(&fixture, i << FREE_BITS));
	}
	assert_true(pin_table_is_full(&fixture.table));
	assert_null(pin_table_claim(&fixture.table, (SLOTS - 1) << FREE_BITS));
	remove_entry(&fixture, first);
	assert_false(pin_table_is_full(&fixture.table));
	assert_non_null(insert(&fixture, (SLOTS - 1) << FREE_BITS));
}

static void a_pin_outlasts_retirement(void **state)
{
	struct fixture fixture;
	struct entry *entry;
	struct pin_slot *one, *two;

	(void)state;
	fixture_init(&fixture);
	entry = insert(&fixture, 0x35);
	one = pin_table_pin(&fixture.table, 0x35);
	two = pin_table_pin(&fixture.table, 0x35);
	assert_ptr_equal(one, &entry->slot);
	assert_ptr_equal(two, &entry->slot);
	pin_slot_retire(&entry->slot);
	assert_false(pin_slot_is_idle(&entry->slot));
	assert_null(pin_table_pin(&fixture.table, 0x35));
	pin_slot_unpin(one);
	assert_false(pin_slot_is_idle(&entry->slot));
	pin_slot_unpin(two);
	assert_true(pin_slot_is_idle(&entry->slot));
	pin_table_release(&fixture.table, &entry->slot);
	assert_int_equal(entry->slot.number, PIN_NUMBER_EMPTY);
}

/*
 * One thread looks numbers up while another removes and inserts them. The words
 * of an entry are plain memory: whoever reads them pinned must find the number
 * that was asked for, and the thread sanitizer must find no race.
 */
#define STRESS_NUMBERS 4
#define STRESS_ROUNDS 20000
#define STRESS_PINS 20000

struct stress {
	struct fixture fixture;
	_Atomic bool is_over;
	_Atomic unsigned pins;
	unsigned torn;
};

/* Four slots, each fought over by two numbers. */
static uint32_t stress_number(unsigned index, unsigned variant)
{
	return index << FREE_BITS | (variant & 1) | 2;
}

static void *stress_reader(void *argument)
{
	struct stress *stress = argument;
	struct random_stream random = {7};

	while (!atomic_load(&stress->is_over)) {
		unsigned index = (unsigned)random_below(&random, STRESS_NUMBERS);
		uint32_t number = stress_number(index, (unsigned)random_next(&random));
		struct entry *entry = (struct entry *)pin_table_pin(&stress->fixture.table, number);

		if (!entry)
			continue;
		stress->torn += entry->first != number || entry->second != number;
		pin_slot_unpin(&entry->slot);
		atomic_fetch_add(&stress->pins, 1);
	}
	return NULL;
}

static void stress_replace(struct fixture *fixture, struct entry *entry, uint32_t next)
{
	pin_slot_retire(&entry->slot);
	while (!pin_slot_is_idle(&entry->slot))
		sched_yield();
	entry->first = 0xdead;
	entry->second = 0xdead;
	pin_table_release(&fixture->table, &entry->slot);
	assert_ptr_equal(insert(fixture, next), entry);
}

static void pinned_entries_are_never_torn(void **state)
{
	static struct stress stress;
	struct entry *entries[STRESS_NUMBERS];
	pthread_t reader;

	(void)state;
	fixture_init(&stress.fixture);
	for (unsigned i = 0; i < STRESS_NUMBERS; i++)
		entries[i] = insert(&stress.fixture, stress_number(i, 0));
	assert_int_equal(pthread_create(&reader, NULL, stress_reader, &stress), 0);
	for (unsigned round = 0; round < STRESS_ROUNDS || atomic_load(&stress.pins) < STRESS_PINS;
	     round++) {
		unsigned i = round % STRESS_NUMBERS;

		stress_replace(&stress.fixture, entries[i],
			       stress_number(i, round / STRESS_NUMBERS + 1));
	}
	atomic_store(&stress.is_over, true);
	pthread_join(reader, NULL);
	assert_int_equal(stress.torn, 0);
	for (unsigned i = 0; i < STRESS_NUMBERS; i++)
		assert_true(pin_slot_is_idle(&entries[i]->slot));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_whole_number_is_compared),
		cmocka_unit_test(the_two_constants_are_nobodys_number),
		cmocka_unit_test(a_taken_slot_refuses_another_number),
		cmocka_unit_test(half_of_the_slots_is_the_limit),
		cmocka_unit_test(a_pin_outlasts_retirement),
		cmocka_unit_test(pinned_entries_are_never_torn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
