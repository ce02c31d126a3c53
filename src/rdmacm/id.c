/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Life of an endpoint.
 */
#include "rdmacm/id.h"

#include <stdlib.h>
#include <string.h>

#include "rdmacm/library.h"

size_t address_length(const struct sockaddr *address)
{
	if (!address)
		return 0;
	switch (address->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

struct endpoint *endpoint_create(struct rdma_event_channel *channel, void *context,
				 enum rdma_port_space port_space, enum ibv_qp_type qp_type)
{
	struct endpoint *endpoint = calloc(1, sizeof(*endpoint));

	if (!endpoint) {
		errno = ENOMEM;
		return NULL;
	}
	endpoint->id.context = context;
	endpoint->id.ps = port_space;
	endpoint->id.qp_type = qp_type;
	endpoint->id.channel = channel ? channel : channel_create_own();
	endpoint->is_synchronous = !channel;
	if (!endpoint->id.channel) {
		free(endpoint);
		return NULL;
	}
	LIST_INIT(&endpoint->groups);
	pthread_mutex_init(&endpoint->lock, NULL);
	pthread_cond_init(&endpoint->acknowledged, NULL);
	return endpoint;
}

void endpoint_free(struct endpoint *endpoint)
{
	struct group *group;

	while ((group = LIST_FIRST(&endpoint->groups))) {
		LIST_REMOVE(group, next);
		pthread_cond_destroy(&group->acknowledged);
		free(group);
	}
	if (endpoint->device)
		device_return(endpoint->device);
	pthread_cond_destroy(&endpoint->acknowledged);
	pthread_mutex_destroy(&endpoint->lock);
	free(endpoint->id.route.path_rec);
	if (endpoint->is_synchronous)
		rdma_destroy_event_channel(endpoint->id.channel);
	if (endpoint->engine_id)
		vbn_cm_free(endpoint->engine_id);
	free(endpoint->connect_data);
	free(endpoint);
}

int endpoint_open(const char *call, struct rdma_event_channel *channel, struct rdma_cm_id **id,
		  void *context, enum rdma_port_space port_space, enum ibv_qp_type qp_type)
{
	struct endpoint *endpoint;
	int error;

	if (devices_expect(call) != 0)
		return -1;
	endpoint = endpoint_create(channel, context, port_space, qp_type);
	if (!endpoint)
		return fail(errno, call, "no memory or no descriptor for the endpoint");
	error = vbn_cm_create(channel_of(endpoint->id.channel)->channel, port_space, qp_type,
			      endpoint, &endpoint->engine_id);
	if (error) {
		endpoint_free(endpoint);
		return outcome(error);
	}
	*id = &endpoint->id;
	return 0;
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space ps)
{
	enum ibv_qp_type type = ps == RDMA_PS_IPOIB || ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;

	return endpoint_open("rdma_create_id", channel, id, context, ps, type);
}

void endpoint_count_event(struct endpoint *endpoint)
{
	pthread_mutex_lock(&endpoint->lock);
	endpoint->events_completed++;
	pthread_cond_signal(&endpoint->acknowledged);
	pthread_mutex_unlock(&endpoint->lock);
}

void endpoint_await(struct endpoint *endpoint, int reported)
{
	pthread_mutex_lock(&endpoint->lock);
	while (endpoint->events_completed < reported)
		pthread_cond_wait(&endpoint->acknowledged, &endpoint->lock);
	pthread_mutex_unlock(&endpoint->lock);
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	int reported = vbn_cm_destroy(endpoint_of(id)->engine_id);

	if (reported < 0)
		return outcome(reported);
	if (id->event)
		rdma_ack_cm_event(id->event);
	endpoint_await(endpoint_of(id), reported);
	endpoint_free(endpoint_of(id));
	return 0;
}

/* The old channel of a synchronous endpoint is its own and goes. */
static void leave_own_channel(struct rdma_cm_id *id)
{
	if (!endpoint_of(id)->is_synchronous)
		return;
	if (id->event)
		rdma_ack_cm_event(id->event);
	id->event = NULL;
	rdma_destroy_event_channel(id->channel);
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct endpoint *endpoint = endpoint_of(id);
	bool is_synchronous = !channel;
	int reported;

	if (endpoint->is_synchronous && !channel)
		return fail(EINVAL, "rdma_migrate_id", "the endpoint is synchronous already");
	if (is_synchronous)
		channel = channel_create_own();
	if (!channel)
		return -1;
	reported = vbn_cm_migrate(endpoint->engine_id, channel_of(channel)->channel);
	if (reported < 0) {
		if (is_synchronous)
			rdma_destroy_event_channel(channel);
		return outcome(reported);
	}
	leave_own_channel(id);
	endpoint->is_synchronous = is_synchronous;
	id->channel = channel;
	/* Events of the old channel that the program holds are done with before this returns. */
	endpoint_await(endpoint, reported);
	return 0;
}

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
			   size_t optlen)
{
	return outcome(
		vbn_cm_set_option(endpoint_of(id)->engine_id, level, optname, optval, optlen));
}

static __be16 port_of(const struct sockaddr *address)
{
	switch (address->sa_family) {
	case AF_INET:
		return ((const struct sockaddr_in *)address)->sin_port;
	case AF_INET6:
		return ((const struct sockaddr_in6 *)address)->sin6_port;
	default:
		return 0;
	}
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.src_addr);
}

EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.dst_addr);
}
