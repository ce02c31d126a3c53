/* SPDX-License-Identifier: BSD-2-Clause */
#include "errors/scene.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "errors/violations.h"
#include "tools/fail.h"

#define CQ_DEPTH 64
#define PORT_NUMBER 1

static uint8_t *arenas[2];

void scene_begin(void)
{
	for (int i = 0; i < 2; i++) {
		arenas[i] = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (arenas[i] == MAP_FAILED)
			fail_errno("mmap");
	}
}

bool scene_takes_receive(enum operation operation)
{
	return (SENDS | BIT(WRITE_IMM)) & BIT(operation);
}

uint64_t scene_address(const struct side *side, uint32_t offset)
{
	return (uintptr_t)side->arena + offset;
}

static struct plan good_plan(const struct trial *trial)
{
	const unsigned rights = NIC_ALL_RIGHTS | IBV_ACCESS_MW_BIND;
	uint32_t sized = trial->is_long ? LONG_BYTES : SHORT_BYTES;

	return (struct plan){
		.far_rights = NIC_ALL_RIGHTS,
		.region_rights = {rights, rights},
		.list_rights = IBV_ACCESS_LOCAL_WRITE,
		.near_state = IBV_QPS_RTS,
		.far_state = IBV_QPS_RTS,
		.far_mtu = IBV_MTU_1024,
		.read_depth = {4, 4},
		.rnr_retry = 7,
		.timeout = 14,
		.retry_count = 7,
		.receives = trial->operation == RECV ? 0 : RECEIVES_MAX,
		.receive_bytes = LONG_BYTES + GRH_BYTES,
		.message_bytes = BIT(trial->operation) & ATOMICS ? ATOMIC_BYTES : sized,
	};
}

/* --- objects --- */

static void open_side(struct scene *scene, enum side_index index)
{
	struct side *side = &scene->side[index];

	side->arena = arenas[index];
	/* No byte is what the same place of the other side has. */
	for (uint32_t i = 0; i < ARENA_BYTES; i++)
		side->arena[i] = (uint8_t)(i * 7 + i / 251 + (index == NEAR ? 1 : 0x81));
	side->pd = ibv_alloc_pd(scene->nic->context);
	need_object(side->pd, "ibv_alloc_pd");
	side->cq = ibv_create_cq(scene->nic->context, CQ_DEPTH, NULL, NULL, 0);
	need_object(side->cq, "ibv_create_cq");
	side->first = ibv_reg_mr(side->pd, side->arena + FIRST_AREA, FIRST_AREA_BYTES,
				 (int)scene->plan.region_rights[index]);
	need_object(side->first, "ibv_reg_mr");
	side->second = ibv_reg_mr(side->pd, side->arena + SECOND_AREA, SECOND_AREA_BYTES,
				  index == NEAR ? 0 : (int)scene->plan.list_rights);
	need_object(side->second, "ibv_reg_mr");
}

static struct ibv_xrcd *open_domain(const struct scene *scene)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(scene->nic->context, &attr);

	need_object(xrcd, "ibv_open_xrcd");
	return xrcd;
}

static struct ibv_srq *create_xrc_srq(const struct scene *scene, struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = SRQ_DEPTH, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = scene->side[FAR].pd,
		.xrcd = xrcd,
		.cq = scene->side[FAR].cq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(scene->nic->context, &attr);

	need_object(srq, "ibv_create_srq_ex");
	return srq;
}

static void create_queues(struct scene *scene)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = SRQ_DEPTH, .max_sge = 1}};

	if (scene->trial.service == XRC) {
		scene->xrcd = open_domain(scene);
		scene->other_xrcd = open_domain(scene);
		scene->srq = create_xrc_srq(scene, scene->xrcd);
		scene->other_srq = create_xrc_srq(scene, scene->other_xrcd);
	} else if (scene->trial.is_shared) {
		scene->srq = ibv_create_srq(scene->side[FAR].pd, &attr);
		need_object(scene->srq, "ibv_create_srq");
	}
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type,
				struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = type == IBV_QPT_XRC_SEND ? NULL : cq,
		.srq = srq,
		.cap = {.max_send_wr = SEND_DEPTH,
			.max_recv_wr = srq || type == IBV_QPT_XRC_SEND ? 0 : RECEIVE_DEPTH,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = SHORT_BYTES},
		.qp_type = type,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	need_object(qp, "ibv_create_qp");
	if (attr.cap.max_send_wr != SEND_DEPTH || attr.cap.max_send_sge != 2)
		give_up("a QP with other limits than asked for");
	return qp;
}

static struct ibv_qp *create_xrc_receiver(const struct scene *scene)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV,
					   .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					   .xrcd = scene->xrcd};
	struct ibv_qp *qp = ibv_create_qp_ex(scene->nic->context, &attr);

	need_object(qp, "ibv_create_qp_ex");
	return qp;
}

static void create_qps(struct scene *scene)
{
	static const enum ibv_qp_type types[] = {
		[RC] = IBV_QPT_RC, [UC] = IBV_QPT_UC, [UD] = IBV_QPT_UD, [XRC] = IBV_QPT_XRC_SEND};
	enum ibv_qp_type type = types[scene->trial.service];
	struct side *near = &scene->side[NEAR], *far = &scene->side[FAR];

	near->qp = create_qp(near->pd, near->cq, type, NULL);
	far->qp = scene->trial.service == XRC ? create_xrc_receiver(scene)
					      : create_qp(far->pd, far->cq, type, scene->srq);
	near->number = near->qp->qp_num;
	far->number = far->qp->qp_num;
}

static void create_ah(struct scene *scene)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = PORT_NUMBER,
		.grh = {.dgid = scene->nic->gid,
			.sgid_index = (uint8_t)scene->nic->gid_index,
			.hop_limit = 64},
	};

	scene->ah = ibv_create_ah(scene->side[NEAR].pd, &attr);
	need_object(scene->ah, "ibv_create_ah");
	scene->extra_ah = ibv_create_ah(scene->stranger, &attr);
	need_object(scene->extra_ah, "ibv_create_ah");
}

/* A QP of another program, so to speak, with windows of its own. */
static void create_third(struct scene *scene, struct ibv_pd *pd)
{
	enum ibv_qp_type type = scene->trial.service == UC ? IBV_QPT_UC : IBV_QPT_RC;

	scene->third_pd = pd;
	scene->third = create_qp(pd, scene->side[NEAR].cq, type, NULL);
	scene_connect_to_itself(scene->nic, scene->third);
}

void scene_open(struct scene *scene, const struct nic *nic, const struct trial *trial)
{
	memset(scene, 0, sizeof(*scene));
	scene->nic = nic;
	scene->trial = *trial;
	scene->plan = good_plan(trial);
	violation_plan(scene);
	scene->stranger = ibv_alloc_pd(nic->context);
	need_object(scene->stranger, "ibv_alloc_pd");
	open_side(scene, NEAR);
	open_side(scene, FAR);
	create_queues(scene);
	create_qps(scene);
	create_ah(scene);
	if (violation_needs_third(scene))
		create_third(scene, violation_third_pd(scene));
	scene_connect(scene);
}

/* --- the end --- */

static void close_windows(struct scene *scene)
{
	if (scene->window)
		need_zero(ibv_dealloc_mw(scene->window), "ibv_dealloc_mw");
	if (scene->granted)
		need_zero(ibv_dealloc_mw(scene->granted), "ibv_dealloc_mw");
}

static void close_queues(struct scene *scene)
{
	if (scene->side[FAR].qp)
		need_zero(ibv_destroy_qp(scene->side[FAR].qp), "ibv_destroy_qp");
	need_zero(ibv_destroy_qp(scene->side[NEAR].qp), "ibv_destroy_qp");
	if (scene->third)
		need_zero(ibv_destroy_qp(scene->third), "ibv_destroy_qp");
	if (scene->srq)
		need_zero(ibv_destroy_srq(scene->srq), "ibv_destroy_srq");
	if (scene->other_srq)
		need_zero(ibv_destroy_srq(scene->other_srq), "ibv_destroy_srq");
	if (scene->xrcd) {
		need_zero(ibv_close_xrcd(scene->xrcd), "ibv_close_xrcd");
		need_zero(ibv_close_xrcd(scene->other_xrcd), "ibv_close_xrcd");
	}
}

static void close_side(struct side *side)
{
	if (side->first)
		need_zero(ibv_dereg_mr(side->first), "ibv_dereg_mr");
	if (side->second)
		need_zero(ibv_dereg_mr(side->second), "ibv_dereg_mr");
	need_zero(ibv_destroy_cq(side->cq), "ibv_destroy_cq");
	need_zero(ibv_dealloc_pd(side->pd), "ibv_dealloc_pd");
}

void scene_close(struct scene *scene)
{
	close_queues(scene);
	close_windows(scene);
	for (unsigned i = 0; i < scene->extra_count; i++)
		need_zero(ibv_dereg_mr(scene->extra_regions[i]), "ibv_dereg_mr");
	need_zero(ibv_destroy_ah(scene->ah), "ibv_destroy_ah");
	need_zero(ibv_destroy_ah(scene->extra_ah), "ibv_destroy_ah");
	close_side(&scene->side[NEAR]);
	close_side(&scene->side[FAR]);
	need_zero(ibv_dealloc_pd(scene->stranger), "ibv_dealloc_pd");
}

/* --- states --- */

void scene_move(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	need_zero(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "ibv_modify_qp");
}

enum ibv_qp_state scene_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	need_zero(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	return attr.qp_state;
}
