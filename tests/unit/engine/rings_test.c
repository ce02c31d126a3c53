/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two engines of one address, which share memory without being asked to: what packets through rings
 * have of their own. Everything else that a connection does is tested over them by the other programs of
 * this folder, built a second time. Meant to run under the thread sanitizer as well.
 */
#include "engine/engine_state.h"
#include "unit/engine/pair.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/membership.h"
#include "engine/settings.h"
#include "host/rings.h"
#include "link/shm/ring_head.h"
#include "wire/packet.h"

#define ADDRESS "127.66.16.1"
#define PATIENCE_S 30

/* Packets are what this is about. */
static const struct pair_settings usual = {
	.depth = 64, .timeout = 14, .retry_cnt = 7, .direct = DIRECT_CHOICE_OFF};
/* Silence is noticed at once. */
static const struct pair_settings hasty = {
	.depth = 64, .timeout = 6, .retry_cnt = 2, .direct = DIRECT_CHOICE_OFF};

static struct side a, b;

static void begin(const struct pair_settings *settings)
{
	side_open(&a, ADDRESS, settings);
	side_open(&b, ADDRESS, settings);
	side_connect(&a, a.qp, &b, engine_qp_number(b.qp), settings);
	side_connect(&b, b.qp, &a, engine_qp_number(a.qp), settings);
}

static void finish(void)
{
	side_close(&a);
	side_close(&b);
}

static uint32_t sockets_of(const struct side *side)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < side->engine->link_count; i++)
		count += link_has_address(side->engine, &side->engine->links[i]);
	return count;
}

static uint64_t counted(const struct side *side, enum reason reason)
{
	return atomic_load(&side->engine->statistics.room->head.process.received[reason]);
}

/* Packets that came, whatever became of them. */
static uint64_t arrived_at(const struct side *side)
{
	uint64_t count = 0;

	for (int reason = 0; reason < REASON_COUNT; reason++)
		count += counted(side, (enum reason)reason);
	return count;
}

/* By what the QPs go, and that the ring has it. */
static void one_address_is_enough(void **state)
{
	struct ring *ring;

	(void)state;
	begin(&usual);
	assert_non_null(a.engine->shm_link);
	assert_ptr_equal(a.qp->link, a.engine->shm_link);
	assert_ptr_equal(b.qp->link, b.engine->shm_link);
	assert_null(a.engine->self_link);
	/* What is for the address comes to a socket still. */
	assert_int_equal(sockets_of(&a), 1);
	ring = host_ring_map(membership_host(a.engine), host_slot(membership_host(a.engine)),
			     host_slot(membership_host(b.engine)));
	assert_non_null(ring);
	memset(a.buffer, 0x5a, 3000);
	side_post(&a, a.qp, IBV_WR_RDMA_WRITE, 1, 0, 3000, &b, 4096);
	assert_int_equal(side_wait(&a).status, IBV_WC_SUCCESS);
	assert_memory_equal(a.buffer, b.buffer + 4096, 3000);
	assert_true(ring->lines[RING_HEAD_BYTES + BTH_BYTES + 16 + 100] == 0x5a);
	finish();
}

/* --- UC --- */

static struct engine_qp *new_uc_qp(struct side *side)
{
	struct engine_qp_attr attr = {
		.type = IBV_QPT_UC,
		.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1},
		.signals_all = true,
		.send_cq = side->cq,
		.recv_cq = side->cq,
		.async = side->async,
		.object = side,
		.device = side->devices,
	};
	struct engine_qp *qp;

	assert_int_equal(engine_qp_create(side->pd, &attr, &qp), 0);
	return qp;
}

static void connect_uc(struct engine_qp *qp, const struct side *peer, uint32_t peer_qpn)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	assert_int_equal(engine_qp_modify(qp, &attr,
					  IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
						  IBV_QP_ACCESS_FLAGS),
			 0);
	attr = side_rtr_attr(peer, peer_qpn);
	assert_int_equal(engine_qp_modify(qp, &attr,
					  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
			 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 0xfffff0};
	assert_int_equal(engine_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

/* Nobody acknowledges it, and yet it all arrives: there is nothing that could lose it. */
static void uc_loses_nothing(void **state)
{
	struct engine_qp *from, *to;

	(void)state;
	begin(&usual);
	from = new_uc_qp(&a);
	to = new_uc_qp(&b);
	connect_uc(from, &b, engine_qp_number(to));
	connect_uc(to, &a, engine_qp_number(from));
	for (uint32_t round = 0; round < 50; round++) {
		for (uint32_t i = 0; i < 8; i++)
			side_post_recv(&b, to, i, 0, 20000);
		memset(a.buffer, (int)round, 20000);
		for (uint32_t i = 0; i < 8; i++)
			side_post(&a, from, IBV_WR_SEND, i, 0, 20000, &b, 0);
		for (uint32_t i = 0; i < 8; i++) {
			assert_int_equal(side_wait(&a).wr_id, i);
			assert_int_equal(side_wait(&b).wr_id, i);
		}
		assert_memory_equal(a.buffer, b.buffer, 20000);
		side_post(&a, from, IBV_WR_RDMA_WRITE, 1, 0, 20000, &b, 30000);
		assert_int_equal(side_wait(&a).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(engine_qp_destroy(from), 0);
	assert_int_equal(engine_qp_destroy(to), 0);
	finish();
}

/* A UC connection beside the one that there is; B has seen it, and then looks at nothing. */
static void begin_unseen(struct engine_qp **from, struct engine_qp **to)
{
	begin(&usual);
	*from = new_uc_qp(&a);
	*to = new_uc_qp(&b);
	connect_uc(*from, &b, engine_qp_number(*to));
	connect_uc(*to, &a, engine_qp_number(*from));
	side_post_recv(&b, *to, 1, 0, 100);
	side_post(&a, *from, IBV_WR_SEND, 1, 0, 100, &b, 0);
	assert_int_equal(side_wait(&a).status, IBV_WC_SUCCESS);
	assert_int_equal(side_wait(&b).status, IBV_WC_SUCCESS);
	pthread_mutex_lock(&b.engine->shm_link->receive_lock);
}

static void end_unseen(void)
{
	pthread_mutex_unlock(&b.engine->shm_link->receive_lock);
}

/* More than a ring has room for; the program ends as soon as it is told that it is sent. */
static void uc_arrives_when_its_sender_ends(void **state)
{
	struct engine_qp *from, *to;

	(void)state;
	begin_unseen(&from, &to);
	for (uint32_t i = 0; i < 200000; i++)
		a.buffer[i] = (uint8_t)(i * 11);
	side_post_recv(&b, to, 2, 0, 200000);
	side_post(&a, from, IBV_WR_SEND, 2, 0, 200000, &b, 0);
	assert_int_equal(side_wait(&a).status, IBV_WC_SUCCESS);
	assert_int_equal(engine_qp_destroy(from), 0);
	memcpy(b.buffer + 200000, a.buffer, 20000);
	end_unseen();
	side_close(&a);
	assert_int_equal(side_wait(&b).byte_len, 200000);
	assert_memory_equal(b.buffer, b.buffer + 200000, 20000);
	assert_int_equal(engine_qp_destroy(to), 0);
	side_close(&b);
}

/* What waits for room is not endless: who posts more waits himself. */
static void uc_waits_for_who_does_not_look(void **state)
{
	struct engine_qp *from, *to;
	struct ibv_wc wc;
	uint32_t done = 0;

	(void)state;
	begin_unseen(&from, &to);
	for (uint32_t i = 0; i < 60; i++)
		side_post(&a, from, IBV_WR_RDMA_WRITE, i, 0, 200000, &b, 0);
	for (int i = 0; i < 200; i++)
		done += (uint32_t)engine_cq_poll(a.cq, 1, &wc);
	assert_in_range(done, 1, 30);
	end_unseen();
	for (; done < 60; done++)
		assert_int_equal(side_wait(&a).status, IBV_WC_SUCCESS);
	assert_int_equal(engine_qp_destroy(from), 0);
	assert_int_equal(engine_qp_destroy(to), 0);
	finish();
}

/* --- refusals --- */

static void a_late_receive_is_waited_for(void **state)
{
	(void)state;
	begin(&usual);
	for (uint64_t i = 0; i < 30; i++) {
		time_t deadline = time(NULL) + PATIENCE_S;
		uint64_t before = arrived_at(&b);

		side_post(&a, a.qp, IBV_WR_SEND, i, 0, 5000, &b, 0);
		/* It came, and was refused. */
		while (arrived_at(&b) == before && time(NULL) < deadline)
			sched_yield();
		side_post_recv(&b, b.qp, i, 0, 5000);
		assert_int_equal(side_wait(&b).status, IBV_WC_SUCCESS);
		assert_int_equal(side_wait(&a).status, IBV_WC_SUCCESS);
	}
	finish();
}

static void a_wrong_key_is_refused(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
	struct ibv_send_wr *bad;

	(void)state;
	begin(&usual);
	memset(a.buffer, 1, 100);
	sge = (struct ibv_sge){(uintptr_t)a.buffer, 100, engine_mr_key(a.mr)};
	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
	wr.wr.rdma.rkey = engine_mr_key(b.mr) + 1;
	assert_int_equal(engine_post_send(a.qp, &wr, &bad), 0);
	assert_int_equal(side_wait(&a).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(b.buffer[0], 0);
	finish();
}

/* --- many at once --- */

#define QPS 300u
#define EACH 12u
#define BYTES 4000u

struct crowd {
	struct engine_qp *from[QPS], *to[QPS];
};

/* Every one has packets under way; all together far more than a ring has room for. */
static void three_hundred_qps_share_a_ring(void **state)
{
	static struct crowd crowd;
	struct pair_settings settings = usual;
	uint32_t per_qp[QPS] = {0};

	(void)state;
	settings.depth = 512;
	begin(&settings);
	settings.depth = 16;
	for (uint32_t i = 0; i < QPS; i++) {
		crowd.from[i] = side_new_qp(&a, &settings);
		crowd.to[i] = side_new_qp(&b, &settings);
		side_connect(&a, crowd.from[i], &b, engine_qp_number(crowd.to[i]), &settings);
		side_connect(&b, crowd.to[i], &a, engine_qp_number(crowd.from[i]), &settings);
	}
	for (uint32_t i = 0; i < BYTES * 2; i++)
		a.buffer[i] = (uint8_t)(i * 13);
	for (uint32_t k = 0; k < EACH; k++)
		for (uint32_t i = 0; i < QPS; i++)
			side_post(&a, crowd.from[i], k % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				  (uint64_t)i << 32 | k, k % 3 ? 0 : 100000, BYTES, &b,
				  k % 3 ? 8192 : 16384);
	for (uint32_t n = 0; n < QPS * EACH; n++) {
		struct ibv_wc wc = side_wait(&a);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal((uint32_t)wc.wr_id, per_qp[wc.wr_id >> 32]++);
	}
	assert_memory_equal(a.buffer, b.buffer + 8192, BYTES);
	for (uint32_t i = 0; i < QPS; i++) {
		assert_int_equal(engine_qp_destroy(crowd.from[i]), 0);
		assert_int_equal(engine_qp_destroy(crowd.to[i]), 0);
	}
	finish();
}

/* --- ends --- */

static void *write_until_it_fails(void *argument)
{
	time_t deadline = time(NULL) + PATIENCE_S;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	(void)argument;
	while (wc.status == IBV_WC_SUCCESS && time(NULL) < deadline) {
		side_post(&a, a.qp, IBV_WR_RDMA_WRITE, 1, 0, 20000, &b, 0);
		wc = side_wait(&a);
	}
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	return NULL;
}

/* The QP goes; its engine, which answers nothing for it, stays. */
static void the_peer_is_destroyed_meanwhile(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		pthread_t writer;
		time_t deadline = time(NULL) + PATIENCE_S;

		begin(&hasty);
		assert_int_equal(pthread_create(&writer, NULL, write_until_it_fails, NULL), 0);
		while (arrived_at(&b) < 50 && time(NULL) < deadline)
			sched_yield();
		assert_int_equal(engine_qp_destroy(b.qp), 0);
		pthread_join(writer, NULL);
		b.qp = side_new_qp(&b, &hasty);
		finish();
	}
}

/* The whole process goes, as far as its neighbours can see, and another one has its slot. */
static void successors_are_reached(void **state)
{
	(void)state;
	begin(&hasty);
	for (int i = 0; i < 10; i++) {
		side_post(&a, a.qp, IBV_WR_RDMA_WRITE, 1, 0, 5000, &b, 0);
		assert_int_equal(side_wait(&a).status, IBV_WC_SUCCESS);
		side_close(&b);
		side_post(&a, a.qp, IBV_WR_RDMA_WRITE, 2, 0, 5000, &a, 0);
		assert_int_equal(side_wait(&a).status, IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(engine_qp_destroy(a.qp), 0);
		side_open(&b, ADDRESS, &hasty);
		a.qp = side_new_qp(&a, &hasty);
		side_connect(&a, a.qp, &b, engine_qp_number(b.qp), &hasty);
		side_connect(&b, b.qp, &a, engine_qp_number(a.qp), &hasty);
	}
	finish();
}

/* --- a neighbour that writes nonsense --- */

/* B's packets to A are replaced by nonsense: what waits for them ends, and others go on. */
static void nonsense_ends_what_is_between_two(void **state)
{
	struct side c;
	struct ring *ring;
	struct ibv_wc wc;
	time_t deadline = time(NULL) + PATIENCE_S;
	uint32_t slot_a, slot_b;

	(void)state;
	begin(&hasty);
	side_open(&c, ADDRESS, &hasty);
	slot_a = host_slot(membership_host(a.engine));
	slot_b = host_slot(membership_host(b.engine));
	side_post(&a, a.qp, IBV_WR_RDMA_WRITE, 1, 0, 100, &b, 0);
	assert_int_equal(side_wait(&a).status, IBV_WC_SUCCESS);
	ring = host_ring_map(membership_host(b.engine), slot_b, slot_a);
	assert_non_null(ring);
	for (uint32_t i = 0; i < RING_LINES; i++)
		atomic_store(ring_head_at(ring, i), 0x1111111111111111);
	/* B writes over it where A does not look before that. */
	while (counted(&a, REASON_DROP_RING) == 0) {
		assert_int_equal(engine_cq_poll(a.cq, 1, &wc), 0);
		assert_true(time(NULL) < deadline);
	}
	side_post(&a, a.qp, IBV_WR_RDMA_WRITE, 2, 0, 100, &b, 0);
	assert_int_equal(side_wait(&a).status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(counted(&a, REASON_DROP_RING), 1);
	/* With somebody else all is well. */
	assert_int_equal(engine_qp_destroy(a.qp), 0);
	a.qp = side_new_qp(&a, &hasty);
	side_connect(&a, a.qp, &c, engine_qp_number(c.qp), &hasty);
	side_connect(&c, c.qp, &a, engine_qp_number(a.qp), &hasty);
	side_post(&a, a.qp, IBV_WR_RDMA_WRITE, 3, 0, 100, &c, 0);
	assert_int_equal(side_wait(&a).status, IBV_WC_SUCCESS);
	side_close(&c);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_address_is_enough),
		cmocka_unit_test(uc_loses_nothing),
		cmocka_unit_test(uc_arrives_when_its_sender_ends),
		cmocka_unit_test(uc_waits_for_who_does_not_look),
		cmocka_unit_test(a_late_receive_is_waited_for),
		cmocka_unit_test(a_wrong_key_is_refused),
		cmocka_unit_test(three_hundred_qps_share_a_ring),
		cmocka_unit_test(the_peer_is_destroyed_meanwhile),
		cmocka_unit_test(successors_are_reached),
		cmocka_unit_test(nonsense_ends_what_is_between_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
