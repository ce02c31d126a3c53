/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The face's side of a completion queue, with room for the extended form.
 */
#ifndef VBN_VERBS_CQ_H
#define VBN_VERBS_CQ_H

#include <stdatomic.h>

#include <infiniband/verbs.h>

#include "engine/engine.h"

struct cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
	};
	struct engine_cq *engine_cq;
	/* Events handed to the program; compared with those it acknowledged. */
	atomic_uint completion_events_taken;
	atomic_uint async_events_taken;
};

static inline struct cq *cq_of(struct ibv_cq *ibv)
{
	return (struct cq *)ibv;
}

/* For event_queue_pop() of a channel. */
void cq_count_taken(const struct event *event);

#endif
