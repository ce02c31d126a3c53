/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses and routes of endpoints.
 */
#include <infiniband/ib.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/library.h"

static int refresh_device(struct endpoint *endpoint, const struct cm_way *way, const char *call)
{
	struct rdma_cm_id *id = &endpoint->id;

	if (endpoint->device || !way->has_device)
		return 0;
	endpoint->device = device_take(way, call);
	if (!endpoint->device)
		return -1;
	id->verbs = endpoint->device->context;
	id->pd = endpoint->device->pd;
	id->port_num = way->port;
	return 0;
}

static int refresh_path(struct rdma_cm_id *id, const struct cm_way *way, const char *call)
{
	if (!way->has_path)
		return 0;
	if (!id->route.path_rec)
		id->route.path_rec = malloc(sizeof(*id->route.path_rec));
	if (!id->route.path_rec)
		return fail(ENOMEM, call, "no memory for the path");
	*id->route.path_rec = way->path;
	id->route.num_paths = 1;
	return 0;
}

int endpoint_refresh(struct endpoint *endpoint, const char *call)
{
	struct rdma_cm_id *id = &endpoint->id;
	struct cm_way way;
	int result = vbn_cm_query(endpoint->engine_id, &way);

	if (result < 0)
		return outcome(result);
	id->route.addr.src_storage = way.source;
	id->route.addr.dst_storage = way.destination;
	id->route.addr.addr.ibaddr.sgid = way.sgid;
	id->route.addr.addr.ibaddr.dgid = way.dgid;
	id->route.addr.addr.ibaddr.pkey = way.pkey;
	if (refresh_path(id, &way, call) != 0)
		return -1;
	return refresh_device(endpoint, &way, call);
}

int endpoint_complete(struct rdma_cm_id *id)
{
	int status;

	if (!endpoint_of(id)->is_synchronous)
		return 0;
	if (id->event)
		rdma_ack_cm_event(id->event);
	id->event = NULL;
	if (rdma_get_cm_event(id->channel, &id->event) != 0)
		return -1;
	status = id->event->status;
	if (!status)
		return 0;
	if (id->event->event == RDMA_CM_EVENT_REJECTED)
		errno = ECONNREFUSED;
	else
		errno = status < 0 ? -status : status;
	return -1;
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	int result;

	/* Programs, and rsockets, ask by this whether there are addresses of InfiniBand's own. */
	if (addr && addr->sa_family == AF_IB) {
		errno = EINVAL;
		return -1;
	}
	if (!address_length(addr))
		return fail(EINVAL, "rdma_bind_addr", "the address is neither IPv4 nor IPv6");
	result = vbn_cm_bind(endpoint_of(id)->engine_id, addr);
	return result ? outcome(result) : endpoint_refresh(endpoint_of(id), "rdma_bind_addr");
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr,
			     struct sockaddr *dst_addr, int timeout_ms)
{
	struct sockaddr_storage before;
	int result;

	if (!address_length(dst_addr) || (src_addr && !address_length(src_addr)))
		return fail(EINVAL, "rdma_resolve_addr",
			    "an address is neither IPv4 nor IPv6, or the destination is missing");
	/* The event may come, and be processed by another thread, before the call returns. */
	before = id->route.addr.dst_storage;
	memcpy(&id->route.addr.dst_storage, dst_addr, address_length(dst_addr));
	result = vbn_cm_resolve_address(endpoint_of(id)->engine_id, src_addr, dst_addr, timeout_ms);
	if (result) {
		id->route.addr.dst_storage = before;
		return outcome(result);
	}
	return endpoint_complete(id);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	int result = vbn_cm_resolve_route(endpoint_of(id)->engine_id, timeout_ms);

	return result ? outcome(result) : endpoint_complete(id);
}
