/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sharing objects with other processes through the kernel's descriptor: there is no
 * kernel here whose descriptor could be shared.
 */
#include <errno.h>

#include <infiniband/verbs.h>

#include "verbs/context.h"
#include "verbs/export.h"

static void *nothing_imported(const char *call)
{
	errno = not_supported(call, "objects that can be imported from another process");
	return NULL;
}

EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	(void)cmd_fd;
	return nothing_imported("ibv_import_device");
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	(void)context;
	(void)pd_handle;
	return nothing_imported("ibv_import_pd");
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	(void)pd;
	(void)mr_handle;
	return nothing_imported("ibv_import_mr");
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	(void)context;
	(void)dm_handle;
	return nothing_imported("ibv_import_dm");
}

/* Nothing was ever imported, so that there is nothing to give back. */
EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	(void)pd;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	(void)mr;
}

EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)dm;
}
