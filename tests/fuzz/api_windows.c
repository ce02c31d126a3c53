/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows of both types: made, bound, invalidated, ended while bound. */
#include <errno.h>
#include <string.h>

#include "fuzz/api_world.h"

#define KEY_LOW 0xffu
#define RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* --- life --- */

void destroy_mw(struct world *world, struct api_mw *mw)
{
	world_expect(world, ibv_dealloc_mw(mw->ibv), 0);
	mw->pd->users--;
	*mw = (struct api_mw){.is_at = -1};
}

void step_mw(struct world *world)
{
	struct api_mw *mw = &world->mws[draw(world, MWS)];
	enum ibv_mw_type type = (enum ibv_mw_type)(draw(world, 20) ? 1 + draw(world, 2) : 0);
	struct api_pd *pd = draw_pd(world);

	if (mw->ibv) {
		/* One that nothing is known of any more is of little use. */
		if (draw_rarely(world, mw->pending_count > 4 ? 2 : 8))
			destroy_mw(world, mw);
		return;
	}
	if (!pd->ibv)
		return;
	*mw = (struct api_mw){.pd = pd, .is_at = -1};
	mw->ibv = ibv_alloc_mw(pd->ibv, type);
	world_expect(world, mw->ibv ? 0 : errno, type ? 0 : EINVAL);
	if (!mw->ibv)
		return;
	CLAIM(world, mw->ibv->type == type && mw->ibv->pd == pd->ibv);
	mw->key = mw->ibv->rkey;
	pd->users++;
}

/* --- what is bound to what --- */

static uint32_t bit_of(const struct world *world, const struct api_mr *mr)
{
	return 1u << (mr - world->mrs);
}

bool may_be_bound_to(const struct world *world, const struct api_mr *mr)
{
	for (int i = 0; i < MWS; i++)
		if (world->mws[i].may_be_at & bit_of(world, mr))
			return true;
	return false;
}

bool is_bound_to(const struct world *world, const struct api_mr *mr)
{
	for (int i = 0; i < MWS; i++)
		if (world->mws[i].ibv && world->mws[i].is_at == mr - world->mrs)
			return true;
	return false;
}

void forget_region(struct world *world, const struct api_mr *mr)
{
	for (int i = 0; i < MWS; i++)
		world->mws[i].may_be_at &= ~bit_of(world, mr);
}

void window_posted(struct world *world, struct api_window_request *request)
{
	struct api_mw *mw = &world->mws[request->mw];

	if (!request->change)
		return;
	request->is_alone = !mw->pending_count++;
	mw->change = request->change;
	mw->is_at = -1;
	if (request->mr < 0)
		return;
	mw->key = request->key;
	mw->may_be_at |= bit_of(world, &world->mrs[request->mr]);
}

void window_done(struct world *world, const struct api_window_request *request, bool has_succeeded)
{
	struct api_mw *mw = &world->mws[request->mw];

	/* Another window may stand in its place by now. */
	if (!request->change || !mw->ibv || (mw->key ^ request->key) & ~KEY_LOW)
		return;
	mw->pending_count -= mw->pending_count > 0;
	if (!has_succeeded || !request->is_alone || mw->change != request->change)
		return;
	mw->may_be_at = 0;
	if (request->mr < 0)
		return;
	mw->may_be_at = bit_of(world, &world->mrs[request->mr]);
	if (!mw->may_be_freed[request->key & KEY_LOW])
		mw->is_at = request->mr;
}

/* --- requests --- */

/* Mostly a region and bytes of it that a window of @mw may be bound to. */
static struct ibv_mw_bind_info draw_info(struct world *world, const struct api_mw *mw, int *mr)
{
	struct ibv_mw_bind_info info = {.mw_access_flags = draw(world, 8) * 2};
	uint32_t first = draw(world, MRS);
	bool is_right = !draw_rarely(world, 30);

	*mr = -1;
	for (uint32_t i = 0; i < MRS && *mr < 0; i++) {
		const struct api_mr *found = &world->mrs[(first + i) % MRS];

		if (found->ibv &&
		    (!is_right || (found->pd == mw->pd && found->access & IBV_ACCESS_MW_BIND)))
			*mr = (int)((first + i) % MRS);
	}
	if (*mr < 0)
		return info;
	info.mr = world->mrs[*mr].ibv;
	info.addr = world->mrs[*mr].iova + draw(world, (uint32_t)info.mr->length);
	info.length =
		1 + draw(world, (uint32_t)(world->mrs[*mr].iova + info.mr->length - info.addr));
	if (draw_rarely(world, 30))
		info.length += info.mr->length;
	if (draw_rarely(world, 20))
		info.mw_access_flags = 1u << draw(world, 21);
	return info;
}

static bool has_unknown_flags(const struct ibv_mw_bind_info *info)
{
	return info->mw_access_flags & ~(unsigned)(RIGHTS | IBV_ACCESS_LOCAL_WRITE |
						   IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED);
}

/* Mostly one that @qp may bind. */
static struct api_mw *draw_mw(struct world *world, const struct api_qp *qp, enum ibv_mw_type type)
{
	uint32_t first = draw(world, MWS);

	for (uint32_t i = 0; i < MWS; i++) {
		struct api_mw *mw = &world->mws[(first + i) % MWS];

		if (mw->ibv &&
		    ((mw->ibv->type == type && mw->pd == qp->pd) || draw_rarely(world, 30)))
			return mw;
	}
	return NULL;
}

static void draw_bind(struct world *world, const struct api_mw *mw, struct ibv_send_wr *wr,
		      int *error, struct api_window_request *request)
{
	wr->opcode = IBV_WR_BIND_MW;
	wr->bind_mw.mw = mw->ibv;
	wr->bind_mw.bind_info = draw_info(world, mw, &request->mr);
	wr->bind_mw.rkey = (mw->key & ~KEY_LOW) |
			   (draw(world, 4) ? (mw->key + 1) & KEY_LOW : draw(world, 256));
	if (mw->ibv->type != IBV_MW_TYPE_2 || has_unknown_flags(&wr->bind_mw.bind_info) ||
	    !wr->bind_mw.bind_info.mr)
		*error = EINVAL;
}

/* Of a message nobody says here what it does at the peer, or when. */
static void draw_invalidation(struct world *world, const struct api_qp *qp, struct api_mw *mw,
			      struct ibv_send_wr *wr, struct api_window_request *request)
{
	wr->invalidate_rkey = mw->key;
	wr->opcode = IBV_WR_LOCAL_INV;
	if (qp->type != IBV_QPT_RC || draw(world, 2))
		return;
	wr->opcode = IBV_WR_SEND_WITH_INV;
	mw->may_be_freed[mw->key & KEY_LOW] = true;
	mw->is_at = -1;
	request->change = 0;
}

bool draw_window_request(struct world *world, struct api_qp *qp, struct ibv_send_wr *wr, int *error,
			 struct api_window_request *request)
{
	struct api_mw *mw = draw_mw(world, qp, IBV_MW_TYPE_2);
	bool binds;

	if (!mw)
		return false;
	binds = (mw->is_at < 0) == (draw(world, 8) != 0);
	*request = (struct api_window_request){.change = ++world->changes,
					       .mw = (uint32_t)(mw - world->mws),
					       .key = mw->key,
					       .mr = -1};
	wr->num_sge = 0;
	wr->send_flags &= IBV_SEND_FENCE;
	if (draw(world, 10))
		wr->send_flags |= IBV_SEND_SIGNALED;
	if (binds) {
		draw_bind(world, mw, wr, error, request);
		request->key = wr->bind_mw.rkey;
	} else {
		draw_invalidation(world, qp, mw, wr, request);
	}
	return true;
}

/* --- type 1, by its own call --- */

static int expected_of_bind(const struct world *world, const struct api_qp *qp,
			    const struct api_mw *mw, const struct ibv_mw_bind *bind, int mr)
{
	const struct ibv_mw_bind_info *info = &bind->bind_info;
	bool is_unbind = !info->length;

	if (mw->ibv->type != IBV_MW_TYPE_1)
		return EINVAL;
	if (info->mr && world->mrs[mr].pd != mw->pd)
		return EPERM;
	if (qp->pd != mw->pd)
		return EPERM;
	if (!takes_sends(qp->state) || (qp->type != IBV_QPT_RC && qp->type != IBV_QPT_UC) ||
	    has_unknown_flags(info) || (!is_unbind && !info->mr))
		return EINVAL;
	return qp->sends.posted - qp->sends.done == qp->sends.depth ? ENOMEM : 0;
}

static void note_bound(struct world *world, struct api_qp *qp, struct api_mw *mw, int mr,
		       bool is_signalled)
{
	struct api_window_request request = {.change = ++world->changes,
					     .mw = (uint32_t)(mw - world->mws),
					     .key = mw->ibv->rkey,
					     .mr = mr};
	struct api_queue *sends = &qp->sends;

	window_posted(world, &request);
	mw->key = mw->ibv->rkey;
	sends->is_signalled[sends->posted % REQUESTS] = is_signalled;
	sends->windows[sends->posted++ % REQUESTS] = request;
}

void step_bind(struct world *world)
{
	struct api_qp *qp = &world->qps[draw(world, QPS)];
	struct api_mw *mw = qp->ibv ? draw_mw(world, qp, IBV_MW_TYPE_1) : NULL;
	struct ibv_mw_bind bind = {.send_flags = draw(world, 4) ? IBV_SEND_SIGNALED : 0};
	int mr = -1, error, wanted;
	uint32_t before;

	if (!mw)
		return;
	before = mw->ibv->rkey;
	bind.wr_id = (uint64_t)(qp - world->qps) << 56 | (qp->sends.posted & (RECEIVE_BIT - 1));
	if (draw(world, 4))
		bind.bind_info = draw_info(world, mw, &mr);
	wanted = expected_of_bind(world, qp, mw, &bind, mr);
	error = ibv_bind_mw(qp->ibv, mw->ibv, &bind);
	/* A QP in RTR may have failed, and takes requests to flush them. */
	if (qp->state == IBV_QPS_RTR && error != EINVAL) {
		refresh_state(world, qp);
		wanted = expected_of_bind(world, qp, mw, &bind, mr);
	}
	world_expect(world, error, wanted);
	CLAIM(world, ((mw->ibv->rkey ^ before) & ~KEY_LOW) == 0);
	CLAIM(world, (mw->ibv->rkey == before) == (error != 0));
	if (!error)
		note_bound(world, qp, mw, bind.bind_info.length ? mr : -1,
			   qp->signals_all || bind.send_flags);
}
