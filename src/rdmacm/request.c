/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints in one call: rdma_create_ep() and what belongs to it.
 */
#include <rdma/rdma_verbs.h>

#include <stdlib.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/library.h"

static int prepare_passive(struct rdma_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			   const struct ibv_qp_init_attr *attr)
{
	struct endpoint *endpoint = endpoint_of(id);

	if (rdma_bind_addr(id, res->ai_src_addr) != 0)
		return -1;
	if (pd)
		id->pd = pd;
	if (!attr)
		return 0;
	endpoint->qp_attr = malloc(sizeof(*attr));
	if (!endpoint->qp_attr)
		return fail(ENOMEM, "rdma_create_ep", "no memory for the QP's attributes");
	*endpoint->qp_attr = *attr;
	endpoint->qp_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return 0;
}

static int keep_connect_data(struct endpoint *endpoint, const struct rdma_addrinfo *res)
{
	if (!res->ai_connect_len)
		return 0;
	endpoint->connect_data = malloc(res->ai_connect_len);
	if (!endpoint->connect_data)
		return fail(ENOMEM, "rdma_create_ep", "no memory for ai_connect");
	memcpy(endpoint->connect_data, res->ai_connect, res->ai_connect_len);
	endpoint->connect_data_length = res->ai_connect_len;
	return 0;
}

static int take_route(struct rdma_cm_id *id, struct rdma_addrinfo *res, int timeout_ms)
{
	if (!res->ai_route_len)
		return rdma_resolve_route(id, timeout_ms);
	if (rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route,
			    res->ai_route_len) != 0)
		return -1;
	return endpoint_complete(id);
}

static int prepare_active(struct rdma_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *attr)
{
	const int timeout_ms = 2000; /* rdma-core's */

	if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, timeout_ms) != 0 ||
	    take_route(id, res, timeout_ms) != 0)
		return -1;
	if (attr) {
		attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
		if (rdma_create_qp(id, pd, attr) != 0)
			return -1;
	}
	return keep_connect_data(endpoint_of(id), res);
}

EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *qp_init_attr)
{
	struct rdma_cm_id *created;
	int result, error;

	if (endpoint_open("rdma_create_ep", NULL, &created, NULL,
			  (enum rdma_port_space)res->ai_port_space,
			  (enum ibv_qp_type)res->ai_qp_type) != 0)
		return -1;
	if (res->ai_flags & RAI_PASSIVE)
		result = prepare_passive(created, res, pd, qp_init_attr);
	else
		result = prepare_active(created, res, pd, qp_init_attr);
	if (result == 0) {
		*id = created;
		return 0;
	}
	error = errno;
	rdma_destroy_ep(created);
	errno = error;
	return -1;
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr *attr = endpoint_of(id)->qp_attr;

	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	if (rdma_destroy_id(id) == 0)
		free(attr);
}

static int check_request(const struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return fail(ECONNREFUSED, "rdma_get_request", "the connection was refused");
	if (event->status)
		return fail(-event->status, "rdma_get_request", "%s", rdma_event_str(event->event));
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return fail(EINVAL, "rdma_get_request", "%s came instead of a request",
			    rdma_event_str(event->event));
	return 0;
}

static int create_request_qp(struct rdma_cm_id *listen, struct rdma_cm_id *request)
{
	struct ibv_qp_init_attr attr;

	if (!endpoint_of(listen)->qp_attr)
		return 0;
	attr = *endpoint_of(listen)->qp_attr;
	return rdma_create_qp(request, listen->pd, &attr);
}

EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;

	if (!endpoint_of(listen)->is_synchronous)
		return fail(EINVAL, "rdma_get_request",
			    "the endpoint has an event channel; use rdma_get_cm_event");
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &event) != 0)
		return -1;
	if (check_request(event) != 0 || create_request_qp(listen, event->id) != 0) {
		listen->event = event;
		return -1;
	}
	*id = event->id;
	(*id)->event = event;
	return 0;
}
