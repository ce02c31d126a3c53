/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events: what the engine tells becomes what the program sees, and some of it has
 * consequences first: a request becomes a new endpoint, an answer brings the QP up.
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/library.h"

#define CALL "rdma_get_cm_event"

static void copy_private_data(struct told_event *event, const struct cm_told *told)
{
	memcpy(event->private_data, told->private_data, told->private_data_length);
}

static void copy_connection(struct told_event *event, const struct cm_told *told)
{
	struct rdma_conn_param *conn = &event->event.param.conn;

	copy_private_data(event, told);
	*conn = told->conn;
	conn->private_data = told->private_data_length ? event->private_data : NULL;
	conn->private_data_len = told->private_data_length;
}

static void copy_datagram(struct told_event *event, const struct cm_told *told)
{
	struct rdma_ud_param *ud = &event->event.param.ud;

	copy_private_data(event, told);
	*ud = told->ud;
	ud->private_data = told->private_data_length ? event->private_data : NULL;
	ud->private_data_len = told->private_data_length;
}

static void copy_parameters(struct told_event *event, const struct cm_told *told)
{
	if (told->is_datagram)
		copy_datagram(event, told);
	else
		copy_connection(event, told);
}

static void process_address(struct told_event *event)
{
	struct endpoint *endpoint = event->endpoint;

	event->event.status = endpoint_refresh(endpoint, CALL);
	if (event->event.status)
		event->event.event = RDMA_CM_EVENT_ADDR_ERROR;
}

static void process_route(struct told_event *event)
{
	event->event.status = endpoint_refresh(event->endpoint, CALL);
	if (event->event.status)
		event->event.event = RDMA_CM_EVENT_ROUTE_ERROR;
}

/* Requests that come to a synchronous endpoint become synchronous endpoints. */
static int settle_request(struct endpoint *listener, struct endpoint *request)
{
	if (listener->is_synchronous && rdma_migrate_id(&request->id, NULL) != 0)
		return -1;
	return endpoint_refresh(request, CALL);
}

static struct endpoint *create_request(struct endpoint *listener, const struct cm_told *told)
{
	struct endpoint *request = endpoint_create(listener->id.channel, listener->id.context,
						   listener->id.ps, listener->id.qp_type);

	if (!request) {
		vbn_cm_destroy(told->request);
		vbn_cm_free(told->request);
		return NULL;
	}
	request->engine_id = told->request;
	request->initiator_depth = told->conn.initiator_depth;
	request->responder_resources = told->conn.responder_resources;
	request->remote_ece.vendor_id = told->ece.vendor_id;
	request->remote_ece.options = told->ece.options;
	if (settle_request(listener, request) == 0)
		return request;
	rdma_destroy_id(&request->id);
	return NULL;
}

/* False: the request could not be taken up, and is refused; the program hears nothing of it. */
static bool process_request(struct told_event *event, const struct cm_told *told)
{
	struct endpoint *request = create_request(event->endpoint, told);

	if (!request) {
		endpoint_count_event(event->endpoint);
		return false;
	}
	copy_parameters(event, told);
	event->event.listen_id = &event->endpoint->id;
	event->event.id = &request->id;
	return true;
}

static void process_answer(struct told_event *event, const struct cm_told *told)
{
	struct endpoint *endpoint = event->endpoint;

	copy_connection(event, told);
	if (!endpoint->id.qp) {
		endpoint->remote_ece.vendor_id = told->ece.vendor_id;
		endpoint->remote_ece.options = told->ece.options;
		return;
	}
	event->event.status = endpoint_accept_answer_with_ece(endpoint, &told->ece);
	event->event.event = event->event.status ? RDMA_CM_EVENT_CONNECT_ERROR
						 : RDMA_CM_EVENT_ESTABLISHED;
	if (event->event.status)
		endpoint->has_failed = 1;
}

/* False: the program was told already that the connection failed. */
static bool process_end(struct told_event *event, const struct cm_told *told)
{
	if (event->endpoint->has_failed) {
		endpoint_count_event(event->endpoint);
		return false;
	}
	copy_connection(event, told);
	if (told->type == RDMA_CM_EVENT_REJECTED)
		endpoint_qp_to_error(&event->endpoint->id);
	return true;
}

static int attach(struct group *group)
{
	struct ibv_qp *qp = group->endpoint->id.qp;
	int error;

	if (!qp || group->only_sends)
		return 0;
	error = ibv_attach_mcast(qp, &group->gid, group->lid);
	group->is_attached = !error;
	return outcome_of_verb(error);
}

static void process_group(struct told_event *event, const struct cm_told *told)
{
	struct group *group = event->group;

	if (told->type == RDMA_CM_EVENT_MULTICAST_JOIN) {
		copy_datagram(event, told);
		group->gid = told->ud.ah_attr.grh.dgid;
		group->lid = told->ud.ah_attr.dlid;
		event->event.status = attach(group);
		if (event->event.status)
			event->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
	}
	/* Where other events have private data this one has the context of the join. */
	event->event.param.ud.private_data = group->context;
}

/* False: nothing for the program. */
static bool process(struct told_event *event, const struct cm_told *told)
{
	switch (told->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		process_address(event);
		return true;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		process_route(event);
		return true;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return process_request(event, told);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		process_answer(event, told);
		return true;
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DISCONNECTED:
		return process_end(event, told);
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		process_group(event, told);
		return true;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	}
	copy_parameters(event, told);
	return true;
}

static void begin(struct told_event *event, const struct cm_told *told)
{
	memset(event, 0, sizeof(*event));
	event->event.event = told->type;
	event->event.status = told->status;
	if (told->type == RDMA_CM_EVENT_MULTICAST_JOIN ||
	    told->type == RDMA_CM_EVENT_MULTICAST_ERROR) {
		event->group = told->user;
		event->endpoint = event->group->endpoint;
	} else {
		event->endpoint = told->user;
	}
	event->event.id = &event->endpoint->id;
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct told_event *taken;
	struct cm_told told;

	if (!event)
		return fail(EINVAL, CALL, "there is no place for the event");
	taken = malloc(sizeof(*taken));
	if (!taken)
		return fail(ENOMEM, CALL, "no memory for the event");
	do {
		if (vbn_cm_get_event(channel_of(channel)->channel, &told) != 0) {
			int error = errno;

			free(taken);
			errno = error;
			return -1;
		}
		begin(taken, &told);
	} while (!process(taken, &told));
	*event = &taken->event;
	return 0;
}

static void count_group_event(struct group *group)
{
	struct endpoint *endpoint = group->endpoint;

	pthread_mutex_lock(&endpoint->lock);
	group->events_completed++;
	pthread_cond_signal(&group->acknowledged);
	endpoint->events_completed++;
	pthread_cond_signal(&endpoint->acknowledged);
	pthread_mutex_unlock(&endpoint->lock);
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct told_event *taken = (struct told_event *)event;

	if (!event)
		return fail(EINVAL, "rdma_ack_cm_event", "there is no event");
	if (taken->group)
		count_group_event(taken->group);
	else
		endpoint_count_event(taken->endpoint);
	free(taken);
	return 0;
}

EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const names[] = {
		[RDMA_CM_EVENT_ADDR_RESOLVED] = "RDMA_CM_EVENT_ADDR_RESOLVED",
		[RDMA_CM_EVENT_ADDR_ERROR] = "RDMA_CM_EVENT_ADDR_ERROR",
		[RDMA_CM_EVENT_ROUTE_RESOLVED] = "RDMA_CM_EVENT_ROUTE_RESOLVED",
		[RDMA_CM_EVENT_ROUTE_ERROR] = "RDMA_CM_EVENT_ROUTE_ERROR",
		[RDMA_CM_EVENT_CONNECT_REQUEST] = "RDMA_CM_EVENT_CONNECT_REQUEST",
		[RDMA_CM_EVENT_CONNECT_RESPONSE] = "RDMA_CM_EVENT_CONNECT_RESPONSE",
		[RDMA_CM_EVENT_CONNECT_ERROR] = "RDMA_CM_EVENT_CONNECT_ERROR",
		[RDMA_CM_EVENT_UNREACHABLE] = "RDMA_CM_EVENT_UNREACHABLE",
		[RDMA_CM_EVENT_REJECTED] = "RDMA_CM_EVENT_REJECTED",
		[RDMA_CM_EVENT_ESTABLISHED] = "RDMA_CM_EVENT_ESTABLISHED",
		[RDMA_CM_EVENT_DISCONNECTED] = "RDMA_CM_EVENT_DISCONNECTED",
		[RDMA_CM_EVENT_DEVICE_REMOVAL] = "RDMA_CM_EVENT_DEVICE_REMOVAL",
		[RDMA_CM_EVENT_MULTICAST_JOIN] = "RDMA_CM_EVENT_MULTICAST_JOIN",
		[RDMA_CM_EVENT_MULTICAST_ERROR] = "RDMA_CM_EVENT_MULTICAST_ERROR",
		[RDMA_CM_EVENT_ADDR_CHANGE] = "RDMA_CM_EVENT_ADDR_CHANGE",
		[RDMA_CM_EVENT_TIMEWAIT_EXIT] = "RDMA_CM_EVENT_TIMEWAIT_EXIT",
	};
	size_t number = (size_t)event;

	return number < sizeof(names) / sizeof(names[0]) ? names[number] : "UNKNOWN EVENT";
}
