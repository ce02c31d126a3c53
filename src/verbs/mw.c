/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows. A type 1 window is bound by a call, which posts the bind; the key that
 * it will have stands in the window when the call returns, as the man page says, and the low
 * byte counts up so that the last 255 keys are never valid again.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/operations.h"
#include "verbs/pd.h"
#include "verbs/qp.h"

struct mw_face {
	struct ibv_mw ibv;
	struct engine_mw *engine_mw;
};

static struct mw_face *mw_of(struct ibv_mw *ibv)
{
	return (struct mw_face *)ibv;
}

struct ibv_mw *mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type)
{
	static const char call[] = "ibv_alloc_mw";
	struct pd *owner = pd_find(call, pd);
	struct mw_face *mw;
	int error;

	if (!owner)
		return NULL;
	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		errno = explain_call(EINVAL, call,
				     "type %d: there are IBV_MW_TYPE_1 and IBV_MW_TYPE_2",
				     (int)type);
		return NULL;
	}
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return out_of_memory(call);
	error = engine_mw_create(owner->engine_pd, type, &mw->engine_mw);
	if (error) {
		free(mw);
		errno = engine_error(call, error);
		return NULL;
	}
	mw->ibv.context = pd->context;
	mw->ibv.pd = pd;
	mw->ibv.rkey = engine_mw_key(mw->engine_mw);
	mw->ibv.handle = context_next_handle();
	mw->ibv.type = type;
	context_hold(pd->context);
	return &mw->ibv;
}

int mw_dealloc(struct ibv_mw *ibv)
{
	struct ibv_context *context = ibv->context;
	int error = engine_mw_destroy(mw_of(ibv)->engine_mw);

	if (error)
		return engine_error("ibv_dealloc_mw", error);
	free(mw_of(ibv));
	context_release(context);
	return 0;
}

/* ibv_bind_mw() has looked at the type and at the PDs of window and region. */
int mw_bind(struct ibv_qp *qp, struct ibv_mw *ibv, struct ibv_mw_bind *request)
{
	struct ibv_send_wr wr = {
		.wr_id = request->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = request->send_flags,
		.bind_mw = {.mw = ibv,
			    .rkey = ibv_inc_rkey(ibv->rkey),
			    .bind_info = request->bind_info},
	};
	int error;

	error = engine_post_bind_type_1(qp_of(qp)->engine_qp, mw_of(ibv)->engine_mw, &wr);
	if (error)
		return error == EIO ? inherited_object("ibv_bind_mw") : error;
	ibv->rkey = wr.bind_mw.rkey;
	return 0;
}
