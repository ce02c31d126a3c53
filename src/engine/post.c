/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting. A list is taken in under one hold of the lock, then the QP runs at once, so
 * that the packets leave from the poster's thread; what they bring about inside the
 * process is served after the lock is let go. An acknowledgement that was held for the
 * program's answer leaves with it, in the same batch.
 *
 * Where all of it can be done in the peer's memory right away nothing of that is needed (run_straight()), and
 * little where one packet is all there is to send (run_one_packet()).
 */
#include <errno.h>

#include "engine/ah.h"
#include "engine/explain.h"
#include "engine/fault_guard.h"
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
	bool is_done;		 /* with all that was posted */
};

enum post_form { POST_LIST, POST_ALL_OR_NOTHING, POST_BIND_TYPE_1 };

static int post_one(struct engine_qp *qp, const struct ibv_send_wr *wr, enum post_form form,
		    const struct core *core)
{
	struct complaint complaint = {0};
	int error = qp->ahs ? ah_check(qp, wr) : 0;

	if (error)
		return error;
	if (form == POST_BIND_TYPE_1)
		error = qp_post_bind_type_1(qp->qp, wr, &complaint);
	else
		error = qp_post_send(qp->qp, wr, core->copier, &complaint);
	if (error)
		return explain_post(qp, form == POST_BIND_TYPE_1 ? "ibv_bind_mw" : "ibv_post_send",
				    error, &complaint);
	if (qp->ahs)
		ah_hold(qp, wr);
	return 0;
}

/* An acknowledgement that waits for the program's answer goes along with it, in the usual way. */
static bool goes_straight(const struct engine_qp *qp)
{
	return qp->direct.reach && !qp->told_at;
}

/*
 * The QP's lock is held. What can be done right away is done before the next one is looked at: whoever
 * waits for the first of a list does not wait for the posting of the last.
 */
static struct post_result post_sends(struct engine_qp *qp, struct ibv_send_wr *list,
				     enum post_form form, const struct core *core)
{
	struct post_result result = {.is_done = form == POST_LIST && goes_straight(qp)};

	for (; list; list = list->next) {
		result.error = post_one(qp, list, form, core);
		if (result.error) {
			result.bad = list;
			break;
		}
		result.posted++;
		result.is_done = result.is_done && run_straight(qp, core);
	}
	return result;
}

/*
 * False: the program may have thought for a while before it answered, which takes a look at the clock; with
 * the acknowledgement still waiting it has not.
 */
static bool goes_alone(const struct engine_qp *qp)
{
	return !qp->told_at || qp->ack_place;
}

/*
 * The short ways for what was posted; a list went straight, as far as that goes, while it was posted. The QP's
 * lock is held. True: that was all.
 */
static bool run_shortly(struct engine_qp *qp, enum post_form form, const struct core *core)
{
	if (form != POST_LIST && goes_straight(qp) && run_straight(qp, core))
		return true;
	if (!goes_alone(qp) || !run_one_packet(qp, core))
		return false;
	if (qp->told_at)
		note_answer(qp, true);
	return true;
}

/* The QP's lock is held. */
static void run(struct engine_qp *qp, const struct copier *copier)
{
	struct engine *engine = qp->engine;
	struct pass *pass = pass_begin_with(engine, copier);

	if (qp->told_at)
		note_answer(qp, pass->core.now < qp->told_at + ACK_HOLD_NS);
	if (qp->link || qp->ahs || qp->qp->state == IBV_QPS_ERR)
		run_qp(qp, pass);
	atomic_store_explicit(&engine->last_poll, pass->core.now, memory_order_relaxed);
	pass_end(pass);
}

static struct post_result take_in(struct engine_qp *qp, struct ibv_send_wr *list,
				  enum post_form form)
{
	struct engine *engine = qp->engine;
	vbn_time now = clock_coarse();
	const struct core core = {
		.now = now,
		.memory = &engine->memory,
		.copier = fault_guard_copier(now),
		.holds = &engine->holds,
	};
	struct post_result result;

	brief_lock_take(&qp->lock);
	qp_grant_direct(qp->qp, DIRECT_STEP_BYTES);
	result = post_sends(qp, list, form, &core);
	if (result.error && form == POST_ALL_OR_NOTHING)
		qp_unpost_sends(qp->qp, result.posted);
	result.is_done = result.is_done || run_shortly(qp, form, &core);
	if (!result.is_done) {
		engine_call_begin(engine);
		run(qp, core.copier);
	}
	brief_lock_release(&qp->lock);
	if (result.is_done)
		return result;
	progress_after_send(engine);
	engine_call_end(engine);
	return result;
}

int engine_post_send(struct engine_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
	struct post_result result;

	if (engine_is_inherited(qp->engine)) {
		*bad = list;
		return EIO;
	}
	result = take_in(qp, list, POST_LIST);
	if (result.error)
		*bad = result.bad;
	return result.error;
}

int engine_post_send_all(struct engine_qp *qp, struct ibv_send_wr *list)
{
	if (engine_is_inherited(qp->engine))
		return EIO;
	return take_in(qp, list, POST_ALL_OR_NOTHING).error;
}

int engine_post_bind_type_1(struct engine_qp *qp, const struct engine_mw *mw,
			    struct ibv_send_wr *wr)
{
	if (engine_is_inherited(qp->engine))
		return EIO;
	if (qp->pd->number != mw->pd->number)
		return explain_call(EPERM, "ibv_bind_mw",
				    "the window and QP 0x%06x belong to different PDs",
				    qp->qp->number);
	return take_in(qp, wr, POST_BIND_TYPE_1).error;
}

/* Where the receives of a QP without a queue of its own are posted; NULL: it has one. */
static const char *receives_elsewhere(const struct engine_qp *qp)
{
	if (qp->qp->type == IBV_QPT_XRC_SEND)
		return "is the sending half of an XRC connection and receives nothing";
	if (qp->qp->type == IBV_QPT_XRC_RECV)
		return "receives for the SRQs of its XRC domain; post to those (ibv_post_srq_recv)";
	return qp->srq ? "takes its receives from an SRQ; post them there (ibv_post_srq_recv)"
		       : NULL;
}

static void explain_post_recv(const struct engine_qp *qp, int error,
			      const struct complaint *complaint)
{
	const char *where = receives_elsewhere(qp);

	if (where)
		explain_call(error, "ibv_post_recv", "QP 0x%06x %s", qp->qp->number, where);
	else
		explain_post(qp, "ibv_post_recv", error, complaint);
}

int engine_post_recv(struct engine_qp *qp, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
	struct complaint complaint = {0};
	int error = 0;

	if (engine_is_inherited(qp->engine)) {
		*bad = list;
		return EIO;
	}
	brief_lock_take(&qp->lock);
	for (; list && !error; list = error ? list : list->next) {
		error = qp_post_recv(qp->qp, list, &complaint);
		if (error)
			*bad = list;
	}
	if (error)
		explain_post_recv(qp, error, &complaint);
	/* In the error state a receive is flushed at once. */
	if (qp->qp->state == IBV_QPS_ERR) {
		struct pass *pass = pass_begin(qp->engine);

		run_qp(qp, pass);
		pass_end(pass);
	}
	brief_lock_release(&qp->lock);
	return error;
}
