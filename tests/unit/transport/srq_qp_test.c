/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two QPs that draw from one SRQ: who gets which receive, and what becomes of receives when
 * messages or QPs end badly. Both fixtures have memory of their own under the same key, so
 * that a receive lands at the QP that takes it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/srq.h"
#include "unit/transport/request_step.h"

#define DEPTH 8
#define QPS 2

struct room {
	struct srq srq;
	void *memory;
	struct fixture *f[QPS];
	uint64_t wr_id;
};

static struct room *room_open(void)
{
	struct room *room = calloc(1, sizeof(*room));
	struct fixture_settings settings = fixture_usual;

	assert_non_null(room);
	room->memory = malloc(srq_bytes(DEPTH, 1));
	assert_non_null(room->memory);
	srq_init(&room->srq, room->memory, DEPTH, 1, FIXTURE_PD);
	settings.recv_wr_max = 0;
	settings.srq = &room->srq;
	for (int i = 0; i < QPS; i++)
		room->f[i] = fixture_new(&settings);
	return room;
}

/* The program polls what was completed. */
static void poll_all(struct room *room)
{
	for (int i = 0; i < QPS; i++)
		for (uint32_t j = 0; j < room->f[i]->completion_count; j++) {
			struct completion *completion = &room->f[i]->completions[j];

			if (!completion->srq)
				continue;
			assert_ptr_equal(completion->srq, &room->srq);
			srq_release(completion->srq, completion->srq_slot);
			completion->srq = NULL;
		}
}

/* Every receive is accounted for: what is used is what waits, once all is polled and done. */
static void room_close(struct room *room)
{
	for (int i = 0; i < QPS; i++)
		fixture_expect_nothing(room->f[i]);
	poll_all(room);
	for (int i = 0; i < QPS; i++)
		fixture_free(room->f[i]);
	assert_int_equal(room->srq.used_count, room->srq.waiting_count);
	free(room->memory);
	free(room);
}

static uint64_t post_list(struct room *room, uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = {.addr = FIXTURE_IOVA + RECV_OFFSET, .length = length, .lkey = lkey};
	struct ibv_recv_wr wr = {.wr_id = ++room->wr_id, .sg_list = &sge, .num_sge = 1};

	assert_int_equal(srq_post(&room->srq, &wr, NULL), 0);
	return wr.wr_id;
}

static uint64_t post(struct room *room)
{
	return post_list(room, 4 * MTU, FIXTURE_KEY);
}

static void send(struct fixture *f, struct step step, uint32_t psn)
{
	step.ack_requested = true;
	assert_int_equal(send_step(f, &step, psn), REASON_NONE);
}

static void expect_received(struct fixture *f, uint64_t wr_id, uint32_t psn, uint32_t msn)
{
	const struct completion *completion;

	fixture_expect_ack(f, psn, SYNDROME_ACK_UNLIMITED, msn);
	completion = fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS);
	assert_non_null(completion->srq);
	assert_true(completion->is_receive);
}

static void first_packets_take_in_order_last_ones_complete(void **state)
{
	struct room *room = room_open();
	struct fixture *a = room->f[0], *b = room->f[1];
	uint64_t first = post(room), second = post(room), third = post(room);

	(void)state;
	send(a, (struct step)SEND(FIRST, MTU, 0), E);
	fixture_expect_ack(a, E, SYNDROME_ACK_UNLIMITED, 0);
	send(b, (struct step)SEND(ONLY, 100, 0), E);
	expect_received(b, second, E, 1);
	send(b, (struct step)SEND(ONLY, 50, 0), E + 1);
	expect_received(b, third, E + 1, 2);
	send(a, (struct step)SEND(LAST, 10, MTU), E + 1);
	expect_received(a, first, E + 1, 1);
	expect_bytes(a, RECV_OFFSET, MTU + 10);
	assert_int_equal(room->srq.waiting_count, 0);
	assert_int_equal(room->srq.used_count, 3);
	poll_all(room);
	assert_int_equal(room->srq.used_count, 0);
	room_close(room);
}

static void a_write_takes_one_with_its_immediate_only(void **state)
{
	struct room *room = room_open();
	struct fixture *a = room->f[0], *b = room->f[1];
	uint64_t first = post(room), second = post(room);
	const struct completion *completion;

	(void)state;
	send(a, (struct step)WRITE(FIRST, MTU, 0, MTU + 9), E);
	fixture_expect_ack(a, E, SYNDROME_ACK_UNLIMITED, 0);
	send(b, (struct step)SEND(ONLY, 100, 0), E);
	expect_received(b, first, E, 1);
	send(a, (struct step)WRITE(LAST_IMM, 9, MTU, 0), E + 1);
	fixture_expect_ack(a, E + 1, SYNDROME_ACK_UNLIMITED, 1);
	completion = fixture_expect_completion(a, second, IBV_WC_SUCCESS);
	assert_int_equal(completion->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(completion->byte_len, MTU + 9);
	room_close(room);
}

static void an_empty_srq_asks_to_come_again(void **state)
{
	struct room *room = room_open();
	struct fixture *a = room->f[0], *b = room->f[1];
	struct step step = SEND(ONLY, 100, 0);

	(void)state;
	post(room);
	send(a, (struct step)SEND(FIRST, MTU, 0), E);
	fixture_expect_ack(a, E, SYNDROME_ACK_UNLIMITED, 0);
	assert_int_equal(send_step(b, &step, E), REASON_RECV_QUEUE_EMPTY);
	fixture_expect_ack(b, E, SYNDROME_RNR_BASE | 12, 0);
	post(room);
	send(b, step, E);
	expect_received(b, 2, E, 1);
	send(a, (struct step)SEND(LAST, 10, MTU), E + 1);
	expect_received(a, 1, E + 1, 1);
	room_close(room);
}

static void expect_last_wqe_event(struct fixture *f)
{
	fixture_expect_event(f, IBV_EVENT_QP_LAST_WQE_REACHED);
	fixture_run(f);
	fixture_expect_nothing(f);
}

static void a_bad_message_completes_what_it_took(void **state)
{
	struct room *room = room_open();
	struct fixture *a = room->f[0], *b = room->f[1];
	struct step long_one = SEND(ONLY, 100, 0);
	uint64_t shorter = post_list(room, 99, FIXTURE_KEY), next = post(room);
	const struct completion *completion;

	(void)state;
	assert_int_equal(send_step(a, &long_one, E), REASON_RECV_TOO_SHORT);
	fixture_expect_ack(a, E, SYNDROME_NAK_INVALID_REQUEST, 0);
	completion = fixture_expect_completion(a, shorter, IBV_WC_LOC_LEN_ERR);
	assert_ptr_equal(completion->srq, &room->srq);
	expect_last_wqe_event(a);
	/* The other QP does not notice. */
	send(b, long_one, E);
	expect_received(b, next, E, 1);
	room_close(room);
}

static void lists_are_of_the_srqs_protection_domain(void **state)
{
	struct room *room = room_open();
	struct fixture *a = room->f[0];
	struct step step = SEND(ONLY, 100, 0);
	uint64_t foreign = post(room);

	(void)state;
	room->srq.pd = FIXTURE_PD + 1;
	assert_int_equal(send_step(a, &step, E), REASON_KEY_PD_MISMATCH);
	fixture_expect_ack(a, E, SYNDROME_NAK_REMOTE_OPERATION, 0);
	fixture_expect_completion(a, foreign, IBV_WC_LOC_PROT_ERR);
	expect_last_wqe_event(a);
	room_close(room);
}

static void a_bad_packet_in_mid_message_completes_it_too(void **state)
{
	struct room *room = room_open();
	struct fixture *a = room->f[0];
	struct step order = SEND(ONLY, 8, 0);
	uint64_t taken = post(room);

	(void)state;
	post(room);
	send(a, (struct step)SEND(FIRST, MTU, 0), E);
	fixture_expect_ack(a, E, SYNDROME_ACK_UNLIMITED, 0);
	assert_int_equal(send_step(a, &order, E + 1), REASON_OPCODE_ORDER);
	fixture_expect_ack(a, E + 1, SYNDROME_NAK_INVALID_REQUEST, 0);
	fixture_expect_completion(a, taken, IBV_WC_REM_INV_REQ_ERR);
	expect_last_wqe_event(a);
	assert_int_equal(room->srq.waiting_count, 1);
	room_close(room);
}

static void a_flush_takes_only_what_was_taken(void **state)
{
	struct room *room = room_open();
	struct fixture *a = room->f[0], *b = room->f[1];
	uint64_t taken = post(room), other = post(room);
	const struct completion *completion;

	(void)state;
	send(a, (struct step)SEND(FIRST, MTU, 0), E);
	fixture_expect_ack(a, E, SYNDROME_ACK_UNLIMITED, 0);
	fixture_move(a, IBV_QPS_ERR);
	completion = fixture_expect_completion(a, taken, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(completion->opcode, IBV_WC_RECV);
	expect_last_wqe_event(a);
	fixture_move(b, IBV_QPS_ERR);
	expect_last_wqe_event(b);
	assert_int_equal(room->srq.waiting_count, 1);
	assert_int_equal(srq_wqe_at(&room->srq, room->srq.oldest)->wr_id, other);
	room_close(room);
}

static void each_stay_in_error_is_told_once(void **state)
{
	struct room *room = room_open();
	struct fixture *a = room->f[0];

	(void)state;
	for (int i = 0; i < 3; i++) {
		fixture_move(a, IBV_QPS_ERR);
		expect_last_wqe_event(a);
		fixture_move(a, IBV_QPS_RESET);
		fixture_expect_nothing(a);
	}
	room_close(room);
}

/* Reset or gone in mid-message: no completion will ever give the slot back. */
static void reset_and_end_give_back_what_was_taken(void **state)
{
	struct room *room = room_open();
	struct fixture *a = room->f[0], *b = room->f[1];

	(void)state;
	post(room);
	post(room);
	for (int i = 0; i < QPS; i++) {
		send(room->f[i], (struct step)SEND(FIRST, MTU, 0), E);
		fixture_expect_ack(room->f[i], E, SYNDROME_ACK_UNLIMITED, 0);
	}
	assert_int_equal(room->srq.used_count, 2);
	fixture_move(a, IBV_QPS_RESET);
	fixture_expect_nothing(a);
	assert_int_equal(room->srq.used_count, 1);
	qp_fini(b->qp, &b->holds);
	assert_int_equal(room->srq.used_count, 0);
	room_close(room);
}

static void a_repeat_takes_no_second_one(void **state)
{
	struct room *room = room_open();
	struct fixture *a = room->f[0];
	struct step step = SEND(FIRST, MTU, 0);

	(void)state;
	post(room);
	post(room);
	send(a, step, E);
	fixture_expect_ack(a, E, SYNDROME_ACK_UNLIMITED, 0);
	assert_int_equal(send_step(a, &step, E), REASON_DROP_DUPLICATE);
	fixture_expect_ack(a, E, SYNDROME_ACK_UNLIMITED, 0);
	send(a, (struct step)SEND(LAST, 10, MTU), E + 1);
	expect_received(a, 1, E + 1, 1);
	assert_int_equal(send_step(a, &step, E), REASON_DROP_DUPLICATE);
	fixture_expect_ack(a, E + 1, SYNDROME_ACK_UNLIMITED, 1);
	assert_int_equal(room->srq.waiting_count, 1);
	room_close(room);
}

static void the_qp_itself_takes_no_receives(void **state)
{
	struct room *room = room_open();
	struct ibv_recv_wr wr = {.wr_id = 1};
	struct complaint complaint = {0};

	(void)state;
	assert_int_equal(qp_post_recv(room->f[0]->qp, &wr, &complaint), EINVAL);
	assert_int_equal(complaint.reason, REASON_CALL_INVALID);
	room_close(room);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_packets_take_in_order_last_ones_complete),
		cmocka_unit_test(a_write_takes_one_with_its_immediate_only),
		cmocka_unit_test(an_empty_srq_asks_to_come_again),
		cmocka_unit_test(a_bad_message_completes_what_it_took),
		cmocka_unit_test(lists_are_of_the_srqs_protection_domain),
		cmocka_unit_test(a_bad_packet_in_mid_message_completes_it_too),
		cmocka_unit_test(a_flush_takes_only_what_was_taken),
		cmocka_unit_test(each_stay_in_error_is_told_once),
		cmocka_unit_test(reset_and_end_give_back_what_was_taken),
		cmocka_unit_test(a_repeat_takes_no_second_one),
		cmocka_unit_test(the_qp_itself_takes_no_receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
