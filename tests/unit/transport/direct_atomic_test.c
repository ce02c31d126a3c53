/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics that are performed in the peer's memory: once, in their turn, or by a packet. */
#include "unit/transport/rc_fixture.h"

#include <string.h>

struct target {
	struct reach reach;
	uint64_t memory;
	uint32_t calls;
	enum reach_outcome outcome;
	struct reach_atomic last;
};

static struct target target;

static enum reach_outcome perform(struct reach *reach, const struct reach_atomic *atomic,
				  uint64_t *original)
{
	assert_ptr_equal(reach, &target.reach);
	assert_int_equal(atomic->key, FIXTURE_REMOTE_KEY);
	assert_int_equal(atomic->address, FIXTURE_REMOTE_ADDRESS);
	target.calls++;
	target.last = *atomic;
	if (target.outcome != REACH_DONE)
		return target.outcome;
	*original = target.memory;
	if (!atomic->is_swap)
		target.memory += atomic->compare_add;
	else if (target.memory == atomic->compare_add)
		target.memory = atomic->swap;
	return REACH_DONE;
}

static bool never(struct reach *reach, const struct reach_step *step)
{
	(void)reach;
	(void)step;
	return false;
}

static struct fixture *open_direct(enum reach_outcome outcome)
{
	struct fixture *f = fixture_new(&fixture_usual);

	target = (struct target){.reach = {.access = never, .bytes_min = 1, .atomic = perform},
				 .memory = 100,
				 .outcome = outcome};
	f->qp->path.reach = &target.reach;
	return f;
}

static void run(struct fixture *f)
{
	qp_grant_direct(f->qp, DIRECT_STEP_BYTES);
	fixture_run(f);
}

static uint64_t delivered(const struct fixture *f, uint32_t offset)
{
	uint64_t value;

	memcpy(&value, f->memory + offset, sizeof(value));
	return value;
}

static void each_is_executed_once_and_answered(void **state)
{
	struct fixture *f = open_direct(REACH_DONE);
	uint32_t psn = f->qp->requester.psn_next;
	uint64_t before;

	(void)state;
	fixture_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 24, 8, 0);
	run(f);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(delivered(f, 24), 100);
	assert_false(target.last.is_swap);
	before = target.memory;
	fixture_post(f, IBV_WR_ATOMIC_CMP_AND_SWP, 40, 8, 0);
	run(f);
	fixture_expect_completion(f, 2, IBV_WC_SUCCESS);
	assert_int_equal(delivered(f, 40), before);
	assert_true(target.last.is_swap);
	fixture_expect_nothing(f);
	assert_int_equal(target.calls, 2);
	assert_int_equal(f->qp->requester.psn_next, psn);
	assert_int_equal(qp_counters_get(f->qp->counters, QP_DIRECT_ATOMICS), 2);
	fixture_free(f);
}

static void not_before_what_is_outstanding(void **state)
{
	struct fixture *f = open_direct(REACH_DONE);
	uint32_t psn = f->qp->requester.psn_next;

	(void)state;
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 24, 8, 0);
	run(f);
	fixture_expect(f, OPCODE_SEND_ONLY, psn);
	/* It would overtake the SEND: a packet does not. */
	fixture_expect(f, OPCODE_FETCH_ADD, psn_add(psn, 1));
	assert_int_equal(target.calls, 0);
	fixture_free(f);
}

static void a_packet_where_it_cannot_be_done(void **state)
{
	struct fixture *f = open_direct(REACH_NOT);
	uint32_t psn = f->qp->requester.psn_next;

	(void)state;
	fixture_post(f, IBV_WR_ATOMIC_CMP_AND_SWP, 24, 8, 0);
	run(f);
	fixture_expect(f, OPCODE_COMPARE_SWAP, psn);
	fixture_atomic_answer(f, psn, 77);
	fixture_expect_completion(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(delivered(f, 24), 77);
	assert_int_equal(target.calls, 1);
	fixture_free(f);
}

/* It is neither repeated, which might be once too often, nor reported as done. */
static void one_that_may_have_been_executed_fails(void **state)
{
	struct fixture *f = open_direct(REACH_UNCERTAIN);

	(void)state;
	fixture_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 24, 8, 0);
	fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	run(f);
	fixture_expect_completion(f, 1, IBV_WC_RETRY_EXC_ERR);
	fixture_expect_completion(f, 2, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	assert_int_equal(target.calls, 1);
	fixture_free(f);
}

static void only_where_the_reach_has_atomics(void **state)
{
	struct fixture *f = open_direct(REACH_DONE);
	uint32_t psn = f->qp->requester.psn_next;

	(void)state;
	target.reach.atomic = NULL;
	fixture_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 24, 8, 0);
	run(f);
	fixture_expect(f, OPCODE_FETCH_ADD, psn);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_executed_once_and_answered),
		cmocka_unit_test(not_before_what_is_outstanding),
		cmocka_unit_test(a_packet_where_it_cannot_be_done),
		cmocka_unit_test(one_that_may_have_been_executed_fails),
		cmocka_unit_test(only_where_the_reach_has_atomics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
