/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private node: what rdma-core's own provider libraries import from libibverbs.
 *
 * perftest, UCX and pyverbs link libmlx5 or libefa, which are bound at load time and
 * stop a program whose libibverbs lacks a single name. None of their devices exists
 * here, so that nothing is ever called but the registration, the log and
 * ibv_query_gid_type() (gid.c); the rest fails in its kind's way.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "verbs/export.h"

#define PRIVATE(type, name, failure) \
	type private_##name(void); \
	EXPORT type private_##name(void) \
	{ \
		return failure; \
	} \
	EXPORT_PRIVATE(private_##name, #name)

#define PRIVATE_COMMAND(name) PRIVATE(int, ibv_cmd_##name, ENOSYS)

#define PRIVATE_VOID(name) \
	void private_##name(void); \
	EXPORT void private_##name(void) \
	{ \
	} \
	EXPORT_PRIVATE(private_##name, #name)

/* Also called for each provider library that is loaded, before main() runs. */
void private_register_driver(const void *ops);

EXPORT void private_register_driver(const void *ops)
{
	(void)ops;
}
EXPORT_AS(private_register_driver, "verbs_register_driver_34@@IBVERBS_PRIVATE_34");
EXPORT_AS(private_register_driver, "verbs_register_driver_57@@IBVERBS_PRIVATE_57");
EXPORT_AS(private_register_driver, "verbs_register_driver_59@@IBVERBS_PRIVATE_59");
EXPORT_AS(private_register_driver, "verbs_register_driver_64@@IBVERBS_PRIVATE_64");
EXPORT_AS(private_register_driver, "verbs_register_driver_65@@IBVERBS_PRIVATE_65");

extern bool private_allow_disassociate_destroy;
EXPORT bool private_allow_disassociate_destroy;
EXPORT_PRIVATE(private_allow_disassociate_destroy, "verbs_allow_disassociate_destroy");

/* clang-format off */
PRIVATE_VOID(__verbs_log);
PRIVATE(unsigned int, __ioctl_final_num_attrs, 0);
PRIVATE(void *, _verbs_init_and_alloc_context, NULL);
PRIVATE(int, execute_ioctl, ENOSYS);
PRIVATE_COMMAND(advise_mr);
PRIVATE_COMMAND(alloc_dm);
PRIVATE_COMMAND(alloc_mw);
PRIVATE_COMMAND(alloc_pd);
PRIVATE_COMMAND(attach_mcast);
PRIVATE_COMMAND(close_xrcd);
PRIVATE_COMMAND(create_ah);
PRIVATE_COMMAND(create_counters);
PRIVATE_COMMAND(create_cq);
PRIVATE_COMMAND(create_cq_ex);
PRIVATE_COMMAND(create_flow);
PRIVATE_COMMAND(create_flow_action_esp);
PRIVATE_COMMAND(create_qp);
PRIVATE_COMMAND(create_qp_ex);
PRIVATE_COMMAND(create_qp_ex2);
PRIVATE_COMMAND(create_rwq_ind_table);
PRIVATE_COMMAND(create_srq);
PRIVATE_COMMAND(create_srq_ex);
PRIVATE_COMMAND(create_wq);
PRIVATE_COMMAND(dealloc_mw);
PRIVATE_COMMAND(dealloc_pd);
PRIVATE_COMMAND(dereg_mr);
PRIVATE_COMMAND(destroy_ah);
PRIVATE_COMMAND(destroy_counters);
PRIVATE_COMMAND(destroy_cq);
PRIVATE_COMMAND(destroy_flow);
PRIVATE_COMMAND(destroy_flow_action);
PRIVATE_COMMAND(destroy_qp);
PRIVATE_COMMAND(destroy_rwq_ind_table);
PRIVATE_COMMAND(destroy_srq);
PRIVATE_COMMAND(destroy_wq);
PRIVATE_COMMAND(detach_mcast);
PRIVATE_COMMAND(free_dm);
PRIVATE_COMMAND(get_context);
PRIVATE_COMMAND(modify_cq);
PRIVATE_COMMAND(modify_flow_action_esp);
PRIVATE_COMMAND(modify_qp);
PRIVATE_COMMAND(modify_qp_ex);
PRIVATE_COMMAND(modify_srq);
PRIVATE_COMMAND(modify_wq);
PRIVATE_COMMAND(open_qp);
PRIVATE_COMMAND(open_xrcd);
PRIVATE(int, ibv_cmd_poll_cq, -ENOSYS);
PRIVATE_COMMAND(post_recv);
PRIVATE_COMMAND(post_send);
PRIVATE_COMMAND(post_srq_recv);
PRIVATE_COMMAND(query_context);
PRIVATE_COMMAND(query_device_any);
PRIVATE_COMMAND(query_mr);
PRIVATE_COMMAND(query_port);
PRIVATE_COMMAND(query_qp);
PRIVATE_COMMAND(query_srq);
PRIVATE_COMMAND(read_counters);
PRIVATE_COMMAND(reg_dm_mr);
PRIVATE_COMMAND(reg_dmabuf_mr);
PRIVATE_COMMAND(reg_mr);
PRIVATE_COMMAND(req_notify_cq);
PRIVATE_COMMAND(rereg_mr);
PRIVATE_COMMAND(resize_cq);
PRIVATE(int, ibv_read_ibdev_sysfs_file, -1);
PRIVATE_VOID(verbs_init_cq);
PRIVATE(void *, verbs_open_device, NULL);
PRIVATE_VOID(verbs_set_ops);
PRIVATE_VOID(verbs_uninit_context);
/* clang-format on */
