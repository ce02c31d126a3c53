/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: what is refused before the engine is asked, and the translation
 * between its objects and the program's.
 */
#include "verbs/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/explain.h"
#include "engine/profile.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/export.h"
#include "verbs/operations.h"
#include "verbs/pd.h"
#include "verbs/srq.h"
#include "verbs/wr_builder.h"
#include "verbs/xrcd.h"

/* What a QP is made of. */
struct parts {
	const char *call;
	struct ibv_context *context;
	struct ibv_pd *pd;     /* NULL: XRC_RECV */
	struct ibv_xrcd *xrcd; /* XRC_RECV only */
};

static bool is_offered(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
	       type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

static int check_xrc(const struct parts *parts, const struct ibv_qp_init_attr *attr)
{
	bool receives = attr->qp_type == IBV_QPT_XRC_RECV;

	if (receives && (!parts->xrcd || parts->xrcd->context != parts->context))
		return explain_call(EINVAL, parts->call,
				    "an XRC_RECV QP needs an xrcd of the same open device, by "
				    "ibv_create_qp_ex");
	if (attr->srq)
		return explain_call(
			EINVAL, parts->call,
			"an XRC QP has no SRQ of its own; requests name one of the domain");
	if (!receives && !attr->send_cq)
		return explain_call(EINVAL, parts->call, "an XRC_SEND QP needs a send_cq");
	return 0;
}

static bool is_foreign(const struct ibv_context *context, const struct ibv_qp_init_attr *attr)
{
	return (attr->send_cq && attr->send_cq->context != context) ||
	       (attr->recv_cq && attr->recv_cq->context != context) ||
	       (attr->srq && attr->srq->context != context);
}

static int check_create(const struct parts *parts, const struct ibv_qp_init_attr *attr)
{
	bool is_xrc = attr->qp_type == IBV_QPT_XRC_SEND || attr->qp_type == IBV_QPT_XRC_RECV;
	int error;

	if (!is_offered(attr->qp_type))
		return explain_call(
			EOPNOTSUPP, parts->call,
			"qp_type %d: this device has connected QPs, reliable "
			"(IBV_QPT_RC, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV) and unreliable "
			"(IBV_QPT_UC), and datagram QPs (IBV_QPT_UD) only",
			(int)attr->qp_type);
	error = is_xrc ? check_xrc(parts, attr) : 0;
	if (error)
		return error;
	if (attr->srq && srq_of(attr->srq)->xrcd)
		return explain_call(EINVAL, parts->call,
				    "an XRC SRQ serves the XRC_RECV QPs of its domain; for this QP "
				    "create a basic one");
	if (!is_xrc && (!attr->send_cq || !attr->recv_cq))
		return explain_call(EINVAL, parts->call, "a QP needs a send_cq and a recv_cq");
	if (is_foreign(parts->context, attr))
		return explain_call(EINVAL, parts->call,
				    "PD, CQs and SRQ of a QP must come from the same open device");
	return 0;
}

static void init(struct qp *qp, const struct parts *parts, const struct ibv_qp_init_attr *attr)
{
	qp->ibv.context = parts->context;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = parts->pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.srq = attr->srq;
	qp->ibv.handle = context_next_handle();
	qp->ibv.state = IBV_QPS_RESET;
	qp->ibv.qp_type = attr->qp_type;
	qp->xrcd = parts->xrcd ? xrcd_of(parts->xrcd) : NULL;
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
}

static void release(struct qp *qp)
{
	if (qp->builder)
		wr_builder_destroy(qp->builder);
	pthread_cond_destroy(&qp->ibv.cond);
	pthread_mutex_destroy(&qp->ibv.mutex);
	free(qp);
}

#define INLINE_GRANTED 64

/*
 * Adapters, and soft RoCE, take as many bytes inline as the addresses of the data need in a
 * request, whether they were asked for or not; programs rely on it (rdma_xclient).
 */
static void grant_inline(struct ibv_context *context, struct ibv_qp_cap *cap)
{
	uint32_t limit = profile_of(engine_settings(context_engine(context)))->inline_max;
	uint32_t granted = cap->max_send_wr ? cap->max_send_sge * (uint32_t)sizeof(struct ibv_sge)
					    : 0;

	if (granted > INLINE_GRANTED)
		granted = INLINE_GRANTED;
	if (granted > limit)
		granted = limit;
	if (cap->max_inline_data < granted)
		cap->max_inline_data = granted;
}

/* @pd: NULL for an XRC_RECV QP. */
static int create_in_engine(struct qp *qp, struct pd *pd, const struct ibv_qp_init_attr *attr)
{
	struct engine_xrcd *xrcd = qp->xrcd ? qp->xrcd->engine_xrcd : NULL;
	struct ibv_context *context = qp->ibv.context;
	struct engine_qp_attr engine_attr = {
		.type = attr->qp_type,
		.cap = attr->cap,
		.signals_all = attr->sq_sig_all != 0,
		.send_cq = attr->send_cq ? cq_of(attr->send_cq)->engine_cq : NULL,
		.recv_cq = attr->recv_cq ? cq_of(attr->recv_cq)->engine_cq : NULL,
		.srq = attr->srq ? srq_of(attr->srq)->engine_srq : NULL,
		.xrcd = xrcd,
		.async = context_of(context)->async,
		.object = &qp->ibv,
		.device = context_device(context),
		.allocator = pd ? pd_allocator(pd) : NULL,
	};
	struct engine_pd *engine_pd = pd ? pd->engine_pd : engine_xrcd_pd(xrcd);
	int error;

	grant_inline(context, &engine_attr.cap);
	error = engine_qp_create(engine_pd, &engine_attr, &qp->engine_qp);
	if (error)
		return error;
	qp->cap = engine_attr.cap;
	qp->ibv.qp_num = engine_qp_number(qp->engine_qp);
	return 0;
}

/* NULL with errno; @attr gets what was granted. */
static struct qp *create(const struct parts *parts, struct ibv_qp_init_attr *attr)
{
	bool needs_pd = attr->qp_type != IBV_QPT_XRC_RECV;
	struct pd *owner = needs_pd ? pd_find(parts->call, parts->pd) : NULL;
	struct qp *qp;
	int error;

	if (needs_pd && !owner)
		return NULL;
	error = check_create(parts, attr);
	if (error) {
		errno = error;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return out_of_memory(parts->call);
	init(qp, parts, attr);
	error = create_in_engine(qp, owner, attr);
	if (error) {
		release(qp);
		errno = engine_error(parts->call, error);
		return NULL;
	}
	attr->cap = qp->cap;
	if (qp->xrcd)
		atomic_fetch_add(&qp->xrcd->users, 1);
	context_hold(parts->context);
	return qp;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct parts parts = {
		.call = "ibv_create_qp", .context = pd ? pd->context : NULL, .pd = pd};
	struct qp *qp = create(&parts, attr);

	return qp ? &qp->ibv : NULL;
}

static int check_extension(const struct ibv_qp_init_attr_ex *attr)
{
	static const char call[] = "ibv_create_qp_ex";
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	if (attr->comp_mask & ~known)
		return explain_call(EOPNOTSUPP, call,
				    "comp_mask 0x%x asks for more than a PD, an XRC domain, "
				    "create_flags and send_ops_flags",
				    attr->comp_mask);
	if (attr->qp_type != IBV_QPT_XRC_RECV &&
	    (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd))
		return explain_call(EINVAL, call,
				    "no PD: set pd, and IBV_QP_INIT_ATTR_PD in comp_mask");
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags)
		return explain_call(EOPNOTSUPP, call, "create_flags 0x%x: none is supported",
				    attr->create_flags);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		return wr_builder_check_operations(attr->qp_type, attr->send_ops_flags);
	return 0;
}

static struct parts parts_of(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	struct parts parts = {.call = "ibv_create_qp_ex", .context = context};

	if (attr->qp_type == IBV_QPT_XRC_RECV)
		parts.xrcd = attr->comp_mask & IBV_QP_INIT_ATTR_XRCD ? attr->xrcd : NULL;
	else if (attr->comp_mask & IBV_QP_INIT_ATTR_PD)
		parts.pd = attr->pd;
	if (parts.pd)
		parts.context = parts.pd->context;
	return parts;
}

struct ibv_qp *qp_create_extended(struct ibv_context *ibv, struct ibv_qp_init_attr_ex *attr)
{
	/* The extended form begins with the fields of the plain one. */
	struct ibv_qp_init_attr plain;
	struct parts parts = parts_of(ibv, attr);
	int error = check_extension(attr);
	struct qp *qp;

	if (error) {
		errno = error;
		return NULL;
	}
	memcpy(&plain, attr, sizeof(plain));
	qp = create(&parts, &plain);
	if (!qp)
		return NULL;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		qp->builder = wr_builder_create(qp, attr->send_ops_flags);
		if (!qp->builder) {
			ibv_destroy_qp(&qp->ibv);
			return out_of_memory("ibv_create_qp_ex");
		}
	}
	attr->cap = qp->cap;
	return &qp->ibv;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return qp_of(qp)->builder ? &qp_of(qp)->ex : NULL;
}

/* --- further handles of an XRC_RECV QP --- */

static int check_open(const struct ibv_context *context, const struct ibv_qp_open_attr *attr)
{
	static const char call[] = "ibv_open_qp";
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
				IBV_QP_OPEN_ATTR_TYPE;

	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
		return explain_call(EOPNOTSUPP, call, "comp_mask 0x%x names more than there is",
				    attr->comp_mask);
	if ((attr->comp_mask & needed) != needed || !attr->xrcd)
		return explain_call(EINVAL, call,
				    "comp_mask 0x%x must name qp_num, xrcd and qp_type, and they "
				    "must be set",
				    attr->comp_mask);
	if (attr->xrcd->context != context)
		return explain_call(EINVAL, call,
				    "the XRC domain must come from the device that is asked");
	if (attr->qp_type != IBV_QPT_XRC_RECV)
		return explain_call(EINVAL, call,
				    "qp_type %d: only an XRC_RECV QP (IBV_QPT_XRC_RECV) is shared",
				    (int)attr->qp_type);
	return 0;
}

/* As rdma-core does, the state is unknown until the program asks for it. */
static void init_opened(struct qp *qp, const struct ibv_qp_open_attr *attr)
{
	struct parts parts = {.context = attr->xrcd->context, .xrcd = attr->xrcd};
	struct ibv_qp_init_attr init_attr = {.qp_type = attr->qp_type};

	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		init_attr.qp_context = attr->qp_context;
	init(qp, &parts, &init_attr);
	qp->ibv.state = IBV_QPS_UNKNOWN;
	qp->ibv.qp_num = attr->qp_num;
}

struct ibv_qp *qp_open(struct ibv_context *ibv, struct ibv_qp_open_attr *attr)
{
	int error = check_open(ibv, attr);
	struct qp *qp;

	if (error) {
		errno = error;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return out_of_memory("ibv_open_qp");
	init_opened(qp, attr);
	error = engine_qp_open(qp->xrcd->engine_xrcd, attr->qp_num, context_of(ibv)->async,
			       &qp->ibv, &qp->engine_qp);
	if (error) {
		release(qp);
		errno = engine_error("ibv_open_qp", error);
		return NULL;
	}
	atomic_fetch_add(&qp->xrcd->users, 1);
	context_hold(ibv);
	return &qp->ibv;
}

/* Programs read it as a plain field; threads that change or query the same QP meet here. */
static void show_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	__atomic_store_n(&qp->state, state, __ATOMIC_RELAXED);
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	int error = engine_qp_modify(qp_of(qp)->engine_qp, attr, attr_mask);

	if (error)
		return engine_error("ibv_modify_qp", error);
	if (attr_mask & IBV_QP_STATE)
		show_state(qp, attr->qp_state);
	return 0;
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr)
{
	/* All attributes are at hand, so that all are told. */
	(void)attr_mask;
	if (context_is_inherited(qp->context))
		return inherited_object("ibv_query_qp");
	memset(attr, 0, sizeof(*attr));
	memset(init_attr, 0, sizeof(*init_attr));
	engine_qp_query(qp_of(qp)->engine_qp, attr, init_attr);
	init_attr->qp_context = qp->qp_context;
	init_attr->send_cq = qp->send_cq;
	init_attr->recv_cq = qp->recv_cq;
	init_attr->srq = qp->srq;
	init_attr->qp_type = qp->qp_type;
	show_state(qp, attr->qp_state);
	return 0;
}

/* As for CQs: an event that was handed out may still be in use. */
static void wait_for_acknowledgements(struct qp *qp)
{
	pthread_mutex_lock(&qp->ibv.mutex);
	if (qp->ibv.events_completed != atomic_load(&qp->events_taken))
		explain_note(LOG_INFO, "ibv_destroy_qp waits until all events of the QP are "
				       "acknowledged (ibv_ack_async_event)");
	while (qp->ibv.events_completed != atomic_load(&qp->events_taken))
		pthread_cond_wait(&qp->ibv.cond, &qp->ibv.mutex);
	pthread_mutex_unlock(&qp->ibv.mutex);
}

EXPORT int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct ibv_context *context = ibv->context;
	struct qp *qp = qp_of(ibv);
	int error = engine_qp_close(qp->engine_qp, ibv);

	if (error)
		return -error;
	if (!context_is_inherited(context))
		wait_for_acknowledgements(qp);
	if (qp->xrcd)
		atomic_fetch_sub(&qp->xrcd->users, 1);
	release(qp);
	context_release(context);
	return 0;
}

/* The LID of a group means nothing here, as it does on RoCE. */
EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	int error = engine_qp_attach(qp_of(qp)->engine_qp, gid->raw);

	(void)lid;
	return error ? engine_error("ibv_attach_mcast", error) : 0;
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	int error = engine_qp_detach(qp_of(qp)->engine_qp, gid->raw);

	(void)lid;
	return error ? engine_error("ibv_detach_mcast", error) : 0;
}

int verbs_post_send(struct ibv_qp *ibv, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
	int error = engine_post_send(qp_of(ibv)->engine_qp, list, bad);

	return error == EIO ? inherited_object("ibv_post_send") : error;
}

int verbs_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
	int error = engine_post_recv(qp_of(ibv)->engine_qp, list, bad);

	return error == EIO ? inherited_object("ibv_post_recv") : error;
}
