/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/opcode.h"
#include "wire/packet.h"

/*
 * IBA table 38, row by row: what follows the BTH, and whether payload may. Letters:
 * R RETH, A AETH, T AtomicETH, K AtomicAckETH, I ImmDt, V IETH, p payload.
 */
static const struct {
	uint8_t operation;
	const char *follows;
	const char *name;
} table_38[] = {
	{0x00, "p", "SEND_FIRST"},
	{0x01, "p", "SEND_MIDDLE"},
	{0x02, "p", "SEND_LAST"},
	{0x03, "Ip", "SEND_LAST_IMM"},
	{0x04, "p", "SEND_ONLY"},
	{0x05, "Ip", "SEND_ONLY_IMM"},
	{0x06, "Rp", "WRITE_FIRST"},
	{0x07, "p", "WRITE_MIDDLE"},
	{0x08, "p", "WRITE_LAST"},
	{0x09, "Ip", "WRITE_LAST_IMM"},
	{0x0a, "Rp", "WRITE_ONLY"},
	{0x0b, "RIp", "WRITE_ONLY_IMM"},
	{0x0c, "R", "READ_REQUEST"},
	{0x0d, "Ap", "READ_RESPONSE_FIRST"},
	{0x0e, "p", "READ_RESPONSE_MIDDLE"},
	{0x0f, "Ap", "READ_RESPONSE_LAST"},
	{0x10, "Ap", "READ_RESPONSE_ONLY"},
	{0x11, "A", "ACKNOWLEDGE"},
	{0x12, "AK", "ATOMIC_ACKNOWLEDGE"},
	{0x13, "T", "COMPARE_SWAP"},
	{0x14, "T", "FETCH_ADD"},
	{0x16, "Vp", "SEND_LAST_INVALIDATE"},
	{0x17, "Vp", "SEND_ONLY_INVALIDATE"},
};

static const struct {
	char letter;
	uint32_t bit, bytes;
} extensions[] = {
	{'R', OPCODE_HAS_RETH, 16},	  {'A', OPCODE_HAS_AETH, 4},
	{'T', OPCODE_HAS_ATOMIC_ETH, 28}, {'K', OPCODE_HAS_ATOMIC_ACK_ETH, 8},
	{'I', OPCODE_HAS_IMMEDIATE, 4},	  {'V', OPCODE_HAS_IETH, 4},
	{'p', OPCODE_HAS_PAYLOAD, 0},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Checks one opcode against its row; @service_bytes are those of DETH or XRCETH. */
static void check_row(uint8_t byte, size_t row, uint32_t service_bytes)
{
	opcode_properties has = opcode_properties_of(byte);
	uint32_t header_bytes = 12 + service_bytes;

	assert_true(opcode_has(has, OPCODE_IS_KNOWN));
	assert_false(opcode_has(has, OPCODE_IS_CNP));
	for (size_t i = 0; i < COUNT(extensions); i++) {
		bool is_expected = strchr(table_38[row].follows, extensions[i].letter) != NULL;

		assert_int_equal(opcode_has(has, extensions[i].bit), is_expected);
		header_bytes += is_expected ? extensions[i].bytes : 0;
	}
	assert_int_equal(opcode_header_bytes(byte), header_bytes);
	/* The name is that of the service, a space and that of the row. */
	assert_string_equal(strchr(opcode_name(byte), ' ') + 1, table_38[row].name);
}

static bool is_response(uint8_t operation)
{
	return operation >= 0x0d && operation <= 0x12;
}

static void each_service_has_the_rows_it_may(void **state)
{
	unsigned known = 0;

	(void)state;
	for (size_t row = 0; row < COUNT(table_38); row++) {
		uint8_t operation = table_38[row].operation;
		uint8_t xrc = opcode_byte(SERVICE_XRC, (enum opcode)operation);

		check_row(operation, row, 0);
		check_row(xrc, row, is_response(operation) ? 0 : 4);
		assert_int_equal(opcode_has(opcode_properties_of(xrc), OPCODE_HAS_XRCETH),
				 !is_response(operation));
		if (operation <= 0x0b)
			check_row(0x20 | operation, row, 0);
		if (operation == 0x04 || operation == 0x05)
			check_row(0x60 | operation, row, 8);
	}
	/* And nothing else: 23 of RC and XRC each, 12 of UC, 2 of UD, and the CNP. */
	for (unsigned byte = 0; byte < 256; byte++)
		known += opcode_has(opcode_properties_of((uint8_t)byte), OPCODE_IS_KNOWN);
	assert_int_equal(known, 23 + 23 + 12 + 2 + 1);
}

static void unknown_bytes_have_no_property(void **state)
{
	/* What UC and UD lack, all of RD, reserved and vendor services. */
	static const uint8_t unknown[] = {0x2c, 0x31, 0x35, 0x36, 0x3d, 0x40, 0x44, 0x5f, 0x60,
					  0x6a, 0x6c, 0x7f, 0x80, 0x82, 0xc0, 0xe0, 0xff};

	(void)state;
	for (size_t i = 0; i < COUNT(unknown); i++) {
		assert_int_equal(opcode_properties_of(unknown[i]).bits, 0);
		assert_int_equal(opcode_header_bytes(unknown[i]), 0);
		assert_string_equal(opcode_name(unknown[i]), "UNKNOWN");
	}
}

/* Known by nobody here, but requests: a responder has to refuse them. */
static void holes_of_the_reliable_services_are_requests(void **state)
{
	static const uint8_t services[] = {SERVICE_RC << 5, SERVICE_XRC << 5};
	static const uint8_t holes[] = {0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f};
	unsigned unoffered = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(services) * COUNT(holes); i++) {
		uint8_t byte = services[i % COUNT(services)] | holes[i / COUNT(services)];
		opcode_properties has = opcode_properties_of(byte);

		assert_true(opcode_has(has, OPCODE_IS_UNOFFERED | OPCODE_IS_REQUEST));
		assert_false(opcode_has(has, OPCODE_IS_KNOWN));
		assert_int_equal(opcode_header_bytes(byte), BTH_BYTES);
		assert_string_equal(opcode_name(byte), "UNKNOWN");
	}
	for (unsigned byte = 0; byte < 256; byte++)
		unoffered += opcode_has(opcode_properties_of((uint8_t)byte), OPCODE_IS_UNOFFERED);
	assert_int_equal(unoffered, COUNT(services) * COUNT(holes));
}

static void a_message_starts_and_ends_where_it_should(void **state)
{
	(void)state;
	for (size_t row = 0; row < COUNT(table_38); row++) {
		opcode_properties has = opcode_properties_of(table_38[row].operation);
		bool is_first = strstr(table_38[row].name, "_FIRST") != NULL;
		bool is_middle = strstr(table_38[row].name, "_MIDDLE") != NULL;
		bool is_last = strstr(table_38[row].name, "_LAST") != NULL;

		assert_int_equal(opcode_has(has, OPCODE_STARTS), !is_middle && !is_last);
		assert_int_equal(opcode_has(has, OPCODE_ENDS), !is_middle && !is_first);
	}
}

static void each_operation_is_of_one_kind(void **state)
{
	static const uint32_t kinds[] = {OPCODE_IS_SEND, OPCODE_IS_WRITE, OPCODE_IS_READ,
					 OPCODE_IS_ATOMIC};

	(void)state;
	for (size_t row = 0; row < COUNT(table_38); row++) {
		uint8_t operation = table_38[row].operation;
		opcode_properties has = opcode_properties_of(operation);
		unsigned count = 0;

		for (size_t i = 0; i < COUNT(kinds); i++)
			count += opcode_has(has, kinds[i]);
		assert_int_equal(count, operation != OPCODE_ACKNOWLEDGE);
		assert_int_equal(opcode_has(has, OPCODE_IS_RESPONSE), is_response(operation));
		assert_int_equal(opcode_has(has, OPCODE_IS_REQUEST), !is_response(operation));
	}
	assert_true(opcode_has(opcode_properties_of(0x0c), OPCODE_IS_READ));
	assert_true(opcode_has(opcode_properties_of(0x0e), OPCODE_IS_READ));
	assert_true(opcode_has(opcode_properties_of(0x12), OPCODE_IS_ATOMIC));
	assert_true(opcode_has(opcode_properties_of(0x13), OPCODE_IS_ATOMIC));
	assert_true(opcode_has(opcode_properties_of(0x0b), OPCODE_IS_WRITE));
	assert_true(opcode_has(opcode_properties_of(0x17), OPCODE_IS_SEND));
}

static void a_cnp_is_neither_request_nor_response(void **state)
{
	opcode_properties has = opcode_properties_of(OPCODE_BYTE_CNP);

	(void)state;
	assert_true(opcode_has(has, OPCODE_IS_KNOWN | OPCODE_IS_CNP));
	assert_false(opcode_has(has, OPCODE_IS_REQUEST) || opcode_has(has, OPCODE_IS_RESPONSE));
	assert_false(opcode_has(has, OPCODE_HAS_PAYLOAD));
	assert_int_equal(opcode_header_bytes(OPCODE_BYTE_CNP), 12 + 16);
	assert_string_equal(opcode_name(OPCODE_BYTE_CNP), "CNP");
}

static void bytes_come_apart_and_together(void **state)
{
	(void)state;
	assert_int_equal(opcode_byte(SERVICE_UD, OPCODE_SEND_ONLY), 0x64);
	assert_int_equal(opcode_byte(SERVICE_XRC, OPCODE_FETCH_ADD), 0xb4);
	for (unsigned byte = 0; byte < 256; byte++)
		assert_int_equal(opcode_byte(opcode_service((uint8_t)byte),
					     opcode_operation((uint8_t)byte)),
				 byte);
	assert_string_equal(opcode_name(0x00), "RC SEND_FIRST");
	assert_string_equal(opcode_name(0x2b), "UC WRITE_ONLY_IMM");
	assert_string_equal(opcode_name(0x65), "UD SEND_ONLY_IMM");
	assert_string_equal(opcode_name(0xac), "XRC READ_REQUEST");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_service_has_the_rows_it_may),
		cmocka_unit_test(unknown_bytes_have_no_property),
		cmocka_unit_test(holes_of_the_reliable_services_are_requests),
		cmocka_unit_test(a_message_starts_and_ends_where_it_should),
		cmocka_unit_test(each_operation_is_of_one_kind),
		cmocka_unit_test(a_cnp_is_neither_request_nor_response),
		cmocka_unit_test(bytes_come_apart_and_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
