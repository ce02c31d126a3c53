/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs reach through the context and this device does not have. A pointer left NULL
 * would be answered with the same EOPNOTSUPP by the inline functions of verbs.h, but without a
 * sentence.
 */
#include <errno.h>

#include <infiniband/verbs.h>

#include "verbs/context.h"
#include "verbs/operations.h"

#define DEVICE_MEMORY "device memory"
#define COUNTERS "counters; verbena stat shows what a QP did"
#define FLOWS "flow steering, which belongs to raw packets"
#define WORK_QUEUES "work queues and receive side scaling"
#define RATE_LIMITS "limits on the rate of a QP"
#define TAG_MATCHING "tag matching"

static struct ibv_dm *no_alloc_dm(struct ibv_context *ibv, struct ibv_alloc_dm_attr *attr)
{
	(void)ibv;
	(void)attr;
	errno = not_supported("ibv_alloc_dm", DEVICE_MEMORY);
	return NULL;
}

static int no_free_dm(struct ibv_dm *dm)
{
	(void)dm;
	return not_supported("ibv_free_dm", DEVICE_MEMORY);
}

static struct ibv_mr *no_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
				   size_t length, unsigned int access)
{
	(void)pd;
	(void)dm;
	(void)offset;
	(void)length;
	(void)access;
	errno = not_supported("ibv_reg_dm_mr", DEVICE_MEMORY);
	return NULL;
}

static struct ibv_counters *no_create_counters(struct ibv_context *ibv,
					       struct ibv_counters_init_attr *attr)
{
	(void)ibv;
	(void)attr;
	errno = not_supported("ibv_create_counters", COUNTERS);
	return NULL;
}

static int no_destroy_counters(struct ibv_counters *counters)
{
	(void)counters;
	return not_supported("ibv_destroy_counters", COUNTERS);
}

static int no_attach_counters_point_flow(struct ibv_counters *counters,
					 struct ibv_counter_attach_attr *attr,
					 struct ibv_flow *flow)
{
	(void)counters;
	(void)attr;
	(void)flow;
	return not_supported("ibv_attach_counters_point_flow", COUNTERS);
}

static int no_read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t count,
			    uint32_t flags)
{
	(void)counters;
	(void)values;
	(void)count;
	(void)flags;
	return not_supported("ibv_read_counters", COUNTERS);
}

static struct ibv_flow *no_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	(void)qp;
	(void)attr;
	errno = not_supported("ibv_create_flow", FLOWS);
	return NULL;
}

static int no_destroy_flow(struct ibv_flow *flow)
{
	(void)flow;
	return not_supported("ibv_destroy_flow", FLOWS);
}

static struct ibv_flow_action *no_create_flow_action_esp(struct ibv_context *ibv,
							 struct ibv_flow_action_esp_attr *attr)
{
	(void)ibv;
	(void)attr;
	errno = not_supported("ibv_create_flow_action_esp", FLOWS);
	return NULL;
}

static int no_modify_flow_action_esp(struct ibv_flow_action *action,
				     struct ibv_flow_action_esp_attr *attr)
{
	(void)action;
	(void)attr;
	return not_supported("ibv_modify_flow_action_esp", FLOWS);
}

static int no_destroy_flow_action(struct ibv_flow_action *action)
{
	(void)action;
	return not_supported("ibv_destroy_flow_action", FLOWS);
}

static struct ibv_wq *no_create_wq(struct ibv_context *ibv, struct ibv_wq_init_attr *attr)
{
	(void)ibv;
	(void)attr;
	errno = not_supported("ibv_create_wq", WORK_QUEUES);
	return NULL;
}

static int no_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	(void)wq;
	(void)attr;
	return not_supported("ibv_modify_wq", WORK_QUEUES);
}

static int no_destroy_wq(struct ibv_wq *wq)
{
	(void)wq;
	return not_supported("ibv_destroy_wq", WORK_QUEUES);
}

static struct ibv_rwq_ind_table *no_create_rwq_ind_table(struct ibv_context *ibv,
							 struct ibv_rwq_ind_table_init_attr *attr)
{
	(void)ibv;
	(void)attr;
	errno = not_supported("ibv_create_rwq_ind_table", WORK_QUEUES);
	return NULL;
}

static int no_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	(void)table;
	return not_supported("ibv_destroy_rwq_ind_table", WORK_QUEUES);
}

static int no_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	(void)qp;
	(void)attr;
	return not_supported("ibv_modify_qp_rate_limit", RATE_LIMITS);
}

static int no_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *list, struct ibv_ops_wr **bad)
{
	(void)srq;
	*bad = list;
	return not_supported("ibv_post_srq_ops", TAG_MATCHING);
}

void refuse_what_is_missing(struct verbs_context *verbs)
{
	verbs->alloc_dm = no_alloc_dm;
	verbs->free_dm = no_free_dm;
	verbs->reg_dm_mr = no_reg_dm_mr;
	verbs->create_counters = no_create_counters;
	verbs->destroy_counters = no_destroy_counters;
	verbs->attach_counters_point_flow = no_attach_counters_point_flow;
	verbs->read_counters = no_read_counters;
	verbs->ibv_create_flow = no_create_flow;
	verbs->ibv_destroy_flow = no_destroy_flow;
	verbs->create_flow_action_esp = no_create_flow_action_esp;
	verbs->modify_flow_action_esp = no_modify_flow_action_esp;
	verbs->destroy_flow_action = no_destroy_flow_action;
	verbs->create_wq = no_create_wq;
	verbs->modify_wq = no_modify_wq;
	verbs->destroy_wq = no_destroy_wq;
	verbs->create_rwq_ind_table = no_create_rwq_ind_table;
	verbs->destroy_rwq_ind_table = no_destroy_rwq_ind_table;
	verbs->modify_qp_rate_limit = no_modify_qp_rate_limit;
	verbs->post_srq_ops = no_post_srq_ops;
}
