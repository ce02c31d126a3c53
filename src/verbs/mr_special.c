/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What belongs to regions and is reached through the context: the null region, and advice
 * about on-demand ones.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/mr.h"
#include "verbs/operations.h"
#include "verbs/pd.h"

struct ibv_mr *mr_alloc_null(struct ibv_pd *pd)
{
	static const char call[] = "ibv_alloc_null_mr";
	struct pd *owner = pd_find(call, pd);
	struct mr_face *mr;
	int error;

	if (!owner)
		return NULL;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return out_of_memory(call);
	error = engine_mr_create_null(owner->engine_pd, &mr->engine_mr);
	if (error) {
		free(mr);
		errno = engine_error(call, error);
		return NULL;
	}
	mr_fill(mr, pd, NULL, SIZE_MAX);
	/* "Only the lkey is valid": 0 is never a key. */
	mr->ibv.rkey = 0;
	mr->ibv.handle = mr->ibv.lkey;
	context_hold(pd->context);
	return &mr->ibv;
}

int mr_advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	      struct ibv_sge *list, uint32_t count)
{
	static const char call[] = "ibv_advise_mr";
	struct pd *owner = pd_find(call, pd);
	int error;

	if (!owner)
		return EINVAL;
	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return explain_call(EOPNOTSUPP, call, "advice %d: only prefetching is known",
				    (int)advice);
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
		return explain_call(EINVAL, call,
				    "flags 0x%x: only IBV_ADVISE_MR_FLAG_FLUSH is known", flags);
	if (!count || !list)
		return explain_call(EINVAL, call, "there is no range in the list");
	error = engine_mr_advise(owner->engine_pd, advice, flags & IBV_ADVISE_MR_FLAG_FLUSH, list,
				 count);
	return error ? engine_error(call, error) : 0;
}
