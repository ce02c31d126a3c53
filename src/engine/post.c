/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting. A list is taken in under one hold of the lock, then the QP runs at once, so
 * that the packets leave from the poster's thread; what they bring about inside the
 * process is served after the lock is let go.
 */
#include <errno.h>

#include "engine/explain.h"
#include "engine/names.h"
#include "engine/pass.h"

static int explain_post(const struct engine_qp *qp, const char *call, int error,
			const struct complaint *complaint)
{
	if (!explain_is_on(LOG_ERROR))
		return error;
	return explain_call(error, call, "QP 0x%06x in %s: %s (%llu, limit %llu)", qp->qp->number,
			    name_of_state(qp->qp->state), reason_text(complaint->reason),
			    (unsigned long long)complaint->length,
			    (unsigned long long)complaint->limit);
}

struct post_result {
	int error;
	uint32_t posted;	 /* requests before the first refused one */
	struct ibv_send_wr *bad; /* that one */
};

/* The QP's lock is held. */
static struct post_result post_sends(struct engine_qp *qp, struct ibv_send_wr *list,
				     const struct pass *pass)
{
	struct complaint complaint = {0};
	struct post_result result = {0};

	for (; list; list = list->next) {
		result.error = qp_post_send(qp->qp, list, pass->core.copier, &complaint);
		if (result.error) {
			result.bad = list;
			explain_post(qp, "ibv_post_send", result.error, &complaint);
			break;
		}
		result.posted++;
	}
	return result;
}

static struct post_result take_in(struct engine_qp *qp, struct ibv_send_wr *list, bool is_atomic)
{
	struct engine *engine = qp->engine;
	struct pass *pass = pass_begin(engine);
	struct post_result result;

	pthread_mutex_lock(&qp->lock);
	result = post_sends(qp, list, pass);
	if (result.error && is_atomic)
		qp_unpost_sends(qp->qp, result.posted);
	if (qp->link || qp->qp->state == IBV_QPS_ERR)
		run_qp(qp, pass);
	pthread_mutex_unlock(&qp->lock);
	atomic_store_explicit(&engine->last_poll, pass->core.now, memory_order_relaxed);
	pass_end(pass);
	progress_after_send(engine);
	return result;
}

int engine_post_send(struct engine_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
	struct post_result result;

	if (engine_is_inherited(qp->engine)) {
		*bad = list;
		return EIO;
	}
	result = take_in(qp, list, false);
	if (result.error)
		*bad = result.bad;
	return result.error;
}

int engine_post_send_all(struct engine_qp *qp, struct ibv_send_wr *list)
{
	if (engine_is_inherited(qp->engine))
		return EIO;
	return take_in(qp, list, true).error;
}

int engine_post_recv(struct engine_qp *qp, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
	struct complaint complaint = {0};
	int error = 0;

	if (engine_is_inherited(qp->engine)) {
		*bad = list;
		return EIO;
	}
	pthread_mutex_lock(&qp->lock);
	for (; list && !error; list = error ? list : list->next) {
		error = qp_post_recv(qp->qp, list, &complaint);
		if (error)
			*bad = list;
	}
	if (error)
		explain_post(qp, "ibv_post_recv", error, &complaint);
	/* In the error state a receive is flushed at once. */
	if (qp->qp->state == IBV_QPS_ERR) {
		struct pass *pass = pass_begin(qp->engine);

		run_qp(qp, pass);
		pass_end(pass);
	}
	pthread_mutex_unlock(&qp->lock);
	return error;
}
