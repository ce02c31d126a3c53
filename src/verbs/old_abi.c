/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of the first ABI (IBVERBS_1.0), which had other structs. No program has
 * asked for them since 2007; they are here because a library that claims the node
 * must have its names.
 *
 * The old list of devices is empty and an old open fails, so that no old object ever
 * exists and none of the other functions can be called with one; they return what
 * their kind returns for failure.
 */
#include <errno.h>
#include <stddef.h>

#include "verbs/export.h"

/* For names that never get that far, arguments and their types do not matter. */
#define OLD(type, name, failure) \
	type old_##name(void); \
	EXPORT type old_##name(void) \
	{ \
		errno = ENOSYS; \
		return failure; \
	} \
	EXPORT_AS(old_##name, #name "@IBVERBS_1.0")

#define OLD_VOID(name, node) \
	void old_##name(void); \
	EXPORT void old_##name(void) \
	{ \
	} \
	EXPORT_AS(old_##name, #name "@" node)

void *old_get_device_list(int *num_devices);

EXPORT void *old_get_device_list(int *num_devices)
{
	if (num_devices)
		*num_devices = 0;
	errno = ENOSYS;
	return NULL;
}
EXPORT_AS(old_get_device_list, "ibv_get_device_list@IBVERBS_1.0");

/* clang-format off */
OLD_VOID(ibv_ack_async_event, "IBVERBS_1.0");
OLD_VOID(ibv_ack_cq_events, "IBVERBS_1.0");
OLD(void *, ibv_alloc_pd, NULL);
OLD(int, ibv_attach_mcast, ENOSYS);
OLD(int, ibv_close_device, ENOSYS);
OLD(void *, ibv_create_ah, NULL);
OLD(void *, ibv_create_cq, NULL);
OLD(void *, ibv_create_qp, NULL);
OLD(void *, ibv_create_srq, NULL);
OLD(int, ibv_dealloc_pd, ENOSYS);
OLD(int, ibv_dereg_mr, ENOSYS);
OLD(int, ibv_destroy_ah, ENOSYS);
OLD(int, ibv_destroy_cq, ENOSYS);
OLD(int, ibv_destroy_qp, ENOSYS);
OLD(int, ibv_destroy_srq, ENOSYS);
OLD(int, ibv_detach_mcast, ENOSYS);
OLD_VOID(ibv_free_device_list, "IBVERBS_1.0");
OLD(int, ibv_get_async_event, -1);
OLD(int, ibv_get_cq_event, -1);
OLD(unsigned long long, ibv_get_device_guid, 0);
OLD(void *, ibv_get_device_name, NULL);
OLD(int, ibv_modify_qp, ENOSYS);
OLD(int, ibv_modify_srq, ENOSYS);
OLD(void *, ibv_open_device, NULL);
OLD(int, ibv_query_device, ENOSYS);
OLD(int, ibv_query_gid, -1);
OLD(int, ibv_query_pkey, -1);
OLD(int, ibv_query_port, ENOSYS);
OLD(int, ibv_query_qp, ENOSYS);
OLD(int, ibv_query_srq, ENOSYS);
OLD(void *, ibv_reg_mr, NULL);
OLD(int, ibv_resize_cq, ENOSYS);
OLD_VOID(ibv_register_driver, "IBVERBS_1.1");
/* clang-format on */
