/* SPDX-License-Identifier: BSD-2-Clause */
/* The places of acknowledgements that are held: who has one, and threads that want them all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/assert.h"
#include "engine/engine_state.h"

#define THREADS 4
#define QPS_EACH 20 /* together more than there are places */
#define ROUNDS 20000

static struct engine *engine;
static struct engine_qp qps[THREADS * QPS_EACH];
static struct qp cores[THREADS * QPS_EACH];

static int make(void **state)
{
	(void)state;
	engine = calloc(1, sizeof(*engine));
	for (uint32_t i = 0; i < THREADS * QPS_EACH; i++) {
		cores[i].number = i + 1;
		qps[i] = (struct engine_qp){.engine = engine, .qp = &cores[i]};
	}
	return engine ? 0 : -1;
}

static int drop(void **state)
{
	(void)state;
	free(engine);
	return 0;
}

static void the_earliest_is_told(void **state)
{
	struct held_acks *acks = &engine->held_acks;

	(void)state;
	assert_false(held_acks_any(acks));
	assert_true(held_acks_next(acks) == VBN_TIME_NEVER);
	assert_true(held_acks_set(&qps[0], 200));
	assert_true(held_acks_set(&qps[1], 100));
	assert_true(held_acks_any(acks));
	assert_true(held_acks_next(acks) == 100);
	/* A hold that is set again keeps its place. */
	assert_true(held_acks_set(&qps[1], 300));
	assert_true(held_acks_next(acks) == 200);
	assert_true(held_acks_set(&qps[0], VBN_TIME_NEVER));
	assert_true(held_acks_set(&qps[0], VBN_TIME_NEVER));
	assert_true(held_acks_next(acks) == 300);
	assert_true(held_acks_set(&qps[1], VBN_TIME_NEVER));
	assert_false(held_acks_any(acks));
	assert_true(held_acks_next(acks) == VBN_TIME_NEVER);
}

static void who_finds_no_place_is_told(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < HELD_ACKS; i++)
		assert_true(held_acks_set(&qps[i], 100));
	assert_false(held_acks_set(&qps[HELD_ACKS], 100));
	assert_int_equal(qps[HELD_ACKS].ack_place, 0);
	assert_true(held_acks_set(&qps[HELD_ACKS], VBN_TIME_NEVER));
	/* The one that becomes free is the next one's. */
	assert_true(held_acks_set(&qps[7], VBN_TIME_NEVER));
	assert_true(held_acks_set(&qps[HELD_ACKS], 50));
	assert_true(held_acks_next(&engine->held_acks) == 50);
	for (uint32_t i = 0; i <= HELD_ACKS; i++)
		held_acks_set(&qps[i], VBN_TIME_NEVER);
	assert_false(held_acks_any(&engine->held_acks));
}

/* Between being taken and being filled in a place may be seen by a sleeper: he does not oversleep it. */
static void a_place_without_a_number_is_due(void **state)
{
	struct held_acks *acks = &engine->held_acks;

	(void)state;
	atomic_fetch_or(&acks->used, 4);
	assert_true(held_acks_next(acks) == 0);
	atomic_fetch_and(&acks->used, ~4ull);
}

/* Each has QPs of its own, as who holds their locks. No place is ever two QPs'. */
static void *hold_and_let_go(void *argument)
{
	struct engine_qp *own = argument;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct engine_qp *qp = &own[round * 7 % QPS_EACH];

		if (qp->ack_place) {
			VBN_ASSERT(engine->held_acks.places[qp->ack_place - 1].qpn ==
				   qp->qp->number);
			held_acks_set(qp, VBN_TIME_NEVER);
		} else {
			held_acks_set(qp, round + 1);
		}
		held_acks_next(&engine->held_acks);
	}
	for (uint32_t i = 0; i < QPS_EACH; i++)
		held_acks_set(&own[i], VBN_TIME_NEVER);
	return NULL;
}

static void threads_share_the_places(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (uint32_t i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, hold_and_let_go, &qps[i * QPS_EACH]), 0);
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_false(held_acks_any(&engine->held_acks));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_earliest_is_told),
		cmocka_unit_test(who_finds_no_place_is_told),
		cmocka_unit_test(a_place_without_a_number_is_due),
		cmocka_unit_test(threads_share_the_places),
	};

	return cmocka_run_group_tests(tests, make, drop);
}
