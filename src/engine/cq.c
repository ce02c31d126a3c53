/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "engine/engine_state.h"
#include "engine/explain.h"
#include "engine/profile.h"

#define POLITE_AFTER_NS (50 * VBN_MICROSECOND)
/* A yield that nobody was waiting for is one system call. */
#define LONG_YIELD_NS (10 * VBN_MICROSECOND)
/* A sleep of an instant takes 60 us. */
#define STAY_NS (2 * VBN_MILLISECOND)

static int check_capacity(const char *call, const struct engine *engine, uint32_t capacity)
{
	uint32_t limit = profile_of(&engine->settings)->cqe_max;

	if (capacity && capacity <= limit)
		return 0;
	return explain_call(-EINVAL, call, "cqe is %u and must be 1 to %u", capacity, limit);
}

static int take_entries(struct queue_memory *memory, const char *call,
			const struct queue_allocator *allocator, uint32_t capacity)
{
	return queue_memory_take(memory, call, allocator,
				 (size_t)capacity * sizeof(struct cq_entry), _Alignof(max_align_t),
				 QUEUE_MEMORY_CQ);
}

static struct engine_cq *make(struct engine *engine, const struct engine_cq_attr *attr, int *error)
{
	struct engine_cq *cq = calloc(1, sizeof(*cq));

	*error = cq ? take_entries(&cq->memory, "ibv_create_cq", attr->allocator, attr->capacity)
		    : -ENOMEM;
	if (*error) {
		free(cq);
		return NULL;
	}
	cq->engine = engine;
	cq->channel = attr->channel;
	cq->async = attr->async;
	cq->object = attr->object;
	cq->pd = attr->pd;
	cq->allocator = attr->allocator;
	cq->ignores_overrun = attr->ignores_overrun;
	cq->has_timestamps = attr->has_timestamps;
	completion_queue_init(&cq->queue, cq->memory.bytes, attr->capacity);
	brief_lock_init(&cq->lock);
	return cq;
}

int engine_cq_create_from(struct engine *engine, const struct engine_cq_attr *attr,
			  struct engine_cq **cq)
{
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	error = check_capacity("ibv_create_cq", engine, attr->capacity);
	if (error)
		return error;
	if (atomic_fetch_add(&engine->cq_count, 1) >= DEVICE_MAX_CQ) {
		atomic_fetch_sub(&engine->cq_count, 1);
		return explain_call(-ENOMEM, "ibv_create_cq", "the device has only %d CQs",
				    DEVICE_MAX_CQ);
	}
	*cq = make(engine, attr, &error);
	if (!*cq)
		atomic_fetch_sub(&engine->cq_count, 1);
	else if (attr->pd)
		atomic_fetch_add(&attr->pd->user_count, 1);
	return error;
}

int engine_cq_create(struct engine *engine, uint32_t capacity, struct event_queue *channel,
		     struct event_queue *async, void *object, struct engine_cq **cq)
{
	struct engine_cq_attr attr = {
		.capacity = capacity, .channel = channel, .async = async, .object = object};

	return engine_cq_create_from(engine, &attr, cq);
}

/* Those who found it by its timer are done with it. */
static void unset_hold(struct engine_cq *cq)
{
	timers_set(&cq->engine->held_events, &cq->hold_timer, VBN_TIME_NEVER);
	while (atomic_load(&cq->pin_count))
		sched_yield();
}

int engine_cq_destroy(struct engine_cq *cq)
{
	struct engine *engine = cq->engine;

	if (!engine_is_inherited(engine)) {
		if (atomic_load(&cq->user_count))
			return explain_call(-EBUSY, "ibv_destroy_cq",
					    "the CQ serves %u queues of QPs; destroy the QPs first",
					    atomic_load(&cq->user_count));
		unset_hold(cq);
		if (cq->channel)
			event_queue_purge(cq->channel, cq->object);
		if (cq->async)
			event_queue_purge(cq->async, cq->object);
		brief_lock_fini(&cq->lock);
		atomic_fetch_sub(&engine->cq_count, 1);
		/* The allocator ends with the PD. */
		queue_memory_give_back(&cq->memory);
		if (cq->pd)
			atomic_fetch_sub(&cq->pd->user_count, 1);
	}
	queue_memory_give_back(&cq->memory);
	free(cq);
	return 0;
}

int engine_cq_resize(struct engine_cq *cq, uint32_t capacity)
{
	struct queue_memory unused;
	bool fits;
	int error;

	if (engine_is_inherited(cq->engine))
		return -EIO;
	error = check_capacity("ibv_resize_cq", cq->engine, capacity);
	if (error)
		return error;
	error = take_entries(&unused, "ibv_resize_cq", cq->allocator, capacity);
	if (error)
		return error;
	brief_lock_take(&cq->lock);
	fits = completion_queue_resize(&cq->queue, unused.bytes, capacity) != NULL;
	if (fits) {
		struct queue_memory old = cq->memory;

		cq->memory = unused;
		unused = old;
	}
	brief_lock_release(&cq->lock);
	queue_memory_give_back(&unused);
	if (!fits)
		return explain_call(-EINVAL, "ibv_resize_cq",
				    "more completions are queued than %u; poll them first",
				    capacity);
	return 0;
}

uint32_t engine_cq_capacity(const struct engine_cq *cq)
{
	return cq->queue.capacity;
}

static void fill_wc(const struct cq_entry *entry, struct ibv_wc *wc)
{
	*wc = (struct ibv_wc){
		.wr_id = entry->wr_id,
		.status = (enum ibv_wc_status)entry->status,
		.opcode = (enum ibv_wc_opcode)entry->opcode,
		.vendor_err = entry->reason,
		.byte_len = entry->byte_len,
		.imm_data = entry->immediate,
		.qp_num = entry->qpn,
		.src_qp = entry->source_qpn,
		.slid = entry->source_lid,
		.wc_flags = entry->wc_flags,
	};
}

/* The entry's slot, and those of unsignalled requests before it, are free again. */
static void return_slots(const struct cq_entry *entry)
{
	struct qp *qp = ((struct engine_qp *)entry->owner)->qp;
	struct work_queue *queue = entry->is_receive ? &qp->recv_queue : &qp->send_queue;

	if (entry->srq)
		srq_return_slot(entry->srq, entry->slot);
	else
		atomic_store_explicit(&queue->released, entry->slot, memory_order_release);
}

/* The lock is held, and the number of entries has changed. */
static void show_count(struct engine_cq *cq)
{
	atomic_store_explicit(&cq->shown_count, cq->queue.count, memory_order_relaxed);
}

void cq_purge(struct engine_cq *cq, const struct engine_qp *qp)
{
	brief_lock_take(&cq->lock);
	completion_queue_purge(&cq->queue, qp, return_slots);
	show_count(cq);
	brief_lock_release(&cq->lock);
}

void cq_purge_srq(struct engine_cq *cq, const struct engine_srq *srq)
{
	brief_lock_take(&cq->lock);
	completion_queue_purge_srq(&cq->queue, &srq->srq, return_slots);
	show_count(cq);
	brief_lock_release(&cq->lock);
}

/* The CQ's lock is held. False: it is empty. */
static bool take_oldest(struct engine_cq *cq, struct ibv_wc *wc, uint64_t *timestamp_ns)
{
	const struct cq_entry *entry = completion_queue_peek(&cq->queue);

	if (!entry)
		return false;
	fill_wc(entry, wc);
	if (timestamp_ns)
		*timestamp_ns = entry->timestamp_ns;
	return_slots(entry);
	completion_queue_pop(&cq->queue);
	return true;
}

/* Without the lock; what another thread has just put there is found the next time. */
static bool looks_empty(const struct engine_cq *cq)
{
	return atomic_load_explicit(&cq->shown_count, memory_order_relaxed) == 0;
}

static void raise_event(struct engine_cq *cq)
{
	struct event notify = {.object = cq->object};

	if (cq->channel)
		event_queue_push(cq->channel, &notify);
}

/* The CQ's lock is held, and the program stops polling for now. */
static void tell_left_behind(struct engine_cq *cq)
{
	if (completion_queue_left_behind(&cq->queue))
		raise_event(cq);
}

/* After @taken that the caller has already. */
static int take(struct engine_cq *cq, int taken, int count, struct ibv_wc *entries)
{
	if (looks_empty(cq))
		return taken;
	brief_lock_take(&cq->lock);
	while (taken < count && take_oldest(cq, &entries[taken], NULL))
		taken++;
	show_count(cq);
	if (taken)
		tell_left_behind(cq);
	brief_lock_release(&cq->lock);
	return taken;
}

static bool take_one(struct engine_cq *cq, struct engine_completion *completion)
{
	bool is_taken;

	if (looks_empty(cq))
		return false;
	brief_lock_take(&cq->lock);
	is_taken = take_oldest(cq, &completion->wc, &completion->timestamp_ns);
	show_count(cq);
	brief_lock_release(&cq->lock);
	return is_taken;
}

/* The CQ's lock is held. */
static void hold_event(struct engine_cq *cq, vbn_time since)
{
	vbn_time until = vbn_time_add(since, cq->hold_ns);

	timers_set(&cq->engine->held_events, &cq->hold_timer, until);
	helper_notice(cq->engine, until);
}

static struct engine_cq *cq_of_timer(struct timer *timer)
{
	return (struct engine_cq *)((char *)timer - offsetof(struct engine_cq, hold_timer));
}

static bool pin_held(struct timer *timer)
{
	atomic_fetch_add(&cq_of_timer(timer)->pin_count, 1);
	return true;
}

void cq_serve_held_events(struct engine *engine, vbn_time now)
{
	struct timer *timer;

	while ((timer = timers_pop(&engine->held_events, now, pin_held)) != NULL) {
		struct engine_cq *cq = cq_of_timer(timer);

		brief_lock_take(&cq->lock);
		if (completion_queue_hold_ends(&cq->queue))
			raise_event(cq);
		brief_lock_release(&cq->lock);
		atomic_fetch_sub(&cq->pin_count, 1);
	}
}

int engine_cq_moderate(struct engine_cq *cq, uint32_t count, uint32_t period_us)
{
	struct engine *engine = cq->engine;

	if (engine_is_inherited(engine))
		return -EIO;
	if (!timers_reserve(&engine->held_events, atomic_load(&engine->cq_count)))
		return explain_call(-ENOMEM, "ibv_modify_cq", "the process has no memory left");
	brief_lock_take(&cq->lock);
	cq->hold_ns = period_us * VBN_MICROSECOND;
	if (completion_queue_moderate(&cq->queue, period_us ? count : 0))
		raise_event(cq);
	brief_lock_release(&cq->lock);
	return 0;
}

/* Two threads at work may have asked for the time in the other order. */
static void stamp(struct engine_cq *cq, struct cq_entry *entry)
{
	if (entry->timestamp_ns < cq->last_stamp)
		entry->timestamp_ns = cq->last_stamp;
	cq->last_stamp = entry->timestamp_ns;
}

bool cq_give(struct engine_cq *cq, struct cq_entry *entry, struct poll_room *room)
{
	const struct completion_queue *queue = &cq->queue;

	if (room->taken == room->count || queue->count || queue->arm != CQ_NOT_ARMED ||
	    queue->has_overrun)
		return false;
	stamp(cq, entry);
	fill_wc(entry, &room->entries[room->taken++]);
	return_slots(entry);
	return true;
}

enum cq_push_result cq_push(struct engine_cq *cq, struct cq_entry *entry)
{
	enum cq_push_result result;

	stamp(cq, entry);
	if (cq->ignores_overrun && cq->queue.count == cq->queue.capacity) {
		return_slots(completion_queue_peek(&cq->queue));
		completion_queue_pop(&cq->queue);
	}
	result = completion_queue_push(&cq->queue, entry);
	show_count(cq);
	if (result != CQ_PUSHED_HOLD)
		return result;
	hold_event(cq, clock_now());
	return CQ_PUSHED;
}

/*
 * Two programs that poll, started one after the other, may find themselves on one core, and since
 * neither sleeps, the scheduler leaves them there for a hundred milliseconds and more while another
 * core is nearly idle. Who sleeps is put on an idle core when it wakes: so a poller whose yield has
 * let somebody else run sleeps an instant the next time, seldom enough that it costs little
 * where no core is idle.
 */
static void give_way(struct engine_cq *cq)
{
	const struct timespec instant = {.tv_nsec = 1};
	vbn_time now = clock_now();

	if (atomic_load_explicit(&cq->shares_core, memory_order_relaxed) &&
	    now >= atomic_load_explicit(&cq->stays_until, memory_order_relaxed)) {
		nanosleep(&instant, NULL);
		atomic_store_explicit(&cq->shares_core, false, memory_order_relaxed);
		atomic_store_explicit(&cq->stays_until, vbn_time_add(now, STAY_NS),
				      memory_order_relaxed);
		return;
	}
	sched_yield();
	atomic_store_explicit(&cq->shares_core, clock_now() > vbn_time_add(now, LONG_YIELD_NS),
			      memory_order_relaxed);
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
		give_way(cq);
}

/* Does the NIC's work for one who polls. False: there was none. */
static bool work(struct engine_cq *cq, struct poll_room *room)
{
	struct engine *engine = cq->engine;
	struct audience audience = {.cq = cq, .room = room};
	bool has_found;

	engine_call_begin(engine);
	has_found = progress_rings(engine, &audience);
	if (!has_found && progress_is_due(engine)) {
		audience.now = clock_now();
		atomic_store_explicit(&engine->last_poll, audience.now, memory_order_relaxed);
		has_found = progress(engine, false, &audience);
	}
	engine_call_end(engine);
	if (has_found)
		atomic_store_explicit(&cq->idle_since, 0, memory_order_relaxed);
	else if (audience.now)
		wait_politely(cq, audience.now);
	return has_found;
}

int engine_cq_poll(struct engine_cq *cq, int count, struct ibv_wc *entries)
{
	struct poll_room room = {.entries = entries, .count = count};
	int taken;

	if (engine_is_inherited(cq->engine))
		return -EIO;
	taken = take(cq, 0, count, entries);
	if (taken || count <= 0)
		return taken;
	if (!work(cq, &room) && !room.taken)
		return 0;
	return take(cq, room.taken, count, entries);
}

int engine_cq_take(struct engine_cq *cq, bool works, struct engine_completion *completion)
{
	if (engine_is_inherited(cq->engine))
		return -EIO;
	if (take_one(cq, completion))
		return 1;
	return works && work(cq, NULL) && take_one(cq, completion);
}

void engine_cq_stop_taking(struct engine_cq *cq)
{
	brief_lock_take(&cq->lock);
	tell_left_behind(cq);
	brief_lock_release(&cq->lock);
}

int engine_cq_arm(struct engine_cq *cq, bool solicited_only)
{
	if (engine_is_inherited(cq->engine))
		return -EIO;
	brief_lock_take(&cq->lock);
	completion_queue_arm(&cq->queue, solicited_only);
	brief_lock_release(&cq->lock);
	if (cq->channel) {
		helper_start(cq->engine);
		/* Who is going to block works then (deputy.h), and until then has a lease. */
		if (!event_queue_is_awaited(cq->channel))
			helper_take_over(cq->engine);
	}
	return 0;
}
