/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The face's side of a queue pair. All of them are laid out in the extended form, with
 * room for what later headers append to it.
 */
#ifndef VBN_VERBS_QP_H
#define VBN_VERBS_QP_H

#include <stdatomic.h>

#include <infiniband/verbs.h>

#include "engine/engine.h"

#define EXTENDED_QP_ROOM 512

struct wr_builder;
struct xrcd;

struct qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
		char room[EXTENDED_QP_ROOM];
	};
	struct engine_qp *engine_qp;
	struct xrcd *xrcd;	    /* by which an XRC_RECV QP was made or opened; NULL otherwise */
	struct ibv_qp_cap cap;	    /* as granted */
	struct wr_builder *builder; /* NULL: created without send operations */
	atomic_uint events_taken;   /* handed to the program; compared with those acknowledged */
};

_Static_assert(sizeof(struct ibv_qp_ex) <= EXTENDED_QP_ROOM,
	       "the extended QP has outgrown its room");

static inline struct qp *qp_of(struct ibv_qp *ibv)
{
	return (struct qp *)ibv;
}

#endif
