/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, parent domains (parent_domain.c) among them. The live ones stand in a table
 * by handle: programs have been seen to pass a copy of the struct, which kernel drivers accept, and
 * of a copy nothing but the public fields may be read.
 */
#include "verbs/pd.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "engine/explain.h"

#include "verbs/context.h"
#include "verbs/export.h"

static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pd **live; /* by handle; NULL where none is */
static uint32_t live_capacity;

/* Gives @pd the lowest free handle. False: out of memory. */
static bool enlist(struct pd *pd)
{
	uint32_t handle = 0;
	bool has_room;

	pthread_mutex_lock(&live_lock);
	while (handle < live_capacity && live[handle])
		handle++;
	if (handle == live_capacity) {
		uint32_t capacity = live_capacity ? 2 * live_capacity : 16;
		struct pd **grown = realloc(live, capacity * sizeof(struct pd *));

		for (uint32_t i = live_capacity; grown && i < capacity; i++)
			grown[i] = NULL;
		live = grown ? grown : live;
		live_capacity = grown ? capacity : live_capacity;
	}
	has_room = handle < live_capacity;
	if (has_room) {
		live[handle] = pd;
		pd->ibv.handle = handle;
	}
	pthread_mutex_unlock(&live_lock);
	return has_room;
}

static void strike_off(const struct pd *pd)
{
	pthread_mutex_lock(&live_lock);
	live[pd->ibv.handle] = NULL;
	pthread_mutex_unlock(&live_lock);
}

struct pd *pd_find(const char *call, const struct ibv_pd *ibv)
{
	struct pd *pd = NULL;

	pthread_mutex_lock(&live_lock);
	if (ibv && ibv->handle < live_capacity)
		pd = live[ibv->handle];
	pthread_mutex_unlock(&live_lock);
	if (pd && pd->ibv.context == ibv->context)
		return pd;
	errno = explain_call(EINVAL, call,
			     "this is no PD of an open device, or it was deallocated");
	return NULL;
}

struct ibv_pd *pd_bring_to_life(const char *call, struct pd *pd)
{
	if (!enlist(pd)) {
		if (pd->is_imported)
			engine_pd_let_go(pd->engine_pd);
		else
			engine_pd_destroy(pd->engine_pd);
		free(pd);
		return out_of_memory(call);
	}
	context_hold(pd->ibv.context);
	return &pd->ibv;
}

/* The engine's PD of the live one of that handle, which has one more user now; or NULL. */
static struct engine_pd *hold_live(const struct ibv_context *context, uint32_t handle)
{
	struct engine_pd *engine_pd = NULL;
	const struct pd *pd;

	pthread_mutex_lock(&live_lock);
	pd = handle < live_capacity ? live[handle] : NULL;
	if (pd &&
	    context_engine(pd->ibv.context) == context_engine((struct ibv_context *)context)) {
		engine_pd = pd->engine_pd;
		engine_pd_hold(engine_pd);
	}
	pthread_mutex_unlock(&live_lock);
	return engine_pd;
}

struct ibv_pd *pd_import(const char *call, struct ibv_context *context, uint32_t handle)
{
	struct pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return out_of_memory(call);
	pd->ibv.context = context;
	pd->is_imported = true;
	pd->engine_pd = hold_live(context, handle);
	if (!pd->engine_pd) {
		free(pd);
		errno = explain_call(EINVAL, call,
				     "handle %u is none of a PD that lives in this process",
				     handle);
		return NULL;
	}
	return pd_bring_to_life(call, pd);
}

static void bury(struct pd *pd)
{
	struct ibv_context *context = pd->ibv.context;

	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	free(pd);
	context_release(context);
}

void pd_unimport(const char *call, struct ibv_pd *ibv)
{
	struct pd *pd = pd_find(call, ibv);

	if (!pd)
		return;
	if (!pd->is_imported) {
		explain_call(EINVAL, call, "the PD was not imported; it ends by ibv_dealloc_pd()");
		return;
	}
	strike_off(pd);
	engine_pd_let_go(pd->engine_pd);
	bury(pd);
}

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
	return pd_bring_to_life("ibv_alloc_pd", pd);
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct pd *pd = pd_find("ibv_dealloc_pd", ibv);
	int error;

	if (!pd)
		return EINVAL;
	if (pd->is_imported)
		return explain_call(EINVAL, "ibv_dealloc_pd",
				    "the PD was imported; give it back by ibv_unimport_pd()");
	error = engine_pd_destroy(pd->engine_pd);
	if (error)
		return -error;
	strike_off(pd);
	bury(pd);
	return 0;
}
