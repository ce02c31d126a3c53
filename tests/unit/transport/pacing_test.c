/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What may be under way: windows that close and open, and charges that follow the
 * cursor exactly, whatever the peer says.
 */
#include "unit/transport/rc_fixture.h"

#include <stdlib.h>

#include "base/random.h"
#include "transport/rc_wqe.h"

#define FULL flow_packet_cost(1024)

static int64_t under_way(const struct flow *flow)
{
	return atomic_load(&flow->bytes_under_way);
}

static void fixture_skip_packets(struct fixture *f, uint32_t count)
{
	assert_int_equal(f->packet_count - f->packet_next, count);
	f->packet_next = f->packet_count;
	fixture_expect_nothing(f);
}

static struct fixture *with_windows(int64_t outbound, int64_t inbound)
{
	struct fixture_settings settings = fixture_usual;

	settings.outbound_bytes_max = outbound;
	settings.inbound_bytes_max = inbound;
	return fixture_new(&settings);
}

static void small_packets_cost_what_a_buffer_costs(void **state)
{
	(void)state;
	assert_int_equal(flow_packet_cost(0), FLOW_PACKET_COST_MIN);
	assert_int_equal(flow_packet_cost(8), FLOW_PACKET_COST_MIN);
	assert_int_equal(flow_packet_cost(4096), 4096 + FLOW_PACKET_COST_MIN / 4);
}

static void window_closes_and_opens(void **state)
{
	struct fixture *f = with_windows(5 * FULL + 100, INT64_MAX);

	(void)state;
	fixture_post(f, IBV_WR_SEND, 0, 7 * 1024, 0);
	fixture_run(f);
	assert_false(fixture_expect(f, OPCODE_SEND_FIRST, 0xfffffe)->out.packet.ack_requested);
	/* A quarter of the window is 1.25 packets. */
	assert_true(fixture_expect(f, OPCODE_SEND_MIDDLE, 0xffffff)->out.packet.ack_requested);
	assert_false(fixture_expect(f, OPCODE_SEND_MIDDLE, 0)->out.packet.ack_requested);
	assert_true(fixture_expect(f, OPCODE_SEND_MIDDLE, 1)->out.packet.ack_requested);
	/* Nothing can follow this one, so it asks. */
	assert_true(fixture_expect(f, OPCODE_SEND_MIDDLE, 2)->out.packet.ack_requested);
	fixture_expect_nothing(f);
	assert_int_equal(under_way(&f->outbound), 5 * FULL);
	fixture_ack(f, 0xffffff);
	assert_false(fixture_expect(f, OPCODE_SEND_MIDDLE, 3)->out.packet.ack_requested);
	assert_true(fixture_expect(f, OPCODE_SEND_LAST, 4)->out.packet.ack_requested);
	fixture_expect_nothing(f);
	fixture_ack(f, 4);
	assert_int_equal(under_way(&f->outbound), 0);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* Others fill the window: one packet at a time, always. */
static void full_window_of_others_lets_one_packet_pass(void **state)
{
	struct fixture *f = with_windows(10 * FULL, 10 * FULL);

	(void)state;
	flow_add(&f->outbound, 10 * FULL);
	flow_add(&f->inbound, 10 * FULL);
	fixture_post(f, IBV_WR_SEND, 0, 2 * 1024, 0);
	fixture_post(f, IBV_WR_RDMA_READ, 0, 2 * 1024, 0);
	fixture_run(f);
	assert_true(fixture_expect(f, OPCODE_SEND_FIRST, 0xfffffe)->out.packet.ack_requested);
	fixture_expect_nothing(f);
	fixture_ack(f, 0xfffffe);
	fixture_expect(f, OPCODE_SEND_LAST, 0xffffff);
	fixture_expect_nothing(f);
	fixture_ack(f, 0xffffff);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(fixture_expect(f, OPCODE_READ_REQUEST, 0)->out.packet.reth.length, 1024);
	fixture_expect_nothing(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 0, 1, 1024);
	assert_int_equal(fixture_expect(f, OPCODE_READ_REQUEST, 1)->out.packet.reth.length, 1024);
	fixture_expect_nothing(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 1, 1, 1024);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	flow_add(&f->outbound, -10 * (int64_t)FULL);
	flow_add(&f->inbound, -10 * (int64_t)FULL);
	fixture_free(f);
}

static void reads_are_asked_for_as_far_as_the_buffer_goes(void **state)
{
	struct fixture *f = with_windows(INT64_MAX, 10 * FULL);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 7 * 1024, 0);
	fixture_post(f, IBV_WR_RDMA_READ, 0, 7 * 1024, 0);
	fixture_run(f);
	assert_int_equal(fixture_expect(f, OPCODE_READ_REQUEST, 0xfffffe)->out.packet.reth.length,
			 7 * 1024);
	assert_int_equal(fixture_expect(f, OPCODE_READ_REQUEST, 5)->out.packet.reth.length,
			 3 * 1024);
	fixture_expect_nothing(f);
	assert_int_equal(under_way(&f->inbound), 10 * FULL);
	assert_int_equal(under_way(&f->outbound), 2 * FLOW_PACKET_COST_MIN);
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xfffffe, 1, 1024);
	assert_int_equal(fixture_expect(f, OPCODE_READ_REQUEST, 8)->out.packet.reth.length, 1024);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* Cut in two it might be one READ too many for the peer. */
static void repeated_read_is_asked_for_as_a_whole(void **state)
{
	struct fixture *f = with_windows(INT64_MAX, 10 * FULL);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 4 * 1024, 0);
	fixture_post(f, IBV_WR_RDMA_READ, 0, 4 * 1024, 0);
	fixture_run(f);
	fixture_skip_packets(f, 2);
	/* While we went back another QP took the place. */
	flow_add(&f->inbound, 7 * FULL);
	fixture_nak(f, 0xfffffe, SYNDROME_NAK_SEQUENCE);
	assert_int_equal(fixture_expect(f, OPCODE_READ_REQUEST, 0xfffffe)->out.packet.reth.length,
			 4 * 1024);
	fixture_expect_nothing(f);
	for (uint32_t i = 0; i < 4; i++) {
		fixture_expect_nothing(f);
		fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE, 0xfffffe + i, 1, 1024);
	}
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(fixture_expect(f, OPCODE_READ_REQUEST, 2)->out.packet.reth.length,
			 4 * 1024);
	fixture_expect_nothing(f);
	flow_add(&f->inbound, -7 * (int64_t)FULL);
	fixture_free(f);
}

static void going_back_and_failing_give_back(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_SEND, 0, 3 * 1024, 0);
	fixture_post(f, IBV_WR_RDMA_READ, 0, 1500, 0);
	fixture_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0);
	fixture_run(f);
	fixture_skip_packets(f, 5);
	assert_int_equal(under_way(&f->outbound), 3 * FULL + 2 * FLOW_PACKET_COST_MIN);
	assert_int_equal(under_way(&f->inbound), FULL + 2 * FLOW_PACKET_COST_MIN);
	/* An RNR wait leaves nothing under way. */
	fixture_nak(f, 0xfffffe, SYNDROME_RNR_BASE | 1);
	assert_int_equal(under_way(&f->outbound), 0);
	assert_int_equal(under_way(&f->inbound), 0);
	fixture_advance(f, 10 * VBN_MICROSECOND);
	fixture_skip_packets(f, 5);
	assert_int_equal(under_way(&f->outbound), 3 * FULL + 2 * FLOW_PACKET_COST_MIN);
	fixture_move(f, IBV_QPS_ERR);
	assert_int_equal(under_way(&f->outbound), 0);
	assert_int_equal(under_way(&f->inbound), 0);
	fixture_free(f);
}

/* --- any peer --- */

/* The charge of a QP, from nothing but the range that is under way. */
static void check_charges(const struct fixture *f)
{
	const struct rc_requester *requester = &f->qp->requester;
	uint32_t position = requester->unacked_position;
	int64_t outbound = 0, inbound = 0;

	for (uint32_t psn = requester->psn_unacked; psn != requester->send_psn;
	     psn = psn_add(psn, 1)) {
		const struct send_wqe *wqe = send_wqe_at(&f->qp->send_queue, position);
		int64_t cost;

		if (psn == rc_wqe_end(wqe))
			wqe = send_wqe_at(&f->qp->send_queue, ++position);
		cost = flow_packet_cost(rc_wqe_payload_bytes(wqe, psn, 1024));
		if (rc_wqe_wants_answers(wqe))
			inbound += cost;
		else
			outbound += cost;
		for (uint32_t i = 0; i < requester->read_count; i++)
			if (psn_add(requester->reads[i].first_psn,
				    requester->reads[i].psn_count - 1) == psn)
				outbound += FLOW_PACKET_COST_MIN;
	}
	assert_int_equal(requester->outbound_charged, outbound);
	assert_int_equal(requester->inbound_charged, inbound);
}

static void check_order(const struct fixture *f)
{
	const struct rc_requester *requester = &f->qp->requester;
	const struct work_queue *queue = &f->qp->send_queue;
	uint32_t sent = psn_forward(requester->psn_unacked, requester->send_psn);
	uint32_t known = psn_forward(requester->psn_unacked, requester->psn_next);

	assert_true(sent <= known);
	assert_true(psn_forward(requester->psn_unacked, requester->psn_acked) <= known);
	assert_true(requester->read_count <= f->settings.max_rd_atomic);
	assert_true(requester->unacked_position - queue->done <= queue->started - queue->done);
	assert_true(requester->send_position - requester->unacked_position <=
		    queue->started - requester->unacked_position);
	for (uint32_t i = 1; i < requester->read_count; i++)
		assert_true(psn_distance(requester->reads[i].first_psn,
					 requester->reads[i - 1].first_psn) >=
			    (int32_t)requester->reads[i - 1].psn_count);
	/* Something outstanding is never without a deadline. */
	if (known)
		assert_true(qp_next_deadline(f->qp) != VBN_TIME_NEVER);
}

static void post_something(struct fixture *f, struct random_stream *random)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND,
						     IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_READ,
						     IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_RDMA_WRITE_WITH_IMM};
	enum ibv_wr_opcode opcode = opcodes[random_below(random, 7)];
	uint32_t length =
		(uint32_t)random_below(random, random_chance(random, 100000) ? 99999 : 6000);
	unsigned int flags = random_chance(random, 100000) ? IBV_SEND_FENCE : 0;

	atomic_store(&f->qp->send_queue.released, f->qp->send_queue.done);
	if (!work_queue_is_full(&f->qp->send_queue))
		fixture_post(f, opcode, 0, length, flags);
}

/* What the packet with @psn would be answered with, or an ACK where that is nothing. */
static struct packet likely_answer(const struct fixture *f, uint32_t psn)
{
	const struct rc_requester *requester = &f->qp->requester;
	uint32_t position = requester->unacked_position;
	struct packet packet = fixture_packet(OPCODE_ACKNOWLEDGE, psn);
	static const uint8_t zeros[1024];

	packet.aeth.syndrome = SYNDROME_ACK_UNLIMITED;
	for (; position != f->qp->send_queue.started; position++) {
		const struct send_wqe *wqe = send_wqe_at(&f->qp->send_queue, position);

		if (!psn_is_within(psn, wqe->first_psn, wqe->psn_count))
			continue;
		if (rc_wqe_is_atomic(wqe))
			packet.opcode = opcode_byte(SERVICE_RC, OPCODE_ATOMIC_ACKNOWLEDGE);
		if (!rc_wqe_is_read(wqe))
			break;
		packet.opcode = opcode_byte(SERVICE_RC, OPCODE_READ_RESPONSE_ONLY);
		packet.payload = zeros;
		packet.payload_bytes = rc_wqe_payload_bytes(wqe, psn, 1024);
		break;
	}
	return packet;
}

static void receive_something(struct fixture *f, struct random_stream *random)
{
	const struct rc_requester *requester = &f->qp->requester;
	uint32_t known = psn_forward(requester->psn_unacked, requester->psn_next);
	uint32_t ahead = random_chance(random, 600000) ? 0
						       : (uint32_t)random_below(random, known + 2);
	uint32_t psn = psn_add(requester->psn_unacked, ahead);
	struct packet packet = likely_answer(f, random_chance(random, 50000) ? psn - 3 : psn);

	if (random_chance(random, 150000)) {
		packet = fixture_packet(OPCODE_ACKNOWLEDGE, psn);
		packet.aeth.syndrome = random_chance(random, 300000) ? SYNDROME_RNR_BASE | 1
								     : SYNDROME_NAK_SEQUENCE;
	}
	fixture_receive_only(f, &packet);
}

static void step(struct fixture *f, struct random_stream *random)
{
	switch (random_below(random, 8)) {
	case 0:
	case 1:
		post_something(f, random);
		break;
	case 2:
		f->core.now += random_below(random, 3 * VBN_MILLISECOND);
		if (qp_next_deadline(f->qp) <= f->core.now)
			qp_deadline(f->qp, &f->core);
		break;
	default:
		receive_something(f, random);
		break;
	}
	check_charges(f);
	if (random_chance(random, 700000))
		fixture_run(f);
	else
		return;
	check_charges(f);
	check_order(f);
}

static void forget_collected(struct fixture *f)
{
	for (uint32_t i = 0; i < f->packet_count; i++)
		free(f->packets[i].bytes);
	f->packet_count = f->packet_next = 0;
	f->completion_count = f->completion_next = 0;
}

/*
 * A peer that answers, omits, repeats and reorders as it likes, near the wrap of PSNs and
 * with windows that are often closed; then it answers everything, and all must be given back.
 */
static void charges_follow_the_cursor(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct random_stream random = {seed};
		struct fixture_settings settings = fixture_usual;
		struct rc_requester *requester;
		struct fixture *f;

		settings.sq_psn = (uint32_t)random_between(&random, 0xffff00, 0xffffff);
		settings.outbound_bytes_max = (int64_t)random_between(&random, 1, 40 * FULL);
		settings.inbound_bytes_max = (int64_t)random_between(&random, 1, 90 * FULL);
		settings.max_rd_atomic = (uint8_t)random_between(&random, 1, 5);
		settings.rnr_retry = 7;
		settings.timeout = 20;
		f = fixture_new(&settings);
		requester = &f->qp->requester;
		for (int i = 0; i < 3000; i++) {
			step(f, &random);
			forget_collected(f);
		}
		for (int i = 0; i < 20000 && f->qp->send_queue.done != f->qp->send_queue.posted;
		     i++) {
			struct packet packet = likely_answer(f, requester->psn_unacked);

			fixture_advance(f, 20 * VBN_MICROSECOND);
			if (requester->psn_unacked != requester->psn_next)
				fixture_receive(f, &packet);
			forget_collected(f);
		}
		assert_int_equal(f->qp->state, IBV_QPS_RTS);
		assert_int_equal(f->qp->send_queue.done, f->qp->send_queue.posted);
		assert_int_equal(under_way(&f->outbound), 0);
		assert_int_equal(under_way(&f->inbound), 0);
		assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
		fixture_free(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_packets_cost_what_a_buffer_costs),
		cmocka_unit_test(window_closes_and_opens),
		cmocka_unit_test(full_window_of_others_lets_one_packet_pass),
		cmocka_unit_test(reads_are_asked_for_as_far_as_the_buffer_goes),
		cmocka_unit_test(repeated_read_is_asked_for_as_a_whole),
		cmocka_unit_test(going_back_and_failing_give_back),
		cmocka_unit_test(charges_follow_the_cursor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
