/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/pass.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/fault_guard.h"

static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pass *spare;

static struct pass *take_spare(void)
{
	struct pass *pass;

	pthread_mutex_lock(&spare_lock);
	pass = spare;
	if (pass)
		spare = pass->next;
	pthread_mutex_unlock(&spare_lock);
	if (pass)
		return pass;
	pass = aligned_alloc(64, (sizeof(*pass) + 63) & ~(size_t)63);
	VBN_ASSERT(pass);
	return pass;
}

struct pass *pass_begin(struct engine *engine)
{
	struct pass *pass = take_spare();

	pass->touched_count = 0;
	pass->batch.message_count = pass->batch.bytes_used = 0;
	outbox_clear(&pass->outbox);
	pass->core = (struct core){
		.now = clock_now(),
		.memory = &engine->memory,
		.copier = fault_guard_copier(),
		.holds = &engine->holds,
	};
	return pass;
}

void pass_end(struct pass *pass)
{
	VBN_ASSERT(pass->touched_count == 0);
	pthread_mutex_lock(&spare_lock);
	pass->next = spare;
	spare = pass;
	pthread_mutex_unlock(&spare_lock);
}

void pass_after_fork(void)
{
	pthread_mutex_init(&spare_lock, NULL);
	spare = NULL;
}
