/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/mad.h"

static const struct mad_header sample = {
	.base_version = 1,
	.mgmt_class = 0x32,
	.class_version = 1,
	.method = MAD_METHOD_GET,
	.status = 0x1234,
	.class_specific = 0x5678,
	.transaction = 0x0102030405060708,
	.attribute = 0x9abc,
	.modifier = 0xdef01234,
};

static void every_field_has_its_place(void **state)
{
	static const uint8_t expected[MAD_HEADER_BYTES] = {
		1, 0x32, 1, 1, 0x12, 0x34, 0x56, 0x78, 1,    2,	   3,	 4,
		5, 6,	 7, 8, 0x9a, 0xbc, 0,	 0,    0xde, 0xf0, 0x12, 0x34,
	};
	uint8_t bytes[MAD_BYTES];
	struct mad_header again;

	(void)state;
	memset(bytes, 0xee, sizeof(bytes));
	mad_emit(&sample, bytes);
	assert_memory_equal(bytes, expected, sizeof(expected));
	assert_int_equal(bytes[MAD_HEADER_BYTES], 0xee);
	assert_int_equal(mad_parse(bytes, sizeof(bytes), &again), REASON_NONE);
	assert_int_equal(again.base_version, sample.base_version);
	assert_int_equal(again.mgmt_class, sample.mgmt_class);
	assert_int_equal(again.class_version, sample.class_version);
	assert_int_equal(again.method, sample.method);
	assert_int_equal(again.status, sample.status);
	assert_int_equal(again.class_specific, sample.class_specific);
	assert_int_equal(again.transaction, sample.transaction);
	assert_int_equal(again.attribute, sample.attribute);
	assert_int_equal(again.modifier, sample.modifier);
}

static void only_256_bytes_of_version_1_are_one(void **state)
{
	uint8_t bytes[MAD_BYTES + 4] = {0};
	struct mad_header header;

	(void)state;
	mad_emit(&sample, bytes);
	assert_int_equal(mad_parse(bytes, 0, &header), REASON_DROP_MAD_LENGTH);
	assert_int_equal(mad_parse(bytes, MAD_BYTES - 4, &header), REASON_DROP_MAD_LENGTH);
	assert_int_equal(mad_parse(bytes, MAD_BYTES + 4, &header), REASON_DROP_MAD_LENGTH);
	bytes[0] = 2;
	assert_int_equal(mad_parse(bytes, MAD_BYTES, &header), REASON_DROP_MAD_VERSION);
	assert_int_equal(header.mgmt_class, 0x32);
}

static void refusal_of(uint8_t method, bool is_answered)
{
	struct mad_header header = sample;
	uint8_t bytes[MAD_BYTES], answer[MAD_BYTES];

	memset(bytes, 0x5a, sizeof(bytes));
	header.method = method;
	header.status = 0;
	mad_emit(&header, bytes);
	assert_int_equal(mad_refuse(bytes, answer), is_answered);
	if (!is_answered)
		return;
	/* All but method and status come back as they were. */
	bytes[3] = 0x81;
	bytes[5] = 0x0c;
	assert_memory_equal(answer, bytes, sizeof(bytes));
}

static void who_asks_in_vain_is_told(void **state)
{
	(void)state;
	refusal_of(MAD_METHOD_GET, true);
	refusal_of(MAD_METHOD_SET, true);
	refusal_of(MAD_METHOD_SEND, false);
	refusal_of(MAD_METHOD_GET_RESP, false);
	refusal_of(MAD_METHOD_SEND | MAD_METHOD_RESPONSE, false);
	refusal_of(0, false);
}

static void a_refusal_may_overwrite_its_question(void **state)
{
	uint8_t bytes[MAD_BYTES] = {0}, answer[MAD_BYTES];

	(void)state;
	mad_emit(&sample, bytes);
	assert_true(mad_refuse(bytes, answer));
	assert_true(mad_refuse(bytes, bytes));
	assert_memory_equal(answer, bytes, sizeof(bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_has_its_place),
		cmocka_unit_test(only_256_bytes_of_version_1_are_one),
		cmocka_unit_test(who_asks_in_vain_is_told),
		cmocka_unit_test(a_refusal_may_overwrite_its_question),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
