/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The face's side of a completion channel.
 */
#ifndef VBN_VERBS_CHANNEL_H
#define VBN_VERBS_CHANNEL_H

#include <infiniband/verbs.h>

#include "engine/events.h"

struct channel {
	struct ibv_comp_channel ibv; /* refcnt: its CQs, under the context's mutex */
	struct event_queue *events;
};

static inline struct channel *channel_of(struct ibv_comp_channel *ibv)
{
	return (struct channel *)ibv;
}

/* A CQ comes to the channel or leaves it. */
void channel_attach(struct ibv_comp_channel *ibv);
void channel_detach(struct ibv_comp_channel *ibv);

#endif
