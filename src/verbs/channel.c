/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels and their events.
 */
#include "verbs/channel.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/deputy.h"
#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/export.h"

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *channel;

	if (context_is_inherited(context)) {
		errno = inherited_object("ibv_create_comp_channel");
		return NULL;
	}
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return out_of_memory("ibv_create_comp_channel");
	channel->events = event_queue_create();
	if (!channel->events) {
		int error = explain_call(errno, "ibv_create_comp_channel",
					 "no descriptor for its events; raise the limit on open "
					 "files (ulimit -n)");

		free(channel);
		errno = error;
		return NULL;
	}
	channel->ibv.context = context;
	channel->ibv.fd = event_queue_descriptor(channel->events);
	context_hold(context);
	return &channel->ibv;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct ibv_context *context = ibv->context;
	int users;

	pthread_mutex_lock(&context->mutex);
	users = ibv->refcnt;
	pthread_mutex_unlock(&context->mutex);
	if (users)
		return explain_call(EBUSY, "ibv_destroy_comp_channel",
				    "%d completion queues use the channel; destroy them first",
				    users);
	/* In a child of fork nobody waits: its threads are the parent's. */
	if (!context_is_inherited(context))
		deputy_dismiss(context_engine(context), channel_of(ibv)->events);
	event_queue_destroy(channel_of(ibv)->events);
	free(channel_of(ibv));
	context_release(context);
	return 0;
}

void channel_attach(struct ibv_comp_channel *ibv)
{
	pthread_mutex_lock(&ibv->context->mutex);
	ibv->refcnt++;
	pthread_mutex_unlock(&ibv->context->mutex);
}

void channel_detach(struct ibv_comp_channel *ibv)
{
	pthread_mutex_lock(&ibv->context->mutex);
	ibv->refcnt--;
	pthread_mutex_unlock(&ibv->context->mutex);
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct event event;

	if (context_is_inherited(channel->context)) {
		errno = inherited_object("ibv_get_cq_event");
		return -1;
	}
	if (deputy_pop(context_engine(channel->context), channel_of(channel)->events, &event,
		       cq_count_taken) != 0)
		return -1;
	*cq = event.object;
	*cq_context = (*cq)->cq_context;
	return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	if (!nevents)
		return;
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}
