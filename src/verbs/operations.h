/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions that programs reach through pointers in the context. One left out
 * is NULL there, which the inline functions of verbs.h answer with EOPNOTSUPP.
 */
#ifndef VBN_VERBS_OPERATIONS_H
#define VBN_VERBS_OPERATIONS_H

#include <stddef.h>

#include <infiniband/verbs.h>

/* Sets those that only refuse; before the others, so that what is there counts. */
void refuse_what_is_missing(struct verbs_context *verbs);

int cq_poll(struct ibv_cq *ibv, int count, struct ibv_wc *entries);
int cq_request_notification(struct ibv_cq *ibv, int solicited_only);
int cq_modify(struct ibv_cq *ibv, struct ibv_modify_cq_attr *attr);
struct ibv_cq_ex *cq_create_extended(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr);
int verbs_post_send(struct ibv_qp *ibv, struct ibv_send_wr *list, struct ibv_send_wr **bad);
int verbs_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *list, struct ibv_recv_wr **bad);
int srq_post_recv(struct ibv_srq *ibv, struct ibv_recv_wr *list, struct ibv_recv_wr **bad);
struct ibv_xrcd *xrcd_open(struct ibv_context *ibv, struct ibv_xrcd_init_attr *attr);
int xrcd_close(struct ibv_xrcd *ibv);
struct ibv_srq *srq_create_extended(struct ibv_context *ibv, struct ibv_srq_init_attr_ex *attr);
int srq_number(struct ibv_srq *srq, uint32_t *number);
struct ibv_td *td_alloc(struct ibv_context *ibv, struct ibv_td_init_attr *attr);
int td_dealloc(struct ibv_td *ibv);
struct ibv_pd *parent_domain_alloc(struct ibv_context *ibv,
				   struct ibv_parent_domain_init_attr *attr);
struct ibv_qp *qp_create_extended(struct ibv_context *ibv, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *qp_open(struct ibv_context *ibv, struct ibv_qp_open_attr *attr);
int device_query_extended(struct ibv_context *ibv, const struct ibv_query_device_ex_input *input,
			  struct ibv_device_attr_ex *attr, size_t size);
struct ibv_mw *mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type);
int mw_dealloc(struct ibv_mw *ibv);
int mw_bind(struct ibv_qp *qp, struct ibv_mw *ibv, struct ibv_mw_bind *request);
struct ibv_mr *mr_alloc_null(struct ibv_pd *pd);
int mr_advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	      struct ibv_sge *list, uint32_t count);
int port_query(struct ibv_context *ibv, uint8_t port, struct ibv_port_attr *attr, size_t size);
int clock_query(struct ibv_context *ibv, struct ibv_values_ex *values);

#endif
