/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that need no packet: which, when, in which order with packets, and what becomes of those
 * that are half done when something happens.
 */
#include "unit/transport/rc_fixture.h"

#include <string.h>

#include "transport/rc_direct.h"

#define STEP 1000u

/* A peer's memory, and what was asked of it. */
struct target {
	struct reach reach;
	struct fixture *f;
	uint8_t memory[64 * 1024];
	uint32_t calls;
	uint32_t calls_allowed; /* later ones fail */
	bool grants;
	struct reach_step last;
};

static struct target target;

static bool reach_target(struct reach *reach, const struct reach_step *step)
{
	uint8_t *there = target.memory + (step->address - FIXTURE_REMOTE_ADDRESS) + step->offset;

	assert_ptr_equal(reach, &target.reach);
	assert_int_equal(step->key, FIXTURE_REMOTE_KEY);
	assert_ptr_equal(step->copier, target.f->core.copier);
	target.last = *step;
	if (target.calls++ >= target.calls_allowed)
		return false;
	for (uint32_t i = 0; i < step->piece_count; i++) {
		const struct held_piece *piece = &step->pieces[i];

		if (step->is_read)
			memcpy(piece->host, there, piece->length);
		else
			memcpy(there, piece->host, piece->length);
		there += piece->length;
	}
	return true;
}

static bool grant_target(struct reach *reach, const struct reach_step *step)
{
	assert_ptr_equal(reach, &target.reach);
	assert_int_equal(step->key, FIXTURE_REMOTE_KEY);
	return target.grants;
}

static struct fixture *open_direct(const struct fixture_settings *settings)
{
	struct fixture *f = fixture_new(settings);

	memset(&target, 0, sizeof(target));
	target.reach =
		(struct reach){.grants = grant_target, .access = reach_target, .bytes_min = 1};
	target.f = f;
	target.calls_allowed = UINT32_MAX;
	f->qp->path.reach = &target.reach;
	for (uint32_t i = 0; i < FIXTURE_BYTES; i++)
		f->memory[i] = (uint8_t)(i * 7 + i / 251);
	return f;
}

/* As a run of the engine: so many bytes may move. */
static void run(struct fixture *f, uint32_t bytes)
{
	qp_grant_direct(f->qp, bytes);
	fixture_run(f);
}

static uint64_t counted(const struct fixture *f, enum qp_counter counter)
{
	return qp_counters_get(f->qp->counters, counter);
}

static void writes_and_reads_are_done_without_a_packet(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);
	uint32_t psn = f->qp->requester.psn_next;

	(void)state;
	fixture_post(f, IBV_WR_RDMA_WRITE, 512, 3000, 0);
	run(f, DIRECT_STEP_BYTES);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	assert_memory_equal(target.memory, f->memory + 512, 3000);
	fixture_post(f, IBV_WR_RDMA_READ, 8192, 3000, 0);
	run(f, DIRECT_STEP_BYTES);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	assert_memory_equal(f->memory + 8192, target.memory, 3000);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->requester.psn_next, psn);
	assert_int_equal(qp_next_deadline(f->qp), VBN_TIME_NEVER);
	assert_int_equal(counted(f, QP_DIRECT_WRITES), 1);
	assert_int_equal(counted(f, QP_DIRECT_READS), 1);
	assert_int_equal(counted(f, QP_DIRECT_BYTES), 6000);
	/* The next packet has the PSN that it would have had. */
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	run(f, DIRECT_STEP_BYTES);
	fixture_expect(f, OPCODE_SEND_ONLY, psn);
	fixture_ack(f, psn);
	fixture_expect_completion(f, 3, IBV_WC_SUCCESS);
	fixture_free(f);
}

/* Everything else, and what is too short to pay. */
static bool perform(struct fixture *f, struct completion *completion, bool *is_signalled)
{
	return qp_perform(f->qp, &f->core, completion, is_signalled);
}

/* With nothing under way, and no output. */
static void what_was_posted_is_performed(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);
	struct completion completion;
	bool is_signalled = false;

	(void)state;
	qp_grant_direct(f->qp, DIRECT_STEP_BYTES);
	assert_false(perform(f, &completion, &is_signalled));
	fixture_post(f, IBV_WR_RDMA_WRITE, 512, 3000, 0);
	fixture_post(f, IBV_WR_RDMA_READ, 8192, 300, 0);
	assert_false(qp_has_started_all(f->qp));
	assert_true(perform(f, &completion, &is_signalled));
	assert_true(is_signalled);
	assert_int_equal(completion.wr_id, 1);
	assert_int_equal(completion.status, IBV_WC_SUCCESS);
	assert_int_equal(completion.opcode, IBV_WC_RDMA_WRITE);
	assert_memory_equal(target.memory, f->memory + 512, 3000);
	assert_true(perform(f, &completion, &is_signalled));
	assert_int_equal(completion.wr_id, 2);
	assert_int_equal(completion.byte_len, 300);
	assert_memory_equal(f->memory + 8192, target.memory, 300);
	assert_true(qp_has_started_all(f->qp));
	assert_false(perform(f, &completion, &is_signalled));
	run(f, DIRECT_STEP_BYTES);
	fixture_expect_nothing(f);
	assert_int_equal(counted(f, QP_DIRECT_BYTES), 3300);
	fixture_free(f);
}

/* Neither it nor output tries again what was tried a moment ago. */
static void what_cannot_be_performed_is_left_to_output(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);
	uint32_t psn = f->qp->requester.psn_next;
	struct completion completion;
	bool is_signalled;

	(void)state;
	qp_grant_direct(f->qp, DIRECT_STEP_BYTES);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	assert_false(perform(f, &completion, &is_signalled));
	run(f, DIRECT_STEP_BYTES);
	fixture_expect(f, OPCODE_SEND_ONLY, psn);
	/* It would overtake. */
	fixture_post(f, IBV_WR_RDMA_WRITE, 512, 8, 0);
	assert_false(perform(f, &completion, &is_signalled));
	assert_int_equal(target.calls, 0);
	run(f, DIRECT_STEP_BYTES);
	fixture_expect(f, OPCODE_WRITE_ONLY, psn + 1);
	fixture_ack(f, psn + 1);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	target.calls_allowed = 0;
	fixture_post(f, IBV_WR_RDMA_WRITE, 512, 8, 0);
	assert_false(perform(f, &completion, &is_signalled));
	assert_int_equal(target.calls, 1);
	run(f, DIRECT_STEP_BYTES);
	/* Once is enough. */
	assert_int_equal(target.calls, 1);
	fixture_expect(f, OPCODE_WRITE_ONLY, psn + 2);
	/* Half of it is left to output. */
	fixture_ack(f, psn + 2);
	fixture_expect_completion(f, 3, IBV_WC_SUCCESS);
	target.calls_allowed = UINT32_MAX;
	qp_grant_direct(f->qp, 1000);
	fixture_post(f, IBV_WR_RDMA_WRITE, 512, 3000, 0);
	assert_false(perform(f, &completion, &is_signalled));
	run(f, DIRECT_STEP_BYTES);
	fixture_expect_completion(f, 4, IBV_WC_SUCCESS);
	assert_memory_equal(target.memory, f->memory + 512, 3000);
	fixture_free(f);
}

static void other_requests_are_packets(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t length;
		enum opcode operation;
	} cases[] = {
		{IBV_WR_SEND, 200, OPCODE_SEND_ONLY},
		{IBV_WR_SEND_WITH_IMM, 200, OPCODE_SEND_ONLY_IMM},
		{IBV_WR_RDMA_WRITE_WITH_IMM, 200, OPCODE_WRITE_ONLY_IMM},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 8, OPCODE_FETCH_ADD},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 8, OPCODE_COMPARE_SWAP},
		{IBV_WR_RDMA_WRITE, 0, OPCODE_WRITE_ONLY},
		{IBV_WR_RDMA_READ, 0, OPCODE_READ_REQUEST},
		{IBV_WR_RDMA_WRITE, 99, OPCODE_WRITE_ONLY},
		{IBV_WR_RDMA_READ, 99, OPCODE_READ_REQUEST},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture *f = open_direct(&fixture_usual);

		target.reach.bytes_min = 100;
		fixture_post(f, cases[i].opcode, 0, cases[i].length, 0);
		run(f, DIRECT_STEP_BYTES);
		fixture_expect(f, cases[i].operation, 0xfffffe);
		fixture_expect_nothing(f);
		assert_int_equal(target.calls, 0);
		assert_int_equal(counted(f, QP_DIRECT_GIVEN_UP), 0);
		fixture_free(f);
	}
}

/* What is not acknowledged yet must not be overtaken. */
static void behind_what_is_outstanding_a_write_is_packets(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 200, 0);
	run(f, DIRECT_STEP_BYTES);
	fixture_expect(f, OPCODE_SEND_ONLY, 0xfffffe);
	fixture_expect(f, OPCODE_WRITE_ONLY, 0xffffff);
	assert_int_equal(target.calls, 0);
	fixture_ack(f, 0xfffffe);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 200, 0);
	run(f, DIRECT_STEP_BYTES);
	fixture_expect(f, OPCODE_WRITE_ONLY, 0);
	assert_int_equal(target.calls, 0);
	fixture_ack(f, 0);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 3, IBV_WC_SUCCESS);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 200, 0);
	run(f, DIRECT_STEP_BYTES);
	fixture_expect_completion(f, 4, IBV_WC_SUCCESS);
	assert_int_equal(target.calls, 1);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* One that was barred must not bar all others that a busy queue holds. */
static void behind_its_own_kind_it_waits_for_its_turn(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);

	(void)state;
	target.calls_allowed = 0;
	target.grants = true;
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 200, 0);
	fixture_post(f, IBV_WR_RDMA_READ, 0, 200, 0);
	run(f, DIRECT_STEP_BYTES);
	fixture_expect(f, OPCODE_WRITE_ONLY, 0xfffffe);
	fixture_expect_nothing(f);
	assert_false(qp_wants_direct(f->qp));
	target.calls_allowed = UINT32_MAX;
	qp_grant_direct(f->qp, DIRECT_STEP_BYTES);
	fixture_ack(f, 0xfffffe);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	assert_int_equal(target.calls, 2);
	fixture_free(f);
}

/* A message is no reason to wait, nor is what would not be granted. */
static void behind_others_it_does_not_wait(void **state)
{
	(void)state;
	for (int grants = 0; grants < 2; grants++) {
		struct fixture *f = open_direct(&fixture_usual);

		target.grants = grants;
		target.calls_allowed = 0;
		fixture_post(f, grants ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 0, 200, 0);
		fixture_post(f, IBV_WR_RDMA_WRITE, 0, 200, 0);
		run(f, DIRECT_STEP_BYTES);
		fixture_expect(f, grants ? OPCODE_SEND_ONLY : OPCODE_WRITE_ONLY, 0xfffffe);
		fixture_expect(f, OPCODE_WRITE_ONLY, 0xffffff);
		fixture_expect_nothing(f);
		fixture_free(f);
	}
}

/* A READ whose answer is missing is outstanding too. */
static void behind_a_read_a_write_is_packets(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);

	(void)state;
	target.reach.bytes_min = 100;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 8, 0);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 200, 0);
	run(f, DIRECT_STEP_BYTES);
	fixture_expect(f, OPCODE_READ_REQUEST, 0xfffffe);
	fixture_expect(f, OPCODE_WRITE_ONLY, 0xffffff);
	assert_int_equal(target.calls, 0);
	fixture_free(f);
}

static void completions_keep_their_order(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.signals_all = false;
	f = open_direct(&settings);
	for (int i = 0; i < 6; i++)
		fixture_post(f, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0, 100,
			     i % 3 ? 0 : IBV_SEND_SIGNALED);
	run(f, DIRECT_STEP_BYTES);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 4, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	assert_int_equal(f->qp->send_queue.done, f->qp->send_queue.posted);
	fixture_free(f);
}

/* No more moves in one run than was granted, and all of it in several. */
static void a_long_message_moves_in_steps(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_WRITE, 100, 2 * STEP + 1, 0);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	for (uint32_t step = 0; step < 2; step++) {
		run(f, STEP);
		assert_true(qp_wants_direct(f->qp));
		assert_int_equal(target.last.offset, step * STEP);
		assert_int_equal(target.last.bytes, STEP);
		assert_int_equal(target.last.length, 2 * STEP + 1);
		fixture_expect_nothing(f);
	}
	run(f, STEP);
	assert_false(qp_wants_direct(f->qp));
	assert_int_equal(target.calls, 3);
	assert_memory_equal(target.memory, f->memory + 100, 2 * STEP + 1);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect(f, OPCODE_SEND_ONLY, 0xfffffe);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void several_messages_share_what_is_granted(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);

	(void)state;
	for (int i = 0; i < 3; i++)
		fixture_post(f, IBV_WR_RDMA_WRITE, 0, STEP, 0);
	run(f, 2 * STEP);
	assert_true(qp_wants_direct(f->qp));
	assert_int_equal(target.calls, 2);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	run(f, STEP);
	assert_false(qp_wants_direct(f->qp));
	fixture_expect_completion(f, 3, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* Whatever has barred the way: the whole message goes by packets, from its beginning. */
static void what_cannot_be_done_goes_by_packets(void **state)
{
	(void)state;
	for (uint32_t allowed = 0; allowed < 2; allowed++) {
		struct fixture *f = open_direct(&fixture_usual);
		const struct fixture_packet *packet;

		target.calls_allowed = allowed;
		fixture_post(f, IBV_WR_RDMA_WRITE, 64, 1500, 0);
		run(f, STEP);
		if (allowed)
			run(f, STEP);
		packet = fixture_expect(f, OPCODE_WRITE_FIRST, 0xfffffe);
		assert_int_equal(packet->out.packet.reth.length, 1500);
		assert_memory_equal(packet->bytes, f->memory + 64, 1024);
		fixture_expect(f, OPCODE_WRITE_LAST, 0xffffff);
		assert_int_equal(counted(f, QP_DIRECT_GIVEN_UP), 1);
		assert_int_equal(counted(f, QP_DIRECT_WRITES), 0);
		assert_false(rc_direct_is_under_way(f->qp));
		/* And is refused as ever. */
		fixture_nak(f, 0xfffffe, SYNDROME_NAK_REMOTE_ACCESS);
		fixture_expect_completion(f, 1, IBV_WC_REM_ACCESS_ERR);
		fixture_expect_nothing(f);
		fixture_free(f);
	}
}

/* What was begun is no new request: it is finished, and the program is told then. */
static void draining_waits_for_what_is_half_done(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);
	struct ibv_qp_attr attr;

	(void)state;
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, STEP + 1, 0);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, STEP, 0);
	run(f, STEP);
	qp_grant_direct(f->qp, 0);
	fixture_move(f, IBV_QPS_SQD);
	fixture_expect_nothing(f);
	qp_query(f->qp, &attr);
	assert_true(attr.sq_draining);
	run(f, 10 * STEP);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect_event(f, IBV_EVENT_SQ_DRAINED);
	fixture_expect_nothing(f);
	assert_int_equal(target.calls, 2);
	qp_query(f->qp, &attr);
	assert_false(attr.sq_draining);
	qp_grant_direct(f->qp, STEP);
	fixture_move(f, IBV_QPS_RTS);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void an_error_flushes_what_is_half_done(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_READ, 0, 2 * STEP, 0);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, STEP, 0);
	run(f, STEP);
	qp_grant_direct(f->qp, 10 * STEP);
	fixture_move(f, IBV_QPS_ERR);
	fixture_expect_completion(f, 1, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_completion(f, 2, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(target.calls, 1);
	fixture_free(f);
}

/* The program's own memory may go in the middle, and that is no matter of the peer. */
static void own_memory_that_goes_is_a_local_error(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);

	(void)state;
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 2 * STEP, 0);
	run(f, STEP);
	pin_slot_retire(&f->region->pin);
	run(f, STEP);
	fixture_expect_completion(f, 1, IBV_WC_LOC_PROT_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(target.calls, 1);
	pin_slot_publish(&f->region->pin, FIXTURE_KEY);
	fixture_free(f);
}

/* Nothing stays held, neither after success nor after failure. */
static void regions_are_held_only_meanwhile(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);

	(void)state;
	target.calls_allowed = 1;
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, STEP, 0);
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, STEP, 0);
	run(f, DIRECT_STEP_BYTES);
	assert_int_equal(target.calls, 2);
	assert_true(pin_slot_is_idle(&f->region->pin));
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	fixture_expect(f, OPCODE_WRITE_ONLY, 0xfffffe);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void inline_bytes_are_those_of_the_post(void **state)
{
	struct fixture *f = open_direct(&fixture_usual);
	uint8_t posted[64];

	(void)state;
	memcpy(posted, f->memory, sizeof(posted));
	fixture_post(f, IBV_WR_RDMA_WRITE, 0, 64, IBV_SEND_INLINE);
	memset(f->memory, 0, 64);
	run(f, 40);
	run(f, 40);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	assert_memory_equal(target.memory, posted, 64);
	assert_int_equal(target.calls, 2);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* A depth of 0 forbids READs, however they are done. */
static void without_read_depth_a_read_fails_here(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	(void)state;
	settings.max_rd_atomic = 0;
	f = open_direct(&settings);
	fixture_post(f, IBV_WR_RDMA_READ, 0, 100, 0);
	run(f, DIRECT_STEP_BYTES);
	fixture_expect_completion(f, 1, IBV_WC_LOC_QP_OP_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(target.calls, 0);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_and_reads_are_done_without_a_packet),
		cmocka_unit_test(what_was_posted_is_performed),
		cmocka_unit_test(what_cannot_be_performed_is_left_to_output),
		cmocka_unit_test(other_requests_are_packets),
		cmocka_unit_test(behind_what_is_outstanding_a_write_is_packets),
		cmocka_unit_test(behind_its_own_kind_it_waits_for_its_turn),
		cmocka_unit_test(behind_others_it_does_not_wait),
		cmocka_unit_test(behind_a_read_a_write_is_packets),
		cmocka_unit_test(completions_keep_their_order),
		cmocka_unit_test(a_long_message_moves_in_steps),
		cmocka_unit_test(several_messages_share_what_is_granted),
		cmocka_unit_test(what_cannot_be_done_goes_by_packets),
		cmocka_unit_test(draining_waits_for_what_is_half_done),
		cmocka_unit_test(an_error_flushes_what_is_half_done),
		cmocka_unit_test(own_memory_that_goes_is_a_local_error),
		cmocka_unit_test(regions_are_held_only_meanwhile),
		cmocka_unit_test(inline_bytes_are_those_of_the_post),
		cmocka_unit_test(without_read_depth_a_read_fails_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
