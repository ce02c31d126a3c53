/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing devices.
 */
#include "verbs/context.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/events.h"
#include "engine/explain.h"
#include "verbs/export.h"
#include "verbs/operations.h"

static LIST_HEAD(, context) contexts; /* under library_lock() */

void *out_of_memory(const char *call)
{
	errno = explain_call(ENOMEM, call, "the process has no memory left");
	return NULL;
}

int inherited_object(const char *call)
{
	return explain_call(EIO, call,
			    "the object was made before fork and belongs to the parent process; "
			    "open the device again in the child");
}

int engine_error(const char *call, int error)
{
	return error == -EIO ? inherited_object(call) : -error;
}

int not_supported(const char *call, const char *what)
{
	return explain_call(EOPNOTSUPP, call, "this device does not have %s", what);
}

uint32_t context_next_handle(void)
{
	static atomic_uint last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

void context_hold(struct ibv_context *ibv)
{
	atomic_fetch_add_explicit(&context_of(ibv)->references, 1, memory_order_relaxed);
}

void context_release(struct ibv_context *ibv)
{
	struct context *context = context_of(ibv);

	if (atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) != 1)
		return;
	library_lock();
	LIST_REMOVE(context, next);
	library_unlock();
	engine_port_close(context->port);
	event_queue_destroy(context->async);
	library_release(context->use);
	listed_device_release(context->device);
	pthread_mutex_destroy(&ibv->mutex);
	free(context);
}

static void set_operations(struct verbs_context *verbs)
{
	struct ibv_context_ops *ops = &verbs->context.ops;

	refuse_what_is_missing(verbs);
	ops->poll_cq = cq_poll;
	ops->req_notify_cq = cq_request_notification;
	ops->post_send = verbs_post_send;
	ops->post_recv = verbs_post_recv;
	ops->post_srq_recv = srq_post_recv;
	ops->alloc_mw = mw_alloc;
	ops->bind_mw = mw_bind;
	ops->dealloc_mw = mw_dealloc;
	verbs->alloc_null_mr = mr_alloc_null;
	verbs->advise_mr = mr_advise;
	verbs->query_port = port_query;
	verbs->query_device_ex = device_query_extended;
	verbs->modify_cq = cq_modify;
	verbs->create_cq_ex = cq_create_extended;
	verbs->alloc_td = td_alloc;
	verbs->dealloc_td = td_dealloc;
	verbs->alloc_parent_domain = parent_domain_alloc;
	verbs->create_qp_ex = qp_create_extended;
	verbs->open_qp = qp_open;
	verbs->create_srq_ex = srq_create_extended;
	verbs->get_srq_num = srq_number;
	verbs->open_xrcd = xrcd_open;
	verbs->close_xrcd = xrcd_close;
	verbs->query_rt_values = clock_query;
}

static void init(struct context *context, struct listed_device *device)
{
	struct verbs_context *verbs = &context->verbs;
	struct ibv_context *ibv = &verbs->context;

	listed_device_hold(device);
	context->device = device;
	context->imported_fd = -1;
	atomic_init(&context->references, 1);
	set_operations(verbs);
	verbs->sz = sizeof(*verbs);
	ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
	ibv->device = &device->ibv;
	ibv->async_fd = event_queue_descriptor(context->async);
	/*
	 * There is no descriptor of a kernel device. Programs duplicate this one to open the
	 * device once more, by ibv_import_device().
	 */
	ibv->cmd_fd = ibv->async_fd;
	ibv->num_comp_vectors = 1;
	pthread_mutex_init(&ibv->mutex, NULL);
	library_lock();
	LIST_INSERT_HEAD(&contexts, context, next);
	library_unlock();
}

/* What @context needs of the engine; 0 or an errno. */
static int open_in_engine(const char *call, struct context *context, const struct device *device)
{
	int error = library_acquire(&context->use);

	if (error)
		return -error;
	context->async = event_queue_create();
	if (!context->async) {
		error = explain_call(errno, call,
				     "no descriptor for asynchronous events; raise the limit "
				     "on open files (ulimit -n)");
	} else {
		error = -engine_port_open(context->use->engine, device, context->async,
					  &context->port);
		if (error)
			event_queue_destroy(context->async);
	}
	if (error)
		library_release(context->use);
	return error;
}

struct context *context_open(const char *call, struct listed_device *device)
{
	struct context *context = calloc(1, sizeof(*context));
	int error;

	if (!context)
		return out_of_memory(call);
	error = open_in_engine(call, context, &device->device);
	if (error) {
		free(context);
		errno = error;
		return NULL;
	}
	init(context, device);
	return context;
}

struct listed_device *context_find_device(bool (*is_it)(int cmd_fd, const void *wanted),
					  const void *wanted)
{
	struct listed_device *found = NULL;
	struct context *context;

	library_lock();
	LIST_FOREACH(context, &contexts, next)
	{
		const struct ibv_context *ibv = &context->verbs.context;

		if (found || engine_is_inherited(context->use->engine))
			continue;
		if (is_it(ibv->cmd_fd, wanted)) {
			found = context->device;
			found->references++;
		}
	}
	library_unlock();
	return found;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct context *context = context_open("ibv_open_device", listed_device_of(device));

	return context ? &context->verbs.context : NULL;
}

/* What was not destroyed stays usable enough to be destroyed later. */
EXPORT int ibv_close_device(struct ibv_context *context)
{
	int fd = context_of(context)->imported_fd;

	context_of(context)->imported_fd = -1;
	if (fd >= 0)
		close(fd);
	context_release(context);
	return 0;
}
