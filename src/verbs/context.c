/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing devices.
 */
#include "verbs/context.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "engine/events.h"
#include "engine/explain.h"
#include "verbs/export.h"
#include "verbs/operations.h"

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
	event_queue_destroy(context->async);
	library_release(context->use);
	listed_device_release(context->device);
	pthread_mutex_destroy(&ibv->mutex);
	free(context);
}

static void set_operations(struct verbs_context *verbs)
{
	struct ibv_context_ops *ops = &verbs->context.ops;

	ops->poll_cq = cq_poll;
	ops->req_notify_cq = cq_request_notification;
	ops->post_send = verbs_post_send;
	ops->post_recv = verbs_post_recv;
	ops->post_srq_recv = srq_post_recv;
	verbs->query_port = port_query;
	verbs->query_device_ex = device_query_extended;
	verbs->create_qp_ex = qp_create_extended;
	verbs->query_rt_values = clock_query;
}

static void init(struct context *context, struct listed_device *device)
{
	struct verbs_context *verbs = &context->verbs;
	struct ibv_context *ibv = &verbs->context;

	listed_device_hold(device);
	context->device = device;
	atomic_init(&context->references, 1);
	set_operations(verbs);
	verbs->sz = sizeof(*verbs);
	ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
	ibv->device = &device->ibv;
	ibv->async_fd = event_queue_descriptor(context->async);
	/*
	 * There is no descriptor of a kernel device. Programs duplicate this one to hand the
	 * device to another process, and ibv_import_device() tells them that they cannot.
	 */
	ibv->cmd_fd = ibv->async_fd;
	ibv->num_comp_vectors = 1;
	pthread_mutex_init(&ibv->mutex, NULL);
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct context *context = calloc(1, sizeof(*context));
	int error;

	if (!context)
		return out_of_memory("ibv_open_device");
	error = library_acquire(&context->use);
	if (error) {
		free(context);
		errno = -error;
		return NULL;
	}
	context->async = event_queue_create();
	if (!context->async) {
		error = explain_call(errno, "ibv_open_device",
				     "no descriptor for asynchronous events; raise the limit "
				     "on open files (ulimit -n)");
		library_release(context->use);
		free(context);
		errno = error;
		return NULL;
	}
	init(context, listed_device_of(device));
	return &context->verbs.context;
}

/* What was not destroyed stays usable enough to be destroyed later. */
EXPORT int ibv_close_device(struct ibv_context *context)
{
	context_release(context);
	return 0;
}
