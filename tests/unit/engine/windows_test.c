/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows on the whole way, over both links: opened, used, freed by either end, and
 * taken away while a peer writes through them.
 */
#include "unit/engine/pair.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define SUBNET "127.83.1"
#define TARGET 65536u
#define LENGTH 65536u

static const struct pair_settings over_self = {
	.is_self = true, .depth = 64, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};
static const struct pair_settings over_udp = {
	.depth = 64, .subnet = SUBNET, .timeout = 14, .retry_cnt = 7};

/* B owns the window, A writes through it. */
struct scene {
	struct pair pair;
	struct engine_mr *region; /* B's whole buffer, closed for peers */
	struct engine_mw *window;
	struct ibv_mw mw;
	struct ibv_mr mr;
};

static void scene_open(struct scene *scene, const struct pair_settings *settings,
		       enum ibv_mw_type type)
{
	struct side *b = &scene->pair.b;

	pair_open(&scene->pair, settings);
	assert_int_equal(engine_mr_create(b->pd, b->buffer, PAIR_BUFFER_BYTES, (uintptr_t)b->buffer,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
					  &scene->region),
			 0);
	assert_int_equal(engine_mw_create(b->pd, type, &scene->window), 0);
	scene->mw = (struct ibv_mw){.rkey = engine_mw_key(scene->window), .type = type};
	scene->mr = (struct ibv_mr){.lkey = engine_mr_key(scene->region)};
}

static void scene_close(struct scene *scene)
{
	if (scene->window)
		assert_int_equal(engine_mw_destroy(scene->window), 0);
	assert_int_equal(engine_mr_destroy(scene->region), 0);
	pair_close(&scene->pair);
}

/* Binds [TARGET, TARGET + @length) of B's buffer; the window's rkey is the new one. */
static void bind_on(struct scene *scene, struct engine_qp *qp, uint64_t length)
{
	struct side *b = &scene->pair.b;
	struct ibv_send_wr wr = {
		.wr_id = 100,
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = &scene->mw,
			    .rkey = ibv_inc_rkey(scene->mw.rkey),
			    .bind_info = {.mr = &scene->mr,
					  .addr = (uintptr_t)b->buffer + TARGET,
					  .length = length,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
							     IBV_ACCESS_REMOTE_READ}},
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	if (scene->mw.type == IBV_MW_TYPE_1)
		assert_int_equal(engine_post_bind_type_1(qp, scene->window, &wr), 0);
	else
		assert_int_equal(engine_post_send(qp, &wr, &bad), 0);
	wc = side_wait(b);
	assert_int_equal(wc.wr_id, 100);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
	scene->mw.rkey = wr.bind_mw.rkey;
}

static void bind_window(struct scene *scene, uint64_t length)
{
	bind_on(scene, scene->pair.b.qp, length);
}

static void post_rdma_by(struct scene *scene, struct engine_qp *qp, enum ibv_wr_opcode opcode,
			 uint32_t length, uint32_t rkey)
{
	struct side *a = &scene->pair.a;
	struct ibv_sge sge = {(uintptr_t)a->buffer, length, engine_mr_key(a->mr)};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .wr.rdma = {(uintptr_t)scene->pair.b.buffer + TARGET, rkey}};
	struct ibv_send_wr *bad;

	assert_int_equal(engine_post_send(qp, &wr, &bad), 0);
}

static void post_rdma(struct scene *scene, struct engine_qp *qp, enum ibv_wr_opcode opcode,
		      uint32_t length)
{
	post_rdma_by(scene, qp, opcode, length, scene->mw.rkey);
}

static enum ibv_wc_status write_through(struct scene *scene, uint32_t length)
{
	post_rdma(scene, scene->pair.a.qp, IBV_WR_RDMA_WRITE, length);
	return side_wait(&scene->pair.a).status;
}

static void post_invalidate(struct engine_qp *qp, enum ibv_wr_opcode opcode, uint32_t key)
{
	struct ibv_send_wr wr = {.wr_id = 200, .opcode = opcode, .invalidate_rkey = key}, *bad;

	assert_int_equal(engine_post_send(qp, &wr, &bad), 0);
}

static const struct pair_settings *const links[] = {&over_self, &over_udp};
#define FOR_EACH_LINK(i) for (size_t i = 0; i < 2; i++)

static void open_then_freed_by_its_owner(void **state)
{
	(void)state;
	FOR_EACH_LINK(i)
	{
		struct scene scene;
		struct ibv_wc wc;

		scene_open(&scene, links[i], IBV_MW_TYPE_2);
		bind_window(&scene, LENGTH);
		memset(scene.pair.a.buffer, 0x5a, LENGTH);
		assert_int_equal(write_through(&scene, LENGTH), IBV_WC_SUCCESS);
		assert_memory_equal(scene.pair.b.buffer + TARGET, scene.pair.a.buffer, LENGTH);
		assert_int_equal(scene.pair.b.buffer[TARGET + LENGTH], 0);
		memset(scene.pair.a.buffer, 0, LENGTH);
		post_rdma(&scene, scene.pair.a.qp, IBV_WR_RDMA_READ, LENGTH);
		assert_int_equal(side_wait(&scene.pair.a).status, IBV_WC_SUCCESS);
		assert_memory_equal(scene.pair.b.buffer + TARGET, scene.pair.a.buffer, LENGTH);
		post_invalidate(scene.pair.b.qp, IBV_WR_LOCAL_INV, scene.mw.rkey);
		wc = side_wait(&scene.pair.b);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
		assert_int_equal(write_through(&scene, 8), IBV_WC_REM_ACCESS_ERR);
		scene_close(&scene);
	}
}

static void freed_by_the_peers_message(void **state)
{
	(void)state;
	FOR_EACH_LINK(i)
	{
		struct scene scene;
		struct ibv_wc wc;

		scene_open(&scene, links[i], IBV_MW_TYPE_2);
		bind_window(&scene, LENGTH);
		side_post_recv(&scene.pair.b, scene.pair.b.qp, 7, 0, 64);
		post_rdma(&scene, scene.pair.a.qp, IBV_WR_RDMA_WRITE, LENGTH);
		post_invalidate(scene.pair.a.qp, IBV_WR_SEND_WITH_INV, scene.mw.rkey);
		assert_int_equal(side_wait(&scene.pair.a).status, IBV_WC_SUCCESS);
		assert_int_equal(side_wait(&scene.pair.a).status, IBV_WC_SUCCESS);
		wc = side_wait(&scene.pair.b);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
		assert_int_equal(wc.invalidated_rkey, scene.mw.rkey);
		/* Free again: another bind, the old key is nothing. */
		bind_window(&scene, 64);
		assert_int_equal(write_through(&scene, 64), IBV_WC_SUCCESS);
		scene.mw.rkey--;
		assert_int_equal(write_through(&scene, 64), IBV_WC_REM_ACCESS_ERR);
		scene_close(&scene);
	}
}

static void a_second_invalidation_breaks_the_connection(void **state)
{
	(void)state;
	FOR_EACH_LINK(i)
	{
		struct scene scene;
		struct ibv_wc wc;

		scene_open(&scene, links[i], IBV_MW_TYPE_2);
		bind_window(&scene, LENGTH);
		for (int n = 0; n < 2; n++) {
			side_post_recv(&scene.pair.b, scene.pair.b.qp, 7, 0, 64);
			post_invalidate(scene.pair.a.qp, IBV_WR_SEND_WITH_INV, scene.mw.rkey);
			wc = side_wait(&scene.pair.a);
			assert_int_equal(wc.status, n ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
			wc = side_wait(&scene.pair.b);
			assert_int_equal(wc.status, n ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_SUCCESS);
		}
		scene_close(&scene);
	}
}

static void a_region_stays_while_a_window_is_bound(void **state)
{
	struct scene scene;
	struct side *b = &scene.pair.b;

	(void)state;
	scene_open(&scene, &over_self, IBV_MW_TYPE_1);
	bind_window(&scene, LENGTH);
	assert_int_equal(engine_mr_destroy(scene.region), -EBUSY);
	assert_int_equal(engine_mr_change(scene.region, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					  0, IBV_ACCESS_LOCAL_WRITE),
			 -EBUSY);
	assert_int_equal(write_through(&scene, 64), IBV_WC_SUCCESS);
	bind_window(&scene, 0);
	assert_int_equal(engine_mr_change(scene.region, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					  0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND),
			 0);
	bind_window(&scene, 64);
	assert_int_equal(engine_pd_destroy(b->pd), -EBUSY);
	assert_int_equal(engine_mw_destroy(scene.window), 0);
	scene.window = NULL;
	assert_int_equal(write_through(&scene, 64), IBV_WC_REM_ACCESS_ERR);
	scene_close(&scene);
}

/* A later QP has nothing to do with the one that bound the window, whatever its number. */
static void a_window_outlives_its_qp_without_use(void **state)
{
	const struct pair_settings *settings = &over_self;
	struct engine_qp *from, *to;
	struct scene scene;

	(void)state;
	scene_open(&scene, settings, IBV_MW_TYPE_2);
	bind_window(&scene, LENGTH);
	assert_int_equal(engine_qp_destroy(scene.pair.b.qp), 0);
	scene.pair.b.qp = to = side_new_qp(&scene.pair.b, settings);
	from = side_new_qp(&scene.pair.a, settings);
	side_connect(&scene.pair.a, from, &scene.pair.b, engine_qp_number(to), settings);
	side_connect(&scene.pair.b, to, &scene.pair.a, engine_qp_number(from), settings);
	post_rdma(&scene, from, IBV_WR_RDMA_WRITE, 64);
	assert_int_equal(side_wait(&scene.pair.a).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(engine_qp_destroy(from), 0);
	scene_close(&scene);
}

/* --- taken away under a peer's writes --- */

struct writer {
	struct scene *scene;
	struct engine_qp *qp;
	uint32_t rkey;
};

static void *write_much(void *argument)
{
	struct writer *writer = argument;

	for (int i = 0; i < 8; i++)
		post_rdma_by(writer->scene, writer->qp, IBV_WR_RDMA_WRITE, LENGTH, writer->rkey);
	for (int i = 0; i < 8; i++)
		side_wait(&writer->scene->pair.a);
	return NULL;
}

/* When the end of a window is told, no byte comes through it any more. */
static void nothing_comes_after_the_end(const struct pair_settings *settings, bool by_bind)
{
	struct scene scene;

	scene_open(&scene, settings, IBV_MW_TYPE_1);
	memset(scene.pair.a.buffer, 0x5a, LENGTH);
	for (int round = 0; round < 40; round++) {
		struct connection connection = pair_connect_anew(&scene.pair);
		struct writer writer = {&scene, connection.from, 0};
		uint8_t *target = scene.pair.b.buffer + TARGET;
		pthread_t thread;

		bind_window(&scene, LENGTH);
		writer.rkey = scene.mw.rkey;
		assert_int_equal(pthread_create(&thread, NULL, write_much, &writer), 0);
		for (int i = 0; i < round * 200; i++)
			(void)*(volatile uint8_t *)target;
		if (by_bind) {
			uint32_t key = scene.mw.rkey;

			bind_window(&scene, 0);
			assert_int_not_equal(scene.mw.rkey, key);
		} else {
			assert_int_equal(engine_mw_destroy(scene.window), 0);
		}
		memset(target, 0, LENGTH);
		pthread_join(thread, NULL);
		for (uint32_t i = 0; i < LENGTH; i++)
			assert_int_equal(target[i], 0);
		pair_disconnect(&connection);
		if (!by_bind) {
			assert_int_equal(
				engine_mw_create(scene.pair.b.pd, IBV_MW_TYPE_1, &scene.window), 0);
			scene.mw.rkey = engine_mw_key(scene.window);
		}
	}
	scene_close(&scene);
}

static void nothing_comes_through_a_window_that_is_gone(void **state)
{
	(void)state;
	FOR_EACH_LINK(i)
	nothing_comes_after_the_end(links[i], false);
}

static void nothing_comes_through_a_window_that_was_unbound(void **state)
{
	(void)state;
	FOR_EACH_LINK(i)
	nothing_comes_after_the_end(links[i], true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_then_freed_by_its_owner),
		cmocka_unit_test(freed_by_the_peers_message),
		cmocka_unit_test(a_second_invalidation_breaks_the_connection),
		cmocka_unit_test(a_region_stays_while_a_window_is_bound),
		cmocka_unit_test(a_window_outlives_its_qp_without_use),
		cmocka_unit_test(nothing_comes_through_a_window_that_is_gone),
		cmocka_unit_test(nothing_comes_through_a_window_that_was_unbound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
