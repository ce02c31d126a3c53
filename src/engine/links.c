/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links of an engine: one for each local address that a connection uses, opened at
 * the first one and kept, and one for connections inside the process. Around each
 * stand, if wished for, capture (what is on the wire) and then fault injection.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "engine/address_claim.h"
#include "engine/engine_state.h"
#include "engine/explain.h"

static const char *address_text(const struct link_address *address, char *text)
{
	if (link_address_is_ipv4(address))
		inet_ntop(AF_INET, address->gid + 12, text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, address->gid, text, INET6_ADDRSTRLEN);
	return text;
}

static void explain_holder(const struct link_address *address)
{
	struct address_holder holder;
	char text[INET6_ADDRSTRLEN];

	address_text(address, text);
	if (!address_claim_holder(address, &holder) || holder.pid == getpid()) {
		explain_call(0, "ibv_modify_qp",
			     "UDP port 4791 of %s is in use by another program; use another "
			     "address: verbena run --address",
			     text);
		return;
	}
	explain_call(0, "ibv_modify_qp",
		     "%s is held by process %d (%s) of user %u, and one process can hold an "
		     "address; use another one: verbena run --address",
		     text, (int)holder.pid, holder.command[0] ? holder.command : "unknown",
		     (unsigned int)holder.uid);
}

static int open_capture(struct engine *engine)
{
	const char *why;
	int error;

	if (engine->capture || !engine->settings.capture_file)
		return 0;
	error = capture_file_open(engine->settings.capture_file, &engine->capture, &why);
	if (error)
		explain_call(error, "ibv_modify_qp", "the capture file %s cannot be written: %s",
			     engine->settings.capture_file, why);
	return error;
}

/* Puts the wished-for links around @link; on failure @link is closed. */
static int wrap(struct engine *engine, struct link **link)
{
	struct link *inner = *link;
	int error = open_capture(engine);

	if (!error && engine->capture)
		error = link_capture_open(inner, engine->capture, link);
	if (!error && engine->settings.fault_spec) {
		inner = *link;
		error = link_fault_open(inner, engine->settings.fault_spec, link);
	}
	if (error)
		inner->ops->close(inner);
	return error;
}

static int open_udp(struct engine *engine, struct engine_link *entry)
{
	struct link_udp_options options = {
		.receive_buffer_bytes = engine->settings.receive_buffer_bytes,
	};
	int error = address_claim_take(&entry->local, &entry->claim);

	if (!error)
		error = link_udp_open(&entry->local, &options, &entry->link);
	if (!error)
		error = wrap(engine, &entry->link);
	if (error == -EADDRINUSE)
		explain_holder(&entry->local);
	if (error)
		descriptor_close(&entry->claim);
	return error;
}

static int open_self(struct engine *engine, struct engine_link *entry)
{
	int error = link_self_open(&entry->link);

	return error ? error : wrap(engine, &entry->link);
}

static struct engine_link *find(struct engine *engine, const struct link_address *local)
{
	uint32_t count = atomic_load(&engine->link_count);

	if (!local)
		return engine->self_link;
	for (uint32_t i = 0; i < count; i++)
		if (&engine->links[i] != engine->self_link &&
		    link_address_is_equal(&engine->links[i].local, local) &&
		    engine->links[i].local.scope == local->scope)
			return &engine->links[i];
	return NULL;
}

/* Under links_lock. The entry is published when it is whole. */
static int add(struct engine *engine, const struct link_address *local, struct engine_link **link)
{
	uint32_t count = atomic_load(&engine->link_count);
	struct engine_link *entry = &engine->links[count];
	int error;

	if (count == ENGINE_LINKS_MAX)
		return -ENOSPC;
	memset(entry, 0, sizeof(*entry));
	entry->claim.fd = -1;
	if (local)
		entry->local = *local;
	error = local ? open_udp(engine, entry) : open_self(engine, entry);
	if (error)
		return error;
	pthread_mutex_init(&entry->receive_lock, NULL);
	entry->inbound.bytes_max = entry->link->properties.flow_bytes_max;
	if (!local)
		engine->self_link = entry;
	atomic_store(&engine->link_count, count + 1);
	/* Whoever sleeps has not this link's descriptor in its set. */
	helper_notice(engine, 0);
	*link = entry;
	return 0;
}

int links_open(struct engine *engine, const struct link_address *local, struct engine_link **link)
{
	int error = 0;

	pthread_mutex_lock(&engine->links_lock);
	*link = find(engine, local);
	if (!*link)
		error = add(engine, local, link);
	pthread_mutex_unlock(&engine->links_lock);
	return error;
}

struct engine_flow *links_take_flow(struct engine *engine, const struct link_address *destination,
				    int64_t bytes_max)
{
	struct engine_flow *flow;

	pthread_mutex_lock(&engine->links_lock);
	LIST_FOREACH(flow, &engine->flows, next)
	if (link_address_is_equal(&flow->destination, destination) &&
	    flow->flow.bytes_max == bytes_max)
		break;
	if (!flow) {
		flow = calloc(1, sizeof(*flow));
		if (flow) {
			flow->destination = *destination;
			flow->flow.bytes_max = bytes_max;
			LIST_INSERT_HEAD(&engine->flows, flow, next);
		}
	}
	if (flow)
		flow->user_count++;
	pthread_mutex_unlock(&engine->links_lock);
	return flow;
}

void links_return_flow(struct engine *engine, struct engine_flow *flow)
{
	pthread_mutex_lock(&engine->links_lock);
	VBN_ASSERT(flow->user_count > 0);
	if (--flow->user_count == 0) {
		LIST_REMOVE(flow, next);
		free(flow);
	}
	pthread_mutex_unlock(&engine->links_lock);
}

void links_close_all(struct engine *engine)
{
	uint32_t count;

	pthread_mutex_lock(&engine->links_lock);
	count = atomic_load(&engine->link_count);
	for (uint32_t i = 0; i < count; i++) {
		struct engine_link *entry = &engine->links[i];

		entry->link->ops->close(entry->link);
		descriptor_close(&entry->claim);
		pthread_mutex_destroy(&entry->receive_lock);
	}
	atomic_store(&engine->link_count, 0);
	engine->self_link = NULL;
	if (engine->capture)
		capture_file_close(engine->capture);
	engine->capture = NULL;
	pthread_mutex_unlock(&engine->links_lock);
}
