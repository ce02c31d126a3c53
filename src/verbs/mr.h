/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The face's side of a memory region.
 */
#ifndef VBN_VERBS_MR_H
#define VBN_VERBS_MR_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#include "engine/engine.h"

struct mr_face {
	struct ibv_mr ibv;
	struct engine_mr *engine_mr; /* NULL: imported, and registered as another one */
};

static inline struct mr_face *mr_of(struct ibv_mr *ibv)
{
	return (struct mr_face *)ibv;
}

/* False, and a sentence for @call, of one that was imported. */
bool mr_is_own(const char *call, const struct mr_face *mr);

/* The public fields but the handle; both keys are the engine's. */
void mr_fill(struct mr_face *mr, struct ibv_pd *pd, void *addr, size_t length);

#endif
