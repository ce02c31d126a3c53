/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the memory of QPs, CQs and SRQs comes from: the process's own allocator, or one that
 * the program brought along (a parent domain's, in the verbs face).
 */
#ifndef VBN_ENGINE_QUEUE_MEMORY_H
#define VBN_ENGINE_QUEUE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* What the memory is for; the number a program's allocator is told. */
enum queue_memory_kind { QUEUE_MEMORY_QP, QUEUE_MEMORY_CQ, QUEUE_MEMORY_SRQ };

/* Outlives what was allocated by it. Both are called without any lock of the engine. */
struct queue_allocator {
	/* NULL: there is none left; IBV_ALLOCATOR_USE_DEFAULT: take the process's own. */
	void *(*allocate)(void *context, size_t bytes, size_t alignment,
			  enum queue_memory_kind kind);
	void (*release)(void *context, void *bytes, enum queue_memory_kind kind);
	void *context;
};

struct queue_memory {
	void *bytes;			     /* NULL: none */
	const struct queue_allocator *owner; /* NULL: the process's own allocator */
	enum queue_memory_kind kind;
};

/*
 * @allocator may be NULL. The bytes are not cleared. 0, -ENOMEM, or -EINVAL and a sentence for
 * @call: the program's allocator disregarded the alignment.
 */
int queue_memory_take(struct queue_memory *memory, const char *call,
		      const struct queue_allocator *allocator, size_t bytes, size_t alignment,
		      enum queue_memory_kind kind);
void queue_memory_give_back(struct queue_memory *memory);

#endif
