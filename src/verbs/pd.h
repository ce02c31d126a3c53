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

/*
 * The PD that @ibv is, or is a copy of. NULL with errno and a sentence for @call: it is
 * none that lives.
 */
struct pd *pd_find(const char *call, const struct ibv_pd *ibv);

#endif
