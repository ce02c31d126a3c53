/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What differs by the type of a QP: the attributes that each move from RESET to RTS takes, without
 * optional ones, and the service of its packets.
 */
#ifndef VBN_TESTS_SIM_QP_TYPES_H
#define VBN_TESTS_SIM_QP_TYPES_H

#include <infiniband/verbs.h>

#include "wire/opcode.h"

static inline int qp_moves_to_init(enum ibv_qp_type type)
{
	return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	       (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

static inline int qp_moves_to_rtr(enum ibv_qp_type type)
{
	int mask = IBV_QP_STATE;

	if (type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return mask;
}

static inline int qp_moves_to_rts(enum ibv_qp_type type)
{
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
		mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	if (type != IBV_QPT_UC && type != IBV_QPT_UD)
		mask |= IBV_QP_TIMEOUT;
	return mask;
}

static inline enum service qp_type_service(enum ibv_qp_type type)
{
	switch ((int)type) {
	case IBV_QPT_UC:
		return SERVICE_UC;
	case IBV_QPT_UD:
		return SERVICE_UD;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return SERVICE_XRC;
	default:
		return SERVICE_RC;
	}
}

#endif
