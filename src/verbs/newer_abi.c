/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names that came after the installed headers (IBVERBS_1.15 and 1.16), so that
 * programs built against later releases load. Their structs are passed by untouched.
 */
#include <errno.h>
#include <stdint.h>

#include "verbs/context.h"
#include "verbs/export.h"

struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;

struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
int ibv_dealloc_dmah(struct ibv_dmah *dmah);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);

EXPORT struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
{
	(void)context;
	(void)attr;
	errno = not_supported("ibv_alloc_dmah", "DMA handles");
	return NULL;
}

EXPORT int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
	(void)dmah;
	return not_supported("ibv_dealloc_dmah", "DMA handles");
}

EXPORT struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	(void)pd;
	(void)attr;
	errno = not_supported("ibv_reg_mr_ex", "extended registration; use ibv_reg_mr()");
	return NULL;
}

EXPORT int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	(void)dm;
	errno = not_supported("ibv_dm_export_dmabuf_fd", "device memory");
	return -1;
}

EXPORT int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num,
				uint64_t *port_speed)
{
	(void)context;
	(void)port_num;
	(void)port_speed;
	return not_supported("ibv_query_port_speed", "a speed of its own; see ibv_query_port()");
}
