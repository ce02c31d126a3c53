/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/wire/sample_packet.h"
#include "wire/packet.h"

/* One BTH as bytes and as values; @flags is the byte with SE, M, PadCnt and TVer. */
#define BTH_ON_WIRE(opcode, flags) \
	opcode, flags, 0xff, 0xfe, 0x80, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef
/* clang-format off */
#define BTH_VALUES(byte) \
	.opcode = byte, .pkey = 0xfffe, .fecn = true, .dest_qpn = 0x123456, \
	.ack_requested = true, .psn = 0xabcdef
/* clang-format on */

/* Each field in its place, in both directions. */
static void check_golden(const uint8_t *bytes, size_t length, struct packet *expected)
{
	uint8_t made[PACKET_HEADER_BYTES_MAX];
	size_t header_bytes = opcode_header_bytes(expected->opcode);
	struct packet packet;

	expected->payload = bytes + header_bytes;
	assert_int_equal(packet_parse(bytes, length, &packet), REASON_NONE);
	assert_ptr_equal(packet.payload, bytes + header_bytes);
	assert_true(sample_is_equal(&packet, expected));
	assert_int_equal(packet_emit_header(expected, made), header_bytes);
	assert_memory_equal(made, bytes, header_bytes);
}

static void golden_write_only_with_immediate(void **state)
{
	/* clang-format off */
	static const uint8_t bytes[] = {
		BTH_ON_WIRE(0x0b, 0x80 | 0x30),
		0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* RETH: address */
		0x11, 0x12, 0x13, 0x14, 0x00, 0x00, 0x00, 0x05, /* rkey, length */
		0xde, 0xad, 0xbe, 0xef, /* ImmDt */
		'h', 'e', 'l', 'l', 'o', 0, 0, 0,
	};
	/* clang-format on */
	struct packet expected = {
		BTH_VALUES(0x0b),
		.solicited = true,
		.reth = {.address = 0x0102030405060708, .rkey = 0x11121314, .length = 5},
		.payload_bytes = 5,
	};

	(void)state;
	memcpy(&expected.immediate, "\xde\xad\xbe\xef", 4);
	check_golden(bytes, sizeof(bytes), &expected);
}

/* Any bytes of any length: the shared form answers as the plain one does of a copy. */
static void shared_bytes_are_parsed_alike(void **state)
{
	uint8_t bytes[PACKET_HEADER_BYTES_MAX + 8];
	struct random_stream random = {22};
	struct packet plain, shared;

	(void)state;
	for (int opcode = 0; opcode < 0x10000; opcode++) {
		size_t length = random_below(&random, sizeof(bytes) + 1);
		enum reason reason;

		sample_bytes(&random, bytes, sizeof(bytes));
		bytes[0] = (uint8_t)opcode;
		/* Mostly of the right version, and without padding. */
		if (opcode & 0x300)
			bytes[1] &= 0xc0;
		reason = packet_parse(bytes, length, &plain);
		assert_int_equal(packet_parse_shared(bytes, length, &shared), reason);
		if (reason != REASON_NONE)
			continue;
		assert_ptr_equal(shared.payload, plain.payload);
		assert_true(sample_is_equal(&shared, &plain));
	}
}

/* What an earlier packet left in the caller's memory does not show. */
static void fields_that_an_opcode_has_not_are_zero(void **state)
{
	static const uint8_t bytes[] = {BTH_ON_WIRE(0x04, 0x00)};
	struct packet expected = {BTH_VALUES(0x04), .payload = bytes + sizeof(bytes)};
	struct packet packet;

	(void)state;
	memset(&packet, 0xff, sizeof(packet));
	assert_int_equal(packet_parse(bytes, sizeof(bytes), &packet), REASON_NONE);
	assert_true(sample_is_equal(&packet, &expected));
	memset(&packet, 0xff, sizeof(packet));
	assert_int_equal(packet_parse_shared(bytes, sizeof(bytes), &packet), REASON_NONE);
	assert_true(sample_is_equal(&packet, &expected));
}

static void golden_acknowledge(void **state)
{
	static const uint8_t bytes[] = {BTH_ON_WIRE(0x11, 0x40), 0x62, 0x0a, 0x0b, 0x0c};
	struct packet expected = {
		BTH_VALUES(0x11),
		.migration = true,
		.aeth = {.syndrome = 0x62, .msn = 0x0a0b0c},
	};

	(void)state;
	check_golden(bytes, sizeof(bytes), &expected);
}

static void golden_atomic_and_its_answer(void **state)
{
	/* clang-format off */
	static const uint8_t request[] = {
		BTH_ON_WIRE(0xb3, 0), 0x00, 0xa1, 0xa2, 0xa3,	/* XRC COMPARE_SWAP, XRCETH */
		0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* address */
		0x11, 0x12, 0x13, 0x14,				/* rkey */
		0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, /* swap */
		0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, /* compare */
	};
	static const uint8_t answer[] = {
		BTH_ON_WIRE(0x12, 0), 0x1f, 0x00, 0x00, 0x07,
		0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
	};
	/* clang-format on */
	struct packet expected_request = {
		BTH_VALUES(0xb3),
		.xrc_srqn = 0xa1a2a3,
		.atomic = {.address = 0x0102030405060708,
			   .rkey = 0x11121314,
			   .swap_or_add = 0x2122232425262728,
			   .compare = 0x3132333435363738},
	};
	struct packet expected_answer = {
		BTH_VALUES(0x12),
		.aeth = {.syndrome = 0x1f, .msn = 7},
		.atomic_original = 0x4142434445464748,
	};

	(void)state;
	check_golden(request, sizeof(request), &expected_request);
	check_golden(answer, sizeof(answer), &expected_answer);
}

static void golden_datagram_and_invalidate(void **state)
{
	/* clang-format off */
	static const uint8_t datagram[] = {
		BTH_ON_WIRE(0x64, 0x30), 0x11, 0x22, 0x33, 0x44, 0x00, 0x51, 0x52, 0x53, 'x', 0, 0, 0,
	};
	/* clang-format on */
	static const uint8_t invalidate[] = {BTH_ON_WIRE(0x17, 0), 0x61, 0x62, 0x63, 0x64};
	struct packet expected_datagram = {
		BTH_VALUES(0x64),
		.deth = {.qkey = 0x11223344, .source_qpn = 0x515253},
		.payload_bytes = 1,
	};
	struct packet expected_invalidate = {BTH_VALUES(0x17), .invalidate_rkey = 0x61626364};

	(void)state;
	check_golden(datagram, sizeof(datagram), &expected_datagram);
	check_golden(invalidate, sizeof(invalidate), &expected_invalidate);
}

static void golden_cnp(void **state)
{
	uint8_t bytes[BTH_BYTES + CNP_RESERVED_BYTES] = {
		0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x00, 0x11, 0, 0, 0, 0,
	};
	struct packet expected = {.opcode = 0x81, .pkey = 0xffff, .becn = true, .dest_qpn = 0x11};

	(void)state;
	check_golden(bytes, sizeof(bytes), &expected);
}

static void reserved_bits_are_ignored_and_never_sent(void **state)
{
	uint8_t bytes[] = {BTH_ON_WIRE(0xac, 0),
			   0x99,
			   0x00,
			   0x00,
			   0x01,
			   0,
			   0,
			   0,
			   0,
			   0,
			   0,
			   0,
			   0,
			   0,
			   0,
			   0,
			   0,
			   0,
			   0,
			   0,
			   0};
	uint8_t made[PACKET_HEADER_BYTES_MAX];
	struct packet packet;

	(void)state;
	bytes[4] |= 0x3f;
	bytes[8] |= 0x7f;
	assert_int_equal(packet_parse(bytes, sizeof(bytes), &packet), REASON_NONE);
	assert_true(packet.fecn && !packet.becn && packet.ack_requested);
	assert_int_equal(packet.xrc_srqn, 1);
	/* Too wide values may not reach into their neighbours either. */
	packet.dest_qpn |= 0x55000000;
	packet.psn |= 0x55000000;
	packet.xrc_srqn |= 0x55000000;
	assert_int_equal(packet_emit_header(&packet, made), sizeof(bytes));
	assert_int_equal(made[4], 0x80);
	assert_int_equal(made[8], 0x80);
	assert_int_equal(made[12], 0);
}

/* A legal packet of @opcode with @rest bytes behind its headers. */
static enum reason parse_with(uint8_t opcode, uint8_t flags, size_t length)
{
	uint8_t bytes[256] = {opcode, flags};
	struct packet packet;

	return packet_parse(bytes, length, &packet);
}

static void short_ones_are_dropped(void **state)
{
	(void)state;
	for (size_t length = 0; length < BTH_BYTES; length++)
		assert_int_equal(parse_with(0x04, 0, length), REASON_DROP_SHORT);
	assert_int_equal(parse_with(0x04, 0, BTH_BYTES), REASON_NONE);
	for (unsigned byte = 0; byte < 256; byte++) {
		size_t header_bytes = opcode_header_bytes((uint8_t)byte);

		for (size_t length = BTH_BYTES; length < header_bytes; length++)
			assert_int_equal(parse_with((uint8_t)byte, 0, length), REASON_DROP_SHORT);
		if (header_bytes)
			assert_int_equal(parse_with((uint8_t)byte, 0, header_bytes), REASON_NONE);
	}
}

static void other_versions_and_opcodes_are_dropped(void **state)
{
	(void)state;
	for (uint8_t version = 1; version < 16; version++)
		assert_int_equal(parse_with(0x04, version, BTH_BYTES), REASON_DROP_VERSION);
	/* The version goes first: in another one the opcode may mean something else. */
	assert_int_equal(parse_with(0xff, 1, BTH_BYTES), REASON_DROP_VERSION);
	for (unsigned byte = 0; byte < 256; byte++)
		if (!opcode_header_bytes((uint8_t)byte))
			assert_int_equal(parse_with((uint8_t)byte, 0, 64), REASON_DROP_OPCODE);
}

static void padding_must_fit(void **state)
{
	(void)state;
	for (uint8_t pad = 0; pad < 4; pad++) {
		for (size_t rest = 0; rest < 16; rest++) {
			bool is_right = rest % 4 == 0 && pad <= rest;

			assert_int_equal(parse_with(0x04, (uint8_t)(pad << 4), BTH_BYTES + rest),
					 is_right ? REASON_NONE : REASON_DROP_PAD);
		}
	}
}

static void what_has_no_payload_must_end_with_its_header(void **state)
{
	static const uint8_t bare[] = {0x0c, 0x11, 0x12, 0x13, 0x14, 0xac, OPCODE_BYTE_CNP};

	(void)state;
	for (size_t i = 0; i < sizeof(bare); i++) {
		size_t header_bytes = opcode_header_bytes(bare[i]);

		assert_int_equal(parse_with(bare[i], 0, header_bytes + 4), REASON_DROP_PAD);
		assert_int_equal(parse_with(bare[i], 0x10, header_bytes), REASON_DROP_PAD);
	}
}

static void every_opcode_makes_the_round_trip(void **state)
{
	struct random_stream random = {20};
	uint8_t payload[SAMPLE_PAYLOAD_BYTES_MAX], bytes[SAMPLE_BYTES_MAX];
	struct packet packet, again;

	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		if (!opcode_has(opcode_properties_of((uint8_t)opcode), OPCODE_IS_KNOWN))
			continue;
		for (unsigned round = 0; round < 200; round++) {
			size_t length;

			packet = sample_packet(&random, (uint8_t)opcode, payload);
			length = sample_emit(&packet, bytes);
			assert_int_equal(packet_parse(bytes, length, &again), REASON_NONE);
			assert_true(sample_is_equal(&packet, &again));
		}
	}
}

/* In memory of exactly that size, so that the address sanitizer sees a byte too far. */
static void any_bytes_are_fine(void **state)
{
	struct random_stream random = {21};
	unsigned legal = 0;

	(void)state;
	for (unsigned round = 0; round < 200000; round++) {
		size_t length = random_below(&random, 80);
		uint8_t *bytes = malloc(length + !length);
		struct packet packet;

		assert_non_null(bytes);
		sample_bytes(&random, bytes, length);
		if (length > 1 && random_chance(&random, 500000))
			bytes[1] &= 0xf0;
		if (packet_parse(bytes, length, &packet) == REASON_NONE) {
			legal++;
			assert_true(packet.payload >= bytes + BTH_BYTES);
			assert_true(packet.payload + packet.payload_bytes +
					    packet_pad_bytes(packet.payload_bytes) <=
				    bytes + length);
		}
		free(bytes);
	}
	/* About one in thirty is a packet: the loop reaches the readers. */
	assert_true(legal > 1000);
}

static void padding_completes_a_word(void **state)
{
	(void)state;
	for (uint32_t bytes = 0; bytes < 100; bytes++) {
		assert_true(packet_pad_bytes(bytes) < 4);
		assert_int_equal((bytes + packet_pad_bytes(bytes)) % 4, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_write_only_with_immediate),
		cmocka_unit_test(shared_bytes_are_parsed_alike),
		cmocka_unit_test(fields_that_an_opcode_has_not_are_zero),
		cmocka_unit_test(golden_acknowledge),
		cmocka_unit_test(golden_atomic_and_its_answer),
		cmocka_unit_test(golden_datagram_and_invalidate),
		cmocka_unit_test(golden_cnp),
		cmocka_unit_test(reserved_bits_are_ignored_and_never_sent),
		cmocka_unit_test(short_ones_are_dropped),
		cmocka_unit_test(other_versions_and_opcodes_are_dropped),
		cmocka_unit_test(padding_must_fit),
		cmocka_unit_test(what_has_no_payload_must_end_with_its_header),
		cmocka_unit_test(every_opcode_makes_the_round_trip),
		cmocka_unit_test(any_bytes_are_fine),
		cmocka_unit_test(padding_completes_a_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
