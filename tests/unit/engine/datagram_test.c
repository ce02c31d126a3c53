/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams through engines: two on two addresses, one with both QPs inside, and what the
 * handle, the Q_Key, the receive and the length have to do with where a message ends up.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_state.h"
#include "engine/explain.h"
#include "unit/engine/pair.h"

#define QKEY 0x11111111u
#define AREA 40
/* A hundred polls of an engine that has nothing to do are a moment on any machine. */
#define QUIET_POLLS 200

static const struct pair_settings usual = {.depth = 64, .is_datagram = true, .subnet = "127.81.2"};

struct scene {
	struct side a, b; /* of two engines, or of one */
	bool is_self;
	struct engine_qp *peer; /* b's, or a second one of a */
	struct side *peer_side;
	struct engine_ah *ah; /* from a to b */
};

static struct engine_ah *handle_to(struct side *from, const struct side *to)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct engine_ah *ah;

	memcpy(attr.grh.dgid.raw, to->devices[0].gid_shown[0], 16);
	attr.grh.traffic_class = 0x20;
	attr.grh.hop_limit = 7;
	assert_int_equal(engine_ah_create(from->pd, from->devices, &attr, &ah), 0);
	return ah;
}

static struct scene *open_scene(bool is_self)
{
	struct scene *scene = calloc(1, sizeof(*scene));

	scene->is_self = is_self;
	side_open(&scene->a, "127.81.2.1", &usual);
	scene->peer_side = &scene->a;
	if (!is_self) {
		side_open(&scene->b, "127.81.2.2", &usual);
		scene->peer_side = &scene->b;
	}
	scene->peer = is_self ? side_new_qp(&scene->a, &usual) : scene->b.qp;
	datagrams_to_rts(scene->a.qp, QKEY);
	datagrams_to_rts(scene->peer, QKEY);
	scene->ah = handle_to(&scene->a, scene->peer_side);
	return scene;
}

static int open_two(void **state)
{
	*state = open_scene(false);
	return 0;
}

static int open_one(void **state)
{
	*state = open_scene(true);
	return 0;
}

static int close_scene(void **state)
{
	struct scene *scene = *state;

	if (scene->ah)
		engine_ah_destroy(scene->ah);
	if (scene->is_self)
		assert_int_equal(engine_qp_destroy(scene->peer), 0);
	else
		side_close(&scene->b);
	side_close(&scene->a);
	free(scene);
	return 0;
}

struct message {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	uint32_t offset, length, flags, qkey, qpn;
};

static int try_send(struct side *side, struct engine_qp *qp, struct engine_ah *ah,
		    const struct message *message)
{
	struct ibv_sge sge = {.addr = (uintptr_t)side->buffer + message->offset,
			      .length = message->length,
			      .lkey = engine_mr_key(side->mr)};
	struct ibv_send_wr wr = {.wr_id = message->wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = message->opcode,
				 .send_flags = message->flags,
				 .imm_data = 0x01020304};
	struct ibv_send_wr *bad = NULL;
	int error;

	wr.wr.ud.ah = ah ? engine_ah_shown(ah) : NULL;
	wr.wr.ud.remote_qpn = message->qpn;
	wr.wr.ud.remote_qkey = message->qkey;
	error = engine_post_send(qp, &wr, &bad);
	assert_ptr_equal(bad, error ? &wr : NULL);
	return error;
}

static struct message to_peer(const struct scene *scene, uint32_t length)
{
	return (struct message){.wr_id = 1,
				.opcode = IBV_WR_SEND,
				.length = length,
				.qkey = QKEY,
				.qpn = engine_qp_number(scene->peer)};
}

static void post(struct scene *scene, const struct message *message)
{
	assert_int_equal(try_send(&scene->a, scene->a.qp, scene->ah, message), 0);
}

/* Both sides of the self scene share a CQ; the send's completion always comes first. */
static struct ibv_wc sent(struct scene *scene)
{
	struct ibv_wc wc = side_wait(&scene->a);

	assert_int_equal(wc.qp_num, engine_qp_number(scene->a.qp));
	return wc;
}

static void receive_at(struct scene *scene, uint32_t offset, uint32_t length)
{
	side_post_recv(scene->peer_side, scene->peer, 100 + offset, offset, length);
}

static struct ibv_wc received(struct scene *scene)
{
	struct ibv_wc wc = side_wait(scene->peer_side);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.qp_num, engine_qp_number(scene->peer));
	assert_int_equal(wc.src_qp, engine_qp_number(scene->a.qp));
	return wc;
}

/* Nothing more arrives: whatever was sent before has been looked at. */
static void expect_quiet(struct scene *scene)
{
	struct ibv_wc wc;

	for (int i = 0; i < QUIET_POLLS; i++)
		assert_int_equal(engine_cq_poll(scene->peer_side->cq, 1, &wc), 0);
}

/* The peer has looked at what was sent, and dropped it: for the helper that may take a while. */
static void await_drop(struct scene *scene, enum reason reason)
{
	const struct stats_room *room = scene->peer_side->engine->statistics.room;
	vbn_time give_up = clock_now() + 10 * VBN_SECOND;
	struct ibv_wc wc;

	while (atomic_load(&room->head.process.received[reason]) == 0 && clock_now() < give_up)
		assert_int_equal(engine_cq_poll(scene->peer_side->cq, 1, &wc), 0);
	assert_int_equal(atomic_load(&room->head.process.received[reason]), 1);
}

static void fill(struct side *side, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		side->buffer[i] = (uint8_t)(i * 13 + 5);
}

/* --- what arrives --- */

static void messages_arrive(void **state)
{
	struct scene *scene = *state;
	struct message message = to_peer(scene, 500);
	uint8_t *place = scene->peer_side->buffer + 8192;
	struct ibv_wc wc;

	fill(&scene->a, 4096);
	memset(place, 0xee, 1000);
	receive_at(scene, 8192, 1000);
	post(scene, &message);
	assert_int_equal(sent(scene).status, IBV_WC_SUCCESS);
	wc = received(scene);
	assert_int_equal(wc.byte_len, AREA + 500);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH);
	assert_int_equal(wc.slid, 0);
	assert_memory_equal(place + AREA, scene->a.buffer, 500);
	assert_int_equal(place[AREA + 500], 0xee);
}

static void header_tells_both_ends(void **state)
{
	static const uint8_t zeros[20];
	struct scene *scene = *state;
	struct message message = to_peer(scene, 100);
	uint8_t *place = scene->peer_side->buffer + 8192;

	memset(place, 0xee, AREA);
	receive_at(scene, 8192, 1000);
	post(scene, &message);
	sent(scene);
	received(scene);
	assert_memory_equal(place, zeros, 20);
	assert_int_equal(place[20], 0x45);
	assert_int_equal(place[21], 0x20);
	/* IPv4, UDP, BTH, DETH, payload, ICRC. */
	assert_int_equal(place[22] << 8 | place[23], 20 + 8 + 12 + 8 + 100 + 4);
	assert_int_equal(place[28], 7);
	assert_int_equal(place[29], 17);
	assert_memory_equal(place + 32, scene->a.devices[0].gid_shown[0] + 12, 4);
	assert_memory_equal(place + 36, scene->peer_side->devices[0].gid_shown[0] + 12, 4);
}

static void immediate_inline_and_nothing(void **state)
{
	struct scene *scene = *state;
	struct message message = to_peer(scene, 64);
	uint8_t *place = scene->peer_side->buffer + 8192;
	struct ibv_wc wc;

	fill(&scene->a, 64);
	receive_at(scene, 8192, 200);
	receive_at(scene, 9000, 200);
	message.opcode = IBV_WR_SEND_WITH_IMM;
	message.flags = IBV_SEND_INLINE;
	post(scene, &message);
	sent(scene);
	wc = received(scene);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x01020304);
	assert_memory_equal(place + AREA, scene->a.buffer, 64);
	message.length = 0;
	post(scene, &message);
	sent(scene);
	assert_int_equal(received(scene).byte_len, AREA);
}

static void largest_message(void **state)
{
	struct scene *scene = *state;
	struct message message = to_peer(scene, 4096);

	assert_int_equal(scene->a.devices[0].active_mtu, IBV_MTU_4096);
	fill(&scene->a, 4096);
	receive_at(scene, 8192, AREA + 4096);
	post(scene, &message);
	sent(scene);
	assert_int_equal(received(scene).byte_len, AREA + 4096);
	assert_memory_equal(scene->peer_side->buffer + 8192 + AREA, scene->a.buffer, 4096);
	message.length = 4097;
	assert_int_equal(try_send(&scene->a, scene->a.qp, scene->ah, &message), EINVAL);
}

/* --- what does not --- */

static void dropped_without_a_word(void **state)
{
	struct scene *scene = *state;
	struct message message = to_peer(scene, 100), wrong = message;

	/* No receive. */
	post(scene, &message);
	assert_int_equal(sent(scene).status, IBV_WC_SUCCESS);
	await_drop(scene, REASON_DROP_NO_RECEIVE);
	receive_at(scene, 8192, AREA + 100);
	wrong.qkey = QKEY + 1;
	post(scene, &wrong);
	assert_int_equal(sent(scene).status, IBV_WC_SUCCESS);
	wrong = message;
	wrong.length = 101;
	post(scene, &wrong);
	assert_int_equal(sent(scene).status, IBV_WC_SUCCESS);
	wrong = message;
	wrong.qpn ^= 1;
	post(scene, &wrong);
	assert_int_equal(sent(scene).status, IBV_WC_SUCCESS);
	expect_quiet(scene);
	/* The receive waits for the one that fits. */
	post(scene, &message);
	sent(scene);
	assert_int_equal(received(scene).wr_id, 100 + 8192);
}

static void failed_send_and_back(void **state)
{
	struct scene *scene = *state;
	struct message message = to_peer(scene, 100);
	struct ibv_sge sge = {.addr = (uintptr_t)scene->a.buffer, .length = 10, .lkey = 1};
	struct ibv_send_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr *bad;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};
	struct ibv_wc wc;

	wr.wr.ud.ah = engine_ah_shown(scene->ah);
	wr.wr.ud.remote_qpn = message.qpn;
	wr.wr.ud.remote_qkey = QKEY;
	assert_int_equal(engine_post_send(scene->a.qp, &wr, &bad), 0);
	post(scene, &message);
	wc = sent(scene);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(sent(scene).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(engine_qp_state(scene->a.qp), IBV_QPS_SQE);
	assert_int_equal(engine_qp_modify(scene->a.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
	receive_at(scene, 8192, 1000);
	post(scene, &message);
	assert_int_equal(sent(scene).status, IBV_WC_SUCCESS);
	received(scene);
}

/* --- handles --- */

static void handle_may_go_after_posting(void **state)
{
	struct scene *scene = *state;
	struct message message = to_peer(scene, 100);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};

	receive_at(scene, 8192, 1000);
	/* It waits in the queue, and its handle is gone. */
	assert_int_equal(engine_qp_modify(scene->a.qp, &attr, IBV_QP_STATE), 0);
	post(scene, &message);
	engine_ah_destroy(scene->ah);
	scene->ah = NULL;
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(engine_qp_modify(scene->a.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(sent(scene).status, IBV_WC_SUCCESS);
	received(scene);
}

static void queue_ends_with_handles_in_it(void **state)
{
	struct scene *scene = *state;
	struct message message = to_peer(scene, 100);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};

	assert_int_equal(engine_qp_modify(scene->a.qp, &attr, IBV_QP_STATE), 0);
	for (int i = 0; i < 10; i++)
		post(scene, &message);
	engine_ah_destroy(scene->ah);
	scene->ah = NULL;
	attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(engine_qp_modify(scene->a.qp, &attr, IBV_QP_STATE), 0);
}

static void handles_that_are_refused(void **state)
{
	struct scene *scene = *state;
	struct message message = to_peer(scene, 100);
	struct engine_pd *pd;
	struct engine_ah *foreign;
	struct ibv_ah_attr good = {.is_global = 1, .port_num = 1}, attr;

	memcpy(good.grh.dgid.raw, scene->a.devices[0].gid_shown[0], 16);
	attr = good;
	attr.is_global = 0;
	assert_int_equal(engine_ah_create(scene->a.pd, scene->a.devices, &attr, &foreign), -EINVAL);
	attr = good;
	attr.port_num = 2;
	assert_int_equal(engine_ah_create(scene->a.pd, scene->a.devices, &attr, &foreign), -EINVAL);
	attr = good;
	attr.grh.sgid_index = 3;
	assert_int_equal(engine_ah_create(scene->a.pd, scene->a.devices, &attr, &foreign), -EINVAL);
	attr = good;
	memset(attr.grh.dgid.raw, 0, 16);
	assert_int_equal(engine_ah_create(scene->a.pd, scene->a.devices, &attr, &foreign), -EINVAL);
	attr = good;
	attr.grh.dgid.raw[0] = 0xfd;
	assert_int_equal(engine_ah_create(scene->a.pd, scene->a.devices, &attr, &foreign), -EINVAL);

	assert_int_equal(try_send(&scene->a, scene->a.qp, NULL, &message), EINVAL);
	assert_int_equal(engine_pd_create(scene->a.engine, &pd), 0);
	assert_int_equal(engine_ah_create(pd, scene->a.devices, &good, &foreign), 0);
	assert_int_equal(engine_pd_destroy(pd), -EBUSY);
	assert_int_equal(try_send(&scene->a, scene->a.qp, foreign, &message), EINVAL);
	engine_ah_destroy(foreign);
	assert_int_equal(engine_pd_destroy(pd), 0);
}

/* What stands where a handle would is none: it is not looked at. */
static void other_requests_have_no_handle(void **state)
{
	struct scene *scene = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE}, *bad;

	wr.wr.rdma.remote_addr = 1;
	wr.wr.rdma.rkey = 2;
	wr.wr.ud.ah = (struct ibv_ah *)1;
	assert_int_equal(engine_post_send(scene->a.qp, &wr, &bad), EINVAL);
}

/* --- many at once --- */

#define CROSSFIRE 2000

struct shooter {
	struct side *side;
	struct engine_qp *qp;
	struct engine_ah *ah;
	uint32_t peer_qpn;
	_Atomic bool *is_over;
	uint32_t received;
};

static void take(struct shooter *shooter, uint32_t *sent_count)
{
	struct ibv_wc wc[16];
	int count = engine_cq_poll(shooter->side->cq, 16, wc);

	for (int i = 0; i < count; i++) {
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
		if (wc[i].opcode == IBV_WC_SEND) {
			++*sent_count;
			continue;
		}
		const uint8_t *place = shooter->side->buffer + wc[i].wr_id;

		assert_int_equal(wc[i].byte_len, AREA + 64);
		assert_int_equal(wc[i].src_qp, shooter->peer_qpn);
		for (int byte = 1; byte < 64; byte++)
			assert_int_equal(place[AREA + byte], place[AREA]);
		shooter->received++;
		side_post_recv(shooter->side, shooter->qp, wc[i].wr_id, (uint32_t)wc[i].wr_id,
			       AREA + 64);
	}
}

static void *shoot(void *argument)
{
	struct shooter *shooter = argument;
	struct message message = {.opcode = IBV_WR_SEND,
				  .length = 64,
				  .flags = IBV_SEND_INLINE,
				  .qkey = QKEY,
				  .qpn = shooter->peer_qpn};
	uint32_t posted = 0, sent_count = 0;

	while (sent_count < CROSSFIRE) {
		if (posted < CROSSFIRE && posted - sent_count < 32) {
			memset(shooter->side->buffer, (int)posted, 64);
			assert_int_equal(
				try_send(shooter->side, shooter->qp, shooter->ah, &message), 0);
			posted++;
		}
		take(shooter, &sent_count);
	}
	return NULL;
}

/* One may have been done before the other began: what came to it since is taken now. */
static void take_late(struct shooter *shooter)
{
	vbn_time give_up = clock_now() + 10 * VBN_SECOND;
	uint32_t sent_count = 0;

	while (!shooter->received && clock_now() < give_up)
		take(shooter, &sent_count);
	assert_true(shooter->received > 0);
}

/* Nothing is lost between these two unless a socket overflows; nothing may ever be mixed up. */
static void crossfire(void **state)
{
	struct scene *scene = *state;
	struct engine_ah *back = handle_to(&scene->b, &scene->a);
	struct shooter shooters[2] = {
		{.side = &scene->a,
		 .qp = scene->a.qp,
		 .ah = scene->ah,
		 .peer_qpn = engine_qp_number(scene->b.qp)},
		{.side = &scene->b,
		 .qp = scene->b.qp,
		 .ah = back,
		 .peer_qpn = engine_qp_number(scene->a.qp)},
	};
	pthread_t thread;

	for (int side = 0; side < 2; side++)
		for (uint32_t i = 0; i < 60; i++)
			side_post_recv(shooters[side].side, shooters[side].qp, 8192 + i * 128,
				       8192 + i * 128, AREA + 64);
	assert_int_equal(pthread_create(&thread, NULL, shoot, &shooters[1]), 0);
	shoot(&shooters[0]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	take_late(&shooters[0]);
	take_late(&shooters[1]);
	engine_ah_destroy(back);
}

/* One QP, requests to two peers by turns: each batch goes where its handle says. */
static void two_peers_by_turns(void **state)
{
	struct scene *scene = *state;
	struct engine_ah *home = handle_to(&scene->a, &scene->a);
	struct engine_qp *second = side_new_qp(&scene->a, &usual);
	struct ibv_send_wr list[20], *bad;
	struct ibv_sge sge = {.addr = (uintptr_t)scene->a.buffer,
			      .length = 8,
			      .lkey = engine_mr_key(scene->a.mr)};
	uint32_t own = 0, at_peer = 0;

	datagrams_to_rts(second, QKEY);
	for (uint32_t i = 0; i < 10; i++) {
		receive_at(scene, 8192 + i * 64, AREA + 8);
		side_post_recv(&scene->a, second, 500, 8192, AREA + 8);
	}
	memset(list, 0, sizeof(list));
	for (int i = 0; i < 20; i++) {
		list[i] = (struct ibv_send_wr){.next = i < 19 ? &list[i + 1] : NULL,
					       .sg_list = &sge,
					       .num_sge = 1,
					       .opcode = IBV_WR_SEND};
		list[i].wr.ud.ah = engine_ah_shown(i % 2 ? scene->ah : home);
		list[i].wr.ud.remote_qpn = i % 2 ? engine_qp_number(scene->peer)
						 : engine_qp_number(second);
		list[i].wr.ud.remote_qkey = QKEY;
	}
	assert_int_equal(engine_post_send(scene->a.qp, list, &bad), 0);
	for (int i = 0; i < 30; i++)
		own += side_wait(&scene->a).opcode == IBV_WC_RECV;
	for (int i = 0; i < 10; i++)
		at_peer += received(scene).opcode == IBV_WC_RECV;
	assert_int_equal(own, 10);
	assert_int_equal(at_peer, 10);
	assert_int_equal(engine_qp_destroy(second), 0);
	engine_ah_destroy(home);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(messages_arrive, open_two, close_scene),
		cmocka_unit_test_setup_teardown(messages_arrive, open_one, close_scene),
		cmocka_unit_test_setup_teardown(header_tells_both_ends, open_two, close_scene),
		cmocka_unit_test_setup_teardown(header_tells_both_ends, open_one, close_scene),
		cmocka_unit_test_setup_teardown(immediate_inline_and_nothing, open_two,
						close_scene),
		cmocka_unit_test_setup_teardown(immediate_inline_and_nothing, open_one,
						close_scene),
		cmocka_unit_test_setup_teardown(largest_message, open_two, close_scene),
		cmocka_unit_test_setup_teardown(largest_message, open_one, close_scene),
		cmocka_unit_test_setup_teardown(dropped_without_a_word, open_two, close_scene),
		cmocka_unit_test_setup_teardown(dropped_without_a_word, open_one, close_scene),
		cmocka_unit_test_setup_teardown(failed_send_and_back, open_two, close_scene),
		cmocka_unit_test_setup_teardown(failed_send_and_back, open_one, close_scene),
		cmocka_unit_test_setup_teardown(handle_may_go_after_posting, open_two, close_scene),
		cmocka_unit_test_setup_teardown(handle_may_go_after_posting, open_one, close_scene),
		cmocka_unit_test_setup_teardown(queue_ends_with_handles_in_it, open_two,
						close_scene),
		cmocka_unit_test_setup_teardown(handles_that_are_refused, open_one, close_scene),
		cmocka_unit_test_setup_teardown(other_requests_have_no_handle, open_one,
						close_scene),
		cmocka_unit_test_setup_teardown(crossfire, open_two, close_scene),
		cmocka_unit_test_setup_teardown(two_peers_by_turns, open_two, close_scene),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
