/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "engine/engine_state.h"
#include "engine/explain.h"

int engine_pd_create(struct engine *engine, struct engine_pd **pd)
{
	struct engine_pd *created;

	if (engine_is_inherited(engine))
		return -EIO;
	created = calloc(1, sizeof(*created));
	if (!created)
		return -ENOMEM;
	created->engine = engine;
	pthread_mutex_lock(&engine->keys_lock);
	if (engine->pd_count == DEVICE_MAX_PD) {
		pthread_mutex_unlock(&engine->keys_lock);
		free(created);
		return explain_call(-ENOMEM, "ibv_alloc_pd", "the device has only %d PDs",
				    DEVICE_MAX_PD);
	}
	engine->pd_count++;
	/* 2^32 of them never come round while one of the first is alive. */
	created->number = ++engine->pd_next;
	pthread_mutex_unlock(&engine->keys_lock);
	*pd = created;
	return 0;
}

int engine_pd_create_part(struct engine_pd *whole, struct engine_pd **pd)
{
	int error = engine_pd_create(whole->engine, pd);

	if (error)
		return error;
	atomic_fetch_add(&whole->user_count, 1);
	(*pd)->whole = whole;
	(*pd)->number = whole->number;
	return 0;
}

void engine_pd_hold(struct engine_pd *pd)
{
	atomic_fetch_add(&pd->user_count, 1);
}

void engine_pd_let_go(struct engine_pd *pd)
{
	atomic_fetch_sub(&pd->user_count, 1);
}

int engine_pd_destroy(struct engine_pd *pd)
{
	struct engine *engine = pd->engine;

	if (!engine_is_inherited(engine)) {
		if (atomic_load(&pd->user_count))
			return explain_call(
				-EBUSY, "ibv_dealloc_pd",
				"%u objects (memory regions, windows, SRQs, QPs, parent domains ...) "
				"use the PD; destroy them first",
				atomic_load(&pd->user_count));
		pthread_mutex_lock(&engine->keys_lock);
		engine->pd_count--;
		pthread_mutex_unlock(&engine->keys_lock);
		if (pd->whole)
			atomic_fetch_sub(&pd->whole->user_count, 1);
	}
	free(pd);
	return 0;
}
