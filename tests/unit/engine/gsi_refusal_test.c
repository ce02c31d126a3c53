/* SPDX-License-Identifier: BSD-2-Clause */
/* QP 1: what is malformed or of nobody, how it is counted, and how it is answered. */
#include "unit/engine/party.h"

#include <string.h>

#include "base/byte_order.h"
#include "base/random.h"

static void what_is_malformed_is_counted(void **state)
{
	struct stranger *stranger = stranger_open("127.61.2.1");
	uint8_t mad[MAD_BYTES + 8] = {0};
	struct packet packet;
	struct party a;

	(void)state;
	party_open(&a, "127.61.2.2");
	fill_request(mad, CM_REQ, 1, 2);
	packet = well_formed();
	packet.deth.qkey = 0x80010001;
	expect_drop(stranger, &a, &packet, mad, REASON_DROP_QKEY);
	for (uint32_t bytes = 0; bytes <= MAD_BYTES + 8; bytes += bytes < 252 ? 63 : 1) {
		packet = well_formed();
		packet.payload_bytes = bytes;
		if (bytes != MAD_BYTES)
			expect_drop(stranger, &a, &packet, mad, REASON_DROP_MAD_LENGTH);
	}
	packet = well_formed();
	packet.opcode = 0x65; /* with immediate data */
	expect_drop(stranger, &a, &packet, mad, REASON_DROP_SERVICE);
	packet.opcode = 0x04; /* RC SEND_ONLY */
	expect_drop(stranger, &a, &packet, mad, REASON_DROP_SERVICE);
	packet = well_formed();
	packet.pkey = 0x1234;
	expect_drop(stranger, &a, &packet, mad, REASON_DROP_PKEY);
	packet = well_formed();
	mad[0] = 2;
	expect_drop(stranger, &a, &packet, mad, REASON_DROP_MAD_VERSION);
	assert_int_equal(counted(&a, REASON_DROP_NO_QP), 0);
	party_close(&a);
	stranger_close(stranger);
}

static void unknown_classes_are_answered_as_linux_does(void **state)
{
	static const struct {
		uint8_t class, method;
		uint16_t attribute;
		bool is_answered;
		enum reason reason;
	} table[] = {
		{0x03, MAD_METHOD_GET, 0x38, true,
		 REASON_DROP_MAD_CLASS}, /* subnet administration */
		{0x04, MAD_METHOD_SET, 0x12, true, REASON_DROP_MAD_CLASS}, /* performance */
		{0x04, MAD_METHOD_SEND, 0x12, false, REASON_DROP_MAD_CLASS},
		{0x04, MAD_METHOD_GET_RESP, 0x12, false, REASON_DROP_MAD_CLASS},
		{0x04, 0x06, 0x12, false, REASON_DROP_MAD_CLASS},
		{0x32, MAD_METHOD_GET, 0x10, true, REASON_DROP_MAD_CLASS},
		{0x31, MAD_METHOD_GET, 0x10, true, REASON_DROP_MAD_CLASS},	 /* another OUI */
		{0x31, MAD_METHOD_GET_RESP, 0x10, false, REASON_DROP_MAD_CLASS}, /* not asked */
		{0x07, MAD_METHOD_GET, 0x01, true, REASON_DROP_MAD_METHOD},
		{0x07, MAD_METHOD_GET_RESP, 0x10, false, REASON_DROP_MAD_METHOD},
		{0x01, MAD_METHOD_GET, 0x11, false, REASON_DROP_MAD_CLASS}, /* of QP 0 */
		{0x81, MAD_METHOD_GET, 0x11, false, REASON_DROP_MAD_CLASS},
	};
	struct stranger *stranger = stranger_open("127.61.2.3");
	struct packet packet = well_formed();
	uint8_t mad[MAD_BYTES];
	uint32_t answers = 0;
	struct party a;

	(void)state;
	party_open(&a, "127.61.2.4");
	packet.deth.source_qpn = 0x345678;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		fill_mad(mad, table[i].class, 1, table[i].method, table[i].attribute);
		if (!table[i].is_answered) {
			expect_drop(stranger, &a, &packet, mad, table[i].reason);
			continue;
		}
		uint64_t before = counted(&a, table[i].reason);

		stranger_say(stranger, &a, &packet, mad);
		mad[3] = MAD_METHOD_GET_RESP;
		store_be16(mad + 4, MAD_STATUS_UNSUPPORTED);
		assert_memory_equal(stranger_hears(stranger, ++answers, a.engine), mad, MAD_BYTES);
		assert_int_equal(stranger->heard_qpn, 0x345678);
		assert_int_equal(counted(&a, table[i].reason), before + 1);
	}
	/* What the handler does not want is counted as it says. */
	fill_mad(mad, MAD_CLASS_CM, 2, MAD_METHOD_SEND, 0x21);
	stranger_say(stranger, &a, &packet, mad);
	wait_for(&a, 1);
	WAIT_UNTIL(counted(&a, REASON_DROP_MAD_METHOD) == 3, a.engine);
	/* And nobody's, without a handler. */
	gsi_set_handler(a.engine, NULL, NULL);
	stranger_say(stranger, &a, &packet, mad);
	WAIT_UNTIL(counted(&a, REASON_DROP_MAD_CLASS) == 11, a.engine);
	assert_int_equal(heard_by(&a), 1);
	party_close(&a);
	stranger_close(stranger);
}

static void any_bytes_are_survived(void **state)
{
	struct stranger *stranger = stranger_open("127.61.2.5");
	struct random_stream numbers = {.state = 12};
	struct packet packet = well_formed();
	uint8_t mad[MAD_BYTES];
	uint64_t all = 0;
	struct party a;

	(void)state;
	party_open(&a, "127.61.2.6");
	gsi_set_handler(a.engine, NULL, NULL);
	for (uint32_t i = 0; i < 2000; i++) {
		for (size_t at = 0; at < MAD_BYTES; at += 8)
			store_be64(mad + at, random_next(&numbers));
		mad[0] = i % 8 ? 1 : mad[0];
		if (i % 3 == 0)
			mad[1] = i % 2 ? MAD_CLASS_CM : MEETING_CLASS;
		/* Not to be answered to, which would fill the stranger's ears. */
		mad[3] |= 0x40;
		stranger_say(stranger, &a, &packet, mad);
		if (i % 64 == 0)
			party_look(a.engine);
	}
	WAIT_UNTIL(({
			   all = 0;
			   for (int reason = 0; reason < REASON_COUNT; reason++)
				   all += counted(&a, (enum reason)reason);
			   all >= 2000;
		   }),
		   a.engine);
	assert_int_equal(counted(&a, REASON_DROP_NO_QP), 0);
	party_close(&a);
	stranger_close(stranger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_malformed_is_counted),
		cmocka_unit_test(unknown_classes_are_answered_as_linux_does),
		cmocka_unit_test(any_bytes_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
