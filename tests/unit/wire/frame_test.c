/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/byte_order.h"
#include "unit/wire/sample_packet.h"
#include "wire/frame.h"

/* ACKs of the kernel's driver, from v4-rc-send.pcap and v6-rc-send.pcap. */
static const uint8_t golden_v4[] = {
	0x52, 0x54, 0x00, 0x77, 0x00, 0x02, 0x52, 0x54, 0x00, 0x77, 0x00, 0x03, 0x08,
	0x00, 0x45, 0x00, 0x00, 0x30, 0xc1, 0xac, 0x40, 0x00, 0x40, 0x11, 0x64, 0x72,
	0x0a, 0x4d, 0x00, 0x03, 0x0a, 0x4d, 0x00, 0x02, 0xc1, 0x76, 0x12, 0xb7, 0x00,
	0x1c, 0x00, 0x00, 0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x00, 0x10,
	0x00, 0x00, 0x1f, 0x00, 0x00, 0x01, 0x96, 0x56, 0x6f, 0x00,
};

static const uint8_t golden_v6[] = {
	0x52, 0x54, 0x00, 0x77, 0x00, 0x02, 0x52, 0x54, 0x00, 0x77, 0x00, 0x03, 0x86, 0xdd,
	0x60, 0x00, 0x00, 0x00, 0x00, 0x1c, 0x11, 0x40, 0xfd, 0x77, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xfd, 0x77, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xce, 0x4a,
	0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00, 0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x3b,
	0x00, 0x10, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x01, 0x45, 0x58, 0x53, 0x1b,
};

/* Where IP and UDP headers begin. */
#define IP 14
#define UDP_V4 (IP + 20)
#define UDP_V6 (IP + 40)

/* What a receiver of this datagram finds in front of its payload. */
static void grh_is_the_header_that_came(void **state)
{
	static const uint8_t zeros[20];
	uint8_t bytes[GRH_BYTES];
	struct frame frame;

	(void)state;
	memset(bytes, 0xee, sizeof(bytes));
	assert_int_equal(frame_parse(golden_v4, sizeof(golden_v4), &frame), FRAME_ROCE);
	frame_emit_grh(&frame.envelope, frame.bth_bytes, bytes);
	assert_memory_equal(bytes, zeros, 20);
	assert_memory_equal(bytes + 20, golden_v4 + IP, 20);
	assert_int_equal(frame_parse(golden_v6, sizeof(golden_v6), &frame), FRAME_ROCE);
	frame_emit_grh(&frame.envelope, frame.bth_bytes, bytes);
	assert_memory_equal(bytes, golden_v6 + IP, 40);
}

static void set_ipv4_checksum(uint8_t *frame)
{
	uint32_t sum = 0;

	store_be16(frame + IP + 10, 0);
	for (unsigned i = 0; i < 20; i += 2)
		sum += load_be16(frame + IP + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	store_be16(frame + IP + 10, (uint16_t)~sum);
}

/* The golden IPv4 frame with the byte at @offset changed to @value, checksum made right. */
static enum frame_verdict verdict_with(size_t offset, uint8_t value)
{
	uint8_t bytes[sizeof(golden_v4)];
	struct frame frame;

	memcpy(bytes, golden_v4, sizeof(bytes));
	bytes[offset] = value;
	set_ipv4_checksum(bytes);
	return frame_parse(bytes, sizeof(bytes), &frame);
}

static void every_field_of_ipv4(void **state)
{
	struct frame frame;
	const struct frame_envelope *envelope = &frame.envelope;

	(void)state;
	assert_int_equal(frame_parse(golden_v4, sizeof(golden_v4), &frame), FRAME_ROCE);
	assert_memory_equal(envelope->destination_mac, "\x52\x54\x00\x77\x00\x02", 6);
	assert_memory_equal(envelope->source_mac, "\x52\x54\x00\x77\x00\x03", 6);
	assert_false(envelope->icrc.is_ipv6);
	assert_memory_equal(envelope->icrc.source, "\x0a\x4d\x00\x03", 4);
	assert_memory_equal(envelope->icrc.destination, "\x0a\x4d\x00\x02", 4);
	assert_int_equal(envelope->icrc.identification, 0xc1ac);
	assert_true(envelope->icrc.dont_fragment);
	assert_int_equal(envelope->icrc.source_port, 0xc176);
	assert_int_equal(envelope->traffic_class, 0);
	assert_int_equal(envelope->flow_label, 0);
	assert_int_equal(envelope->hop_limit, 64);
	assert_false(envelope->has_udp_checksum);
	assert_ptr_equal(frame.bth, golden_v4 + UDP_V4 + 8);
	assert_int_equal(frame.bth_bytes, 16);
	assert_int_equal(frame.icrc, 0x006f5696);
}

static void every_field_of_ipv6(void **state)
{
	uint8_t bytes[sizeof(golden_v6)];
	struct frame frame;
	const struct frame_envelope *envelope = &frame.envelope;

	(void)state;
	memcpy(bytes, golden_v6, sizeof(bytes));
	store_be32(bytes + IP, 0x66a12345);
	assert_int_equal(frame_parse(bytes, sizeof(bytes), &frame), FRAME_ROCE);
	assert_true(envelope->icrc.is_ipv6);
	assert_memory_equal(envelope->icrc.source, golden_v6 + IP + 8, 16);
	assert_memory_equal(envelope->icrc.destination, golden_v6 + IP + 24, 16);
	assert_int_equal(envelope->traffic_class, 0x6a);
	assert_int_equal(envelope->flow_label, 0x12345);
	assert_int_equal(envelope->hop_limit, 64);
	assert_int_equal(envelope->icrc.source_port, 0xce4a);
	assert_int_equal(frame.bth_bytes, 16);
	assert_int_equal(frame.icrc, 0x1b535845);
}

static void golden_frames_come_out_again(void **state)
{
	uint8_t made[sizeof(golden_v6)];
	struct frame frame;

	(void)state;
	assert_int_equal(frame_parse(golden_v4, sizeof(golden_v4), &frame), FRAME_ROCE);
	assert_int_equal(frame_emit(&frame, made, sizeof(made)), sizeof(golden_v4));
	assert_memory_equal(made, golden_v4, sizeof(golden_v4));
	assert_int_equal(frame_parse(golden_v6, sizeof(golden_v6), &frame), FRAME_ROCE);
	assert_int_equal(frame_emit(&frame, made, sizeof(made)), sizeof(golden_v6));
	assert_memory_equal(made, golden_v6, sizeof(golden_v6));
}

static void other_protocols(void **state)
{
	(void)state;
	assert_int_equal(verdict_with(12, 0x81), FRAME_OTHER);	       /* EtherType */
	assert_int_equal(verdict_with(IP, 0x65), FRAME_OTHER);	       /* IP version */
	assert_int_equal(verdict_with(IP + 9, 6), FRAME_OTHER);	       /* TCP */
	assert_int_equal(verdict_with(UDP_V4 + 3, 0xb8), FRAME_OTHER); /* port 4792 */
	assert_int_equal(verdict_with(UDP_V4 + 3, 0xb7), FRAME_ROCE);
}

static void options_and_fragments(void **state)
{
	(void)state;
	assert_int_equal(verdict_with(IP, 0x46), FRAME_UNSUPPORTED);
	assert_int_equal(verdict_with(IP, 0x44), FRAME_UNSUPPORTED);
	assert_int_equal(verdict_with(IP + 6, 0x60), FRAME_UNSUPPORTED); /* more fragments */
	assert_int_equal(verdict_with(IP + 6, 0xc0), FRAME_UNSUPPORTED); /* reserved flag */
	assert_int_equal(verdict_with(IP + 7, 1), FRAME_UNSUPPORTED);	 /* fragment offset */
	assert_int_equal(verdict_with(IP + 6, 0), FRAME_ROCE);
}

static void lengths_that_contradict(void **state)
{
	(void)state;
	assert_int_equal(verdict_with(IP + 3, 0x30), FRAME_ROCE);
	assert_int_equal(verdict_with(IP + 3, 0x31), FRAME_SHORT);
	assert_int_equal(verdict_with(IP + 3, 0x2f), FRAME_LENGTH);
	assert_int_equal(verdict_with(IP + 3, 19), FRAME_LENGTH);
	assert_int_equal(verdict_with(IP + 3, 20), FRAME_LENGTH);
	assert_int_equal(verdict_with(IP + 3, 27), FRAME_LENGTH);
	assert_int_equal(verdict_with(UDP_V4 + 5, 0x1b), FRAME_LENGTH);
	assert_int_equal(verdict_with(UDP_V4 + 5, 0), FRAME_LENGTH);
}

static void a_datagram_must_hold_an_icrc(void **state)
{
	uint8_t bytes[sizeof(golden_v6)];
	struct frame frame;

	(void)state;
	memcpy(bytes, golden_v6, sizeof(bytes));
	store_be16(bytes + IP + 4, 11);
	store_be16(bytes + UDP_V6 + 4, 11);
	assert_int_equal(frame_parse(bytes, sizeof(bytes), &frame), FRAME_LENGTH);
	store_be16(bytes + IP + 4, 12);
	store_be16(bytes + UDP_V6 + 4, 12);
	assert_int_equal(frame_parse(bytes, sizeof(bytes), &frame), FRAME_ROCE);
	assert_int_equal(frame.bth_bytes, 0);
	store_be16(bytes + IP + 4, 7);
	assert_int_equal(frame_parse(bytes, sizeof(bytes), &frame), FRAME_LENGTH);
}

/* In memory of exactly that size: a byte too far is seen by the address sanitizer. */
static void cut_frames_are_short(void **state)
{
	struct frame frame;

	(void)state;
	for (size_t length = 0; length < sizeof(golden_v6); length++) {
		uint8_t *bytes = malloc(length + !length);

		assert_non_null(bytes);
		memcpy(bytes, golden_v6, length);
		assert_int_equal(frame_parse(bytes, length, &frame), FRAME_SHORT);
		if (length < sizeof(golden_v4)) {
			memcpy(bytes, golden_v4, length);
			assert_int_equal(frame_parse(bytes, length, &frame), FRAME_SHORT);
		}
		free(bytes);
	}
}

static void ethernet_padding_is_ignored(void **state)
{
	uint8_t bytes[sizeof(golden_v4) + 20];
	struct frame frame;

	(void)state;
	memset(bytes, 0xee, sizeof(bytes));
	memcpy(bytes, golden_v4, sizeof(golden_v4));
	assert_int_equal(frame_parse(bytes, sizeof(bytes), &frame), FRAME_ROCE);
	assert_int_equal(frame.bth_bytes, 16);
	assert_int_equal(frame.icrc, 0x006f5696);
}

static void a_wrong_ipv4_checksum_is_seen(void **state)
{
	uint8_t bytes[sizeof(golden_v4)];
	struct frame frame;

	(void)state;
	memcpy(bytes, golden_v4, sizeof(bytes));
	for (unsigned bit = 8 * 10; bit < 8 * 20; bit++) {
		bytes[IP + bit / 8] ^= 1u << bit % 8;
		assert_int_equal(frame_parse(bytes, sizeof(bytes), &frame), FRAME_CHECKSUM);
		bytes[IP + bit / 8] ^= 1u << bit % 8;
	}
}

/* With a UDP checksum each flip of datagram or addresses shows. */
static void check_udp_checksum(const uint8_t *golden, size_t length, size_t udp)
{
	uint8_t bytes[sizeof(golden_v6)];
	struct frame frame;

	assert_int_equal(frame_parse(golden, length, &frame), FRAME_ROCE);
	frame.envelope.has_udp_checksum = true;
	assert_int_equal(frame_emit(&frame, bytes, sizeof(bytes)), length);
	assert_int_not_equal(load_be16(bytes + udp + 6), 0);
	assert_int_equal(frame_parse(bytes, length, &frame), FRAME_ROCE);
	assert_true(frame.envelope.has_udp_checksum);
	for (size_t bit = 8 * (udp + 8); bit < 8 * length; bit++) {
		bytes[bit / 8] ^= 1u << bit % 8;
		assert_int_equal(frame_parse(bytes, length, &frame), FRAME_CHECKSUM);
		bytes[bit / 8] ^= 1u << bit % 8;
	}
	bytes[udp - 1] ^= 1;
	if (udp == UDP_V4)
		set_ipv4_checksum(bytes);
	assert_int_equal(frame_parse(bytes, length, &frame), FRAME_CHECKSUM);
}

static void a_wrong_udp_checksum_is_seen(void **state)
{
	(void)state;
	check_udp_checksum(golden_v4, sizeof(golden_v4), UDP_V4);
	check_udp_checksum(golden_v6, sizeof(golden_v6), UDP_V6);
}

/* Worked out by hand: pseudo header and datagram of these few words sum up to 0xffff. */
static void a_udp_checksum_of_zero_is_sent_as_ones(void **state)
{
	uint8_t bth[4] = {0};
	uint8_t bytes[FRAME_HEADER_BYTES_MAX + 8];
	struct frame frame = {.envelope = {.has_udp_checksum = true}, .bth = bth, .bth_bytes = 4};

	(void)state;
	/* 17 + length twice + ports + data = 0xffff */
	store_be16(bth, (uint16_t)(0xffff - 17 - 2 * 16 - 4791));
	assert_int_equal(frame_emit(&frame, bytes, sizeof(bytes)), UDP_V4 + 16);
	assert_int_equal(load_be16(bytes + UDP_V4 + 6), 0xffff);
	assert_int_equal(frame_parse(bytes, UDP_V4 + 16, &frame), FRAME_ROCE);
}

static void what_does_not_fit_is_not_written(void **state)
{
	static uint8_t bth[70000], bytes[70000];
	struct frame frame = {.bth = bth};
	uint8_t small[UDP_V4 + 8 + 16 + 4];

	(void)state;
	frame.bth_bytes = 16;
	assert_int_equal(frame_emit(&frame, small, sizeof(small) - 1), 0);
	assert_int_equal(frame_emit(&frame, small, sizeof(small)), sizeof(small));
	frame.bth_bytes = 65535 - 20 - 8 - 4;
	assert_int_equal(frame_emit(&frame, bytes, sizeof(bytes)), 14 + 65535);
	frame.bth_bytes++;
	assert_int_equal(frame_emit(&frame, bytes, sizeof(bytes)), 0);
	frame.bth_bytes = SIZE_MAX;
	assert_int_equal(frame_emit(&frame, bytes, sizeof(bytes)), 0);
}

static void a_packet_may_be_framed_where_it_lies(void **state)
{
	uint8_t bytes[sizeof(golden_v4)];
	struct frame frame;

	(void)state;
	assert_int_equal(frame_parse(golden_v4, sizeof(golden_v4), &frame), FRAME_ROCE);
	memcpy(bytes, frame.bth, frame.bth_bytes);
	frame.bth = bytes;
	assert_int_equal(frame_emit(&frame, bytes, sizeof(bytes)), sizeof(bytes));
	assert_memory_equal(bytes, golden_v4, sizeof(bytes));
}

static struct frame_envelope random_envelope(struct random_stream *random)
{
	struct frame_envelope envelope = {
		.icrc.is_ipv6 = random_next(random) & 1,
		.icrc.source_port = (uint16_t)random_next(random),
		.traffic_class = (uint8_t)random_next(random),
		.hop_limit = (uint8_t)random_next(random),
		.has_udp_checksum = random_next(random) & 1,
	};
	size_t address_bytes = envelope.icrc.is_ipv6 ? 16 : 4;

	sample_bytes(random, envelope.destination_mac, 6);
	sample_bytes(random, envelope.source_mac, 6);
	sample_bytes(random, envelope.icrc.source, address_bytes);
	sample_bytes(random, envelope.icrc.destination, address_bytes);
	if (envelope.icrc.is_ipv6) {
		envelope.flow_label = random_next(random) & 0xfffff;
	} else {
		envelope.icrc.identification = (uint16_t)random_next(random);
		envelope.icrc.dont_fragment = random_next(random) & 1;
	}
	return envelope;
}

static void assert_same_envelope(const struct frame_envelope *a, const struct frame_envelope *b)
{
	assert_memory_equal(a->destination_mac, b->destination_mac, 6);
	assert_memory_equal(a->source_mac, b->source_mac, 6);
	assert_int_equal(a->icrc.is_ipv6, b->icrc.is_ipv6);
	assert_memory_equal(a->icrc.source, b->icrc.source, 16);
	assert_memory_equal(a->icrc.destination, b->icrc.destination, 16);
	assert_int_equal(a->icrc.identification, b->icrc.identification);
	assert_int_equal(a->icrc.dont_fragment, b->icrc.dont_fragment);
	assert_int_equal(a->icrc.source_port, b->icrc.source_port);
	assert_int_equal(a->traffic_class, b->traffic_class);
	assert_int_equal(a->flow_label, b->flow_label);
	assert_int_equal(a->hop_limit, b->hop_limit);
	assert_int_equal(a->has_udp_checksum, b->has_udp_checksum);
}

static void random_frames_make_the_round_trip(void **state)
{
	struct random_stream random = {40};
	uint8_t bth[128], bytes[FRAME_HEADER_BYTES_MAX + sizeof(bth) + ICRC_BYTES];

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		struct frame frame = {
			.envelope = random_envelope(&random),
			.bth = bth,
			.bth_bytes = random_below(&random, sizeof(bth) + 1),
			.icrc = (uint32_t)random_next(&random),
		};
		struct frame again;
		size_t length;

		sample_bytes(&random, bth, frame.bth_bytes);
		length = frame_emit(&frame, bytes, sizeof(bytes));
		assert_int_equal(frame_parse(bytes, length, &again), FRAME_ROCE);
		assert_same_envelope(&again.envelope, &frame.envelope);
		assert_int_equal(again.icrc, frame.icrc);
		assert_int_equal(again.bth_bytes, frame.bth_bytes);
		assert_memory_equal(again.bth, bth, frame.bth_bytes);
	}
}

/* Damaged golden frames get deeper into the parser than noise does. */
static void any_bytes_are_fine(void **state)
{
	struct random_stream random = {41};
	unsigned legal = 0;

	(void)state;
	for (unsigned round = 0; round < 100000; round++) {
		bool is_ipv6 = random_next(&random) & 1;
		size_t whole = is_ipv6 ? sizeof(golden_v6) : sizeof(golden_v4);
		size_t length = whole - random_below(&random, 2) * random_below(&random, whole);
		uint8_t *bytes = malloc(length);
		struct frame frame;

		assert_non_null(bytes);
		memcpy(bytes, is_ipv6 ? golden_v6 : golden_v4, length);
		for (unsigned i = (unsigned)random_below(&random, 4); i; i--)
			bytes[random_below(&random, length)] = (uint8_t)random_next(&random);
		if (frame_parse(bytes, length, &frame) == FRAME_ROCE) {
			legal++;
			assert_true(frame.bth + frame.bth_bytes + ICRC_BYTES <= bytes + length);
		}
		free(bytes);
	}
	assert_true(legal > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grh_is_the_header_that_came),
		cmocka_unit_test(every_field_of_ipv4),
		cmocka_unit_test(every_field_of_ipv6),
		cmocka_unit_test(golden_frames_come_out_again),
		cmocka_unit_test(other_protocols),
		cmocka_unit_test(options_and_fragments),
		cmocka_unit_test(lengths_that_contradict),
		cmocka_unit_test(a_datagram_must_hold_an_icrc),
		cmocka_unit_test(cut_frames_are_short),
		cmocka_unit_test(ethernet_padding_is_ignored),
		cmocka_unit_test(a_wrong_ipv4_checksum_is_seen),
		cmocka_unit_test(a_wrong_udp_checksum_is_seen),
		cmocka_unit_test(a_udp_checksum_of_zero_is_sent_as_ones),
		cmocka_unit_test(what_does_not_fit_is_not_written),
		cmocka_unit_test(a_packet_may_be_framed_where_it_lies),
		cmocka_unit_test(random_frames_make_the_round_trip),
		cmocka_unit_test(any_bytes_are_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
