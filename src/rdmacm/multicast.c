/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of endpoints. The event tells where to send; the endpoint's QP is attached
 * when the program fetches it.
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/library.h"

static struct group *create_group(struct endpoint *endpoint, const struct sockaddr *address,
				  bool only_sends, void *context)
{
	struct group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	group->endpoint = endpoint;
	group->context = context;
	group->only_sends = only_sends;
	memcpy(&group->address, address, address_length(address));
	pthread_cond_init(&group->acknowledged, NULL);
	pthread_mutex_lock(&endpoint->lock);
	LIST_INSERT_HEAD(&endpoint->groups, group, next);
	pthread_mutex_unlock(&endpoint->lock);
	return group;
}

static void free_group(struct group *group)
{
	pthread_cond_destroy(&group->acknowledged);
	free(group);
}

static int join(struct rdma_cm_id *id, const struct sockaddr *address, bool only_sends,
		void *context)
{
	struct endpoint *endpoint = endpoint_of(id);
	struct group *group = create_group(endpoint, address, only_sends, context);
	int result;

	if (!group)
		return fail(ENOMEM, "rdma_join_multicast", "no memory for the group");
	result = vbn_cm_join(endpoint->engine_id, address, only_sends, group, &group->engine_group);
	if (!result)
		return endpoint_complete(id);
	pthread_mutex_lock(&endpoint->lock);
	LIST_REMOVE(group, next);
	pthread_mutex_unlock(&endpoint->lock);
	free_group(group);
	return outcome(result);
}

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	if (!address_length(addr))
		return fail(EINVAL, "rdma_join_multicast", "the address is neither IPv4 nor IPv6");
	return join(id, addr, false, context);
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id,
				  struct rdma_cm_join_mc_attr_ex *mc_join_attr, void *context)
{
	const char *call = "rdma_join_multicast_ex";

	if (mc_join_attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return fail(ENOTSUP, call, "comp_mask 0x%x has unknown bits",
			    mc_join_attr->comp_mask);
	if (!(mc_join_attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) ||
	    !(mc_join_attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS))
		return fail(EINVAL, call, "comp_mask must name the address and the join flags");
	if (mc_join_attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return fail(EINVAL, call, "join_flags %u is none", mc_join_attr->join_flags);
	if (!address_length(mc_join_attr->addr))
		return fail(EINVAL, call, "the address is neither IPv4 nor IPv6");
	return join(id, mc_join_attr->addr,
		    mc_join_attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
}

/* Taken out of the list; NULL: never joined. */
static struct group *take_group(struct endpoint *endpoint, const struct sockaddr *address)
{
	struct group *group;

	pthread_mutex_lock(&endpoint->lock);
	LIST_FOREACH(group, &endpoint->groups, next)
	if (memcmp(&group->address, address, address_length(address)) == 0)
		break;
	if (group)
		LIST_REMOVE(group, next);
	pthread_mutex_unlock(&endpoint->lock);
	return group;
}

static void await_group(struct group *group, int reported)
{
	pthread_mutex_lock(&group->endpoint->lock);
	while (group->events_completed < reported)
		pthread_cond_wait(&group->acknowledged, &group->endpoint->lock);
	pthread_mutex_unlock(&group->endpoint->lock);
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct group *group;
	int result;

	if (!address_length(addr))
		return fail(EINVAL, "rdma_leave_multicast", "the address is neither IPv4 nor IPv6");
	group = take_group(endpoint_of(id), addr);
	if (!group)
		return fail(EADDRNOTAVAIL, "rdma_leave_multicast",
			    "the endpoint has not joined this group");
	/* Its QP may be another one by now, or none. */
	if (group->is_attached && id->qp)
		ibv_detach_mcast(id->qp, &group->gid, group->lid);
	result = vbn_cm_leave(endpoint_of(id)->engine_id, group->engine_group);
	if (result >= 0)
		await_group(group, result);
	free_group(group);
	return result < 0 ? outcome(result) : 0;
}
