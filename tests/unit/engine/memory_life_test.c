/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that goes while it is used: deregistered under a peer's writes, unmapped while
 * it is registered, more than may be locked. Errors are fine, a crash or a stray write is not.
 */
#include "unit/engine/pair.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define SUBNET "127.66.3"
#define AREA_BYTES (64u << 10)
#define ACCESS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static const struct pair_settings over_self = {
	.is_self = true, .depth = 64, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};
static const struct pair_settings over_udp = {
	.depth = 64, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};

static uint8_t *map_area(void)
{
	uint8_t *area =
		mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(area, MAP_FAILED);
	return area;
}

static struct engine_mr *register_area(struct side *side, uint8_t *area)
{
	struct engine_mr *mr;

	assert_int_equal(engine_mr_create(side->pd, area, AREA_BYTES, (uintptr_t)area, ACCESS, &mr),
			 0);
	return mr;
}

static void post(struct engine_qp *qp, enum ibv_wr_opcode opcode, const uint8_t *local,
		 uint32_t lkey, const uint8_t *remote, uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)local, length, lkey};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .wr.rdma = {(uintptr_t)remote, rkey}};
	struct ibv_send_wr *bad;

	assert_int_equal(engine_post_send(qp, &wr, &bad), 0);
}

/* After deregistering returns not a byte is written, and the writer hears of it. */
static void writes_end_with_the_region(const struct pair_settings *settings)
{
	struct pair pair;

	pair_open(&pair, settings);
	memset(pair.a.buffer, 0x11, AREA_BYTES);
	for (int round = 0; round < 40; round++) {
		struct connection connection = pair_connect_anew(&pair);
		uint8_t *area = map_area();
		struct engine_mr *mr = register_area(&pair.b, area);
		uint32_t rkey = engine_mr_key(mr);
		bool has_refusal = false;

		for (int i = 0; i < 20; i++)
			post(connection.from, IBV_WR_RDMA_WRITE, pair.a.buffer,
			     engine_mr_key(pair.a.mr), area, rkey, AREA_BYTES);
		usleep((useconds_t)(round % 8) * 100); /* tidy: another moment each round */
		assert_int_equal(engine_mr_destroy(mr), 0);
		memset(area, 0x22, AREA_BYTES);
		for (int i = 0; i < 20; i++) {
			struct ibv_wc wc = side_wait(&pair.a);

			if (wc.status == IBV_WC_SUCCESS)
				assert_false(has_refusal);
			else if (!has_refusal)
				assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
			else
				assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
			has_refusal |= wc.status != IBV_WC_SUCCESS;
		}
		for (uint32_t i = 0; i < AREA_BYTES; i++)
			assert_int_equal(area[i], 0x22);
		munmap(area, AREA_BYTES);
		pair_disconnect(&connection);
	}
	pair_close(&pair);
}

static void writes_end_with_the_region_over_self(void **state)
{
	(void)state;
	writes_end_with_the_region(&over_self);
}

static void writes_end_with_the_region_over_udp(void **state)
{
	(void)state;
	writes_end_with_the_region(&over_udp);
}

/* What is the requester told when memory is not there any more? */
static const struct {
	enum ibv_wr_opcode opcode;
	bool is_local; /* whose memory goes */
	enum ibv_wc_status status;
} losses[] = {
	{IBV_WR_RDMA_WRITE, true, IBV_WC_LOC_PROT_ERR},
	{IBV_WR_SEND, true, IBV_WC_LOC_PROT_ERR},
	{IBV_WR_RDMA_READ, true, IBV_WC_LOC_PROT_ERR},
	{IBV_WR_RDMA_WRITE, false, IBV_WC_REM_OP_ERR},
	{IBV_WR_RDMA_READ, false, IBV_WC_REM_OP_ERR},
};

/* Another thread of this process may map something where memory has just become free. */
static bool is_mapped_again(uint8_t *address)
{
	unsigned char vector;

	return mincore(address, 1, &vector) == 0;
}

/* False: somebody else took the place; nothing was learned. */
static bool lose_memory(struct pair *pair, size_t index)
{
	struct connection connection = pair_connect_anew(pair);
	struct side *victim = losses[index].is_local ? &pair->a : &pair->b;
	uint8_t *area = map_area();
	struct engine_mr *mr = register_area(victim, area);
	uint8_t *kept = (losses[index].is_local ? &pair->b : &pair->a)->buffer;
	struct ibv_wc wc;
	bool is_gone;

	if (losses[index].opcode == IBV_WR_SEND)
		side_post_recv(&pair->b, connection.to, 5, 0, AREA_BYTES);
	assert_int_equal(munmap(area + AREA_BYTES / 2, AREA_BYTES / 2), 0);
	if (losses[index].is_local)
		post(connection.from, losses[index].opcode, area, engine_mr_key(mr), kept,
		     engine_mr_key(pair->b.mr), AREA_BYTES);
	else
		post(connection.from, losses[index].opcode, kept, engine_mr_key(pair->a.mr), area,
		     engine_mr_key(mr), AREA_BYTES);
	wc = side_wait(&pair->a);
	is_gone = !is_mapped_again(area + AREA_BYTES / 2);
	if (is_gone) {
		if (wc.status != losses[index].status)
			fail_msg("row %zu: status %d", index, wc.status);
		assert_int_equal(engine_qp_state(connection.from), IBV_QPS_ERR);
	}
	assert_int_equal(engine_mr_destroy(mr), 0);
	munmap(area, AREA_BYTES / 2);
	pair_disconnect(&connection);
	return is_gone;
}

static void lose_memory_surely(struct pair *pair, size_t index)
{
	for (int tries = 0; tries < 10; tries++)
		if (lose_memory(pair, index))
			return;
	fail_msg("row %zu: the place is taken each time", index);
}

static void unmapped_memory_is_an_error(void **state)
{
	(void)state;
	for (int is_self = 0; is_self < 2; is_self++) {
		struct pair pair;

		pair_open(&pair, is_self ? &over_self : &over_udp);
		for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
			lose_memory_surely(&pair, i);
		pair_close(&pair);
	}
}

/* A receive buffer that is gone: both sides complete in error. */
static void an_unmapped_receive_is_an_error_on_both_sides(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, &over_udp);
	uint8_t *area = map_area();
	struct engine_mr *mr = register_area(&pair.b, area);
	struct ibv_sge sge = {(uintptr_t)area, AREA_BYTES, engine_mr_key(mr)};
	struct ibv_recv_wr wr = {.wr_id = 8, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(engine_post_recv(pair.b.qp, &wr, &bad), 0);
	munmap(area, AREA_BYTES);
	post(pair.a.qp, IBV_WR_SEND, pair.a.buffer, engine_mr_key(pair.a.mr), NULL, 0, AREA_BYTES);
	assert_int_equal(side_wait(&pair.a).status, IBV_WC_REM_OP_ERR);
	struct ibv_wc wc = side_wait(&pair.b);

	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(wc.wr_id, 8);
	assert_int_equal(engine_mr_destroy(mr), 0);
	pair_close(&pair);
}

/* With the check asked for, registering is bounded as locking is; without, it is not. */
static void strict_memlock_counts_bytes(void **state)
{
	struct settings settings = {.has_strict_memlock = true};
	struct rlimit before, low;
	struct engine_mr *first, *second;
	struct engine *engine;
	struct engine_pd *pd;
	uint8_t *area = map_area();
	uint64_t start = (uintptr_t)area;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	low = (struct rlimit){AREA_BYTES / 2, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
	assert_int_equal(engine_create(&settings, &engine), 0);
	assert_int_equal(engine_pd_create(engine, &pd), 0);
	assert_int_equal(engine_mr_create(pd, area, AREA_BYTES, start, 0, &first), -ENOMEM);
	assert_int_equal(engine_mr_create(pd, area, AREA_BYTES / 2, start, 0, &first), 0);
	assert_int_equal(engine_mr_create(pd, area, 1, start, 0, &second), -ENOMEM);
	assert_int_equal(engine_mr_change(first, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, area,
					  AREA_BYTES, start, 0),
			 -ENOMEM);
	assert_int_equal(engine_mr_change(first, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, area,
					  AREA_BYTES / 4, start, 0),
			 0);
	assert_int_equal(engine_mr_create(pd, area, AREA_BYTES / 4, start, 0, &second), 0);
	assert_int_equal(engine_mr_destroy(first), 0);
	assert_int_equal(engine_mr_destroy(second), 0);
	assert_int_equal(engine_mr_create(pd, area, AREA_BYTES / 2, start, 0, &first), 0);
	assert_int_equal(engine_mr_destroy(first), 0);
	assert_int_equal(engine_pd_destroy(pd), 0);
	engine_destroy(engine);

	settings.has_strict_memlock = false;
	assert_int_equal(engine_create(&settings, &engine), 0);
	assert_int_equal(engine_pd_create(engine, &pd), 0);
	assert_int_equal(engine_mr_create(pd, area, AREA_BYTES, start, 0, &first), 0);
	assert_int_equal(engine_mr_destroy(first), 0);
	assert_int_equal(engine_pd_destroy(pd), 0);
	engine_destroy(engine);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
	munmap(area, AREA_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_end_with_the_region_over_self),
		cmocka_unit_test(writes_end_with_the_region_over_udp),
		cmocka_unit_test(unmapped_memory_is_an_error),
		cmocka_unit_test(an_unmapped_receive_is_an_error_on_both_sides),
		cmocka_unit_test(strict_memlock_counts_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
