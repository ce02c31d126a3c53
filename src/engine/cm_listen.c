/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints that wait for requests.
 */
#include <errno.h>
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
 * Of all devices, those of another family too, where who knocks is told that nobody listens. One
 * that cannot be had (another user's) is told, and the others serve.
 */
static int open_all(struct engine_cm_id *id)
{
	size_t count;
	struct device *devices = device_list(&id->engine->settings, &count);
	int error = -ENODEV, open = 0;

	for (size_t i = 0; devices && i < count; i++)
		for (uint32_t g = 0; g < devices[i].gid_count; g++) {
			const struct device_gid *gid = &devices[i].gids[g];

			if (!gid->is_valid)
				continue;
			error = gsi_open(id->engine, &gid->address, "rdma_listen");
			open += !error && covers(id, &gid->address);
		}
	free(devices);
	if (!open && (!error || error == -ENODEV))
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
		return open_all(id);
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
