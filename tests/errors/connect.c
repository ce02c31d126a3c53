/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs of each service, brought to the state that the plan names. */
#include <stdlib.h>

#include "errors/scene.h"
#include "tools/fail.h"

#define PORT_NUMBER 1

#define RNR_TIMER 1 /* 10 us */

struct end {
	const struct nic *nic;
	struct ibv_qp *qp;
	enum ibv_qp_type type;
	unsigned rights;
	uint32_t psn, peer_psn, peer;
	enum ibv_mtu mtu;
	uint8_t reads, answers, timeout, retry_count, rnr_retry;
};

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	need_zero(ibv_modify_qp(qp, attr, mask | IBV_QP_STATE), "ibv_modify_qp");
}

static void to_init(const struct end *end)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = PORT_NUMBER,
				   .qp_access_flags = end->rights,
				   .qkey = QKEY};

	modify(end->qp, &attr,
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (end->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static bool answers(const struct end *end)
{
	return end->type == IBV_QPT_RC || end->type == IBV_QPT_XRC_RECV;
}

static void to_rtr(const struct end *end)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = end->mtu,
		.dest_qp_num = end->peer,
		.rq_psn = end->peer_psn,
		.max_dest_rd_atomic = end->answers,
		.min_rnr_timer = RNR_TIMER,
		.ah_attr = {.is_global = 1,
			    .port_num = PORT_NUMBER,
			    .grh = {.dgid = end->nic->gid,
				    .sgid_index = (uint8_t)end->nic->gid_index,
				    .hop_limit = 64}},
	};
	int mask = 0;

	if (end->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (answers(end))
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	modify(end->qp, &attr, mask);
}

static void to_rts(const struct end *end)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = end->timeout,
		.retry_cnt = end->retry_count,
		.rnr_retry = end->rnr_retry,
		.sq_psn = end->psn,
		.max_rd_atomic = end->reads,
	};
	int mask = IBV_QP_SQ_PSN;

	if (end->type == IBV_QPT_RC || end->type == IBV_QPT_XRC_SEND)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	if (end->type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_TIMEOUT;
	modify(end->qp, &attr, mask);
}

/* ERR is reached from RTS, SQE not at all by modifying: its violation sees to it. */
static void bring(const struct end *end, enum ibv_qp_state state)
{
	if (state == IBV_QPS_RESET)
		return;
	to_init(end);
	if (state == IBV_QPS_INIT)
		return;
	to_rtr(end);
	if (state == IBV_QPS_RTR)
		return;
	to_rts(end);
	if (state == IBV_QPS_ERR)
		scene_move(end->qp, IBV_QPS_ERR);
}

void scene_connect(struct scene *scene)
{
	struct side *near = &scene->side[NEAR], *far = &scene->side[FAR];
	struct end end = {
		.nic = scene->nic,
		.qp = near->qp,
		.type = near->qp->qp_type,
		.psn = (uint32_t)random() & 0xffffff,
		.peer_psn = (uint32_t)random() & 0xffffff,
		.peer = far->qp->qp_num,
		.mtu = IBV_MTU_1024,
		.reads = scene->plan.read_depth[NEAR],
		.timeout = scene->plan.timeout,
		.retry_count = scene->plan.retry_count,
		.rnr_retry = scene->plan.rnr_retry,
	};

	near->psn = end.psn;
	far->psn = end.peer_psn;
	bring(&end, scene->plan.near_state);
	end = (struct end){
		.nic = scene->nic,
		.qp = far->qp,
		.type = far->qp->qp_type,
		.rights = scene->plan.far_rights,
		.psn = far->psn,
		.peer_psn = near->psn,
		.peer = near->qp->qp_num,
		.mtu = scene->plan.far_mtu,
		.answers = scene->plan.read_depth[FAR],
	};
	bring(&end, scene->plan.far_state);
	if (scene->plan.far_is_gone) {
		need_zero(ibv_destroy_qp(far->qp), "ibv_destroy_qp");
		far->qp = NULL;
	}
}

void scene_connect_to_itself(const struct nic *nic, struct ibv_qp *qp)
{
	const struct end end = {
		.nic = nic,
		.qp = qp,
		.type = qp->qp_type,
		.rights = NIC_ALL_RIGHTS,
		.peer = qp->qp_num,
		.mtu = IBV_MTU_1024,
		.timeout = 14,
		.retry_count = 7,
		.rnr_retry = 7,
	};

	bring(&end, IBV_QPS_RTS);
}
