/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The face's side of a shared receive queue.
 */
#ifndef VBN_VERBS_SRQ_H
#define VBN_VERBS_SRQ_H

#include <stdatomic.h>

#include <infiniband/verbs.h>

#include "engine/engine.h"

struct xrcd;

struct srq {
	struct ibv_srq ibv;
	struct engine_srq *engine_srq;
	struct xrcd *xrcd;	  /* NULL: a basic one */
	atomic_uint events_taken; /* handed to the program; compared with those acknowledged */
};

static inline struct srq *srq_of(struct ibv_srq *ibv)
{
	return (struct srq *)ibv;
}

#endif
