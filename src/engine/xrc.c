/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "engine/explain.h"

static int make_stand_ins(struct engine_xrcd *xrcd, struct engine *engine)
{
	int error = engine_pd_create(engine, &xrcd->pd);

	if (error)
		return error;
	error = engine_cq_create(engine, 1, NULL, NULL, xrcd, &xrcd->cq);
	if (error)
		engine_pd_destroy(xrcd->pd);
	return error;
}

/*
 * By a path to it: closing a plain copy of @fd would end the program's fcntl locks on the file.
 * Without /proc the file is not kept, and another one that gets its inode is taken for it.
 */
static struct descriptor keep_file(int fd)
{
	char path[40];

	if (fd < 0)
		return (struct descriptor){.fd = -1};
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return descriptor_adopt(open(path, O_PATH | O_CLOEXEC));
}

int engine_xrcd_create(struct engine *engine, int fd, struct engine_xrcd **xrcd)
{
	struct engine_xrcd *created;
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	created = calloc(1, sizeof(*created));
	if (!created)
		return -ENOMEM;
	created->file = keep_file(fd);
	error = make_stand_ins(created, engine);
	if (error) {
		descriptor_close(&created->file);
		free(created);
		return error;
	}
	created->engine = engine;
	pthread_mutex_init(&created->srqs_lock, NULL);
	brief_lock_init(&created->lock);
	pthread_mutex_init(&created->qps_lock, NULL);
	*xrcd = created;
	return 0;
}

int engine_xrcd_destroy(struct engine_xrcd *xrcd)
{
	if (!engine_is_inherited(xrcd->engine)) {
		if (atomic_load(&xrcd->user_count))
			return explain_call(
				-EBUSY, "ibv_close_xrcd",
				"%u SRQs and QPs use the XRC domain; destroy them first",
				atomic_load(&xrcd->user_count));
		pthread_mutex_destroy(&xrcd->srqs_lock);
		brief_lock_fini(&xrcd->lock);
		pthread_mutex_destroy(&xrcd->qps_lock);
	}
	engine_cq_destroy(xrcd->cq);
	engine_pd_destroy(xrcd->pd);
	descriptor_close(&xrcd->file);
	free(xrcd);
	return 0;
}

struct engine_pd *engine_xrcd_pd(const struct engine_xrcd *xrcd)
{
	return xrcd->pd;
}

uint32_t engine_srq_number(const struct engine_srq *srq)
{
	return srq->srq.number;
}

bool xrc_add_srq(struct engine_xrcd *xrcd, struct engine_srq *srq)
{
	bool has_room;

	pthread_mutex_lock(&xrcd->srqs_lock);
	brief_lock_take(&xrcd->lock);
	has_room = xrc_domain_add(&xrcd->domain, &srq->srq, random_number());
	if (has_room) {
		srq->xrcd = xrcd;
		srq->lock = &xrcd->lock;
		LIST_INSERT_HEAD(&xrcd->srqs, srq, next);
		atomic_fetch_add(&xrcd->user_count, 1);
		atomic_fetch_add(&srq->cq->user_count, 1);
	}
	brief_lock_release(&xrcd->lock);
	pthread_mutex_unlock(&xrcd->srqs_lock);
	return has_room;
}

/* Who is at work with a QP now has pushed its completions when it lets the lock go. */
static void wait_for_qps(struct engine_xrcd *xrcd)
{
	struct engine_qp *qp;

	pthread_mutex_lock(&xrcd->qps_lock);
	LIST_FOREACH(qp, &xrcd->qps, next)
	{
		brief_lock_take(&qp->lock);
		brief_lock_release(&qp->lock);
	}
	pthread_mutex_unlock(&xrcd->qps_lock);
}

bool xrc_withdraw_srq(struct engine_srq *srq)
{
	struct engine_xrcd *xrcd = srq->xrcd;
	bool is_idle;

	pthread_mutex_lock(&xrcd->srqs_lock);
	brief_lock_take(&xrcd->lock);
	is_idle = srq->srq.taken_count == 0;
	if (is_idle) {
		xrc_domain_remove(&xrcd->domain, &srq->srq);
		LIST_REMOVE(srq, next);
	}
	brief_lock_release(&xrcd->lock);
	pthread_mutex_unlock(&xrcd->srqs_lock);
	if (!is_idle)
		return false;
	wait_for_qps(xrcd);
	cq_purge_srq(srq->cq, srq);
	atomic_fetch_sub(&srq->cq->user_count, 1);
	atomic_fetch_sub(&xrcd->user_count, 1);
	return true;
}

void xrc_add_qp(struct engine_qp *qp)
{
	struct engine_xrcd *xrcd = qp->xrcd;

	pthread_mutex_lock(&xrcd->qps_lock);
	LIST_INSERT_HEAD(&xrcd->qps, qp, next);
	pthread_mutex_unlock(&xrcd->qps_lock);
	atomic_fetch_add(&xrcd->user_count, 1);
}

void xrc_remove_qp(struct engine_qp *qp)
{
	struct engine_xrcd *xrcd = qp->xrcd;

	pthread_mutex_lock(&xrcd->qps_lock);
	LIST_REMOVE(qp, next);
	pthread_mutex_unlock(&xrcd->qps_lock);
	atomic_fetch_sub(&xrcd->user_count, 1);
}

int xrc_prepare_qp(struct engine_qp *qp)
{
	struct device *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *qp->device;
	qp->device_copy = copy;
	qp->device = copy;
	return 0;
}

/* --- further handles of a QP --- */

/* Those who end it are still to be found here by xrc_withdraw_srq(). qps_lock is held. */
static struct engine_qp *find_qp(struct engine_xrcd *xrcd, uint32_t number)
{
	struct engine_qp *qp;

	LIST_FOREACH(qp, &xrcd->qps, next)
	if (qp->qp->number == number && !qp->is_ending)
		return qp;
	return NULL;
}

int engine_qp_open(struct engine_xrcd *xrcd, uint32_t number, struct event_queue *async,
		   void *object, struct engine_qp **qp)
{
	struct qp_listener *listener;

	if (engine_is_inherited(xrcd->engine))
		return -EIO;
	listener = malloc(sizeof(*listener));
	if (!listener)
		return -ENOMEM;
	*listener = (struct qp_listener){.async = async, .object = object};
	pthread_mutex_lock(&xrcd->qps_lock);
	*qp = find_qp(xrcd, number);
	if (*qp) {
		brief_lock_take(&(*qp)->lock);
		LIST_INSERT_HEAD(&(*qp)->listeners, listener, next);
		brief_lock_release(&(*qp)->lock);
	}
	pthread_mutex_unlock(&xrcd->qps_lock);
	if (*qp)
		return 0;
	free(listener);
	return explain_call(-EINVAL, "ibv_open_qp",
			    "the XRC domain has no XRC_RECV QP 0x%06x in this process; one of "
			    "another process cannot be opened",
			    number);
}

static struct qp_listener *find_listener(struct engine_qp *qp, const void *object)
{
	struct qp_listener *listener;

	LIST_FOREACH(listener, &qp->listeners, next)
	if (listener->object == object)
		break;
	VBN_ASSERT(listener);
	return listener;
}

static bool has_one_listener(const struct engine_qp *qp)
{
	return !LIST_NEXT(LIST_FIRST(&qp->listeners), next);
}

static void free_listener(const struct engine_qp *qp, struct qp_listener *listener)
{
	if (listener != &qp->maker)
		free(listener);
}

static void drop_listener(struct engine_qp *qp, struct qp_listener *listener)
{
	LIST_REMOVE(listener, next);
	free_listener(qp, listener);
}

/* qps_lock is held. */
static void drop_handle(struct engine_qp *qp, const void *object)
{
	struct qp_listener *listener = find_listener(qp, object);
	struct event_queue *async = listener->async;

	brief_lock_take(&qp->lock);
	drop_listener(qp, listener);
	brief_lock_release(&qp->lock);
	if (async)
		event_queue_purge(async, object);
}

/*
 * False: it is the last one, and nobody opens another any more. Otherwise the QP may be gone by the
 * time that this returns, with the last of the others.
 */
static bool leave_to_others(struct engine_qp *qp, const void *object)
{
	struct engine_xrcd *xrcd = qp->xrcd;
	bool is_last;

	pthread_mutex_lock(&xrcd->qps_lock);
	is_last = has_one_listener(qp);
	if (is_last)
		qp->is_ending = true;
	else
		drop_handle(qp, object);
	pthread_mutex_unlock(&xrcd->qps_lock);
	return !is_last;
}

/* In a child of fork, where whoever held a lock is not there any more. */
static bool leave_to_others_inherited(struct engine_qp *qp, const void *object)
{
	if (has_one_listener(qp))
		return false;
	drop_listener(qp, find_listener(qp, object));
	return true;
}

int engine_qp_close(struct engine_qp *qp, const void *object)
{
	bool is_left;

	if (!qp->xrcd)
		return engine_qp_destroy(qp);
	is_left = engine_is_inherited(qp->engine) ? leave_to_others_inherited(qp, object)
						  : leave_to_others(qp, object);
	return is_left ? 0 : engine_qp_destroy(qp);
}

void xrc_free_qp(struct engine_qp *qp)
{
	struct qp_listener *listener, *next;

	for (listener = LIST_FIRST(&qp->listeners); listener; listener = next) {
		next = LIST_NEXT(listener, next);
		free_listener(qp, listener);
	}
	free(qp->device_copy);
}

void xrc_purge(const struct engine_qp *qp)
{
	struct engine_srq *srq;

	pthread_mutex_lock(&qp->xrcd->srqs_lock);
	LIST_FOREACH(srq, &qp->xrcd->srqs, next)
	cq_purge(srq->cq, qp);
	pthread_mutex_unlock(&qp->xrcd->srqs_lock);
}

void srq_enter_xrc(struct engine_xrcd *xrcd)
{
	brief_lock_take(&xrcd->lock);
}

void srq_leave_xrc(struct engine_xrcd *xrcd)
{
	struct engine_srq *srq;

	LIST_FOREACH(srq, &xrcd->srqs, next)
	srq_raise_event(srq);
	brief_lock_release(&xrcd->lock);
}
