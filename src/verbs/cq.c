/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues.
 */
#include "verbs/cq.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/explain.h"
#include "verbs/channel.h"
#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/operations.h"
#include "verbs/pd.h"

#define TIMESTAMP_FIELDS \
	(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static int check_create(const char *call, struct ibv_context *context,
			struct ibv_comp_channel *channel, uint32_t vector)
{
	if (channel && channel->context != context)
		return explain_call(EINVAL, call,
				    "the completion channel belongs to another open device");
	if (vector >= (uint32_t)context->num_comp_vectors)
		return explain_call(EINVAL, call,
				    "completion vector %d does not exist; num_comp_vectors is %d",
				    (int)vector, context->num_comp_vectors);
	return 0;
}

static void init(struct cq *cq, struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr)
{
	cq->ibv.context = context;
	cq->ibv.channel = attr->channel;
	cq->ibv.cq_context = attr->cq_context;
	cq->ibv.handle = context_next_handle();
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	pthread_mutex_init(&cq->poll_lock, NULL);
}

static void release(struct cq *cq)
{
	pthread_mutex_destroy(&cq->poll_lock);
	pthread_cond_destroy(&cq->ibv.cond);
	pthread_mutex_destroy(&cq->ibv.mutex);
	free(cq);
}

static int create_in_engine(struct cq *cq, const struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_context *context = cq->ibv.context;
	struct pd *pd = NULL;
	struct engine_cq_attr engine_attr = {
		.capacity = attr->cqe,
		.channel = attr->channel ? channel_of(attr->channel)->events : NULL,
		.async = context_of(context)->async,
		.object = &cq->ibv,
		.has_timestamps = attr->wc_flags & TIMESTAMP_FIELDS,
	};

	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		pd = pd_find("ibv_create_cq_ex", attr->parent_domain);
		if (!pd)
			return -EINVAL;
		engine_attr.pd = pd->engine_pd;
		engine_attr.allocator = pd_allocator(pd);
	}
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS)
		engine_attr.ignores_overrun = attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	return engine_cq_create_from(context_engine(context), &engine_attr, &cq->engine_cq);
}

struct cq *cq_create(const char *call, struct ibv_context *context,
		     const struct ibv_cq_init_attr_ex *attr)
{
	int error = check_create(call, context, attr->channel, attr->comp_vector);
	struct cq *cq;

	if (error) {
		errno = error;
		return NULL;
	}
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return out_of_memory(call);
	init(cq, context, attr);
	error = create_in_engine(cq, attr);
	if (error) {
		release(cq);
		errno = engine_error(call, error);
		return NULL;
	}
	cq->ibv.cqe = (int)engine_cq_capacity(cq->engine_cq);
	if (attr->channel)
		channel_attach(attr->channel);
	context_hold(context);
	return cq;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = (uint32_t)cqe,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = (uint32_t)comp_vector,
	};
	struct cq *cq = cq_create("ibv_create_cq", context, &attr);

	return cq ? &cq->ibv : NULL;
}

EXPORT int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	int error = engine_cq_resize(cq_of(ibv)->engine_cq, (uint32_t)cqe);

	if (error)
		return engine_error("ibv_resize_cq", error);
	ibv->cqe = (int)engine_cq_capacity(cq_of(ibv)->engine_cq);
	return 0;
}

void cq_count_taken(const struct event *event)
{
	struct cq *cq = cq_of(event->object);

	atomic_fetch_add_explicit(&cq->completion_events_taken, 1, memory_order_relaxed);
}

static bool has_unacknowledged(struct cq *cq)
{
	return cq->ibv.comp_events_completed != atomic_load(&cq->completion_events_taken) ||
	       cq->ibv.async_events_completed != atomic_load(&cq->async_events_taken);
}

/*
 * The program may still work with an event that it was given; its acknowledgement
 * says that it no longer does. No event is handed out any more.
 */
static void wait_for_acknowledgements(struct cq *cq)
{
	pthread_mutex_lock(&cq->ibv.mutex);
	if (has_unacknowledged(cq))
		explain_note(LOG_INFO, "ibv_destroy_cq waits until all events of the CQ are "
				       "acknowledged (ibv_ack_cq_events)");
	while (has_unacknowledged(cq))
		pthread_cond_wait(&cq->ibv.cond, &cq->ibv.mutex);
	pthread_mutex_unlock(&cq->ibv.mutex);
}

EXPORT int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct ibv_context *context = ibv->context;
	struct ibv_comp_channel *channel = ibv->channel;
	struct cq *cq = cq_of(ibv);
	int error = engine_cq_destroy(cq->engine_cq);

	if (error)
		return -error;
	if (!context_is_inherited(context))
		wait_for_acknowledgements(cq);
	if (channel)
		channel_detach(channel);
	release(cq);
	context_release(context);
	return 0;
}

int cq_poll(struct ibv_cq *ibv, int count, struct ibv_wc *entries)
{
	int taken = engine_cq_poll(cq_of(ibv)->engine_cq, count, entries);

	return taken < 0 ? -engine_error("ibv_poll_cq", taken) : taken;
}

int cq_modify(struct ibv_cq *ibv, struct ibv_modify_cq_attr *attr)
{
	int error;

	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return explain_call(EINVAL, "ibv_modify_cq",
				    "attr_mask is 0x%x; IBV_CQ_ATTR_MODERATE is all there is",
				    attr->attr_mask);
	error = engine_cq_moderate(cq_of(ibv)->engine_cq, attr->moderate.cq_count,
				   attr->moderate.cq_period);
	return error ? engine_error("ibv_modify_cq", error) : 0;
}

int cq_request_notification(struct ibv_cq *ibv, int solicited_only)
{
	int error = engine_cq_arm(cq_of(ibv)->engine_cq, solicited_only != 0);

	return error ? engine_error("ibv_req_notify_cq", error) : 0;
}
