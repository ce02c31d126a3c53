/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: making them, connecting them rightly, and changing them wrongly. */
#include <errno.h>
#include <string.h>

#include "fuzz/api_world.h"
#include "sim/qp_types.h"

/* --- life --- */

static uint32_t draw_depth(struct world *world)
{
	return draw_rarely(world, 10) ? draw(world, 4) : 16 + draw(world, 112);
}

static enum ibv_qp_type draw_type(struct world *world)
{
	static const enum ibv_qp_type types[] = {
		IBV_QPT_RC,	  IBV_QPT_RC,	    IBV_QPT_RC,	      IBV_QPT_RC,
		IBV_QPT_UC,	  IBV_QPT_UC,	    IBV_QPT_UD,	      IBV_QPT_UD,
		IBV_QPT_XRC_SEND, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_XRC_RECV};

	return types[draw(world, 12)];
}

static bool is_xrc(enum ibv_qp_type type)
{
	return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

static struct ibv_qp_init_attr draw_attr(struct world *world, const struct api_qp *qp)
{
	return (struct ibv_qp_init_attr){
		.send_cq = qp->send_cq ? qp->send_cq->ibv : NULL,
		.recv_cq = qp->recv_cq ? qp->recv_cq->ibv : NULL,
		.srq = qp->srq ? qp->srq->ibv : NULL,
		.cap = {.max_send_wr = draw_depth(world),
			.max_recv_wr = draw_depth(world),
			.max_send_sge = 1 + draw(world, SGE_MAX),
			.max_recv_sge = 1 + draw(world, SGE_MAX),
			.max_inline_data = draw(world, 257)},
		.qp_type = qp->type,
		.sq_sig_all = (int)draw(world, 2),
	};
}

/* Makes it wrong in one way or leaves it; what creating must answer. */
static int spoil(struct world *world, struct ibv_qp_init_attr *attr)
{
	enum ibv_qp_type type = attr->qp_type;

	/* It is made of a domain, and what else is said is not looked at. */
	if (type == IBV_QPT_XRC_RECV)
		return 0;
	switch (draw(world, 25)) {
	case 0:
		attr->cap.max_send_wr = 32769;
		return EINVAL;
	case 1:
		attr->cap.max_recv_sge = UINT32_MAX;
		return is_xrc(type) || attr->srq ? 0 : EINVAL;
	case 2:
		attr->cap.max_inline_data = 1025;
		return EINVAL;
	case 3:
		attr->qp_type = IBV_QPT_RAW_PACKET;
		return EOPNOTSUPP;
	case 4:
		attr->recv_cq = NULL;
		return type == IBV_QPT_XRC_SEND ? 0 : EINVAL;
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
	memset(queue->starts_anew, 0, sizeof(queue->starts_anew));
}

static void count_users(struct api_qp *qp, int change)
{
	if (qp->send_cq)
		qp->send_cq->users += change;
	if (qp->recv_cq)
		qp->recv_cq->users += change;
	if (qp->pd)
		qp->pd->users += change;
	if (qp->srq)
		qp->srq->users += change;
	if (qp->xrcd)
		qp->xrcd->users += change;
}

void destroy_qp(struct world *world, struct api_qp *qp)
{
	if (qp->groups) {
		world_expect(world, ibv_destroy_qp(qp->ibv), EBUSY);
		detach_all(world, qp);
	}
	world_expect(world, ibv_destroy_qp(qp->ibv), 0);
	srq_may_lose(world, qp);
	count_users(qp, -1);
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
	qp->groups = 0;
	count_users(qp, 1);
	shared_numbers[draw(world, SHARED_NUMBERS)] = qp->ibv->qp_num;
}

/* What it is made of, by its type. False: some of it does not exist. */
static bool draw_parts(struct world *world, struct api_qp *qp)
{
	bool receives = qp->type == IBV_QPT_XRC_RECV;

	qp->pd = receives ? NULL : draw_pd(world);
	qp->xrcd = receives ? draw_xrcd(world) : NULL;
	qp->send_cq = receives ? NULL : &world->cqs[draw(world, CQS)];
	qp->recv_cq = is_xrc(qp->type) ? NULL : &world->cqs[draw(world, CQS)];
	qp->srq = is_xrc(qp->type) || draw(world, 4) ? NULL : &world->srqs[draw(world, SRQS)];
	return (!qp->pd || qp->pd->ibv) && (!qp->xrcd || qp->xrcd->ibv) &&
	       (!qp->send_cq || qp->send_cq->ibv) && (!qp->recv_cq || qp->recv_cq->ibv) &&
	       (!qp->srq || qp->srq->ibv);
}

static bool is_of(const struct ibv_context *context, const struct api_qp *qp,
		  const struct ibv_qp_init_attr *attr)
{
	return (!attr->send_cq || attr->send_cq->context == context) &&
	       (!attr->recv_cq || attr->recv_cq->context == context) &&
	       (!qp->srq || qp->srq->ibv->context == context);
}

static struct ibv_qp *create_receiver(struct api_qp *qp, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex extended = {.comp_mask = IBV_QP_INIT_ATTR_XRCD,
					       .xrcd = qp->xrcd->ibv};
	struct ibv_qp *created;

	memcpy(&extended, attr, sizeof(*attr));
	extended.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	created = ibv_create_qp_ex(qp->xrcd->ibv->context, &extended);
	attr->cap = extended.cap;
	return created;
}

static void create(struct world *world, struct api_qp *qp)
{
	struct ibv_qp_init_attr attr, asked;
	bool has_ring;
	int wanted;

	qp->type = draw_type(world);
	if (!draw_parts(world, qp))
		return;
	attr = draw_attr(world, qp);
	wanted = spoil(world, &attr);
	if (!wanted && !is_of(qp->pd ? qp->pd->ibv->context : qp->xrcd->ibv->context, qp, &attr))
		wanted = EINVAL;
	/* An SRQ of an XRC domain is for XRC_RECV QPs. */
	if (!wanted && qp->srq && qp->srq->xrcd)
		wanted = EINVAL;
	asked = attr;
	qp->ibv = qp->xrcd ? create_receiver(qp, &attr) : ibv_create_qp(qp->pd->ibv, &attr);
	world_expect(world, qp->ibv ? 0 : errno, wanted);
	if (!qp->ibv)
		return;
	has_ring = !qp->srq && !is_xrc(qp->type);
	CLAIM(world, attr.cap.max_send_wr >= asked.cap.max_send_wr || qp->xrcd);
	CLAIM(world, attr.cap.max_recv_wr >= asked.cap.max_recv_wr || !has_ring);
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
			qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE;
	bool may_stop = (qp->type == IBV_QPT_UC || qp->type == IBV_QPT_UD) &&
			(qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD);

	CLAIM(world, now == qp->state || (now == IBV_QPS_ERR && may_fail) ||
			     (now == IBV_QPS_SQE && may_stop));
	qp->state = now;
}

void moved(struct api_qp *qp, enum ibv_qp_state state)
{
	qp->state = state;
	/* It may have been in SQE. What is posted now is not flushed for what has failed before. */
	if (state == IBV_QPS_RTS && (qp->type == IBV_QPT_UC || qp->type == IBV_QPT_UD))
		qp->sends.starts_anew[qp->sends.posted % REQUESTS] = true;
	if (state != IBV_QPS_RESET)
		return;
	queue_forget(&qp->sends);
	queue_forget(&qp->receives);
}

/* To RESET or ERR, which always works. */
static void force(struct world *world, struct api_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	world_expect(world, ibv_modify_qp(qp->ibv, &attr, IBV_QP_STATE), 0);
	moved(qp, state);
	if (state == IBV_QPS_RESET)
		srq_may_lose(world, qp);
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
		.qkey = UD_QKEY,
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
static bool next_move(const struct api_qp *qp, enum ibv_qp_state *to, int *mask)
{
	switch (qp->state) {
	case IBV_QPS_RESET:
		*to = IBV_QPS_INIT;
		*mask = qp_moves_to_init(qp->type);
		return true;
	case IBV_QPS_INIT:
		*to = IBV_QPS_RTR;
		*mask = qp_moves_to_rtr(qp->type);
		return true;
	case IBV_QPS_RTR:
		*to = IBV_QPS_RTS;
		*mask = qp_moves_to_rts(qp->type);
		return true;
	case IBV_QPS_ERR:
		*to = IBV_QPS_RESET;
		*mask = IBV_QP_STATE;
		return true;
	case IBV_QPS_SQE:
		*to = IBV_QPS_RTS;
		*mask = IBV_QP_STATE;
		return true;
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
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
	while (next_move(qp, &attr->qp_state, &mask)) {
		error = ibv_modify_qp(qp->ibv, attr, mask);
		if (error) {
			world_expect(world, error, EINVAL);
			refresh_state(world, qp);
			CLAIM(world, qp->state == IBV_QPS_ERR);
			return false;
		}
		moved(qp, attr->qp_state);
		if (attr->qp_state == IBV_QPS_RESET)
			srq_may_lose(world, qp);
		if (draw_rarely(world, 40))
			return false;
	}
	return true;
}

/* Starts both ends anew, so that they fit to each other. */
static void connect_pair(struct world *world, struct api_qp *qp, struct api_qp *peer)
{
	struct ibv_qp_attr attr = right_attr(world, qp);

	force(world, qp, IBV_QPS_RESET);
	force(world, peer, IBV_QPS_RESET);
	attr.max_dest_rd_atomic = attr.max_rd_atomic;
	attr.dest_qp_num = peer->ibv->qp_num;
	if (!bring_up(world, qp, &attr))
		return;
	attr.dest_qp_num = qp->ibv->qp_num;
	bring_up(world, peer, &attr);
}

static enum ibv_qp_type type_of_peer(enum ibv_qp_type type)
{
	if (type == IBV_QPT_XRC_SEND)
		return IBV_QPT_XRC_RECV;
	return type == IBV_QPT_XRC_RECV ? IBV_QPT_XRC_SEND : type;
}

/* The drawn one, or the next that fits; @qp itself if there is none. */
static struct api_qp *draw_fitting(struct world *world, struct api_qp *qp)
{
	uint32_t first = draw(world, QPS);

	for (uint32_t i = 0; i < QPS; i++) {
		struct api_qp *peer = &world->qps[(first + i) % QPS];

		if (peer->ibv && peer->type == type_of_peer(qp->type))
			return peer;
	}
	return qp;
}

void step_connect(struct world *world)
{
	struct api_qp *qp = &world->qps[draw(world, QPS)], *peer;
	struct ibv_qp_attr attr;

	if (!qp->ibv)
		return;
	peer = draw_fitting(world, qp);
	if (draw(world, 8)) {
		/* What works is left to work, and its peer is not taken away. */
		if (qp->state == IBV_QPS_RTS && draw(world, 20))
			return;
		if (peer->state == IBV_QPS_RTS && draw(world, 20))
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
	/* The first is UD's alone, or for UD never. */
	const int never[] = {qp->type == IBV_QPT_UD ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY, IBV_QP_CAP,
			     IBV_QP_ALT_PATH};
	struct ibv_qp_attr attr = right_attr(world, qp);
	int mask, bit;

	refresh_state(world, qp);
	if (!next_move(qp, &attr.qp_state, &mask))
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
	if (!error && mask & IBV_QP_STATE && attr.qp_state == IBV_QPS_RESET)
		srq_may_lose(world, qp);
	if (error)
		CLAIM(world, error == EINVAL || error == ENETUNREACH || error == EHOSTUNREACH ||
				     error == EOPNOTSUPP);
	refresh_state(world, qp);
}

void step_modify(struct world *world)
{
	struct api_qp *qp = &world->qps[draw(world, QPS)];

	if (!qp->ibv)
		return;
	switch (draw(world, 6)) {
	case 0:
		force(world, qp, draw(world, 2) ? IBV_QPS_RESET : IBV_QPS_ERR);
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
	CLAIM(world, init.qp_type == qp->type);
	CLAIM(world, init.send_cq == (qp->send_cq ? qp->send_cq->ibv : NULL));
	CLAIM(world, init.recv_cq == (qp->recv_cq ? qp->recv_cq->ibv : NULL) ||
			     qp->type == IBV_QPT_XRC_SEND);
	CLAIM(world, init.srq == (qp->srq ? qp->srq->ibv : NULL));
}
