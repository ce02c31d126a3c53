/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: making them, connecting them rightly, and changing them wrongly. */
#include <errno.h>
#include <string.h>

#include "fuzz/api_world.h"

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
	 IBV_QP_MAX_QP_RD_ATOMIC)

/* --- life --- */

static uint32_t draw_depth(struct world *world)
{
	return draw_rarely(world, 10) ? draw(world, 4) : 16 + draw(world, 112);
}

static struct ibv_qp_init_attr draw_attr(struct world *world, const struct api_cq *send_cq,
					 const struct api_cq *recv_cq)
{
	return (struct ibv_qp_init_attr){
		.send_cq = send_cq->ibv,
		.recv_cq = recv_cq->ibv,
		.cap = {.max_send_wr = draw_depth(world),
			.max_recv_wr = draw_depth(world),
			.max_send_sge = 1 + draw(world, SGE_MAX),
			.max_recv_sge = 1 + draw(world, SGE_MAX),
			.max_inline_data = draw(world, 257)},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = (int)draw(world, 2),
	};
}

/* Makes it wrong in one way or leaves it; what creating must answer. */
static int spoil(struct world *world, struct ibv_qp_init_attr *attr)
{
	switch (draw(world, 25)) {
	case 0:
		attr->cap.max_send_wr = 32769;
		return EINVAL;
	case 1:
		attr->cap.max_recv_sge = UINT32_MAX;
		return EINVAL;
	case 2:
		attr->cap.max_inline_data = 1025;
		return EINVAL;
	case 3:
		attr->qp_type = IBV_QPT_RAW_PACKET;
		return EOPNOTSUPP;
	case 4:
		attr->recv_cq = NULL;
		return EINVAL;
	case 5:
		attr->send_cq = NULL;
		return EINVAL;
	default:
		return 0;
	}
}

void queue_forget(struct api_queue *queue)
{
	queue->done = queue->posted;
	queue->has_failed = false;
}

void destroy_qp(struct world *world, struct api_qp *qp)
{
	world_expect(world, ibv_destroy_qp(qp->ibv), 0);
	qp->send_cq->users--;
	qp->recv_cq->users--;
	qp->pd->users--;
	qp->ibv = NULL;
}

static void make_known(struct world *world, struct api_qp *qp, const struct ibv_qp_cap *granted,
		       bool signals_all)
{
	qp->state = IBV_QPS_RESET;
	qp->inline_max = granted->max_inline_data;
	qp->signals_all = signals_all;
	queue_forget(&qp->sends);
	queue_forget(&qp->receives);
	qp->sends.depth = granted->max_send_wr;
	qp->sends.sge_max = granted->max_send_sge;
	qp->receives.depth = granted->max_recv_wr;
	qp->receives.sge_max = granted->max_recv_sge;
	qp->send_cq->users++;
	qp->recv_cq->users++;
	qp->pd->users++;
	shared_numbers[draw(world, SHARED_NUMBERS)] = qp->ibv->qp_num;
}

static void create(struct world *world, struct api_qp *qp)
{
	struct ibv_qp_init_attr attr, asked;
	int wanted;

	qp->pd = draw_pd(world);
	qp->send_cq = &world->cqs[draw(world, CQS)];
	qp->recv_cq = &world->cqs[draw(world, CQS)];
	if (!qp->pd->ibv || !qp->send_cq->ibv || !qp->recv_cq->ibv)
		return;
	attr = draw_attr(world, qp->send_cq, qp->recv_cq);
	wanted = spoil(world, &attr);
	if (!wanted && (qp->pd->ibv->context != qp->send_cq->ibv->context ||
			qp->pd->ibv->context != qp->recv_cq->ibv->context))
		wanted = EINVAL;
	asked = attr;
	qp->ibv = ibv_create_qp(qp->pd->ibv, &attr);
	world_expect(world, qp->ibv ? 0 : errno, wanted);
	if (!qp->ibv)
		return;
	CLAIM(world, attr.cap.max_send_wr >= asked.cap.max_send_wr);
	CLAIM(world, attr.cap.max_recv_wr >= asked.cap.max_recv_wr);
	make_known(world, qp, &attr.cap, asked.sq_sig_all);
}

void step_qp(struct world *world)
{
	struct api_qp *qp = &world->qps[draw(world, QPS)];

	if (!qp->ibv)
		create(world, qp);
	else if (draw_rarely(world, 10))
		destroy_qp(world, qp);
}

/* --- states --- */

static enum ibv_qp_state state_of(struct world *world, struct api_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	world_expect(world, ibv_query_qp(qp->ibv, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* An error moves a QP on by itself, but only from where it can meet one. */
static void check_state(struct world *world, struct api_qp *qp, enum ibv_qp_state now)
{
	bool may_fail = qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
			qp->state == IBV_QPS_SQD;

	CLAIM(world, now == qp->state || (now == IBV_QPS_ERR && may_fail));
	qp->state = now;
}

static void moved(struct api_qp *qp, enum ibv_qp_state state)
{
	qp->state = state;
	if (state != IBV_QPS_RESET)
		return;
	queue_forget(&qp->sends);
	queue_forget(&qp->receives);
}

void refresh_state(struct world *world, struct api_qp *qp)
{
	check_state(world, qp, state_of(world, qp));
}

static uint32_t draw_peer(struct world *world)
{
	const struct api_qp *peer = &world->qps[draw(world, QPS)];

	if (peer->ibv && draw(world, 4))
		return peer->ibv->qp_num;
	return shared_numbers[draw(world, SHARED_NUMBERS)] & 0xffffff;
}

static struct ibv_qp_attr right_attr(struct world *world, struct api_qp *qp)
{
	struct ibv_qp_attr attr = {
		.port_num = 1,
		.qp_access_flags = draw(world, 4) ? 15u : draw(world, 16),
		.path_mtu = (enum ibv_mtu)(IBV_MTU_256 + draw(world, 3)),
		.dest_qp_num = draw_peer(world),
		.rq_psn = 100,
		.sq_psn = 100,
		.max_dest_rd_atomic = (uint8_t)(draw(world, 17)),
		.max_rd_atomic = (uint8_t)(draw(world, 17)),
		.min_rnr_timer = 1,
		.timeout = 1,
		.retry_cnt = (uint8_t)draw(world, 3),
		.rnr_retry = (uint8_t)(7 - draw(world, 30) % 8),
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
	};

	world_expect(world, ibv_query_gid(qp->ibv->context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	return attr;
}

/* The next state on the way to RTS, and the mask that it takes; false: it is there. */
static bool next_move(enum ibv_qp_state state, enum ibv_qp_state *to, int *mask)
{
	switch (state) {
	case IBV_QPS_RESET:
		*to = IBV_QPS_INIT;
		*mask = INIT_MASK;
		return true;
	case IBV_QPS_INIT:
		*to = IBV_QPS_RTR;
		*mask = RTR_MASK;
		return true;
	case IBV_QPS_RTR:
		*to = IBV_QPS_RTS;
		*mask = RTS_MASK;
		return true;
	case IBV_QPS_ERR:
		*to = IBV_QPS_RESET;
		*mask = IBV_QP_STATE;
		return true;
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
	case IBV_QPS_UNKNOWN:
		return false;
	}
	return false;
}

/*
 * Brings @qp to RTS; false when it stopped on the way. Each step may find that the QP has
 * failed meanwhile.
 */
static bool bring_up(struct world *world, struct api_qp *qp, struct ibv_qp_attr *attr)
{
	int mask, error;

	refresh_state(world, qp);
	while (next_move(qp->state, &attr->qp_state, &mask)) {
		error = ibv_modify_qp(qp->ibv, attr, mask);
		if (error) {
			world_expect(world, error, EINVAL);
			refresh_state(world, qp);
			CLAIM(world, qp->state == IBV_QPS_ERR);
			return false;
		}
		moved(qp, attr->qp_state);
		if (draw_rarely(world, 40))
			return false;
	}
	return true;
}

/* Starts both ends anew, so that they fit to each other. */
static void connect_pair(struct world *world, struct api_qp *qp, struct api_qp *peer)
{
	struct ibv_qp_attr attr = right_attr(world, qp), reset = {.qp_state = IBV_QPS_RESET};

	world_expect(world, ibv_modify_qp(qp->ibv, &reset, IBV_QP_STATE), 0);
	moved(qp, IBV_QPS_RESET);
	world_expect(world, ibv_modify_qp(peer->ibv, &reset, IBV_QP_STATE), 0);
	moved(peer, IBV_QPS_RESET);
	attr.max_dest_rd_atomic = attr.max_rd_atomic;
	attr.dest_qp_num = peer->ibv->qp_num;
	if (!bring_up(world, qp, &attr))
		return;
	attr.dest_qp_num = qp->ibv->qp_num;
	bring_up(world, peer, &attr);
}

void step_connect(struct world *world)
{
	struct api_qp *qp = &world->qps[draw(world, QPS)], *peer = &world->qps[draw(world, QPS)];
	struct ibv_qp_attr attr;

	if (!qp->ibv)
		return;
	if (draw(world, 8)) {
		/* What works is left to work, and its peer is not taken away. */
		if (qp->state == IBV_QPS_RTS && draw(world, 20))
			return;
		if (!peer->ibv || (peer->state == IBV_QPS_RTS && draw(world, 20)))
			peer = qp;
		connect_pair(world, qp, peer);
		return;
	}
	attr = right_attr(world, qp);
	bring_up(world, qp, &attr);
}

/* A move without one of its required attributes, or with one that it does not take. */
static void modify_wrongly(struct world *world, struct api_qp *qp)
{
	static const int never[] = {IBV_QP_QKEY, IBV_QP_CAP, IBV_QP_ALT_PATH};
	struct ibv_qp_attr attr = right_attr(world, qp);
	int mask, bit;

	refresh_state(world, qp);
	if (!next_move(qp->state, &attr.qp_state, &mask))
		return;
	if (mask != IBV_QP_STATE && draw(world, 2)) {
		do
			bit = 1 << draw(world, 22);
		while (!(mask & bit) || bit == IBV_QP_STATE);
		mask &= ~bit;
	} else {
		mask |= never[draw(world, 3)];
	}
	world_expect(world, ibv_modify_qp(qp->ibv, &attr, mask), EINVAL);
}

/* Anything at all: it may be right by chance, and the QP is where it says then. */
static void modify_anyhow(struct world *world, struct api_qp *qp)
{
	struct ibv_qp_attr attr = right_attr(world, qp);
	int mask = (int)(random_next(&world->random) & random_next(&world->random) & 0x3ffffff);
	int error;

	attr.qp_state = (enum ibv_qp_state)draw(world, 8);
	if (draw_rarely(world, 4))
		memset(&attr.ah_attr, (int)draw(world, 256), sizeof(attr.ah_attr));
	refresh_state(world, qp);
	error = ibv_modify_qp(qp->ibv, &attr, mask);
	if (!error && mask & IBV_QP_STATE)
		moved(qp, attr.qp_state);
	else if (error)
		CLAIM(world, error == EINVAL || error == ENETUNREACH || error == EHOSTUNREACH ||
				     error == EOPNOTSUPP);
	refresh_state(world, qp);
}

void step_modify(struct world *world)
{
	struct api_qp *qp = &world->qps[draw(world, QPS)];
	struct ibv_qp_attr attr = {0};

	if (!qp->ibv)
		return;
	switch (draw(world, 6)) {
	case 0:
		attr.qp_state = draw(world, 2) ? IBV_QPS_RESET : IBV_QPS_ERR;
		world_expect(world, ibv_modify_qp(qp->ibv, &attr, IBV_QP_STATE), 0);
		moved(qp, attr.qp_state);
		break;
	case 1:
	case 2:
		modify_wrongly(world, qp);
		break;
	default:
		modify_anyhow(world, qp);
		break;
	}
}

void step_query_qp(struct world *world)
{
	struct api_qp *qp = &world->qps[draw(world, QPS)];
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!qp->ibv)
		return;
	world_expect(world, ibv_query_qp(qp->ibv, &attr, 0x1fffff, &init), 0);
	check_state(world, qp, attr.qp_state);
	CLAIM(world, attr.cap.max_send_wr == qp->sends.depth);
	CLAIM(world, init.send_cq == qp->send_cq->ibv && init.recv_cq == qp->recv_cq->ibv);
}
