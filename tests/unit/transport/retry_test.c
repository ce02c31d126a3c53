/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The three deadlines: when they fall, what they make the requester send, when they
 * end the connection.
 */
#include "unit/transport/rc_fixture.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define MS VBN_MILLISECOND
#define US VBN_MICROSECOND
#define SYNDROME_RNR(code) ((uint8_t)(SYNDROME_RNR_BASE | (code)))
/* What the usual timeout, code 14, comes to. */
#define USUAL_EXPIRY (2 * (4096ull << 14))

static void post_and_send(struct fixture *f, enum ibv_wr_opcode opcode, uint32_t length,
			  uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		fixture_post(f, opcode, 0, length, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	fixture_expect_nothing(f);
}

static void expect_sends(struct fixture *f, uint32_t psn, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		fixture_expect(f, OPCODE_SEND_ONLY, psn + i);
	fixture_expect_nothing(f);
}

/* Lets probes fire and forgets them, up to just before @ns from now. */
static void pass_quietly(struct fixture *f, uint64_t ns)
{
	vbn_time end = f->core.now + ns - 1;

	while (qp_next_deadline(f->qp) <= end)
		fixture_advance(f, qp_next_deadline(f->qp) - f->core.now);
	fixture_advance(f, end - f->core.now);
	f->packet_next = f->packet_count;
	f->core.now++;
}

/* --- the retry timer --- */

static const struct {
	uint8_t code;
	uint64_t expiry; /* 0: never */
} expiry_cases[] = {
	{0, 0},
	{1, 20 * MS},
	{11, 20 * MS},
	{12, 2 * (4096ull << 12)},
	{14, 2 * (4096ull << 14)},
	{31, 2 * (4096ull << 31)},
};

static void expiry_follows_the_attribute(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(expiry_cases); i++) {
		struct fixture_settings settings = fixture_usual;
		struct fixture *f;
		vbn_time posted;

		settings.timeout = expiry_cases[i].code;
		f = fixture_new(&settings);
		assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
		posted = f->core.now;
		post_and_send(f, IBV_WR_SEND, 8, 1);
		assert_int_equal(f->qp->requester.retry_deadline,
				 expiry_cases[i].expiry ? posted + expiry_cases[i].expiry
							: VBN_TIME_NEVER);
		fixture_ack(f, 0xfffffe);
		assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
		fixture_free(f);
	}
}

/* No probe; but a peer that does not answer is noticed. */
static void lossless_path_has_the_retry_timer_only(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.is_lossless = true;
	f = fixture_new(&settings);
	post_and_send(f, IBV_WR_SEND, 8, 2);
	assert_int_equal(qp_next_deadline(f->qp), f->core.now + USUAL_EXPIRY);
	assert_int_equal(f->qp->requester.probe_deadline, VBN_TIME_NEVER);
	fixture_ack(f, 0xfffffe);
	fixture_ack(f, 0xffffff);
	assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
	fixture_free(f);
}

static void expiry_sends_all_that_is_not_acknowledged(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_SEND, 8, 4);
	fixture_ack(f, 0xfffffe);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	pass_quietly(f, USUAL_EXPIRY);
	fixture_advance(f, 0);
	expect_sends(f, 0xffffff, 3);
	fixture_free(f);
}

static void timer_starts_anew_with_progress_only(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	vbn_time start = f->core.now;

	(void)state;
	post_and_send(f, IBV_WR_SEND, 8, 3);
	f->core.now += MS;
	post_and_send(f, IBV_WR_SEND, 8, 1);
	fixture_ack(f, 0xfffffd);
	assert_int_equal(f->qp->requester.retry_deadline, start + USUAL_EXPIRY);
	fixture_ack(f, 0xffffff);
	assert_int_equal(f->qp->requester.retry_deadline, start + MS + USUAL_EXPIRY);
	fixture_free(f);
}

static void tries_are_counted_between_progress(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	const struct completion *failed;

	(void)state;
	post_and_send(f, IBV_WR_SEND, 8, 2);
	for (int i = 0; i < 3; i++) {
		fixture_advance(f, USUAL_EXPIRY);
		expect_sends(f, 0xfffffe, 2);
	}
	fixture_ack(f, 0xfffffe);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++) {
		fixture_advance(f, USUAL_EXPIRY);
		expect_sends(f, 0xffffff, 1);
	}
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	fixture_advance(f, USUAL_EXPIRY);
	failed = fixture_expect_completion(f, 2, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(failed->complaint.reason, REASON_RETRY_EXCEEDED);
	assert_int_equal(failed->complaint.limit, 3);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
	fixture_free(f);
}

static void without_tries_the_first_expiry_is_the_last(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.retry_cnt = 0;
	f = fixture_new(&settings);
	post_and_send(f, IBV_WR_RDMA_READ, 8, 1);
	fixture_advance(f, USUAL_EXPIRY);
	fixture_expect_completion(f, 1, IBV_WC_RETRY_EXC_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* --- a peer on this host that is stopped --- */

static void a_peer_that_does_not_look_costs_no_try(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	_Atomic vbn_time served_at = 5;

	(void)state;
	atomic_store(&f->outbound.served_at, &served_at);
	post_and_send(f, IBV_WR_SEND, 8, 2);
	for (int i = 0; i < 50; i++)
		pass_quietly(f, USUAL_EXPIRY);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	assert_int_equal(f->qp->requester.retries_left, 3);
	fixture_ack(f, 0xffffff);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_free(f);
}

/* It looks and answers nothing: then its QP is gone, and the tries are as few as ever. */
static void a_peer_that_looks_in_vain_costs_tries(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	_Atomic vbn_time served_at = 5;

	(void)state;
	atomic_store(&f->outbound.served_at, &served_at);
	post_and_send(f, IBV_WR_SEND, 8, 1);
	for (int i = 0; i < 3; i++) {
		atomic_fetch_add(&served_at, 1);
		fixture_advance(f, USUAL_EXPIRY);
		expect_sends(f, 0xfffffe, 1);
	}
	atomic_fetch_add(&served_at, 1);
	fixture_advance(f, USUAL_EXPIRY);
	fixture_expect_completion(f, 1, IBV_WC_RETRY_EXC_ERR);
	fixture_free(f);
}

static void the_death_of_a_stopped_peer_starts_the_count(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	_Atomic vbn_time served_at = 5;

	(void)state;
	atomic_store(&f->outbound.served_at, &served_at);
	post_and_send(f, IBV_WR_SEND, 8, 1);
	pass_quietly(f, 5 * USUAL_EXPIRY);
	atomic_store(&f->outbound.served_at, NULL);
	for (int i = 0; i < 4; i++)
		fixture_advance(f, USUAL_EXPIRY);
	f->packet_next = f->packet_count;
	fixture_expect_completion(f, 1, IBV_WC_RETRY_EXC_ERR);
	fixture_free(f);
}

static void a_sequence_nak_uses_up_no_try(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_SEND, 8, 2);
	for (int i = 0; i < 20; i++) {
		fixture_nak(f, 0xfffffe, SYNDROME_NAK_SEQUENCE);
		expect_sends(f, 0xfffffe, 2);
		/* Later than any echo of it. */
		f->core.now += VBN_MILLISECOND;
	}
	assert_int_equal(f->qp->requester.retries_left, 3);
	fixture_free(f);
}

/* Before the first measurement an echo is what comes within a millisecond. */
static void a_sequence_nak_is_acted_on_once_in_a_round_trip(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_SEND, 8, 3);
	assert_int_equal(fixture_nak(f, 0xfffffe, SYNDROME_NAK_SEQUENCE), REASON_NONE);
	expect_sends(f, 0xfffffe, 3);
	f->core.now += VBN_MILLISECOND - 1;
	assert_int_equal(fixture_nak(f, 0xfffffe, SYNDROME_NAK_SEQUENCE), REASON_DROP_DUPLICATE);
	fixture_expect_nothing(f);
	/* Another gap is news at any time, and so is this one later. */
	assert_int_equal(fixture_nak(f, 0xffffff, SYNDROME_NAK_SEQUENCE), REASON_NONE);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	expect_sends(f, 0xffffff, 2);
	f->core.now += VBN_MILLISECOND;
	assert_int_equal(fixture_nak(f, 0xffffff, SYNDROME_NAK_SEQUENCE), REASON_NONE);
	expect_sends(f, 0xffffff, 2);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* Going back empties the queues on the way, so the next NAK may come sooner than usual. */
static void a_sequence_nak_counts_again_after_half_a_round_trip(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	for (uint32_t i = 0; i < 10; i++) {
		post_and_send(f, IBV_WR_SEND, 8, 1);
		f->core.now += 100 * US;
		fixture_ack(f, psn_add(0xfffffe, i));
		fixture_expect_completion(f, i + 1, IBV_WC_SUCCESS);
	}
	post_and_send(f, IBV_WR_SEND, 8, 3);
	assert_int_equal(fixture_nak(f, 8, SYNDROME_NAK_SEQUENCE), REASON_NONE);
	expect_sends(f, 8, 3);
	f->core.now += 50 * US - 1;
	assert_int_equal(fixture_nak(f, 8, SYNDROME_NAK_SEQUENCE), REASON_DROP_DUPLICATE);
	fixture_expect_nothing(f);
	f->core.now++;
	assert_int_equal(fixture_nak(f, 8, SYNDROME_NAK_SEQUENCE), REASON_NONE);
	expect_sends(f, 8, 3);
	fixture_free(f);
}

/* --- the RNR wait --- */

static const struct {
	uint8_t code;
	uint64_t wait;
} rnr_cases[] = {{0, 655360 * US}, {1, 10 * US}, {12, 640 * US}, {31, 491520 * US}};

static void rnr_nak_waits_as_long_as_it_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rnr_cases); i++) {
		struct fixture *f = fixture_new(&fixture_usual);

		post_and_send(f, IBV_WR_SEND, 8, 3);
		fixture_nak(f, 0xffffff, SYNDROME_RNR(rnr_cases[i].code));
		fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
		fixture_expect_nothing(f);
		assert_int_equal(qp_next_deadline(f->qp), f->core.now + rnr_cases[i].wait);
		fixture_post(f, IBV_WR_SEND, 0, 8, 0);
		fixture_advance(f, rnr_cases[i].wait - 1);
		fixture_expect_nothing(f);
		fixture_advance(f, 1);
		expect_sends(f, 0xffffff, 3);
		assert_int_equal(f->qp->requester.retry_deadline, f->core.now + USUAL_EXPIRY);
		fixture_free(f);
	}
}

static void rnr_tries_run_out(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_SEND, 8, 2);
	for (int i = 0; i < 2; i++) {
		fixture_nak(f, 0xfffffe, SYNDROME_RNR(1));
		fixture_advance(f, 10 * US);
		expect_sends(f, 0xfffffe, 2);
	}
	fixture_nak(f, 0xfffffe, SYNDROME_RNR(1));
	assert_int_equal(
		fixture_expect_completion(f, 1, IBV_WC_RNR_RETRY_EXC_ERR)->complaint.reason,
		REASON_RNR_RETRY_EXCEEDED);
	fixture_expect_completion(f, 2, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void rnr_tries_are_full_again_after_progress(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_SEND, 8, 4);
	for (uint32_t i = 0; i < 4; i++) {
		for (int again = 0; again < 2; again++) {
			fixture_nak(f, 0xfffffe + i, SYNDROME_RNR(1));
			fixture_advance(f, 10 * US);
			expect_sends(f, 0xfffffe + i, 4 - i);
		}
		fixture_ack(f, 0xfffffe + i);
		fixture_expect_completion(f, i + 1, IBV_WC_SUCCESS);
	}
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void rnr_retry_seven_means_for_ever(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.rnr_retry = 7;
	f = fixture_new(&settings);
	post_and_send(f, IBV_WR_SEND, 8, 1);
	for (int i = 0; i < 50; i++) {
		fixture_nak(f, 0xfffffe, SYNDROME_RNR(1));
		fixture_advance(f, 10 * US);
		expect_sends(f, 0xfffffe, 1);
	}
	fixture_free(f);
}

static void copy_of_an_rnr_nak_counts_once(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	vbn_time wait_end;

	(void)state;
	post_and_send(f, IBV_WR_SEND, 8, 1);
	fixture_nak(f, 0xfffffe, SYNDROME_RNR(12));
	wait_end = qp_next_deadline(f->qp);
	for (int i = 0; i < 5; i++) {
		fixture_advance(f, US);
		assert_int_equal(fixture_nak(f, 0xfffffe, SYNDROME_RNR(12)), REASON_DROP_DUPLICATE);
	}
	assert_int_equal(qp_next_deadline(f->qp), wait_end);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* A lost packet now and then during a long wait for a receive is not an absent peer. */
static void rnr_nak_is_a_sign_of_life(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.rnr_retry = 7;
	f = fixture_new(&settings);
	post_and_send(f, IBV_WR_SEND, 8, 1);
	for (int i = 0; i < 10; i++) {
		fixture_advance(f, USUAL_EXPIRY);
		expect_sends(f, 0xfffffe, 1);
		fixture_nak(f, 0xfffffe, SYNDROME_RNR(1));
		fixture_advance(f, 10 * US);
		expect_sends(f, 0xfffffe, 1);
	}
	fixture_free(f);
}

/* Behind a missing answer it only shows the loss: no wait, no try used up. */
static void rnr_nak_behind_a_missing_answer(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 8, 0);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	fixture_nak(f, 0xffffff, SYNDROME_RNR(12));
	fixture_expect(f, OPCODE_READ_REQUEST, 0xfffffe);
	fixture_expect(f, OPCODE_SEND_ONLY, 0xffffff);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->requester.rnr_retries_left, 2);
	assert_int_equal(f->qp->requester.rnr_deadline, VBN_TIME_NEVER);
	fixture_free(f);
}

/* --- the probe --- */

static void probe_is_the_last_packet_again(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_SEND, 2000, 3);
	fixture_advance(f, 2 * MS - 1);
	fixture_expect_nothing(f);
	fixture_advance(f, 1);
	assert_true(fixture_expect(f, OPCODE_SEND_LAST, 3)->out.packet.ack_requested);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->requester.retries_left, 3);
	assert_int_equal(f->qp->requester.send_psn, 4);
	/* The peer says what is missing. */
	fixture_nak(f, 2, SYNDROME_NAK_SEQUENCE);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect(f, OPCODE_SEND_FIRST, 2);
	fixture_expect(f, OPCODE_SEND_LAST, 3);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void probes_come_at_doubling_distances(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.timeout = 0;
	f = fixture_new(&settings);
	post_and_send(f, IBV_WR_SEND, 8, 1);
	for (uint64_t distance = 2 * MS; distance < VBN_SECOND; distance *= 2) {
		assert_int_equal(qp_next_deadline(f->qp), f->core.now + distance);
		fixture_advance(f, distance);
		expect_sends(f, 0xfffffe, 1);
	}
	for (int i = 0; i < 100; i++) {
		assert_int_equal(qp_next_deadline(f->qp), f->core.now + VBN_SECOND);
		fixture_advance(f, VBN_SECOND);
		expect_sends(f, 0xfffffe, 1);
	}
	fixture_ack(f, 0xfffffe);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	post_and_send(f, IBV_WR_SEND, 8, 1);
	assert_int_equal(f->qp->requester.probe_count, 0);
	assert_true(f->qp->requester.probe_deadline <= f->core.now + VBN_SECOND);
	fixture_free(f);
}

static void probe_of_a_read_asks_for_what_is_missing(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	const struct packet *probe;

	(void)state;
	post_and_send(f, IBV_WR_RDMA_READ, 5 * 1024, 1);
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xfffffe, 1, 1024);
	fixture_read_response(f, OPCODE_READ_RESPONSE_MIDDLE, 0, 1, 1024);
	fixture_advance(f, 2 * MS);
	probe = &fixture_expect(f, OPCODE_READ_REQUEST, 0xffffff)->out.packet;
	assert_int_equal(probe->reth.address, FIXTURE_REMOTE_ADDRESS + 1024);
	assert_int_equal(probe->reth.length, 4 * 1024);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* The last request may have answers although the one before it has none. */
static void probe_of_a_later_read_skips_its_answers(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_RDMA_READ, 8, 1);
	post_and_send(f, IBV_WR_RDMA_READ, 3 * 1024, 1);
	fixture_read_response(f, OPCODE_READ_RESPONSE_FIRST, 0xffffff, 1, 1024);
	fixture_advance(f, 2 * MS);
	assert_int_equal(fixture_expect(f, OPCODE_READ_REQUEST, 0)->out.packet.reth.length,
			 2 * 1024);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void probe_of_an_atomic_is_the_same_request(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 2);
	fixture_advance(f, 2 * MS);
	assert_int_equal(
		fixture_expect(f, OPCODE_FETCH_ADD, 0xffffff)->out.packet.atomic.swap_or_add,
		0x0102030405060708);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* The answer of a READ is lost twice: the ACK of the probe shows it a second time. */
static void probe_makes_an_inferred_loss_news_again(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 8, 0);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	f->packet_next = f->packet_count;
	fixture_ack(f, 0xffffff);
	fixture_expect(f, OPCODE_READ_REQUEST, 0xfffffe);
	fixture_ack(f, 0xffffff);
	fixture_expect_nothing(f);
	fixture_advance(f, 2 * MS);
	fixture_expect(f, OPCODE_SEND_ONLY, 0xffffff);
	fixture_ack(f, 0xffffff);
	fixture_expect(f, OPCODE_READ_REQUEST, 0xfffffe);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* The answer of the first READ is lost; that of the second is too close to show it at first. */
static void answer_to_a_probe_shows_the_loss_before_it(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_RDMA_READ, 8, 2);
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 0xffffff, 1, 8);
	fixture_expect_nothing(f);
	fixture_advance(f, 2 * MS);
	fixture_expect(f, OPCODE_READ_REQUEST, 0xffffff);
	fixture_expect_nothing(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 0xffffff, 1, 8);
	fixture_expect(f, OPCODE_READ_REQUEST, 0xfffffe);
	fixture_expect_nothing(f);
	fixture_read_response(f, OPCODE_READ_RESPONSE_ONLY, 0xfffffe, 1, 8);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void draining_probes_as_well(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	post_and_send(f, IBV_WR_SEND, 8, 1);
	fixture_move(f, IBV_QPS_SQD);
	fixture_advance(f, 2 * MS);
	expect_sends(f, 0xfffffe, 1);
	fixture_free(f);
}

/* --- round-trip time --- */

/* One SEND whose ACK takes @ns. */
static void exchange(struct fixture *f, uint64_t ns)
{
	uint32_t psn = f->qp->requester.psn_next;

	post_and_send(f, IBV_WR_SEND, 8, 1);
	f->core.now += ns;
	fixture_ack(f, psn);
	f->completion_next = f->completion_count;
	atomic_store(&f->qp->send_queue.released, f->qp->send_queue.done);
}

static void probe_waits_for_a_few_round_trips(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	exchange(f, 5 * MS);
	assert_int_equal(f->qp->requester.rtt_ns, 5 * MS);
	assert_int_equal(f->qp->requester.rtt_deviation_ns, 5 * MS / 2);
	post_and_send(f, IBV_WR_SEND, 8, 1);
	assert_int_equal(qp_next_deadline(f->qp), f->core.now + 15 * MS);
	fixture_ack(f, 0xffffff);
	f->completion_next = f->completion_count;
	for (int i = 0; i < 100; i++)
		exchange(f, 40 * US);
	assert_in_range(f->qp->requester.rtt_ns, 39 * US, 45 * US);
	post_and_send(f, IBV_WR_SEND, 8, 1);
	assert_int_equal(qp_next_deadline(f->qp), f->core.now + 2 * MS);
	fixture_free(f);
}

/* Nobody knows which of two copies an ACK is for. */
static void repeated_packets_are_not_timed(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	exchange(f, 100 * US);
	post_and_send(f, IBV_WR_SEND, 8, 1);
	fixture_advance(f, 2 * MS);
	expect_sends(f, 0xffffff, 1);
	f->core.now += 500 * MS;
	fixture_ack(f, 0xffffff);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	assert_int_equal(f->qp->requester.rtt_ns, 100 * US);
	post_and_send(f, IBV_WR_SEND, 8, 1);
	fixture_nak(f, 0, SYNDROME_NAK_SEQUENCE);
	expect_sends(f, 0, 1);
	f->core.now += 500 * MS;
	fixture_ack(f, 0);
	assert_int_equal(f->qp->requester.rtt_ns, 100 * US);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(expiry_follows_the_attribute),
		cmocka_unit_test(lossless_path_has_the_retry_timer_only),
		cmocka_unit_test(expiry_sends_all_that_is_not_acknowledged),
		cmocka_unit_test(timer_starts_anew_with_progress_only),
		cmocka_unit_test(tries_are_counted_between_progress),
		cmocka_unit_test(a_peer_that_does_not_look_costs_no_try),
		cmocka_unit_test(a_peer_that_looks_in_vain_costs_tries),
		cmocka_unit_test(the_death_of_a_stopped_peer_starts_the_count),
		cmocka_unit_test(without_tries_the_first_expiry_is_the_last),
		cmocka_unit_test(a_sequence_nak_uses_up_no_try),
		cmocka_unit_test(a_sequence_nak_is_acted_on_once_in_a_round_trip),
		cmocka_unit_test(a_sequence_nak_counts_again_after_half_a_round_trip),
		cmocka_unit_test(rnr_nak_waits_as_long_as_it_says),
		cmocka_unit_test(rnr_tries_run_out),
		cmocka_unit_test(rnr_tries_are_full_again_after_progress),
		cmocka_unit_test(rnr_retry_seven_means_for_ever),
		cmocka_unit_test(copy_of_an_rnr_nak_counts_once),
		cmocka_unit_test(rnr_nak_is_a_sign_of_life),
		cmocka_unit_test(rnr_nak_behind_a_missing_answer),
		cmocka_unit_test(probe_is_the_last_packet_again),
		cmocka_unit_test(probes_come_at_doubling_distances),
		cmocka_unit_test(probe_of_a_read_asks_for_what_is_missing),
		cmocka_unit_test(probe_of_a_later_read_skips_its_answers),
		cmocka_unit_test(probe_of_an_atomic_is_the_same_request),
		cmocka_unit_test(probe_makes_an_inferred_loss_news_again),
		cmocka_unit_test(answer_to_a_probe_shows_the_loss_before_it),
		cmocka_unit_test(draining_probes_as_well),
		cmocka_unit_test(probe_waits_for_a_few_round_trips),
		cmocka_unit_test(repeated_packets_are_not_timed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
