/* SPDX-License-Identifier: BSD-2-Clause */
/* Scatter/gather lists as one buffer: all cuts, all checks before the first byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "region.h"

#define KEY 0x00a1b200u
#define OTHER_KEY 0x00a1b300u
#define BAD_KEY 0xdeadbeefu

static struct region region;

static int set_up(void **state)
{
	(void)state;
	region_init(&region);
	region_add(&region, KEY, 0, 128, IBV_ACCESS_LOCAL_WRITE);
	region_add(&region, OTHER_KEY, 128, 128, 0);
	return 0;
}

static struct ibv_sge sge(size_t index, uint32_t length, uint32_t key)
{
	return (struct ibv_sge){region_address(&region, index), length, key};
}

/* Elements out of order, with empty ones whose keys nobody may look at. */
#define LIST_BYTES 44
#define LIST \
	{ \
		sge(500, 0, BAD_KEY), sge(64, 10, KEY), sge(0, 1, KEY), sge(0, 0, BAD_KEY), \
			sge(32, 33, KEY), sge(7, 0, BAD_KEY) \
	}
static const size_t list_start[] = {64, 0, 32};
static const size_t list_length[] = {10, 1, 33};

/* Where byte @offset of the list lies among the region's bytes. */
static size_t list_index(size_t offset)
{
	size_t i = 0;

	while (offset >= list_length[i])
		offset -= list_length[i++];
	return list_start[i] + offset;
}

static void gather_takes_every_cut(void **state)
{
	const struct ibv_sge list[] = LIST;
	uint8_t bytes[LIST_BYTES + 1];
	size_t offset, length, i;

	(void)state;
	for (offset = 0; offset <= LIST_BYTES; offset++) {
		for (length = 0; offset + length <= LIST_BYTES; length++) {
			memset(bytes, 0xee, sizeof(bytes));
			assert_int_equal(sge_gather(&region.access, list, 6, offset, bytes, length,
						    NULL),
					 REASON_NONE);
			for (i = 0; i < length; i++)
				assert_int_equal(bytes[i], list_index(offset + i));
			assert_int_equal(bytes[length], 0xee);
		}
	}
}

static void scatter_fills_every_cut_and_nothing_else(void **state)
{
	const struct ibv_sge list[] = LIST;
	uint8_t bytes[LIST_BYTES], expected[REGION_BYTES];
	size_t offset, length, i;

	(void)state;
	memset(bytes, 0xf7, sizeof(bytes));
	for (offset = 0; offset <= LIST_BYTES; offset++) {
		for (length = 0; offset + length <= LIST_BYTES; length++) {
			for (i = 0; i < REGION_BYTES; i++)
				region.bytes[i] = expected[i] = (uint8_t)i;
			for (i = 0; i < length; i++)
				expected[list_index(offset + i)] = 0xf7;
			assert_int_equal(sge_scatter(&region.access, list, 6, offset, bytes, length,
						     NULL),
					 REASON_NONE);
			assert_memory_equal(region.bytes, expected, REGION_BYTES);
		}
	}
}

static void lists_of_nothing_need_nothing(void **state)
{
	const struct ibv_sge empty = sge(0, 0, BAD_KEY);

	(void)state;
	assert_int_equal(sge_bytes(NULL, 0), 0);
	assert_int_equal(sge_bytes(&empty, 1), 0);
	assert_int_equal(sge_gather(&region.access, NULL, 0, 0, NULL, 0, NULL), REASON_NONE);
	assert_int_equal(sge_scatter(&region.access, &empty, 1, 0, NULL, 0, NULL), REASON_NONE);
	assert_int_equal(sge_check(&region.access, &empty, 1, IBV_ACCESS_LOCAL_WRITE, NULL),
			 REASON_NONE);
}

static void lengths_add_up_beyond_32_bits(void **state)
{
	const struct ibv_sge list[] = {sge(0, UINT32_MAX, KEY), sge(0, UINT32_MAX, KEY)};

	(void)state;
	assert_int_equal(sge_bytes(list, 2), 2ull * UINT32_MAX);
}

static void a_bad_element_stops_the_copy_before_its_first_byte(void **state)
{
	const struct ibv_sge list[] = {sge(0, 8, KEY), sge(8, 8, KEY), sge(120, 9, KEY)};
	uint8_t bytes[25];
	struct complaint complaint;
	size_t i;

	(void)state;
	memset(bytes, 0xf7, sizeof(bytes));
	assert_int_equal(sge_scatter(&region.access, list, 3, 0, bytes, 25, &complaint),
			 REASON_KEY_RANGE);
	for (i = 0; i < REGION_BYTES; i++)
		assert_int_equal(region.bytes[i], i);
	assert_int_equal(complaint.key, KEY);
	assert_int_equal(complaint.address, region_address(&region, 120));
	assert_int_equal(complaint.length, 9);
	assert_int_equal(complaint.limit, 8);
	assert_int_equal(sge_gather(&region.access, list, 3, 0, bytes, 25, NULL), REASON_KEY_RANGE);
	assert_int_equal(bytes[0], 0xf7);
}

static void only_touched_elements_are_checked(void **state)
{
	const struct ibv_sge list[] = {sge(0, 8, BAD_KEY), sge(8, 8, KEY), sge(16, 8, BAD_KEY)};
	uint8_t bytes[8];

	(void)state;
	assert_int_equal(sge_gather(&region.access, list, 3, 8, bytes, 8, NULL), REASON_NONE);
	assert_int_equal(bytes[0], 8);
	assert_int_equal(sge_gather(&region.access, list, 3, 7, bytes, 2, NULL),
			 REASON_KEY_UNKNOWN);
	assert_int_equal(sge_gather(&region.access, list, 3, 15, bytes, 2, NULL),
			 REASON_KEY_UNKNOWN);
}

static void writing_needs_local_write_and_reading_nothing(void **state)
{
	const struct ibv_sge list[] = {sge(8, 8, KEY), sge(128, 8, OTHER_KEY)};
	uint8_t bytes[16];

	(void)state;
	assert_int_equal(sge_gather(&region.access, list, 2, 0, bytes, 16, NULL), REASON_NONE);
	assert_int_equal(sge_scatter(&region.access, list, 2, 0, bytes, 16, NULL),
			 REASON_KEY_NO_LOCAL_WRITE);
	assert_int_equal(sge_check(&region.access, list, 2, 0, NULL), REASON_NONE);
	assert_int_equal(sge_check(&region.access, list, 2, IBV_ACCESS_LOCAL_WRITE, NULL),
			 REASON_KEY_NO_LOCAL_WRITE);
}

static void local_access_respects_the_protection_domain(void **state)
{
	const struct ibv_sge one = sge(8, 8, KEY);
	uint8_t bytes[8] = {0};

	(void)state;
	region.access.pd = REGION_PD + 1;
	assert_int_equal(sge_gather(&region.access, &one, 1, 0, bytes, 8, NULL),
			 REASON_KEY_PD_MISMATCH);
	assert_int_equal(sge_scatter(&region.access, &one, 1, 0, bytes, 8, NULL),
			 REASON_KEY_PD_MISMATCH);
	assert_int_equal(sge_check(&region.access, &one, 1, 0, NULL), REASON_KEY_PD_MISMATCH);
	assert_int_equal(region.bytes[8], 8);
}

static void elements_are_checked_wholly_when_the_list_is(void **state)
{
	const struct ibv_sge list[] = {sge(0, 8, KEY), sge(100, 29, KEY)};

	(void)state;
	assert_int_equal(sge_check(&region.access, list, 1, 0, NULL), REASON_NONE);
	assert_int_equal(sge_check(&region.access, list, 2, 0, NULL), REASON_KEY_RANGE);
}

static void addresses_do_not_wrap(void **state)
{
	struct ibv_sge one = {UINT64_MAX - 3, 64, KEY};
	uint8_t bytes[64];

	(void)state;
	assert_int_equal(sge_gather(&region.access, &one, 1, 0, bytes, 64, NULL), REASON_KEY_RANGE);
	/* The part behind the wrap lies at a small address, which is no region's. */
	assert_int_equal(sge_gather(&region.access, &one, 1, 8, bytes, 8, NULL), REASON_KEY_RANGE);
	one.addr = region_address(&region, 0);
	one.length = UINT32_MAX;
	assert_int_equal(sge_check(&region.access, &one, 1, 0, NULL), REASON_KEY_RANGE);
}

static void local_addresses_are_in_the_space_of_the_region(void **state)
{
	const struct ibv_sge one = {0x1000 + 4, 8, 0x00a1b400u};
	uint8_t bytes[8];

	(void)state;
	region_add_at(&region, 0x00a1b400u, 64, 16, 0, 0x1000);
	assert_int_equal(sge_gather(&region.access, &one, 1, 0, bytes, 8, NULL), REASON_NONE);
	assert_int_equal(bytes[0], 68);
}

static void missing_memory_is_a_fault_with_the_facts(void **state)
{
	const struct ibv_sge list[] = {sge(0, 8, KEY), sge(8, 8, KEY)};
	struct complaint complaint;
	uint8_t bytes[16] = {0};

	(void)state;
	region.access.copier = &copier_short;
	copier_short_limit = 11;
	assert_int_equal(sge_gather(&region.access, list, 2, 0, bytes, 16, &complaint),
			 REASON_MEMORY_FAULT);
	assert_int_equal(complaint.address, region_address(&region, 8));
	assert_int_equal(complaint.length, 8);
	assert_int_equal(complaint.limit, 3);
	copier_short_limit = 16;
	assert_int_equal(sge_scatter(&region.access, list, 2, 0, bytes, 16, NULL), REASON_NONE);
	copier_short_limit = 15;
	assert_int_equal(sge_scatter(&region.access, list, 2, 0, bytes, 16, NULL),
			 REASON_MEMORY_FAULT);
	assert_true(pin_slot_is_idle(&region.slots[(KEY >> 8) % REGION_SLOTS].pin));
}

/* --- holding --- */

#define PIECES_MAX 3

static bool hold(const struct ibv_sge *list, uint32_t list_count, size_t offset, size_t length,
		 uint32_t rights, struct held_piece pieces[PIECES_MAX], uint32_t *count)
{
	*count = PIECES_MAX;
	return sge_hold(&region.access, list, list_count, offset, length, rights, pieces, count);
}

static bool is_idle(uint32_t key)
{
	return pin_slot_is_idle(&region.slots[(key >> 8) % REGION_SLOTS].pin);
}

static void held_pieces_are_where_the_bytes_are(void **state)
{
	const struct ibv_sge list[] = LIST;
	struct held_piece pieces[PIECES_MAX];
	uint32_t count;

	(void)state;
	for (size_t offset = 0; offset < LIST_BYTES; offset++)
		for (size_t length = 1; offset + length <= LIST_BYTES; length++) {
			size_t at = offset;

			assert_true(hold(list, 6, offset, length, 0, pieces, &count));
			assert_false(is_idle(KEY));
			for (uint32_t i = 0; i < count; i++)
				for (size_t byte = 0; byte < pieces[i].length; byte++)
					assert_ptr_equal(pieces[i].host + byte,
							 region.bytes + list_index(at++));
			assert_int_equal(at, offset + length);
			sge_let_go(pieces, count);
			assert_true(is_idle(KEY));
		}
}

static void what_cannot_be_held_wholly_is_not_held(void **state)
{
	const struct mr null_region = {
		.length = 64, .pd = REGION_PD, .access = IBV_ACCESS_LOCAL_WRITE, .kind = MR_NULL};
	const uint32_t null_key = 0x00a1b400u;
	const struct ibv_sge many[] = {sge(0, 1, KEY), sge(1, 1, KEY), sge(2, 1, KEY),
				       sge(3, 1, KEY)};
	const struct ibv_sge bad[] = {sge(0, 1, KEY), sge(1, 1, BAD_KEY)};
	const struct ibv_sge read_only[] = {sge(0, 1, KEY), sge(128, 1, OTHER_KEY)};
	const struct ibv_sge nowhere[] = {sge(0, 1, KEY), {0, 1, null_key}};
	struct held_piece pieces[PIECES_MAX];
	uint32_t count;

	(void)state;
	assert_non_null(memory_register(&region.memory, &null_region, null_key));
	assert_false(hold(many, 4, 0, 4, 0, pieces, &count));
	assert_false(hold(bad, 2, 0, 2, 0, pieces, &count));
	assert_false(hold(read_only, 2, 0, 2, IBV_ACCESS_LOCAL_WRITE, pieces, &count));
	assert_false(hold(nowhere, 2, 0, 2, 0, pieces, &count));
	assert_true(is_idle(KEY) && is_idle(OTHER_KEY) && is_idle(null_key));
	assert_true(hold(many, 4, 1, 3, 0, pieces, &count));
	assert_int_equal(count, 3);
	sge_let_go(pieces, count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(gather_takes_every_cut, set_up),
		cmocka_unit_test_setup(scatter_fills_every_cut_and_nothing_else, set_up),
		cmocka_unit_test_setup(lists_of_nothing_need_nothing, set_up),
		cmocka_unit_test_setup(lengths_add_up_beyond_32_bits, set_up),
		cmocka_unit_test_setup(a_bad_element_stops_the_copy_before_its_first_byte, set_up),
		cmocka_unit_test_setup(only_touched_elements_are_checked, set_up),
		cmocka_unit_test_setup(writing_needs_local_write_and_reading_nothing, set_up),
		cmocka_unit_test_setup(local_access_respects_the_protection_domain, set_up),
		cmocka_unit_test_setup(elements_are_checked_wholly_when_the_list_is, set_up),
		cmocka_unit_test_setup(addresses_do_not_wrap, set_up),
		cmocka_unit_test_setup(local_addresses_are_in_the_space_of_the_region, set_up),
		cmocka_unit_test_setup(missing_memory_is_a_fault_with_the_facts, set_up),
		cmocka_unit_test_setup(held_pieces_are_where_the_bytes_are, set_up),
		cmocka_unit_test_setup(what_cannot_be_held_wholly_is_not_held, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
