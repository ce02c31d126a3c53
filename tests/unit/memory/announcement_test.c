/* SPDX-License-Identifier: BSD-2-Clause */
/* Announcing and taking back: alone, step by step, and two threads against each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "memory/announcement.h"
#include "memory/published.h"

#define KEY 0x12345678u
#define QPN 0x220011u
#define ROUNDS 60000u
#define TURNS 16u
#define PEERS 2u
#define BYTES 256u

static const struct announcement_subject the_key = {.key = KEY}, the_qp = {.qpn = QPN};

static void only_what_is_announced_is_covered(void **state)
{
	const struct announcement_subject other_key = {.key = KEY + 1}, other_qp = {.qpn = QPN + 1};
	struct announcement cell = {0};
	uint32_t sequence;

	(void)state;
	assert_false(announcement_covers(&cell, &the_key, &sequence));
	announcement_begin(&cell, KEY, QPN);
	assert_true(announcement_covers(&cell, &the_key, &sequence));
	assert_true(announcement_covers(&cell, &the_qp, &sequence));
	assert_false(announcement_covers(&cell, &other_key, &sequence));
	assert_false(announcement_covers(&cell, &other_qp, &sequence));
	announcement_end(&cell);
	assert_false(announcement_covers(&cell, &the_key, &sequence));
}

/* Not known before it is said, and no longer than the announcement. */
static void only_who_writes_to_shared_pages_can_be_outwaited(void **state)
{
	struct announcement cell = {0};

	(void)state;
	announcement_begin(&cell, KEY, QPN);
	assert_false(announcement_can_be_outwaited(&cell));
	announcement_is_by_sharing(&cell);
	assert_true(announcement_can_be_outwaited(&cell));
	announcement_end(&cell);
	announcement_begin(&cell, KEY, QPN);
	assert_false(announcement_can_be_outwaited(&cell));
}

static void the_next_announcement_is_not_waited_for(void **state)
{
	struct announcement cell = {0};
	uint32_t sequence;

	(void)state;
	announcement_begin(&cell, KEY, QPN);
	assert_true(announcement_covers(&cell, &the_key, &sequence));
	assert_true(announcement_lasts(&cell, sequence));
	announcement_end(&cell);
	announcement_begin(&cell, KEY, QPN);
	assert_false(announcement_lasts(&cell, sequence));
	assert_true(announcement_covers(&cell, &the_key, &sequence));
}

/* Sequence numbers come round, and a cell that was left odd begins another announcement. */
static void sequences_wrap_and_stay_odd_while_announced(void **state)
{
	struct announcement cell = {.sequence = UINT32_MAX - 1};
	uint32_t sequence, before;

	(void)state;
	announcement_begin(&cell, KEY, QPN);
	assert_true(announcement_covers(&cell, &the_key, &before));
	announcement_end(&cell);
	assert_int_equal(atomic_load(&cell.sequence), 0);
	announcement_begin(&cell, KEY, QPN);
	assert_true(announcement_covers(&cell, &the_key, &before));
	announcement_begin(&cell, KEY, QPN);
	assert_true(announcement_covers(&cell, &the_key, &sequence));
	assert_int_not_equal(sequence, before);
}

/* Who has a cell after somebody else does not begin where that one did. */
static void new_cells_begin_anywhere(void **state)
{
	static struct announcements announcements;
	struct announcement *cell = &announcements.cells[2];

	(void)state;
	announcements_use(&announcements, 2, 0x1235);
	assert_int_equal(announcement_begin(cell, KEY, QPN), 0x1235);
	announcement_end(cell);
	/* Only the first time: somebody may still be looking at it. */
	announcements_use(&announcements, 2, 0x4321);
	assert_int_equal(announcement_begin(cell, KEY, QPN), 0x1237);
}

static void a_count_beyond_the_cells_is_cut(void **state)
{
	static struct announcements announcements;

	(void)state;
	assert_int_equal(announcements_count(&announcements), 0);
	announcements_use(&announcements, 3, 0);
	announcements_use(&announcements, 1, 0);
	assert_int_equal(announcements_count(&announcements), 4);
	announcements_use(&announcements, ANNOUNCEMENT_CELLS - 1, 0);
	assert_int_equal(announcements_count(&announcements), ANNOUNCEMENT_CELLS);
	atomic_store(&announcements.used_count, UINT32_MAX);
	assert_int_equal(announcements_count(&announcements), ANNOUNCEMENT_CELLS);
}

/*
 * Peers that write wherever they are granted to, without any lock, and an owner that takes the region
 * back, uses it, and gives it out again. The bytes are plain: the thread sanitizer sees
 * whether the two ever meet.
 */
struct arena {
	struct published *tables;
	struct announcements cells;
	uint8_t bytes[BYTES];
	_Atomic bool is_over;
	_Atomic uint32_t writes;
};

struct peer {
	struct arena *arena;
	uint32_t cell;
};

static const struct published_qp qp_facts = {
	.peer = 1, .pd = 1, .access = IBV_ACCESS_REMOTE_WRITE, .payload_max = 1024};

static struct published_request request_of(void)
{
	return (struct published_request){.owner = 2,
					  .qpn = QPN,
					  .wanted = {.peer = 1, .payload_max = 1024},
					  .key = KEY,
					  .rights = IBV_ACCESS_REMOTE_WRITE,
					  .length = BYTES / PEERS};
}

static void *write_on_and_on(void *argument)
{
	struct peer *peer = argument;
	struct arena *arena = peer->arena;
	struct announcement *cell = &arena->cells.cells[peer->cell];
	struct published_request request = request_of();
	struct published_known known = {0};
	struct published_grant grant;
	uint32_t turns = 0;

	request.address = peer->cell * (BYTES / PEERS);
	while (!atomic_load(&arena->is_over)) {
		announcement_begin(cell, KEY, QPN);
		if (published_grants(arena->tables, &known, &request, &grant)) {
			memset((void *)(uintptr_t)grant.address, 0x5a, BYTES / PEERS);
			atomic_fetch_add_explicit(&arena->writes, 1, memory_order_relaxed);
		}
		announcement_end(cell);
		/* Where there are fewer cores: better here than while it is waited for. */
		if (++turns % 16 == 0)
			sched_yield();
	}
	return NULL;
}

static void wait_for_all(const struct arena *arena, const struct announcement_subject *subject)
{
	uint32_t count = announcements_count(&arena->cells), sequence;

	for (uint32_t i = 0; i < count; i++)
		if (announcement_covers(&arena->cells.cells[i], subject, &sequence))
			while (announcement_lasts(&arena->cells.cells[i], sequence))
				sched_yield();
}

/* Takes back by the key or by the QP, in turn; then nobody else may touch the bytes. */
static void own_for_a_while(struct arena *arena, uint32_t round, struct published_entry **key,
			    struct published_entry **qp)
{
	const struct published_key key_facts = {.address = (uintptr_t)arena->bytes,
						.length = BYTES,
						.pd = 1,
						.access = IBV_ACCESS_REMOTE_WRITE};
	bool by_key = round % 2;

	published_withdraw(by_key ? *key : *qp);
	wait_for_all(arena, by_key ? &the_key : &the_qp);
	memset(arena->bytes, (int)(round & 0x1f), BYTES);
	for (uint32_t i = 0; i < BYTES; i++)
		assert_int_equal(arena->bytes[i], round & 0x1f);
	if (by_key)
		*key = published_add_key(arena->tables, KEY, &key_facts);
	else
		*qp = published_add_qp(arena->tables, QPN, &qp_facts);
	assert_true(*key && *qp);
}

/* The peers have their turns, also on one core. */
static void wait_for_a_write(const struct arena *arena)
{
	uint32_t writes = atomic_load(&arena->writes);

	while (atomic_load(&arena->writes) == writes)
		sched_yield();
}

static void what_was_taken_back_is_the_owners_alone(void **state)
{
	static struct arena arena;
	struct peer peers[PEERS];
	pthread_t threads[PEERS];
	struct published_entry *key, *qp;
	const struct published_key key_facts = {.address = (uintptr_t)arena.bytes,
						.length = BYTES,
						.pd = 1,
						.access = IBV_ACCESS_REMOTE_WRITE};

	(void)state;
	arena.tables = aligned_alloc(64, sizeof(*arena.tables));
	assert_non_null(arena.tables);
	memset(arena.tables, 0, sizeof(*arena.tables));
	published_begin(arena.tables, 0, 0, 2);
	key = published_add_key(arena.tables, KEY, &key_facts);
	qp = published_add_qp(arena.tables, QPN, &qp_facts);
	for (uint32_t i = 0; i < PEERS; i++) {
		peers[i] = (struct peer){&arena, i};
		announcements_use(&arena.cells, i, 0);
		assert_int_equal(pthread_create(&threads[i], NULL, write_on_and_on, &peers[i]), 0);
	}
	for (uint32_t round = 0; round < ROUNDS; round++) {
		own_for_a_while(&arena, round, &key, &qp);
		if (round % TURNS == 0)
			wait_for_a_write(&arena);
	}
	atomic_store(&arena.is_over, true);
	for (uint32_t i = 0; i < PEERS; i++)
		pthread_join(threads[i], NULL);
	free(arena.tables);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_announced_is_covered),
		cmocka_unit_test(only_who_writes_to_shared_pages_can_be_outwaited),
		cmocka_unit_test(the_next_announcement_is_not_waited_for),
		cmocka_unit_test(sequences_wrap_and_stay_odd_while_announced),
		cmocka_unit_test(new_cells_begin_anywhere),
		cmocka_unit_test(a_count_beyond_the_cells_is_cut),
		cmocka_unit_test(what_was_taken_back_is_the_owners_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
