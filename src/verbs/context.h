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
#include <sys/queue.h>

#include <infiniband/verbs.h>

#include "verbs/devices.h"
#include "verbs/library.h"

#define PORT_NUMBER 1 /* each device has this one port */

struct context {
	LIST_ENTRY(context) next; /* of all open ones; under library_lock() */
	struct listed_device *device;
	struct engine_use *use;
	struct event_queue *async;
	struct engine_port *port;
	atomic_uint references; /* the open itself, and each object */
	int imported_fd;	/* what it was imported by, and is closed with it; or -1 */
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

/* As it is now; good as long as the context. */
static inline const struct device *context_device(struct ibv_context *ibv)
{
	return engine_port_device(context_of(ibv)->port);
}

/* True in a child of fork: the context and its objects belong to the parent. */
static inline bool context_is_inherited(struct ibv_context *ibv)
{
	return engine_is_inherited(context_engine(ibv));
}

/* Opens @device once more. NULL with errno, and a sentence for @call. */
struct context *context_open(const char *call, struct listed_device *device);
/*
 * The listed device of the open context for whose cmd_fd @is_it says yes, held for the caller;
 * NULL: there is none.
 */
struct listed_device *context_find_device(bool (*is_it)(int cmd_fd, const void *wanted),
					  const void *wanted);

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
