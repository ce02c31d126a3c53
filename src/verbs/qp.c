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
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/export.h"
#include "verbs/operations.h"
#include "verbs/pd.h"
#include "verbs/wr_builder.h"

static int check_create(const char *call, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	struct ibv_cq *send_cq = attr->send_cq;
	struct ibv_cq *recv_cq = attr->recv_cq;

	if (attr->qp_type != IBV_QPT_RC)
		return explain_call(EOPNOTSUPP, call,
				    "qp_type %d: this device has reliable connected QPs "
				    "(IBV_QPT_RC) only",
				    (int)attr->qp_type);
	if (attr->srq)
		return not_supported(call, "shared receive queues");
	if (!send_cq || !recv_cq)
		return explain_call(EINVAL, call, "an RC QP needs a send_cq and a recv_cq");
	if (send_cq->context != pd->context || recv_cq->context != pd->context)
		return explain_call(EINVAL, call,
				    "PD and CQs of a QP must come from the same open device");
	return 0;
}

static void init(struct qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	qp->ibv.context = pd->context;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.handle = context_next_handle();
	qp->ibv.state = IBV_QPS_RESET;
	qp->ibv.qp_type = attr->qp_type;
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

static int create_in_engine(struct qp *qp, struct pd *pd, const struct ibv_qp_init_attr *attr)
{
	struct ibv_context *context = qp->ibv.context;
	struct engine_qp_attr engine_attr = {
		.type = attr->qp_type,
		.cap = attr->cap,
		.signals_all = attr->sq_sig_all != 0,
		.send_cq = cq_of(attr->send_cq)->engine_cq,
		.recv_cq = cq_of(attr->recv_cq)->engine_cq,
		.async = context_of(context)->async,
		.object = &qp->ibv,
		.device = context_device(context),
	};
	int error = engine_qp_create(pd->engine_pd, &engine_attr, &qp->engine_qp);

	if (error)
		return error;
	qp->cap = engine_attr.cap;
	qp->ibv.qp_num = engine_qp_number(qp->engine_qp);
	return 0;
}

/* NULL with errno; @attr gets what was granted. */
static struct qp *create(const char *call, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct pd *owner = pd_find(call, pd);
	struct qp *qp;
	int error;

	if (!owner)
		return NULL;
	error = check_create(call, pd, attr);
	if (error) {
		errno = error;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return out_of_memory(call);
	init(qp, pd, attr);
	error = create_in_engine(qp, owner, attr);
	if (error) {
		release(qp);
		errno = engine_error(call, error);
		return NULL;
	}
	attr->cap = qp->cap;
	context_hold(pd->context);
	return qp;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct qp *qp = create("ibv_create_qp", pd, attr);

	return qp ? &qp->ibv : NULL;
}

static int check_extension(const struct ibv_qp_init_attr_ex *attr)
{
	static const char call[] = "ibv_create_qp_ex";
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	if (attr->comp_mask & ~known)
		return explain_call(EOPNOTSUPP, call,
				    "comp_mask 0x%x asks for more than a PD, create_flags and "
				    "send_ops_flags",
				    attr->comp_mask);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd)
		return explain_call(EINVAL, call,
				    "no PD: set pd, and IBV_QP_INIT_ATTR_PD in comp_mask");
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags)
		return explain_call(EOPNOTSUPP, call, "create_flags 0x%x: none is supported",
				    attr->create_flags);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		return wr_builder_check_operations(attr->send_ops_flags);
	return 0;
}

struct ibv_qp *qp_create_extended(struct ibv_context *ibv, struct ibv_qp_init_attr_ex *attr)
{
	/* The extended form begins with the fields of the plain one. */
	struct ibv_qp_init_attr plain;
	int error = check_extension(attr);
	struct qp *qp;

	(void)ibv;
	if (error) {
		errno = error;
		return NULL;
	}
	memcpy(&plain, attr, sizeof(plain));
	qp = create("ibv_create_qp_ex", attr->pd, &plain);
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
	int error = engine_qp_destroy(qp->engine_qp);

	if (error)
		return -error;
	if (!context_is_inherited(context))
		wait_for_acknowledgements(qp);
	release(qp);
	context_release(context);
	return 0;
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
