/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The face's side of a protection domain.
 */
#ifndef VBN_VERBS_PD_H
#define VBN_VERBS_PD_H

#include <infiniband/verbs.h>

#include "engine/engine.h"

struct pd {
	struct ibv_pd ibv;
	struct engine_pd *engine_pd;
};

static inline struct pd *pd_of(struct ibv_pd *ibv)
{
	return (struct pd *)ibv;
}

#endif
