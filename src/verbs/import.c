/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects that are used once more in the process that has them.
 *
 * A kernel hands an open device on by a descriptor. Here what is open lives in a process,
 * and so does what can be imported: a duplicate of the cmd_fd of a context opens its device once
 * more, and PDs and memory regions of one context can be used in the other. A PD stands for
 * the same domain; a region is shown without its address, as the kernel shows it. Its handle is
 * its key. Who imports a region keeps the original alive meanwhile, which holds for the
 * kernel's as well; a PD sees to it itself.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/mr.h"
#include "verbs/pd.h"

/*
 * The number that the kernel gave to an eventfd. Duplicates share it, and nothing else tells one
 * eventfd from another. 0: it is none, or the kernel does not say.
 */
static unsigned long eventfd_number(int fd)
{
	unsigned long number = 0;
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "eventfd-id: %lu", &number) == 1)
			number++; /* the first one is 0 */
	if (file)
		fclose(file);
	return number;
}

static bool is_that_one(int cmd_fd, const void *wanted)
{
	return eventfd_number(cmd_fd) == *(const unsigned long *)wanted;
}

EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	unsigned long wanted = eventfd_number(cmd_fd);
	struct listed_device *device = wanted ? context_find_device(is_that_one, &wanted) : NULL;
	struct context *context;

	if (!device) {
		errno = explain_call(
			wanted ? EOPNOTSUPP : EINVAL, "ibv_import_device",
			"descriptor %d is no duplicate of the cmd_fd of a context that "
			"is open in this process; a device of another process cannot be "
			"imported",
			cmd_fd);
		return NULL;
	}
	context = context_open("ibv_import_device", device);
	listed_device_release(device);
	if (!context)
		return NULL;
	context->imported_fd = cmd_fd;
	context->verbs.context.cmd_fd = cmd_fd;
	return &context->verbs.context;
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	return pd_import("ibv_import_pd", context, pd_handle);
}

EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	pd_unimport("ibv_unimport_pd", pd);
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	static const char call[] = "ibv_import_mr";
	struct pd *owner = pd_find(call, pd);
	struct mr_face *mr;
	uint64_t length;

	if (!owner)
		return NULL;
	if (!engine_mr_find(owner->engine_pd, mr_handle, &length)) {
		errno = explain_call(EINVAL, call,
				     "handle 0x%x is none of a memory region of this PD",
				     mr_handle);
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return out_of_memory(call);
	mr->ibv = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.length = length,
		.handle = mr_handle,
		.lkey = mr_handle,
		.rkey = mr_handle,
	};
	context_hold(pd->context);
	return &mr->ibv;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *ibv)
{
	struct ibv_context *context = ibv->context;

	if (mr_of(ibv)->engine_mr) {
		explain_note(LOG_ERROR, "ibv_unimport_mr: the region was registered and not "
					"imported; deregister it by ibv_dereg_mr()");
		return;
	}
	free(mr_of(ibv));
	context_release(context);
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	(void)context;
	(void)dm_handle;
	errno = not_supported("ibv_import_dm", "device memory");
	return NULL;
}

/* Nothing was ever imported, so that there is nothing to give back. */
EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)dm;
}
