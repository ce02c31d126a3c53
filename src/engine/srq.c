/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: life, limits, posting, and the lock that all QPs of one share.
 *
 * The lock is held for single calls of the core only, never while completions are pushed:
 * a poller returns slots under its CQ's lock, so that a completion cannot be polled and its
 * SRQ be gone before the slot is back.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine/engine_state.h"
#include "engine/explain.h"
#include "engine/profile.h"
#include "engine/xrc.h"

static struct engine_srq *srq_of(const struct srq *srq)
{
	return (struct engine_srq *)((char *)srq - offsetof(struct engine_srq, srq));
}

void srq_raise_event(struct engine_srq *srq)
{
	struct event event = {.object = srq->object, .type = IBV_EVENT_SRQ_LIMIT_REACHED};

	if (srq_take_event(&srq->srq) && srq->async)
		event_queue_push(srq->async, &event);
}

struct engine_cq *srq_cq_of(const struct engine_qp *qp, const struct completion *completion)
{
	if (completion->srq && srq_of(completion->srq)->cq)
		return srq_of(completion->srq)->cq;
	return completion->is_receive ? qp->recv_cq : qp->send_cq;
}

void srq_leave_locked(struct engine_srq *srq)
{
	srq_raise_event(srq);
	brief_lock_release(srq->lock);
}

void srq_return_slot(struct srq *core, uint32_t slot)
{
	struct engine_srq *srq = srq_of(core);

	brief_lock_take(srq->lock);
	srq_release(&srq->srq, slot);
	brief_lock_release(srq->lock);
}

static int check_limit(const char *call, const char *name, uint32_t value, uint32_t least,
		       uint32_t limit)
{
	if (value >= least && value <= limit)
		return 0;
	return explain_call(-EINVAL, call,
			    "%s is %u and must be %u to %u (ibv_query_device tells the limits)",
			    name, value, least, limit);
}

/* Slots are filled as a whole when they are posted to, so that the bytes need not be cleared. */
static int take_memory(const struct engine_srq *srq, const char *call, uint32_t wr_max,
		       uint32_t sge_max, struct queue_memory *memory)
{
	return queue_memory_take(memory, call, srq->allocator, srq_bytes(wr_max, sge_max),
				 SRQ_ALIGNMENT, QUEUE_MEMORY_SRQ);
}

static int make(struct engine_pd *pd, const struct engine_srq_attr *attr, struct engine_srq **srq)
{
	struct engine_srq *created = calloc(1, sizeof(*created));
	int error;

	if (!created)
		return -ENOMEM;
	created->engine = pd->engine;
	created->pd = pd;
	created->async = attr->async;
	created->object = attr->object;
	created->allocator = attr->allocator;
	error = take_memory(created, "ibv_create_srq", attr->wr_max, attr->sge_max,
			    &created->memory);
	if (error) {
		free(created);
		return error;
	}
	srq_init(&created->srq, created->memory.bytes, attr->wr_max, attr->sge_max, pd->number);
	brief_lock_init(&created->own_lock);
	created->lock = &created->own_lock;
	created->cq = attr->cq;
	if (attr->xrcd && !xrc_add_srq(attr->xrcd, created)) {
		queue_memory_give_back(&created->memory);
		free(created);
		return explain_call(-ENOMEM, "ibv_create_srq_ex", "an XRC domain has only %d SRQs",
				    XRC_SRQS_MAX);
	}
	*srq = created;
	return 0;
}

int engine_srq_create(struct engine_pd *pd, const struct engine_srq_attr *attr,
		      struct engine_srq **srq)
{
	static const char call[] = "ibv_create_srq";
	struct engine *engine = pd->engine;
	const struct profile *profile = profile_of(&engine->settings);
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	error = check_limit(call, "max_wr", attr->wr_max, 1, profile->srq_wr_max);
	if (!error)
		error = check_limit(call, "max_sge", attr->sge_max, 0, profile->sge_max);
	if (error)
		return error;
	if (atomic_fetch_add(&engine->srq_count, 1) >= DEVICE_MAX_SRQ)
		error = explain_call(-ENOMEM, call, "the device has only %d SRQs", DEVICE_MAX_SRQ);
	else
		error = make(pd, attr, srq);
	if (error)
		atomic_fetch_sub(&engine->srq_count, 1);
	else
		atomic_fetch_add(&pd->user_count, 1);
	return error;
}

int engine_srq_destroy(struct engine_srq *srq)
{
	struct engine *engine = srq->engine;

	if (!engine_is_inherited(engine)) {
		if (atomic_load(&srq->user_count))
			return explain_call(-EBUSY, "ibv_destroy_srq",
					    "%u QPs take their receives from the SRQ; destroy them "
					    "first",
					    atomic_load(&srq->user_count));
		if (srq->xrcd && !xrc_withdraw_srq(srq))
			return explain_call(-EBUSY, "ibv_destroy_srq",
					    "a QP is receiving a message for the SRQ; destroy or "
					    "reset the QP first");
		if (srq->async)
			event_queue_purge(srq->async, srq->object);
		brief_lock_fini(&srq->own_lock);
		/* The allocator ends with the PD. */
		queue_memory_give_back(&srq->memory);
		atomic_fetch_sub(&srq->pd->user_count, 1);
		atomic_fetch_sub(&engine->srq_count, 1);
	}
	queue_memory_give_back(&srq->memory);
	free(srq);
	return 0;
}

static int check_modify(const struct engine_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	static const char call[] = "ibv_modify_srq";

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return explain_call(
			-EINVAL, call,
			"srq_attr_mask 0x%x has a bit that is neither IBV_SRQ_MAX_WR nor "
			"IBV_SRQ_LIMIT",
			mask);
	return mask & IBV_SRQ_MAX_WR ? check_limit(call, "max_wr", attr->max_wr, 1,
						   profile_of(&srq->engine->settings)->srq_wr_max)
				     : 0;
}

/* The lock is held. */
static int check_armed_limit(const struct engine_srq *srq, const struct ibv_srq_attr *attr,
			     int mask)
{
	uint32_t wr_max = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->srq.wr_max;
	uint32_t limit = mask & IBV_SRQ_LIMIT ? attr->srq_limit : srq->srq.limit;

	if (limit <= wr_max)
		return 0;
	return explain_call(-EINVAL, "ibv_modify_srq",
			    "srq_limit is %u and the SRQ holds %u receives; the limit must be "
			    "reachable",
			    limit, wr_max);
}

/* The lock is held. *@memory is exchanged for what is to be given back. */
static int resize(struct engine_srq *srq, uint32_t wr_max, struct queue_memory *memory)
{
	void *unused = srq_resize(&srq->srq, memory->bytes, wr_max);

	if (!unused)
		return explain_call(-EINVAL, "ibv_modify_srq",
				    "%u receives are posted or wait for their completion to be "
				    "polled, which is more than max_wr %u",
				    srq->srq.used_count, wr_max);
	if (unused != memory->bytes) {
		struct queue_memory old = srq->memory;

		srq->memory = *memory;
		*memory = old;
	}
	return 0;
}

int engine_srq_modify(struct engine_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	struct queue_memory memory = {0};
	int error;

	if (engine_is_inherited(srq->engine))
		return -EIO;
	error = check_modify(srq, attr, mask);
	if (!error && mask & IBV_SRQ_MAX_WR)
		error = take_memory(srq, "ibv_modify_srq", attr->max_wr, srq->srq.sge_max, &memory);
	if (error)
		return error;
	brief_lock_take(srq->lock);
	error = check_armed_limit(srq, attr, mask);
	if (!error && mask & IBV_SRQ_MAX_WR)
		error = resize(srq, attr->max_wr, &memory);
	if (!error && mask & IBV_SRQ_LIMIT)
		srq_arm(&srq->srq, attr->srq_limit);
	srq_leave_locked(srq);
	queue_memory_give_back(&memory);
	return error;
}

void engine_srq_query(struct engine_srq *srq, struct ibv_srq_attr *attr)
{
	brief_lock_take(srq->lock);
	*attr = (struct ibv_srq_attr){
		.max_wr = srq->srq.wr_max,
		.max_sge = srq->srq.sge_max,
		.srq_limit = srq->srq.limit,
	};
	brief_lock_release(srq->lock);
}

int engine_srq_post(struct engine_srq *srq, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
	struct complaint complaint = {0};
	int error = 0;

	if (engine_is_inherited(srq->engine)) {
		*bad = list;
		return EIO;
	}
	brief_lock_take(srq->lock);
	for (; list && !error; list = error ? list : list->next) {
		error = srq_post(&srq->srq, list, &complaint);
		if (error)
			*bad = list;
	}
	brief_lock_release(srq->lock);
	if (error && explain_is_on(LOG_ERROR))
		explain_call(error, "ibv_post_srq_recv", "%s (%llu, limit %llu)",
			     reason_text(complaint.reason), (unsigned long long)complaint.length,
			     (unsigned long long)complaint.limit);
	return error;
}
