/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events: what happened to which object. Each event that names a CQ,
 * a QP or an SRQ is counted there, and the object's destruction waits for its acknowledgement.
 */
#include <errno.h>

#include <infiniband/verbs.h>

#include "engine/events.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/export.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

enum subject { SUBJECT_CQ, SUBJECT_QP, SUBJECT_SRQ, SUBJECT_OTHER };

static enum subject subject_of(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return SUBJECT_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return SUBJECT_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return SUBJECT_SRQ;
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_WQ_FATAL:
		break;
	}
	return SUBJECT_OTHER;
}

static void count_taken(const struct event *event)
{
	switch (subject_of(event->type)) {
	case SUBJECT_CQ:
		atomic_fetch_add_explicit(&cq_of(event->object)->async_events_taken, 1,
					  memory_order_relaxed);
		break;
	case SUBJECT_QP:
		atomic_fetch_add_explicit(&qp_of(event->object)->events_taken, 1,
					  memory_order_relaxed);
		break;
	case SUBJECT_SRQ:
		atomic_fetch_add_explicit(&srq_of(event->object)->events_taken, 1,
					  memory_order_relaxed);
		break;
	case SUBJECT_OTHER:
		break;
	}
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct event taken;

	if (context_is_inherited(context)) {
		errno = inherited_object("ibv_get_async_event");
		return -1;
	}
	engine_watch_ports(context_engine(context));
	if (event_queue_pop(context_of(context)->async, &taken, count_taken) != 0)
		return -1;
	*event = (struct ibv_async_event){.event_type = taken.type};
	switch (subject_of(taken.type)) {
	case SUBJECT_CQ:
		event->element.cq = taken.object;
		break;
	case SUBJECT_QP:
		event->element.qp = taken.object;
		break;
	case SUBJECT_SRQ:
		event->element.srq = taken.object;
		break;
	case SUBJECT_OTHER:
		event->element.port_num = taken.port;
		break;
	}
	return 0;
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	(*completed)++;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;

	switch (subject_of(event->event_type)) {
	case SUBJECT_CQ:
		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case SUBJECT_QP:
		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	case SUBJECT_SRQ:
		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	case SUBJECT_OTHER:
		break;
	}
}
