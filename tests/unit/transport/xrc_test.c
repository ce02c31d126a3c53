/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two halves of an XRC connection: opcodes and SRQ numbers on the wire, whose receives
 * and keys a request uses, and what is refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/transport/request_step.h"

#define DEPTH 4
#define SRQS 2
#define SRQN 0x00abcdefu

struct room {
	struct xrc_domain domain;
	struct srq srqs[SRQS];
	void *memory[SRQS];
	struct fixture *f; /* XRC_RECV */
	uint64_t wr_id;
};

/* The QP is of no PD: keys are those of the SRQs, the second of which is of another PD. */
static struct room *room_open(void)
{
	struct room *room = calloc(1, sizeof(*room));
	struct fixture_settings settings = fixture_usual;

	assert_non_null(room);
	for (uint32_t i = 0; i < SRQS; i++) {
		room->memory[i] = malloc(srq_bytes(DEPTH, 1));
		assert_non_null(room->memory[i]);
		srq_init(&room->srqs[i], room->memory[i], DEPTH, 1, FIXTURE_PD + i);
		assert_true(xrc_domain_add(&room->domain, &room->srqs[i], SRQN));
	}
	settings.send_wr_max = settings.recv_wr_max = 0;
	settings.xrc_type = IBV_QPT_XRC_RECV;
	settings.xrc = &room->domain;
	settings.xrc_srqn = room->srqs[0].number;
	room->f = fixture_new(&settings);
	room->f->qp->pd = 0;
	return room;
}

static void room_close(struct room *room)
{
	fixture_expect_nothing(room->f);
	for (uint32_t i = 0; i < room->f->completion_count; i++)
		srq_release(room->f->completions[i].srq, room->f->completions[i].srq_slot);
	fixture_free(room->f);
	for (uint32_t i = 0; i < SRQS; i++) {
		assert_int_equal(room->srqs[i].taken_count, 0);
		assert_int_equal(room->srqs[i].used_count, room->srqs[i].waiting_count);
		xrc_domain_remove(&room->domain, &room->srqs[i]);
		free(room->memory[i]);
	}
	free(room);
}

static uint64_t post(struct room *room, uint32_t srq)
{
	struct ibv_sge sge = {
		.addr = FIXTURE_IOVA + RECV_OFFSET, .length = 4 * MTU, .lkey = FIXTURE_KEY};
	struct ibv_recv_wr wr = {.wr_id = ++room->wr_id, .sg_list = &sge, .num_sge = 1};

	assert_int_equal(srq_post(&room->srqs[srq], &wr, NULL), 0);
	return wr.wr_id;
}

static enum reason send(struct room *room, uint32_t srqn, struct step step, uint32_t psn)
{
	room->f->settings.xrc_srqn = srqn;
	step.ack_requested = true;
	return send_step(room->f, &step, psn);
}

static void a_number_finds_its_srq_only(void **state)
{
	struct room *room = room_open();
	struct packet packet = {.xrc_srqn = room->srqs[0].number};

	(void)state;
	assert_int_not_equal(room->srqs[0].number, room->srqs[1].number);
	assert_true(room->srqs[0].number <= 0xffffff);
	assert_ptr_equal(xrc_srq_of(room->f->qp, &packet), &room->srqs[0]);
	for (int bit = 0; bit < 24; bit++) {
		packet.xrc_srqn = room->srqs[0].number ^ 1u << bit;
		assert_ptr_not_equal(xrc_srq_of(room->f->qp, &packet), &room->srqs[0]);
	}
	packet.xrc_srqn = 0;
	assert_null(xrc_srq_of(room->f->qp, &packet));
	room_close(room);
}

static void a_domain_holds_so_many(void **state)
{
	struct xrc_domain domain = {{NULL}};
	struct srq *srqs = calloc(XRC_SRQS_MAX + 1, sizeof(*srqs));

	(void)state;
	/* The number 0 stands for none, so that with upper bits of 0 one place stays free. */
	for (uint32_t i = 0; i < XRC_SRQS_MAX - 1; i++)
		assert_true(xrc_domain_add(&domain, &srqs[i], 0));
	assert_false(xrc_domain_add(&domain, &srqs[XRC_SRQS_MAX], 0));
	xrc_domain_remove(&domain, &srqs[77]);
	assert_true(xrc_domain_add(&domain, &srqs[XRC_SRQS_MAX], 0));
	assert_int_equal(srqs[XRC_SRQS_MAX].number, srqs[77].number);
	free(srqs);
}

static void each_message_goes_to_the_srq_it_names(void **state)
{
	struct room *room = room_open();
	uint64_t first = post(room, 0), second = post(room, 1);
	const struct completion *completion;

	(void)state;
	room->srqs[1].pd = FIXTURE_PD;
	assert_int_equal(send(room, room->srqs[1].number, (struct step)SEND(ONLY, 8, 0), E), 0);
	fixture_expect_ack(room->f, E, SYNDROME_ACK_UNLIMITED, 1);
	completion = fixture_expect_completion(room->f, second, IBV_WC_SUCCESS);
	assert_ptr_equal(completion->srq, &room->srqs[1]);
	assert_int_equal(send(room, room->srqs[0].number, (struct step)SEND(FIRST, MTU, 0), E + 1),
			 0);
	fixture_expect_ack(room->f, E + 1, SYNDROME_ACK_UNLIMITED, 1);
	assert_int_equal(room->srqs[0].taken_count, 1);
	assert_int_equal(send(room, room->srqs[0].number, (struct step)SEND(LAST, 9, MTU), E + 2),
			 0);
	fixture_expect_ack(room->f, E + 2, SYNDROME_ACK_UNLIMITED, 2);
	completion = fixture_expect_completion(room->f, first, IBV_WC_SUCCESS);
	assert_ptr_equal(completion->srq, &room->srqs[0]);
	assert_null(room->f->qp->srq);
	room_close(room);
}

static void keys_are_of_the_srqs_protection_domain(void **state)
{
	struct room *room = room_open();
	struct step write = WRITE(ONLY, 64, 0, 64);
	const struct fixture_packet *answer;

	(void)state;
	assert_int_equal(send(room, room->srqs[0].number, write, E), 0);
	fixture_expect_ack(room->f, E, SYNDROME_ACK_UNLIMITED, 1);
	assert_int_equal(send(room, room->srqs[0].number, (struct step)READ(WRITE_IOVA, 64), E + 1),
			 0);
	answer = fixture_expect(room->f, OPCODE_READ_RESPONSE_ONLY, E + 1);
	assert_int_equal(answer->bytes[5], message_byte(5));
	assert_int_equal(send(room, room->srqs[1].number, write, E + 2), REASON_KEY_PD_MISMATCH);
	fixture_expect_ack(room->f, E + 2, SYNDROME_NAK_REMOTE_ACCESS, 2);
	fixture_expect_event(room->f, IBV_EVENT_QP_ACCESS_ERR);
	room_close(room);
}

static void an_unknown_srq_is_refused(void **state)
{
	struct room *room = room_open();

	(void)state;
	post(room, 0);
	assert_int_equal(send(room, room->srqs[0].number ^ 0x800000, (struct step)SEND(ONLY, 8, 0),
			      E),
			 REASON_XRC_SRQ_UNKNOWN);
	fixture_expect_ack(room->f, E, SYNDROME_NAK_INVALID_REQUEST, 0);
	fixture_expect_event(room->f, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(room->srqs[0].waiting_count, 1);
	room_close(room);
}

static void an_operation_that_is_not_offered_is_refused(void **state)
{
	struct room *room = room_open();

	(void)state;
	post(room, 0);
	assert_int_equal(send(room, room->srqs[0].number,
			      (struct step){.operation = (enum opcode)0x1d, .length = 28}, E),
			 REASON_OPCODE_UNSUPPORTED);
	fixture_expect_ack(room->f, E, SYNDROME_NAK_INVALID_REQUEST, 0);
	fixture_expect_event(room->f, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(room->srqs[0].waiting_count, 1);
	room_close(room);
}

static void a_message_keeps_its_srq(void **state)
{
	struct room *room = room_open();
	uint64_t taken = post(room, 0);

	(void)state;
	post(room, 1);
	assert_int_equal(send(room, room->srqs[0].number, (struct step)SEND(FIRST, MTU, 0), E), 0);
	fixture_expect_ack(room->f, E, SYNDROME_ACK_UNLIMITED, 0);
	assert_int_equal(send(room, room->srqs[1].number, (struct step)SEND(LAST, 9, MTU), E + 1),
			 REASON_OPCODE_ORDER);
	fixture_expect_ack(room->f, E + 1, SYNDROME_NAK_INVALID_REQUEST, 0);
	fixture_expect_completion(room->f, taken, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(room->srqs[1].waiting_count, 1);
	room_close(room);
}

static void an_empty_srq_asks_to_come_again(void **state)
{
	struct room *room = room_open();
	struct step step = SEND(ONLY, 8, 0);

	(void)state;
	assert_int_equal(send(room, room->srqs[0].number, step, E), REASON_RECV_QUEUE_EMPTY);
	fixture_expect_ack(room->f, E, SYNDROME_RNR_BASE | 12, 0);
	assert_null(room->f->qp->srq);
	post(room, 0);
	assert_int_equal(send(room, room->srqs[0].number, step, E), 0);
	fixture_expect_ack(room->f, E, SYNDROME_ACK_UNLIMITED, 1);
	fixture_expect_completion(room->f, 1, IBV_WC_SUCCESS);
	room_close(room);
}

static void an_error_flushes_what_was_taken(void **state)
{
	struct room *room = room_open();
	uint64_t taken = post(room, 0);

	(void)state;
	post(room, 0);
	assert_int_equal(send(room, room->srqs[0].number, (struct step)SEND(FIRST, MTU, 0), E), 0);
	fixture_expect_ack(room->f, E, SYNDROME_ACK_UNLIMITED, 0);
	fixture_move(room->f, IBV_QPS_ERR);
	fixture_expect_completion(room->f, taken, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(room->srqs[0].waiting_count, 1);
	room_close(room);
}

static void a_reset_gives_back_what_was_taken(void **state)
{
	struct room *room = room_open();

	(void)state;
	post(room, 0);
	assert_int_equal(send(room, room->srqs[0].number, (struct step)SEND(FIRST, MTU, 0), E), 0);
	fixture_expect_ack(room->f, E, SYNDROME_ACK_UNLIMITED, 0);
	fixture_move(room->f, IBV_QPS_RESET);
	assert_int_equal(room->srqs[0].used_count, 0);
	assert_null(room->f->qp->srq);
	room_close(room);
}

static void the_receiving_half_takes_no_answers_and_no_work(void **state)
{
	struct room *room = room_open();
	struct ibv_send_wr send_wr = {.opcode = IBV_WR_SEND};
	struct ibv_recv_wr recv_wr = {.wr_id = 1};
	struct packet packet = fixture_packet(OPCODE_SEND_ONLY, E);

	(void)state;
	assert_int_equal(fixture_ack(room->f, E), REASON_DROP_SERVICE);
	assert_int_equal(qp_receive(room->f->qp, &packet, &room->f->core, &room->f->out),
			 REASON_DROP_SERVICE); /* of RC */
	assert_int_equal(qp_post_send(room->f->qp, &send_wr, room->f->core.copier, NULL), EINVAL);
	assert_int_equal(qp_post_recv(room->f->qp, &recv_wr, NULL), EINVAL);
	room_close(room);
}

static struct fixture *sender(void)
{
	struct fixture_settings settings = fixture_usual;

	settings.xrc_type = IBV_QPT_XRC_SEND;
	settings.recv_wr_max = 0;
	return fixture_new(&settings);
}

static void post_send(struct fixture *f, enum ibv_wr_opcode opcode, uint32_t length, uint32_t srqn)
{
	struct ibv_sge sge = {.addr = FIXTURE_IOVA, .length = length, .lkey = FIXTURE_KEY};
	struct ibv_send_wr wr = {.wr_id = f->wr_id_next++,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .qp_type.xrc.remote_srqn = srqn};

	wr.wr.rdma.remote_addr = FIXTURE_REMOTE_ADDRESS;
	wr.wr.rdma.rkey = FIXTURE_REMOTE_KEY;
	assert_int_equal(qp_post_send(f->qp, &wr, f->core.copier, NULL), 0);
}

static void each_request_packet_names_the_srq(void **state)
{
	struct fixture *f = sender();
	uint32_t psn = fixture_usual.sq_psn;

	(void)state;
	post_send(f, IBV_WR_SEND, 2 * MTU + 1, SRQN);
	post_send(f, IBV_WR_RDMA_READ, 8, SRQN + 1);
	fixture_run(f);
	assert_int_equal(fixture_expect(f, OPCODE_SEND_FIRST, psn)->out.packet.xrc_srqn, SRQN);
	assert_int_equal(fixture_expect(f, OPCODE_SEND_MIDDLE, psn + 1)->out.packet.xrc_srqn, SRQN);
	assert_int_equal(fixture_expect(f, OPCODE_SEND_LAST, psn + 2)->out.packet.xrc_srqn, SRQN);
	assert_int_equal(fixture_expect(f, OPCODE_READ_REQUEST, psn + 3)->out.packet.xrc_srqn,
			 SRQN + 1);
	assert_int_equal(fixture_ack(f, psn + 2), REASON_NONE);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, psn + 3, 0x77, 8), 0);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void the_sending_half_takes_no_requests_and_no_receives(void **state)
{
	struct fixture *f = sender();
	struct ibv_recv_wr wr = {.wr_id = 1};

	(void)state;
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E, NULL, 8), REASON_DROP_SERVICE);
	assert_int_equal(qp_post_recv(f->qp, &wr, NULL), EINVAL);
	fixture_expect_nothing(f);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_finds_its_srq_only),
		cmocka_unit_test(a_domain_holds_so_many),
		cmocka_unit_test(each_message_goes_to_the_srq_it_names),
		cmocka_unit_test(keys_are_of_the_srqs_protection_domain),
		cmocka_unit_test(an_unknown_srq_is_refused),
		cmocka_unit_test(an_operation_that_is_not_offered_is_refused),
		cmocka_unit_test(a_message_keeps_its_srq),
		cmocka_unit_test(an_empty_srq_asks_to_come_again),
		cmocka_unit_test(an_error_flushes_what_was_taken),
		cmocka_unit_test(a_reset_gives_back_what_was_taken),
		cmocka_unit_test(the_receiving_half_takes_no_answers_and_no_work),
		cmocka_unit_test(each_request_packet_names_the_srq),
		cmocka_unit_test(the_sending_half_takes_no_requests_and_no_receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
