/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: who may bind them to what, who gets in through them and for how long, and
 * what happens when several threads change and use them at the same time.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "memory/mr.h"
#include "memory/window.h"
#include "region.h"

#define REGION_KEY 0x12345678u
#define WINDOW_KEY 0x00010100u
#define OTHER_WINDOW_KEY 0x00020200u
#define WRITE IBV_ACCESS_REMOTE_WRITE
#define READ IBV_ACCESS_REMOTE_READ
#define ATOMIC IBV_ACCESS_REMOTE_ATOMIC
#define OWNER 77u

static struct region region;
static struct mr_slot *parent;

static int set_up(void **state)
{
	(void)state;
	region_init(&region);
	region.access.owner = OWNER;
	parent = region_add(&region, REGION_KEY, 0, REGION_BYTES,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	return parent ? 0 : -1;
}

static struct mr_slot *create(enum ibv_mw_type type)
{
	struct mr_slot *window = window_create(&region.memory, type, REGION_PD, WINDOW_KEY);

	assert_non_null(window);
	return window;
}

static void destroy(struct mr_slot *window)
{
	assert_true(window_close(window));
	assert_true(pin_slot_is_idle(&window->pin));
	window_release(&region.memory, window);
}

/* Bytes 16 to 79, all rights; the low byte of the key as given. */
static struct window_bind usual_bind(uint8_t low)
{
	return (struct window_bind){
		.window = WINDOW_KEY,
		.key = WINDOW_KEY | low,
		.region = REGION_KEY,
		.rights = WRITE | READ | ATOMIC,
		.address = region_address(&region, 16),
		.length = 64,
	};
}

static void bind(struct window_bind wanted)
{
	assert_int_equal(window_bind(&region.access, &wanted, NULL), WINDOW_DONE);
}

static void expect_refused(struct window_bind wanted, enum reason reason)
{
	struct complaint complaint = {0};

	assert_int_equal(window_bind(&region.access, &wanted, &complaint), WINDOW_REFUSED);
	assert_int_equal(complaint.reason, reason);
	assert_int_equal(window_bind(&region.access, &wanted, NULL), WINDOW_REFUSED);
}

static enum reason check(uint32_t key, size_t from, uint64_t length, uint32_t rights)
{
	return remote_check(&region.access, key, region_address(&region, from), length, rights,
			    NULL);
}

static void a_window_opens_its_range_with_its_rights(void **state)
{
	struct window_bind narrow = usual_bind(1);
	struct mr_slot *window = create(IBV_MW_TYPE_2);

	(void)state;
	assert_int_equal(check(WINDOW_KEY, 16, 1, READ), REASON_KEY_UNKNOWN);
	narrow.rights = READ;
	bind(narrow);
	/* The region itself lets no peer in. */
	assert_int_equal(check(REGION_KEY, 16, 1, READ), REASON_KEY_NO_REMOTE_READ);
	assert_int_equal(check(WINDOW_KEY | 1, 16, 64, READ), REASON_NONE);
	assert_int_equal(check(WINDOW_KEY | 1, 16, 65, READ), REASON_KEY_RANGE);
	assert_int_equal(check(WINDOW_KEY | 1, 15, 1, READ), REASON_KEY_RANGE);
	assert_int_equal(check(WINDOW_KEY | 1, 80, 1, READ), REASON_KEY_RANGE);
	assert_int_equal(check(WINDOW_KEY | 1, 16, 1, WRITE), REASON_KEY_NO_REMOTE_WRITE);
	assert_int_equal(check(WINDOW_KEY | 1, 16, 8, ATOMIC), REASON_KEY_NO_REMOTE_ATOMIC);
	assert_int_equal(check(WINDOW_KEY, 16, 1, READ), REASON_KEY_UNKNOWN);
	assert_int_equal(check(WINDOW_KEY | 2, 16, 1, READ), REASON_KEY_UNKNOWN);
	destroy(window);
	assert_int_equal(check(WINDOW_KEY | 1, 16, 1, READ), REASON_KEY_UNKNOWN);
	assert_int_equal(atomic_load(&parent->window_count), 0);
}

static void bytes_move_where_the_window_lies(void **state)
{
	struct window_bind zero_based = usual_bind(9);
	struct mr_slot *window = create(IBV_MW_TYPE_1);
	uint8_t bytes[4] = {0xa, 0xb, 0xc, 0xd};
	uint64_t original = 0;

	(void)state;
	bind(usual_bind(8));
	assert_int_equal(remote_write(&region.access, WINDOW_KEY | 8, region_address(&region, 20),
				      bytes, 4, NULL),
			 REASON_NONE);
	assert_memory_equal(region.bytes + 20, bytes, 4);
	zero_based.rights |= IBV_ACCESS_ZERO_BASED;
	bind(zero_based);
	assert_int_equal(remote_read(&region.access, WINDOW_KEY | 9, 4, bytes, 2, NULL),
			 REASON_NONE);
	assert_int_equal(bytes[0], 0xa);
	assert_int_equal(remote_fetch_add(&region.access, WINDOW_KEY | 9, 8, 1, &original, NULL),
			 REASON_NONE);
	assert_int_equal(region.bytes[24], 25);
	assert_int_equal(remote_read(&region.access, WINDOW_KEY | 9, 63, bytes, 2, NULL),
			 REASON_KEY_RANGE);
	destroy(window);
}

static void a_window_is_no_local_key(void **state)
{
	struct ibv_sge sge = {region_address(&region, 16), 8, WINDOW_KEY | 1};
	uint8_t bytes[8] = {0};

	(void)state;
	create(IBV_MW_TYPE_2);
	bind(usual_bind(1));
	assert_int_equal(sge_gather(&region.access, &sge, 1, 0, bytes, 8, NULL),
			 REASON_KEY_UNKNOWN);
	assert_int_equal(sge_scatter(&region.access, &sge, 1, 0, bytes, 8, NULL),
			 REASON_KEY_UNKNOWN);
	assert_int_equal(region.bytes[16], 16);
}

static void each_broken_rule_of_a_bind_is_told(void **state)
{
	struct window_bind wrong;

	(void)state;
	create(IBV_MW_TYPE_2);
	region_add(&region, 0x33300u, 0, 64, IBV_ACCESS_LOCAL_WRITE);
	region_add(&region, 0x44400u, 0, 64, IBV_ACCESS_MW_BIND);
	wrong = usual_bind(1);
	wrong.window ^= 0x10000000;
	expect_refused(wrong, REASON_WINDOW_UNKNOWN);
	wrong = usual_bind(1);
	wrong.window = REGION_KEY;
	expect_refused(wrong, REASON_WINDOW_UNKNOWN);
	wrong = usual_bind(1);
	wrong.key ^= 0x100;
	expect_refused(wrong, REASON_WINDOW_KEY);
	wrong = usual_bind(1);
	wrong.length = 0;
	expect_refused(wrong, REASON_CALL_INVALID);
	wrong = usual_bind(1);
	wrong.region = REGION_KEY ^ 1;
	expect_refused(wrong, REASON_KEY_UNKNOWN);
	wrong.region = 0x33300u;
	expect_refused(wrong, REASON_KEY_NO_BIND);
	wrong.region = 0x44400u;
	expect_refused(wrong, REASON_KEY_NO_LOCAL_WRITE);
	wrong.rights = READ;
	wrong.length = 49;
	expect_refused(wrong, REASON_KEY_RANGE);
	wrong.address = UINT64_MAX - 3;
	wrong.length = 8;
	expect_refused(wrong, REASON_KEY_RANGE);
	wrong.address = region_address(&region, 0) + 8;
	wrong.length = UINT64_MAX;
	expect_refused(wrong, REASON_KEY_RANGE);
	region.access.pd++;
	expect_refused(usual_bind(1), REASON_WINDOW_UNKNOWN);
	region.access.pd--;
	parent->mr.pd++;
	expect_refused(usual_bind(1), REASON_KEY_PD_MISMATCH);
	parent->mr.pd--;
	assert_int_equal(atomic_load(&parent->window_count), 0);
	assert_true(pin_slot_is_idle(&parent->pin));
	/* After all of that it still works. */
	bind(usual_bind(1));
	expect_refused(usual_bind(2), REASON_WINDOW_BOUND);
	assert_int_equal(check(WINDOW_KEY | 1, 16, 64, WRITE), REASON_NONE);
}

static void a_window_is_no_region_to_bind_to(void **state)
{
	struct window_bind nested = usual_bind(1);

	(void)state;
	create(IBV_MW_TYPE_2);
	bind(usual_bind(1));
	assert_non_null(window_create(&region.memory, IBV_MW_TYPE_2, REGION_PD, OTHER_WINDOW_KEY));
	nested.window = nested.key = OTHER_WINDOW_KEY;
	nested.region = WINDOW_KEY | 1;
	expect_refused(nested, REASON_KEY_NO_BIND);
}

static void type_2_serves_its_qp_alone(void **state)
{
	struct complaint complaint = {0};

	(void)state;
	create(IBV_MW_TYPE_2);
	bind(usual_bind(1));
	region.access.owner = OWNER + 1;
	assert_int_equal(check(WINDOW_KEY | 1, 16, 1, READ), REASON_WINDOW_OTHER_QP);
	assert_int_equal(window_invalidate(&region.access, WINDOW_KEY | 1, &complaint),
			 REASON_INVALIDATE_REFUSED);
	assert_int_equal(complaint.key, WINDOW_KEY | 1);
	region.access.owner = OWNER;
	assert_int_equal(check(WINDOW_KEY | 1, 16, 1, READ), REASON_NONE);
}

static void type_1_serves_the_protection_domain(void **state)
{
	(void)state;
	create(IBV_MW_TYPE_1);
	bind(usual_bind(1));
	region.access.owner = OWNER + 1;
	assert_int_equal(check(WINDOW_KEY | 1, 16, 1, READ), REASON_NONE);
	region.access.pd++;
	assert_int_equal(check(WINDOW_KEY | 1, 16, 1, READ), REASON_KEY_PD_MISMATCH);
}

static void type_1_is_bound_over_and_unbound(void **state)
{
	struct window_bind none = {.window = WINDOW_KEY, .key = WINDOW_KEY | 3};

	(void)state;
	create(IBV_MW_TYPE_1);
	bind(usual_bind(1));
	bind(usual_bind(2));
	assert_int_equal(check(WINDOW_KEY | 1, 16, 1, READ), REASON_KEY_UNKNOWN);
	assert_int_equal(check(WINDOW_KEY | 2, 16, 1, READ), REASON_NONE);
	assert_int_equal(atomic_load(&parent->window_count), 1);
	assert_int_equal(window_invalidate(&region.access, WINDOW_KEY | 2, NULL),
			 REASON_INVALIDATE_REFUSED);
	bind(none);
	assert_int_equal(check(WINDOW_KEY | 2, 16, 1, READ), REASON_KEY_UNKNOWN);
	assert_int_equal(check(WINDOW_KEY | 3, 16, 1, READ), REASON_KEY_UNKNOWN);
	assert_int_equal(atomic_load(&parent->window_count), 0);
	bind(none);
	bind(usual_bind(4));
	assert_int_equal(check(WINDOW_KEY | 4, 16, 1, READ), REASON_NONE);
}

static void a_refused_bind_leaves_the_old_one(void **state)
{
	struct window_bind wrong = usual_bind(2);

	(void)state;
	create(IBV_MW_TYPE_1);
	bind(usual_bind(1));
	wrong.length = 4096;
	expect_refused(wrong, REASON_KEY_RANGE);
	assert_int_equal(check(WINDOW_KEY | 1, 16, 1, READ), REASON_NONE);
	assert_int_equal(atomic_load(&parent->window_count), 1);
}

static void invalidated_once(void **state)
{
	(void)state;
	create(IBV_MW_TYPE_2);
	assert_int_equal(window_invalidate(&region.access, WINDOW_KEY, NULL),
			 REASON_INVALIDATE_REFUSED);
	bind(usual_bind(1));
	assert_int_equal(window_invalidate(&region.access, WINDOW_KEY, NULL),
			 REASON_INVALIDATE_REFUSED);
	assert_int_equal(window_check_invalidate(&region.access, WINDOW_KEY | 1, NULL),
			 REASON_NONE);
	assert_int_equal(window_invalidate(&region.access, WINDOW_KEY | 1, NULL), REASON_NONE);
	assert_int_equal(check(WINDOW_KEY | 1, 16, 1, READ), REASON_KEY_UNKNOWN);
	assert_int_equal(window_invalidate(&region.access, WINDOW_KEY | 1, NULL),
			 REASON_INVALIDATE_REFUSED);
	assert_int_equal(window_check_invalidate(&region.access, WINDOW_KEY | 1, NULL),
			 REASON_INVALIDATE_REFUSED);
	assert_int_equal(atomic_load(&parent->window_count), 0);
	bind(usual_bind(1));
	assert_int_equal(check(WINDOW_KEY | 1, 16, 1, READ), REASON_NONE);
}

static void a_region_is_not_invalidated(void **state)
{
	(void)state;
	assert_int_equal(window_invalidate(&region.access, REGION_KEY, NULL),
			 REASON_INVALIDATE_REFUSED);
	assert_int_equal(window_invalidate(&region.access, PIN_NUMBER_RETIRED, NULL),
			 REASON_INVALIDATE_REFUSED);
	assert_int_equal(window_invalidate(&region.access, PIN_NUMBER_EMPTY, NULL),
			 REASON_INVALIDATE_REFUSED);
	assert_non_null(pin_table_pin(&region.memory.keys, REGION_KEY));
}

static void a_bind_waits_for_accesses_and_shuts_others_out(void **state)
{
	struct window_bind again = usual_bind(2);
	struct pin_slot *held;

	(void)state;
	create(IBV_MW_TYPE_1);
	bind(usual_bind(1));
	held = pin_table_pin(&region.memory.keys, WINDOW_KEY | 1);
	assert_non_null(held);
	assert_int_equal(window_bind(&region.access, &again, NULL), WINDOW_IN_USE);
	assert_int_equal(check(WINDOW_KEY | 1, 16, 1, READ), REASON_KEY_UNKNOWN);
	assert_int_equal(check(WINDOW_KEY | 2, 16, 1, READ), REASON_KEY_UNKNOWN);
	/* The access under way still has its region. */
	assert_int_equal(atomic_load(&parent->window_count), 1);
	assert_int_equal(window_bind(&region.access, &again, NULL), WINDOW_IN_USE);
	pin_slot_unpin(held);
	bind(again);
	assert_int_equal(check(WINDOW_KEY | 2, 16, 1, READ), REASON_NONE);
	assert_int_equal(atomic_load(&parent->window_count), 1);
}

static void a_closed_window_is_out_of_reach(void **state)
{
	struct mr_slot *window = create(IBV_MW_TYPE_2);
	struct window_bind wanted = usual_bind(1);

	(void)state;
	bind(wanted);
	assert_true(window_close(window));
	assert_false(window_close(window));
	assert_int_equal(window_bind(&region.access, &wanted, NULL), WINDOW_IN_USE);
	assert_int_equal(window_invalidate(&region.access, WINDOW_KEY | 1, NULL),
			 REASON_INVALIDATE_REFUSED);
	window_release(&region.memory, window);
	expect_refused(wanted, REASON_WINDOW_UNKNOWN);
	/* The slot is anybody's now. */
	assert_non_null(region_add(&region, WINDOW_KEY | 1, 0, 8, READ));
	expect_refused(wanted, REASON_WINDOW_UNKNOWN);
	assert_int_equal(window_invalidate(&region.access, WINDOW_KEY | 1, NULL),
			 REASON_INVALIDATE_REFUSED);
	assert_int_equal(check(WINDOW_KEY | 1, 0, 8, READ), REASON_NONE);
}

static void every_low_byte_of_a_window_is_a_key(void **state)
{
	(void)state;
	assert_null(window_create(&region.memory, IBV_MW_TYPE_2, REGION_PD, 0x00000012));
	assert_null(window_create(&region.memory, IBV_MW_TYPE_2, REGION_PD, 0xffffff12));
	create(IBV_MW_TYPE_2);
	for (uint32_t low = 0; low < 256; low++) {
		bind(usual_bind((uint8_t)low));
		assert_int_equal(check(WINDOW_KEY | low, 16, 1, READ), REASON_NONE);
		assert_int_equal(window_invalidate(&region.access, WINDOW_KEY | low, NULL),
				 REASON_NONE);
	}
}

/* --- null regions --- */

static void a_null_region_swallows_and_gives_zeros(void **state)
{
	const struct mr null = {.length = UINT64_MAX,
				.pd = REGION_PD,
				.access = IBV_ACCESS_LOCAL_WRITE,
				.kind = MR_NULL};
	struct ibv_sge list[2] = {{UINT64_MAX - 64, 16, OTHER_WINDOW_KEY},
				  {region_address(&region, 8), 8, REGION_KEY}};
	uint8_t bytes[24];

	(void)state;
	memset(bytes, 0xee, sizeof(bytes));
	assert_non_null(memory_register(&region.memory, &null, OTHER_WINDOW_KEY));
	assert_int_equal(sge_scatter(&region.access, list, 2, 0, bytes, 24, NULL), REASON_NONE);
	assert_int_equal(region.bytes[8], 0xee);
	assert_int_equal(sge_gather(&region.access, list, 2, 0, bytes, 24, NULL), REASON_NONE);
	for (int i = 0; i < 16; i++)
		assert_int_equal(bytes[i], 0);
	assert_int_equal(bytes[16], 0xee);
	assert_int_equal(remote_check(&region.access, OTHER_WINDOW_KEY, 0, 1, READ, NULL),
			 REASON_KEY_NO_REMOTE_READ);
	assert_int_equal(remote_check(&region.access, OTHER_WINDOW_KEY, 0, 1, WRITE, NULL),
			 REASON_KEY_NO_REMOTE_WRITE);
}

/* --- threads --- */

#define ROUNDS 20000

static _Atomic bool has_ended;

/* What came in between is refused; what is let in sees the range of one bind, never a mixture. */
static void *use(void *unused)
{
	struct access access = region.access;

	(void)unused;
	while (!atomic_load(&has_ended)) {
		for (uint32_t low = 0; low < 256; low++) {
			uint8_t byte = 0;
			enum reason reason = remote_read(&access, WINDOW_KEY | low,
							 region_address(&region, low % 128), &byte,
							 1, NULL);

			if (reason == REASON_NONE)
				VBN_ASSERT(byte == low % 128);
			else
				VBN_ASSERT(reason == REASON_KEY_UNKNOWN);
		}
	}
	return NULL;
}

/* Each bind opens the one byte that its key names. */
static void *bind_over_and_over(void *seed)
{
	struct access access = region.access;
	uint32_t low = (uint32_t)(uintptr_t)seed;

	for (int i = 0; i < ROUNDS; i++) {
		struct window_bind wanted = usual_bind((uint8_t)low);
		enum window_outcome outcome;

		wanted.address = region_address(&region, (low & 0xff) % 128);
		wanted.length = 1;
		do
			outcome = window_bind(&access, &wanted, NULL);
		while (outcome == WINDOW_IN_USE);
		VBN_ASSERT(outcome == WINDOW_DONE);
		low += 37;
	}
	return NULL;
}

static void binds_and_accesses_race(void **state)
{
	struct mr_slot *window = create(IBV_MW_TYPE_1);
	pthread_t users[2], binders[2];

	(void)state;
	for (size_t i = 0; i < REGION_BYTES; i++)
		region.bytes[i] = (uint8_t)i;
	atomic_store(&has_ended, false);
	for (uintptr_t i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&users[i], NULL, use, NULL), 0);
		assert_int_equal(pthread_create(&binders[i], NULL, bind_over_and_over,
						(void *)(i * 101)),
				 0);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(binders[i], NULL);
	atomic_store(&has_ended, true);
	for (int i = 0; i < 2; i++)
		pthread_join(users[i], NULL);
	assert_int_equal(atomic_load(&parent->window_count), 1);
	destroy(window);
	assert_int_equal(atomic_load(&parent->window_count), 0);
	assert_true(pin_slot_is_idle(&parent->pin));
}

/* A stranger asks all the time for the invalidation of a window that its owner frees. */
static void *invalidate_as_a_stranger(void *unused)
{
	struct access access = region.access;

	(void)unused;
	access.owner = OWNER + 1;
	while (!atomic_load(&has_ended))
		for (uint32_t low = 0; low < 8; low++)
			VBN_ASSERT(window_invalidate(&access, WINDOW_KEY | low, NULL) ==
				   REASON_INVALIDATE_REFUSED);
	return NULL;
}

static void strangers_are_not_in_the_owners_way(void **state)
{
	struct mr_slot *window = create(IBV_MW_TYPE_2);
	pthread_t stranger;

	(void)state;
	atomic_store(&has_ended, false);
	assert_int_equal(pthread_create(&stranger, NULL, invalidate_as_a_stranger, NULL), 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct window_bind wanted = usual_bind(i % 8);
		enum window_outcome outcome;

		do
			outcome = window_bind(&region.access, &wanted, NULL);
		while (outcome == WINDOW_IN_USE);
		assert_int_equal(outcome, WINDOW_DONE);
		assert_int_equal(window_invalidate(&region.access, wanted.key, NULL), REASON_NONE);
	}
	atomic_store(&has_ended, true);
	pthread_join(stranger, NULL);
	destroy(window);
}

static _Atomic bool is_registered;

/* As the engine does: retired, waited for, and given up only where no window is bound. */
static void *register_and_deregister(void *unused)
{
	(void)unused;
	while (!atomic_load(&has_ended)) {
		pin_slot_retire(&parent->pin);
		while (!pin_slot_is_idle(&parent->pin))
			sched_yield();
		if (atomic_load(&parent->window_count)) {
			pin_slot_publish(&parent->pin, REGION_KEY);
			continue;
		}
		atomic_store(&is_registered, false);
		parent->mr.length = 0;
		parent->mr.length = REGION_BYTES;
		atomic_store(&is_registered, true);
		pin_slot_publish(&parent->pin, REGION_KEY);
	}
	return NULL;
}

static void no_region_goes_under_a_window(void **state)
{
	struct mr_slot *window = create(IBV_MW_TYPE_2);
	struct complaint complaint;
	uint32_t bound = 0;
	pthread_t thread;

	(void)state;
	atomic_store(&has_ended, false);
	atomic_store(&is_registered, true);
	assert_int_equal(pthread_create(&thread, NULL, register_and_deregister, NULL), 0);
	for (uint32_t i = 0; i < ROUNDS || !bound; i++) {
		struct window_bind wanted = usual_bind((uint8_t)i);

		if (window_bind(&region.access, &wanted, &complaint) != WINDOW_DONE) {
			assert_int_equal(complaint.reason, REASON_KEY_UNKNOWN);
			continue;
		}
		bound++;
		assert_true(atomic_load(&is_registered));
		assert_int_equal(check(wanted.key, 16, 64, READ), REASON_NONE);
		assert_true(atomic_load(&is_registered));
		assert_int_equal(window_invalidate(&region.access, wanted.key, NULL), REASON_NONE);
	}
	atomic_store(&has_ended, true);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&parent->window_count), 0);
	destroy(window);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_window_opens_its_range_with_its_rights),
		TEST(bytes_move_where_the_window_lies),
		TEST(a_window_is_no_local_key),
		TEST(each_broken_rule_of_a_bind_is_told),
		TEST(a_window_is_no_region_to_bind_to),
		TEST(type_2_serves_its_qp_alone),
		TEST(type_1_serves_the_protection_domain),
		TEST(type_1_is_bound_over_and_unbound),
		TEST(a_refused_bind_leaves_the_old_one),
		TEST(invalidated_once),
		TEST(a_region_is_not_invalidated),
		TEST(a_bind_waits_for_accesses_and_shuts_others_out),
		TEST(a_closed_window_is_out_of_reach),
		TEST(every_low_byte_of_a_window_is_a_key),
		TEST(a_null_region_swallows_and_gives_zeros),
		TEST(binds_and_accesses_race),
		TEST(strangers_are_not_in_the_owners_way),
		TEST(no_region_goes_under_a_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
