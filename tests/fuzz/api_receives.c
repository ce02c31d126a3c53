/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receives that several QPs share: basic SRQs, and XRC domains with theirs. Which QP takes what
 * is not known, nor what one that is reset takes along, so that a full queue is known by an upper
 * bound only.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fuzz/api_world.h"

#define DEPTH_MAX 128

/* --- XRC domains --- */

/* Mostly the same one, so that SRQs and QPs meet. */
struct api_xrcd *draw_xrcd(struct world *world)
{
	return &world->xrcds[draw(world, 5) ? 0 : draw(world, XRCDS)];
}

void destroy_xrcd(struct world *world, struct api_xrcd *xrcd)
{
	int error = ibv_close_xrcd(xrcd->ibv);

	world_expect(world, error, xrcd->users ? EBUSY : 0);
	if (!error)
		xrcd->ibv = NULL;
}

void step_xrcd(struct world *world)
{
	struct api_xrcd *xrcd = &world->xrcds[draw(world, XRCDS)];
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
						       IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	bool is_right = draw(world, 4);

	if (xrcd->ibv) {
		if (xrcd->users || draw_rarely(world, 10))
			destroy_xrcd(world, xrcd);
		return;
	}
	if (!is_right && draw(world, 2))
		attr.oflags = draw(world, 2) ? 0 : O_CREAT | O_RDWR;
	else if (!is_right)
		attr.comp_mask ^= 1u << draw(world, 3);
	xrcd->ibv = ibv_open_xrcd(world->contexts[0], &attr);
	world_expect(world, xrcd->ibv ? 0 : errno, is_right ? 0 : EINVAL);
	xrcd->users = 0;
}

/* --- SRQs --- */

static bool may_be_in_use(const struct world *world, const struct api_srq *srq)
{
	for (int i = 0; i < QPS; i++)
		if (world->qps[i].ibv && srq->xrcd && world->qps[i].xrcd == srq->xrcd)
			return true;
	return false;
}

static void count_users(struct api_srq *srq, int change)
{
	srq->pd->users += change;
	if (srq->xrcd)
		srq->xrcd->users += change;
	if (srq->xrcd)
		srq->cq->users += change;
}

void destroy_srq(struct world *world, struct api_srq *srq)
{
	int error = ibv_destroy_srq(srq->ibv);

	/* In the middle of a message to it an XRC SRQ stays. */
	if (error != EBUSY || !may_be_in_use(world, srq))
		world_expect(world, error, srq->users ? EBUSY : 0);
	if (error)
		return;
	count_users(srq, -1);
	srq->ibv = NULL;
}

static struct ibv_srq *create(struct api_srq *srq, const struct ibv_srq_attr *attr)
{
	struct ibv_srq_init_attr basic = {.attr = *attr};
	struct ibv_srq_init_attr_ex extended = {
		.attr = *attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = srq->pd->ibv,
		.xrcd = srq->xrcd ? srq->xrcd->ibv : NULL,
		.cq = srq->cq ? srq->cq->ibv : NULL,
	};

	if (!srq->xrcd)
		return ibv_create_srq(srq->pd->ibv, &basic);
	return ibv_create_srq_ex(srq->pd->ibv->context, &extended);
}

static bool draw_parts(struct world *world, struct api_srq *srq)
{
	bool is_xrc = draw(world, 2);

	srq->pd = draw_pd(world);
	srq->xrcd = is_xrc ? draw_xrcd(world) : NULL;
	srq->cq = is_xrc ? &world->cqs[draw(world, CQS)] : NULL;
	return srq->pd->ibv && (!is_xrc || (srq->xrcd->ibv && srq->cq->ibv));
}

/* What making it must answer. */
static int draw_attr(struct world *world, const struct api_srq *srq, struct ibv_srq_attr *attr)
{
	bool is_foreign = srq->xrcd && (srq->xrcd->ibv->context != srq->pd->ibv->context ||
					srq->cq->ibv->context != srq->pd->ibv->context);

	*attr = (struct ibv_srq_attr){.max_wr = 1 + draw(world, DEPTH_MAX),
				      .max_sge = 1 + draw(world, SGE_MAX)};
	if (draw_rarely(world, 12)) {
		attr->max_wr = draw(world, 2) ? 0 : UINT32_MAX;
		return EINVAL;
	}
	return is_foreign ? EINVAL : 0;
}

void step_srq(struct world *world)
{
	struct api_srq *srq = &world->srqs[draw(world, SRQS)];
	struct ibv_srq_attr attr;
	int wanted;

	if (srq->ibv) {
		if (draw_rarely(world, 10))
			destroy_srq(world, srq);
		return;
	}
	if (!draw_parts(world, srq))
		return;
	wanted = draw_attr(world, srq, &attr);
	srq->ibv = create(srq, &attr);
	world_expect(world, srq->ibv ? 0 : errno, wanted);
	if (!srq->ibv)
		return;
	srq->users = 0;
	srq->queue.done = srq->queue.posted;
	srq->queue.depth = attr.max_wr;
	srq->queue.sge_max = attr.max_sge;
	srq->outstanding = 0;
	srq->may_have_lost = false;
	count_users(srq, 1);
}

static bool is_in_range(const struct ibv_srq_attr *attr, int mask)
{
	return !(mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) &&
	       (!(mask & IBV_SRQ_MAX_WR) || (attr->max_wr && attr->max_wr <= DEPTH_MAX));
}

void step_modify_srq(struct world *world)
{
	struct api_srq *srq = &world->srqs[draw(world, SRQS)];
	struct ibv_srq_attr attr = {.max_wr = draw(world, DEPTH_MAX + 1),
				    .srq_limit = draw(world, DEPTH_MAX)};
	int mask = (int)draw(world, draw_rarely(world, 5) ? 8 : 4), error;

	if (!srq->ibv)
		return;
	error = ibv_modify_srq(srq->ibv, &attr, mask);
	/* A limit that is armed, and what is posted, may be in the way of a smaller queue. */
	if (!is_in_range(&attr, mask) ||
	    (mask & IBV_SRQ_LIMIT &&
	     attr.srq_limit > (mask & IBV_SRQ_MAX_WR ? attr.max_wr : srq->queue.depth)))
		world_expect(world, error, EINVAL);
	else if (!(mask & IBV_SRQ_MAX_WR) || attr.max_wr >= srq->queue.depth)
		world_expect(world, error, 0);
	else
		CLAIM(world, error == 0 || error == EINVAL);
	if (!error && mask & IBV_SRQ_MAX_WR)
		srq->queue.depth = attr.max_wr;
	world_expect(world, ibv_query_srq(srq->ibv, &attr), 0);
	CLAIM(world, attr.max_wr == srq->queue.depth && attr.max_sge == srq->queue.sge_max);
}

/* --- receives --- */

static int expected_of_post(const struct api_srq *srq, const struct ibv_recv_wr *wr)
{
	if (wr->num_sge < 0 || wr->num_sge > (int)srq->queue.sge_max)
		return EINVAL;
	return srq->outstanding >= srq->queue.depth ? ENOMEM : 0;
}

static bool loses_at(const struct world *world, const struct api_srq *srq, const struct api_cq *cq)
{
	if (srq->xrcd)
		return srq->cq == cq;
	for (int i = 0; i < QPS; i++)
		if (world->qps[i].ibv && world->qps[i].srq == srq && world->qps[i].recv_cq == cq)
			return true;
	return false;
}

void srqs_lose_at(struct world *world, const struct api_cq *cq)
{
	for (int i = 0; i < SRQS; i++)
		if (world->srqs[i].ibv && loses_at(world, &world->srqs[i], cq))
			world->srqs[i].may_have_lost = true;
}

/* It takes more than it should, by our counting. */
static bool has_lost(struct world *world, struct api_srq *srq)
{
	take_events(world);
	for (int i = 0; i < CQS; i++)
		if (world->cqs[i].ibv && world->cqs[i].has_overrun)
			srqs_lose_at(world, &world->cqs[i]);
	return srq->may_have_lost;
}

void step_post_srq(struct world *world)
{
	struct api_srq *srq = &world->srqs[draw(world, SRQS)];
	struct ibv_sge list[SGE_MAX + 1];
	struct ibv_recv_wr wr = {.sg_list = list}, *bad = NULL;
	int wanted, error;

	if (!srq->ibv)
		return;
	memset(list, 0, sizeof(list));
	wr.wr_id = (uint64_t)(srq - world->srqs) << 56 | RECEIVE_BIT | SRQ_BIT | srq->queue.posted;
	wr.num_sge = draw_list(world, srq->pd, list, srq->queue.sge_max, IBV_ACCESS_LOCAL_WRITE);
	if (!wr.num_sge && draw(world, 20)) {
		list[0] = draw_bytes(world, srq->pd, IBV_ACCESS_LOCAL_WRITE);
		wr.num_sge = 1;
	}
	if (draw_rarely(world, 30))
		wr.num_sge = draw(world, 2) ? -1 : (int)srq->queue.sge_max + 1;
	wanted = expected_of_post(srq, &wr);
	error = ibv_post_srq_recv(srq->ibv, &wr, &bad);
	if (error || wanted != ENOMEM || !has_lost(world, srq))
		world_expect(world, error, wanted);
	CLAIM(world, !error || bad == &wr);
	if (error)
		return;
	srq->queue.is_done[srq->queue.posted++ % REQUESTS] = false;
	srq->outstanding++;
}

/* Whether a QP of that number may have taken it. */
static bool draws_from(const struct world *world, const struct api_srq *srq, uint32_t number)
{
	for (int i = 0; i < QPS; i++) {
		const struct api_qp *qp = &world->qps[i];

		if (qp->ibv && qp->ibv->qp_num == number &&
		    (srq->xrcd ? qp->xrcd == srq->xrcd : qp->srq == srq))
			return true;
	}
	return false;
}

static bool comes_to(const struct world *world, const struct api_srq *srq, const struct api_cq *cq,
		     uint32_t number)
{
	if (srq->xrcd)
		return srq->cq == cq;
	for (int i = 0; i < QPS; i++)
		if (world->qps[i].ibv && world->qps[i].ibv->qp_num == number)
			return world->qps[i].recv_cq == cq;
	return false;
}

void check_srq_entry(struct world *world, const struct api_cq *cq, const struct ibv_wc *wc)
{
	uint64_t count = wc->wr_id & (RECEIVE_BIT - 1);
	struct api_srq *srq;

	CLAIM(world, wc->wr_id >> 56 < SRQS);
	srq = &world->srqs[wc->wr_id >> 56];
	CLAIM(world, srq->ibv && draws_from(world, srq, wc->qp_num));
	CLAIM(world, comes_to(world, srq, cq, wc->qp_num));
	CLAIM(world, count >= srq->queue.done && count < srq->queue.posted);
	CLAIM(world, !srq->queue.is_done[count % REQUESTS]);
	srq->queue.is_done[count % REQUESTS] = true;
	CLAIM(world, srq->outstanding > 0);
	srq->outstanding--;
	world->completions += wc->status == IBV_WC_SUCCESS;
}

void srq_may_lose(struct world *world, const struct api_qp *qp)
{
	for (int i = 0; i < SRQS; i++) {
		struct api_srq *srq = &world->srqs[i];

		if (srq->ibv && (qp->srq == srq || (qp->xrcd && qp->xrcd == srq->xrcd)))
			srq->may_have_lost = true;
	}
}
