/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links of an engine: one for each local address that a connection uses, opened at
 * the first one and kept, one for connections inside the process and one for those to other
 * processes of the host. Around each
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
#include "engine/pass.h"
#include "engine/sharing.h"

static const char *address_text(const struct link_address *address, char *text)
{
	if (link_address_is_ipv4(address))
		inet_ntop(AF_INET, address->gid + 12, text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, address->gid, text, INET6_ADDRSTRLEN);
	return text;
}

static void explain_holder(const struct link_address *address, const char *call)
{
	struct host_holder holder;
	char text[INET6_ADDRSTRLEN];

	address_text(address, text);
	if (!address_holders(address, &holder, 1) || holder.pid == getpid()) {
		explain_call(0, call,
			     "UDP port 4791 of %s is in use by another program; use another "
			     "address: verbena run --address",
			     text);
		return;
	}
	explain_call(0, call,
		     "%s is held by process %d (%s) of user %u; an address is shared by processes "
		     "of one user only, and by none with VERBENA_SHARE=0; use another one: "
		     "verbena run --address",
		     text, (int)holder.pid, holder.command[0] ? holder.command : "unknown",
		     (unsigned int)holder.uid);
}

static int open_capture(struct engine *engine, const char *call)
{
	const char *why;
	int error;

	if (engine->capture || !engine->settings.capture_file)
		return 0;
	error = capture_file_open(engine->settings.capture_file, &engine->capture, &why);
	if (error)
		explain_call(error, call, "the capture file %s cannot be written: %s",
			     engine->settings.capture_file, why);
	else if (strcmp(capture_file_name(engine->capture), engine->settings.capture_file) != 0)
		explain_note(LOG_ERROR, "the capture goes to %s, for another process writes %s",
			     capture_file_name(engine->capture), engine->settings.capture_file);
	return error;
}

/* Puts the wished-for links around @link; on failure @link is closed. */
static int wrap(struct engine *engine, const char *call, struct link **link)
{
	struct link *inner = *link;
	int error = open_capture(engine, call);

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

/* As a member of the host, or alone. A group is nobody's. */
static int take_address(struct engine *engine, struct engine_link *entry,
			struct descriptor *receiver, const char **why)
{
	struct host *host = membership_host(engine);

	return host ? host_open_address(host, &entry->local, receiver, why)
		    : address_claim_take(&entry->local, &entry->claim);
}

static int open_udp(struct engine *engine, const char *call, struct engine_link *entry)
{
	struct link_udp_options options = {
		.receive_buffer_bytes = engine->settings.receive_buffer_bytes,
		.gso = engine->settings.gso,
	};
	const char *why = NULL;
	int error = link_address_is_multicast(&entry->local)
			    ? 0
			    : take_address(engine, entry, &options.receiver, &why);

	if (!error)
		error = link_udp_open(&entry->local, &options, &entry->link);
	if (!error)
		error = wrap(engine, call, &entry->link);
	if (error == -EADDRINUSE)
		explain_holder(&entry->local, call);
	else if (error && why)
		explain_call(0, call, "%s", why);
	if (error)
		descriptor_close(&entry->claim);
	return error;
}

static int open_self(struct engine *engine, const char *call, struct engine_link *entry)
{
	int error = link_self_open(&entry->link);

	return error ? error : wrap(engine, call, &entry->link);
}

void links_finish(struct engine *engine)
{
	if (engine->rings)
		link_shm_finish(engine->rings);
}

static int open_shm(struct engine *engine, const char *call, struct engine_link *entry)
{
	int error = sharing_open(engine, &entry->link);

	engine->rings = error ? NULL : entry->link;
	return error ? error : wrap(engine, call, &entry->link);
}

static struct engine_link *find(struct engine *engine, const struct link_address *local)
{
	uint32_t count = atomic_load(&engine->link_count);

	for (uint32_t i = 0; i < count; i++)
		if (link_has_address(engine, &engine->links[i]) &&
		    link_address_is_equal(&engine->links[i].local, local) &&
		    engine->links[i].local.scope == local->scope)
			return &engine->links[i];
	return NULL;
}

const struct engine_link *links_find(struct engine *engine, const struct link_address *local)
{
	return find(engine, local);
}

/* Under links_lock: the next entry; NULL: there is none. */
static struct engine_link *next_entry(struct engine *engine)
{
	uint32_t count = atomic_load(&engine->link_count);
	struct engine_link *entry = &engine->links[count];

	if (count == ENGINE_LINKS_MAX)
		return NULL;
	memset(entry, 0, sizeof(*entry));
	entry->claim.fd = -1;
	return entry;
}

/* Its link is there; now others see it. */
static void publish(struct engine *engine, struct engine_link *entry)
{
	pthread_mutex_init(&entry->receive_lock, NULL);
	atomic_fetch_add(&engine->link_count, 1);
	/* Whoever sleeps has not this link's descriptor in its set. */
	helper_notice(engine, 0);
}

static int add_udp(struct engine *engine, const struct link_address *local, const char *call,
		   struct engine_link **link)
{
	struct engine_link *entry = next_entry(engine);
	int error;

	if (!entry)
		return -ENOSPC;
	entry->local = *local;
	error = open_udp(engine, call, entry);
	if (error)
		return error;
	entry->inbound.bytes_max = entry->link->properties.flow_bytes_max;
	if (membership_host(engine) && !link_address_is_multicast(local))
		entry->inbound.bytes_max = host_own_window(membership_host(engine), local);
	publish(engine, entry);
	*link = entry;
	return 0;
}

/* One of the two that have no address: there is one of each. */
static int add_only(struct engine *engine, const char *call,
		    int (*open)(struct engine *engine, const char *call, struct engine_link *entry),
		    struct engine_link *_Atomic *only, struct engine_link **link)
{
	struct engine_link *entry;
	int error;

	*link = *only;
	if (*link)
		return 0;
	entry = next_entry(engine);
	if (!entry)
		return -ENOSPC;
	error = open(engine, call, entry);
	if (error)
		return error;
	entry->inbound.bytes_max = entry->link->properties.flow_bytes_max;
	*only = entry;
	publish(engine, entry);
	*link = entry;
	return 0;
}

int links_open(struct engine *engine, const struct link_address *local, const char *call,
	       struct engine_link **link)
{
	int error = 0;

	pthread_mutex_lock(&engine->links_lock);
	*link = local ? find(engine, local) : engine->self_link;
	if (!*link)
		error = local ? add_udp(engine, local, call, link)
			      : add_only(engine, call, open_self, &engine->self_link, link);
	pthread_mutex_unlock(&engine->links_lock);
	return error;
}

int links_open_shm(struct engine *engine, const char *call, struct engine_link **link)
{
	int error;

	pthread_mutex_lock(&engine->links_lock);
	error = add_only(engine, call, open_shm, &engine->shm_link, link);
	pthread_mutex_unlock(&engine->links_lock);
	return error;
}

/* All sockets of ours share the buffer of a peer's; a ring is another way, so a peer has two at most. */
static struct engine_flow *find_flow(struct engine *engine, const struct engine_link *link,
				     const struct link_address *destination,
				     const struct host_peer *peer)
{
	int64_t bytes_max = link->link->properties.flow_bytes_max;
	struct engine_flow *flow;

	LIST_FOREACH(flow, &engine->flows, next)
	if (flow->peer == peer && link_address_is_equal(&flow->destination, destination) &&
	    (peer ? (flow->link == engine->shm_link) == (link == engine->shm_link)
		  : flow->flow.bytes_max == bytes_max))
		return flow;
	return NULL;
}

static void remove_flow(struct engine *engine, struct engine_flow *flow)
{
	LIST_REMOVE(flow, next);
	if (flow->peer) {
		membership_detach(engine, flow);
		host_detach(membership_host(engine), flow->peer);
	}
	if (flow->link == engine->shm_link)
		sharing_let_go(engine, flow->slot);
	pthread_mutex_destroy(&flow->pace_lock);
	free(flow);
}

/* What was attached to @peer belongs to the flow, or was given back. */
static struct engine_flow *add_flow(struct engine *engine, const struct engine_link *link,
				    const struct link_address *destination, struct host_peer *peer,
				    uint32_t slot)
{
	int64_t bytes_max = link->link->properties.flow_bytes_max;
	struct engine_flow *flow = calloc(1, sizeof(*flow));

	if (!flow) {
		if (peer)
			host_detach(membership_host(engine), peer);
		return NULL;
	}
	flow->destination = *destination;
	flow->link = link;
	flow->peer = peer;
	flow->slot = slot;
	flow->flow.bytes_max = flow->inbound.bytes_max = bytes_max;
	flow->flow.pace_bytes_max = link->link->properties.unanswered_bytes_max;
	pthread_mutex_init(&flow->pace_lock, NULL);
	LIST_INSERT_HEAD(&engine->flows, flow, next);
	if (link == engine->shm_link && (!peer || sharing_attach(engine, flow) != 0)) {
		remove_flow(engine, flow);
		return NULL;
	}
	if (engine->settings.has_pace && !peer)
		flow_pace_set_rate(&flow->flow, engine->settings.pace);
	if (peer)
		membership_attach(engine, flow);
	return flow;
}

struct engine_flow *links_take_flow(struct engine *engine, const struct engine_link *link,
				    const struct link_address *destination, uint32_t qpn)
{
	struct host *host = membership_host(engine);
	struct host_peer *peer = NULL;
	struct engine_flow *flow;

	pthread_mutex_lock(&engine->flows_lock);
	if (host && link != engine->self_link)
		peer = host_attach(host, destination, qpn);
	flow = find_flow(engine, link, destination, peer);
	/* A flow is attached once, however many QPs use it. */
	if (flow && peer)
		host_detach(host, peer);
	if (!flow)
		flow = add_flow(engine, link, destination, peer, host_slot_of_qpn(qpn));
	if (flow)
		flow->user_count++;
	pthread_mutex_unlock(&engine->flows_lock);
	return flow;
}

void links_return_flow(struct engine *engine, struct engine_flow *flow)
{
	pthread_mutex_lock(&engine->flows_lock);
	VBN_ASSERT(flow->user_count > 0);
	if (--flow->user_count == 0)
		remove_flow(engine, flow);
	pthread_mutex_unlock(&engine->flows_lock);
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
		if (entry->pass)
			pass_end(entry->pass);
	}
	atomic_store(&engine->link_count, 0);
	engine->self_link = engine->shm_link = NULL;
	engine->rings = NULL;
	if (engine->capture)
		capture_file_close(engine->capture);
	engine->capture = NULL;
	pthread_mutex_unlock(&engine->links_lock);
}
