/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: their life. What binds and frees them are work requests (transport/rc_local.c).
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "engine/engine_state.h"
#include "engine/explain.h"
#include "memory/window.h"

/* Under keys_lock. */
static struct mr_slot *draw(struct engine *engine, enum ibv_mw_type type, uint32_t pd,
			    uint32_t *key)
{
	struct mr_slot *slot = NULL;

	while (!slot && engine->mw_count < DEVICE_MAX_MW &&
	       !pin_table_is_full(&engine->memory.keys)) {
		*key = random_number();
		slot = window_create(&engine->memory, type, pd, *key);
	}
	if (slot)
		engine->mw_count++;
	return slot;
}

int engine_mw_create(struct engine_pd *pd, enum ibv_mw_type type, struct engine_mw **mw)
{
	struct engine *engine = pd->engine;
	struct engine_mw *created;

	if (engine_is_inherited(engine))
		return -EIO;
	created = calloc(1, sizeof(*created));
	if (!created)
		return -ENOMEM;
	created->pd = pd;
	pthread_mutex_lock(&engine->keys_lock);
	created->slot = draw(engine, type, pd->number, &created->key);
	pthread_mutex_unlock(&engine->keys_lock);
	if (!created->slot) {
		free(created);
		return explain_call(-ENOMEM, "ibv_alloc_mw",
				    "the device has only %d memory windows", DEVICE_MAX_MW);
	}
	atomic_fetch_add(&pd->user_count, 1);
	*mw = created;
	return 0;
}

uint32_t engine_mw_key(const struct engine_mw *mw)
{
	return mw->key;
}

int engine_mw_destroy(struct engine_mw *mw)
{
	struct engine *engine = mw->pd->engine;

	if (!engine_is_inherited(engine)) {
		while (!window_close(mw->slot))
			sched_yield();
		wait_until_idle(mw->slot);
		pthread_mutex_lock(&engine->keys_lock);
		window_release(&engine->memory, mw->slot);
		engine->mw_count--;
		pthread_mutex_unlock(&engine->keys_lock);
		atomic_fetch_sub(&mw->pd->user_count, 1);
	}
	free(mw);
	return 0;
}
