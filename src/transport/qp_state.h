/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What qp_create.c, qp_state.c and qp_attributes.c call in each other. Not for use
 * outside of transport/.
 */
#ifndef VBN_TRANSPORT_QP_STATE_H
#define VBN_TRANSPORT_QP_STATE_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#include "transport/qp.h"

/* qp_attributes.c: copies the attributes of @mask, which were checked, to qp->attr. */
void qp_attributes_store(struct qp *qp, const struct ibv_qp_attr *attr, int mask);

/* qp_state.c: nothing sent, nothing under way, no deadline. */
void qp_requester_reset(struct qp *qp);
/* In SQD, and requests that were started are not finished. */
bool qp_is_draining(const struct qp *qp);

#endif
