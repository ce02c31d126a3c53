/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each field of each message alone: it changes the bits that the specification gives it (IBA
 * tables 99 to 118, counted here as byte and bit of the MAD's data), no other ones, and
 * comes back. What a kernel made of them is in captures_cm_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "wire/cm_message.h"

struct place {
	enum cm_kind kind;
	const char *name;
	size_t member, size;
	uint32_t byte, bit, bits; /* bit 0 is the most significant one of the byte */
};

#define AT(kind, name, byte, bit, bits) \
	{ \
		kind, #name, offsetof(struct cm_message, name), \
			sizeof(((struct cm_message *)0)->name), byte, bit, bits \
	}

/* clang-format off */
static const struct place places[] = {
	AT(CM_REQ, local_id, 0, 0, 32),
	AT(CM_REQ, ece_vendor, 5, 0, 24),
	AT(CM_REQ, req.service_id, 8, 0, 64),
	AT(CM_REQ, req.ca_guid, 16, 0, 64),
	AT(CM_REQ, req.qkey, 28, 0, 32),
	AT(CM_REQ, req.qpn, 32, 0, 24),
	AT(CM_REQ, req.responder_resources, 35, 0, 8),
	AT(CM_REQ, req.eecn, 36, 0, 24),
	AT(CM_REQ, req.initiator_depth, 39, 0, 8),
	AT(CM_REQ, req.remote_eecn, 40, 0, 24),
	AT(CM_REQ, req.remote_response_timeout, 43, 0, 5),
	AT(CM_REQ, req.service_type, 43, 5, 2),
	AT(CM_REQ, req.flow_control, 43, 7, 1),
	AT(CM_REQ, req.starting_psn, 44, 0, 24),
	AT(CM_REQ, req.local_response_timeout, 47, 0, 5),
	AT(CM_REQ, req.retry_count, 47, 5, 3),
	AT(CM_REQ, req.pkey, 48, 0, 16),
	AT(CM_REQ, req.mtu, 50, 0, 4),
	AT(CM_REQ, req.rdc_exists, 50, 4, 1),
	AT(CM_REQ, req.rnr_retry_count, 50, 5, 3),
	AT(CM_REQ, req.max_cm_retries, 51, 0, 4),
	AT(CM_REQ, req.srq, 51, 4, 1),
	AT(CM_REQ, req.extended_type, 51, 5, 3),
	AT(CM_REQ, req.primary.local_lid, 52, 0, 16),
	AT(CM_REQ, req.primary.remote_lid, 54, 0, 16),
	AT(CM_REQ, req.primary.local_gid, 56, 0, 128),
	AT(CM_REQ, req.primary.remote_gid, 72, 0, 128),
	AT(CM_REQ, req.primary.flow_label, 88, 0, 20),
	AT(CM_REQ, req.primary.packet_rate, 91, 2, 6),
	AT(CM_REQ, req.primary.traffic_class, 92, 0, 8),
	AT(CM_REQ, req.primary.hop_limit, 93, 0, 8),
	AT(CM_REQ, req.primary.sl, 94, 0, 4),
	AT(CM_REQ, req.primary.subnet_local, 94, 4, 1),
	AT(CM_REQ, req.primary.ack_timeout, 95, 0, 5),
	AT(CM_REQ, req.alternate.local_lid, 96, 0, 16),
	AT(CM_REQ, req.alternate.remote_lid, 98, 0, 16),
	AT(CM_REQ, req.alternate.local_gid, 100, 0, 128),
	AT(CM_REQ, req.alternate.remote_gid, 116, 0, 128),
	AT(CM_REQ, req.alternate.flow_label, 132, 0, 20),
	AT(CM_REQ, req.alternate.packet_rate, 135, 2, 6),
	AT(CM_REQ, req.alternate.traffic_class, 136, 0, 8),
	AT(CM_REQ, req.alternate.hop_limit, 137, 0, 8),
	AT(CM_REQ, req.alternate.sl, 138, 0, 4),
	AT(CM_REQ, req.alternate.subnet_local, 138, 4, 1),
	AT(CM_REQ, req.alternate.ack_timeout, 139, 0, 5),
	AT(CM_MRA, local_id, 0, 0, 32),
	AT(CM_MRA, remote_id, 4, 0, 32),
	AT(CM_MRA, mra.about, 8, 0, 2),
	AT(CM_MRA, mra.service_timeout, 9, 0, 5),
	AT(CM_REJ, local_id, 0, 0, 32),
	AT(CM_REJ, remote_id, 4, 0, 32),
	AT(CM_REJ, rej.about, 8, 0, 2),
	AT(CM_REJ, rej.reason, 10, 0, 16),
	AT(CM_REP, local_id, 0, 0, 32),
	AT(CM_REP, remote_id, 4, 0, 32),
	AT(CM_REP, rep.qkey, 8, 0, 32),
	AT(CM_REP, rep.qpn, 12, 0, 24),
	AT(CM_REP, rep.eecn, 16, 0, 24),
	AT(CM_REP, rep.starting_psn, 20, 0, 24),
	AT(CM_REP, rep.responder_resources, 24, 0, 8),
	AT(CM_REP, rep.initiator_depth, 25, 0, 8),
	AT(CM_REP, rep.target_ack_delay, 26, 0, 5),
	AT(CM_REP, rep.failover_accepted, 26, 5, 2),
	AT(CM_REP, rep.flow_control, 26, 7, 1),
	AT(CM_REP, rep.rnr_retry_count, 27, 0, 3),
	AT(CM_REP, rep.srq, 27, 3, 1),
	AT(CM_REP, rep.ca_guid, 28, 0, 64),
	AT(CM_RTU, local_id, 0, 0, 32),
	AT(CM_RTU, remote_id, 4, 0, 32),
	AT(CM_DREQ, local_id, 0, 0, 32),
	AT(CM_DREQ, remote_id, 4, 0, 32),
	AT(CM_DREQ, dreq.remote_qpn, 8, 0, 24),
	AT(CM_DREP, local_id, 0, 0, 32),
	AT(CM_DREP, remote_id, 4, 0, 32),
	AT(CM_SIDR_REQ, local_id, 0, 0, 32),
	AT(CM_SIDR_REQ, sidr_req.pkey, 4, 0, 16),
	AT(CM_SIDR_REQ, sidr_req.service_id, 8, 0, 64),
	AT(CM_SIDR_REP, local_id, 0, 0, 32),
	AT(CM_SIDR_REP, sidr_rep.status, 4, 0, 8),
	AT(CM_SIDR_REP, sidr_rep.qpn, 8, 0, 24),
	AT(CM_SIDR_REP, sidr_rep.service_id, 12, 0, 64),
	AT(CM_SIDR_REP, sidr_rep.qkey, 20, 0, 32),
	AT(CM_LAP, local_id, 0, 0, 32),
	AT(CM_LAP, remote_id, 4, 0, 32),
	AT(CM_APR, local_id, 0, 0, 32),
	AT(CM_APR, remote_id, 4, 0, 32),
	AT(CM_APR, apr.status, 9, 0, 8),
};

/* Kind, where its private data stand, and how many. */
static const struct {
	enum cm_kind kind;
	const char *name;
	uint32_t private_at, private_bytes, info_at;
} areas[] = {
	{CM_REQ, "REQ", 140, 92, 0},	      {CM_MRA, "MRA", 10, 222, 0},
	{CM_REJ, "REJ", 84, 148, 12},	      {CM_REP, "REP", 36, 196, 0},
	{CM_RTU, "RTU", 8, 224, 0},	      {CM_DREQ, "DREQ", 12, 220, 0},
	{CM_DREP, "DREP", 8, 224, 0},	      {CM_SIDR_REQ, "SIDR_REQ", 16, 216, 0},
	{CM_SIDR_REP, "SIDR_REP", 96, 136, 24}, {CM_APR, "APR", 84, 148, 12},
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct cm_message parsed(const uint8_t *bytes)
{
	struct cm_message message;

	memset(&message, 0xcc, sizeof(message));
	assert_int_equal(cm_message_parse(bytes, &message), REASON_NONE);
	return message;
}

/* Bits of the MAD's data that @place may use, and all of them if the member is all ones. */
static void expected_ones(const struct place *place, uint8_t data[MAD_DATA_BYTES])
{
	memset(data, 0, MAD_DATA_BYTES);
	for (uint32_t i = 0; i < place->bits; i++) {
		uint32_t bit = place->byte * 8 + place->bit + i;

		data[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
	}
}

static bool is_flag(const struct place *place)
{
	return place->bits == 1;
}

static void all_ones(const struct place *place)
{
	struct cm_message message = {.kind = place->kind}, again;
	uint8_t bytes[MAD_BYTES], data[MAD_DATA_BYTES];
	uint64_t value = 0, limit = place->bits < 64 ? (1ull << place->bits) - 1 : UINT64_MAX;

	memset((uint8_t *)&message + place->member, is_flag(place) ? 1 : 0xff, place->size);
	cm_message_emit(&message, bytes);
	expected_ones(place, data);
	if (memcmp(bytes + MAD_HEADER_BYTES, data, sizeof(data)) != 0)
		fail_msg("%s: %s stands elsewhere", cm_kind_name(place->kind), place->name);
	again = parsed(bytes);
	memcpy(&value, (uint8_t *)&again + place->member, place->size < 8 ? place->size : 8);
	if (value != limit && place->bits <= 64)
		fail_msg("%s: %s is cut to its width, and not read as that",
			 cm_kind_name(place->kind), place->name);
}

/* Any value, and everything else stays zero. */
static void comes_back(const struct place *place, struct random_stream *random)
{
	struct cm_message message, again;
	uint8_t bytes[MAD_BYTES], *member = (uint8_t *)&message + place->member;
	uint64_t value = random_next(random);

	memset(&message, 0, sizeof(message)); /* padding too */
	message.kind = place->kind;
	if (place->bits < 64)
		value &= (1ull << place->bits) - 1;
	for (size_t i = 0; i < place->size; i += 8)
		memcpy(member + i, &value, place->size < 8 ? place->size : 8);
	message.private_bytes = (uint8_t)cm_private_bytes(place->kind);
	cm_message_emit(&message, bytes);
	again = parsed(bytes);
	if (memcmp(&message, &again, sizeof(again)) != 0)
		fail_msg("%s: %s does not come back", cm_kind_name(place->kind), place->name);
}

static void every_field_has_its_place(void **state)
{
	struct random_stream random = {7};

	(void)state;
	for (size_t i = 0; i < COUNT(places); i++) {
		all_ones(&places[i]);
		for (int round = 0; round < 100; round++)
			comes_back(&places[i], &random);
	}
}

static void header_is_that_of_the_class(void **state)
{
	(void)state;
	for (uint32_t kind = CM_REQ; kind <= CM_APR; kind++) {
		struct cm_message message = {
			.kind = kind,
			.transaction = 0x1122334455667788,
			.ece_options = 0xa1a2a3a4,
		};
		const uint8_t expected[MAD_HEADER_BYTES] = {
			1,    7,    2,	  3,	0,    0,    0,	  0, 0x11,
			0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, (uint8_t)kind,
			0,    0,    0xa1, 0xa2, 0xa3, 0xa4,
		};
		uint8_t bytes[MAD_BYTES];
		struct cm_message again;

		cm_message_emit(&message, bytes);
		assert_memory_equal(bytes, expected, sizeof(expected));
		again = parsed(bytes);
		assert_int_equal(again.kind, kind);
		assert_int_equal(again.transaction, message.transaction);
		assert_int_equal(again.ece_options, message.ece_options);
	}
}

static void private_data_have_their_area(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(areas); i++) {
		struct cm_message message, again;
		uint8_t bytes[MAD_BYTES], data[MAD_DATA_BYTES] = {0};

		memset(&message, 0, sizeof(message));
		message.kind = areas[i].kind;
		assert_int_equal(cm_private_bytes(areas[i].kind), areas[i].private_bytes);
		assert_string_equal(cm_kind_name(areas[i].kind), areas[i].name);
		for (uint32_t k = 0; k < areas[i].private_bytes; k++)
			data[areas[i].private_at + k] = message.private_data[k] = (uint8_t)(k + 1);
		message.private_bytes = (uint8_t)areas[i].private_bytes;
		cm_message_emit(&message, bytes);
		assert_memory_equal(bytes + MAD_HEADER_BYTES, data, sizeof(data));
		again = parsed(bytes);
		assert_memory_equal(&again, &message, sizeof(again));
		/* Short ones are followed by zeros. */
		message.private_bytes = 3;
		cm_message_emit(&message, bytes);
		again = parsed(bytes);
		assert_int_equal(again.private_bytes, areas[i].private_bytes);
		assert_int_equal(again.private_data[2], 3);
		for (uint32_t k = 3; k < sizeof(again.private_data); k++)
			assert_int_equal(again.private_data[k], 0);
	}
	assert_int_equal(cm_private_bytes(CM_LAP), 0);
	assert_int_equal(cm_private_bytes(CM_REQ - 1), 0);
	assert_int_equal(cm_private_bytes(CM_APR + 1), 0);
	assert_string_equal(cm_kind_name(CM_APR + 1), "?");
}

static void additional_information_has_its_area(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(areas); i++) {
		struct cm_message message = {.kind = areas[i].kind}, again;
		uint8_t bytes[MAD_BYTES];

		if (!areas[i].info_at)
			continue;
		message.info_bytes = 8;
		memset(message.info, 0xd7, sizeof(message.info));
		cm_message_emit(&message, bytes);
		again = parsed(bytes);
		assert_int_equal(again.info_bytes, 8);
		for (uint32_t k = 0; k < CM_INFO_BYTES; k++) {
			uint8_t expected = k < 8 ? 0xd7 : 0;

			assert_int_equal(bytes[MAD_HEADER_BYTES + areas[i].info_at + k], expected);
			assert_int_equal(again.info[k], expected);
		}
	}
}

/* A length that no message can have is cut. */
static void information_never_exceeds_its_area(void **state)
{
	struct cm_message message = {.kind = CM_REJ};
	uint8_t bytes[MAD_BYTES];

	(void)state;
	cm_message_emit(&message, bytes);
	bytes[MAD_HEADER_BYTES + 9] = 0xff;
	assert_int_equal(parsed(bytes).info_bytes, CM_INFO_BYTES);
	bytes[MAD_HEADER_BYTES + 9] = 73 << 1;
	assert_int_equal(parsed(bytes).info_bytes, CM_INFO_BYTES);
	message.kind = CM_SIDR_REP;
	cm_message_emit(&message, bytes);
	bytes[MAD_HEADER_BYTES + 5] = 0xff;
	assert_int_equal(parsed(bytes).info_bytes, CM_INFO_BYTES);
	message.kind = CM_APR;
	cm_message_emit(&message, bytes);
	bytes[MAD_HEADER_BYTES + 8] = 200;
	assert_int_equal(parsed(bytes).info_bytes, CM_INFO_BYTES);
}

/* In three parts in a REP and two in a SIDR_REP. */
static void vendor_number_is_put_together(void **state)
{
	struct cm_message message = {.kind = CM_REP, .ece_vendor = 0x123456};
	uint8_t bytes[MAD_BYTES];

	(void)state;
	cm_message_emit(&message, bytes);
	assert_int_equal(bytes[MAD_HEADER_BYTES + 15], 0x12);
	assert_int_equal(bytes[MAD_HEADER_BYTES + 19], 0x34);
	assert_int_equal(bytes[MAD_HEADER_BYTES + 23], 0x56);
	assert_int_equal(parsed(bytes).ece_vendor, 0x123456);
	message.kind = CM_SIDR_REP;
	cm_message_emit(&message, bytes);
	assert_int_equal(bytes[MAD_HEADER_BYTES + 6], 0x12);
	assert_int_equal(bytes[MAD_HEADER_BYTES + 7], 0x34);
	assert_int_equal(bytes[MAD_HEADER_BYTES + 11], 0x56);
	assert_int_equal(parsed(bytes).ece_vendor, 0x123456);
}

static void refused(uint32_t at, uint8_t value, enum reason reason)
{
	struct cm_message message = {.kind = CM_RTU}, untouched;
	uint8_t bytes[MAD_BYTES];

	cm_message_emit(&message, bytes);
	bytes[at] = value;
	memset(&message, 0x77, sizeof(message));
	untouched = message;
	assert_int_equal(cm_message_parse(bytes, &message), reason);
	assert_memory_equal(&message, &untouched, sizeof(message));
}

static void foreign_datagrams_are_refused(void **state)
{
	(void)state;
	refused(0, 2, REASON_DROP_MAD_VERSION);
	refused(2, 1, REASON_DROP_MAD_VERSION);
	refused(2, 3, REASON_DROP_MAD_VERSION);
	refused(3, MAD_METHOD_GET, REASON_DROP_MAD_METHOD);
	refused(3, MAD_METHOD_SEND | MAD_METHOD_RESPONSE, REASON_DROP_MAD_METHOD);
	refused(16, 1, REASON_DROP_MAD_METHOD);
	refused(17, CM_REQ - 1, REASON_DROP_MAD_METHOD);
	refused(17, CM_APR + 1, REASON_DROP_MAD_METHOD);
	refused(17, 0, REASON_DROP_MAD_METHOD);
}

/* What comes out of any bytes goes in again as the same message. */
static void any_bytes_are_fine(void **state)
{
	struct random_stream random = {11};

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct cm_message message, again;
		uint8_t bytes[MAD_BYTES], second[MAD_BYTES];

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)random_next(&random);
		memcpy(bytes, (const uint8_t[]){1, 7, 2, 3}, 4);
		bytes[16] = 0;
		bytes[17] = (uint8_t)random_between(&random, CM_REQ, CM_APR);
		message = parsed(bytes);
		cm_message_emit(&message, second);
		again = parsed(second);
		/* Beyond the length that it tells information does not travel. */
		memset(message.info + message.info_bytes, 0, CM_INFO_BYTES - message.info_bytes);
		assert_memory_equal(&message, &again, sizeof(message));
	}
}

static void receivers_and_services_are_found(void **state)
{
	(void)state;
	for (uint32_t kind = CM_REQ; kind <= CM_APR; kind++) {
		struct cm_message message = {
			.kind = kind,
			.local_id = 0x01020304,
			.remote_id = 0xf5f6f7f8,
		};
		bool is_request = kind == CM_REQ || kind == CM_SIDR_REQ;
		uint64_t service = cm_service_id(CM_PORT_SPACE_TCP, 7174);
		uint8_t bytes[MAD_BYTES];
		uint32_t id = 0;

		if (kind == CM_REQ)
			message.req.service_id = service;
		if (kind == CM_SIDR_REQ)
			message.sidr_req.service_id = service;
		cm_message_emit(&message, bytes);
		assert_int_equal(cm_message_receiver(bytes, &id), !is_request);
		if (!is_request)
			assert_int_equal(id, kind == CM_SIDR_REP ? 0x01020304 : 0xf5f6f7f8);
		service = 0;
		assert_int_equal(cm_message_service(bytes, &service), is_request);
		assert_int_equal(service, is_request ? 0x01061c06 : 0);
		bytes[1] = 0x30;
		assert_false(cm_message_receiver(bytes, &id));
		assert_false(cm_message_service(bytes, &service));
	}
}

static void ip_header_has_its_places(void **state)
{
	static const uint8_t v4_bytes[CM_IP_BYTES] = {
		0, 0x40, 0xe3, 0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  10, 77,
		0, 2,	 0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 0,  3,
	};
	struct cm_ip ip = {
		.source_port = 0xe335,
		.source = {[10] = 0xff, 0xff, 10, 77, 0, 2},
		.destination = {[10] = 0xff, 0xff, 10, 77, 0, 3},
	};
	struct cm_ip again = {0};
	uint8_t bytes[CM_IP_BYTES];

	(void)state;
	memset(bytes, 0xee, sizeof(bytes));
	cm_ip_emit(&ip, bytes);
	assert_memory_equal(bytes, v4_bytes, sizeof(bytes));
	assert_true(cm_ip_parse(bytes, sizeof(bytes), &again));
	assert_memory_equal(&again, &ip, sizeof(ip));
	ip.is_ipv6 = true;
	for (uint8_t i = 0; i < 16; i++) {
		ip.source[i] = (uint8_t)(0x20 + i);
		ip.destination[i] = (uint8_t)(0x40 + i);
	}
	cm_ip_emit(&ip, bytes);
	assert_int_equal(bytes[1], 0x60);
	assert_memory_equal(bytes + 4, ip.source, 16);
	assert_memory_equal(bytes + 20, ip.destination, 16);
	assert_true(cm_ip_parse(bytes, sizeof(bytes), &again));
	assert_memory_equal(&again, &ip, sizeof(ip));
}

static void what_is_no_ip_header_is_refused(void **state)
{
	struct cm_ip ip = {.source_port = 1}, again;
	uint8_t bytes[CM_IP_BYTES];

	(void)state;
	cm_ip_emit(&ip, bytes);
	assert_true(cm_ip_parse(bytes, CM_REQ_PRIVATE_BYTES, &again));
	assert_false(cm_ip_parse(bytes, CM_IP_BYTES - 1, &again));
	bytes[0] = 0x10;
	assert_false(cm_ip_parse(bytes, sizeof(bytes), &again));
	bytes[0] = 0;
	bytes[1] = 0x50;
	assert_false(cm_ip_parse(bytes, sizeof(bytes), &again));
	bytes[1] = 0;
	assert_false(cm_ip_parse(bytes, sizeof(bytes), &again));
}

static void every_reason_has_words(void **state)
{
	(void)state;
	for (uint16_t reason = CM_REJECT_NO_QP; reason <= CM_REJECT_ALTERNATE_FLOW_LABEL; reason++)
		assert_string_not_equal(cm_reject_text(reason), "unknown reason");
	assert_string_not_equal(cm_reject_text(CM_REJECT_VENDOR_OPTION), "unknown reason");
	assert_string_equal(cm_reject_text(0), "unknown reason");
	assert_string_equal(cm_reject_text(34), "unknown reason");
	assert_string_equal(cm_reject_text(36), "unknown reason");
	assert_string_equal(cm_reject_text(UINT16_MAX), "unknown reason");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_has_its_place),
		cmocka_unit_test(header_is_that_of_the_class),
		cmocka_unit_test(private_data_have_their_area),
		cmocka_unit_test(additional_information_has_its_area),
		cmocka_unit_test(information_never_exceeds_its_area),
		cmocka_unit_test(vendor_number_is_put_together),
		cmocka_unit_test(foreign_datagrams_are_refused),
		cmocka_unit_test(any_bytes_are_fine),
		cmocka_unit_test(receivers_and_services_are_found),
		cmocka_unit_test(ip_header_has_its_places),
		cmocka_unit_test(what_is_no_ip_header_is_refused),
		cmocka_unit_test(every_reason_has_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
