/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ways of endpoints: from which address to a destination, and by what path.
 *
 * The kernel's routes decide, asked by a socket that is connected and never sends. Then the next
 * hop has to be there (cm_neighbours.c). Where that is known, or there is none, and for
 * routes, the answers come at once, as events nevertheless, since that is where programs wait
 * for them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"
#include "engine/explain.h"
#include "link/descriptor.h"

#define ROCE_PORT 4791
/* What Linux assumes: the lifetime of a packet, and how far it may go. */
#define PACKET_LIFETIME 18
#define HOP_LIMIT 64
/* Of RoCE: no LID, and at least one router away. */
#define NO_LID 0xffff

static int connect_socket(int fd, const struct link_address *from,
			  const struct link_address *destination, struct link_address *source)
{
	struct sockaddr_storage storage;
	socklen_t length = link_socket_address(from, 0, &storage);
	uint16_t port;

	if (!cm_address_is_any(from) && bind(fd, (struct sockaddr *)&storage, length) != 0)
		return -errno;
	length = link_socket_address(destination, ROCE_PORT, &storage);
	if (connect(fd, (struct sockaddr *)&storage, length) != 0)
		return -errno;
	length = sizeof(storage);
	if (getsockname(fd, (struct sockaddr *)&storage, &length) != 0)
		return -errno;
	return cm_address_from((struct sockaddr *)&storage, source, &port);
}

int cm_route_source(const struct engine *engine, const struct link_address *from,
		    const struct link_address *destination, struct link_address *source)
{
	const struct settings *settings = &engine->settings;
	int fd, error;

	/* A host of its own has one address, and everything that there is lies on its network. */
	if (settings->has_address) {
		*source = settings->address;
		return link_address_is_ipv4(destination) ? 0 : -ENETUNREACH;
	}
	fd = descriptor_socket(link_address_is_ipv4(destination) ? AF_INET : AF_INET6,
			       SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	error = connect_socket(fd, from, destination, source);
	close(fd);
	return error;
}

/* --- rdma_resolve_addr() --- */

/* All of them: nobody is there; this host itself is meant. */
static void replace_any(const struct engine *engine, struct link_address *destination)
{
	if (!cm_address_is_any(destination))
		return;
	if (engine->settings.has_address) {
		*destination = engine->settings.address;
	} else if (link_address_is_ipv4(destination)) {
		const uint8_t loopback[4] = {127, 0, 0, 1};

		memcpy(destination->gid + 12, loopback, sizeof(loopback));
	} else {
		destination->gid[15] = 1;
	}
}

/* Busy meanwhile, whatever its stage was. */
static int begin_resolving(struct engine_cm_id *id, const struct sockaddr *source,
			   const struct sockaddr *destination)
{
	const char *call = "rdma_resolve_addr";
	struct link_address address = {0};
	sa_family_t family = destination->sa_family;
	uint16_t port = 0;
	bool is_bound;
	int error;

	pthread_mutex_lock(&connections_of(id->engine)->lock);
	is_bound = id->stage == CM_STAGE_BOUND;
	pthread_mutex_unlock(&connections_of(id->engine)->lock);
	/* What it is bound to already counts, and @source does not. */
	if (is_bound)
		return cm_id_claim(id, CM_STAGE_BOUND, CM_STAGE_ADDRESS_QUERY, call);
	error = cm_id_claim(id, CM_STAGE_IDLE, CM_STAGE_ADDRESS_QUERY, call);
	if (error)
		return error;
	if (source && source->sa_family) {
		family = source->sa_family;
		error = cm_address_from(source, &address, &port);
	} else if (family == AF_INET) {
		address.gid[10] = address.gid[11] = 0xff;
	}
	if (!error)
		error = cm_bind(id, &address, family, port, call);
	if (error)
		cm_id_settle(id, CM_STAGE_IDLE);
	return error;
}

static int find_way(struct engine_cm_id *id, const struct link_address *destination,
		    struct link_address *source)
{
	int error = cm_route_source(id->engine, &id->source, destination, source);
	char text[INET6_ADDRSTRLEN] = "";

	if (!error)
		return 0;
	inet_ntop(link_address_is_ipv4(destination) ? AF_INET : AF_INET6,
		  link_address_is_ipv4(destination) ? destination->gid + 12 : destination->gid,
		  text, sizeof(text));
	return -explain_call(-error, "rdma_resolve_addr", "there is no way to %s: %s", text,
			     strerror(-error));
}

void cm_resolve_end(struct engine_cm_id *id, const struct cm_resolved *resolved, int error)
{
	id->is_busy = false;
	if (id->stage != CM_STAGE_ADDRESS_QUERY)
		return;
	if (!error) {
		id->source = resolved->source;
		if (!id->has_device)
			id->device = resolved->device;
		id->has_device = true;
		id->has_near_peer = cm_is_near(id->engine, &id->destination);
	}
	id->stage = error ? CM_STAGE_BOUND : CM_STAGE_ADDRESS_RESOLVED;
	cm_tell_type(id, error ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, error);
}

/* The endpoint is busy, its way is known and the lock is not held. */
static int find_hop(struct engine_cm_id *id, const struct link_address *source, int timeout_ms)
{
	struct connections *connections = connections_of(id->engine);
	struct cm_resolved resolved = {.source = *source};
	int error = 0;

	if (!id->has_device)
		error = cm_find_device(id->engine, source, &resolved.device);
	if (!id->has_device && !error && id->port_space == RDMA_PS_IPOIB)
		error = -EINVAL;
	if (!error)
		error = cm_resolving_await(id, &resolved, timeout_ms);
	if (error == -EINPROGRESS)
		return 0;
	if (error == -ENOMEM)
		return error;
	pthread_mutex_lock(&connections->lock);
	cm_resolve_end(id, &resolved, error);
	pthread_mutex_unlock(&connections->lock);
	return 0;
}

static void set_destination(struct engine_cm_id *id, const struct link_address *destination,
			    uint16_t port)
{
	pthread_mutex_lock(&connections_of(id->engine)->lock);
	id->destination = *destination;
	id->destination_port = port;
	id->has_destination = true;
	pthread_mutex_unlock(&connections_of(id->engine)->lock);
}

int engine_cm_resolve_address(struct engine_cm_id *id, const struct sockaddr *source,
			      const struct sockaddr *destination, int timeout_ms)
{
	struct link_address address, from;
	uint16_t port;
	int error = cm_address_from(destination, &address, &port);

	if (error)
		return -explain_call(-error, "rdma_resolve_addr", "the family is not IPv4 or IPv6");
	error = begin_resolving(id, source, destination);
	if (error)
		return error;
	replace_any(id->engine, &address);
	if (id->family != destination->sa_family)
		error = -explain_call(EINVAL, "rdma_resolve_addr",
				      "source and destination are of different families");
	else
		error = find_way(id, &address, &from);
	if (error) {
		cm_id_settle(id, CM_STAGE_BOUND);
		return error;
	}
	set_destination(id, &address, port);
	error = find_hop(id, &from, timeout_ms);
	if (error) {
		cm_id_settle(id, CM_STAGE_BOUND);
		return -explain_call(-error, "rdma_resolve_addr", "no memory for the search");
	}
	return 0;
}

/* --- rdma_resolve_route() --- */

/* So that both ends compute the same of it, and networks spread flows: as Linux does. */
static uint32_t flow_label_of(const struct engine_cm_id *id)
{
	return ((uint32_t)id->source_port * 31 + id->destination_port) & 0xfffff;
}

static void fill_path(struct engine_cm_id *id)
{
	const struct cm_device_facts *device = &id->device;
	bool has_lids = device->is_infiniband;

	id->path = (struct ibv_sa_path_rec){
		.dlid = htons(has_lids ? device->destination_lid : NO_LID),
		.slid = htons(has_lids ? device->lid : NO_LID),
		.flow_label = htonl(flow_label_of(id)),
		.hop_limit = HOP_LIMIT,
		.traffic_class = id->has_traffic_class ? id->traffic_class : 0,
		.reversible = 1,
		.numb_path = 1,
		.pkey = htons(DEVICE_PKEY),
		.mtu_selector = 2, /* exactly, here and below */
		.mtu = (uint8_t)device->mtu,
		.rate_selector = 2,
		.packet_life_time_selector = 2,
		.packet_life_time = PACKET_LIFETIME,
	};
	memcpy(id->path.sgid.raw, id->source.gid, sizeof(id->path.sgid.raw));
	memcpy(id->path.dgid.raw, id->destination.gid, sizeof(id->path.dgid.raw));
	/* A timeout that was asked for is two lifetimes (IBA 12.7.34). */
	if (id->has_timeout && id->timeout)
		id->path.packet_life_time = (uint8_t)(id->timeout - 1);
	id->has_path = true;
}

int engine_cm_resolve_route(struct engine_cm_id *id, int timeout_ms)
{
	struct connections *connections = connections_of(id->engine);
	uint16_t lid = cm_find_lid(id->engine, &id->device, &id->destination);
	int error = 0;

	if (!timeout_ms)
		return -explain_call(EINVAL, "rdma_resolve_route", "a timeout of 0 is none");
	pthread_mutex_lock(&connections->lock);
	if (id->stage != CM_STAGE_ADDRESS_RESOLVED || id->is_busy) {
		error = cm_id_wrong_stage(id, "rdma_resolve_route");
	} else {
		id->device.destination_lid = lid;
		fill_path(id);
		id->stage = CM_STAGE_ROUTE_RESOLVED;
		cm_tell_type(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	}
	pthread_mutex_unlock(&connections->lock);
	return error;
}
