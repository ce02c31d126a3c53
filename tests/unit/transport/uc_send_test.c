/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages out that nobody acknowledges: when they are done, what waits, what a failed one stops.
 */
#include <errno.h>

#include "unit/transport/rc_fixture.h"

#define SEND_PSN 0xfffffeu
#define BAD_KEY 0x00dead00u

static struct fixture *fixture_with_window(int64_t bytes_max)
{
	struct fixture_settings settings = fixture_usual;

	settings.is_uc = true;
	settings.outbound_bytes_max = bytes_max;
	return fixture_new(&settings);
}

static int make(void **state)
{
	*state = fixture_with_window(INT64_MAX);
	return 0;
}

static int drop(void **state)
{
	fixture_free(*state);
	return 0;
}

static uint64_t post_bad(struct fixture *f)
{
	struct ibv_sge sge = {.addr = FIXTURE_IOVA, .length = 16, .lkey = BAD_KEY};
	struct ibv_send_wr wr = {
		.wr_id = f->wr_id_next++, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	assert_int_equal(qp_post_send(f->qp, &wr, f->core.copier, NULL), 0);
	return wr.wr_id;
}

static void a_message_is_done_when_its_last_packet_left(void **state)
{
	struct fixture *f = *state;
	uint64_t first = fixture_post(f, IBV_WR_SEND, 0, 2049, IBV_SEND_SOLICITED);
	uint64_t second = fixture_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 16, 0);
	const struct fixture_packet *packet;

	fixture_run(f);
	fixture_expect(f, OPCODE_SEND_FIRST, SEND_PSN);
	fixture_expect(f, OPCODE_SEND_MIDDLE, SEND_PSN + 1);
	packet = fixture_expect(f, OPCODE_SEND_LAST, SEND_PSN + 2);
	assert_true(packet->out.packet.solicited);
	assert_false(packet->out.packet.ack_requested);
	assert_int_equal(packet->out.packet.payload_bytes, 1);
	packet = fixture_expect(f, OPCODE_WRITE_ONLY_IMM, SEND_PSN + 3);
	assert_int_equal(packet->out.packet.reth.length, 16);
	assert_int_equal(packet->out.packet.reth.rkey, FIXTURE_REMOTE_KEY);
	fixture_expect_completion(f, first, IBV_WC_SUCCESS);
	fixture_expect_completion(f, second, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_advance(f, VBN_MILLISECOND);
	fixture_expect_nothing(f);
	assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
	assert_int_equal(atomic_load(&f->outbound.bytes_under_way), 0);
}

/* How many is the pace's to say (flow_pace_test.c); here a burst is one packet. */
static void a_stranger_gets_bursts(void **state)
{
	struct fixture *f = fixture_with_window(3000);
	uint64_t id = fixture_post(f, IBV_WR_SEND, 0, 2048, 0);

	(void)state;
	fixture_run(f);
	fixture_expect(f, OPCODE_SEND_FIRST, SEND_PSN);
	fixture_expect_nothing(f);
	assert_in_range(qp_next_deadline(f->qp), f->core.now + 1, f->core.now + FLOW_PACE_BURST_NS);
	fixture_advance(f, FLOW_PACE_BURST_NS / 2);
	fixture_expect_nothing(f);
	fixture_advance(f, FLOW_PACE_BURST_NS / 2);
	fixture_expect(f, OPCODE_SEND_LAST, SEND_PSN + 1);
	fixture_expect_completion(f, id, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
	fixture_move(f, IBV_QPS_ERR);
	fixture_free(f);
}

static void nothing_can_be_asked_for(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = {.addr = FIXTURE_IOVA, .length = 8, .lkey = FIXTURE_KEY};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ};

	assert_int_equal(qp_post_send(f->qp, &wr, f->core.copier, NULL), EINVAL);
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	assert_int_equal(qp_post_send(f->qp, &wr, f->core.copier, NULL), EINVAL);
}

static void a_failed_request_stops_sends_alone(void **state)
{
	struct fixture *f = *state;
	uint64_t good = fixture_post(f, IBV_WR_SEND, 0, 16, 0);
	uint64_t bad = post_bad(f);
	uint64_t behind = fixture_post(f, IBV_WR_SEND, 0, 16, 0);

	fixture_run(f);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN);
	fixture_expect_completion(f, good, IBV_WC_SUCCESS);
	fixture_expect_completion(f, bad, IBV_WC_LOC_PROT_ERR);
	fixture_expect_completion(f, behind, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_SQE);
	fixture_post_recv(f, 0, 64);
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, 0x100, NULL, 16), REASON_NONE);
	fixture_expect_completion(f, 4, IBV_WC_SUCCESS);
	fixture_move(f, IBV_QPS_RTS);
	good = fixture_post(f, IBV_WR_SEND, 0, 16, 0);
	fixture_run(f);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN + 1);
	fixture_expect_completion(f, good, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
}

static size_t copy_nothing(void *to, const void *from, size_t length)
{
	(void)to;
	(void)from;
	(void)length;
	return 0;
}

static void a_payload_that_faults_fails_its_request(void **state)
{
	static const struct copier faulting = {.copy = copy_nothing};
	struct fixture *f = *state;
	uint64_t bad = fixture_post(f, IBV_WR_RDMA_WRITE, 0, 3000, 0);
	uint64_t behind = fixture_post(f, IBV_WR_SEND, 0, 16, 0);

	f->core.copier = &faulting;
	fixture_run(f);
	fixture_expect_completion(f, bad, IBV_WC_LOC_PROT_ERR);
	fixture_expect_completion(f, behind, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_SQE);
}

/* The peer shows when it found its socket empty: room for one packet of 1 KiB here. */
static void a_full_window_waits_for_the_peer(void **state)
{
	struct fixture *f = fixture_with_window(1500);
	_Atomic vbn_time served_at = 1;
	uint64_t id;

	(void)state;
	atomic_store(&f->outbound.served_at, &served_at);
	id = fixture_post(f, IBV_WR_RDMA_WRITE, 0, 3072, 0);
	fixture_run(f);
	fixture_expect(f, OPCODE_WRITE_FIRST, SEND_PSN);
	fixture_expect_nothing(f);
	assert_in_range(qp_next_deadline(f->qp), f->core.now + 1, f->core.now + VBN_MILLISECOND);
	fixture_advance(f, VBN_MILLISECOND);
	fixture_expect_nothing(f);
	atomic_store(&served_at, f->core.now);
	fixture_advance(f, VBN_MILLISECOND);
	fixture_expect(f, OPCODE_WRITE_MIDDLE, SEND_PSN + 1);
	fixture_expect_nothing(f);
	/* A stopped peer loses packets, as on a wire; the sender goes on. */
	for (uint64_t waited = 0; waited < FLOW_PACE_PATIENCE_NS; waited += FLOW_PACE_ABSENT_NS) {
		fixture_expect_nothing(f);
		fixture_advance(f, FLOW_PACE_ABSENT_NS);
	}
	fixture_expect(f, OPCODE_WRITE_LAST, SEND_PSN + 2);
	fixture_expect_completion(f, id, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_move(f, IBV_QPS_ERR);
	assert_int_equal(atomic_load(&f->outbound.bytes_under_way), 0);
	fixture_free(f);
}

static void in_error_all_is_flushed_once(void **state)
{
	struct fixture *f = fixture_with_window(1500);
	_Atomic vbn_time served_at = 1;
	uint64_t first, second;

	(void)state;
	atomic_store(&f->outbound.served_at, &served_at);
	first = fixture_post(f, IBV_WR_SEND, 0, 3072, 0);
	second = fixture_post(f, IBV_WR_SEND, 0, 16, 0);
	fixture_run(f);
	fixture_expect(f, OPCODE_SEND_FIRST, SEND_PSN);
	fixture_move(f, IBV_QPS_ERR);
	fixture_run(f);
	fixture_expect_completion(f, first, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_completion(f, second, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void draining_finishes_what_was_started(void **state)
{
	struct fixture *f = fixture_with_window(1500);
	_Atomic vbn_time served_at = 1;
	uint64_t first;

	(void)state;
	atomic_store(&f->outbound.served_at, &served_at);
	first = fixture_post(f, IBV_WR_SEND, 0, 2048, 0);
	fixture_post(f, IBV_WR_SEND, 0, 16, 0);
	fixture_run(f);
	fixture_expect(f, OPCODE_SEND_FIRST, SEND_PSN);
	fixture_move(f, IBV_QPS_SQD);
	atomic_store(&served_at, f->core.now + 1);
	fixture_advance(f, VBN_MILLISECOND);
	fixture_expect(f, OPCODE_SEND_LAST, SEND_PSN + 1);
	fixture_expect_completion(f, first, IBV_WC_SUCCESS);
	fixture_expect_event(f, IBV_EVENT_SQ_DRAINED);
	fixture_expect_nothing(f);
	fixture_move(f, IBV_QPS_RTS);
	atomic_store(&served_at, f->core.now + 1);
	fixture_advance(f, VBN_MILLISECOND);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN + 2);
	fixture_expect_completion(f, first + 1, IBV_WC_SUCCESS);
	fixture_move(f, IBV_QPS_ERR);
	fixture_free(f);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, make, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FIXTURE(a_message_is_done_when_its_last_packet_left),
		WITH_FIXTURE(nothing_can_be_asked_for),
		WITH_FIXTURE(a_failed_request_stops_sends_alone),
		WITH_FIXTURE(a_payload_that_faults_fails_its_request),
		cmocka_unit_test(a_full_window_waits_for_the_peer),
		cmocka_unit_test(a_stranger_gets_bursts),
		cmocka_unit_test(in_error_all_is_flushed_once),
		cmocka_unit_test(draining_finishes_what_was_started),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
