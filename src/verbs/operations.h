/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions that programs reach through pointers in the context. One left out
 * is NULL there, which the inline functions of verbs.h answer with EOPNOTSUPP.
 */
#ifndef VBN_VERBS_OPERATIONS_H
#define VBN_VERBS_OPERATIONS_H

#include <stddef.h>

#include <infiniband/verbs.h>

int cq_poll(struct ibv_cq *ibv, int count, struct ibv_wc *entries);
int cq_request_notification(struct ibv_cq *ibv, int solicited_only);
int verbs_post_send(struct ibv_qp *ibv, struct ibv_send_wr *list, struct ibv_send_wr **bad);
int verbs_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *list, struct ibv_recv_wr **bad);
int srq_post_recv(struct ibv_srq *ibv, struct ibv_recv_wr *list, struct ibv_recv_wr **bad);
struct ibv_qp *qp_create_extended(struct ibv_context *ibv, struct ibv_qp_init_attr_ex *attr);
int device_query_extended(struct ibv_context *ibv, const struct ibv_query_device_ex_input *input,
			  struct ibv_device_attr_ex *attr, size_t size);
int port_query(struct ibv_context *ibv, uint8_t port, struct ibv_port_attr *attr, size_t size);
int clock_query(struct ibv_context *ibv, struct ibv_values_ex *values);

#endif
