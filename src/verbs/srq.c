/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues, basic ones and those of XRC domains.
 */
#include "verbs/srq.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/export.h"
#include "verbs/operations.h"
#include "verbs/pd.h"
#include "verbs/xrcd.h"

static void init(struct srq *srq, struct ibv_pd *pd, void *srq_context)
{
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = srq_context;
	srq->ibv.pd = pd;
	srq->ibv.handle = context_next_handle();
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
}

static void release(struct srq *srq)
{
	pthread_cond_destroy(&srq->ibv.cond);
	pthread_mutex_destroy(&srq->ibv.mutex);
	free(srq);
}

/* All that is asked for is granted exactly, so that @attr stays as it is. */
static struct ibv_srq *create(const char *call, struct ibv_pd *pd, void *srq_context,
			      const struct ibv_srq_attr *attr, struct xrcd *xrcd, struct ibv_cq *cq)
{
	struct pd *owner = pd_find(call, pd);
	struct engine_srq_attr engine_attr;
	struct srq *srq;
	int error;

	if (!owner)
		return NULL;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return out_of_memory(call);
	init(srq, pd, srq_context);
	engine_attr = (struct engine_srq_attr){
		.wr_max = attr->max_wr,
		.sge_max = attr->max_sge,
		.allocator = pd_allocator(owner),
		.async = context_of(pd->context)->async,
		.object = &srq->ibv,
		.xrcd = xrcd ? xrcd->engine_xrcd : NULL,
		.cq = cq ? cq_of(cq)->engine_cq : NULL,
	};
	error = engine_srq_create(owner->engine_pd, &engine_attr, &srq->engine_srq);
	if (error) {
		release(srq);
		errno = engine_error(call, error);
		return NULL;
	}
	srq->xrcd = xrcd;
	if (xrcd)
		atomic_fetch_add(&xrcd->users, 1);
	context_hold(pd->context);
	return &srq->ibv;
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return create("ibv_create_srq", pd, attr->srq_context, &attr->attr, NULL, NULL);
}

static enum ibv_srq_type type_of(const struct ibv_srq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
}

static int check_extension(const struct ibv_context *context,
			   const struct ibv_srq_init_attr_ex *attr)
{
	static const char call[] = "ibv_create_srq_ex";
	const uint32_t of_xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	const uint32_t known = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
	bool is_xrc = type_of(attr) == IBV_SRQT_XRC;

	if (type_of(attr) != IBV_SRQT_BASIC && !is_xrc)
		return explain_call(EOPNOTSUPP, call,
				    "srq_type %d: this device has basic SRQs (IBV_SRQT_BASIC) and "
				    "XRC SRQs (IBV_SRQT_XRC) only",
				    (int)attr->srq_type);
	if (attr->comp_mask & ~(is_xrc ? known | of_xrc : known))
		return explain_call(
			EINVAL, call,
			"comp_mask 0x%x names more than pd and srq_type, and xrcd and cq "
			"of an XRC SRQ, which are all that an SRQ has",
			attr->comp_mask);
	if (is_xrc && ((attr->comp_mask & of_xrc) != of_xrc || !attr->xrcd || !attr->cq))
		return explain_call(
			EINVAL, call,
			"an XRC SRQ needs an xrcd and a cq, and their bits in comp_mask");
	if (is_xrc && (attr->xrcd->context != context || attr->cq->context != context))
		return explain_call(EINVAL, call,
				    "XRC domain and CQ must come from the device that is asked");
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
		return explain_call(EINVAL, call,
				    "no PD: set pd, and IBV_SRQ_INIT_ATTR_PD in comp_mask");
	return 0;
}

struct ibv_srq *srq_create_extended(struct ibv_context *ibv, struct ibv_srq_init_attr_ex *attr)
{
	static const char call[] = "ibv_create_srq_ex";
	int error = check_extension(ibv, attr);

	if (error) {
		errno = error;
		return NULL;
	}
	if (type_of(attr) == IBV_SRQT_BASIC)
		return create(call, attr->pd, attr->srq_context, &attr->attr, NULL, NULL);
	return create(call, attr->pd, attr->srq_context, &attr->attr, xrcd_of(attr->xrcd),
		      attr->cq);
}

int srq_number(struct ibv_srq *srq, uint32_t *number)
{
	*number = engine_srq_number(srq_of(srq)->engine_srq);
	if (*number)
		return 0;
	return explain_call(EINVAL, "ibv_get_srq_num",
			    "only an XRC SRQ has a number; peers of a basic SRQ name a QP");
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	int error = engine_srq_modify(srq_of(srq)->engine_srq, attr, mask);

	return error ? engine_error("ibv_modify_srq", error) : 0;
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	if (context_is_inherited(srq->context))
		return inherited_object("ibv_query_srq");
	engine_srq_query(srq_of(srq)->engine_srq, attr);
	return 0;
}

/* As for QPs: an event that was handed out may still be in use. */
static void wait_for_acknowledgements(struct srq *srq)
{
	pthread_mutex_lock(&srq->ibv.mutex);
	if (srq->ibv.events_completed != atomic_load(&srq->events_taken))
		explain_note(LOG_INFO, "ibv_destroy_srq waits until all events of the SRQ are "
				       "acknowledged (ibv_ack_async_event)");
	while (srq->ibv.events_completed != atomic_load(&srq->events_taken))
		pthread_cond_wait(&srq->ibv.cond, &srq->ibv.mutex);
	pthread_mutex_unlock(&srq->ibv.mutex);
}

EXPORT int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct ibv_context *context = ibv->context;
	struct srq *srq = srq_of(ibv);
	int error = engine_srq_destroy(srq->engine_srq);

	if (error)
		return -error;
	if (!context_is_inherited(context))
		wait_for_acknowledgements(srq);
	if (srq->xrcd)
		atomic_fetch_sub(&srq->xrcd->users, 1);
	release(srq);
	context_release(context);
	return 0;
}

int srq_post_recv(struct ibv_srq *ibv, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
	int error = engine_srq_post(srq_of(ibv)->engine_srq, list, bad);

	return error == EIO ? inherited_object("ibv_post_srq_recv") : error;
}
