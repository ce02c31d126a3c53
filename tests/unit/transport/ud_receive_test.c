/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams in: what is taken, what is dropped and why, and what the program finds. */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "transport/srq.h"
#include "unit/transport/rc_fixture.h"

#define SENDER_QPN 0x00fedcu
#define AREA 40

static struct datagram_source source;

static int make(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	settings.is_datagram = true;
	f = fixture_new(&settings);
	source = (struct datagram_source){.has_header = true};
	memset(source.header, 0x60, sizeof(source.header));
	f->core.source = &source;
	memset(f->memory, 0xee, 4096);
	*state = f;
	return 0;
}

static int drop(void **state)
{
	fixture_free(*state);
	return 0;
}

static uint8_t payload[2048];

static struct packet datagram(uint32_t length)
{
	memset(payload, 0x5a, sizeof(payload));
	return (struct packet){
		.opcode = opcode_byte(SERVICE_UD, OPCODE_SEND_ONLY),
		.dest_qpn = FIXTURE_QPN,
		.psn = 0x123456,
		.pkey = 0xffff,
		.deth = {.qkey = FIXTURE_QKEY, .source_qpn = SENDER_QPN},
		.payload = payload,
		.payload_bytes = length,
	};
}

static void header_and_payload_are_placed(void **state)
{
	struct fixture *f = *state;
	uint64_t wr_id = fixture_post_recv(f, 0, 200);
	struct packet packet = datagram(100);
	const struct completion *completion;

	assert_int_equal(fixture_receive(f, &packet), REASON_NONE);
	completion = fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS);
	assert_int_equal(completion->opcode, IBV_WC_RECV);
	assert_int_equal(completion->byte_len, AREA + 100);
	assert_int_equal(completion->wc_flags, IBV_WC_GRH);
	assert_int_equal(completion->source_qpn, SENDER_QPN);
	assert_int_equal(completion->source_lid, 0);
	assert_false(completion->is_solicited);
	assert_true(completion->is_receive);
	assert_memory_equal(f->memory, source.header, AREA);
	assert_memory_equal(f->memory + AREA, payload, 100);
	assert_int_equal(f->memory[AREA + 100], 0xee);
	fixture_expect_nothing(f);
}

static void immediate_and_solicited_arrive(void **state)
{
	struct fixture *f = *state;
	uint64_t wr_id = fixture_post_recv(f, 0, AREA);
	struct packet packet = datagram(0);
	const struct completion *completion;

	packet.opcode = opcode_byte(SERVICE_UD, OPCODE_SEND_ONLY_IMM);
	packet.immediate = htobe32(0x01020304);
	packet.solicited = true;
	assert_int_equal(fixture_receive(f, &packet), REASON_NONE);
	completion = fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS);
	assert_int_equal(completion->wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(completion->immediate, htobe32(0x01020304));
	assert_true(completion->is_solicited);
	assert_int_equal(completion->byte_len, AREA);
}

/* Where LIDs serve there is no header; the area is there all the same, and not as it was. */
static void without_a_header_the_lid_tells(void **state)
{
	struct fixture *f = *state;
	uint64_t wr_id = fixture_post_recv(f, 0, 200);
	struct packet packet = datagram(10);
	const struct completion *completion;

	source = (struct datagram_source){.lid = 77};
	assert_int_equal(fixture_receive(f, &packet), REASON_NONE);
	completion = fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS);
	assert_int_equal(completion->wc_flags, 0);
	assert_int_equal(completion->source_lid, 77);
	assert_memory_equal(f->memory, source.header, AREA);
	assert_memory_equal(f->memory + AREA, payload, 10);
}

static void area_may_span_elements(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge list[3] = {{FIXTURE_IOVA, 30, FIXTURE_KEY},
				  {FIXTURE_IOVA + 100, 20, FIXTURE_KEY},
				  {FIXTURE_IOVA + 200, 50, FIXTURE_KEY}};
	struct ibv_recv_wr wr = {.wr_id = 5, .sg_list = list, .num_sge = 3};
	struct packet packet = datagram(60);

	assert_int_equal(qp_post_recv(f->qp, &wr, NULL), 0);
	assert_int_equal(fixture_receive(f, &packet), REASON_NONE);
	fixture_expect_completion(f, 5, IBV_WC_SUCCESS);
	assert_memory_equal(f->memory, source.header, 30);
	assert_memory_equal(f->memory + 100, source.header, 10);
	assert_memory_equal(f->memory + 110, payload, 10);
	assert_memory_equal(f->memory + 200, payload, 50);
	assert_int_equal(f->memory[250], 0xee);
}

/* --- dropped, without a word --- */

static void expect_dropped(struct fixture *f, const struct packet *packet, enum reason reason)
{
	assert_int_equal(fixture_receive(f, packet), reason);
	fixture_expect_nothing(f);
	assert_int_equal(f->memory[0], 0xee);
}

static void each_reason_to_drop(void **state)
{
	struct fixture *f = *state;
	struct packet packet = datagram(100);
	uint64_t wr_id;

	expect_dropped(f, &packet, REASON_DROP_NO_RECEIVE);
	assert_int_equal(qp_counters_get(f->qp->counters, QP_OUT_OF_BUFFER), 1);
	wr_id = fixture_post_recv(f, 0, AREA + 100);
	packet.deth.qkey = FIXTURE_QKEY + 1;
	expect_dropped(f, &packet, REASON_DROP_QKEY);
	packet = datagram(101);
	expect_dropped(f, &packet, REASON_DROP_RECV_SHORT);
	assert_int_equal(qp_counters_get(f->qp->counters, QP_RESP_LOCAL_LENGTH_ERROR), 1);
	packet = datagram(1025);
	expect_dropped(f, &packet, REASON_PACKET_LENGTH);
	packet = datagram(100);
	packet.opcode = opcode_byte(SERVICE_RC, OPCODE_SEND_ONLY);
	expect_dropped(f, &packet, REASON_DROP_SERVICE);
	packet.opcode = opcode_byte(SERVICE_RC, OPCODE_ACKNOWLEDGE);
	expect_dropped(f, &packet, REASON_DROP_SERVICE);
	/* The receive is still there, and exactly long enough. */
	packet = datagram(100);
	assert_int_equal(fixture_receive(f, &packet), REASON_NONE);
	fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
}

static void receive_shorter_than_the_area(void **state)
{
	struct fixture *f = *state;
	struct packet packet = datagram(0);

	fixture_post_recv(f, 0, AREA - 1);
	expect_dropped(f, &packet, REASON_DROP_RECV_SHORT);
}

static void rc_qp_takes_no_datagram(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	struct packet packet = datagram(8);

	(void)state;
	fixture_post_recv(f, 0, 200);
	assert_int_equal(fixture_receive(f, &packet), REASON_DROP_SERVICE);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void states_that_hear(void **state)
{
	static const struct {
		enum ibv_qp_state state;
		enum reason reason;
	} states[] = {
		{IBV_QPS_RESET, REASON_DROP_QP_STATE},
		{IBV_QPS_INIT, REASON_DROP_QP_STATE},
		{IBV_QPS_RTR, REASON_NONE},
		{IBV_QPS_RTS, REASON_NONE},
		{IBV_QPS_SQD, REASON_NONE},
		{IBV_QPS_SQE, REASON_NONE},
		{IBV_QPS_ERR, REASON_DROP_QP_STATE},
	};
	struct fixture *f = *state;
	struct packet packet = datagram(8);

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		f->qp->state = IBV_QPS_RTS;
		fixture_post_recv(f, 0, 100);
		f->qp->state = states[i].state;
		assert_int_equal(fixture_receive_only(f, &packet), states[i].reason);
		assert_int_equal(f->out.completion_count, states[i].reason == REASON_NONE);
		outbox_clear(&f->out);
	}
	f->qp->state = IBV_QPS_RTS;
}

/* What was taken from an SRQ for a datagram that is too long waits for the QP's next one. */
static void receive_of_an_srq_that_is_too_short(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct ibv_sge sge = {FIXTURE_IOVA, AREA + 10, FIXTURE_KEY};
	struct ibv_recv_wr wr = {.wr_id = 4, .sg_list = &sge, .num_sge = 1};
	void *memory = malloc(srq_bytes(4, 1));
	struct packet packet = datagram(11);
	const struct completion *completion;
	struct fixture *f;
	struct srq srq;

	(void)state;
	source = (struct datagram_source){.has_header = true};
	srq_init(&srq, memory, 4, 1, FIXTURE_PD);
	settings.is_datagram = true;
	settings.srq = &srq;
	settings.recv_wr_max = 0;
	f = fixture_new(&settings);
	f->core.source = &source;
	assert_int_equal(fixture_receive(f, &packet), REASON_DROP_NO_RECEIVE);
	assert_int_equal(srq_post(&srq, &wr, NULL), 0);
	assert_int_equal(fixture_receive(f, &packet), REASON_DROP_RECV_SHORT);
	assert_int_equal(fixture_receive(f, &packet), REASON_DROP_RECV_SHORT);
	packet = datagram(10);
	assert_int_equal(fixture_receive(f, &packet), REASON_NONE);
	completion = fixture_expect_completion(f, 4, IBV_WC_SUCCESS);
	assert_ptr_equal(completion->srq, &srq);
	srq_release(&srq, completion->srq_slot);
	assert_int_equal(fixture_receive(f, &packet), REASON_DROP_NO_RECEIVE);
	fixture_expect_nothing(f);
	fixture_free(f);
	free(memory);
}

/* --- anything that may come --- */

#define STORM_ROUNDS 20000
#define PLACE 256 /* bytes apart are the receives, none longer than half of it */

/* What is said about a packet, by the rules in their order. */
static enum reason foretell(const struct packet *packet, uint32_t waiting, uint32_t length)
{
	if (opcode_service(packet->opcode) != SERVICE_UD)
		return REASON_DROP_SERVICE;
	if (packet->deth.qkey != FIXTURE_QKEY)
		return REASON_DROP_QKEY;
	if (packet->payload_bytes > fixture_usual.payload_max)
		return REASON_PACKET_LENGTH;
	if (!waiting)
		return REASON_DROP_NO_RECEIVE;
	return AREA + packet->payload_bytes > length ? REASON_DROP_RECV_SHORT : REASON_NONE;
}

static struct packet any_datagram(struct random_stream *random)
{
	static const uint8_t opcodes[] = {0x64, 0x64, 0x64, 0x65, 0x65,
					  0x04, 0x11, 0x24, 0x0a, 0x81};
	struct packet packet = datagram((uint32_t)(random_next(random) % 100));

	packet.opcode = opcodes[random_next(random) % sizeof(opcodes)];
	packet.psn = random_next(random) & PSN_MASK;
	packet.deth.source_qpn = random_next(random) & 0xffffff;
	if (random_next(random) % 8 == 0)
		packet.deth.qkey ^= 1u << random_next(random) % 32;
	if (random_next(random) % 16 == 0)
		packet.payload_bytes = 1000 + random_next(random) % 100;
	return packet;
}

/* The bytes between the receives are never written. */
static void expect_gaps_untouched(const struct fixture *f)
{
	for (uint32_t place = 0; place < 16; place++)
		for (uint32_t i = PLACE / 2; i < PLACE; i++)
			assert_int_equal(f->memory[place * PLACE + i], 0xee);
}

static void any_packets(void **state)
{
	struct fixture *f = *state;
	struct random_stream random = {4711};
	uint32_t lengths[16] = {0}, oldest = 0, newest = 0;

	for (int round = 0; round < STORM_ROUNDS; round++) {
		struct packet packet = any_datagram(&random);
		enum reason expected = foretell(&packet, newest - oldest, lengths[oldest % 16]);

		assert_int_equal(fixture_receive_only(f, &packet), expected);
		assert_int_equal(f->out.completion_count, expected == REASON_NONE);
		assert_int_equal(f->out.packet_count, 0);
		assert_int_equal(f->out.event_count, 0);
		if (expected == REASON_NONE) {
			assert_int_equal(f->out.completions[0].byte_len,
					 AREA + packet.payload_bytes);
			atomic_store(&f->qp->recv_queue.released, ++oldest);
		}
		outbox_clear(&f->out);
		if (newest - oldest < 16 && random_next(&random) % 2) {
			lengths[newest % 16] = AREA + 28 + (uint32_t)(random_next(&random) % 60);
			fixture_post_recv(f, newest % 16 * PLACE, lengths[newest % 16]);
			newest++;
		}
	}
	assert_true(oldest > 100);
	expect_gaps_untouched(f);
}

/* --- the program's own fault --- */

static void receive_that_cannot_be_written(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge list[2] = {{FIXTURE_IOVA, AREA, FIXTURE_KEY},
				  {FIXTURE_READ_ONLY_IOVA, 100, FIXTURE_READ_ONLY_KEY}};
	struct ibv_recv_wr wr = {.wr_id = 77, .sg_list = list, .num_sge = 2};
	struct packet packet = datagram(10);
	const struct completion *completion;
	uint64_t next;

	assert_int_equal(qp_post_recv(f->qp, &wr, NULL), 0);
	next = fixture_post_recv(f, 1000, 100);
	assert_int_equal(fixture_receive(f, &packet), REASON_KEY_NO_LOCAL_WRITE);
	completion = fixture_expect_completion(f, 77, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(completion->complaint.key, FIXTURE_READ_ONLY_KEY);
	assert_int_equal(completion->complaint.qpn, FIXTURE_QPN);
	fixture_expect_completion(f, next, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(header_and_payload_are_placed, make, drop),
		cmocka_unit_test_setup_teardown(immediate_and_solicited_arrive, make, drop),
		cmocka_unit_test_setup_teardown(without_a_header_the_lid_tells, make, drop),
		cmocka_unit_test_setup_teardown(area_may_span_elements, make, drop),
		cmocka_unit_test_setup_teardown(each_reason_to_drop, make, drop),
		cmocka_unit_test_setup_teardown(receive_shorter_than_the_area, make, drop),
		cmocka_unit_test(rc_qp_takes_no_datagram),
		cmocka_unit_test(receive_of_an_srq_that_is_too_short),
		cmocka_unit_test_setup_teardown(states_that_hear, make, drop),
		cmocka_unit_test_setup_teardown(any_packets, make, drop),
		cmocka_unit_test_setup_teardown(receive_that_cannot_be_written, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
