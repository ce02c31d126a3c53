/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/byte_order.h"

static const uint8_t golden[] = {0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0xf8};

static void loads_have_the_first_byte_on_top(void **state)
{
	(void)state;
	assert_int_equal(load_be16(golden), 0x8192);
	assert_int_equal(load_be24(golden), 0x8192a3);
	assert_true(load_be32(golden) == 0x8192a3b4);
	assert_true(load_be64(golden) == 0x8192a3b4c5d6e7f8);
}

/* At every alignment, with the bytes around it untouched. */
static void stores_write_their_bytes_and_no_others(void **state)
{
	(void)state;
	for (unsigned at = 1; at < 9; at++) {
		uint8_t bytes[18];

#define CHECK(bits, count) \
	memset(bytes, 0x5a, sizeof(bytes)); \
	store_be##bits(bytes + at, load_be##bits(golden)); \
	assert_memory_equal(bytes + at, golden, count); \
	assert_int_equal(bytes[at - 1], 0x5a); \
	assert_int_equal(bytes[at + (count)], 0x5a); \
	assert_true(load_be##bits(bytes + at) == load_be##bits(golden))
		CHECK(16, 2);
		CHECK(24, 3);
		CHECK(32, 4);
		CHECK(64, 8);
#undef CHECK
	}
}

static void a_24_bit_store_drops_the_rest(void **state)
{
	uint8_t bytes[4] = {0};

	(void)state;
	store_be24(bytes, 0xff010203);
	assert_memory_equal(bytes, "\x01\x02\x03\x00", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loads_have_the_first_byte_on_top),
		cmocka_unit_test(stores_write_their_bytes_and_no_others),
		cmocka_unit_test(a_24_bit_store_drops_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
