/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/names.h"

#define NAME(value) [value] = #value
#define LOOK_UP(table, value) \
	((unsigned)(value) < sizeof(table) / sizeof((table)[0]) && (table)[value] ? (table)[value] \
										  : "unknown")

static const char *const statuses[] = {
	NAME(IBV_WC_SUCCESS),		NAME(IBV_WC_LOC_LEN_ERR),
	NAME(IBV_WC_LOC_QP_OP_ERR),	NAME(IBV_WC_LOC_EEC_OP_ERR),
	NAME(IBV_WC_LOC_PROT_ERR),	NAME(IBV_WC_WR_FLUSH_ERR),
	NAME(IBV_WC_MW_BIND_ERR),	NAME(IBV_WC_BAD_RESP_ERR),
	NAME(IBV_WC_LOC_ACCESS_ERR),	NAME(IBV_WC_REM_INV_REQ_ERR),
	NAME(IBV_WC_REM_ACCESS_ERR),	NAME(IBV_WC_REM_OP_ERR),
	NAME(IBV_WC_RETRY_EXC_ERR),	NAME(IBV_WC_RNR_RETRY_EXC_ERR),
	NAME(IBV_WC_LOC_RDD_VIOL_ERR),	NAME(IBV_WC_REM_INV_RD_REQ_ERR),
	NAME(IBV_WC_REM_ABORT_ERR),	NAME(IBV_WC_INV_EECN_ERR),
	NAME(IBV_WC_INV_EEC_STATE_ERR), NAME(IBV_WC_FATAL_ERR),
	NAME(IBV_WC_RESP_TIMEOUT_ERR),	NAME(IBV_WC_GENERAL_ERR),
};

static const char *const events[] = {
	NAME(IBV_EVENT_CQ_ERR),
	NAME(IBV_EVENT_QP_FATAL),
	NAME(IBV_EVENT_QP_REQ_ERR),
	NAME(IBV_EVENT_QP_ACCESS_ERR),
	NAME(IBV_EVENT_COMM_EST),
	NAME(IBV_EVENT_SQ_DRAINED),
	NAME(IBV_EVENT_PATH_MIG),
	NAME(IBV_EVENT_PATH_MIG_ERR),
	NAME(IBV_EVENT_DEVICE_FATAL),
	NAME(IBV_EVENT_PORT_ACTIVE),
	NAME(IBV_EVENT_PORT_ERR),
	NAME(IBV_EVENT_LID_CHANGE),
	NAME(IBV_EVENT_PKEY_CHANGE),
	NAME(IBV_EVENT_SM_CHANGE),
	NAME(IBV_EVENT_SRQ_ERR),
	NAME(IBV_EVENT_SRQ_LIMIT_REACHED),
	NAME(IBV_EVENT_QP_LAST_WQE_REACHED),
	NAME(IBV_EVENT_CLIENT_REREGISTER),
	NAME(IBV_EVENT_GID_CHANGE),
	NAME(IBV_EVENT_WQ_FATAL),
};

static const char *const states[] = {
	NAME(IBV_QPS_RESET), NAME(IBV_QPS_INIT), NAME(IBV_QPS_RTR), NAME(IBV_QPS_RTS),
	NAME(IBV_QPS_SQD),   NAME(IBV_QPS_SQE),	 NAME(IBV_QPS_ERR),
};

const char *name_of_status(enum ibv_wc_status status)
{
	return LOOK_UP(statuses, status);
}

const char *name_of_event(enum ibv_event_type event)
{
	return LOOK_UP(events, event);
}

const char *name_of_state(enum ibv_qp_state state)
{
	return LOOK_UP(states, state);
}
