/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Life of endpoints, and their options.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"
#include "engine/explain.h"

static const char *stage_name(enum cm_stage stage)
{
	static const char *const names[] = {
		[CM_STAGE_IDLE] = "fresh",
		[CM_STAGE_BOUND] = "bound",
		[CM_STAGE_ADDRESS_QUERY] = "resolving its address",
		[CM_STAGE_ADDRESS_RESOLVED] = "one whose address is resolved",
		[CM_STAGE_ROUTE_RESOLVED] = "one whose route is resolved",
		[CM_STAGE_CONNECT] = "connecting or connected",
		[CM_STAGE_DISCONNECT] = "disconnected",
		[CM_STAGE_LISTEN] = "listening",
		[CM_STAGE_REMOVED] = "one whose device is gone",
		[CM_STAGE_DESTROYED] = "destroyed",
	};

	return names[stage];
}

int cm_id_wrong_stage(const struct engine_cm_id *id, const char *call)
{
	if (id->stage == CM_STAGE_DESTROYED)
		return -explain_call(ENOENT, call, "the endpoint was destroyed");
	return -explain_call(EINVAL, call, "not with an endpoint that is %s",
			     id->is_busy ? "in the middle of another call" : stage_name(id->stage));
}

int cm_id_claim(struct engine_cm_id *id, enum cm_stage from, enum cm_stage to, const char *call)
{
	struct connections *connections = connections_of(id->engine);
	int error = 0;

	pthread_mutex_lock(&connections->lock);
	if (id->stage != from || id->is_busy) {
		error = cm_id_wrong_stage(id, call);
	} else {
		id->stage = to;
		id->is_busy = true;
	}
	pthread_mutex_unlock(&connections->lock);
	return error;
}

void cm_id_settle(struct engine_cm_id *id, enum cm_stage stage)
{
	struct connections *connections = connections_of(id->engine);

	pthread_mutex_lock(&connections->lock);
	id->is_busy = false;
	if (id->stage != CM_STAGE_DESTROYED && id->stage != CM_STAGE_REMOVED)
		id->stage = stage;
	pthread_mutex_unlock(&connections->lock);
}

struct engine_cm_id *cm_id_create(struct engine *engine, enum rdma_port_space port_space,
				  enum ibv_qp_type qp_type)
{
	struct engine_cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->engine = engine;
	id->port_space = port_space;
	id->qp_type = qp_type;
	id->local_psn = random_number() & 0xffffff;
	LIST_INIT(&id->notices);
	LIST_INIT(&id->groups);
	return id;
}

/* Of which type the QPs are says the port space, but for the one that leaves it open. */
static int type_of(enum rdma_port_space port_space, enum ibv_qp_type *qp_type)
{
	switch (port_space) {
	case RDMA_PS_TCP:
		*qp_type = IBV_QPT_RC;
		return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*qp_type = IBV_QPT_UD;
		return 0;
	case RDMA_PS_IB:
		return 0;
	}
	return -explain_call(EINVAL, "rdma_create_id", "0x%x is no port space",
			     (unsigned int)port_space);
}

int engine_cm_create(struct engine *engine, struct event_queue *channel,
		     enum rdma_port_space port_space, enum ibv_qp_type qp_type, void *user,
		     struct engine_cm_id **id)
{
	int error = type_of(port_space, &qp_type);
	struct connections *connections;

	if (error)
		return error;
	connections = connections_of(engine);
	*id = connections ? cm_id_create(engine, port_space, qp_type) : NULL;
	if (!*id)
		return -explain_call(ENOMEM, "rdma_create_id", "no memory for the endpoint");
	(*id)->channel = channel;
	(*id)->user = user;
	pthread_mutex_lock(&connections->lock);
	LIST_INSERT_HEAD(&connections->ids, *id, next);
	pthread_mutex_unlock(&connections->lock);
	return 0;
}

struct engine *engine_cm_engine(const struct engine_cm_id *id)
{
	return id->engine;
}

void engine_cm_set_keeper(struct engine_cm_id *id, void *keeper)
{
	id->keeper = keeper;
}

void *engine_cm_keeper(const struct engine_cm_id *id)
{
	return id->keeper;
}

static void forget_groups(struct engine_cm_id *id)
{
	struct engine_cm_group *group;

	while ((group = LIST_FIRST(&id->groups))) {
		LIST_REMOVE(group, next);
		free(group);
	}
}

void cm_id_end(struct engine_cm_id *id, struct cm_turn *turn)
{
	struct cm_connection *connection = id->connection;

	if (id->stage == CM_STAGE_LISTEN)
		LIST_REMOVE(id, listening);
	if (id->stage == CM_STAGE_ADDRESS_QUERY)
		cm_resolving_cancel(atomic_load(&id->engine->connections), id);
	id->stage = CM_STAGE_DESTROYED;
	id->connection = NULL;
	cm_untell(id, NULL, turn);
	forget_groups(id);
	if (connection && turn)
		cm_release(&turn->connections->agent, connection, turn->now, &turn->out);
	LIST_REMOVE(id, next);
}

uint32_t engine_cm_destroy(struct engine_cm_id *id)
{
	struct host_port *port = id->port;
	struct cm_turn turn;

	/* What the child of a fork inherited says nothing to anybody. */
	if (engine_is_inherited(id->engine)) {
		id->stage = CM_STAGE_DESTROYED;
		return 0;
	}
	cm_turn_begin(&turn, id->engine);
	if (id->stage != CM_STAGE_DESTROYED)
		cm_id_end(id, &turn);
	id->port = NULL;
	cm_turn_end_and_run(&turn);
	if (port)
		host_port_release(id->ports, port);
	return atomic_load(&id->reported);
}

void engine_cm_free(struct engine_cm_id *id)
{
	free(id);
}

void engine_cm_leave_channel(struct engine *engine, struct event_queue *channel)
{
	struct connections *connections = atomic_load(&engine->connections);
	struct engine_cm_id *id;
	struct cm_turn turn;

	if (!connections || engine_is_inherited(engine))
		return;
	cm_turn_begin(&turn, engine);
	LIST_FOREACH(id, &connections->ids, next)
	if (id->channel == channel) {
		cm_untell(id, NULL, &turn);
		id->channel = NULL;
	}
	cm_turn_end(&turn);
}

/* The lock is held. */
static void move_notices(struct engine_cm_id *id, struct event_queue *channel)
{
	struct cm_notice *notice, *oldest = NULL;

	/* The list has the youngest in front, and the new channel wants the oldest first. */
	LIST_FOREACH(notice, &id->notices, next)
	oldest = notice;
	for (notice = oldest; notice;) {
		struct cm_notice *younger = NULL, *other;
		struct event event = {.object = notice};

		LIST_FOREACH(other, &id->notices, next)
		if (LIST_NEXT(other, next) == notice)
			younger = other;
		/* One that somebody has popped stays his. */
		if (event_queue_purge(id->channel, notice))
			event_queue_push(channel, &event);
		notice = younger;
	}
}

uint32_t engine_cm_migrate(struct engine_cm_id *id, struct event_queue *channel)
{
	struct connections *connections = connections_of(id->engine);
	uint32_t reported;

	pthread_mutex_lock(&connections->lock);
	if (id->channel && id->channel != channel)
		move_notices(id, channel);
	id->channel = channel;
	reported = atomic_load(&id->reported);
	pthread_mutex_unlock(&connections->lock);
	return reported;
}

/* --- options; the lock is held --- */

static int set_timeout(struct engine_cm_id *id, uint8_t timeout)
{
	if (id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND)
		return -explain_call(EINVAL, "rdma_set_option",
				     "only RC and XRC_SEND QPs have an ACK timeout");
	id->has_timeout = true;
	id->timeout = timeout;
	return 0;
}

static int set_reuse(struct engine_cm_id *id, bool reuses)
{
	/* An endpoint that is bound may begin to reuse, but not stop. */
	if (id->stage != CM_STAGE_IDLE && !(reuses && id->stage != CM_STAGE_LISTEN))
		return -explain_call(EINVAL, "rdma_set_option",
				     "RDMA_OPTION_ID_REUSEADDR comes before binding");
	id->reuses_address = reuses;
	return 0;
}

static int set_family_only(struct engine_cm_id *id, bool is_only)
{
	if (id->stage != CM_STAGE_IDLE && id->stage != CM_STAGE_BOUND)
		return -explain_call(EINVAL, "rdma_set_option",
				     "RDMA_OPTION_ID_AFONLY comes before resolving and listening");
	id->has_family_only = true;
	id->is_family_only = is_only;
	return 0;
}

static int set_path(struct engine_cm_id *id, const struct ibv_path_data *data, size_t length)
{
	const uint32_t wanted = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
				IBV_PATH_FLAG_BIDIRECTIONAL;
	size_t count = length / sizeof(*data), i = 0;

	while (i < count && data[i].flags != wanted)
		i++;
	if (length % sizeof(*data) || i == count)
		return -explain_call(EINVAL, "rdma_set_option",
				     "RDMA_OPTION_IB_PATH takes records of %zu bytes, one of them "
				     "with the flags of a primary path",
				     sizeof(*data));
	/* Addresses, QPs and ways are the network's here; only what may be chosen is taken. */
	id->path.traffic_class = data[i].path.tclass;
	id->has_traffic_class = true;
	id->traffic_class = data[i].path.tclass;
	return 0;
}

static int wrong_length(const char *name, size_t wanted, size_t given)
{
	return -explain_call(EINVAL, "rdma_set_option", "%s takes %zu byte(s), not %zu", name,
			     wanted, given);
}

static int set_id_option(struct engine_cm_id *id, int name, const void *value, size_t length)
{
	int number = 0;

	switch (name) {
	case RDMA_OPTION_ID_TOS:
		if (length != 1)
			return wrong_length("RDMA_OPTION_ID_TOS", 1, length);
		id->has_traffic_class = true;
		id->traffic_class = *(const uint8_t *)value;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (length != 1)
			return wrong_length("RDMA_OPTION_ID_ACK_TIMEOUT", 1, length);
		return set_timeout(id, *(const uint8_t *)value);
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		if (length != sizeof(number))
			return wrong_length("the option", sizeof(number), length);
		memcpy(&number, value, sizeof(number));
		return name == RDMA_OPTION_ID_AFONLY ? set_family_only(id, number)
						     : set_reuse(id, number);
	default:
		return -explain_call(ENOSYS, "rdma_set_option", "%d is no option of endpoints",
				     name);
	}
}

/* A port that is claimed already is shared by what is said now. The lock is not held. */
static void share_port(struct engine_cm_id *id)
{
	struct connections *connections = connections_of(id->engine);
	struct host_port *port;
	bool reuses, is_only;

	pthread_mutex_lock(&connections->lock);
	port = id->stage == CM_STAGE_LISTEN || id->is_busy ? NULL : id->port;
	reuses = id->reuses_address;
	is_only = id->is_family_only;
	pthread_mutex_unlock(&connections->lock);
	if (port)
		host_port_share(id->ports, port, reuses, is_only);
}

static int set_option(struct engine_cm_id *id, int level, int name, const void *value,
		      size_t length)
{
	bool is_path = level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH;

	if (id->stage == CM_STAGE_DESTROYED || (is_path && id->stage != CM_STAGE_ADDRESS_RESOLVED))
		return cm_id_wrong_stage(id, "rdma_set_option");
	if (!value && length)
		return -explain_call(EFAULT, "rdma_set_option", "the value is NULL");
	if (is_path)
		return set_path(id, value, length);
	if (level == RDMA_OPTION_ID)
		return set_id_option(id, name, value, length);
	return -explain_call(ENOSYS, "rdma_set_option", "level %d has no option %d", level, name);
}

int engine_cm_set_option(struct engine_cm_id *id, int level, int name, const void *value,
			 size_t length)
{
	struct connections *connections = connections_of(id->engine);
	bool is_path = level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH;
	int error;

	pthread_mutex_lock(&connections->lock);
	error = set_option(id, level, name, value, length);
	pthread_mutex_unlock(&connections->lock);
	if (error)
		return error;
	if (level == RDMA_OPTION_ID &&
	    (name == RDMA_OPTION_ID_REUSEADDR || name == RDMA_OPTION_ID_AFONLY))
		share_port(id);
	/* A path that was given is a route, and told as such. */
	return is_path ? engine_cm_resolve_route(id, 1) : 0;
}

int engine_cm_query(struct engine_cm_id *id, struct cm_way *way)
{
	struct connections *connections = connections_of(id->engine);
	int error = 0;

	memset(way, 0, sizeof(*way));
	pthread_mutex_lock(&connections->lock);
	if (id->stage == CM_STAGE_DESTROYED)
		error = -ENOENT;
	if (id->family) {
		cm_address_to(&id->source, id->family, id->source_port, &way->source);
		way->destination.ss_family = id->family;
	}
	if (id->has_destination)
		cm_address_to(&id->destination, id->family, id->destination_port,
			      &way->destination);
	if (id->has_device) {
		way->has_device = true;
		memcpy(way->device, id->device.name, sizeof(way->device));
		way->device_index = id->device.index;
		way->device_guid = id->device.guid;
		way->port = 1;
		way->pkey = htons(DEVICE_PKEY);
		memcpy(way->sgid.raw, id->device.gid_shown, sizeof(way->sgid.raw));
		if (id->has_destination)
			memcpy(way->dgid.raw, id->destination.gid, sizeof(way->dgid.raw));
	}
	way->has_path = id->has_path;
	way->path = id->path;
	pthread_mutex_unlock(&connections->lock);
	return error;
}
