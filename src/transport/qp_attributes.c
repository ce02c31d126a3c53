/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attributes of a queue pair: whether values are in range, and storing them. Each
 * check answers NULL or a sentence that names the attribute and the rule.
 */
#include "transport/transport.h"

#include <errno.h>

#include "base/psn.h"
#include "transport/qp_state.h"
#include "transport/qp_transitions.h"

#define QPN_MASK 0xffffffu
#define TIMER_CODE_MAX 31 /* 5-bit fields: IBA 9.7.6.1.3 and table 45 */
#define RETRY_MAX 7	  /* 3-bit fields */

/* All that a program may hand to reg_mr as well; what is no remote access has no effect here. */
#define ACCESS_KNOWN \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)

#define MTU_ABOVE(path, active) \
	[IBV_MTU_##path][IBV_MTU_##active] = "path_mtu " #path \
					     " is above the port's active_mtu " #active

static const char *const mtu_above[IBV_MTU_4096 + 1][IBV_MTU_4096 + 1] = {
	MTU_ABOVE(512, 256),   MTU_ABOVE(1024, 256),  MTU_ABOVE(1024, 512), MTU_ABOVE(2048, 256),
	MTU_ABOVE(2048, 512),  MTU_ABOVE(2048, 1024), MTU_ABOVE(4096, 256), MTU_ABOVE(4096, 512),
	MTU_ABOVE(4096, 1024), MTU_ABOVE(4096, 2048),
};

static const char *check_mtu(enum ibv_mtu mtu, const struct qp_limits *limits)
{
	if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096)
		return "path_mtu is no value of enum ibv_mtu";
	return mtu_above[mtu][limits->active_mtu];
}

static bool gid_is_zero(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

const char *qp_address_check(const struct ibv_ah_attr *ah, const struct qp_limits *limits)
{
	if (!ah->port_num || ah->port_num > limits->port_count)
		return "ah_attr.port_num is no port of this device; ports start at 1";
	if (!ah->is_global && !limits->is_infiniband)
		return "ah_attr.is_global must be 1: RoCE addresses peers by GID";
	if (!ah->is_global && !ah->dlid)
		return "ah_attr.dlid 0 is no address; set the peer's LID, or a GID with is_global 1";
	if (!ah->is_global)
		return NULL;
	if (ah->grh.sgid_index >= limits->gid_count)
		return "ah_attr.grh.sgid_index is beyond the port's GID table";
	if (gid_is_zero(&ah->grh.dgid))
		return "ah_attr.grh.dgid is zero; set the peer's GID";
	return NULL;
}

static const char *check_init(const struct ibv_qp_attr *attr, int mask,
			      const struct qp_limits *limits)
{
	if ((mask & IBV_QP_PORT) && (!attr->port_num || attr->port_num > limits->port_count))
		return "port_num is no port of this device; ports start at 1";
	if ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index >= limits->pkey_count)
		return "pkey_index is beyond the port's P_Key table";
	if ((mask & IBV_QP_ACCESS_FLAGS) && (attr->qp_access_flags & ~(unsigned)ACCESS_KNOWN))
		return "qp_access_flags has a bit that is no IBV_ACCESS_ flag";
	return NULL;
}

static const char *check_connection(const struct ibv_qp_attr *attr, int mask,
				    const struct qp_limits *limits)
{
	const char *complaint = NULL;

	if (mask & IBV_QP_AV)
		complaint = qp_address_check(&attr->ah_attr, limits);
	if (!complaint && (mask & IBV_QP_PATH_MTU))
		complaint = check_mtu(attr->path_mtu, limits);
	if (!complaint && (mask & IBV_QP_DEST_QPN) && attr->dest_qp_num > QPN_MASK)
		complaint = "dest_qp_num is more than 24 bits";
	if (!complaint && (mask & IBV_QP_ALT_PATH))
		complaint = "IBV_QP_ALT_PATH: this device has no automatic path migration";
	if (!complaint && (mask & IBV_QP_PATH_MIG_STATE) &&
	    attr->path_mig_state != IBV_MIG_MIGRATED)
		complaint = "path_mig_state must be IBV_MIG_MIGRATED: "
			    "this device has no automatic path migration";
	return complaint;
}

static const char *check_reliability(const struct ibv_qp_attr *attr, int mask,
				     const struct qp_limits *limits)
{
	if ((mask & IBV_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > TIMER_CODE_MAX)
		return "min_rnr_timer is a code of 0 to 31";
	if ((mask & IBV_QP_TIMEOUT) && attr->timeout > TIMER_CODE_MAX)
		return "timeout is a code of 0 to 31 (4.096 us times 2 to its power)";
	if ((mask & IBV_QP_RETRY_CNT) && attr->retry_cnt > RETRY_MAX)
		return "retry_cnt is 0 to 7";
	if ((mask & IBV_QP_RNR_RETRY) && attr->rnr_retry > RETRY_MAX)
		return "rnr_retry is 0 to 7, where 7 means for ever";
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > limits->rd_atomic_max)
		return "max_rd_atomic is above the device's max_qp_init_rd_atom";
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > limits->rd_atomic_max)
		return "max_dest_rd_atomic is above the device's max_qp_rd_atom";
	return NULL;
}

/* A move out of SQD has to wait until what was under way is finished (IBA 10.3.1.5). */
static const char *check_current(const struct qp *qp, const struct ibv_qp_attr *attr, int mask,
				 enum ibv_qp_state next)
{
	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != qp->state)
		return "cur_qp_state is not the state that the QP is in";
	if (qp_is_draining(qp) && next != IBV_QPS_ERR && next != IBV_QPS_RESET)
		return "the send queue is still draining: wait for IBV_EVENT_SQ_DRAINED, or until "
		       "ibv_query_qp shows sq_draining 0";
	return NULL;
}

static const char *check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask,
			 const struct qp_limits *limits)
{
	enum ibv_qp_state next = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
	const char *complaint = qp_transition_complaint(qp->type, qp->state, next, mask);

	if (!complaint)
		complaint = check_current(qp, attr, mask, next);
	if (!complaint)
		complaint = check_init(attr, mask, limits);
	if (!complaint)
		complaint = check_connection(attr, mask, limits);
	if (!complaint)
		complaint = check_reliability(attr, mask, limits);
	return complaint;
}

int qp_modify_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask,
		    const struct qp_limits *limits, const char **complaint_text)
{
	const char *complaint = check(qp, attr, mask, limits);

	if (complaint_text)
		*complaint_text = complaint;
	return complaint ? EINVAL : 0;
}

static void store_connection(struct ibv_qp_attr *stored, const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_AV)
		stored->ah_attr = attr->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		stored->path_mtu = attr->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		stored->dest_qp_num = attr->dest_qp_num;
	/* Programs hand in 32 random bits; drivers take the lower 24 and say nothing. */
	if (mask & IBV_QP_RQ_PSN)
		stored->rq_psn = attr->rq_psn & PSN_MASK;
	if (mask & IBV_QP_SQ_PSN)
		stored->sq_psn = attr->sq_psn & PSN_MASK;
}

static void store_reliability(struct ibv_qp_attr *stored, const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_MIN_RNR_TIMER)
		stored->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT)
		stored->timeout = attr->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		stored->retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		stored->rnr_retry = attr->rnr_retry;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		stored->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		stored->max_dest_rd_atomic = attr->max_dest_rd_atomic;
}

void qp_attributes_store(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *stored = &qp->attr;

	if (mask & IBV_QP_ACCESS_FLAGS)
		stored->qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_PKEY_INDEX)
		stored->pkey_index = attr->pkey_index;
	if (mask & IBV_QP_PORT)
		stored->port_num = attr->port_num;
	if (mask & IBV_QP_QKEY)
		stored->qkey = attr->qkey;
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		stored->en_sqd_async_notify = attr->en_sqd_async_notify;
	store_connection(stored, attr, mask);
	store_reliability(stored, attr, mask);
}
