/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a QP needs to follow its connection: rdma_init_qp_attr().
 */
#include <errno.h>
#include <string.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"
#include "engine/explain.h"

#define PORT_NUMBER 1

static bool is_reliable(const struct engine_cm_id *id)
{
	return id->qp_type == IBV_QPT_RC;
}

void cm_learn_request(struct engine_cm_id *id, const struct cm_message *message)
{
	const struct cm_req *req = &message->req;

	id->remote_qpn = req->qpn;
	id->remote_psn = req->starting_psn;
	id->initiator_depth = req->responder_resources;
	id->responder_resources = req->initiator_depth;
	id->retry_count = req->retry_count;
	id->rnr_retry_count = req->rnr_retry_count;
	id->path_mtu = (enum ibv_mtu)req->mtu;
	id->ack_timeout = req->primary.ack_timeout;
}

void cm_learn_answer(struct engine_cm_id *id, const struct cm_message *message)
{
	const struct cm_rep *rep = &message->rep;

	id->remote_qpn = cm_rep_qpn(rep, id->connection->service_type);
	id->remote_psn = rep->starting_psn;
	id->initiator_depth = rep->responder_resources;
	id->responder_resources = rep->initiator_depth;
	id->rnr_retry_count = rep->rnr_retry_count;
	id->ack_timeout = cm_ack_timeout(id->path.packet_life_time, rep->target_ack_delay);
}

void cm_fill_address_vector(const struct engine_cm_id *id, struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){
		.dlid = id->device.destination_lid,
		.sl = id->path.sl,
		.port_num = PORT_NUMBER,
	};
	/* By LID where the program sees LIDs. */
	if (id->device.is_infiniband)
		return;
	ah->is_global = 1;
	ah->grh.sgid_index = id->device.gid_index;
	ah->grh.flow_label = ntohl(id->path.flow_label);
	ah->grh.hop_limit = id->path.hop_limit;
	ah->grh.traffic_class = id->path.traffic_class;
	memcpy(ah->grh.dgid.raw, id->destination.gid, sizeof(ah->grh.dgid.raw));
}

/* --- the lock is held --- */

/* Datagrams have no connection, and a connection has no rights before it is asked for. */
static int fill_plain(struct engine_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->pkey_index = 0;
	attr->port_num = PORT_NUMBER;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (id->qp_type == IBV_QPT_UD) {
		if (!id->qkey)
			id->qkey = RDMA_UDP_QKEY;
		attr->qkey = id->qkey;
		*mask |= IBV_QP_QKEY;
	} else {
		attr->qp_access_flags = 0;
		*mask |= IBV_QP_ACCESS_FLAGS;
	}
	return 0;
}

static int fill_init(struct engine_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->pkey_index = 0;
	attr->port_num = PORT_NUMBER;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	return 0;
}

static int fill_rtr(struct engine_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	cm_fill_address_vector(id, &attr->ah_attr);
	attr->path_mtu = id->path_mtu;
	attr->dest_qp_num = id->remote_qpn;
	attr->rq_psn = id->local_psn;
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (is_reliable(id) || id->qp_type == IBV_QPT_XRC_RECV) {
		attr->max_dest_rd_atomic = id->responder_resources;
		attr->min_rnr_timer = 0;
		*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	return 0;
}

static int fill_rts(struct engine_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->sq_psn = id->remote_psn;
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (is_reliable(id) || id->qp_type == IBV_QPT_XRC_SEND) {
		attr->retry_cnt = id->retry_count;
		attr->rnr_retry = id->rnr_retry_count;
		attr->max_rd_atomic = id->initiator_depth;
		*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	if (is_reliable(id) || id->qp_type == IBV_QPT_XRC_SEND || id->qp_type == IBV_QPT_XRC_RECV) {
		attr->timeout = id->has_timeout ? id->timeout : id->ack_timeout;
		*mask |= IBV_QP_TIMEOUT;
	}
	return 0;
}

static bool knows_peer(const struct cm_connection *connection)
{
	return connection->state == CM_REQ_RCVD || connection->state == CM_REP_RCVD ||
	       connection->state == CM_REP_SENT || connection->state == CM_ESTABLISHED;
}

static int fill(struct engine_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	const struct cm_connection *connection = id->connection;

	if (!connection || id->qp_type == IBV_QPT_UD)
		return fill_plain(id, attr, mask);
	if (attr->qp_state == IBV_QPS_INIT &&
	    (connection->state == CM_REQ_SENT || knows_peer(connection)))
		return fill_init(id, attr, mask);
	if (attr->qp_state == IBV_QPS_RTR && knows_peer(connection))
		return fill_rtr(id, attr, mask);
	if (attr->qp_state == IBV_QPS_RTS && knows_peer(connection))
		return fill_rts(id, attr, mask);
	return -explain_call(EINVAL, "rdma_init_qp_attr",
			     "a connection in state %s has nothing for a QP in state %d",
			     cm_state_name(connection->state), attr->qp_state);
}

int engine_cm_qp_attributes(struct engine_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	struct connections *connections = connections_of(id->engine);
	enum ibv_qp_state state = attr->qp_state;
	uint8_t gid_index = cm_gid_index(id);
	int error;

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	*mask = 0;
	pthread_mutex_lock(&connections->lock);
	id->device.gid_index = gid_index;
	if (id->stage == CM_STAGE_DESTROYED)
		error = cm_id_wrong_stage(id, "rdma_init_qp_attr");
	else if (!id->has_device || state > IBV_QPS_ERR)
		error = -explain_call(EINVAL, "rdma_init_qp_attr",
				      "the endpoint is bound to no device, or %d is no state",
				      (int)state);
	else
		error = fill(id, attr, mask);
	pthread_mutex_unlock(&connections->lock);
	return error;
}
