/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints that wait for requests, and what becomes of endpoints when interfaces change.
 *
 * Who listens at any address listens at those too that come later. An interface that is gone has taken
 * its device with it, as that of soft RoCE does: endpoints that are bound to it are told
 * DEVICE_REMOVAL and can only be destroyed from then on. One that is down or has lost an address
 * is still there, and so are its endpoints.
 */
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"
#include "engine/explain.h"

#define BACKLOG_MAX 1024 /* the kernel's */

static bool covers(const struct engine_cm_id *id, const struct link_address *address)
{
	bool is_ipv4 = link_address_is_ipv4(address);

	if (id->family == AF_INET)
		return is_ipv4;
	return !is_ipv4 || !id->is_family_only;
}

/*
 * Of all devices, those of another family than @id's too, where who knocks is told that nobody
 * listens. One that cannot be had (another user's) is told, and the others serve. @id NULL: for
 * all that listen already.
 */
static int open_all(struct engine *engine, const struct engine_cm_id *id)
{
	size_t count;
	struct device *devices = device_list(&engine->settings, &count);
	int error = -ENODEV, open = 0;

	for (size_t i = 0; devices && i < count; i++)
		for (uint32_t g = 0; g < devices[i].gid_count; g++) {
			const struct device_gid *gid = &devices[i].gids[g];

			if (!gid->is_valid)
				continue;
			error = gsi_open(engine, &gid->address, "rdma_listen");
			open += !error && id && covers(id, &gid->address);
		}
	free(devices);
	if (!open && id && (!error || error == -ENODEV))
		error = -explain_call(ENODEV, "rdma_listen", "no device has such an address");
	return open ? 0 : error;
}

static int bind_to_any(struct engine_cm_id *id)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	bool is_fresh;

	pthread_mutex_lock(&connections_of(id->engine)->lock);
	is_fresh = id->stage == CM_STAGE_IDLE;
	pthread_mutex_unlock(&connections_of(id->engine)->lock);
	return is_fresh ? engine_cm_bind(id, (struct sockaddr *)&any) : 0;
}

static int start(struct engine_cm_id *id)
{
	int error = host_port_listen(id->ports, id->port);

	if (error)
		return -explain_call(-error, "rdma_listen",
				     "port %u cannot be listened on: %s; somebody else reuses it",
				     id->source_port, strerror(-error));
	if (cm_address_is_any(&id->source))
		return open_all(id->engine, id);
	return gsi_open(id->engine, &id->source, "rdma_listen");
}

int engine_cm_listen(struct engine_cm_id *id, int backlog)
{
	struct connections *connections = connections_of(id->engine);
	int error = bind_to_any(id);

	if (!error)
		error = cm_id_claim(id, CM_STAGE_BOUND, CM_STAGE_BOUND, "rdma_listen");
	if (error)
		return error;
	error = start(id);
	pthread_mutex_lock(&connections->lock);
	id->is_busy = false;
	if (!error && id->stage == CM_STAGE_BOUND) {
		id->stage = CM_STAGE_LISTEN;
		id->reuses_address = false;
		id->service_id = host_port_service_id(id->port);
		id->backlog = backlog > 0 && backlog < BACKLOG_MAX ? (uint32_t)backlog
								   : BACKLOG_MAX;
		LIST_INSERT_HEAD(&connections->listeners, id, listening);
	}
	pthread_mutex_unlock(&connections->lock);
	return error;
}

/* --- interfaces that change --- */

static bool any_listens_everywhere(const struct connections *connections)
{
	const struct engine_cm_id *id;

	LIST_FOREACH(id, &connections->listeners, listening)
	if (cm_address_is_any(&id->source))
		return true;
	return false;
}

static void lose_device(struct engine_cm_id *id)
{
	if (id->stage == CM_STAGE_LISTEN)
		LIST_REMOVE(id, listening);
	cm_resolving_cancel(atomic_load(&id->engine->connections), id);
	id->stage = CM_STAGE_REMOVED;
	cm_tell_type(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

static bool is_gone(uint32_t interface_index)
{
	char name[IF_NAMESIZE];

	return !if_indextoname(interface_index, name) && errno == ENXIO;
}

/* Endpoints of one device stand together mostly: it is looked up once. The lock is held. */
static void lose_devices(struct connections *connections)
{
	uint32_t looked_at = 0;
	bool is_lost = false;
	struct engine_cm_id *id;

	LIST_FOREACH(id, &connections->ids, next)
	{
		if (!id->has_device || id->stage == CM_STAGE_REMOVED)
			continue;
		if (id->device.index != looked_at) {
			looked_at = id->device.index;
			is_lost = is_gone(looked_at);
		}
		if (is_lost)
			lose_device(id);
	}
}

void connections_follow_interfaces(struct engine *engine)
{
	struct connections *connections = atomic_load(&engine->connections);
	bool has_wildcards;
	struct cm_turn turn;

	if (!connections)
		return;
	cm_turn_begin(&turn, engine);
	/* Which device has which address. */
	connections->known_count = connections->known_next = 0;
	lose_devices(connections);
	has_wildcards = any_listens_everywhere(connections);
	cm_turn_end(&turn);
	if (has_wildcards)
		(void)open_all(engine, NULL);
}
