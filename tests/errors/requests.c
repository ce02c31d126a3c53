/* SPDX-License-Identifier: BSD-2-Clause */
/* What is posted in a trial, as it should be. */
#include <arpa/inet.h>
#include <string.h>

#include "cases/loop.h"
#include "errors/scene.h"
#include "tools/fail.h"

static enum ibv_wr_opcode opcode_of(enum operation operation)
{
	static const enum ibv_wr_opcode opcodes[OPERATION_COUNT] = {
		[SEND] = IBV_WR_SEND,
		[SEND_IMM] = IBV_WR_SEND_WITH_IMM,
		[SEND_INV] = IBV_WR_SEND_WITH_INV,
		[WRITE] = IBV_WR_RDMA_WRITE,
		[WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[READ] = IBV_WR_RDMA_READ,
		[FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
		[CMP_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
		[ATOMIC_WRITE] = IBV_WR_ATOMIC_WRITE,
		[BIND_TYPE_1] = IBV_WR_BIND_MW,
		[BIND_TYPE_2] = IBV_WR_BIND_MW,
		[LOCAL_INV] = IBV_WR_LOCAL_INV,
	};

	return opcodes[operation];
}

struct ibv_wc scene_await(struct ibv_cq *cq)
{
	const uint64_t deadline = loop_deadline();
	struct ibv_wc completion;
	int count;

	while ((count = ibv_poll_cq(cq, 1, &completion)) == 0)
		if (loop_is_over(deadline))
			give_up("no completion came");
	if (count < 0)
		give_up("ibv_poll_cq failed");
	return completion;
}

void scene_do(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_cq *cq)
{
	struct ibv_send_wr *bad;
	struct ibv_wc completion;

	request->send_flags |= IBV_SEND_SIGNALED;
	need_zero(ibv_post_send(qp, request, &bad), "ibv_post_send");
	completion = scene_await(cq);
	if (completion.status != IBV_WC_SUCCESS)
		give_up("a request that prepares a trial: %s",
			ibv_wc_status_str(completion.status));
}

struct ibv_mw *scene_bind(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *region,
			  uint64_t address, uint32_t length, unsigned rights)
{
	struct ibv_mw *window = ibv_alloc_mw(qp->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr request = {.opcode = IBV_WR_BIND_MW};

	need_object(window, "ibv_alloc_mw");
	request.bind_mw.mw = window;
	request.bind_mw.rkey = ibv_inc_rkey(window->rkey);
	request.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = region, .addr = address, .length = length, .mw_access_flags = rights};
	scene_do(qp, &request, cq);
	window->rkey = request.bind_mw.rkey;
	return window;
}

/* --- where things go --- */

/* What makes a SEND of this service arrive. */
static void address_request(const struct scene *scene, struct ibv_send_wr *request)
{
	uint32_t number;

	switch (scene->trial.service) {
	case UD:
		request->wr.ud.ah = scene->ah;
		request->wr.ud.remote_qpn = scene->side[FAR].number;
		request->wr.ud.remote_qkey = QKEY;
		break;
	case XRC:
		need_zero(ibv_get_srq_num(scene->srq, &number), "ibv_get_srq_num");
		request->qp_type.xrc.remote_srqn = number;
		break;
	case RC:
	case UC:
	case QP_SERVICE_COUNT:
		break;
	}
}

static struct ibv_send_wr other_request(struct scene *scene, uint64_t wr_id, unsigned flags)
{
	struct ibv_send_wr request = {
		.wr_id = wr_id,
		.sg_list = &scene->behind_sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = flags,
		.imm_data = htonl(IMM_OTHER),
	};

	address_request(scene, &request);
	return request;
}

static void write_others(struct scene *scene)
{
	const struct side *near = &scene->side[NEAR];

	scene->behind_sge = (struct ibv_sge){scene_address(near, SECOND_AREA), BEHIND_BYTES,
					     near->second->lkey};
	/* Of those behind the first one completes only if something goes wrong. */
	scene->behind[0] = other_request(scene, WR_BEHIND, 0);
	scene->behind[1] = other_request(scene, WR_BEHIND_LAST, IBV_SEND_SIGNALED);
	scene->front = other_request(scene, WR_FRONT, IBV_SEND_SIGNALED);
}

/* --- the message --- */

static uint64_t word_at(const struct side *side, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, side->arena + offset, sizeof(word));
	return word;
}

static void aim_at_target(struct scene *scene, struct ibv_send_wr *message)
{
	const struct side *far = &scene->side[FAR];
	uint64_t target = scene_address(far, FIRST_AREA);
	uint32_t rkey = far->first->rkey;

	if (BIT(scene->trial.operation) & ATOMICS) {
		message->wr.atomic.remote_addr = target;
		message->wr.atomic.rkey = rkey;
		message->wr.atomic.compare_add = scene->trial.operation == FETCH_ADD
							 ? 0x0101010101010101u
							 : word_at(far, FIRST_AREA);
		message->wr.atomic.swap = 0x1122334455667788u;
		return;
	}
	message->wr.rdma.remote_addr = target;
	message->wr.rdma.rkey = rkey;
}

static struct ibv_mw_bind_info good_bind(struct scene *scene)
{
	const struct side *near = &scene->side[NEAR];

	return (struct ibv_mw_bind_info){.mr = near->first,
					 .addr = scene_address(near, FIRST_AREA),
					 .length = 64,
					 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
							    IBV_ACCESS_REMOTE_READ};
}

static void prepare_bind(struct scene *scene, struct ibv_send_wr *message)
{
	bool is_type_1 = scene->trial.operation == BIND_TYPE_1;

	scene->window =
		ibv_alloc_mw(scene->side[NEAR].pd, is_type_1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	need_object(scene->window, "ibv_alloc_mw");
	if (is_type_1) {
		scene->bind = (struct ibv_mw_bind){.wr_id = WR_MESSAGE,
						   .send_flags = IBV_SEND_SIGNALED,
						   .bind_info = good_bind(scene)};
		return;
	}
	message->bind_mw.mw = scene->window;
	message->bind_mw.rkey = ibv_inc_rkey(scene->window->rkey);
	message->bind_mw.bind_info = good_bind(scene);
}

/* A window of the side that is to lose it. */
static void prepare_invalidation(struct scene *scene, struct ibv_send_wr *message)
{
	struct side *side = &scene->side[scene->trial.operation == LOCAL_INV ? NEAR : FAR];
	bool can_bind = (scene->trial.service == RC || scene->trial.service == UC) && side->qp &&
			scene_state(side->qp) == IBV_QPS_RTS;

	message->invalidate_rkey = KEY_OF_NOTHING;
	if (!can_bind)
		return;
	scene->window = scene_bind(side->qp, side->cq, side->first, scene_address(side, FIRST_AREA),
				   64, IBV_ACCESS_REMOTE_READ);
	message->invalidate_rkey = scene->window->rkey;
}

static void write_message(struct scene *scene)
{
	const struct side *near = &scene->side[NEAR];
	enum operation operation = scene->trial.operation;
	struct ibv_send_wr *message = &scene->message;

	*message = (struct ibv_send_wr){
		.wr_id = WR_MESSAGE,
		.sg_list = scene->sges,
		.num_sge = BIT(operation) & (MOVERS | BIT(ATOMIC_WRITE)) ? 1 : 0,
		.opcode = opcode_of(operation),
		.send_flags = IBV_SEND_SIGNALED,
	};
	scene->sges[0] = (struct ibv_sge){scene_address(near, FIRST_AREA),
					  scene->plan.message_bytes, near->first->lkey};
	if (BIT(operation) & (BIT(SEND_IMM) | BIT(WRITE_IMM)))
		message->imm_data = htonl(IMM_MESSAGE);
	if (BIT(operation) & REMOTES)
		aim_at_target(scene, message);
	if (BIT(operation) & BINDS)
		prepare_bind(scene, message);
	if (operation == SEND_INV || operation == LOCAL_INV)
		prepare_invalidation(scene, message);
	/* UD has its own use of the place where WRITEs have their target. */
	if (scene->trial.service == XRC || BIT(operation) & SENDS)
		address_request(scene, message);
}

static void write_receives(struct scene *scene)
{
	const struct side *far = &scene->side[FAR];

	for (uint32_t i = 0; i < RECEIVES_MAX; i++)
		scene->receive_sges[i] = (struct ibv_sge){
			scene_address(far, SECOND_AREA + i * RECEIVE_STRIDE),
			i ? LONG_BYTES + GRH_BYTES : scene->plan.receive_bytes,
			far->second->lkey,
		};
	for (uint32_t i = 0; i < 3; i++)
		scene->receives[i] = (struct ibv_recv_wr){
			.wr_id = i, .sg_list = &scene->receive_sges[i], .num_sge = 1};
}

void scene_write_requests(struct scene *scene)
{
	write_others(scene);
	write_message(scene);
	write_receives(scene);
}

/* --- posting --- */

static int post_to_queue(struct scene *scene, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
	if (scene->srq && !scene->takes_other_queue)
		return ibv_post_srq_recv(scene->srq, list, bad);
	return ibv_post_recv(scene->side[FAR].qp, list, bad);
}

void scene_post_receives(struct scene *scene, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		struct ibv_recv_wr request = {.wr_id = i,
					      .sg_list = &scene->receive_sges[i % RECEIVES_MAX],
					      .num_sge = 1};
		struct ibv_recv_wr *bad;

		need_zero(post_to_queue(scene, &request, &bad), "posting a receive");
	}
}

static struct ibv_send_wr *list_of(struct scene *scene)
{
	scene->behind[0].next = &scene->behind[1];
	scene->message.next = &scene->behind[0];
	if (!scene->plan.is_refused || scene->plan.has_no_front)
		return &scene->message;
	scene->front.next = &scene->message;
	return &scene->front;
}

/* ibv_bind_mw() takes no list: what stands in front and behind is posted by itself. */
static int post_bind(struct scene *scene, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
	struct ibv_qp *qp = scene->side[NEAR].qp;
	int error;

	if (list == &scene->front) {
		scene->front.next = NULL;
		need_zero(ibv_post_send(qp, &scene->front, bad), "ibv_post_send");
	}
	*bad = &scene->message;
	error = ibv_bind_mw(qp, scene->window, &scene->bind);
	if (error)
		return error;
	return ibv_post_send(qp, &scene->behind[0], bad);
}

int scene_post(struct scene *scene, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *list = list_of(scene);

	if (scene->trial.operation == BIND_TYPE_1)
		return post_bind(scene, list, bad);
	return ibv_post_send(scene->side[NEAR].qp, list, bad);
}

int scene_post_recv(struct scene *scene, struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *list = scene->receives;

	if (scene->plan.has_no_front)
		list++;
	scene->receives[0].next = &scene->receives[1];
	scene->receives[1].next = &scene->receives[2];
	return post_to_queue(scene, list, bad);
}
