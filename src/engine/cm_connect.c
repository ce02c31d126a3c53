/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs ask for: to connect, to accept, to refuse, to part. Here values of rdma_cm
 * become messages; what they lead to is the state machine's.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"
#include "engine/explain.h"

#define RETRIES_MAX 7

static uint8_t at_most(uint8_t value, uint8_t most)
{
	return value < most ? value : most;
}

/* --- messages; the lock is held --- */

static int put_private_data(struct cm_message *message, size_t offset, const void *bytes,
			    size_t length, const char *call)
{
	size_t room = cm_private_bytes(message->kind) - offset;

	if (length > room)
		return -explain_call(EINVAL, call, "%zu bytes of private data, and %s takes %zu",
				     length, cm_kind_name(message->kind), room);
	if (length)
		memcpy(message->private_data + offset, bytes, length);
	message->private_bytes = (uint8_t)(offset + length);
	return 0;
}

static void put_ip(const struct engine_cm_id *id, struct cm_message *message)
{
	struct cm_ip ip = {
		.is_ipv6 = id->family == AF_INET6,
		.source_port = id->source_port,
	};

	memcpy(ip.source, id->source.gid, sizeof(ip.source));
	memcpy(ip.destination, id->destination.gid, sizeof(ip.destination));
	cm_ip_emit(&ip, message->private_data);
}

static uint64_t service_id_of(const struct engine_cm_id *id)
{
	return (uint64_t)id->port_space << 16 | id->destination_port;
}

static void put_path(const struct engine_cm_id *id, struct cm_req_path *path)
{
	const struct ibv_sa_path_rec *from = &id->path;

	path->local_lid = ntohs(from->slid);
	path->remote_lid = ntohs(from->dlid);
	memcpy(path->local_gid, from->sgid.raw, sizeof(path->local_gid));
	memcpy(path->remote_gid, from->dgid.raw, sizeof(path->remote_gid));
	path->flow_label = ntohl(from->flow_label);
	path->packet_rate = from->rate;
	path->traffic_class = from->traffic_class;
	path->hop_limit = from->hop_limit;
	path->sl = from->sl;
	path->subnet_local = from->hop_limit <= 1;
}

static void put_service(const struct engine_cm_id *id, struct cm_req *req)
{
	if (id->qp_type == IBV_QPT_UC)
		req->service_type = CM_SERVICE_UC;
	if (id->qp_type != IBV_QPT_XRC_SEND)
		return;
	req->service_type = CM_SERVICE_EXTENDED;
	req->extended_type = CM_EXTENDED_XRC;
}

static int fill_req(struct engine_cm_id *id, const struct cm_offer *with,
		    struct cm_message *message)
{
	struct cm_req *req = &message->req;

	message->kind = CM_REQ;
	message->ece_vendor = with->ece.vendor_id;
	message->ece_options = with->ece.options;
	req->service_id = service_id_of(id);
	req->ca_guid = be64toh(id->device.guid);
	req->qpn = with->qp_number;
	req->starting_psn = id->local_psn;
	req->initiator_depth = with->initiator_depth;
	req->pkey = DEVICE_PKEY;
	req->mtu = id->path.mtu;
	put_service(id, req);
	/* An XRC_SEND QP receives nothing. */
	if (id->qp_type != IBV_QPT_XRC_SEND) {
		req->responder_resources = with->responder_resources;
		req->srq = with->has_srq;
	}
	req->retry_count = at_most(with->retry_count, RETRIES_MAX);
	req->rnr_retry_count = at_most(with->rnr_retry_count, RETRIES_MAX);
	req->flow_control = with->flow_control;
	put_path(id, &req->primary);
	put_ip(id, message);
	return put_private_data(message, CM_IP_BYTES, with->private_data, with->private_data_length,
				"rdma_connect");
}

static int fill_sidr_req(struct engine_cm_id *id, const struct cm_offer *with,
			 struct cm_message *message)
{
	message->kind = CM_SIDR_REQ;
	message->sidr_req.service_id = service_id_of(id);
	message->sidr_req.pkey = DEVICE_PKEY;
	put_ip(id, message);
	return put_private_data(message, CM_IP_BYTES, with->private_data, with->private_data_length,
				"rdma_connect");
}

static int fill_rep(const struct engine_cm_id *id, const struct cm_offer *with,
		    struct cm_message *message)
{
	struct cm_rep *rep = &message->rep;

	message->kind = CM_REP;
	message->ece_vendor = with->ece.vendor_id;
	message->ece_options = with->ece.options;
	rep->starting_psn = id->local_psn;
	rep->responder_resources = with->responder_resources;
	rep->rnr_retry_count = at_most(with->rnr_retry_count, RETRIES_MAX);
	rep->ca_guid = be64toh(id->device.guid);
	if (id->qp_type == IBV_QPT_XRC_RECV) {
		rep->eecn = with->qp_number;
		rep->srq = true;
	} else {
		rep->qpn = with->qp_number;
		rep->initiator_depth = with->initiator_depth;
		rep->flow_control = with->flow_control;
		rep->srq = with->has_srq;
	}
	return put_private_data(message, 0, with->private_data, with->private_data_length,
				"rdma_accept");
}

static int fill_sidr_rep(struct engine_cm_id *id, const struct cm_offer *with,
			 struct cm_message *message)
{
	message->kind = CM_SIDR_REP;
	message->ece_vendor = with->ece.vendor_id;
	message->ece_options = with->ece.options;
	if (!id->qkey)
		id->qkey = RDMA_UDP_QKEY;
	message->sidr_rep.status = CM_SIDR_SUCCESS;
	message->sidr_rep.qpn = with->qp_number;
	message->sidr_rep.qkey = id->qkey;
	return put_private_data(message, 0, with->private_data, with->private_data_length,
				"rdma_accept");
}

/* --- rdma_connect() --- */

static bool is_datagram(const struct engine_cm_id *id)
{
	return id->qp_type == IBV_QPT_UD;
}

static void remember(struct engine_cm_id *id, const struct cm_offer *with)
{
	id->local_qpn = with->qp_number;
	id->has_srq = with->has_srq;
	id->initiator_depth = with->initiator_depth;
	id->responder_resources = with->responder_resources;
	id->retry_count = at_most(with->retry_count, RETRIES_MAX);
	id->rnr_retry_count = at_most(with->rnr_retry_count, RETRIES_MAX);
	id->path_mtu = (enum ibv_mtu)id->path.mtu;
	id->ack_timeout = (uint8_t)(id->path.packet_life_time + 1);
}

static int start(struct engine_cm_id *id, const struct cm_offer *with, struct cm_turn *turn)
{
	struct cm_agent *agent = &turn->connections->agent;
	struct cm_connection *connection;
	struct cm_message message = {0};
	struct cm_path path;
	int error;

	error = is_datagram(id) ? fill_sidr_req(id, with, &message) : fill_req(id, with, &message);
	if (error)
		return error;
	connection = cm_connection_create(turn->connections, id);
	if (!connection)
		return -explain_call(ENOMEM, "rdma_connect", "no memory for the connection");
	connection->timing.packet_lifetime = id->path.packet_life_time;
	cm_choose_watch(turn->connections, connection, &id->destination);
	cm_fill_path(&id->source, &id->destination, &path);
	if (is_datagram(id))
		error = cm_sidr_query(agent, connection, &path, &message, turn->now, &turn->out);
	else
		error = cm_connect(agent, connection, &path, &message, turn->now, &turn->out);
	if (error) {
		cm_connection_drop(turn->connections, connection);
		return error;
	}
	id->connection = connection;
	remember(id, with);
	return 0;
}

int engine_cm_connect(struct engine_cm_id *id, const struct cm_offer *with)
{
	int error = cm_id_claim(id, CM_STAGE_ROUTE_RESOLVED, CM_STAGE_CONNECT, "rdma_connect");
	struct cm_turn turn;

	if (error)
		return error;
	error = gsi_open(id->engine, &id->source, "rdma_connect");
	if (error) {
		cm_id_settle(id, CM_STAGE_ROUTE_RESOLVED);
		return error;
	}
	cm_turn_begin(&turn, id->engine);
	id->is_busy = false;
	id->has_near_peer = id->has_near_peer || cm_is_near(id->engine, &id->destination);
	if (id->stage != CM_STAGE_CONNECT)
		error = cm_id_wrong_stage(id, "rdma_connect");
	else
		error = start(id, with, &turn);
	if (error && id->stage == CM_STAGE_CONNECT)
		id->stage = CM_STAGE_ROUTE_RESOLVED;
	cm_turn_end_and_run(&turn);
	if (!error)
		gsi_meet(id->engine, &id->source, &id->destination);
	return error;
}

/* --- rdma_accept() --- */

static void refuse(struct engine_cm_id *id, struct cm_turn *turn)
{
	struct cm_message message = {0};

	if (is_datagram(id)) {
		message.kind = CM_SIDR_REP;
		message.sidr_rep.status = CM_SIDR_REJECT;
		(void)cm_sidr_answer(&turn->connections->agent, id->connection, &message, turn->now,
				     &turn->out);
		return;
	}
	message.kind = CM_REJ;
	message.rej.reason = CM_REJECT_CONSUMER;
	(void)cm_reject(&turn->connections->agent, id->connection, &message, turn->now, &turn->out);
}

static int answer(struct engine_cm_id *id, const struct cm_offer *with, struct cm_turn *turn)
{
	struct cm_agent *agent = &turn->connections->agent;
	struct cm_message message = {0};
	int error;

	if (!with)
		return cm_confirm(agent, id->connection, NULL, turn->now, &turn->out);
	error = is_datagram(id) ? fill_sidr_rep(id, with, &message) : fill_rep(id, with, &message);
	if (error)
		return error;
	if (is_datagram(id))
		return cm_sidr_answer(agent, id->connection, &message, turn->now, &turn->out);
	error = cm_accept(agent, id->connection, &message, turn->now, &turn->out);
	if (!error) {
		id->local_qpn = with->qp_number;
		id->initiator_depth = with->initiator_depth;
		id->responder_resources = with->responder_resources;
	}
	return error;
}

int engine_cm_accept(struct engine_cm_id *id, const struct cm_offer *with, void *user)
{
	struct cm_turn turn;
	uint32_t remote_id = 0;
	int error;

	cm_turn_begin(&turn, id->engine);
	if (id->stage != CM_STAGE_CONNECT || !id->connection) {
		error = cm_id_wrong_stage(id, "rdma_accept");
	} else {
		remote_id = id->connection->remote_id;
		error = answer(id, with, &turn);
		if (error == -EINVAL && !turn.out.datagram_count)
			explain_call(EINVAL, "rdma_accept",
				     "the connection is not waiting for that (any more); it is in "
				     "state %s",
				     cm_state_name(id->connection->state));
		if (error)
			refuse(id, &turn);
		else if (with)
			id->user = user;
	}
	cm_turn_end_and_run(&turn);
	if (!error && !with)
		cm_look_at_peer(id, remote_id);
	return error;
}

/* --- rdma_reject() --- */

static int reject(struct engine_cm_id *id, const void *private_data, uint8_t length, uint8_t reason,
		  struct cm_turn *turn)
{
	struct cm_agent *agent = &turn->connections->agent;
	struct cm_message message = {0};
	int error;

	message.kind = is_datagram(id) ? CM_SIDR_REP : CM_REJ;
	error = put_private_data(&message, 0, private_data, private_data ? length : 0,
				 "rdma_reject");
	if (error)
		return error;
	if (is_datagram(id)) {
		message.sidr_rep.status = CM_SIDR_REJECT;
		return cm_sidr_answer(agent, id->connection, &message, turn->now, &turn->out);
	}
	message.rej.reason = reason ? reason : CM_REJECT_CONSUMER;
	return cm_reject(agent, id->connection, &message, turn->now, &turn->out);
}

int engine_cm_reject(struct engine_cm_id *id, const void *private_data, uint8_t length,
		     uint8_t reason)
{
	struct cm_turn turn;
	int error;

	cm_turn_begin(&turn, id->engine);
	if (!id->connection)
		error = cm_id_wrong_stage(id, "rdma_reject");
	else
		error = reject(id, private_data, length, reason, &turn);
	cm_turn_end_and_run(&turn);
	return error;
}

/* --- rdma_disconnect(), rdma_notify() --- */

int engine_cm_disconnect(struct engine_cm_id *id)
{
	struct cm_turn turn;
	int error = 0;

	cm_turn_begin(&turn, id->engine);
	/* As in the kernel: where there is nothing to take down, nothing was wrong either. */
	if (!id->connection)
		error = cm_id_wrong_stage(id, "rdma_disconnect");
	else if (!is_datagram(id))
		(void)cm_disconnect(&turn.connections->agent, id->connection, NULL, turn.now,
				    &turn.out);
	cm_turn_end_and_run(&turn);
	return error;
}

int engine_cm_notify(struct engine_cm_id *id, enum ibv_event_type event)
{
	struct cm_turn turn;
	int error = 0;

	cm_turn_begin(&turn, id->engine);
	if (!id->connection)
		error = cm_id_wrong_stage(id, "rdma_notify");
	else if (event != IBV_EVENT_COMM_EST)
		error = -explain_call(EINVAL, "rdma_notify", "only IBV_EVENT_COMM_EST is taken");
	else if (id->connection->state == CM_ESTABLISHED)
		error = -explain_call(EISCONN, "rdma_notify", "the connection is established");
	else
		error = cm_establish(&turn.connections->agent, id->connection, turn.now, &turn.out);
	cm_turn_end_and_run(&turn);
	return error;
}
