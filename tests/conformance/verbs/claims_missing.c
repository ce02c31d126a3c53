/* SPDX-License-Identifier: BSD-2-Clause */
/* What this device does not have. The structs stand for objects that nobody could make. */
#include "conformance/verbs/claims.h"

#include <dlfcn.h>

static void device_memory(struct room *room)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm dm = {.context = room->nic.context};
	static const char why[] = "there is no device memory";
	static const char no_object[] = "there is no device memory, so that nothing calls it";
	int error = ERROR_OF_NULL(ibv_alloc_dm(room->nic.context, &attr));

	REFUSED("ibv_alloc_dm", error, why);
	REFUSED("ibv_free_dm", ibv_free_dm(&dm), why);
	REFUSED("ibv_reg_dm_mr", ERROR_OF_NULL(ibv_reg_dm_mr(room->nic.pd, &dm, 0, 64, 0)), why);
	REFUSED("ibv_import_dm", ERROR_OF_NULL(ibv_import_dm(room->nic.context, 1)), why);
	/* They call a function in the object. */
	REFUSED("ibv_memcpy_to_dm ibv_memcpy_from_dm", error, no_object);
	ibv_unimport_dm(&dm);
	REFUSED("ibv_unimport_dm", error, no_object);
}

static void counters(struct room *room)
{
	struct ibv_counters_init_attr init = {0};
	struct ibv_counter_attach_attr attach = {0};
	struct ibv_counters counted = {.context = room->nic.context};
	static const char why[] = "`verbena stat` shows what a QP did";
	uint64_t value;

	REFUSED("ibv_create_counters", ERROR_OF_NULL(ibv_create_counters(room->nic.context, &init)),
		why);
	REFUSED("ibv_destroy_counters", ibv_destroy_counters(&counted), why);
	REFUSED("ibv_attach_counters_point_flow",
		ibv_attach_counters_point_flow(&counted, &attach, NULL), why);
	REFUSED("ibv_read_counters", ibv_read_counters(&counted, &value, 1, 0), why);
}

static void flows(struct room *room)
{
	struct ibv_flow_attr attr = {.type = IBV_FLOW_ATTR_NORMAL, .port = 1};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_flow_action action = {.context = room->nic.context};
	struct ibv_flow flow = {.context = room->nic.context};
	static const char why[] = "flow steering belongs to raw packets";

	REFUSED("ibv_create_flow", ERROR_OF_NULL(ibv_create_flow(room->near.qp, &attr)), why);
	REFUSED("ibv_destroy_flow", ibv_destroy_flow(&flow), why);
	REFUSED("ibv_create_flow_action_esp",
		ERROR_OF_NULL(ibv_create_flow_action_esp(room->nic.context, &esp)), why);
	REFUSED("ibv_modify_flow_action_esp", ibv_modify_flow_action_esp(&action, &esp), why);
	REFUSED("ibv_destroy_flow_action", ibv_destroy_flow_action(&action), why);
}

static void work_queues(struct room *room)
{
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1};
	struct ibv_rwq_ind_table_init_attr table_init = {0};
	struct ibv_rwq_ind_table table = {.context = room->nic.context};
	struct ibv_wq wq = {.context = room->nic.context};
	struct ibv_wq_attr attr = {0};
	static const char why[] = "there are no work queues and no receive side scaling";
	int error = ERROR_OF_NULL(ibv_create_wq(room->nic.context, &init));

	REFUSED("ibv_create_wq", error, why);
	REFUSED("ibv_modify_wq", ibv_modify_wq(&wq, &attr), why);
	REFUSED("ibv_destroy_wq", ibv_destroy_wq(&wq), why);
	REFUSED("ibv_create_rwq_ind_table",
		ERROR_OF_NULL(ibv_create_rwq_ind_table(room->nic.context, &table_init)), why);
	REFUSED("ibv_destroy_rwq_ind_table", ibv_destroy_rwq_ind_table(&table), why);
	/* It calls a function in the object. */
	REFUSED("ibv_post_wq_recv", error, "there are no work queues, so that nothing calls it");
}

static void tag_matching(struct room *room)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(room->nic.pd, &init);
	struct ibv_ops_wr work = {.wr_id = 1}, *bad = NULL;

	REFUSED("ibv_post_srq_ops", ibv_post_srq_ops(srq, &work, &bad), "there is no tag matching");
	ibv_destroy_srq(srq);
}

/* Names that came after the headers of rdma-core 44: they are asked for as a program would. */
static void newer_names(struct room *room)
{
	void *(*alloc_dmah)(struct ibv_context *, void *);
	int (*dealloc_dmah)(void *), (*export_dmabuf)(void *);
	void *(*reg_mr_ex)(struct ibv_pd *, void *);
	int (*query_port_speed)(struct ibv_context *, uint32_t, uint64_t *);
	uint64_t nothing[8] = {0};

#define FIND(function, name) *(void **)&(function) = dlsym(RTLD_DEFAULT, name)
	FIND(alloc_dmah, "ibv_alloc_dmah");
	FIND(dealloc_dmah, "ibv_dealloc_dmah");
	FIND(export_dmabuf, "ibv_dm_export_dmabuf_fd");
	FIND(reg_mr_ex, "ibv_reg_mr_ex");
	FIND(query_port_speed, "ibv_query_port_speed");
#undef FIND
	REFUSED("ibv_alloc_dmah",
		alloc_dmah ? ERROR_OF_NULL(alloc_dmah(room->nic.context, nothing)) : 0,
		"there are no DMA handles");
	REFUSED("ibv_dealloc_dmah", dealloc_dmah ? dealloc_dmah(nothing) : 0,
		"there are no DMA handles");
	REFUSED("ibv_dm_export_dmabuf_fd",
		export_dmabuf ? ERROR_OF_MINUS_ONE(export_dmabuf(nothing)) : 0,
		"there is no device memory");
	REFUSED("ibv_reg_mr_ex", reg_mr_ex ? ERROR_OF_NULL(reg_mr_ex(room->nic.pd, nothing)) : 0,
		"`ibv_reg_mr` registers");
	REFUSED("ibv_query_port_speed",
		query_port_speed ? query_port_speed(room->nic.context, 1, nothing) : 0,
		"`ibv_query_port` tells speed and width");
}

void claims_about_what_is_missing(struct room *room)
{
	claim_heading("What the device does not have");
	device_memory(room);
	counters(room);
	flows(room);
	work_queues(room);
	tag_matching(room);
	newer_names(room);
}
