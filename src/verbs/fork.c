/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fork needs no preparation: nothing is pinned, so that copy on write cannot separate
 * a region from the memory of the process that registered it.
 */
#include <infiniband/verbs.h>

#include "verbs/export.h"

/* Called by provider libraries of real adapters. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

EXPORT int ibv_fork_init(void)
{
	return 0;
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

EXPORT int ibv_dontfork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}

EXPORT int ibv_dofork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}
