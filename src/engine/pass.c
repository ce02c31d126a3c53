/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/pass.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/fault_guard.h"

/* More threads than that at work at once, and some passes are given back to the system. */
#define SPARES 16

/*
 * A slot is emptied and filled by one exchange: no lock between a poller and the helper. The
 * first is tried by all, so that what one thread did in a pass is seen by the next to begin one.
 */
static struct pass *_Atomic spares[SPARES];

static struct pass *take_spare(void)
{
	struct pass *pass;

	for (int i = 0; i < SPARES; i++) {
		pass = atomic_exchange_explicit(&spares[i], NULL, memory_order_acq_rel);
		if (pass)
			return pass;
	}
	pass = aligned_alloc(64, (sizeof(*pass) + 63) & ~(size_t)63);
	VBN_ASSERT(pass);
	return pass;
}

static struct pass *begin(struct pass *pass, struct engine *engine, vbn_time now,
			  const struct copier *copier)
{
	pass->touched_count = 0;
	pass->audience = (struct audience){0};
	pass->has_told = false;
	pass->has_unreliable = false;
	pass->target = (struct target){0};
	pass->batch.message_count = pass->batch.bytes_used = 0;
	outbox_clear(&pass->outbox);
	pass->core = (struct core){
		.now = now,
		.memory = &engine->memory,
		.copier = copier,
		.holds = &engine->holds,
		.paces_datagrams = true,
	};
	return pass;
}

struct pass *pass_begin(struct engine *engine)
{
	return pass_begin_at(engine, clock_now());
}

struct pass *pass_begin_at(struct engine *engine, vbn_time now)
{
	return begin(take_spare(), engine, now, fault_guard_copier(now));
}

struct pass *pass_begin_with(struct engine *engine, const struct copier *copier)
{
	return begin(take_spare(), engine, clock_now(), copier);
}

struct pass *pass_begin_kept(struct pass **kept, struct engine *engine, vbn_time now)
{
	if (!*kept)
		*kept = take_spare();
	return begin(*kept, engine, now, fault_guard_copier(now));
}

void pass_end(struct pass *pass)
{
	VBN_ASSERT(pass->touched_count == 0);
	/* The newcomer is warm in the cache; whoever lies there moves on. */
	for (int i = 0; i < SPARES; i++) {
		pass = atomic_exchange_explicit(&spares[i], pass, memory_order_acq_rel);
		if (!pass)
			return;
	}
	free(pass);
}
