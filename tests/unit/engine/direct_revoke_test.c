/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taking back what a peer is accessing right now: regions and queue pairs that end or change while
 * another thread writes into them directly, without a pause. When the call has returned, not a
 * byte changes any more.
 */
#include "unit/engine/pair.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/random.h"
#include "engine/engine_state.h"
#include "host/tables.h"

#define AREA_BYTES (64u << 10)
#define GUARD_BYTES 4096u
#define ROUNDS 25
#define PATTERN 0x5a
#define OWN 0x22
#define ACCESS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static const struct pair_settings by_vm = {.depth = 64,
					   .timeout = 10,
					   .retry_cnt = 2,
					   .subnet = "127.66.22",
					   .is_shm = true,
					   .direct = DIRECT_CHOICE_VM};

static struct pair pair;

static int open_pair(void **state)
{
	(void)state;
	pair_open(&pair, &by_vm);
	memset(pair.a.buffer, PATTERN, PAIR_BUFFER_BYTES);
	return 0;
}

static int close_pair(void **state)
{
	(void)state;
	pair_close(&pair);
	return 0;
}

/* Pages around it that nobody may touch: who does ends the test. */
static uint8_t *map_guarded(void)
{
	uint8_t *whole = mmap(NULL, AREA_BYTES + 2 * GUARD_BYTES, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(whole, MAP_FAILED);
	assert_int_equal(mprotect(whole + GUARD_BYTES, AREA_BYTES, PROT_READ | PROT_WRITE), 0);
	return whole + GUARD_BYTES;
}

static void unmap_guarded(uint8_t *area)
{
	munmap(area - GUARD_BYTES, AREA_BYTES + 2 * GUARD_BYTES);
}

static struct engine_mr *register_area(uint8_t *area)
{
	struct engine_mr *mr;

	assert_int_equal(
		engine_mr_create(pair.b.pd, area, AREA_BYTES, (uintptr_t)area, ACCESS, &mr), 0);
	return mr;
}

/* --- who writes --- */

struct writer {
	struct connection connection;
	const uint8_t *target;
	uint32_t rkey;
	pthread_t thread;
	_Atomic uint32_t done;
	_Atomic bool is_over;
	enum ibv_wc_status status; /* of the write that failed */
};

static bool write_once(struct writer *writer, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)pair.a.buffer, length, engine_mr_key(pair.a.mr)};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .wr.rdma = {(uintptr_t)writer->target, writer->rkey}};

	assert_int_equal(engine_post_send(writer->connection.from, &wr, &bad), 0);
	writer->status = side_wait(&pair.a).status;
	atomic_fetch_add(&writer->done, 1);
	return writer->status == IBV_WC_SUCCESS;
}

static void *write_until_refused(void *argument)
{
	struct writer *writer = argument;
	struct random_stream random = {.state = writer->rkey};

	while (!atomic_load(&writer->is_over) &&
	       write_once(writer, 9 + (uint32_t)random_below(&random, AREA_BYTES - 9)))
		;
	return NULL;
}

/* Has written a few times when this returns. */
static void start_writing(struct writer *writer, const uint8_t *target, uint32_t rkey)
{
	memset(writer, 0, sizeof(*writer));
	writer->connection = pair_connect_anew(&pair);
	writer->target = target;
	writer->rkey = rkey;
	assert_int_equal(pthread_create(&writer->thread, NULL, write_until_refused, writer), 0);
	while (atomic_load(&writer->done) < 3)
		sched_yield();
}

static void stop_writing(struct writer *writer)
{
	atomic_store(&writer->is_over, true);
	pthread_join(writer->thread, NULL);
}

/* It is the owner's alone. The looks take longer than any copy that might still be under way. */
static void assert_untouched(uint8_t *area)
{
	memset(area, OWN, AREA_BYTES);
	for (int look = 0; look < 20; look++) {
		for (uint32_t i = 0; i < AREA_BYTES; i++)
			assert_int_equal(area[i], OWN);
		sched_yield();
	}
}

static void expect_refusal(struct writer *writer, enum ibv_wc_status status)
{
	pthread_join(writer->thread, NULL);
	assert_int_equal(writer->status, status);
	assert_true(qp_counters_get(writer->connection.from->qp->counters, QP_DIRECT_WRITES) > 0);
}

/* --- regions --- */

static void no_byte_is_written_after_dereg(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t *area = map_guarded();
		struct engine_mr *mr = register_area(area);
		struct writer writer;

		start_writing(&writer, area, engine_mr_key(mr));
		assert_int_equal(engine_mr_destroy(mr), 0);
		assert_untouched(area);
		expect_refusal(&writer, IBV_WC_REM_ACCESS_ERR);
		pair_disconnect(&writer.connection);
		unmap_guarded(area);
	}
}

/* The key stays, and means other memory: from then on that is where it lands, never here. */
static void after_rereg_the_old_memory_is_left_alone(void **state)
{
	uint8_t *areas[2] = {map_guarded(), map_guarded()};
	uint64_t iova = (uintptr_t)areas[0];
	struct writer writer;
	struct engine_mr *mr;

	(void)state;
	assert_int_equal(engine_mr_create(pair.b.pd, areas[0], AREA_BYTES, iova, ACCESS, &mr), 0);
	start_writing(&writer, (const uint8_t *)(uintptr_t)iova, engine_mr_key(mr));
	for (int round = 1; round <= ROUNDS; round++) {
		uint32_t done = atomic_load(&writer.done);

		assert_int_equal(engine_mr_change(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
						  areas[round % 2], AREA_BYTES, iova, 0),
				 0);
		assert_untouched(areas[(round + 1) % 2]);
		/* Unless it met the region in the middle of its change, it goes on. */
		while (atomic_load(&writer.done) < done + 2 && !writer.status)
			sched_yield();
	}
	stop_writing(&writer);
	pair_disconnect(&writer.connection);
	assert_int_equal(engine_mr_destroy(mr), 0);
	unmap_guarded(areas[0]);
	unmap_guarded(areas[1]);
}

static void after_rereg_without_the_right_nothing_is_written(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t *area = map_guarded();
		struct engine_mr *mr = register_area(area);
		struct writer writer;

		start_writing(&writer, area, engine_mr_key(mr));
		assert_int_equal(engine_mr_change(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0,
						  IBV_ACCESS_LOCAL_WRITE),
				 0);
		assert_untouched(area);
		expect_refusal(&writer, IBV_WC_REM_ACCESS_ERR);
		pair_disconnect(&writer.connection);
		assert_int_equal(engine_mr_destroy(mr), 0);
		unmap_guarded(area);
	}
}

/* --- queue pairs --- */

enum ending { TO_ERROR, TO_RESET, NO_RIGHTS, DESTROYED, ENDING_COUNT };

static void end_qp(struct writer *writer, enum ending ending)
{
	struct engine_qp *qp = writer->connection.to;
	struct ibv_qp_attr attr = {.qp_state = ending == TO_RESET ? IBV_QPS_RESET : IBV_QPS_ERR};

	if (ending == DESTROYED)
		assert_int_equal(engine_qp_destroy(qp), 0);
	else if (ending == NO_RIGHTS)
		assert_int_equal(engine_qp_modify(qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	else
		assert_int_equal(engine_qp_modify(qp, &attr, IBV_QP_STATE), 0);
}

static void no_byte_is_written_by_a_qp_that_ended(void **state)
{
	uint8_t *area = map_guarded();
	struct engine_mr *mr = register_area(area);

	(void)state;
	for (int round = 0; round < 4 * ENDING_COUNT; round++) {
		enum ending ending = (enum ending)(round % ENDING_COUNT);
		struct writer writer;

		start_writing(&writer, area, engine_mr_key(mr));
		end_qp(&writer, ending);
		assert_untouched(area);
		expect_refusal(&writer,
			       ending == NO_RIGHTS ? IBV_WC_REM_ACCESS_ERR : IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(engine_qp_destroy(writer.connection.from), 0);
		if (ending != DESTROYED)
			assert_int_equal(engine_qp_destroy(writer.connection.to), 0);
	}
	assert_int_equal(engine_mr_destroy(mr), 0);
	unmap_guarded(area);
}

/* In ERR by an error of the peer's, without a call: who has seen it is safe as well. */
static void no_byte_is_written_after_a_fatal_request(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct connection connection = pair_connect_anew(&pair);
		struct writer writer = {.connection = connection,
					.target = pair.b.buffer,
					.rkey = engine_mr_key(pair.b.mr)};

		assert_true(write_once(&writer, 100));
		writer.rkey ^= 0x100;
		assert_false(write_once(&writer, 100));
		assert_int_equal(engine_qp_state(connection.to), IBV_QPS_ERR);
		assert_null(connection.to->direct.entry);
		pair_disconnect(&connection);
	}
}

/* --- who does not play by the rules --- */

/* Announcements that never end delay a call, and no more. */
static void an_endless_announcement_is_not_waited_for_endlessly(void **state)
{
	uint8_t *area = map_guarded();
	struct engine_mr *mr = register_area(area);
	uint32_t slot = host_slot(membership_host(pair.b.engine));
	struct announcements *cells = host_announcements_open(membership_host(pair.a.engine), slot);
	struct announcement *cell = &cells->cells[ANNOUNCEMENT_CELLS - 1];
	vbn_time began = clock_now();

	(void)state;
	assert_non_null(cells);
	announcements_use(cells, ANNOUNCEMENT_CELLS - 1, 0);
	announcement_begin(cell, engine_mr_key(mr), 0);
	assert_int_equal(engine_mr_destroy(mr), 0);
	assert_true(clock_now() - began >= DIRECT_REVOKE_NS);
	/* Others do not suffer from it. */
	mr = register_area(area);
	began = clock_now();
	assert_int_equal(engine_mr_destroy(mr), 0);
	assert_true(clock_now() - began < DIRECT_REVOKE_NS);
	announcement_end(cell);
	unmap_guarded(area);
}

/* What a peer publishes decides nothing but where in its own memory something lands. */
static void nonsense_in_tables_is_survived(void **state)
{
	struct random_stream random = {.state = 9};
	struct published *tables = pair.b.engine->direct.own;
	struct writer writer = {.target = pair.b.buffer, .rkey = engine_mr_key(pair.b.mr)};

	(void)state;
	assert_non_null(tables);
	for (int round = 0; round < 100; round++) {
		writer.connection = pair_connect_anew(&pair);
		for (uint32_t i = 0; i < PUBLISHED_QPS; i++)
			if (atomic_load(&tables->qps[i].number))
				atomic_store(&tables->qps[i].words[random_below(&random, 7)],
					     random_next(&random));
		for (uint32_t i = 0; i < PUBLISHED_KEYS; i++)
			if (atomic_load(&tables->keys[i].number) && random_below(&random, 2))
				atomic_store(&tables->keys[i].words[1 + random_below(&random, 2)],
					     random_next(&random) >> random_below(&random, 64));
		assert_true(write_once(&writer, 5000));
		pair_disconnect(&writer.connection);
	}
}

/* Whose door is shut is another process: nothing is written, packets do it. */
static void without_its_door_a_process_is_a_stranger(void **state)
{
	struct writer writer = {.target = pair.b.buffer, .rkey = engine_mr_key(pair.b.mr)};

	(void)state;
	writer.connection.from = pair.a.qp;
	assert_true(write_once(&writer, 5000));
	assert_int_equal(qp_counters_get(pair.a.qp->qp->counters, QP_DIRECT_WRITES), 1);
	atomic_store(&pair.b.engine->direct.own->head.door, 0x1000);
	assert_true(write_once(&writer, 5000));
	assert_int_equal(qp_counters_get(pair.a.qp->qp->counters, QP_DIRECT_WRITES), 1);
	assert_int_equal(qp_counters_get(pair.a.qp->qp->counters, QP_DIRECT_GIVEN_UP), 1);
}

static void another_number_at_the_door_is_another_process(void **state)
{
	struct writer writer = {.target = pair.b.buffer, .rkey = engine_mr_key(pair.b.mr)};

	(void)state;
	writer.connection.from = pair.a.qp;
	atomic_fetch_add(&pair.b.engine->direct.own->head.proof, 1);
	assert_true(write_once(&writer, 5000));
	assert_int_equal(qp_counters_get(pair.a.qp->qp->counters, QP_DIRECT_WRITES), 0);
	assert_int_equal(qp_counters_get(pair.a.qp->qp->counters, QP_DIRECT_GIVEN_UP), 1);
}

/* Addresses that nothing has by chance, and no two runs have in common. */
static void doors_lie_anywhere(void **state)
{
	(void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	/* Their runtimes choose the place. */
	skip();
#endif
	assert_ptr_not_equal(pair.a.engine->direct.door, NULL);
	assert_ptr_not_equal(pair.a.engine->direct.door, pair.b.engine->direct.door);
	assert_int_not_equal((uintptr_t)pair.a.engine->direct.door >> 32,
			     (uintptr_t)pair.b.engine->direct.door >> 32);
}

static bool is_possible(void)
{
	uint64_t here = 1, there = 2;
	struct iovec local = {&here, 8}, remote = {&there, 8};

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 8;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)
	const struct CMUnitTest tests[] = {
		TEST(no_byte_is_written_after_dereg),
		TEST(after_rereg_the_old_memory_is_left_alone),
		TEST(after_rereg_without_the_right_nothing_is_written),
		TEST(no_byte_is_written_by_a_qp_that_ended),
		TEST(no_byte_is_written_after_a_fatal_request),
		TEST(an_endless_announcement_is_not_waited_for_endlessly),
		TEST(nonsense_in_tables_is_survived),
		TEST(without_its_door_a_process_is_a_stranger),
		TEST(another_number_at_the_door_is_another_process),
		TEST(doors_lie_anywhere),
	};

	if (!is_possible()) {
		fprintf(stderr, "process_vm_readv is not allowed here\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
