/* SPDX-License-Identifier: BSD-2-Clause */
/* What a peer may do with an rkey: WRITE, READ and atomics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "region.h"

#define KEY 0x00a1b200u
#define IOVA_KEY 0x00a1b300u
#define ALL_REMOTE \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct region region;
static struct mr_slot *slot;

static int set_up(void **state)
{
	(void)state;
	region_init(&region);
	slot = region_add(&region, KEY, 64, 64, ALL_REMOTE);
	return 0;
}

static uint64_t word_at(size_t index)
{
	uint64_t word;

	memcpy(&word, region.bytes + index, 8);
	return word;
}

static void assert_untouched(void)
{
	size_t i;

	for (i = 0; i < REGION_BYTES; i++)
		assert_int_equal(region.bytes[i], i);
	assert_true(pin_slot_is_idle(&slot->pin));
}

static void write_and_read_reach_the_named_bytes_only(void **state)
{
	uint8_t bytes[16];
	size_t i;

	(void)state;
	assert_int_equal(remote_read(&region.access, KEY, region_address(&region, 70), bytes, 16,
				     NULL),
			 REASON_NONE);
	assert_memory_equal(bytes, region.bytes + 70, 16);
	memset(bytes, 0xf7, 16);
	assert_int_equal(remote_write(&region.access, KEY, region_address(&region, 70), bytes, 16,
				      NULL),
			 REASON_NONE);
	for (i = 0; i < REGION_BYTES; i++)
		assert_int_equal(region.bytes[i], i >= 70 && i < 86 ? 0xf7 : i);
}

static void refused_accesses_change_nothing(void **state)
{
	uint8_t bytes[80] = {0};
	uint64_t original = 99;

	(void)state;
	assert_int_equal(remote_write(&region.access, KEY ^ 1, region_address(&region, 64), bytes,
				      8, NULL),
			 REASON_KEY_UNKNOWN);
	assert_int_equal(remote_write(&region.access, KEY, region_address(&region, 64), bytes, 65,
				      NULL),
			 REASON_KEY_RANGE);
	assert_int_equal(remote_write(&region.access, KEY, region_address(&region, 63), bytes, 1,
				      NULL),
			 REASON_KEY_RANGE);
	assert_int_equal(remote_read(&region.access, KEY, region_address(&region, 127), bytes, 2,
				     NULL),
			 REASON_KEY_RANGE);
	assert_int_equal(remote_fetch_add(&region.access, KEY, region_address(&region, 128), 1,
					  &original, NULL),
			 REASON_KEY_RANGE);
	region.access.pd++;
	assert_int_equal(remote_write(&region.access, KEY, region_address(&region, 64), bytes, 8,
				      NULL),
			 REASON_KEY_PD_MISMATCH);
	assert_int_equal(remote_compare_swap(&region.access, KEY, region_address(&region, 64), 0, 1,
					     &original, NULL),
			 REASON_KEY_PD_MISMATCH);
	assert_int_equal(original, 99);
	assert_untouched();
}

static void each_operation_needs_its_own_right(void **state)
{
	uint64_t start = region_address(&region, 64), original;
	uint8_t bytes[8] = {0};

	(void)state;
	region_remove(&region, slot);
	slot = region_add(&region, KEY, 64, 64, IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(remote_write(&region.access, KEY, start, bytes, 8, NULL),
			 REASON_KEY_NO_REMOTE_WRITE);
	assert_int_equal(remote_read(&region.access, KEY, start, bytes, 8, NULL),
			 REASON_KEY_NO_REMOTE_READ);
	assert_int_equal(remote_fetch_add(&region.access, KEY, start, 1, &original, NULL),
			 REASON_KEY_NO_REMOTE_ATOMIC);
	assert_int_equal(remote_compare_swap(&region.access, KEY, start, 0, 1, &original, NULL),
			 REASON_KEY_NO_REMOTE_ATOMIC);
	assert_untouched();
}

static void no_bytes_need_no_key(void **state)
{
	(void)state;
	assert_int_equal(remote_write(&region.access, 0xdeadbeef, 1, NULL, 0, NULL), REASON_NONE);
	assert_int_equal(remote_read(&region.access, 0xdeadbeef, 1, NULL, 0, NULL), REASON_NONE);
}

static void atomics_answer_with_the_original(void **state)
{
	uint64_t at = region_address(&region, 72), before = word_at(72), original = 0;

	(void)state;
	assert_int_equal(remote_fetch_add(&region.access, KEY, at, 5, &original, NULL),
			 REASON_NONE);
	assert_int_equal(original, before);
	assert_int_equal(word_at(72), before + 5);
	assert_int_equal(remote_compare_swap(&region.access, KEY, at, before, 1, &original, NULL),
			 REASON_NONE);
	assert_int_equal(original, before + 5);
	assert_int_equal(word_at(72), before + 5);
	assert_int_equal(remote_compare_swap(&region.access, KEY, at, before + 5, 1, &original,
					     NULL),
			 REASON_NONE);
	assert_int_equal(word_at(72), 1);
	assert_int_equal(word_at(80), 0x5756555453525150ull);
	assert_true(pin_slot_is_idle(&slot->pin));
}

static void misaligned_atomics_are_refused_after_all_else(void **state)
{
	uint64_t at = region_address(&region, 68), original = 99;
	struct complaint complaint;

	(void)state;
	assert_int_equal(remote_fetch_add(&region.access, KEY, at, 5, &original, &complaint),
			 REASON_ATOMIC_MISALIGNED);
	assert_int_equal(complaint.address, at);
	assert_int_equal(complaint.limit, 8);
	assert_int_equal(remote_compare_swap(&region.access, KEY, at + 1, 5, 1, &original, NULL),
			 REASON_ATOMIC_MISALIGNED);
	assert_int_equal(remote_fetch_add(&region.access, KEY ^ 1, at, 5, &original, NULL),
			 REASON_KEY_UNKNOWN);
	assert_int_equal(remote_fetch_add(&region.access, KEY, region_address(&region, 124), 5,
					  &original, NULL),
			 REASON_KEY_RANGE);
	assert_int_equal(original, 99);
	assert_untouched();
}

/* With an iova of the program's choice each of the two addresses may be the odd one. */
static void both_addresses_of_an_atomic_must_be_aligned(void **state)
{
	struct mr_slot *other;
	uint64_t original;

	(void)state;
	other = region_add_at(&region, IOVA_KEY, 65, 32, ALL_REMOTE, 0x1000);
	assert_int_equal(remote_fetch_add(&region.access, IOVA_KEY, 0x1008, 1, &original, NULL),
			 REASON_ATOMIC_MISALIGNED);
	assert_int_equal(remote_fetch_add(&region.access, IOVA_KEY, 0x1007, 1, &original, NULL),
			 REASON_ATOMIC_MISALIGNED);
	assert_untouched();
	region_remove(&region, other);
	region_add_at(&region, IOVA_KEY, 64, 32, ALL_REMOTE, 0x1000);
	assert_int_equal(remote_fetch_add(&region.access, IOVA_KEY, 0x1008, 1, &original, NULL),
			 REASON_NONE);
	assert_int_equal(original, 0x4f4e4d4c4b4a4948ull);
}

static void missing_memory_is_a_fault(void **state)
{
	uint64_t start = region_address(&region, 64), original = 99;
	struct complaint complaint;
	uint8_t bytes[8] = {0};

	(void)state;
	region.access.copier = &copier_short;
	copier_short_limit = 0;
	assert_int_equal(remote_write(&region.access, KEY, start, bytes, 8, &complaint),
			 REASON_MEMORY_FAULT);
	assert_int_equal(complaint.key, KEY);
	assert_int_equal(complaint.length, 8);
	assert_int_equal(complaint.limit, 0);
	copier_short_limit = 7;
	assert_int_equal(remote_read(&region.access, KEY, start, bytes, 8, &complaint),
			 REASON_MEMORY_FAULT);
	assert_int_equal(complaint.limit, 7);
	assert_int_equal(remote_fetch_add(&region.access, KEY, start, 1, &original, NULL),
			 REASON_MEMORY_FAULT);
	assert_int_equal(remote_compare_swap(&region.access, KEY, start, 1, 2, &original, NULL),
			 REASON_MEMORY_FAULT);
	assert_int_equal(original, 99);
	assert_untouched();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(write_and_read_reach_the_named_bytes_only, set_up),
		cmocka_unit_test_setup(refused_accesses_change_nothing, set_up),
		cmocka_unit_test_setup(each_operation_needs_its_own_right, set_up),
		cmocka_unit_test_setup(no_bytes_need_no_key, set_up),
		cmocka_unit_test_setup(atomics_answer_with_the_original, set_up),
		cmocka_unit_test_setup(misaligned_atomics_are_refused_after_all_else, set_up),
		cmocka_unit_test_setup(both_addresses_of_an_atomic_must_be_aligned, set_up),
		cmocka_unit_test_setup(missing_memory_is_a_fault, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
