/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups of endpoints. The network is joined when the QP is attached, which the face does; here
 * the program learns how to send to the group.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"
#include "engine/explain.h"

#define HOP_LIMIT 64

static int check_join(const struct engine_cm_id *id, const struct link_address *address)
{
	const char *call = "rdma_join_multicast";

	if (id->stage != CM_STAGE_BOUND && id->stage != CM_STAGE_ADDRESS_RESOLVED)
		return cm_id_wrong_stage(id, call);
	if (id->qp_type != IBV_QPT_UD)
		return -explain_call(EINVAL, call, "only endpoints for datagrams join groups");
	if (!id->has_device)
		return -explain_call(EINVAL, call,
				     "the endpoint is bound to no device; bind it to an address "
				     "or resolve one first");
	if (!link_address_is_multicast(address))
		return -explain_call(EINVAL, call, "this is no multicast address");
	return 0;
}

/* The lock is held. */
static bool tell_joined(struct engine_cm_group *group, const struct link_address *address)
{
	struct engine_cm_id *id = group->id;
	struct cm_told told = {.type = RDMA_CM_EVENT_MULTICAST_JOIN, .is_datagram = true};
	struct ibv_ah_attr *ah = &told.ud.ah_attr;

	if (!id->qkey)
		id->qkey = RDMA_UDP_QKEY;
	told.ud.qp_num = MULTICAST_QPN;
	told.ud.qkey = id->qkey;
	ah->is_global = 1;
	ah->port_num = 1;
	ah->grh.sgid_index = id->device.gid_index;
	ah->grh.hop_limit = HOP_LIMIT;
	ah->grh.traffic_class = id->has_traffic_class ? id->traffic_class : 0;
	memcpy(ah->grh.dgid.raw, address->gid, sizeof(ah->grh.dgid.raw));
	return cm_tell_group(group, &told);
}

int engine_cm_join(struct engine_cm_id *id, const struct sockaddr *address, bool only_sends,
		   void *user, struct engine_cm_group **group)
{
	struct connections *connections = connections_of(id->engine);
	struct engine_cm_group *joined = calloc(1, sizeof(*joined));
	uint8_t gid_index = cm_gid_index(id);
	struct link_address gid;
	uint16_t port;
	int error = cm_address_from(address, &gid, &port);

	/* Sending needs no membership anywhere; the face does not attach then. */
	(void)only_sends;
	if (!joined)
		return -explain_call(ENOMEM, "rdma_join_multicast", "no memory for the group");
	joined->id = id;
	joined->user = user;
	pthread_mutex_lock(&connections->lock);
	if (!error)
		error = check_join(id, &gid);
	if (!error) {
		id->device.gid_index = gid_index;
		LIST_INSERT_HEAD(&id->groups, joined, next);
		if (!tell_joined(joined, &gid)) {
			LIST_REMOVE(joined, next);
			error = -ENOMEM;
		}
	}
	pthread_mutex_unlock(&connections->lock);
	if (error)
		free(joined);
	else
		*group = joined;
	return error;
}

uint32_t engine_cm_leave(struct engine_cm_id *id, struct engine_cm_group *group)
{
	uint32_t reported;
	struct cm_turn turn;

	cm_turn_begin(&turn, id->engine);
	cm_untell(id, group, &turn);
	LIST_REMOVE(group, next);
	reported = atomic_load(&group->reported);
	cm_turn_end(&turn);
	free(group);
	return reported;
}
