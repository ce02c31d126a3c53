/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: this device does not have them.
 */
#include <errno.h>

#include <infiniband/verbs.h>

#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/operations.h"

#define WHAT "shared receive queues"

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	(void)pd;
	(void)attr;
	errno = not_supported("ibv_create_srq", WHAT);
	return NULL;
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	(void)srq;
	(void)attr;
	(void)mask;
	return not_supported("ibv_modify_srq", WHAT);
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	(void)srq;
	(void)attr;
	return not_supported("ibv_query_srq", WHAT);
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	(void)srq;
	return not_supported("ibv_destroy_srq", WHAT);
}

int srq_post_recv(struct ibv_srq *ibv, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
	(void)ibv;
	*bad = list;
	return not_supported("ibv_post_srq_recv", WHAT);
}
