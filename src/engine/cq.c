/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "engine/engine_state.h"
#include "engine/explain.h"

#define POLITE_AFTER_NS (50 * VBN_MICROSECOND)

int engine_cq_create(struct engine *engine, uint32_t capacity, struct event_queue *channel,
		     struct event_queue *async, void *object, struct engine_cq **cq)
{
	struct engine_cq *created;
	struct cq_entry *entries;

	if (engine_is_inherited(engine))
		return -EIO;
	if (!capacity || capacity > DEVICE_MAX_CQE)
		return explain_call(-EINVAL, "ibv_create_cq", "cqe is %u and must be 1 to %d",
				    capacity, DEVICE_MAX_CQE);
	if (atomic_fetch_add(&engine->cq_count, 1) >= DEVICE_MAX_CQ) {
		atomic_fetch_sub(&engine->cq_count, 1);
		return explain_call(-ENOMEM, "ibv_create_cq", "the device has only %d CQs",
				    DEVICE_MAX_CQ);
	}
	created = calloc(1, sizeof(*created));
	entries = malloc((size_t)capacity * sizeof(*entries));
	if (!created || !entries) {
		free(created);
		free(entries);
		atomic_fetch_sub(&engine->cq_count, 1);
		return -ENOMEM;
	}
	created->engine = engine;
	created->channel = channel;
	created->async = async;
	created->object = object;
	completion_queue_init(&created->queue, entries, capacity);
	pthread_mutex_init(&created->lock, NULL);
	*cq = created;
	return 0;
}

int engine_cq_destroy(struct engine_cq *cq)
{
	struct engine *engine = cq->engine;

	if (!engine_is_inherited(engine)) {
		if (atomic_load(&cq->user_count))
			return explain_call(-EBUSY, "ibv_destroy_cq",
					    "the CQ serves %u queues of QPs; destroy the QPs first",
					    atomic_load(&cq->user_count));
		if (cq->channel)
			event_queue_purge(cq->channel, cq->object);
		if (cq->async)
			event_queue_purge(cq->async, cq->object);
		pthread_mutex_destroy(&cq->lock);
		atomic_fetch_sub(&engine->cq_count, 1);
	}
	free(cq->queue.entries);
	free(cq);
	return 0;
}

int engine_cq_resize(struct engine_cq *cq, uint32_t capacity)
{
	struct cq_entry *entries, *old;

	if (engine_is_inherited(cq->engine))
		return -EIO;
	if (!capacity || capacity > DEVICE_MAX_CQE)
		return explain_call(-EINVAL, "ibv_resize_cq", "cqe is %u and must be 1 to %d",
				    capacity, DEVICE_MAX_CQE);
	entries = malloc((size_t)capacity * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	pthread_mutex_lock(&cq->lock);
	old = completion_queue_resize(&cq->queue, entries, capacity);
	pthread_mutex_unlock(&cq->lock);
	if (!old) {
		free(entries);
		return explain_call(-EINVAL, "ibv_resize_cq",
				    "more completions are queued than %u; poll them first",
				    capacity);
	}
	free(old);
	return 0;
}

uint32_t engine_cq_capacity(const struct engine_cq *cq)
{
	return cq->queue.capacity;
}

static void fill_wc(const struct cq_entry *entry, struct ibv_wc *wc)
{
	const struct completion *completion = &entry->completion;

	*wc = (struct ibv_wc){
		.wr_id = completion->wr_id,
		.status = completion->status,
		.opcode = completion->opcode,
		.vendor_err = completion->complaint.reason,
		.byte_len = completion->byte_len,
		.imm_data = completion->immediate,
		.qp_num = entry->qpn,
		.src_qp = completion->source_qpn,
		.wc_flags = completion->wc_flags,
	};
}

/* The entry's slot, and those of unsignalled requests before it, are free again. */
static void return_slots(const struct cq_entry *entry)
{
	struct engine_qp *qp = entry->owner;
	struct work_queue *queue = entry->completion.is_receive ? &qp->qp->recv_queue
								: &qp->qp->send_queue;

	atomic_store_explicit(&queue->released, entry->completion.slots_released,
			      memory_order_release);
}

static int take(struct engine_cq *cq, int count, struct ibv_wc *entries)
{
	struct event notify = {.object = cq->object};
	int taken = 0;

	pthread_mutex_lock(&cq->lock);
	while (taken < count) {
		const struct cq_entry *entry = completion_queue_peek(&cq->queue);

		if (!entry)
			break;
		fill_wc(entry, &entries[taken++]);
		return_slots(entry);
		completion_queue_pop(&cq->queue);
	}
	if (taken && completion_queue_left_behind(&cq->queue) && cq->channel)
		event_queue_push(cq->channel, &notify);
	pthread_mutex_unlock(&cq->lock);
	return taken;
}

/*
 * A poller that finds nothing for a while lets others run: on a busy machine the peer may be
 * waiting for this very core, and the scheduler would give it only when the time slice ends.
 * An idle machine loses a system call in 50 us of waiting, a busy connection none.
 */
static void wait_politely(struct engine_cq *cq, vbn_time now)
{
	vbn_time since = atomic_load_explicit(&cq->idle_since, memory_order_relaxed);

	if (since && now < since + POLITE_AFTER_NS)
		return;
	atomic_store_explicit(&cq->idle_since, now, memory_order_relaxed);
	if (since)
		sched_yield();
}

int engine_cq_poll(struct engine_cq *cq, int count, struct ibv_wc *entries)
{
	struct engine *engine = cq->engine;
	vbn_time now;
	int taken;

	if (engine_is_inherited(engine))
		return -EIO;
	taken = take(cq, count, entries);
	if (taken || count <= 0)
		return taken;
	now = clock_now();
	atomic_store_explicit(&engine->last_poll, now, memory_order_relaxed);
	if (!progress(engine, false)) {
		wait_politely(cq, now);
		return 0;
	}
	atomic_store_explicit(&cq->idle_since, 0, memory_order_relaxed);
	return take(cq, count, entries);
}

int engine_cq_arm(struct engine_cq *cq, bool solicited_only)
{
	if (engine_is_inherited(cq->engine))
		return -EIO;
	pthread_mutex_lock(&cq->lock);
	completion_queue_arm(&cq->queue, solicited_only);
	pthread_mutex_unlock(&cq->lock);
	if (cq->channel) {
		helper_start(cq->engine);
		helper_take_over(cq->engine);
	}
	return 0;
}
