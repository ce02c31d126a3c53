/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The face's side of a protection domain.
 */
#ifndef VBN_VERBS_PD_H
#define VBN_VERBS_PD_H

#include <stdatomic.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

#include "engine/engine.h"

struct td {
	struct ibv_td ibv;
	atomic_uint users; /* parent domains */
};

/* A protection domain, or a parent domain, which stands for one and adds to it. */
struct pd {
	struct ibv_pd ibv;
	struct engine_pd *engine_pd;
	bool is_imported; /* the engine's is that of another one, whose user this is */
	/* Of a parent domain only. */
	struct td *td; /* NULL: none */
	bool has_allocator;
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
	struct queue_allocator allocator;
};

/* For the queues of what is created in @pd: the program's own, or NULL. */
static inline const struct queue_allocator *pd_allocator(const struct pd *pd)
{
	return pd->has_allocator ? &pd->allocator : NULL;
}

/*
 * Takes @pd, whose engine_pd and context are set, among the live ones. NULL with errno for
 * @call: out of memory; @pd and its engine_pd are given up then.
 */
struct ibv_pd *pd_bring_to_life(const char *call, struct pd *pd);

/* One more PD of @context that is the live one of that handle, or NULL. */
struct ibv_pd *pd_import(const char *call, struct ibv_context *context, uint32_t handle);
/* What was made in it meanwhile is the other one's from now on. */
void pd_unimport(const char *call, struct ibv_pd *ibv);
/*
 * The PD that @ibv is, or is a copy of. NULL with errno and a sentence for @call: it is
 * none that lives.
 */
struct pd *pd_find(const char *call, const struct ibv_pd *ibv);

#endif
