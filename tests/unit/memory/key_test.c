/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys, and the checks that every access passes, tried through remote_check(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "region.h"

#define KEY 0x12345678u
#define WRITE IBV_ACCESS_REMOTE_WRITE
#define READ IBV_ACCESS_REMOTE_READ
#define ATOMIC IBV_ACCESS_REMOTE_ATOMIC

static struct region region;

static int set_up(void **state)
{
	(void)state;
	region_init(&region);
	return 0;
}

static enum reason check(uint32_t key, uint64_t iova, uint64_t length, uint32_t rights)
{
	return remote_check(&region.access, key, iova, length, rights, NULL);
}

static void a_key_is_known_from_registration_to_removal(void **state)
{
	struct mr_slot *slot;
	uint64_t start = region_address(&region, 0);

	(void)state;
	assert_int_equal(check(KEY, start, 1, READ), REASON_KEY_UNKNOWN);
	slot = region_add(&region, KEY, 0, REGION_BYTES, READ);
	assert_non_null(slot);
	assert_int_equal(check(KEY, start, REGION_BYTES, READ), REASON_NONE);
	/* Same slot, other low byte: a guess that is nearly right. */
	assert_int_equal(check(KEY ^ 1, start, 1, READ), REASON_KEY_UNKNOWN);
	assert_int_equal(check(KEY ^ 0x80000000u, start, 1, READ), REASON_KEY_UNKNOWN);
	region_remove(&region, slot);
	assert_int_equal(check(KEY, start, 1, READ), REASON_KEY_UNKNOWN);
}

static void the_two_reserved_numbers_are_no_keys(void **state)
{
	(void)state;
	assert_null(region_add(&region, PIN_NUMBER_EMPTY, 0, 8, READ));
	assert_null(region_add(&region, PIN_NUMBER_RETIRED, 0, 8, READ));
	assert_int_equal(check(PIN_NUMBER_EMPTY, 0, 1, READ), REASON_KEY_UNKNOWN);
	assert_int_equal(check(PIN_NUMBER_RETIRED, 0, 1, READ), REASON_KEY_UNKNOWN);
}

static void a_taken_slot_and_a_full_table_answer_null(void **state)
{
	uint32_t i;

	(void)state;
	assert_non_null(region_add(&region, KEY, 0, 8, READ));
	assert_null(region_add(&region, KEY, 0, 8, READ));
	assert_null(region_add(&region, KEY ^ 0xff, 0, 8, READ));
	assert_false(pin_table_is_full(&region.memory.keys));
	for (i = 1; i < REGION_SLOTS / 2; i++)
		assert_non_null(region_add(&region, KEY + (i << MEMORY_KEY_FREE_BITS), 0, 8, READ));
	assert_true(pin_table_is_full(&region.memory.keys));
	assert_null(region_add(&region, KEY + (i << MEMORY_KEY_FREE_BITS), 0, 8, READ));
}

static void a_retired_key_is_refused_while_an_access_still_holds_it(void **state)
{
	struct mr_slot *slot = region_add(&region, KEY, 0, 8, READ);
	struct pin_slot *held = pin_table_pin(&region.memory.keys, KEY);

	(void)state;
	assert_ptr_equal(held, &slot->pin);
	pin_slot_retire(&slot->pin);
	assert_false(pin_slot_is_idle(&slot->pin));
	assert_int_equal(check(KEY, region_address(&region, 0), 1, READ), REASON_KEY_UNKNOWN);
	pin_slot_unpin(held);
	assert_true(pin_slot_is_idle(&slot->pin));
}

static void checks_leave_nothing_held(void **state)
{
	struct mr_slot *slot = region_add(&region, KEY, 0, 8, READ);
	uint64_t start = region_address(&region, 0);

	(void)state;
	check(KEY, start, 8, READ);
	check(KEY, start, 9, READ);
	check(KEY, start, 8, WRITE);
	region.access.pd++;
	check(KEY, start, 8, READ);
	assert_true(pin_slot_is_idle(&slot->pin));
}

static void each_right_has_its_reason(void **state)
{
	static const struct {
		uint32_t right;
		enum reason reason;
	} cases[] = {
		{WRITE, REASON_KEY_NO_REMOTE_WRITE},
		{READ, REASON_KEY_NO_REMOTE_READ},
		{ATOMIC, REASON_KEY_NO_REMOTE_ATOMIC},
		{IBV_ACCESS_LOCAL_WRITE, REASON_KEY_NO_LOCAL_WRITE},
	};
	const uint32_t all = WRITE | READ | ATOMIC | IBV_ACCESS_LOCAL_WRITE;
	uint64_t start = region_address(&region, 0);
	struct mr_slot *slot;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		slot = region_add(&region, KEY, 0, 8, all & ~cases[i].right);
		assert_int_equal(check(KEY, start, 8, cases[i].right), cases[i].reason);
		region_remove(&region, slot);
		slot = region_add(&region, KEY, 0, 8, cases[i].right);
		assert_int_equal(check(KEY, start, 8, cases[i].right), REASON_NONE);
		region_remove(&region, slot);
	}
}

static void the_first_broken_rule_is_the_reason(void **state)
{
	uint64_t outside = region_address(&region, REGION_BYTES);

	(void)state;
	region_add(&region, KEY, 0, 8, READ);
	region.access.pd = REGION_PD + 1;
	assert_int_equal(check(KEY ^ 1, outside, 8, WRITE), REASON_KEY_UNKNOWN);
	assert_int_equal(check(KEY, outside, 8, WRITE), REASON_KEY_PD_MISMATCH);
	region.access.pd = REGION_PD;
	assert_int_equal(check(KEY, outside, 8, WRITE), REASON_KEY_NO_REMOTE_WRITE);
	assert_int_equal(check(KEY, outside, 8, READ), REASON_KEY_RANGE);
}

static void ranges_end_where_the_region_ends(void **state)
{
	uint64_t start = region_address(&region, 16);

	(void)state;
	region_add(&region, KEY, 16, 32, READ);
	assert_int_equal(check(KEY, start, 32, READ), REASON_NONE);
	assert_int_equal(check(KEY, start + 31, 1, READ), REASON_NONE);
	assert_int_equal(check(KEY, start, 33, READ), REASON_KEY_RANGE);
	assert_int_equal(check(KEY, start + 31, 2, READ), REASON_KEY_RANGE);
	assert_int_equal(check(KEY, start + 32, 1, READ), REASON_KEY_RANGE);
	assert_int_equal(check(KEY, start - 1, 2, READ), REASON_KEY_RANGE);
	assert_int_equal(check(KEY, start - 1, 1, READ), REASON_KEY_RANGE);
}

static void ranges_do_not_wrap(void **state)
{
	uint64_t start = region_address(&region, 16);

	(void)state;
	region_add(&region, KEY, 16, 32, READ);
	assert_int_equal(check(KEY, start, UINT64_MAX, READ), REASON_KEY_RANGE);
	assert_int_equal(check(KEY, start + 8, 0 - (start + 8), READ), REASON_KEY_RANGE);
	/* Ends inside the region after having gone round. */
	assert_int_equal(check(KEY, start + 8, UINT64_MAX - 3, READ), REASON_KEY_RANGE);
	assert_int_equal(check(KEY, UINT64_MAX, start + 9, READ), REASON_KEY_RANGE);
	assert_int_equal(check(KEY, UINT64_MAX, 1, READ), REASON_KEY_RANGE);
	assert_int_equal(check(KEY, 0, 1, READ), REASON_KEY_RANGE);
}

static void a_region_may_lie_at_either_end_of_the_address_space(void **state)
{
	(void)state;
	region_add_at(&region, KEY, 0, 16, READ, UINT64_MAX - 15);
	assert_int_equal(check(KEY, UINT64_MAX - 15, 16, READ), REASON_NONE);
	assert_int_equal(check(KEY, UINT64_MAX, 1, READ), REASON_NONE);
	assert_int_equal(check(KEY, UINT64_MAX, 2, READ), REASON_KEY_RANGE);
	assert_int_equal(check(KEY, 0, 1, READ), REASON_KEY_RANGE);
	region_add_at(&region, KEY + 0x100, 0, 16, READ, 0);
	assert_int_equal(check(KEY + 0x100, 0, 16, READ), REASON_NONE);
	assert_int_equal(check(KEY + 0x100, UINT64_MAX, 1, READ), REASON_KEY_RANGE);
	assert_int_equal(check(KEY + 0x100, UINT64_MAX, 2, READ), REASON_KEY_RANGE);
}

static void an_empty_region_allows_nothing(void **state)
{
	(void)state;
	assert_non_null(region_add(&region, KEY, 0, 0, READ));
	assert_int_equal(check(KEY, region_address(&region, 0), 1, READ), REASON_KEY_RANGE);
	assert_int_equal(check(KEY, region_address(&region, 0), 0, READ), REASON_NONE);
}

static void nothing_is_checked_for_no_bytes(void **state)
{
	(void)state;
	assert_int_equal(check(0xdeadbeef, 1, 0, WRITE), REASON_NONE);
}

static void complaints_carry_the_facts(void **state)
{
	struct complaint complaint = {.reason = REASON_COUNT};
	uint64_t start = region_address(&region, 16);

	(void)state;
	region_add(&region, KEY, 16, 32, READ);
	assert_int_equal(remote_check(&region.access, KEY, start, 32, READ, &complaint),
			 REASON_NONE);
	assert_int_equal(complaint.reason, REASON_COUNT);
	assert_int_equal(remote_check(&region.access, KEY, start + 30, 5, READ, &complaint),
			 REASON_KEY_RANGE);
	assert_int_equal(complaint.reason, REASON_KEY_RANGE);
	assert_int_equal(complaint.key, KEY);
	assert_int_equal(complaint.address, start + 30);
	assert_int_equal(complaint.length, 5);
	assert_int_equal(complaint.limit, 2);
	remote_check(&region.access, KEY, start - 1, 5, READ, &complaint);
	assert_int_equal(complaint.limit, 0);
	remote_check(&region.access, KEY ^ 1, start, 5, READ, &complaint);
	assert_int_equal(complaint.reason, REASON_KEY_UNKNOWN);
	assert_int_equal(complaint.key, KEY ^ 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_key_is_known_from_registration_to_removal, set_up),
		cmocka_unit_test_setup(the_two_reserved_numbers_are_no_keys, set_up),
		cmocka_unit_test_setup(a_taken_slot_and_a_full_table_answer_null, set_up),
		cmocka_unit_test_setup(a_retired_key_is_refused_while_an_access_still_holds_it,
				       set_up),
		cmocka_unit_test_setup(checks_leave_nothing_held, set_up),
		cmocka_unit_test_setup(each_right_has_its_reason, set_up),
		cmocka_unit_test_setup(the_first_broken_rule_is_the_reason, set_up),
		cmocka_unit_test_setup(ranges_end_where_the_region_ends, set_up),
		cmocka_unit_test_setup(ranges_do_not_wrap, set_up),
		cmocka_unit_test_setup(a_region_may_lie_at_either_end_of_the_address_space, set_up),
		cmocka_unit_test_setup(an_empty_region_allows_nothing, set_up),
		cmocka_unit_test_setup(nothing_is_checked_for_no_bytes, set_up),
		cmocka_unit_test_setup(complaints_carry_the_facts, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
