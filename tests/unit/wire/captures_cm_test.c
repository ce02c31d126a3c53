/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every message of the connection manager that the kernel sent, against our reading and writing:
 * understood, and the same 256 bytes again. What is in them was read by hand from the hex dump.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "captures/capture_reader.h"
#include "wire/cm_message.h"

static void comes_out_again(void *context, const struct captured_frame *captured)
{
	unsigned *counts = context;
	struct cm_message message;
	uint8_t again[MAD_BYTES];
	struct captured_mad mad;
	struct mad_header header;

	if (!capture_mad(captured, &mad))
		return;
	assert_int_equal(mad_parse(mad.bytes, sizeof(mad.bytes), &header), REASON_NONE);
	assert_int_equal(header.mgmt_class, MAD_CLASS_CM);
	assert_int_equal(cm_message_parse(mad.bytes, &message), REASON_NONE);
	memset(again, 0xee, sizeof(again));
	cm_message_emit(&message, again);
	if (memcmp(again, mad.bytes, sizeof(again)) != 0)
		fail_msg("%s, frame %u: %s comes out otherwise", captured->file, captured->number,
			 cm_kind_name(message.kind));
	counts[message.kind - CM_REQ]++;
}

static void every_message_comes_out_again(void **state)
{
	static const unsigned expected[CM_APR - CM_REQ + 1] = {
		[CM_REQ - CM_REQ] = 15,	    [CM_REJ - CM_REQ] = 4,	[CM_REP - CM_REQ] = 3,
		[CM_RTU - CM_REQ] = 3,	    [CM_DREQ - CM_REQ] = 3,	[CM_DREP - CM_REQ] = 3,
		[CM_SIDR_REQ - CM_REQ] = 1, [CM_SIDR_REP - CM_REQ] = 1,
	};
	unsigned counts[CM_APR - CM_REQ + 1] = {0};

	(void)state;
	assert_int_equal(capture_each_file("-cm-", comes_out_again, counts), 8);
	for (uint32_t kind = 0; kind <= CM_APR - CM_REQ; kind++)
		if (counts[kind] != expected[kind])
			fail_msg("%u of %s", counts[kind], cm_kind_name(CM_REQ + kind));
}

static struct cm_message message_of(const struct captured_mads *mads, unsigned index)
{
	struct cm_message message;

	assert_true(index < mads->count);
	assert_int_equal(cm_message_parse(mads->list[index].bytes, &message), REASON_NONE);
	return message;
}

static void request_says_what_rping_wants(void **state)
{
	static const uint8_t client[16] = {[10] = 0xff, 0xff, 10, 77, 0, 2};
	static const uint8_t server[16] = {[10] = 0xff, 0xff, 10, 77, 0, 3};
	struct captured_mads mads;
	struct cm_message req;
	struct cm_ip ip;

	(void)state;
	capture_read_mads("v4-cm-rping.pcap", &mads);
	req = message_of(&mads, 0);
	assert_int_equal(req.kind, CM_REQ);
	assert_int_equal(req.transaction, 0x00000002fabb858b);
	assert_int_equal(req.local_id, 0x8b85bbfa);
	assert_int_equal(req.req.service_id, cm_service_id(CM_PORT_SPACE_TCP, 7174));
	assert_int_equal(req.req.ca_guid, 0x505400fffe770002);
	assert_int_equal(req.req.qpn, 0x33);
	assert_int_equal(req.req.starting_psn, 0xca3762);
	assert_int_equal(req.req.responder_resources, 1);
	assert_int_equal(req.req.initiator_depth, 1);
	assert_int_equal(req.req.remote_response_timeout, 20);
	assert_int_equal(req.req.local_response_timeout, 20);
	assert_int_equal(req.req.service_type, CM_SERVICE_RC);
	assert_int_equal(req.req.retry_count, 7);
	assert_int_equal(req.req.rnr_retry_count, 7);
	assert_int_equal(req.req.max_cm_retries, 15);
	assert_int_equal(req.req.pkey, 0xffff);
	assert_int_equal(req.req.mtu, 3);
	assert_int_equal(req.req.primary.local_lid, 0xffff);
	assert_memory_equal(req.req.primary.local_gid, client, 16);
	assert_memory_equal(req.req.primary.remote_gid, server, 16);
	assert_int_equal(req.req.primary.hop_limit, 64);
	assert_int_equal(req.req.primary.ack_timeout, 19);
	assert_true(cm_ip_parse(req.private_data, req.private_bytes, &ip));
	assert_false(ip.is_ipv6);
	assert_int_equal(ip.source_port, 0xe335);
	assert_memory_equal(ip.source, client, 16);
	assert_memory_equal(ip.destination, server, 16);
}

static void answers_say_what_the_kernel_grants(void **state)
{
	struct captured_mads mads;
	struct cm_message rep, dreq;

	(void)state;
	capture_read_mads("v6-cm-rping.pcap", &mads);
	rep = message_of(&mads, 1);
	assert_int_equal(rep.kind, CM_REP);
	assert_int_equal(rep.local_id, 0xa97bed60);
	assert_int_equal(rep.remote_id, 0x8e85bbfa);
	assert_int_equal(rep.rep.qpn, 0x60);
	assert_int_equal(rep.rep.starting_psn, 0x927dd2);
	assert_int_equal(rep.rep.target_ack_delay, 15);
	assert_int_equal(rep.rep.rnr_retry_count, 7);
	assert_false(rep.rep.srq);
	assert_int_equal(rep.rep.ca_guid, 0x505400fffe770003);
	dreq = message_of(&mads, 3);
	assert_int_equal(dreq.kind, CM_DREQ);
	assert_int_equal(dreq.dreq.remote_qpn, 0x60);
}

static void refusals_say_why(void **state)
{
	struct captured_mads mads;
	struct cm_message rej;

	(void)state;
	capture_read_mads("v4-cm-rej-no-listener.pcap", &mads);
	rej = message_of(&mads, 1);
	assert_int_equal(rej.local_id, 0);
	assert_int_equal(rej.rej.about, CM_ABOUT_REQ);
	assert_int_equal(rej.rej.reason, CM_REJECT_SERVICE_ID);
	capture_read_mads("v6-cm-req-no-answer.pcap", &mads);
	rej = message_of(&mads, mads.count - 1);
	assert_int_equal(rej.remote_id, 0);
	assert_int_equal(rej.rej.about, CM_ABOUT_OTHER);
	assert_int_equal(rej.rej.reason, CM_REJECT_TIMEOUT);
	assert_int_equal(rej.info_bytes, 8);
}

static void datagram_services_are_resolved(void **state)
{
	struct captured_mads mads;
	struct cm_message req, rep;
	struct cm_ip ip;

	(void)state;
	capture_read_mads("v4-cm-udaddy.pcap", &mads);
	req = message_of(&mads, 0);
	assert_int_equal(req.local_id, 0x8a85bbfa);
	assert_int_equal(req.sidr_req.pkey, 0xffff);
	assert_int_equal(req.sidr_req.service_id, cm_service_id(CM_PORT_SPACE_UDP, 7174));
	assert_true(cm_ip_parse(req.private_data, req.private_bytes, &ip));
	assert_int_equal(ip.source_port, 0xaac0);
	rep = message_of(&mads, 1);
	assert_int_equal(rep.local_id, 0x8a85bbfa);
	assert_int_equal(rep.sidr_rep.status, CM_SIDR_SUCCESS);
	assert_int_equal(rep.sidr_rep.qpn, 0x39);
	assert_int_equal(rep.sidr_rep.qkey, 0x01234567);
	assert_int_equal(rep.sidr_rep.service_id, req.sidr_req.service_id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_comes_out_again),
		cmocka_unit_test(request_says_what_rping_wants),
		cmocka_unit_test(answers_say_what_the_kernel_grants),
		cmocka_unit_test(refusals_say_why),
		cmocka_unit_test(datagram_services_are_resolved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
