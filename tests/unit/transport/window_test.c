/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Binds and invalidations among the other work requests: when they are executed, in what
 * order they complete, what a SEND with invalidate does at either end, and that
 * requests without PSNs disturb nothing of going back, acknowledgements and flushing.
 */
#include <errno.h>
#include <string.h>

#include "memory/window.h"
#include "unit/transport/request_step.h"

#define WINDOW_KEY 0x00770100u
#define FIRST_PSN 0xfffffeu

struct scene {
	struct fixture *f;
	struct mr_slot *window;
	struct ibv_mw mw;
	struct ibv_mr mr;
};

static struct scene scene_of(const struct fixture_settings *settings, enum ibv_mw_type type)
{
	struct scene scene = {.f = fixture_new(settings)};

	scene.f->region->mr.access |= IBV_ACCESS_MW_BIND;
	scene.window = window_create(&scene.f->keys, type, FIXTURE_PD, WINDOW_KEY);
	assert_non_null(scene.window);
	scene.mw = (struct ibv_mw){.rkey = WINDOW_KEY, .type = type};
	scene.mr = (struct ibv_mr){.lkey = FIXTURE_KEY};
	return scene;
}

static struct scene usual_scene(void)
{
	return scene_of(&fixture_usual, IBV_MW_TYPE_2);
}

static void scene_end(struct scene *scene)
{
	fixture_expect_nothing(scene->f);
	assert_true(window_close(scene->window));
	assert_true(pin_slot_is_idle(&scene->window->pin));
	window_release(&scene->f->keys, scene->window);
	assert_int_equal(atomic_load(&scene->f->region->window_count), 0);
	fixture_free(scene->f);
}

static struct ibv_send_wr bind_request(struct scene *scene, uint8_t low, unsigned int flags)
{
	return (struct ibv_send_wr){
		.wr_id = scene->f->wr_id_next++,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = flags,
		.bind_mw = {.mw = &scene->mw,
			    .rkey = WINDOW_KEY | low,
			    .bind_info = {.mr = &scene->mr,
					  .addr = WRITE_IOVA,
					  .length = 2 * MTU,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
							     IBV_ACCESS_REMOTE_READ}},
	};
}

static uint64_t post_bind(struct scene *scene, uint8_t low, unsigned int flags)
{
	struct ibv_send_wr wr = bind_request(scene, low, flags);

	assert_int_equal(qp_post_send(scene->f->qp, &wr, &copier_direct, NULL), 0);
	return wr.wr_id;
}

static uint64_t post_invalidate(struct scene *scene, enum ibv_wr_opcode opcode, uint32_t key)
{
	struct ibv_send_wr wr = {
		.wr_id = scene->f->wr_id_next++, .opcode = opcode, .invalidate_rkey = key};

	assert_int_equal(qp_post_send(scene->f->qp, &wr, &copier_direct, NULL), 0);
	return wr.wr_id;
}

static bool is_open(const struct scene *scene, uint8_t low)
{
	const struct access access = access_of(scene->f->qp, &scene->f->core);

	return remote_check(&access, WINDOW_KEY | low, WRITE_IOVA, MTU, IBV_ACCESS_REMOTE_WRITE,
			    NULL) == REASON_NONE;
}

static const struct completion *expect_done(struct scene *scene, uint64_t wr_id,
					    enum ibv_wc_opcode opcode)
{
	const struct completion *completion =
		fixture_expect_completion(scene->f, wr_id, IBV_WC_SUCCESS);

	assert_int_equal(completion->opcode, opcode);
	assert_false(completion->is_receive);
	return completion;
}

static void a_bind_alone_completes_at_once(void **state)
{
	struct scene scene = usual_scene();
	uint64_t bound = post_bind(&scene, 1, 0), freed;

	(void)state;
	assert_false(is_open(&scene, 1));
	fixture_run(scene.f);
	expect_done(&scene, bound, IBV_WC_BIND_MW);
	assert_true(is_open(&scene, 1));
	freed = post_invalidate(&scene, IBV_WR_LOCAL_INV, WINDOW_KEY | 1);
	fixture_run(scene.f);
	expect_done(&scene, freed, IBV_WC_LOCAL_INV);
	assert_false(is_open(&scene, 1));
	assert_int_equal(qp_next_deadline(scene.f->qp), VBN_TIME_NEVER);
	scene_end(&scene);
}

/* The key may travel in the SEND behind the bind; that one's completion keeps its turn. */
static void a_bind_takes_effect_before_what_follows_and_completes_in_order(void **state)
{
	struct scene scene = usual_scene();
	uint64_t before = fixture_post(scene.f, IBV_WR_SEND, 0, 8, 0);
	uint64_t bound = post_bind(&scene, 1, 0);
	uint64_t behind = fixture_post(scene.f, IBV_WR_SEND, 0, 8, 0);

	(void)state;
	fixture_run(scene.f);
	fixture_expect(scene.f, OPCODE_SEND_ONLY, FIRST_PSN);
	fixture_expect(scene.f, OPCODE_SEND_ONLY, FIRST_PSN + 1);
	assert_true(is_open(&scene, 1));
	fixture_expect_nothing(scene.f);
	fixture_ack(scene.f, FIRST_PSN);
	expect_done(&scene, before, IBV_WC_SEND);
	expect_done(&scene, bound, IBV_WC_BIND_MW);
	fixture_expect_nothing(scene.f);
	fixture_ack(scene.f, FIRST_PSN + 1);
	expect_done(&scene, behind, IBV_WC_SEND);
	scene_end(&scene);
}

static void a_fenced_bind_waits_for_reads(void **state)
{
	struct scene scene = usual_scene();
	uint64_t read = fixture_post(scene.f, IBV_WR_RDMA_READ, 0, 100, 0);
	uint64_t bound = post_bind(&scene, 1, IBV_SEND_FENCE);

	(void)state;
	fixture_run(scene.f);
	fixture_expect(scene.f, OPCODE_READ_REQUEST, FIRST_PSN);
	assert_false(is_open(&scene, 1));
	fixture_read_response(scene.f, OPCODE_READ_RESPONSE_ONLY, FIRST_PSN, 7, 100);
	expect_done(&scene, read, IBV_WC_RDMA_READ);
	expect_done(&scene, bound, IBV_WC_BIND_MW);
	assert_true(is_open(&scene, 1));
	scene_end(&scene);
}

static void an_invalidation_waits_for_all_before_it(void **state)
{
	struct scene scene = usual_scene();
	uint64_t bound = post_bind(&scene, 1, 0);
	uint64_t sent = fixture_post(scene.f, IBV_WR_SEND, 0, 8, 0);
	uint64_t freed = post_invalidate(&scene, IBV_WR_LOCAL_INV, WINDOW_KEY | 1);
	uint64_t behind = fixture_post(scene.f, IBV_WR_SEND, 0, 8, 0);

	(void)state;
	fixture_run(scene.f);
	expect_done(&scene, bound, IBV_WC_BIND_MW);
	fixture_expect(scene.f, OPCODE_SEND_ONLY, FIRST_PSN);
	fixture_expect_nothing(scene.f);
	assert_true(is_open(&scene, 1));
	fixture_ack(scene.f, FIRST_PSN);
	expect_done(&scene, sent, IBV_WC_SEND);
	expect_done(&scene, freed, IBV_WC_LOCAL_INV);
	assert_false(is_open(&scene, 1));
	fixture_expect(scene.f, OPCODE_SEND_ONLY, FIRST_PSN + 1);
	fixture_ack(scene.f, FIRST_PSN + 1);
	expect_done(&scene, behind, IBV_WC_SEND);
	scene_end(&scene);
}

/* Requests without PSNs between others: the wave is sent again as it was, binds are not. */
static void going_back_steps_over_binds(void **state)
{
	struct scene scene = usual_scene();
	uint64_t ids[5];

	(void)state;
	ids[0] = fixture_post(scene.f, IBV_WR_RDMA_WRITE, 0, 2 * MTU, 0);
	ids[1] = post_bind(&scene, 1, 0);
	ids[2] = fixture_post(scene.f, IBV_WR_RDMA_WRITE, 0, 8, 0);
	fixture_run(scene.f);
	fixture_expect(scene.f, OPCODE_WRITE_FIRST, FIRST_PSN);
	fixture_expect(scene.f, OPCODE_WRITE_LAST, FIRST_PSN + 1);
	fixture_expect(scene.f, OPCODE_WRITE_ONLY, FIRST_PSN + 2);
	/* A second bind of a bound window would fail. */
	fixture_nak(scene.f, FIRST_PSN, SYNDROME_NAK_SEQUENCE);
	fixture_expect(scene.f, OPCODE_WRITE_FIRST, FIRST_PSN);
	fixture_expect(scene.f, OPCODE_WRITE_LAST, FIRST_PSN + 1);
	fixture_expect(scene.f, OPCODE_WRITE_ONLY, FIRST_PSN + 2);
	fixture_ack(scene.f, FIRST_PSN + 1);
	expect_done(&scene, ids[0], IBV_WC_RDMA_WRITE);
	expect_done(&scene, ids[1], IBV_WC_BIND_MW);
	fixture_expect_nothing(scene.f);
	ids[3] = fixture_post(scene.f, IBV_WR_RDMA_WRITE, 0, 8, 0);
	fixture_run(scene.f);
	fixture_expect(scene.f, OPCODE_WRITE_ONLY, FIRST_PSN + 3);
	fixture_nak(scene.f, FIRST_PSN + 2, SYNDROME_NAK_SEQUENCE);
	fixture_expect(scene.f, OPCODE_WRITE_ONLY, FIRST_PSN + 2);
	fixture_expect(scene.f, OPCODE_WRITE_ONLY, FIRST_PSN + 3);
	ids[4] = post_invalidate(&scene, IBV_WR_LOCAL_INV, WINDOW_KEY | 1);
	fixture_ack(scene.f, FIRST_PSN + 3);
	expect_done(&scene, ids[2], IBV_WC_RDMA_WRITE);
	expect_done(&scene, ids[3], IBV_WC_RDMA_WRITE);
	expect_done(&scene, ids[4], IBV_WC_LOCAL_INV);
	scene_end(&scene);
}

static void a_bind_behind_a_lost_tail_is_passed_by_the_probe(void **state)
{
	struct scene scene = usual_scene();
	uint64_t sent = fixture_post(scene.f, IBV_WR_SEND, 0, 8, 0);
	uint64_t bound = post_bind(&scene, 1, 0);

	(void)state;
	fixture_run(scene.f);
	fixture_expect(scene.f, OPCODE_SEND_ONLY, FIRST_PSN);
	fixture_advance(scene.f, 3 * VBN_MILLISECOND);
	fixture_expect(scene.f, OPCODE_SEND_ONLY, FIRST_PSN);
	fixture_advance(scene.f, 500 * VBN_MILLISECOND);
	while (scene.f->packet_next < scene.f->packet_count)
		fixture_expect(scene.f, OPCODE_SEND_ONLY, FIRST_PSN);
	fixture_ack(scene.f, FIRST_PSN);
	expect_done(&scene, sent, IBV_WC_SEND);
	expect_done(&scene, bound, IBV_WC_BIND_MW);
	scene_end(&scene);
}

static void unsignalled_ones_complete_silently(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct scene scene;
	uint64_t last;

	(void)state;
	settings.signals_all = false;
	settings.send_wr_max = 4;
	scene = scene_of(&settings, IBV_MW_TYPE_2);
	post_bind(&scene, 1, 0);
	post_invalidate(&scene, IBV_WR_LOCAL_INV, WINDOW_KEY | 1);
	last = post_bind(&scene, 2, IBV_SEND_SIGNALED);
	fixture_run(scene.f);
	assert_int_equal(expect_done(&scene, last, IBV_WC_BIND_MW)->slots_released, 3);
	scene_end(&scene);
}

static void many_in_one_call_pass_the_outbox(void **state)
{
	struct fixture_settings settings = fixture_usual;
	struct scene scene;
	uint64_t first;

	(void)state;
	settings.send_wr_max = 400;
	scene = scene_of(&settings, IBV_MW_TYPE_2);
	first = scene.f->wr_id_next;
	for (uint32_t i = 0; i < 200; i++) {
		post_bind(&scene, (uint8_t)i, 0);
		post_invalidate(&scene, IBV_WR_LOCAL_INV, WINDOW_KEY | (uint8_t)i);
	}
	fixture_run(scene.f);
	for (uint32_t i = 0; i < 400; i++)
		expect_done(&scene, first + i, i % 2 ? IBV_WC_LOCAL_INV : IBV_WC_BIND_MW);
	scene_end(&scene);
}

/* --- refusals --- */

static void expect_bind_error(struct scene *scene, uint64_t wr_id, enum reason reason)
{
	const struct completion *completion =
		fixture_expect_completion(scene->f, wr_id, IBV_WC_MW_BIND_ERR);

	assert_int_equal(completion->complaint.reason, reason);
	assert_int_equal(completion->complaint.qpn, FIXTURE_QPN);
	assert_int_equal(scene->f->qp->state, IBV_QPS_ERR);
}

static void a_refused_bind_ends_the_queue_in_its_turn(void **state)
{
	struct scene scene = usual_scene();
	struct ibv_send_wr wr = bind_request(&scene, 1, 0);
	uint64_t before = fixture_post(scene.f, IBV_WR_SEND, 0, 8, 0), behind;

	(void)state;
	wr.wr_id = scene.f->wr_id_next++;
	wr.bind_mw.bind_info.length = FIXTURE_BYTES;
	assert_int_equal(qp_post_send(scene.f->qp, &wr, &copier_direct, NULL), 0);
	behind = post_bind(&scene, 2, 0);
	fixture_run(scene.f);
	fixture_expect(scene.f, OPCODE_SEND_ONLY, FIRST_PSN);
	fixture_expect_nothing(scene.f);
	fixture_ack(scene.f, FIRST_PSN);
	expect_done(&scene, before, IBV_WC_SEND);
	expect_bind_error(&scene, wr.wr_id, REASON_KEY_RANGE);
	assert_int_equal(fixture_expect_completion(scene.f, behind, IBV_WC_WR_FLUSH_ERR)->opcode,
			 IBV_WC_BIND_MW);
	assert_false(is_open(&scene, 2));
	scene_end(&scene);
}

static void a_bound_window_is_not_bound_again(void **state)
{
	struct scene scene = usual_scene();
	uint64_t first = post_bind(&scene, 1, 0), second = post_bind(&scene, 2, 0);

	(void)state;
	fixture_run(scene.f);
	expect_done(&scene, first, IBV_WC_BIND_MW);
	expect_bind_error(&scene, second, REASON_WINDOW_BOUND);
	scene_end(&scene);
}

static void what_is_no_window_is_not_invalidated(void **state)
{
	static const uint32_t keys[] = {0, WINDOW_KEY, FIXTURE_KEY, 0xdeadbeef, UINT32_MAX};

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct scene scene = usual_scene();
		uint64_t freed = post_invalidate(&scene, IBV_WR_LOCAL_INV, keys[i]);

		fixture_run(scene.f);
		expect_bind_error(&scene, freed, REASON_INVALIDATE_REFUSED);
		scene_end(&scene);
	}
}

static void flushed_ones_have_no_effect(void **state)
{
	struct scene scene = usual_scene();
	uint64_t bound, freed;

	(void)state;
	fixture_move(scene.f, IBV_QPS_ERR);
	bound = post_bind(&scene, 1, 0);
	freed = post_invalidate(&scene, IBV_WR_LOCAL_INV, WINDOW_KEY | 1);
	fixture_run(scene.f);
	assert_int_equal(fixture_expect_completion(scene.f, bound, IBV_WC_WR_FLUSH_ERR)->opcode,
			 IBV_WC_BIND_MW);
	assert_int_equal(fixture_expect_completion(scene.f, freed, IBV_WC_WR_FLUSH_ERR)->opcode,
			 IBV_WC_LOCAL_INV);
	assert_false(is_open(&scene, 1));
	scene_end(&scene);
}

static void a_draining_queue_starts_none(void **state)
{
	struct scene scene = usual_scene();
	uint64_t bound;

	(void)state;
	fixture_move(scene.f, IBV_QPS_SQD);
	fixture_expect_event(scene.f, IBV_EVENT_SQ_DRAINED);
	bound = post_bind(&scene, 1, 0);
	fixture_run(scene.f);
	fixture_expect_nothing(scene.f);
	assert_false(is_open(&scene, 1));
	fixture_move(scene.f, IBV_QPS_RTS);
	expect_done(&scene, bound, IBV_WC_BIND_MW);
	scene_end(&scene);
}

/* --- a window in use --- */

static void a_bind_comes_again_while_the_window_is_in_use(void **state)
{
	struct scene scene = scene_of(&fixture_usual, IBV_MW_TYPE_1);
	struct ibv_send_wr wr = bind_request(&scene, 1, 0);
	struct fixture *f = scene.f;
	struct pin_slot *held;

	(void)state;
	assert_int_equal(qp_post_bind_type_1(f->qp, &wr, NULL), 0);
	fixture_run(f);
	expect_done(&scene, wr.wr_id, IBV_WC_BIND_MW);
	held = pin_table_pin(&f->keys.keys, WINDOW_KEY | 1);
	assert_non_null(held);
	wr = bind_request(&scene, 2, 0);
	assert_int_equal(qp_post_bind_type_1(f->qp, &wr, NULL), 0);
	for (int i = 0; i < 3; i++) {
		assert_true(qp_output(f->qp, &f->core, &f->out));
		assert_int_equal(f->out.completion_count, 0);
		assert_false(is_open(&scene, 1));
		assert_false(is_open(&scene, 2));
	}
	pin_slot_unpin(held);
	fixture_run(f);
	expect_done(&scene, wr.wr_id, IBV_WC_BIND_MW);
	assert_true(is_open(&scene, 2));
	scene_end(&scene);
}

/* --- unreliable connections --- */

static struct scene uc_scene(void)
{
	struct fixture_settings settings = fixture_usual;

	settings.is_uc = true;
	return scene_of(&settings, IBV_MW_TYPE_2);
}

static void without_answers_they_take_their_turn(void **state)
{
	struct scene scene = uc_scene();
	struct fixture *f = scene.f;
	uint64_t ids[5];

	(void)state;
	ids[0] = post_bind(&scene, 1, 0);
	ids[1] = fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	ids[2] = post_invalidate(&scene, IBV_WR_LOCAL_INV, WINDOW_KEY | 1);
	ids[3] = post_bind(&scene, 2, 0);
	ids[4] = fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	fixture_run(f);
	fixture_expect(f, OPCODE_SEND_ONLY, FIRST_PSN);
	fixture_expect(f, OPCODE_SEND_ONLY, FIRST_PSN + 1);
	expect_done(&scene, ids[0], IBV_WC_BIND_MW);
	expect_done(&scene, ids[1], IBV_WC_SEND);
	expect_done(&scene, ids[2], IBV_WC_LOCAL_INV);
	expect_done(&scene, ids[3], IBV_WC_BIND_MW);
	expect_done(&scene, ids[4], IBV_WC_SEND);
	assert_false(is_open(&scene, 1));
	assert_true(is_open(&scene, 2));
	scene_end(&scene);
}

static void without_answers_a_refused_one_stops_the_sends(void **state)
{
	struct scene scene = uc_scene();
	struct fixture *f = scene.f;
	uint64_t sent = fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	uint64_t freed = post_invalidate(&scene, IBV_WR_LOCAL_INV, WINDOW_KEY | 1);
	uint64_t behind = post_bind(&scene, 2, 0);

	(void)state;
	fixture_run(f);
	fixture_expect(f, OPCODE_SEND_ONLY, FIRST_PSN);
	expect_done(&scene, sent, IBV_WC_SEND);
	assert_int_equal(fixture_expect_completion(f, freed, IBV_WC_MW_BIND_ERR)->complaint.reason,
			 REASON_INVALIDATE_REFUSED);
	fixture_expect_completion(f, behind, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->qp->state, IBV_QPS_SQE);
	assert_false(is_open(&scene, 2));
	scene_end(&scene);
}

/* The SEND's memory is gone when it is copied: what stands behind it has no effect. */
static void without_answers_a_lost_payload_takes_the_bind_back(void **state)
{
	struct scene scene = uc_scene();
	struct fixture *f = scene.f;
	uint64_t sent = fixture_post(f, IBV_WR_SEND, 0, 8, 0);
	uint64_t bound = post_bind(&scene, 1, 0);
	struct complaint complaint = {.reason = REASON_MEMORY_FAULT};
	struct packet_out packet;

	(void)state;
	assert_true(qp_output(f->qp, &f->core, &f->out));
	assert_int_equal(f->out.packet_count, 1);
	packet = f->out.packets[0];
	outbox_clear(&f->out);
	assert_false(qp_payload_failed(f->qp, &packet, &complaint, &f->core));
	fixture_run(f);
	fixture_expect_completion(f, sent, IBV_WC_LOC_PROT_ERR);
	fixture_expect_completion(f, bound, IBV_WC_WR_FLUSH_ERR);
	assert_false(is_open(&scene, 1));
	scene_end(&scene);
}

static void without_answers_a_bind_comes_again(void **state)
{
	struct scene scene = uc_scene();
	struct fixture *f = scene.f;
	uint64_t bound = post_bind(&scene, 1, 0);

	(void)state;
	atomic_fetch_add(&scene.window->pin.pins, 1);
	for (int i = 0; i < 3; i++) {
		assert_true(qp_output(f->qp, &f->core, &f->out));
		assert_int_equal(f->out.completion_count, 0);
	}
	pin_slot_unpin(&scene.window->pin);
	fixture_run(f);
	expect_done(&scene, bound, IBV_WC_BIND_MW);
	scene_end(&scene);
}

static void without_answers_no_message_invalidates(void **state)
{
	struct scene scene = uc_scene();
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV};

	(void)state;
	assert_int_equal(qp_post_send(scene.f->qp, &wr, &copier_direct, NULL), EINVAL);
	scene_end(&scene);
}

/* --- SEND with invalidate --- */

static void the_last_packet_carries_the_key(void **state)
{
	struct scene scene = usual_scene();
	struct fixture *f = scene.f;
	uint64_t single = post_invalidate(&scene, IBV_WR_SEND_WITH_INV, 0xabcd1234);
	struct ibv_sge sge = {FIXTURE_IOVA, 2 * MTU, FIXTURE_KEY};
	struct ibv_send_wr wr = {.wr_id = f->wr_id_next++,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_INV,
				 .send_flags = IBV_SEND_SOLICITED,
				 .invalidate_rkey = 0x11223344};
	const struct packet *packet;

	(void)state;
	assert_int_equal(qp_post_send(f->qp, &wr, &copier_direct, NULL), 0);
	fixture_run(f);
	packet = &fixture_expect(f, OPCODE_SEND_ONLY_INVALIDATE, FIRST_PSN)->out.packet;
	assert_int_equal(packet->invalidate_rkey, 0xabcd1234);
	packet = &fixture_expect(f, OPCODE_SEND_FIRST, FIRST_PSN + 1)->out.packet;
	assert_int_equal(packet->invalidate_rkey, 0);
	packet = &fixture_expect(f, OPCODE_SEND_LAST_INVALIDATE, FIRST_PSN + 2)->out.packet;
	assert_int_equal(packet->invalidate_rkey, 0x11223344);
	assert_true(packet->solicited);
	fixture_ack(f, FIRST_PSN + 2);
	expect_done(&scene, single, IBV_WC_SEND);
	expect_done(&scene, wr.wr_id, IBV_WC_SEND);
	scene_end(&scene);
}

static enum reason send_invalidate(struct fixture *f, enum opcode operation, uint32_t psn,
				   uint32_t length, uint32_t key)
{
	const struct step step = {
		.operation = operation, .length = length, .rkey = key, .ack_requested = true};

	return send_step(f, &step, psn);
}

static void bind_now(struct scene *scene, uint8_t low)
{
	uint64_t bound = post_bind(scene, low, 0);

	fixture_run(scene->f);
	expect_done(scene, bound, IBV_WC_BIND_MW);
}

static void the_peer_frees_the_window(void **state)
{
	struct scene scene = usual_scene();
	struct fixture *f = scene.f;
	const struct completion *completion;
	uint64_t received = fixture_post_recv(f, RECV_OFFSET, 4 * MTU);

	(void)state;
	bind_now(&scene, 1);
	assert_int_equal(send_invalidate(f, OPCODE_SEND_FIRST, E, MTU, WINDOW_KEY | 1),
			 REASON_NONE);
	fixture_expect_ack(f, E, SYNDROME_ACK_UNLIMITED, 0);
	assert_true(is_open(&scene, 1));
	assert_int_equal(send_invalidate(f, OPCODE_SEND_LAST_INVALIDATE, E + 1, 4, WINDOW_KEY | 1),
			 REASON_NONE);
	fixture_expect_ack(f, E + 1, SYNDROME_ACK_UNLIMITED, 1);
	completion = fixture_expect_completion(f, received, IBV_WC_SUCCESS);
	assert_int_equal(completion->wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(completion->immediate, WINDOW_KEY | 1);
	assert_int_equal(completion->byte_len, MTU + 4);
	assert_int_equal(completion->opcode, IBV_WC_RECV);
	assert_false(is_open(&scene, 1));
	/* A repeat is acknowledged, not executed. */
	bind_now(&scene, 1);
	assert_int_equal(send_invalidate(f, OPCODE_SEND_LAST_INVALIDATE, E + 1, 4, WINDOW_KEY | 1),
			 REASON_DROP_DUPLICATE);
	fixture_expect_ack(f, E + 1, SYNDROME_ACK_UNLIMITED, 1);
	assert_true(is_open(&scene, 1));
	scene_end(&scene);
}

static void no_receive_no_invalidation(void **state)
{
	struct scene scene = usual_scene();

	(void)state;
	bind_now(&scene, 1);
	assert_int_equal(send_invalidate(scene.f, OPCODE_SEND_ONLY_INVALIDATE, E, 4,
					 WINDOW_KEY | 1),
			 REASON_RECV_QUEUE_EMPTY);
	fixture_expect_ack(scene.f, E, SYNDROME_RNR_BASE | 12, 0);
	assert_true(is_open(&scene, 1));
	scene_end(&scene);
}

static void keys_that_the_peer_may_not_invalidate(void **state)
{
	static const uint32_t keys[] = {WINDOW_KEY, WINDOW_KEY | 2, FIXTURE_KEY, 0xdeadbeef,
					UINT32_MAX};
	static uint8_t before[FIXTURE_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct scene scene = usual_scene();
		struct fixture *f = scene.f;
		uint64_t received = fixture_post_recv(f, RECV_OFFSET, MTU);
		const struct completion *completion;

		bind_now(&scene, 1);
		memcpy(before, f->memory, FIXTURE_BYTES);
		assert_int_equal(send_invalidate(f, OPCODE_SEND_ONLY_INVALIDATE, E, 64, keys[i]),
				 REASON_INVALIDATE_REFUSED);
		fixture_expect_ack(f, E, SYNDROME_NAK_REMOTE_ACCESS, 0);
		completion = fixture_expect_completion(f, received, IBV_WC_LOC_ACCESS_ERR);
		assert_int_equal(completion->complaint.reason, REASON_INVALIDATE_REFUSED);
		assert_int_equal(completion->complaint.key, keys[i]);
		assert_memory_equal(f->memory, before, FIXTURE_BYTES);
		assert_true(is_open(&scene, 1));
		scene_end(&scene);
	}
}

static void a_write_in_the_middle_loses_its_window(void **state)
{
	struct scene scene = usual_scene();
	struct fixture *f = scene.f;
	const struct step first = {.operation = OPCODE_WRITE_FIRST,
				   .length = MTU,
				   .iova = WRITE_IOVA,
				   .reth_length = 2 * MTU,
				   .rkey = WINDOW_KEY | 1};
	const struct step last = {.operation = OPCODE_WRITE_LAST,
				  .length = MTU,
				  .offset = MTU,
				  .ack_requested = true};
	uint64_t freed;

	(void)state;
	bind_now(&scene, 1);
	assert_int_equal(send_step(f, &first, E), REASON_NONE);
	freed = post_invalidate(&scene, IBV_WR_LOCAL_INV, WINDOW_KEY | 1);
	fixture_run(f);
	expect_done(&scene, freed, IBV_WC_LOCAL_INV);
	assert_int_equal(send_step(f, &last, E + 1), REASON_KEY_UNKNOWN);
	fixture_expect_ack(f, E + 1, SYNDROME_NAK_REMOTE_ACCESS, 0);
	fixture_expect_event(f, IBV_EVENT_QP_ACCESS_ERR);
	expect_bytes(f, WRITE_OFFSET, MTU);
	scene_end(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bind_alone_completes_at_once),
		cmocka_unit_test(a_bind_takes_effect_before_what_follows_and_completes_in_order),
		cmocka_unit_test(a_fenced_bind_waits_for_reads),
		cmocka_unit_test(an_invalidation_waits_for_all_before_it),
		cmocka_unit_test(going_back_steps_over_binds),
		cmocka_unit_test(a_bind_behind_a_lost_tail_is_passed_by_the_probe),
		cmocka_unit_test(unsignalled_ones_complete_silently),
		cmocka_unit_test(many_in_one_call_pass_the_outbox),
		cmocka_unit_test(a_refused_bind_ends_the_queue_in_its_turn),
		cmocka_unit_test(a_bound_window_is_not_bound_again),
		cmocka_unit_test(what_is_no_window_is_not_invalidated),
		cmocka_unit_test(flushed_ones_have_no_effect),
		cmocka_unit_test(a_draining_queue_starts_none),
		cmocka_unit_test(a_bind_comes_again_while_the_window_is_in_use),
		cmocka_unit_test(without_answers_they_take_their_turn),
		cmocka_unit_test(without_answers_a_refused_one_stops_the_sends),
		cmocka_unit_test(without_answers_a_lost_payload_takes_the_bind_back),
		cmocka_unit_test(without_answers_a_bind_comes_again),
		cmocka_unit_test(without_answers_no_message_invalidates),
		cmocka_unit_test(the_last_packet_carries_the_key),
		cmocka_unit_test(the_peer_frees_the_window),
		cmocka_unit_test(no_receive_no_invalidation),
		cmocka_unit_test(keys_that_the_peer_may_not_invalidate),
		cmocka_unit_test(a_write_in_the_middle_loses_its_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
