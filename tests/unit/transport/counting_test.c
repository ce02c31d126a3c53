/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a QP counts: after each event exactly the counters that are named have moved. The
 * last test sees to it that none was forgotten.
 */
#include "unit/transport/request_step.h"

#define FIRST_PSN 0xfffffeu /* of our requests */
#define SYNDROME_RNR(code) ((uint8_t)(SYNDROME_RNR_BASE | (code)))

static bool was_counted[QP_COUNTER_COUNT];

struct count {
	enum qp_counter counter;
	uint64_t value;
};

static uint64_t expected_value(const struct count *counts, size_t count, enum qp_counter counter)
{
	for (size_t i = 0; i < count; i++)
		if (counts[i].counter == counter)
			return counts[i].value;
	return 0;
}

static void expect_counters(const struct fixture *f, const struct count *counts, size_t count)
{
	for (unsigned i = 0; i < QP_COUNTER_COUNT; i++) {
		enum qp_counter counter = (enum qp_counter)i;
		uint64_t expected = expected_value(counts, count, counter);

		if (qp_counters_get(f->qp->counters, counter) != expected)
			print_error("%s\n", qp_counter_name(counter));
		assert_int_equal(qp_counters_get(f->qp->counters, counter), expected);
		was_counted[i] |= expected != 0;
	}
}

#define EXPECT(f, ...) \
	do { \
		const struct count counts[] = {__VA_ARGS__}; \
		expect_counters(f, counts, sizeof(counts) / sizeof(counts[0])); \
	} while (0)

static int make_fixture(void **state)
{
	*state = fixture_new(&fixture_usual);
	return 0;
}

static int make_lossless_fixture(void **state)
{
	struct fixture_settings settings = fixture_usual;

	settings.is_lossless = true;
	*state = fixture_new(&settings);
	return 0;
}

static int free_fixture(void **state)
{
	fixture_free(*state);
	return 0;
}

/* --- packets and bytes --- */

static void what_is_sent_and_received(void **state)
{
	struct fixture *f = *state;

	fixture_post(f, IBV_WR_SEND, 0, MTU + 976, 0);
	fixture_run(f);
	EXPECT(f, {QP_SENT_PKTS, 2}, {QP_SENT_BYTES, 2000});
	fixture_ack(f, psn_add(FIRST_PSN, 1));
	EXPECT(f, {QP_SENT_PKTS, 2}, {QP_SENT_BYTES, 2000}, {QP_RCVD_PKTS, 1});
}

static void answers_to_reads_are_received_bytes(void **state)
{
	struct fixture *f = *state;

	fixture_post(f, IBV_WR_RDMA_READ, 0, 100, 0);
	fixture_run(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, FIRST_PSN, 1, 100);
	EXPECT(f, {QP_SENT_PKTS, 1}, {QP_RCVD_PKTS, 1}, {QP_RCVD_BYTES, 100});
}

/* --- as responder --- */

static void requests_by_kind(void **state)
{
	struct fixture *f = *state;
	const struct step send = SEND(ONLY, 100, 0), first = WRITE(FIRST, MTU, 0, MTU + 4),
			  last = WRITE(LAST, 4, MTU, 0), read = READ(FIXTURE_IOVA, 8),
			  atomic = {.operation = OPCODE_FETCH_ADD, .iova = FIXTURE_IOVA};

	fixture_post_recv(f, RECV_OFFSET, 100);
	send_step(f, &send, E);
	send_step(f, &first, E + 1);
	send_step(f, &last, E + 2);
	send_step(f, &read, E + 3);
	send_step(f, &atomic, E + 4);
	EXPECT(f, {QP_RCVD_PKTS, 5}, {QP_RCVD_BYTES, 100 + MTU + 4}, {QP_SENT_PKTS, 2},
	       {QP_SENT_BYTES, 8}, {QP_RX_SEND_REQUESTS, 1}, {QP_RX_WRITE_REQUESTS, 1},
	       {QP_RX_READ_REQUESTS, 1}, {QP_RX_ATOMIC_REQUESTS, 1});
}

static void gaps_and_repeats(void **state)
{
	struct fixture *f = *state;
	const struct step write = WRITE(ONLY, 4, 0, 4);

	send_step(f, &write, E + 1);
	send_step(f, &write, E);
	send_step(f, &write, E);
	/* The NAK, and the ACK of the repeat. */
	EXPECT(f, {QP_RCVD_PKTS, 3}, {QP_RCVD_BYTES, 12}, {QP_SENT_PKTS, 2},
	       {QP_OUT_OF_SEQUENCE, 1}, {QP_DUPLICATE_REQUEST, 1}, {QP_RX_WRITE_REQUESTS, 2});
}

static void no_receive_is_posted(void **state)
{
	struct fixture *f = *state;
	const struct step send = SEND(ONLY, 4, 0);

	send_step(f, &send, E);
	EXPECT(f, {QP_RCVD_PKTS, 1}, {QP_RCVD_BYTES, 4}, {QP_SENT_PKTS, 1}, {QP_OUT_OF_BUFFER, 1},
	       {QP_SEND_RNR_ERR, 1});
}

static void a_message_is_too_long(void **state)
{
	struct fixture *f = *state;
	const struct step send = SEND(ONLY, 40, 0);

	fixture_post_recv(f, RECV_OFFSET, 39);
	fixture_post_recv(f, RECV_OFFSET, 39);
	send_step(f, &send, E);
	EXPECT(f, {QP_RCVD_PKTS, 1}, {QP_RCVD_BYTES, 40}, {QP_SENT_PKTS, 1},
	       {QP_RESP_LOCAL_LENGTH_ERROR, 1}, {QP_RESP_CQE_ERROR, 2},
	       {QP_RESP_CQE_FLUSH_ERROR, 1});
}

static void access_is_refused(void **state)
{
	struct fixture *f = *state;
	const struct step write = WRONG_KEY(WRITE_ONLY, 64);

	send_step(f, &write, E);
	EXPECT(f, {QP_RCVD_PKTS, 1}, {QP_RCVD_BYTES, 64}, {QP_SENT_PKTS, 1},
	       {QP_RESP_REMOTE_ACCESS_ERRORS, 1});
}

/* --- as requester --- */

static void post_sends(struct fixture *f, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
}

static void the_peer_missed_a_packet(void **state)
{
	struct fixture *f = *state;

	post_sends(f, 3);
	fixture_nak(f, psn_add(FIRST_PSN, 1), SYNDROME_NAK_SEQUENCE);
	EXPECT(f, {QP_SENT_PKTS, 5}, {QP_SENT_BYTES, 40}, {QP_RCVD_PKTS, 1}, {QP_PACKET_SEQ_ERR, 1},
	       {QP_RETRANSMITTED_PKTS, 2});
}

static void an_answer_was_lost(void **state)
{
	struct fixture *f = *state;

	fixture_post(f, IBV_WR_RDMA_READ, 0, 8, 0);
	post_sends(f, 1);
	fixture_ack(f, psn_add(FIRST_PSN, 1));
	EXPECT(f, {QP_SENT_PKTS, 3}, {QP_SENT_BYTES, 8}, {QP_RCVD_PKTS, 1},
	       {QP_IMPLIED_NAK_SEQ_ERR, 1}, {QP_RETRANSMITTED_PKTS, 1});
}

static void the_peer_asks_to_wait(void **state)
{
	struct fixture *f = *state;

	post_sends(f, 1);
	for (int i = 0; i < 3; i++) {
		fixture_nak(f, FIRST_PSN, SYNDROME_RNR(1));
		fixture_advance(f, VBN_MILLISECOND);
	}
	EXPECT(f, {QP_SENT_PKTS, 3}, {QP_SENT_BYTES, 24}, {QP_RCVD_PKTS, 3},
	       {QP_RETRANSMITTED_PKTS, 2}, {QP_RNR_NAK_RETRY_ERR, 2},
	       {QP_REQ_RNR_RETRIES_EXCEEDED, 1}, {QP_REQ_CQE_ERROR, 1});
}

static void nothing_is_answered(void **state)
{
	struct fixture *f = *state;

	post_sends(f, 1);
	while (f->qp->state == IBV_QPS_RTS)
		fixture_advance(f, qp_next_deadline(f->qp) - f->core.now);
	EXPECT(f, {QP_SENT_PKTS, 4}, {QP_SENT_BYTES, 32}, {QP_RETRANSMITTED_PKTS, 3},
	       {QP_LOCAL_ACK_TIMEOUT_ERR, 4}, {QP_REQ_TRANSPORT_RETRIES_EXCEEDED, 1},
	       {QP_REQ_CQE_ERROR, 1});
}

static void a_probe_is_a_repeat(void **state)
{
	struct fixture *f = *state;

	post_sends(f, 1);
	fixture_advance(f, qp_next_deadline(f->qp) - f->core.now);
	EXPECT(f, {QP_SENT_PKTS, 2}, {QP_SENT_BYTES, 16}, {QP_RETRANSMITTED_PKTS, 1});
}

static void the_peer_refuses_access(void **state)
{
	struct fixture *f = *state;

	post_sends(f, 2);
	fixture_nak(f, FIRST_PSN, SYNDROME_NAK_REMOTE_ACCESS);
	EXPECT(f, {QP_SENT_PKTS, 2}, {QP_SENT_BYTES, 16}, {QP_RCVD_PKTS, 1},
	       {QP_REQ_REMOTE_ACCESS_ERRORS, 1}, {QP_REQ_CQE_ERROR, 2},
	       {QP_REQ_CQE_FLUSH_ERROR, 1});
}

static void the_peer_refuses_the_request(void **state)
{
	struct fixture *f = *state;

	post_sends(f, 1);
	fixture_nak(f, FIRST_PSN, SYNDROME_NAK_INVALID_REQUEST);
	EXPECT(f, {QP_SENT_PKTS, 1}, {QP_SENT_BYTES, 8}, {QP_RCVD_PKTS, 1},
	       {QP_REQ_REMOTE_INVALID_REQUEST, 1}, {QP_REQ_CQE_ERROR, 1});
}

/* --- without packets --- */

static uint32_t allowed_accesses;

static bool access_some(struct reach *reach, const struct reach_step *step)
{
	(void)reach;
	(void)step;
	return allowed_accesses-- > 0;
}

static bool grant_nothing(struct reach *reach, const struct reach_step *step)
{
	(void)reach;
	(void)step;
	return false;
}

static enum reach_outcome add_some(struct reach *reach, const struct reach_atomic *atomic,
				   uint64_t *original)
{
	(void)reach;
	(void)atomic;
	*original = 1;
	return REACH_DONE;
}

static void what_is_done_in_the_peers_memory(void **state)
{
	struct fixture *f = *state;
	struct reach reach = {.grants = grant_nothing, .access = access_some};

	f->qp->path.reach = &reach;
	allowed_accesses = 3;
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 100, 0);
	qp_grant_direct(f->qp, 60);
	fixture_run(f);
	EXPECT(f, {QP_DIRECT_BYTES, 60});
	fixture_post(f, IBV_WR_RDMA_READ, 0, 50, 0);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 8, 0);
	qp_grant_direct(f->qp, DIRECT_STEP_BYTES);
	fixture_run(f);
	EXPECT(f, {QP_DIRECT_BYTES, 150}, {QP_DIRECT_WRITES, 1}, {QP_DIRECT_READS, 1},
	       {QP_DIRECT_GIVEN_UP, 1}, {QP_SENT_PKTS, 1}, {QP_SENT_BYTES, 8});
}

static void atomics_that_are_done_there(void **state)
{
	struct fixture *f = *state;
	struct reach reach = {.access = access_some, .atomic = add_some};

	f->qp->path.reach = &reach;
	fixture_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0);
	qp_grant_direct(f->qp, DIRECT_STEP_BYTES);
	fixture_run(f);
	EXPECT(f, {QP_DIRECT_ATOMICS, 1});
}

static bool fetch_all(struct reach *reach, const struct reach_step *step)
{
	(void)reach;
	(void)step;
	return true;
}

/* Its bytes count as those of the packets that it stands for. */
static void what_the_peer_lends(void **state)
{
	struct fixture *f = *state;
	struct reach reach = {.fetch = fetch_all};
	struct packet packet = fixture_packet(OPCODE_SEND_FIRST, E);

	f->qp->path.reach = &reach;
	packet.lent_key = 1;
	packet.payload_bytes = 2 * MTU;
	fixture_post_recv(f, RECV_OFFSET, 3 * MTU);
	fixture_receive(f, &packet);
	EXPECT(f, {QP_RCVD_PKTS, 1}, {QP_RCVD_BYTES, 2 * MTU}, {QP_LENT_BYTES, 2 * MTU});
	packet = fixture_packet(OPCODE_SEND_LAST, E + 2);
	packet.lent_key = 1;
	packet.payload_bytes = 100;
	fixture_receive(f, &packet);
	EXPECT(f, {QP_RCVD_PKTS, 2}, {QP_RCVD_BYTES, 2 * MTU + 100}, {QP_LENT_BYTES, 2 * MTU + 100},
	       {QP_LENT_SENDS, 1}, {QP_RX_SEND_REQUESTS, 1});
}

static void what_is_lent_to_the_peer(void **state)
{
	struct fixture *f = *state;
	struct reach reach = {.lend_bytes_min = MTU};

	f->qp->path.reach = &reach;
	fixture_post(f, IBV_WR_SEND, 0, 3 * MTU, 0);
	fixture_run(f);
	EXPECT(f, {QP_SENT_PKTS, 1}, {QP_SENT_BYTES, 3 * MTU});
}

/* --- where --- */

static void counters_may_lie_elsewhere(void **state)
{
	struct fixture *f = *state;
	struct qp_counters elsewhere = {0};

	qp_count_in(f->qp, &elsewhere);
	post_sends(f, 1);
	assert_int_equal(qp_counters_get(&elsewhere, QP_SENT_PKTS), 1);
	assert_int_equal(qp_counters_get(&f->qp->own_counters, QP_SENT_PKTS), 0);
	qp_count_in(f->qp, &f->qp->own_counters);
}

static void every_counter_was_met(void **state)
{
	(void)state;
	for (unsigned i = 0; i < QP_COUNTER_COUNT; i++) {
		if (!was_counted[i])
			print_error("no test counts %s\n", qp_counter_name((enum qp_counter)i));
		assert_true(was_counted[i]);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_fixture, free_fixture)
#define LOSSLESS(name) cmocka_unit_test_setup_teardown(name, make_lossless_fixture, free_fixture)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_sent_and_received),
		TEST(answers_to_reads_are_received_bytes),
		TEST(requests_by_kind),
		TEST(gaps_and_repeats),
		TEST(no_receive_is_posted),
		TEST(a_message_is_too_long),
		TEST(access_is_refused),
		TEST(the_peer_missed_a_packet),
		TEST(an_answer_was_lost),
		LOSSLESS(the_peer_asks_to_wait),
		LOSSLESS(nothing_is_answered),
		TEST(a_probe_is_a_repeat),
		TEST(the_peer_refuses_access),
		TEST(the_peer_refuses_the_request),
		TEST(what_is_done_in_the_peers_memory),
		TEST(atomics_that_are_done_there),
		TEST(what_the_peer_lends),
		TEST(what_is_lent_to_the_peer),
		TEST(counters_may_lie_elsewhere),
		cmocka_unit_test(every_counter_was_met),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
