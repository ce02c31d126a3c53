/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The face's side of a completion queue, with room for the extended form.
 */
#ifndef VBN_VERBS_CQ_H
#define VBN_VERBS_CQ_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

#include "engine/engine.h"

#define EXTENDED_CQ_ROOM 512

struct cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
		char room[EXTENDED_CQ_ROOM];
	};
	struct engine_cq *engine_cq;
	/* The extended way to poll (cq_ex.c), unused in a CQ made without it. */
	pthread_mutex_t poll_lock; /* from the start of polling to its end */
	_Atomic pthread_t poller;  /* who holds it; 0: nobody */
	bool is_single_threaded;   /* the program promised it; the lock is left out */
	bool is_dry;		   /* this polling found nothing more, last time */
	struct engine_completion current;
	/* Events handed to the program; compared with those it acknowledged. */
	atomic_uint completion_events_taken;
	atomic_uint async_events_taken;
};

_Static_assert(sizeof(struct ibv_cq_ex) <= EXTENDED_CQ_ROOM,
	       "the extended CQ has outgrown its room");

static inline struct cq *cq_of(struct ibv_cq *ibv)
{
	return (struct cq *)ibv;
}

/*
 * A CQ from attributes that were checked but for channel and vector. NULL with errno, and a
 * sentence for @call.
 */
struct cq *cq_create(const char *call, struct ibv_context *context,
		     const struct ibv_cq_init_attr_ex *attr);

/* For event_queue_pop() of a channel. */
void cq_count_taken(const struct event *event);

#endif
