/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Acknowledgements, NAKs and answers: what they complete, what they make the
 * requester send again, and what is ignored.
 */
#include "unit/transport/rc_fixture.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Posts what @opcodes says, each @length bytes, runs, and takes note of the packets. */
static void post_and_send(struct fixture *f, enum ibv_wr_opcode opcode, uint32_t length,
			  uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		fixture_post(f, opcode, 0, length, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	fixture_expect_nothing(f);
}

static struct fixture *with_timeout(uint8_t timeout)
{
	struct fixture_settings settings = fixture_usual;

	settings.timeout = timeout;
	return fixture_new(&settings);
}

static void expect_bytes(const struct fixture *f, uint32_t offset, uint8_t fill, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		assert_int_equal(f->memory[offset + i], fill);
}

/* --- ACK --- */

struct ack_case {
	uint32_t psn;
	enum reason reason;
	uint32_t completions;
};

/* Four SENDs of two packets each at 0xfffffe, of which all are outstanding. */
static const struct ack_case ack_cases[] = {
	{0xfffffc, REASON_DROP_STALE_ACK, 0},
	{0xfffffd, REASON_NONE, 0}, /* the peer's last word */
	{0xfffffe, REASON_NONE, 0}, /* half a message */
	{0xffffff, REASON_NONE, 1},
	{0, REASON_NONE, 1},
	{1, REASON_NONE, 2},
	{4, REASON_NONE, 3},
	{5, REASON_NONE, 4},
	{6, REASON_DROP_STALE_ACK, 0},
	{0x7ffffe, REASON_DROP_STALE_ACK, 0},
};

static void ack_completes_all_up_to_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(ack_cases); i++) {
		const struct ack_case *c = &ack_cases[i];
		struct fixture *f = fixture_new(&fixture_usual);

		post_and_send(f, IBV_WR_SEND, 2000, 4);
		assert_int_equal(fixture_ack(f, c->psn), c->reason);
		for (uint32_t done = 1; done <= c->completions; done++) {
			const struct completion *completion =
				fixture_expect_completion(f, done, IBV_WC_SUCCESS);

			assert_int_equal(completion->opcode, IBV_WC_SEND);
			assert_int_equal(completion->slots_released, done);
			assert_false(completion->is_receive);
		}
		fixture_expect_nothing(f);
		fixture_free(f);
	}
}

static void ack_of_what_was_never_sent_is_ignored(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.outbound_bytes_max = 3 * flow_packet_cost(1024);
	f = fixture_new(&settings);
	post_and_send(f, IBV_WR_SEND, 8 * 1024, 1);
	assert_int_equal(f->packet_count, 3);
	assert_int_equal(fixture_ack(f, 1), REASON_DROP_STALE_ACK);
	fixture_expect_nothing(f);
	assert_int_equal(fixture_ack(f, 0), REASON_NONE);
	fixture_expect(f, OPCODE_SEND_MIDDLE, 1);
	fixture_free(f);
}

static void only_signalled_requests_complete(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.signals_all = false;
	f = fixture_new(&settings);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 8, IBV_SEND_SIGNALED);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	fixture_ack(f, 0);
	assert_int_equal(fixture_expect_completion(f, 2, IBV_WC_SUCCESS)->slots_released, 2);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void failed_request_completes_unasked(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.signals_all = false;
	f = fixture_new(&settings);
	post_and_send(f, IBV_WR_SEND, 8, 3);
	fixture_nak(f, 0xffffff, SYNDROME_NAK_REMOTE_ACCESS);
	assert_int_equal(fixture_expect_completion(f, 2, IBV_WC_REM_ACCESS_ERR)->slots_released, 2);
	fixture_expect_completion(f, 3, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void more_completions_than_an_outbox_holds(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.send_wr_max = 3 * OUTBOX_COMPLETIONS;
	f = fixture_new(&settings);
	post_and_send(f, IBV_WR_SEND, 8, 3 * OUTBOX_COMPLETIONS);
	fixture_nak(f, psn_add(0xfffffe, 2 * OUTBOX_COMPLETIONS), SYNDROME_NAK_INVALID_REQUEST);
	for (uint32_t i = 1; i <= 2 * OUTBOX_COMPLETIONS; i++)
		fixture_expect_completion(f, i, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2 * OUTBOX_COMPLETIONS + 1, IBV_WC_REM_INV_REQ_ERR);
	for (uint32_t i = 2 * OUTBOX_COMPLETIONS + 2; i <= 3 * OUTBOX_COMPLETIONS; i++)
		fixture_expect_completion(f, i, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* --- answers --- */

static void read_completes_when_its_answers_are_placed(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	const struct completion *completion;

	(void)state;
	post_and_send(f, IBV_WR_RDMA_READ, 2500, 1);
	/* The middle one last: any order will do. */
	fixture_read_response(f, OPCODE_READ_RESPONSE_LAST, 0, 3, 452);
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xfffffe, 1, 1024);
	fixture_expect_nothing(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE, 0xffffff, 2, 1024);
	completion = fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(completion->opcode, IBV_WC_RDMA_READ);
	assert_int_equal(completion->byte_len, 2500);
	fixture_expect_nothing(f);
	expect_bytes(f, 0, 1, 1024);
	expect_bytes(f, 1024, 2, 1024);
	expect_bytes(f, 2048, 3, 452);
	expect_bytes(f, 2500, 0, 64);
	assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
	fixture_free(f);
}

static void read_without_bytes_has_one_answer(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_RDMA_READ, 0, 1);
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 0xfffffe, 1, 0);
	assert_int_equal(fixture_expect_completion(f, 1, IBV_WC_SUCCESS)->byte_len, 0);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* A shortened repeat is answered by some peers with the opcodes of the first time. */
static void opcode_of_an_answer_does_not_matter(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_RDMA_READ, 3000, 1);
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 0xfffffe, 1, 1024);
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xffffff, 1, 1024);
	fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE, 0, 1, 952);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void atomic_answer_is_host_order(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	const uint64_t original = 0x8877665544332211;
	const struct completion *completion;

	(void)state;
	fixture_post(f, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 8, 0);
	fixture_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 16, 8, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	fixture_atomic_answer(f, 0xffffff, 5);
	fixture_expect_nothing(f);
	fixture_atomic_answer(f, 0xfffffe, original);
	completion = fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(completion->opcode, IBV_WC_COMP_SWAP);
	assert_int_equal(completion->byte_len, 8);
	completion = fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	assert_int_equal(completion->opcode, IBV_WC_FETCH_ADD);
	fixture_expect_nothing(f);
	assert_memory_equal(f->memory + 8, &original, 8);
	assert_int_equal(f->memory[16], 5);
	fixture_free(f);
}

static void answer_acknowledges_what_lies_before_it(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_SEND, 3000, 2);
	post_and_send(f, IBV_WR_RDMA_READ, 2000, 1);
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 4, 1, 1024);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* READ, SEND, READ: the window of answers moves over the PSN of the SEND. */
static void window_moves_over_a_send(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 2000, 0);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_post(f, IBV_WR_RDMA_READ, 4096, 2000, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	fixture_read_response(f, OPCODE_READ_RESPONSE_LAST, 0xffffff, 2, 976);
	/* The first answer of the second READ overtakes the first of the first. */
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 1, 3, 1024);
	/* Three ahead: now the first is taken for lost, and only it is asked for anew. */
	fixture_expect(f, OPCODE_READ_REQUEST, 0xfffffe);
	fixture_expect(f, OPCODE_READ_REQUEST, 2);
	fixture_expect_nothing(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xfffffe, 1, 1024);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->requester.psn_unacked, 2);
	assert_int_equal(f->qp->requester.answered, 0);
	fixture_read_response(f, OPCODE_READ_RESPONSE_LAST, 2, 4, 976);
	fixture_expect_completion(f, 3, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	expect_bytes(f, 0, 1, 1024);
	expect_bytes(f, 1024, 2, 976);
	expect_bytes(f, 4096, 3, 1024);
	expect_bytes(f, 5120, 4, 976);
	fixture_free(f);
}

static void answer_beyond_the_window_is_dropped(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_RDMA_READ, 100 * 1024, 1);
	assert_int_equal(fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE,
					       0xfffffe + ANSWER_WINDOW, 1, 1024),
			 REASON_DROP_OUT_OF_ORDER);
	/* It shows the loss all the same. */
	fixture_expect(f, OPCODE_READ_REQUEST, 0xfffffe);
	fixture_expect(f, OPCODE_READ_REQUEST, 0x3e);
	fixture_expect_nothing(f);
	assert_int_equal(fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE,
					       0xfffffe + ANSWER_WINDOW - 1, 1, 1024),
			 REASON_NONE);
	fixture_expect_nothing(f);
	expect_bytes(f, 63 * 1024, 1, 1024);
	expect_bytes(f, 64 * 1024, 0, 1024);
	fixture_free(f);
}

/* 64 answers placed behind a missing one: the whole window moves at once. */
static void full_window_moves_at_once(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_RDMA_READ, 65 * 1024, 1);
	for (uint32_t i = 63; i > 0; i--)
		fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE, 0xfffffe + i, (uint8_t)i,
				      1024);
	f->packet_next = f->packet_count;
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xfffffe, 64, 1024);
	assert_int_equal(f->qp->requester.psn_unacked, 0x3e);
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 0x3e, 65, 1024);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	for (uint32_t i = 1; i < 64; i++)
		expect_bytes(f, i * 1024, (uint8_t)i, 1024);
	fixture_free(f);
}

static void answer_is_placed_once(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_RDMA_READ, 3000, 1);
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xfffffe, 1, 1024);
	assert_int_equal(fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xfffffe, 9, 1024),
			 REASON_DROP_STALE_ACK);
	fixture_read_response(f, OPCODE_READ_RESPONSE_LAST, 0, 3, 952);
	assert_int_equal(fixture_read_response(f, OPCODE_READ_RESPONSE_LAST, 0, 9, 952),
			 REASON_DROP_DUPLICATE);
	fixture_expect_nothing(f);
	expect_bytes(f, 0, 1, 1024);
	expect_bytes(f, 2048, 3, 952);
	fixture_free(f);
}

/* --- losses that are inferred --- */

static void ack_behind_a_missing_answer_shows_its_loss(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 2000, 0);
	for (int i = 0; i < 3; i++)
		fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xfffffe, 1, 1024);
	fixture_ack(f, 0);
	/* What is missing, and what is not acknowledged; not what is. */
	fixture_expect(f, OPCODE_READ_REQUEST, 0xffffff);
	fixture_expect(f, OPCODE_SEND_ONLY, 1);
	fixture_expect(f, OPCODE_SEND_ONLY, 2);
	fixture_expect_nothing(f);
	/* The rest of the first wave says it again and changes nothing. */
	fixture_ack(f, 1);
	fixture_ack(f, 2);
	fixture_expect_nothing(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 0xffffff, 2, 976);
	for (uint64_t i = 1; i <= 4; i++)
		fixture_expect_completion(f, i, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* The answers that were on their way when the NAK came prove nothing new. */
static void nak_behind_missing_answers_goes_back_once(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 5 * 1024, 0);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	fixture_nak(f, 3, SYNDROME_NAK_SEQUENCE);
	fixture_expect(f, OPCODE_READ_REQUEST, 0xfffffe);
	fixture_expect(f, OPCODE_SEND_ONLY, 3);
	fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE, 1, 1, 1024);
	fixture_read_response(f, OPCODE_READ_RESPONSE_LAST, 2, 1, 1024);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void ack_of_a_read_does_not_complete_it(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_RDMA_READ, 2000, 1);
	assert_int_equal(fixture_ack(f, 0xffffff), REASON_NONE);
	fixture_expect(f, OPCODE_READ_REQUEST, 0xfffffe);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void lost_atomic_answer_is_asked_for_again(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	fixture_ack(f, 0xffffff);
	fixture_expect(f, OPCODE_FETCH_ADD, 0xfffffe);
	fixture_expect_nothing(f);
	fixture_atomic_answer(f, 0xfffffe, 1);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* --- the cursor and late acknowledgements --- */

/* The requester went back and has not sent yet when an ACK shows that it need not. */
static void late_ack_moves_the_cursor_forward(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	struct packet nak = fixture_packet(OPCODE_ACKNOWLEDGE, 0xfffffe);
	struct packet ack = fixture_packet(OPCODE_ACKNOWLEDGE, 1);

	(void)state;
	post_and_send(f, IBV_WR_SEND, 2048, 4);
	nak.aeth.syndrome = SYNDROME_NAK_SEQUENCE;
	ack.aeth.syndrome = SYNDROME_ACK_UNLIMITED;
	fixture_receive_only(f, &nak);
	fixture_receive(f, &ack);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect(f, OPCODE_SEND_FIRST, 2);
	fixture_expect(f, OPCODE_SEND_LAST, 3);
	fixture_expect(f, OPCODE_SEND_FIRST, 4);
	fixture_expect(f, OPCODE_SEND_LAST, 5);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void late_ack_of_everything_leaves_nothing_to_send(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	struct packet nak = fixture_packet(OPCODE_ACKNOWLEDGE, 0xffffff);
	struct packet ack = fixture_packet(OPCODE_ACKNOWLEDGE, 3);

	(void)state;
	post_and_send(f, IBV_WR_SEND, 3 * 1024, 2);
	nak.aeth.syndrome = SYNDROME_NAK_SEQUENCE;
	ack.aeth.syndrome = SYNDROME_ACK_UNLIMITED;
	fixture_receive_only(f, &nak);
	fixture_receive(f, &ack);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->requester.send_psn, 4);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	fixture_expect(f, OPCODE_SEND_ONLY, 4);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* --- refusals --- */

struct refusal_case {
	uint8_t syndrome;
	enum ibv_wc_status status;
	enum reason reason;
};

static const struct refusal_case refusal_cases[] = {
	{SYNDROME_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR, REASON_NAK_INVALID_REQUEST},
	{SYNDROME_NAK_REMOTE_ACCESS, IBV_WC_REM_ACCESS_ERR, REASON_NAK_REMOTE_ACCESS},
	{SYNDROME_NAK_REMOTE_OPERATION, IBV_WC_REM_OP_ERR, REASON_NAK_REMOTE_OPERATION},
};

/* In the middle of the second of three messages. */
static void refusal_fails_the_message_it_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(refusal_cases); i++) {
		const struct refusal_case *c = &refusal_cases[i];
		struct fixture *f = fixture_new(&fixture_usual);
		const struct completion *failed;

		post_and_send(f, IBV_WR_RDMA_WRITE, 3 * 1024, 3);
		assert_int_equal(fixture_nak(f, 2, c->syndrome), REASON_NONE);
		fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
		failed = fixture_expect_completion(f, 2, c->status);
		assert_int_equal(failed->complaint.reason, c->reason);
		assert_int_equal(failed->complaint.key, FIXTURE_REMOTE_KEY);
		assert_int_equal(failed->complaint.length, 3 * 1024);
		fixture_expect_completion(f, 3, IBV_WC_WR_FLUSH_ERR);
		fixture_expect_nothing(f);
		assert_int_equal(f->qp->state, IBV_QPS_ERR);
		assert_int_equal(atomic_load(&f->outbound.bytes_under_way), 0);
		assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
		assert_int_equal(fixture_ack(f, 6), REASON_DROP_QP_STATE);
		fixture_expect_nothing(f);
		fixture_free(f);
	}
}

static void naks_that_say_nothing_are_ignored(void **state)
{
	static const struct {
		uint32_t psn;
		uint8_t syndrome;
	} cases[] = {
		{0xfffffe, 0x64}, {0xfffffe, 0x7f}, {0xfffffe, 0x40}, {0xfffffe, 0x5f},
		{0, 0x61},	  {0xfffffd, 0x61}, {0xfffffd, 0x60}, {0, 0x2c},
	};
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_SEND, 2048, 1);
	for (size_t i = 0; i < COUNT_OF(cases); i++)
		assert_int_equal(fixture_nak(f, cases[i].psn, cases[i].syndrome),
				 REASON_DROP_STALE_ACK);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	fixture_free(f);
}

/* READ at 0xfffffe, WRITE at 0, SEND at 1; the peer refuses the WRITE. */
static struct fixture *refused_behind_a_read(uint8_t timeout)
{
	struct fixture *f = with_timeout(timeout);

	fixture_post(f, IBV_WR_RDMA_READ, 0, 2000, 0);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 8, 0);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xfffffe, 1, 1024);
	fixture_expect_nothing(f);
	fixture_nak(f, 0, SYNDROME_NAK_REMOTE_ACCESS);
	return f;
}

static void refusal_waits_for_answers_that_are_late(void **state)
{
	struct fixture *f = refused_behind_a_read(14);

	(void)state;
	fixture_expect(f, OPCODE_READ_REQUEST, 0xffffff);
	fixture_expect_nothing(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_LAST, 0xffffff, 2, 976);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_REM_ACCESS_ERR);
	fixture_expect_completion(f, 3, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void refusal_ends_with_the_retries_when_answers_are_lost(void **state)
{
	struct fixture *f = refused_behind_a_read(14);

	(void)state;
	fixture_expect(f, OPCODE_READ_REQUEST, 0xffffff);
	for (int i = 0; i < 3; i++) {
		fixture_advance(f, VBN_SECOND);
		fixture_expect(f, OPCODE_READ_REQUEST, 0xffffff);
	}
	fixture_expect_nothing(f);
	fixture_advance(f, VBN_SECOND);
	fixture_expect_completion(f, 1, IBV_WC_RETRY_EXC_ERR);
	fixture_expect_completion(f, 2, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_completion(f, 3, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void refusal_without_a_timer_is_told_at_once(void **state)
{
	struct fixture *f = refused_behind_a_read(0);

	(void)state;
	fixture_expect_completion(f, 1, IBV_WC_REM_ACCESS_ERR);
	fixture_expect_completion(f, 2, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_completion(f, 3, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* --- answers that are wrong --- */

static void expect_bad_answer(struct fixture *f)
{
	assert_int_equal(fixture_expect_completion(f, 1, IBV_WC_BAD_RESP_ERR)->complaint.reason,
			 REASON_RESPONSE_BAD);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	fixture_free(f);
}

static void answer_of_wrong_length_fails_the_read(void **state)
{
	static const struct {
		uint32_t psn, length;
	} cases[] = {
		{0xfffffe, 1023}, {0xfffffe, 0}, {0xfffffe, 1025}, {0xffffff, 976},
		{0, 453},	  {0, 451},	 {0, 1024},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct fixture *f = fixture_new(&fixture_usual);

		post_and_send(f, IBV_WR_RDMA_READ, 2500, 1);
		fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE, cases[i].psn, 1,
				      cases[i].length);
		expect_bytes(f, 0, 0, 4096);
		expect_bad_answer(f);
	}
}

static void answer_with_a_nak_in_it_fails_the_request(void **state)
{
	struct packet packet;
	struct fixture *f;

	(void)state;
	f = fixture_new(&fixture_usual);
	post_and_send(f, IBV_WR_RDMA_READ, 0, 1);
	packet = fixture_packet(OPCODE_READ_RESPONSE_ONLY, 0xfffffe);
	packet.aeth.syndrome = SYNDROME_NAK_REMOTE_ACCESS;
	fixture_receive(f, &packet);
	expect_bad_answer(f);

	f = fixture_new(&fixture_usual);
	post_and_send(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 1);
	packet = fixture_packet(OPCODE_ATOMIC_ACKNOWLEDGE, 0xfffffe);
	packet.aeth.syndrome = 0x2c;
	fixture_receive(f, &packet);
	expect_bad_answer(f);
}

static void answer_to_another_kind_of_request_is_ignored(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_post(f, IBV_WR_RDMA_READ, 0, 8, 0);
	fixture_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	assert_int_equal(fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 0xfffffe, 1, 8),
			 REASON_DROP_STALE_ACK);
	assert_int_equal(fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 0, 1, 8),
			 REASON_DROP_STALE_ACK);
	assert_int_equal(fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 1, 1, 8),
			 REASON_DROP_STALE_ACK);
	assert_int_equal(fixture_atomic_answer(f, 0xfffffe, 1), REASON_DROP_STALE_ACK);
	assert_int_equal(fixture_atomic_answer(f, 0xffffff, 1), REASON_DROP_STALE_ACK);
	fixture_expect_nothing(f);
	expect_bytes(f, 0, 0, 8);
	fixture_free(f);
}

/* The region goes away while its READ is under way. */
static void answer_without_a_place_fails_in_its_turn(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	const struct completion *failed;

	(void)state;
	fixture_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0);
	fixture_post(f, IBV_WR_RDMA_READ, 0, 8, 0);
	fixture_post(f, IBV_WR_RDMA_READ, 0, 0, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	f->region->mr.access = IBV_ACCESS_REMOTE_READ;
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 0xffffff, 1, 8);
	fixture_expect_nothing(f);
	f->region->mr.access = IBV_ACCESS_LOCAL_WRITE;
	fixture_atomic_answer(f, 0xfffffe, 7);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	failed = fixture_expect_completion(f, 2, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(failed->complaint.reason, REASON_KEY_NO_LOCAL_WRITE);
	fixture_expect_completion(f, 3, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ack_completes_all_up_to_it),
		cmocka_unit_test(ack_of_what_was_never_sent_is_ignored),
		cmocka_unit_test(only_signalled_requests_complete),
		cmocka_unit_test(failed_request_completes_unasked),
		cmocka_unit_test(more_completions_than_an_outbox_holds),
		cmocka_unit_test(read_completes_when_its_answers_are_placed),
		cmocka_unit_test(read_without_bytes_has_one_answer),
		cmocka_unit_test(opcode_of_an_answer_does_not_matter),
		cmocka_unit_test(atomic_answer_is_host_order),
		cmocka_unit_test(answer_acknowledges_what_lies_before_it),
		cmocka_unit_test(window_moves_over_a_send),
		cmocka_unit_test(answer_beyond_the_window_is_dropped),
		cmocka_unit_test(full_window_moves_at_once),
		cmocka_unit_test(answer_is_placed_once),
		cmocka_unit_test(ack_behind_a_missing_answer_shows_its_loss),
		cmocka_unit_test(nak_behind_missing_answers_goes_back_once),
		cmocka_unit_test(ack_of_a_read_does_not_complete_it),
		cmocka_unit_test(lost_atomic_answer_is_asked_for_again),
		cmocka_unit_test(late_ack_moves_the_cursor_forward),
		cmocka_unit_test(late_ack_of_everything_leaves_nothing_to_send),
		cmocka_unit_test(refusal_fails_the_message_it_names),
		cmocka_unit_test(naks_that_say_nothing_are_ignored),
		cmocka_unit_test(refusal_waits_for_answers_that_are_late),
		cmocka_unit_test(refusal_ends_with_the_retries_when_answers_are_lost),
		cmocka_unit_test(refusal_without_a_timer_is_told_at_once),
		cmocka_unit_test(answer_of_wrong_length_fails_the_read),
		cmocka_unit_test(answer_with_a_nak_in_it_fails_the_request),
		cmocka_unit_test(answer_to_another_kind_of_request_is_ignored),
		cmocka_unit_test(answer_without_a_place_fails_in_its_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
