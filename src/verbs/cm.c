/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's connections for librdmacm.so.1: each call finds the engine, and refuses what a
 * child of fork inherited.
 */
#include "verbs/cm.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/deputy.h"
#include "engine/explain.h"
#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/library.h"

struct vbn_cm_channel {
	struct engine_use *use;
	struct event_queue *events;
};

static int inherited(const struct engine_cm_id *id, const char *call)
{
	return engine_is_inherited(engine_cm_engine(id)) ? -inherited_object(call) : 0;
}

EXPORT int vbn_cm_channel_create(struct vbn_cm_channel **channel, bool is_apart, int *fd)
{
	struct vbn_cm_channel *created = calloc(1, sizeof(*created));
	int error;

	if (!created)
		return -explain_call(ENOMEM, "rdma_create_event_channel", "no memory is left");
	error = library_acquire(&created->use);
	if (error) {
		free(created);
		return error;
	}
	created->events = is_apart ? event_queue_create_apart() : event_queue_create();
	if (!created->events) {
		error = explain_call(errno, "rdma_create_event_channel",
				     "no descriptor for its events; raise the limit on open "
				     "files (ulimit -n)");
		library_release(created->use);
		free(created);
		return -error;
	}
	*fd = event_queue_descriptor(created->events);
	*channel = created;
	return 0;
}

EXPORT void vbn_cm_channel_destroy(struct vbn_cm_channel *channel)
{
	struct engine *engine = channel->use->engine;

	if (!engine_is_inherited(engine)) {
		engine_cm_leave_channel(engine, channel->events);
		deputy_dismiss(engine, channel->events);
	}
	event_queue_destroy(channel->events);
	library_release(channel->use);
	free(channel);
}

/* An endpoint may live longer than its channel. */
static void keep(struct engine_cm_id *id, struct engine_use *use)
{
	library_hold(use);
	engine_cm_set_keeper(id, use);
}

EXPORT int vbn_cm_get_event(struct vbn_cm_channel *channel, struct cm_told *told)
{
	struct engine *engine = channel->use->engine;

	if (engine_is_inherited(engine)) {
		errno = inherited_object("rdma_get_cm_event");
		return -1;
	}
	if (engine_cm_get_event(engine, channel->events, told) != 0)
		return -1;
	if (told->request)
		keep(told->request, channel->use);
	return 0;
}

EXPORT int vbn_cm_create(struct vbn_cm_channel *channel, enum rdma_port_space port_space,
			 enum ibv_qp_type qp_type, void *user, struct engine_cm_id **id)
{
	int error;

	if (engine_is_inherited(channel->use->engine))
		return -inherited_object("rdma_create_id");
	error = engine_cm_create(channel->use->engine, channel->events, port_space, qp_type, user,
				 id);
	if (!error)
		keep(*id, channel->use);
	return error;
}

EXPORT int vbn_cm_destroy(struct engine_cm_id *id)
{
	return (int)engine_cm_destroy(id);
}

EXPORT void vbn_cm_free(struct engine_cm_id *id)
{
	struct engine_use *use = engine_cm_keeper(id);

	engine_cm_free(id);
	library_release(use);
}

EXPORT int vbn_cm_migrate(struct engine_cm_id *id, struct vbn_cm_channel *channel)
{
	int error = inherited(id, "rdma_migrate_id");

	return error ? error : (int)engine_cm_migrate(id, channel->events);
}

EXPORT int vbn_cm_set_option(struct engine_cm_id *id, int level, int name, const void *value,
			     size_t length)
{
	int error = inherited(id, "rdma_set_option");

	return error ? error : engine_cm_set_option(id, level, name, value, length);
}

EXPORT int vbn_cm_query(struct engine_cm_id *id, struct cm_way *way)
{
	return engine_is_inherited(engine_cm_engine(id)) ? -EIO : engine_cm_query(id, way);
}

EXPORT int vbn_cm_bind(struct engine_cm_id *id, const struct sockaddr *address)
{
	int error = inherited(id, "rdma_bind_addr");

	return error ? error : engine_cm_bind(id, address);
}

EXPORT int vbn_cm_resolve_address(struct engine_cm_id *id, const struct sockaddr *source,
				  const struct sockaddr *destination, int timeout_ms)
{
	int error = inherited(id, "rdma_resolve_addr");

	return error ? error : engine_cm_resolve_address(id, source, destination, timeout_ms);
}

EXPORT int vbn_cm_resolve_route(struct engine_cm_id *id, int timeout_ms)
{
	int error = inherited(id, "rdma_resolve_route");

	return error ? error : engine_cm_resolve_route(id, timeout_ms);
}

EXPORT int vbn_cm_listen(struct engine_cm_id *id, int backlog)
{
	int error = inherited(id, "rdma_listen");

	return error ? error : engine_cm_listen(id, backlog);
}

EXPORT int vbn_cm_connect(struct engine_cm_id *id, const struct cm_offer *with)
{
	int error = inherited(id, "rdma_connect");

	return error ? error : engine_cm_connect(id, with);
}

EXPORT int vbn_cm_accept(struct engine_cm_id *id, const struct cm_offer *with, void *user)
{
	int error = inherited(id, "rdma_accept");

	return error ? error : engine_cm_accept(id, with, user);
}

EXPORT int vbn_cm_reject(struct engine_cm_id *id, const void *private_data, uint8_t length,
			 uint8_t reason)
{
	int error = inherited(id, "rdma_reject");

	return error ? error : engine_cm_reject(id, private_data, length, reason);
}

EXPORT int vbn_cm_disconnect(struct engine_cm_id *id)
{
	int error = inherited(id, "rdma_disconnect");

	return error ? error : engine_cm_disconnect(id);
}

EXPORT int vbn_cm_notify(struct engine_cm_id *id, enum ibv_event_type event)
{
	int error = inherited(id, "rdma_notify");

	return error ? error : engine_cm_notify(id, event);
}

EXPORT int vbn_cm_qp_attributes(struct engine_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	int error = inherited(id, "rdma_init_qp_attr");

	return error ? error : engine_cm_qp_attributes(id, attr, mask);
}

EXPORT int vbn_cm_join(struct engine_cm_id *id, const struct sockaddr *address, bool only_sends,
		       void *user, struct engine_cm_group **group)
{
	int error = inherited(id, "rdma_join_multicast");

	return error ? error : engine_cm_join(id, address, only_sends, user, group);
}

EXPORT int vbn_cm_leave(struct engine_cm_id *id, struct engine_cm_group *group)
{
	int error = inherited(id, "rdma_leave_multicast");

	return error ? error : (int)engine_cm_leave(id, group);
}

EXPORT bool vbn_cm_is_inherited(struct ibv_context *context)
{
	return context_is_inherited(context);
}

EXPORT int vbn_cm_explain(int error, const char *call, const char *format, ...)
{
	char sentence[256];
	va_list arguments;

	/* The level is known once the settings are. */
	(void)library_settings();
	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	return explain_call(error, call, "%s", sentence);
}

EXPORT bool vbn_cm_own_address(struct sockaddr_storage *address)
{
	const struct settings *settings = library_settings();

	if (settings->has_address)
		link_socket_address(&settings->address, 0, address);
	return settings->has_address;
}
