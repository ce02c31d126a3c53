/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/shared_receives.h"

#include <errno.h>
#include <stdlib.h>

#include "base/assert.h"
#include "transport/srq.h"

#define NAME "completion"
/* Buffers that ends may keep for a while, and the SRQ is full all the same. */
#define KEPT_MAX 8
/* Of a full SRQ: so often it is tried all the same. */
#define TRIES_FULL 8
#define PD_SHARED 2000

uint32_t shared_receives_bytes(const struct shared_plan *plan)
{
	return (plan->depth + KEPT_MAX) * plan->buffer_bytes;
}

static void init(struct shared_receives *shared, struct host *host, const struct shared_plan *plan,
		 uint32_t pd)
{
	*shared = (struct shared_receives){
		.host = host, .plan = *plan, .buffer_count = plan->depth + KEPT_MAX};
	shared->buffers = calloc(shared->buffer_count, sizeof(*shared->buffers));
	VBN_ASSERT(shared->buffers);
	shared->random.state = random_next(&host->world->random);
	shared->sink =
		host_add_region(host, shared_receives_bytes(plan), pd, IBV_ACCESS_LOCAL_WRITE);
}

void shared_receives_init(struct shared_receives *shared, struct host *host,
			  const struct shared_plan *plan)
{
	init(shared, host, plan, PD_SHARED);
	host_add_srq(host, plan->depth, PD_SHARED);
	shared->srq = &host->srq;
}

void shared_receives_init_xrc(struct shared_receives *shared, struct host *host,
			      const struct shared_plan *plan, uint32_t pd)
{
	init(shared, host, plan, pd);
	shared->srq = host_add_xrc_srq(host, plan->depth, pd);
}

void shared_receives_fini(struct shared_receives *shared)
{
	free(shared->buffers);
}

/* --- posting --- */

static struct shared_buffer *free_buffer(struct shared_receives *shared)
{
	for (uint32_t i = 0; i < shared->buffer_count; i++)
		if (shared->buffers[i].state == SHARED_FREE)
			return &shared->buffers[i];
	return NULL;
}

static void check_post(struct shared_receives *shared, int error)
{
	bool is_full = shared->used_count >= shared->plan.depth;

	if (error != (is_full ? ENOMEM : 0))
		world_fail(shared->host->world, NAME,
			   "posting to an SRQ returns %d, %u of %u slots taken", error,
			   shared->used_count, shared->plan.depth);
}

static bool post(struct shared_receives *shared)
{
	struct shared_buffer *buffer = free_buffer(shared);
	bool is_full = shared->used_count >= shared->plan.depth;
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
	int error;

	if (!buffer || (is_full && random_below(&shared->random, TRIES_FULL)))
		return false;
	*buffer = (struct shared_buffer){
		.receive = {.id = ++shared->ids_ever,
			    .shared = shared,
			    .region = shared->sink,
			    .iova = shared->sink->iova + (uint64_t)(buffer - shared->buffers) *
								 shared->plan.buffer_bytes,
			    .length = shared->plan.buffer_bytes}};
	wr.wr_id = buffer->receive.id;
	sge = (struct ibv_sge){buffer->receive.iova, buffer->receive.length, shared->sink->key};
	error = srq_post(shared->srq, &wr, NULL);
	check_post(shared, error);
	if (error)
		return false;
	buffer->state = SHARED_POSTED;
	shared->used_count++;
	return true;
}

static void step(struct world *world, void *subject, uint64_t argument)
{
	struct shared_receives *shared = subject;

	(void)world;
	(void)argument;
	shared->step_is_scheduled = false;
	for (uint32_t i = 0; i < shared->plan.burst; i++)
		if (!post(shared))
			return;
	shared_receives_wake(shared, shared->plan.think_ns);
}

void shared_receives_wake(struct shared_receives *shared, uint64_t delay_ns)
{
	struct world *world = shared->host->world;

	if (shared->step_is_scheduled)
		return;
	shared->step_is_scheduled = true;
	world_schedule(world, world->now + delay_ns, step, shared, 0);
}

/* --- who has which --- */

static struct shared_buffer *posted_buffer(struct shared_receives *shared, uint64_t id)
{
	for (uint32_t i = 0; i < shared->buffer_count; i++)
		if (shared->buffers[i].state == SHARED_POSTED &&
		    shared->buffers[i].receive.id == id)
			return &shared->buffers[i];
	return NULL;
}

struct shared_receives *shared_receives_of(const struct endpoint *end, const struct srq *srq)
{
	for (uint32_t i = 0; i < end->shared_count; i++)
		if (end->shared[i].srq == srq)
			return &end->shared[i];
	return NULL;
}

const struct receive *shared_receives_find(struct shared_receives *shared, uint64_t id)
{
	const struct shared_buffer *buffer = posted_buffer(shared, id);

	return buffer ? &buffer->receive : NULL;
}

static bool is_taken(const struct shared_receives *shared, uint64_t id)
{
	const struct host *host = shared->host;

	for (uint32_t i = 0; i < host->qp_count; i++) {
		const struct qp *qp = host->qps[i].qp;

		if (qp && qp->srq == shared->srq && qp->srq_slot != SRQ_NO_SLOT &&
		    srq_wqe_at(shared->srq, qp->srq_slot)->wr_id == id)
			return true;
	}
	return false;
}

/* What was posted before it has completed as well, or is taken by another QP. */
static void check_order(struct shared_receives *shared, uint64_t id)
{
	for (uint32_t i = 0; i < shared->buffer_count; i++) {
		const struct shared_buffer *older = &shared->buffers[i];

		if (older->state == SHARED_POSTED && older->receive.id < id &&
		    !older->is_completed && !is_taken(shared, older->receive.id))
			world_fail(shared->host->world, NAME,
				   "receive %llu of an SRQ is taken before %llu",
				   (unsigned long long)id, (unsigned long long)older->receive.id);
	}
}

static void completed(void *context, struct host_qp *qp, const struct completion *completion)
{
	struct endpoint *end = qp->program;
	struct shared_receives *shared = shared_receives_of(end, completion->srq);
	struct shared_buffer *buffer;

	(void)context;
	if (!completion->is_receive || !end->shared)
		return;
	buffer = shared ? posted_buffer(shared, completion->wr_id) : NULL;
	if (!buffer || buffer->is_completed) {
		world_fail(end->world, NAME, "receive %llu of an SRQ completes and is not posted",
			   (unsigned long long)completion->wr_id);
		return;
	}
	buffer->is_completed = true;
	check_order(shared, completion->wr_id);
}

void shared_receives_attach(struct world *world)
{
	world_observe(world, world)->completed = completed;
}

bool shared_receives_hand_over(struct shared_receives *shared, struct endpoint *end, uint64_t id)
{
	struct shared_buffer *buffer = posted_buffer(shared, id);

	if (!buffer)
		return false;
	buffer->state = SHARED_WITH_END;
	shared->used_count--;
	*endpoint_receive(end, end->receives_posted++) = buffer->receive;
	return true;
}

void shared_receives_hand_over_all(struct endpoint *end)
{
	const struct completion_queue *queue = &end->qp->recv_cq->queue;
	const struct qp *qp = end->qp->qp;

	for (uint32_t i = 0; i < queue->count; i++) {
		const struct cq_entry *entry = &queue->entries[(queue->head + i) % queue->capacity];

		if (entry->owner == end->qp && entry->is_receive)
			shared_receives_hand_over(shared_receives_of(end, entry->srq), end,
						  entry->wr_id);
	}
	if (qp->srq_slot != SRQ_NO_SLOT)
		shared_receives_hand_over(shared_receives_of(end, qp->srq), end,
					  srq_wqe_at(qp->srq, qp->srq_slot)->wr_id);
}

void shared_receives_give_back(const struct receive *receive)
{
	struct shared_receives *shared = receive->shared;
	uint64_t offset = receive->iova - shared->sink->iova;

	shared->buffers[offset / shared->plan.buffer_bytes].state = SHARED_FREE;
	shared_receives_wake(shared, shared->plan.think_ns);
}
