/* SPDX-License-Identifier: BSD-2-Clause */
/* Where lent payload lies: as bytes and back, and what is no such packet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/lent.h"

static const struct lent_payload usual = {
	.address = 0x123456789abcdef0, .key = 0x00abcd01, .length = 0xfedcba98};

/* A packet as the parser leaves it, whose payload is @bytes. */
static struct packet packet_of(uint8_t opcode, const uint8_t *bytes, uint32_t length)
{
	return (struct packet){
		.opcode = opcode, .psn = 77, .payload = bytes, .payload_bytes = length};
}

static bool is_taken(uint8_t opcode, const struct lent_payload *lent)
{
	uint8_t bytes[LENT_BYTES];
	struct packet packet = packet_of(opcode, bytes, LENT_BYTES);

	lent_emit(lent, bytes);
	return lent_parse(&packet);
}

static void what_is_emitted_is_parsed(void **state)
{
	uint8_t bytes[LENT_BYTES + 1];
	/* It may lie anywhere. */
	struct packet packet =
		packet_of(opcode_byte(SERVICE_RC, OPCODE_SEND_FIRST), bytes + 1, LENT_BYTES);

	(void)state;
	lent_emit(&usual, bytes + 1);
	assert_false(packet_is_lent(&packet));
	assert_true(lent_parse(&packet));
	assert_true(packet_is_lent(&packet));
	assert_int_equal(packet.lent_address, usual.address);
	assert_int_equal(packet.lent_key, usual.key);
	assert_int_equal(packet.payload_bytes, usual.length);
	assert_null(packet.payload);
	assert_int_equal(packet.psn, 77);
}

/* Both sides are of one host; what else reads it (a capture) finds this. */
static void each_field_has_its_place(void **state)
{
	uint8_t bytes[LENT_BYTES];

	(void)state;
	lent_emit(&usual, bytes);
	assert_memory_equal(bytes, &usual.address, 8);
	assert_memory_equal(bytes + 8, &usual.key, 4);
	assert_memory_equal(bytes + 12, &usual.length, 4);
}

static void any_send_of_rc_and_nothing_else(void **state)
{
	(void)state;
	for (uint32_t opcode = 0; opcode <= 0xff; opcode++) {
		opcode_properties properties = opcode_properties_of((uint8_t)opcode);
		bool is_send = opcode_service((uint8_t)opcode) == SERVICE_RC &&
			       opcode_has(properties, OPCODE_IS_SEND);

		assert_int_equal(is_taken((uint8_t)opcode, &usual), is_send);
	}
	assert_true(is_taken(opcode_byte(SERVICE_RC, OPCODE_SEND_LAST_INVALIDATE), &usual));
	assert_false(is_taken(opcode_byte(SERVICE_UC, OPCODE_SEND_ONLY), &usual));
	assert_false(is_taken(opcode_byte(SERVICE_XRC, OPCODE_SEND_ONLY), &usual));
	assert_false(is_taken(opcode_byte(SERVICE_RC, OPCODE_WRITE_ONLY), &usual));
}

/* It is not read, whatever its length. */
static void any_other_length_is_none(void **state)
{
	uint8_t bytes[2 * LENT_BYTES];

	(void)state;
	lent_emit(&usual, bytes);
	lent_emit(&usual, bytes + LENT_BYTES);
	for (uint32_t length = 0; length <= sizeof(bytes); length++) {
		struct packet packet =
			packet_of(opcode_byte(SERVICE_RC, OPCODE_SEND_ONLY), bytes, length);

		assert_int_equal(lent_parse(&packet), length == LENT_BYTES);
	}
}

static void key_and_length_are_not_zero(void **state)
{
	uint8_t opcode = opcode_byte(SERVICE_RC, OPCODE_SEND_ONLY);
	struct lent_payload lent = usual;

	(void)state;
	lent.key = 0;
	assert_false(is_taken(opcode, &lent));
	lent = usual;
	lent.length = 0;
	assert_false(is_taken(opcode, &lent));
	/* An address may be. */
	assert_true(is_taken(opcode, &(struct lent_payload){.key = 1, .length = 1}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_emitted_is_parsed),
		cmocka_unit_test(each_field_has_its_place),
		cmocka_unit_test(any_send_of_rc_and_nothing_else),
		cmocka_unit_test(any_other_length_is_none),
		cmocka_unit_test(key_and_length_are_not_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
