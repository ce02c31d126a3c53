/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Acknowledgements that wait for the program's answer: what is held, what is not, and
 * what makes it leave. E is the PSN that the responder expects first.
 */
#include "unit/transport/rc_fixture.h"

#include "wire/syndrome.h"

#define E 0x000100u
#define SEND_PSN 0xfffffeu

/* A message has come whose program is expected to answer. */
static struct fixture *fixture_that_holds(void)
{
	struct fixture *f = fixture_new(&fixture_usual);

	fixture_post_recv(f, 0, 64);
	f->core.may_hold_ack = true;
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E, NULL, 16), REASON_NONE);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	assert_int_equal(qp_ack_deadline(f->qp), f->core.now + ACK_HOLD_NS);
	return f;
}

static void expect_none_is_held(const struct fixture *f)
{
	fixture_expect_nothing(f);
	assert_int_equal(qp_ack_deadline(f->qp), VBN_TIME_NEVER);
}

static void it_leaves_before_the_answer_in_one_batch(void **state)
{
	struct fixture *f = fixture_that_holds();

	(void)state;
	f->core.may_hold_ack = false;
	fixture_post(f, IBV_WR_SEND, 0, 16, IBV_SEND_SIGNALED);
	fixture_run(f);
	fixture_expect_ack(f, E, SYNDROME_ACK_UNLIMITED, 1);
	fixture_expect(f, OPCODE_SEND_ONLY, SEND_PSN);
	expect_none_is_held(f);
	fixture_ack(f, SEND_PSN);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_free(f);
}

/* Whoever looks for the bytes in memory takes in the ACK with them. */
static void a_write_leaves_before_it(void **state)
{
	struct fixture *f = fixture_that_holds();

	(void)state;
	f->core.may_hold_ack = false;
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 16, 0);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 16, 0);
	fixture_run(f);
	fixture_expect(f, OPCODE_WRITE_ONLY, SEND_PSN);
	fixture_expect_ack(f, E, SYNDROME_ACK_UNLIMITED, 1);
	fixture_expect(f, OPCODE_WRITE_ONLY, SEND_PSN + 1);
	expect_none_is_held(f);
	fixture_free(f);
}

static void other_writes_leave_behind_it(void **state)
{
	struct fixture *f = fixture_that_holds();

	(void)state;
	f->core.may_hold_ack = false;
	fixture_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 16, 0);
	fixture_run(f);
	fixture_expect_ack(f, E, SYNDROME_ACK_UNLIMITED, 1);
	fixture_expect(f, OPCODE_WRITE_ONLY_IMM, SEND_PSN);
	expect_none_is_held(f);
	fixture_free(f);

	f = fixture_that_holds();
	f->core.may_hold_ack = false;
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 1025, 0);
	fixture_run(f);
	fixture_expect_ack(f, E, SYNDROME_ACK_UNLIMITED, 1);
	fixture_expect(f, OPCODE_WRITE_FIRST, SEND_PSN);
	fixture_expect(f, OPCODE_WRITE_LAST, SEND_PSN + 1);
	expect_none_is_held(f);
	fixture_free(f);
}

static size_t copy_nothing(void *to, const void *from, size_t length)
{
	(void)to;
	(void)from;
	(void)length;
	return 0;
}

/* With the packet the caller drops all behind it. */
static void it_leaves_if_the_write_cannot(void **state)
{
	static const struct copier faulting = {.copy = copy_nothing};
	struct fixture *f = fixture_that_holds();

	(void)state;
	f->core.may_hold_ack = false;
	f->core.copier = &faulting;
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 16, 0);
	fixture_run(f);
	fixture_expect_ack(f, E, SYNDROME_ACK_UNLIMITED, 1);
	fixture_expect_completion(f, 2, IBV_WC_LOC_PROT_ERR);
	expect_none_is_held(f);
	fixture_free(f);
}

static void its_time_ends_whatever_the_caller_says(void **state)
{
	struct fixture *f = fixture_that_holds();

	(void)state;
	fixture_advance(f, ACK_HOLD_NS - 1);
	fixture_expect_nothing(f);
	fixture_advance(f, 1);
	fixture_expect_ack(f, E, SYNDROME_ACK_UNLIMITED, 1);
	expect_none_is_held(f);
	fixture_free(f);
}

/* Further messages neither make the hold longer nor need an ACK of their own. */
static void one_ack_for_all_that_came_meanwhile(void **state)
{
	struct fixture *f = fixture_that_holds();
	vbn_time until = qp_ack_deadline(f->qp);

	(void)state;
	fixture_post_recv(f, 0, 64);
	fixture_advance(f, ACK_HOLD_NS / 2);
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E + 1, NULL, 16), REASON_NONE);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	assert_int_equal(qp_ack_deadline(f->qp), until);
	f->core.may_hold_ack = false;
	fixture_run(f);
	fixture_expect_ack(f, E + 1, SYNDROME_ACK_UNLIMITED, 2);
	expect_none_is_held(f);
	fixture_free(f);
}

/* The peer's window waits for it, and no program was told of anything. */
static void none_is_held_in_the_middle_of_a_message(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	uint8_t bytes[1024] = {0};
	struct packet first = fixture_packet(OPCODE_SEND_FIRST, E);

	(void)state;
	fixture_post_recv(f, 0, 4096);
	f->core.may_hold_ack = true;
	first.ack_requested = true;
	first.payload = bytes;
	first.payload_bytes = sizeof(bytes);
	assert_int_equal(fixture_receive(f, &first), REASON_NONE);
	fixture_expect_ack(f, E, SYNDROME_ACK_UNLIMITED, 0);
	expect_none_is_held(f);
	fixture_free(f);
}

/* The peer asks again: its patience is over. */
static void a_repeat_makes_it_leave(void **state)
{
	struct fixture *f = fixture_that_holds();

	(void)state;
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E, NULL, 16), REASON_DROP_DUPLICATE);
	fixture_expect_ack(f, E, SYNDROME_ACK_UNLIMITED, 1);
	expect_none_is_held(f);
	fixture_free(f);
}

static void a_nak_is_not_held_and_takes_it_along(void **state)
{
	struct fixture *f = fixture_that_holds();

	(void)state;
	fixture_post_recv(f, 0, 64);
	assert_int_equal(fixture_request(f, OPCODE_SEND_ONLY, E + 2, NULL, 16), REASON_NONE);
	fixture_expect_ack(f, E + 1, SYNDROME_NAK_SEQUENCE, 1);
	expect_none_is_held(f);
	fixture_move(f, IBV_QPS_ERR);
	fixture_expect_completion(f, 2, IBV_WC_WR_FLUSH_ERR);
	fixture_free(f);
}

/* Answers of READs are never held, and acknowledge everything before them. */
static void an_answer_takes_its_place(void **state)
{
	struct fixture *f = fixture_that_holds();

	(void)state;
	assert_int_equal(fixture_rdma_request(f, OPCODE_READ_REQUEST, E + 1, FIXTURE_IOVA, 8, 0),
			 REASON_NONE);
	fixture_expect(f, OPCODE_READ_RESPONSE_ONLY, E + 1);
	expect_none_is_held(f);
	fixture_free(f);
}

static void the_program_ends_the_connection(void **state)
{
	struct fixture *f = fixture_that_holds();

	(void)state;
	fixture_move(f, IBV_QPS_ERR);
	expect_none_is_held(f);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_leaves_before_the_answer_in_one_batch),
		cmocka_unit_test(a_write_leaves_before_it),
		cmocka_unit_test(other_writes_leave_behind_it),
		cmocka_unit_test(it_leaves_if_the_write_cannot),
		cmocka_unit_test(its_time_ends_whatever_the_caller_says),
		cmocka_unit_test(one_ack_for_all_that_came_meanwhile),
		cmocka_unit_test(none_is_held_in_the_middle_of_a_message),
		cmocka_unit_test(a_repeat_makes_it_leave),
		cmocka_unit_test(a_nak_is_not_held_and_takes_it_along),
		cmocka_unit_test(an_answer_takes_its_place),
		cmocka_unit_test(the_program_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
