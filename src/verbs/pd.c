/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains.
 */
#include "verbs/pd.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/context.h"
#include "verbs/export.h"

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct pd *pd = calloc(1, sizeof(*pd));
	int error;

	if (!pd)
		return out_of_memory("ibv_alloc_pd");
	error = engine_pd_create(context_engine(context), &pd->engine_pd);
	if (error) {
		free(pd);
		errno = engine_error("ibv_alloc_pd", error);
		return NULL;
	}
	pd->ibv.context = context;
	pd->ibv.handle = context_next_handle();
	context_hold(context);
	return &pd->ibv;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct ibv_context *context = ibv->context;
	int error = engine_pd_destroy(pd_of(ibv)->engine_pd);

	if (error)
		return -error;
	free(pd_of(ibv));
	context_release(context);
	return 0;
}
