/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that come in: who listens for them, and the endpoint that they become.
 *
 * All that could fail is looked at before the agent takes a request, so that it is either
 * refused by the agent, with the reason that Linux gives, or taken and told. A request that
 * the agent knows already takes nothing of what was prepared.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"
#include "engine/explain.h"

static bool listens_on(const struct engine_cm_id *id, const struct cm_ip *ip)
{
	if (!cm_address_is_any(&id->source))
		return memcmp(id->source.gid, ip->destination, sizeof(ip->destination)) == 0;
	if (id->family == AF_INET)
		return !ip->is_ipv6;
	return ip->is_ipv6 || !id->is_family_only;
}

/* The one whose address is named comes before one for any. @ip NULL: any one for the service. */
static struct engine_cm_id *find_listener(struct connections *connections, uint64_t service_id,
					  const struct cm_ip *ip)
{
	struct engine_cm_id *id, *found = NULL;

	LIST_FOREACH(id, &connections->listeners, listening)
	if (id->service_id == service_id && (!ip || listens_on(id, ip)) &&
	    (!found || cm_address_is_any(&found->source)))
		found = id;
	return found;
}

static uint64_t service_id_of(const struct cm_message *message)
{
	return message->kind == CM_REQ ? message->req.service_id : message->sidr_req.service_id;
}

static uint16_t refusal(const struct cm_message *message, enum cm_reject reject,
			enum cm_sidr_status status)
{
	return message->kind == CM_REQ ? (uint16_t)reject : (uint16_t)status;
}

static enum ibv_qp_type type_of(const struct cm_message *message)
{
	if (message->kind == CM_SIDR_REQ)
		return IBV_QPT_UD;
	switch (message->req.service_type) {
	case CM_SERVICE_UC:
		return IBV_QPT_UC;
	case CM_SERVICE_EXTENDED:
		return IBV_QPT_XRC_RECV;
	default:
		return IBV_QPT_RC;
	}
}

/* What the listener's endpoint would be bound to. The lookup costs system calls: it is kept. */
static bool find_device(struct connections *connections, const struct link_address *address,
			struct cm_device_facts *facts)
{
	struct known_device *known;

	for (uint32_t i = 0; i < connections->known_count; i++) {
		known = &connections->known[i];
		if (link_address_is_equal(&known->address, address) &&
		    known->address.scope == address->scope) {
			*facts = known->facts;
			return true;
		}
	}
	if (cm_find_device(connections->engine, address, facts) != 0)
		return false;
	known = &connections->known[connections->known_next++ % CM_KNOWN_DEVICES];
	*known = (struct known_device){.address = *address, .facts = *facts};
	if (connections->known_count < CM_KNOWN_DEVICES)
		connections->known_count++;
	return true;
}

/* 0, or why it is refused. */
static uint16_t choose_listener(struct connections *connections, const struct cm_message *message,
				struct cm_incoming *incoming)
{
	const struct link_address *destination = &incoming->datagram->destination;
	bool has_header = cm_ip_parse(message->private_data, message->private_bytes, &incoming->ip);
	struct engine_cm_id *listener = find_listener(connections, service_id_of(message),
						      has_header ? &incoming->ip : NULL);

	if (!listener)
		return refusal(message, CM_REJECT_SERVICE_ID, CM_SIDR_UNSUPPORTED);
	/* Addresses that the header only claims would lead the QPs astray. */
	if (!has_header || memcmp(destination->gid, incoming->ip.destination, 16) != 0 ||
	    listener->qp_type != type_of(message) || !listener->backlog || !listener->channel)
		return refusal(message, CM_REJECT_CONSUMER, CM_SIDR_REJECT);
	incoming->listener = listener;
	return 0;
}

static void fill_addresses(struct engine_cm_id *request, const struct engine_cm_id *listener,
			   const struct cm_incoming *incoming)
{
	request->family = incoming->ip.is_ipv6 ? AF_INET6 : AF_INET;
	request->source = incoming->datagram->destination;
	request->source_port = listener->source_port;
	request->destination = incoming->datagram->source;
	request->destination_port = incoming->ip.source_port;
	request->has_destination = true;
	request->has_near_peer = cm_is_near(request->engine, &request->destination);
}

static struct engine_cm_id *create_request(struct connections *connections,
					   const struct cm_incoming *incoming)
{
	const struct engine_cm_id *listener = incoming->listener;
	struct engine_cm_id *request =
		cm_id_create(connections->engine, listener->port_space, listener->qp_type);

	if (!request)
		return NULL;
	fill_addresses(request, listener, incoming);
	if (find_device(connections, &request->source, &request->device)) {
		request->has_device = true;
		return request;
	}
	free(request);
	return NULL;
}

void cm_request_prepare(struct connections *connections, const struct gsi_datagram *datagram,
			const struct cm_message *message, struct cm_incoming *incoming,
			struct cm_arrival *arrival)
{
	incoming->datagram = datagram;
	arrival->refusal = choose_listener(connections, message, incoming);
	if (!incoming->listener)
		return;
	incoming->request = create_request(connections, incoming);
	arrival->spare = incoming->request ? cm_connection_create(connections, incoming->request)
					   : NULL;
	if (!arrival->spare)
		arrival->refusal = refusal(message, CM_REJECT_NO_RESOURCES, CM_SIDR_REJECT);
}

void cm_request_release(struct connections *connections, struct cm_incoming *incoming,
			struct cm_arrival *arrival)
{
	/* Taken: it tells so at the end of the turn. */
	if (arrival->spare && arrival->spare->state != CM_IDLE)
		return;
	if (arrival->spare)
		cm_connection_drop(connections, arrival->spare);
	free(incoming->request);
}

static void fill_path(struct engine_cm_id *request, const struct cm_req *req)
{
	const struct cm_req_path *from = &req->primary;
	bool has_lids = request->device.is_infiniband;

	request->device.destination_lid = has_lids ? from->local_lid : 0;
	request->path = (struct ibv_sa_path_rec){
		.dlid = htons(from->local_lid),
		.slid = htons(from->remote_lid),
		.flow_label = htonl(from->flow_label),
		.hop_limit = from->hop_limit,
		.traffic_class = from->traffic_class,
		.reversible = 1,
		.numb_path = 1,
		.pkey = htons(req->pkey),
		.sl = from->sl,
		.mtu_selector = 2, /* exactly, here and below */
		.mtu = req->mtu,
		.rate_selector = 2,
		.rate = from->packet_rate,
		.packet_life_time_selector = 2,
		.packet_life_time = (uint8_t)(from->ack_timeout ? from->ack_timeout - 1 : 0),
	};
	memcpy(request->path.sgid.raw, request->source.gid, sizeof(request->path.sgid.raw));
	memcpy(request->path.dgid.raw, request->destination.gid, sizeof(request->path.dgid.raw));
	request->has_path = true;
}

/* Behind the header that is ours. */
static void copy_private_data(struct cm_told *told, const struct cm_message *message)
{
	told->private_data_length = (uint8_t)(message->private_bytes - CM_IP_BYTES);
	memcpy(told->private_data, message->private_data + CM_IP_BYTES, told->private_data_length);
}

static void fill_connection(struct cm_told *told, const struct cm_req *req)
{
	told->conn = (struct rdma_conn_param){
		/* As seen from here. */
		.responder_resources = req->initiator_depth,
		.initiator_depth = req->responder_resources,
		.flow_control = req->flow_control,
		.retry_count = req->retry_count,
		.rnr_retry_count = req->rnr_retry_count,
		.srq = req->srq,
		.qp_num = req->qpn,
	};
}

void cm_request_taken(struct cm_turn *turn, const struct cm_event *event)
{
	struct engine_cm_id *listener = turn->incoming->listener;
	struct engine_cm_id *request = event->connection->owner;
	struct cm_told told = {
		.type = RDMA_CM_EVENT_CONNECT_REQUEST,
		.is_datagram = event->kind == CM_EVENT_SIDR_REQUEST,
		.request = request,
		.ece = {event->message.ece_vendor, event->message.ece_options},
	};

	request->connection = event->connection;
	cm_choose_watch(turn->connections, event->connection, &request->destination);
	request->stage = CM_STAGE_CONNECT;
	request->channel = listener->channel;
	LIST_INSERT_HEAD(&turn->connections->ids, request, next);
	copy_private_data(&told, &event->message);
	if (event->kind == CM_EVENT_REQUEST) {
		fill_connection(&told, &event->message.req);
		fill_path(request, &event->message.req);
		cm_learn_request(request, &event->message);
	}
	if (cm_tell(listener, &told)) {
		listener->backlog--;
		return;
	}
	cm_id_end(request, turn);
	engine_cm_free(request);
}
