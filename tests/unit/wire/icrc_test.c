/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/byte_order.h"
#include "unit/wire/sample_packet.h"
#include "wire/icrc.h"

#define BYTES_MAX (PACKET_HEADER_BYTES_MAX + PACKET_MTU_MAX)

static const struct icrc_envelope envelope_v4 = {
	.source = {10, 77, 0, 2},
	.destination = {10, 77, 0, 3},
	.identification = 0xbeef,
	.dont_fragment = true,
	.source_port = 0xd123,
};

static const struct icrc_envelope envelope_v6 = {
	.is_ipv6 = true,
	.source = {0xfd, 0x77, [15] = 2},
	.destination = {0xfd, 0x77, [15] = 3},
	.source_port = 0xd123,
};

/* The definition, bit by bit: annex A17.3.3 on a copy of the whole. */
static uint32_t reference_crc(const uint8_t *bytes, size_t length)
{
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
	}
	return ~crc;
}

/* First bytes of the IP headers: ones where the network may change them. */
static const uint8_t masked_ipv4[12] = {0x45, 0xff, [8] = 0xff, 0x11, 0xff, 0xff};
static const uint8_t masked_ipv6[8] = {0x6f, 0xff, 0xff, 0xff, 0, 0, 0x11, 0xff};

static size_t reference_ip(const struct icrc_envelope *envelope, size_t udp_bytes, uint8_t *ip)
{
	if (envelope->is_ipv6) {
		memcpy(ip, masked_ipv6, sizeof(masked_ipv6));
		store_be16(ip + 4, (uint16_t)udp_bytes);
		memcpy(ip + 8, envelope->source, 16);
		memcpy(ip + 24, envelope->destination, 16);
		return 40;
	}
	memcpy(ip, masked_ipv4, sizeof(masked_ipv4));
	store_be16(ip + 2, (uint16_t)(20 + udp_bytes));
	store_be16(ip + 4, envelope->identification);
	ip[6] = envelope->dont_fragment ? 0x40 : 0;
	memcpy(ip + 12, envelope->source, 4);
	memcpy(ip + 16, envelope->destination, 4);
	return 20;
}

static uint32_t reference_icrc(const struct icrc_envelope *envelope, const uint8_t *bth,
			       size_t bth_bytes)
{
	uint8_t whole[8 + 40 + 8 + BYTES_MAX];
	size_t length = 8;

	memset(whole, 0xff, 8);
	length += reference_ip(envelope, 8 + bth_bytes + 4, whole + 8);
	store_be16(whole + length, envelope->source_port);
	store_be16(whole + length + 2, 4791);
	store_be16(whole + length + 4, (uint16_t)(8 + bth_bytes + 4));
	store_be16(whole + length + 6, 0xffff);
	length += 8;
	memcpy(whole + length, bth, bth_bytes);
	if (bth_bytes > 4)
		whole[length + 4] = 0xff;
	return reference_crc(whole, length + bth_bytes);
}

static void agrees_with_the_definition_at_every_length(void **state)
{
	struct random_stream random = {30};
	uint8_t bytes[BYTES_MAX];

	(void)state;
	sample_bytes(&random, bytes, sizeof(bytes));
	for (size_t length = 0; length <= sizeof(bytes); length += length < 300 ? 1 : 61) {
		assert_int_equal(icrc_compute(&envelope_v4, bytes, length),
				 reference_icrc(&envelope_v4, bytes, length));
		assert_int_equal(icrc_compute(&envelope_v6, bytes, length),
				 reference_icrc(&envelope_v6, bytes, length));
	}
}

/* The first ACK that the kernel's driver sent in v4-rc-send.pcap. */
static void golden_frame(void **state)
{
	static const uint8_t bth[] = {
		0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11,
		0x00, 0x10, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x01,
	};
	struct icrc_envelope envelope = {
		.source = {10, 77, 0, 3},
		.destination = {10, 77, 0, 2},
		.identification = 0xc1ac,
		.dont_fragment = true,
		.source_port = 49526,
	};
	uint32_t icrc = icrc_load((const uint8_t[]){0x96, 0x56, 0x6f, 0x00});

	(void)state;
	assert_int_equal(icrc_compute(&envelope, bth, sizeof(bth)), icrc);
}

static void is_stored_least_significant_byte_first(void **state)
{
	uint8_t bytes[4];

	(void)state;
	icrc_store(bytes, 0x04030201);
	assert_memory_equal(bytes, "\x01\x02\x03\x04", 4);
	assert_int_equal(icrc_load(bytes), 0x04030201);
}

static void congestion_marks_do_not_count(void **state)
{
	uint8_t bytes[64] = {0};
	uint32_t icrc = icrc_compute(&envelope_v4, bytes, sizeof(bytes));

	(void)state;
	for (unsigned value = 0; value < 256; value++) {
		bytes[4] = (uint8_t)value;
		assert_int_equal(icrc_compute(&envelope_v4, bytes, sizeof(bytes)), icrc);
	}
}

static void every_envelope_field_counts(void **state)
{
	const uint8_t bytes[16] = {0};
	uint32_t icrc = icrc_compute(&envelope_v4, bytes, sizeof(bytes));
	struct icrc_envelope other;

	(void)state;
	for (unsigned bit = 0; bit < 32; bit++) {
		other = envelope_v4;
		other.source[bit / 8] ^= 1u << bit % 8;
		assert_int_not_equal(icrc_compute(&other, bytes, sizeof(bytes)), icrc);
		other = envelope_v4;
		other.destination[bit / 8] ^= 1u << bit % 8;
		assert_int_not_equal(icrc_compute(&other, bytes, sizeof(bytes)), icrc);
	}
	for (unsigned bit = 0; bit < 16; bit++) {
		other = envelope_v4;
		other.identification ^= 1u << bit;
		assert_int_not_equal(icrc_compute(&other, bytes, sizeof(bytes)), icrc);
		other = envelope_v4;
		other.source_port ^= 1u << bit;
		assert_int_not_equal(icrc_compute(&other, bytes, sizeof(bytes)), icrc);
	}
	other = envelope_v4;
	other.dont_fragment = false;
	assert_int_not_equal(icrc_compute(&other, bytes, sizeof(bytes)), icrc);
}

static void every_identification_is_found(void **state)
{
	struct icrc_envelope envelope = envelope_v4;
	const uint8_t bytes[BTH_BYTES] = {0x04};
	uint16_t found;

	(void)state;
	for (unsigned identification = 0; identification <= UINT16_MAX; identification++) {
		uint32_t icrc;

		envelope.identification = (uint16_t)identification;
		icrc = icrc_compute(&envelope, bytes, sizeof(bytes));
		assert_true(icrc_solve_identification(&envelope_v4, bytes, sizeof(bytes), icrc,
						      &found));
		assert_int_equal(found, identification);
	}
}

static void the_identification_is_found_at_every_length(void **state)
{
	static uint8_t bytes[65535 - 20 - 8 - 4];
	struct random_stream random = {31};
	uint16_t found;

	(void)state;
	sample_bytes(&random, bytes, sizeof(bytes));
	for (size_t length = 0; length <= sizeof(bytes); length += length < 5000 ? 1 : 97) {
		struct icrc_envelope envelope = envelope_v4;
		uint32_t icrc;

		envelope.identification = (uint16_t)random_next(&random);
		icrc = icrc_compute(&envelope, bytes, length);
		envelope.identification ^= 0x1234;
		assert_true(icrc_solve_identification(&envelope, bytes, length, icrc, &found));
		assert_int_equal(found ^ 0x1234, envelope.identification);
	}
}

static void ipv6_has_none_to_find(void **state)
{
	const uint8_t bytes[BTH_BYTES] = {0x04};
	uint32_t icrc = icrc_compute(&envelope_v6, bytes, sizeof(bytes));
	uint16_t found;

	(void)state;
	assert_false(icrc_solve_identification(&envelope_v6, bytes, sizeof(bytes), icrc, &found));
}

/*
 * Flips each bit of packet and ICRC in turn. With the identification known the CRC
 * sees every one; without, one in 65536 may look like another identification.
 */
static unsigned flips_unseen_by_solver(uint8_t *bytes, size_t length)
{
	uint32_t icrc = icrc_compute(&envelope_v4, bytes, length);
	unsigned unseen = 0;
	uint16_t found;

	for (size_t bit = 0; bit < 8 * length; bit++) {
		if (bit / 8 == 4)
			continue;
		bytes[bit / 8] ^= 1u << bit % 8;
		assert_int_not_equal(icrc_compute(&envelope_v4, bytes, length), icrc);
		unseen += icrc_solve_identification(&envelope_v4, bytes, length, icrc, &found);
		bytes[bit / 8] ^= 1u << bit % 8;
	}
	for (unsigned bit = 0; bit < 32; bit++)
		unseen += icrc_solve_identification(&envelope_v4, bytes, length, icrc ^ 1u << bit,
						    &found);
	return unseen;
}

static void a_flipped_bit_is_seen(void **state)
{
	struct random_stream random = {32};
	uint8_t bytes[BTH_BYTES + PACKET_MTU_MAX];

	(void)state;
	sample_bytes(&random, bytes, sizeof(bytes));
	assert_int_equal(flips_unseen_by_solver(bytes, BTH_BYTES), 0);
	assert_int_equal(flips_unseen_by_solver(bytes, 28 + 64), 0);
	assert_int_equal(flips_unseen_by_solver(bytes, BTH_BYTES + 1024), 0);
	assert_int_equal(flips_unseen_by_solver(bytes, BTH_BYTES + 4096), 0);
}

/* Damage of any form passes the solver once in 65536 times; more would be a fault. */
static void random_damage_is_seen(void **state)
{
	struct random_stream random = {33};
	uint8_t bytes[64];
	unsigned unseen = 0;
	uint16_t found;

	(void)state;
	sample_bytes(&random, bytes, sizeof(bytes));
	for (unsigned round = 0; round < 1000000; round++)
		unseen += icrc_solve_identification(&envelope_v4, bytes, sizeof(bytes),
						    (uint32_t)random_next(&random), &found);
	/* 15 expected. */
	assert_in_range(unseen, 3, 40);
}

/* In two steps, with the headers numbered afterwards, it is the same as in one. */
static void steps_agree_with_the_whole(void **state)
{
	static const size_t lengths[] = {12, 13, 16, 28, 268, 1036, 4108};
	struct random_stream random = {41};
	uint8_t bytes[BYTES_MAX], before[BYTES_MAX];

	(void)state;
	sample_bytes(&random, bytes, sizeof(bytes));
	memcpy(before, bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct icrc_envelope envelope = envelope_v4;
		uint32_t headers;

		assert_int_equal(icrc_continue(icrc_of_headers(&envelope_v6, lengths[i]), bytes,
					       lengths[i]),
				 icrc_compute(&envelope_v6, bytes, lengths[i]));
		envelope.identification = 0;
		headers = icrc_of_headers(&envelope, lengths[i]);
		for (uint32_t number = 0; number <= UINT16_MAX; number += i ? 257 : 1) {
			envelope.identification = (uint16_t)number;
			assert_int_equal(
				icrc_continue(icrc_number_headers(headers, (uint16_t)number), bytes,
					      lengths[i]),
				icrc_compute(&envelope, bytes, lengths[i]));
		}
	}
	assert_memory_equal(bytes, before, sizeof(bytes));
}

/* From the ICRC with any identification, the right one is found by its difference. */
static void a_difference_tells_the_change(void **state)
{
	struct random_stream random = {42};
	uint8_t bytes[300];
	uint16_t change;

	(void)state;
	sample_bytes(&random, bytes, sizeof(bytes));
	for (unsigned round = 0; round < 10000; round++) {
		struct icrc_envelope a = envelope_v4, b = envelope_v4;
		uint32_t difference;

		a.identification = (uint16_t)random_next(&random);
		b.identification = (uint16_t)random_next(&random);
		difference = icrc_compute(&a, bytes, sizeof(bytes)) ^
			     icrc_compute(&b, bytes, sizeof(bytes));
		assert_true(icrc_solve_difference(difference, sizeof(bytes), &change));
		assert_int_equal(change, a.identification ^ b.identification);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_the_definition_at_every_length),
		cmocka_unit_test(golden_frame),
		cmocka_unit_test(is_stored_least_significant_byte_first),
		cmocka_unit_test(congestion_marks_do_not_count),
		cmocka_unit_test(every_envelope_field_counts),
		cmocka_unit_test(every_identification_is_found),
		cmocka_unit_test(the_identification_is_found_at_every_length),
		cmocka_unit_test(steps_agree_with_the_whole),
		cmocka_unit_test(a_difference_tells_the_change),
		cmocka_unit_test(ipv6_has_none_to_find),
		cmocka_unit_test(a_flipped_bit_is_seen),
		cmocka_unit_test(random_damage_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
