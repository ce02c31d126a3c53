/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/session.h"

#include <string.h>

#include "base/psn.h"
#include "sim/check_arrivals.h"
#include "sim/check_completion.h"
#include "sim/check_memory.h"
#include "sim/panes.h"
#include "sim/program.h"
#include "sim/shared_receives.h"
#include "sim/upset.h"
#include "sim/windows.h"

/* Flushing needs no network; what is not flushed after this never will be. */
#define FLUSH_NS VBN_SECOND

bool session_expects_remote_errors(const struct session *session)
{
	return session->plan.has_poison || session->has_lost_memory;
}

static bool is_living(const struct endpoint *end)
{
	return end->qp->qp != NULL;
}

static void forget(struct endpoint *end)
{
	memset(end->operations, 0, sizeof(end->operations));
	memset(end->receives, 0, sizeof(end->receives));
	end->posted = end->completed = end->slots_freed = 0;
	end->receives_posted = end->receives_completed = end->consumers_posted = 0;
	end->unsignalled_run = end->posted_in_life = 0;
	end->has_drawn = end->next_is_echo = false;
	end->send_has_failed = end->receive_has_failed = false;
	end->has_posted_bad_receive = end->is_draining = false;
	end->last_wqe_is_told = false;
	end->source_ring.tail = end->signalled_end = end->source_ring.head;
	end->sink_ring.tail = end->sink_ring.head;
}

/* Until then it receives and answers, and raises COMM_EST when it first hears something. */
static void get_ready(struct world *world, void *subject, uint64_t argument)
{
	struct endpoint *end = subject;

	(void)world;
	if (end->session->life != argument || !is_living(end) || end->qp->qp->state != IBV_QPS_RTR)
		return;
	host_qp_to_rts(end->qp, &end->plan->terms);
	program_wake(end);
}

/* Each life has PSNs of its own; the ends' are crosswise the same. */
static void connect(struct session *session)
{
	struct endpoint *first = &session->ends[0], *second = first->peer;

	for (uint32_t i = 0; i < session->end_count; i++) {
		struct endpoint *end = &session->ends[i];
		struct connection_terms *terms = &session->end_plans[i].terms;

		if (session->life > 0)
			terms->sq_psn = (uint32_t)random_next(&end->random) & PSN_MASK;
	}
	session->end_plans[0].terms.rq_psn = second->plan->terms.sq_psn;
	if (first != second)
		session->end_plans[1].terms.rq_psn = first->plan->terms.sq_psn;
	for (uint32_t i = 0; i < session->end_count; i++)
		host_qp_to_rtr(session->ends[i].qp, session->ends[i].peer->qp,
			       &session->ends[i].plan->terms);
	if (!first->plan->stays_in_rtr)
		host_qp_to_rts(first->qp, &first->plan->terms);
	if (first != second && !second->plan->stays_in_rtr)
		world_schedule(session->world, session->world->now + session->plan.rts_ns,
			       get_ready, second, session->life);
}

void session_start(struct session *session)
{
	session->state = SESSION_RUNS;
	session->upset_is_done = session->plan.upset == UPSET_NONE;
	for (uint32_t i = 0; i < session->end_count; i++)
		forget(&session->ends[i]);
	connect(session);
	for (uint32_t i = 0; i < session->end_count; i++)
		if (session->ends[i].arrivals)
			check_arrivals_begin(&session->ends[i]);
	for (uint32_t i = 0; i < session->end_count; i++) {
		windows_begin(&session->ends[i]);
		panes_begin(&session->ends[i]);
		program_wake(&session->ends[i]);
	}
}

static bool has_entry(const struct host_cq *cq, const struct host_qp *qp)
{
	const struct completion_queue *queue = &cq->queue;

	for (uint32_t i = 0; i < queue->count; i++)
		if (queue->entries[(queue->head + i) % queue->capacity].owner == qp)
			return true;
	return false;
}

static bool has_flushed_receives(const struct endpoint *end)
{
	if (end->shared)
		return end->qp->qp->srq_slot == SRQ_NO_SLOT &&
		       !has_entry(end->qp->recv_cq, end->qp);
	return end->receives_completed == end->receives_posted;
}

/* A request that asked for no completion and is done leaves no trace but the QP's count. */
static bool has_flushed(const struct endpoint *end)
{
	const struct qp *qp = end->qp->qp;

	if (!is_living(end))
		return true;
	return qp->send_queue.done == qp->send_queue.posted &&
	       !has_entry(end->qp->send_cq, end->qp) && has_flushed_receives(end);
}

static void expect_flushed(struct world *world, void *subject, uint64_t argument)
{
	struct session *session = subject;

	if (session->state == SESSION_FLUSHES && session->life == argument)
		world_fail(world, "completion", "a QP in ERR does not flush");
}

static void tear(struct world *world, void *subject, uint64_t argument)
{
	struct session *session = subject;

	(void)argument;
	session->state = SESSION_FLUSHES;
	for (uint32_t i = 0; i < session->end_count; i++) {
		struct endpoint *end = &session->ends[i];

		if (is_living(end) && end->qp->qp->state != IBV_QPS_ERR)
			host_qp_set_state(end->qp, IBV_QPS_ERR, false);
	}
	world_schedule(world, world->now + FLUSH_NS, expect_flushed, session, session->life);
	session_look(session);
}

void session_break(struct session *session)
{
	struct world *world = session->world;

	if (session->state != SESSION_RUNS)
		return;
	session->state = SESSION_BREAKS;
	world_schedule(world, world->now + session->plan.grace_ns, tear, session, 0);
}

/* Every message that its sender knows to have arrived has also been received. */
static void check_received(struct endpoint *end)
{
	struct endpoint *receiver = end->peer;
	uint32_t first =
		end->consumers_posted > ENDPOINT_RING ? end->consumers_posted - ENDPOINT_RING : 0;

	if (!is_living(receiver) || !is_living(end) || !endpoint_is_reliable(end))
		return;
	for (uint32_t count = first; count != end->consumers_posted; count++) {
		uint64_t id = end->consumers[count % ENDPOINT_RING].id;
		struct receive *receive = endpoint_receive(receiver, count);

		for (uint32_t i = 0; i < ENDPOINT_RING; i++)
			if (end->operations[i].id == id &&
			    end->operations[i].state == OPERATION_DONE &&
			    receive->state != OPERATION_DONE)
				world_fail(end->world, "payload",
					   "message %llu is said to have arrived and has not",
					   (unsigned long long)id);
	}
}

static void judge(struct session *session)
{
	for (uint32_t i = 0; i < session->end_count; i++) {
		struct endpoint *end = &session->ends[i];

		if (is_living(end))
			check_completion_closed(end);
		panes_check(end);
		/* XRC has none: more may come to an SRQ of a domain through other QPs. */
		if (is_living(end) && end->shared && end->plan->type != IBV_QPT_XRC_RECV &&
		    !end->last_wqe_is_told)
			world_fail(end->world, "completion", "LAST_WQE_REACHED never came");
		check_received(end);
	}
	for (uint32_t i = 0; i < session->end_count; i++)
		check_memory_settle(&session->ends[i]);
	for (uint32_t i = 0; i < session->end_count; i++)
		check_memory_equal_regions(&session->ends[i]);
	upset_judge(session);
}

/* Buffers of receives without success were kept until they were judged. */
static void give_back_receives(struct endpoint *end)
{
	uint32_t first = end->receives_posted > ENDPOINT_RING ? end->receives_posted - ENDPOINT_RING
							      : 0;

	for (uint32_t count = first; end->shared && count != end->receives_posted; count++) {
		const struct receive *receive = endpoint_receive(end, count);

		if (receive->state != OPERATION_DONE)
			shared_receives_give_back(receive);
	}
}

static void rest(struct world *world, void *subject, uint64_t argument)
{
	struct session *session = subject;
	bool has_lost_an_end = false;

	(void)world;
	(void)argument;
	judge(session);
	for (uint32_t i = 0; i < session->end_count; i++) {
		give_back_receives(&session->ends[i]);
		if (is_living(&session->ends[i]))
			host_qp_set_state(session->ends[i].qp, IBV_QPS_RESET, false);
		else
			has_lost_an_end = true;
	}
	session->life++;
	if (session->life < session->plan.lives && !has_lost_an_end)
		session_start(session);
	else
		session->state = SESSION_OVER;
}

static bool has_finished(const struct endpoint *end)
{
	return end->posted_in_life == end->plan->operation_count && end->completed == end->posted &&
	       (!endpoint_is_reliable(end) ||
		end->peer->receives_completed >= end->consumers_posted) &&
	       !end->is_draining;
}

static bool session_has_finished(const struct session *session)
{
	for (uint32_t i = 0; i < session->end_count; i++)
		if (!has_finished(&session->ends[i]))
			return false;
	return true;
}

void session_look(struct session *session)
{
	switch (session->state) {
	case SESSION_RUNS:
		if (upset_is_due(session))
			upset_strike(session);
		if (session->state == SESSION_RUNS && session_has_finished(session))
			session_break(session);
		break;
	case SESSION_FLUSHES:
		for (uint32_t i = 0; i < session->end_count; i++)
			if (!has_flushed(&session->ends[i]))
				return;
		session->state = SESSION_RESTS;
		world_schedule(session->world, session->world->now + session->plan.linger_ns, rest,
			       session, 0);
		break;
	case SESSION_BREAKS:
	case SESSION_RESTS:
	case SESSION_OVER:
		break;
	}
}
