/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The public structs of verbs as programs were compiled against them (rdma-core 44,
 * x86-64). Programs read these fields through inline functions, so that a changed
 * size or offset breaks them without a word. Compiling this file is the test.
 *
 * Some structs grow from release to release: verbs_context at its front, the others
 * at their end. For them the size here is the smallest.
 */
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>

#define FIXED_SIZE(type, bytes) \
	_Static_assert(sizeof(type) == (bytes), "the size of " #type " changed");
#define GROWING_SIZE(type, bytes) \
	_Static_assert(sizeof(type) >= (bytes), "the size of " #type " shrank");
#define FIELD_AT(type, field, bytes) \
	_Static_assert(offsetof(type, field) == (bytes), #type ": " #field " moved");
/* Counted backwards from the embedded context, whose address programs hold. */
#define FIELD_BEFORE_CONTEXT(field, bytes) \
	_Static_assert(offsetof(struct verbs_context, context) - \
				       offsetof(struct verbs_context, field) == \
			       (bytes), \
		       "verbs_context: " #field " moved");

/* clang-format off */
FIXED_SIZE(struct ibv_device, 664)
FIELD_AT(struct ibv_device, node_type, 16)
FIELD_AT(struct ibv_device, name, 24)
FIELD_AT(struct ibv_device, dev_name, 88)
FIELD_AT(struct ibv_device, dev_path, 152)
FIELD_AT(struct ibv_device, ibdev_path, 408)
FIXED_SIZE(struct ibv_context, 328)
FIELD_AT(struct ibv_context, device, 0)
FIELD_AT(struct ibv_context, ops, 8)
FIELD_AT(struct ibv_context, ops.poll_cq, 96)
FIELD_AT(struct ibv_context, ops.req_notify_cq, 104)
FIELD_AT(struct ibv_context, ops.post_srq_recv, 168)
FIELD_AT(struct ibv_context, ops.post_send, 208)
FIELD_AT(struct ibv_context, ops.post_recv, 216)
FIELD_AT(struct ibv_context, cmd_fd, 264)
FIELD_AT(struct ibv_context, async_fd, 268)
FIELD_AT(struct ibv_context, num_comp_vectors, 272)
FIELD_AT(struct ibv_context, mutex, 280)
FIELD_AT(struct ibv_context, abi_compat, 320)
GROWING_SIZE(struct verbs_context, 648)
FIELD_BEFORE_CONTEXT(sz, 8)
FIELD_BEFORE_CONTEXT(query_port, 320)
FIELD_BEFORE_CONTEXT(create_cq_ex, 120)
FIXED_SIZE(struct ibv_device_attr, 232)
GROWING_SIZE(struct ibv_device_attr_ex, 400)
GROWING_SIZE(struct ibv_port_attr, 52)
GROWING_SIZE(struct ibv_gid_entry, 32)
FIXED_SIZE(struct ibv_pd, 16)
FIELD_AT(struct ibv_pd, context, 0)
FIELD_AT(struct ibv_pd, handle, 8)
FIXED_SIZE(struct ibv_mr, 48)
FIELD_AT(struct ibv_mr, context, 0)
FIELD_AT(struct ibv_mr, pd, 8)
FIELD_AT(struct ibv_mr, addr, 16)
FIELD_AT(struct ibv_mr, length, 24)
FIELD_AT(struct ibv_mr, handle, 32)
FIELD_AT(struct ibv_mr, lkey, 36)
FIELD_AT(struct ibv_mr, rkey, 40)
FIXED_SIZE(struct ibv_mw, 32)
FIELD_AT(struct ibv_mw, rkey, 16)
FIXED_SIZE(struct ibv_cq, 128)
FIELD_AT(struct ibv_cq, channel, 8)
FIELD_AT(struct ibv_cq, cq_context, 16)
FIELD_AT(struct ibv_cq, cqe, 28)
GROWING_SIZE(struct ibv_cq_ex, 288)
FIELD_AT(struct ibv_cq_ex, status, 132)
FIELD_AT(struct ibv_cq_ex, wr_id, 136)
FIELD_AT(struct ibv_cq_ex, start_poll, 144)
FIXED_SIZE(struct ibv_qp, 160)
FIELD_AT(struct ibv_qp, context, 0)
FIELD_AT(struct ibv_qp, qp_context, 8)
FIELD_AT(struct ibv_qp, pd, 16)
FIELD_AT(struct ibv_qp, send_cq, 24)
FIELD_AT(struct ibv_qp, recv_cq, 32)
FIELD_AT(struct ibv_qp, srq, 40)
FIELD_AT(struct ibv_qp, handle, 48)
FIELD_AT(struct ibv_qp, qp_num, 52)
FIELD_AT(struct ibv_qp, state, 56)
FIELD_AT(struct ibv_qp, qp_type, 60)
GROWING_SIZE(struct ibv_qp_ex, 352)
FIELD_AT(struct ibv_qp_ex, wr_id, 168)
FIELD_AT(struct ibv_qp_ex, wr_flags, 176)
FIELD_AT(struct ibv_qp_ex, wr_send, 240)
FIELD_AT(struct ibv_qp_ex, wr_start, 320)
FIXED_SIZE(struct ibv_srq, 128)
FIXED_SIZE(struct ibv_ah, 24)
FIXED_SIZE(struct ibv_comp_channel, 16)
FIELD_AT(struct ibv_comp_channel, fd, 8)
FIXED_SIZE(struct ibv_wc, 48)
FIELD_AT(struct ibv_wc, wr_id, 0)
FIELD_AT(struct ibv_wc, status, 8)
FIELD_AT(struct ibv_wc, opcode, 12)
FIELD_AT(struct ibv_wc, vendor_err, 16)
FIELD_AT(struct ibv_wc, byte_len, 20)
FIELD_AT(struct ibv_wc, imm_data, 24)
FIELD_AT(struct ibv_wc, qp_num, 28)
FIELD_AT(struct ibv_wc, src_qp, 32)
FIELD_AT(struct ibv_wc, wc_flags, 36)
FIXED_SIZE(struct ibv_sge, 16)
FIXED_SIZE(struct ibv_send_wr, 128)
FIELD_AT(struct ibv_send_wr, next, 8)
FIELD_AT(struct ibv_send_wr, sg_list, 16)
FIELD_AT(struct ibv_send_wr, num_sge, 24)
FIELD_AT(struct ibv_send_wr, opcode, 28)
FIELD_AT(struct ibv_send_wr, send_flags, 32)
FIELD_AT(struct ibv_send_wr, imm_data, 36)
FIELD_AT(struct ibv_send_wr, wr, 40)
FIELD_AT(struct ibv_send_wr, wr.atomic.swap, 56)
FIXED_SIZE(struct ibv_recv_wr, 32)
FIXED_SIZE(struct ibv_qp_attr, 144)
FIXED_SIZE(struct ibv_qp_init_attr, 64)
GROWING_SIZE(struct ibv_qp_init_attr_ex, 136)
FIXED_SIZE(struct ibv_qp_cap, 20)
FIXED_SIZE(struct ibv_ah_attr, 32)
FIXED_SIZE(struct ibv_async_event, 16)
FIXED_SIZE(union ibv_gid, 16)
FIXED_SIZE(struct rdma_cm_id, 416)
FIELD_AT(struct rdma_cm_id, qp, 24)
FIELD_AT(struct rdma_cm_id, route, 32)
FIXED_SIZE(struct rdma_cm_event, 80)
FIXED_SIZE(struct rdma_event_channel, 4)
FIXED_SIZE(struct rdma_addrinfo, 96)
FIXED_SIZE(struct rdma_conn_param, 24)
/* clang-format on */
