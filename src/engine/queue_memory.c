/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/queue_memory.h"

#include <errno.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "engine/explain.h"

static int take_own(struct queue_memory *memory, size_t bytes, size_t alignment)
{
	if (bytes > SIZE_MAX - alignment)
		return -ENOMEM;
	memory->owner = NULL;
	memory->bytes = aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
	return memory->bytes ? 0 : -ENOMEM;
}

int queue_memory_take(struct queue_memory *memory, const char *call,
		      const struct queue_allocator *allocator, size_t bytes, size_t alignment,
		      enum queue_memory_kind kind)
{
	*memory = (struct queue_memory){.owner = allocator, .kind = kind};
	if (!allocator)
		return take_own(memory, bytes, alignment);
	memory->bytes = allocator->allocate(allocator->context, bytes, alignment, kind);
	if (memory->bytes == IBV_ALLOCATOR_USE_DEFAULT)
		return take_own(memory, bytes, alignment);
	if (!memory->bytes)
		return explain_call(-ENOMEM, call,
				    "the parent domain's allocator has no %zu bytes left", bytes);
	if ((uintptr_t)memory->bytes % alignment == 0)
		return 0;
	queue_memory_give_back(memory);
	return explain_call(-EINVAL, call,
			    "the parent domain's allocator returned memory that is not aligned "
			    "to %zu bytes as it was asked for",
			    alignment);
}

void queue_memory_give_back(struct queue_memory *memory)
{
	void *bytes = memory->bytes;

	memory->bytes = NULL;
	if (!bytes)
		return;
	if (memory->owner)
		memory->owner->release(memory->owner->context, bytes, memory->kind);
	else
		free(bytes);
}
