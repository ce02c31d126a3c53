/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open device. Objects hold their context: it may be closed before them, and ends
 * with the last of them.
 */
#ifndef VBN_VERBS_CONTEXT_H
#define VBN_VERBS_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "verbs/devices.h"
#include "verbs/library.h"

#define PORT_NUMBER 1 /* each device has this one port */

struct context {
	struct listed_device *device;
	struct engine_use *use;
	struct event_queue *async;
	atomic_uint references; /* the open itself, and each object */
	struct verbs_context verbs;
};

static inline struct context *context_of(struct ibv_context *ibv)
{
	return (struct context *)((char *)ibv - offsetof(struct context, verbs.context));
}

static inline struct engine *context_engine(struct ibv_context *ibv)
{
	return context_of(ibv)->use->engine;
}

static inline const struct device *context_device(struct ibv_context *ibv)
{
	return &context_of(ibv)->device->device;
}

/* True in a child of fork: the context and its objects belong to the parent. */
static inline bool context_is_inherited(struct ibv_context *ibv)
{
	return engine_is_inherited(context_engine(ibv));
}

void context_hold(struct ibv_context *ibv);
void context_release(struct ibv_context *ibv);

/* For the handle fields, by which programs tell objects apart when they log. */
uint32_t context_next_handle(void);

/* Says that @call ran out of memory, sets errno, returns NULL. */
void *out_of_memory(const char *call);
/* Says that @call met an object of the parent of a forked process; returns EIO. */
int inherited_object(const char *call);
/*
 * The positive errno of a failed engine call. The engine has told why, except that an
 * inherited object (EIO) is told here.
 */
int engine_error(const char *call, int error);
/* Says that this device does not have what @call is about; returns EOPNOTSUPP. */
int not_supported(const char *call, const char *what);

#endif
