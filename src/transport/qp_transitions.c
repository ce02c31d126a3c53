/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transition table. One row for each move that modify_qp can make, one column
 * of required and one of optional attributes for each type. ERROR and RESET can
 * be reached from everywhere without attributes and have no rows.
 */
#include "transport/qp_transitions.h"

#include <stddef.h>

enum column { RC, UC, UD, XRC_SEND, XRC_RECV, COLUMN_COUNT };

/* Names of this table alone; the mask's own names would hide its shape. */
#define ACCESS IBV_QP_ACCESS_FLAGS
#define PKEY IBV_QP_PKEY_INDEX
#define PORT IBV_QP_PORT
#define QKEY IBV_QP_QKEY
#define AV IBV_QP_AV
#define MTU IBV_QP_PATH_MTU
#define DEST IBV_QP_DEST_QPN
#define TIMEOUT IBV_QP_TIMEOUT
#define RETRY IBV_QP_RETRY_CNT
#define RNR IBV_QP_RNR_RETRY
#define RQ_PSN IBV_QP_RQ_PSN
#define SQ_PSN IBV_QP_SQ_PSN
#define READS IBV_QP_MAX_QP_RD_ATOMIC
#define DEST_READS IBV_QP_MAX_DEST_RD_ATOMIC
#define RNR_TIMER IBV_QP_MIN_RNR_TIMER
#define CUR IBV_QP_CUR_STATE
#define ALT IBV_QP_ALT_PATH
#define MIG IBV_QP_PATH_MIG_STATE
#define NOTIFY IBV_QP_EN_SQD_ASYNC_NOTIFY

static const struct row {
	enum ibv_qp_state from, to;
	int required[COLUMN_COUNT];
	int optional[COLUMN_COUNT];
} rows[] = {
	{
		IBV_QPS_RESET,
		IBV_QPS_INIT,
		.required = {[RC] = PKEY | PORT | ACCESS,
			     [UC] = PKEY | PORT | ACCESS,
			     [UD] = PKEY | PORT | QKEY,
			     [XRC_SEND] = PKEY | PORT | ACCESS,
			     [XRC_RECV] = PKEY | PORT | ACCESS},
	},
	{
		IBV_QPS_INIT,
		IBV_QPS_INIT,
		.optional = {[RC] = PKEY | PORT | ACCESS,
			     [UC] = PKEY | PORT | ACCESS,
			     [UD] = PKEY | PORT | QKEY,
			     [XRC_SEND] = PKEY | PORT | ACCESS,
			     [XRC_RECV] = PKEY | PORT | ACCESS},
	},
	{
		IBV_QPS_INIT,
		IBV_QPS_RTR,
		.required = {[RC] = AV | MTU | DEST | RQ_PSN | DEST_READS | RNR_TIMER,
			     [UC] = AV | MTU | DEST | RQ_PSN,
			     [XRC_SEND] = AV | MTU | DEST | RQ_PSN,
			     [XRC_RECV] = AV | MTU | DEST | RQ_PSN | DEST_READS | RNR_TIMER},
		.optional = {[RC] = ALT | ACCESS | PKEY,
			     [UC] = ALT | ACCESS | PKEY,
			     [UD] = PKEY | QKEY,
			     /* The last two have no effect; perftest sets them on both halves. */
			     [XRC_SEND] = ALT | ACCESS | PKEY | DEST_READS | RNR_TIMER,
			     [XRC_RECV] = ALT | ACCESS | PKEY},
	},
	{
		IBV_QPS_RTR,
		IBV_QPS_RTS,
		.required = {[RC] = TIMEOUT | RETRY | RNR | SQ_PSN | READS,
			     [UC] = SQ_PSN,
			     [UD] = SQ_PSN,
			     [XRC_SEND] = TIMEOUT | RETRY | RNR | SQ_PSN | READS,
			     [XRC_RECV] = TIMEOUT | SQ_PSN},
		.optional = {[RC] = CUR | ALT | ACCESS | RNR_TIMER | MIG,
			     [UC] = CUR | ALT | ACCESS | MIG,
			     [UD] = CUR | QKEY,
			     [XRC_SEND] = CUR | ALT | ACCESS | MIG,
			     /* The last three the same. */
			     [XRC_RECV] = CUR | ALT | ACCESS | RNR_TIMER | MIG | RETRY | RNR |
					  READS},
	},
	{
		IBV_QPS_RTS,
		IBV_QPS_RTS,
		.optional = {[RC] = CUR | ALT | ACCESS | RNR_TIMER | MIG,
			     [UC] = CUR | ALT | ACCESS | MIG,
			     [UD] = CUR | QKEY,
			     [XRC_SEND] = CUR | ALT | ACCESS | MIG,
			     [XRC_RECV] = CUR | ALT | ACCESS | RNR_TIMER | MIG},
	},
	{
		IBV_QPS_RTS,
		IBV_QPS_SQD,
		.optional = {[RC] = NOTIFY,
			     [UC] = NOTIFY,
			     [UD] = NOTIFY,
			     [XRC_SEND] = NOTIFY,
			     [XRC_RECV] = NOTIFY},
	},
	{
		IBV_QPS_SQD,
		IBV_QPS_RTS,
		.optional = {[RC] = CUR | ALT | ACCESS | RNR_TIMER | MIG,
			     [UC] = CUR | ALT | ACCESS | MIG,
			     [UD] = CUR | QKEY,
			     [XRC_SEND] = CUR | ALT | ACCESS | MIG,
			     [XRC_RECV] = CUR | ALT | ACCESS | RNR_TIMER | MIG},
	},
	{
		IBV_QPS_SQD,
		IBV_QPS_SQD,
		.optional = {[RC] = PORT | AV | TIMEOUT | RETRY | RNR | READS | DEST_READS | ALT |
				    ACCESS | PKEY | RNR_TIMER | MIG,
			     [UC] = AV | ALT | ACCESS | PKEY | MIG,
			     [UD] = PKEY | QKEY,
			     [XRC_SEND] = PORT | AV | TIMEOUT | RETRY | RNR | READS | ALT | ACCESS |
					  PKEY | MIG,
			     [XRC_RECV] = PORT | AV | TIMEOUT | DEST_READS | ALT | ACCESS | PKEY |
					  RNR_TIMER | MIG},
	},
	{
		IBV_QPS_SQE,
		IBV_QPS_RTS,
		.optional = {[UC] = CUR | ACCESS, [UD] = CUR | QKEY},
	},
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

/* Each attribute is required by one move at most, so one sentence serves all types. */
static const struct {
	int bit;
	const char *is_missing, *is_forbidden;
} attributes[] = {
	{CUR, NULL, "IBV_QP_CUR_STATE may be set only when a QP goes to RTS"},
	{NOTIFY, NULL, "IBV_QP_EN_SQD_ASYNC_NOTIFY may be set only when a QP goes from RTS to SQD"},
	{ACCESS, "INIT needs IBV_QP_ACCESS_FLAGS",
	 "IBV_QP_ACCESS_FLAGS may not be set by this move, or not for a QP of this type"},
	{PKEY, "INIT needs IBV_QP_PKEY_INDEX", "IBV_QP_PKEY_INDEX may not be set by this move"},
	{PORT, "INIT needs IBV_QP_PORT",
	 "IBV_QP_PORT may be set only when a QP goes to INIT or is in SQD"},
	{QKEY, "INIT needs IBV_QP_QKEY",
	 "IBV_QP_QKEY may not be set by this move, or not for a QP of this type"},
	{AV, "RTR needs IBV_QP_AV",
	 "IBV_QP_AV may be set only when a connected QP goes to RTR or is in SQD"},
	{MTU, "RTR needs IBV_QP_PATH_MTU",
	 "IBV_QP_PATH_MTU may be set only when a connected QP goes to RTR"},
	{DEST, "RTR needs IBV_QP_DEST_QPN",
	 "IBV_QP_DEST_QPN may be set only when a connected QP goes to RTR"},
	{RQ_PSN, "RTR needs IBV_QP_RQ_PSN",
	 "IBV_QP_RQ_PSN may be set only when a connected QP goes to RTR"},
	{DEST_READS, "RTR needs IBV_QP_MAX_DEST_RD_ATOMIC",
	 "IBV_QP_MAX_DEST_RD_ATOMIC may be set only when an RC QP goes to RTR or is in SQD"},
	{RNR_TIMER, "RTR needs IBV_QP_MIN_RNR_TIMER",
	 "IBV_QP_MIN_RNR_TIMER may not be set by this move, or not for a QP of this type"},
	{SQ_PSN, "RTS needs IBV_QP_SQ_PSN",
	 "IBV_QP_SQ_PSN may be set only when a QP goes from RTR to RTS"},
	{TIMEOUT, "RTS needs IBV_QP_TIMEOUT",
	 "IBV_QP_TIMEOUT may be set only when an RC QP goes from RTR to RTS or is in SQD"},
	{RETRY, "RTS needs IBV_QP_RETRY_CNT",
	 "IBV_QP_RETRY_CNT may be set only when an RC QP goes from RTR to RTS or is in SQD"},
	{RNR, "RTS needs IBV_QP_RNR_RETRY",
	 "IBV_QP_RNR_RETRY may be set only when an RC QP goes from RTR to RTS or is in SQD"},
	{READS, "RTS needs IBV_QP_MAX_QP_RD_ATOMIC",
	 "IBV_QP_MAX_QP_RD_ATOMIC may be set only when an RC QP goes from RTR to RTS or is in SQD"},
	{ALT, NULL,
	 "IBV_QP_ALT_PATH may be set only when a connected QP goes to RTR or RTS or is in SQD"},
	{MIG, NULL,
	 "IBV_QP_PATH_MIG_STATE may be set only when a connected QP goes to RTS or is in SQD"},
	{IBV_QP_CAP, NULL, "IBV_QP_CAP may not be set: this device does not resize QPs"},
	{IBV_QP_RATE_LIMIT, NULL,
	 "IBV_QP_RATE_LIMIT may not be set: this device has no packet pacing"},
};

#define ATTRIBUTE_COUNT (sizeof(attributes) / sizeof(attributes[0]))

static int column_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return RC;
	case IBV_QPT_UC:
		return UC;
	case IBV_QPT_UD:
		return UD;
	case IBV_QPT_XRC_SEND:
		return XRC_SEND;
	case IBV_QPT_XRC_RECV:
		return XRC_RECV;
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_DRIVER:
		break;
	}
	return -1;
}

/* Only UC and UD, which have no retries, stop at a failed send with the receive side alive. */
static bool is_state_of(enum ibv_qp_type type, enum ibv_qp_state state)
{
	if (state == IBV_QPS_SQE)
		return type == IBV_QPT_UC || type == IBV_QPT_UD;
	return (unsigned)state <= IBV_QPS_ERR;
}

bool qp_transition_find(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
			struct qp_transition *transition)
{
	static const struct qp_transition nothing;
	int column = column_of(type);

	if (column < 0 || !is_state_of(type, from))
		return false;
	if (to == IBV_QPS_ERR || to == IBV_QPS_RESET) {
		if (transition)
			*transition = nothing;
		return true;
	}
	for (size_t i = 0; i < ROW_COUNT; i++) {
		if (rows[i].from != from || rows[i].to != to)
			continue;
		if (transition) {
			transition->required = rows[i].required[column];
			transition->optional = rows[i].optional[column];
		}
		return true;
	}
	return false;
}

/* The first attribute of @mask, as its sentence for one that is missing or forbidden. */
static const char *attribute_sentence(int mask, bool is_missing)
{
	for (size_t i = 0; i < ATTRIBUTE_COUNT; i++) {
		if (mask & attributes[i].bit)
			return is_missing ? attributes[i].is_missing : attributes[i].is_forbidden;
	}
	return "attr_mask has a bit that is no IBV_QP_ attribute";
}

static const char *illegal_move(enum ibv_qp_state from)
{
	switch (from) {
	case IBV_QPS_RESET:
		return "a QP in RESET can go only to INIT (or ERR): the order is INIT, RTR, RTS";
	case IBV_QPS_INIT:
		return "a QP in INIT can go only to RTR (or INIT, RESET, ERR)";
	case IBV_QPS_RTR:
		return "a QP in RTR can go only to RTS (or RESET, ERR)";
	case IBV_QPS_RTS:
		return "a QP in RTS can go only to SQD (or RTS, RESET, ERR)";
	case IBV_QPS_SQD:
		return "a QP in SQD can go only to RTS (or SQD, RESET, ERR)";
	case IBV_QPS_SQE:
		return "a QP in SQE can go only to RTS (or RESET, ERR)";
	case IBV_QPS_ERR:
		return "a QP in ERR can go only to RESET";
	case IBV_QPS_UNKNOWN:
		break;
	}
	return "the state is no state of a QP";
}

const char *qp_transition_complaint(enum ibv_qp_type type, enum ibv_qp_state from,
				    enum ibv_qp_state to, int mask)
{
	struct qp_transition move;
	int missing, forbidden;

	if (!is_state_of(type, to))
		return "qp_state is no state of a QP of this type";
	if (!qp_transition_find(type, from, to, &move))
		return illegal_move(from);
	missing = move.required & ~mask;
	if (missing)
		return attribute_sentence(missing, true);
	forbidden = mask & ~(move.required | move.optional | IBV_QP_STATE);
	if (forbidden)
		return attribute_sentence(forbidden, false);
	return NULL;
}
