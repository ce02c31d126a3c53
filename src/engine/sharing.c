/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/sharing.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#include "engine/engine_state.h"
#include "host/rings.h"

uint32_t sharing_of(const struct settings *settings)
{
	uint32_t sharing = 0;

	if (settings->link == LINK_CHOICE_UDP)
		return 0;
	sharing |= REGISTRY_SHARES_MEMORY;
	if (settings->has_address)
		sharing |= REGISTRY_SHARES_AS_HOST;
	if (settings->link == LINK_CHOICE_SHM)
		sharing |= REGISTRY_SHARES_FAR;
	if (direct_is_wished(settings))
		sharing |= REGISTRY_SHARES_DIRECT;
	return sharing;
}

static bool is_address_of(const struct ifaddrs *entry, const struct link_address *address)
{
	struct link_address own = {{0}, 0};

	if (!entry->ifa_addr)
		return false;
	if (entry->ifa_addr->sa_family == AF_INET) {
		own.gid[10] = own.gid[11] = 0xff;
		memcpy(own.gid + 12, &((struct sockaddr_in *)entry->ifa_addr)->sin_addr, 4);
	} else if (entry->ifa_addr->sa_family == AF_INET6) {
		memcpy(own.gid, &((struct sockaddr_in6 *)entry->ifa_addr)->sin6_addr, 16);
	} else {
		return false;
	}
	return link_address_is_equal(&own, address) &&
	       (!address->scope || address->scope == if_nametoindex(entry->ifa_name));
}

/* Whether @address is one of this machine, as its network namespace sees it. */
static bool is_of_this_machine(const struct link_address *address)
{
	struct ifaddrs *list;
	bool is_found = link_address_is_loopback(address);

	if (is_found || getifaddrs(&list) != 0)
		return is_found;
	for (const struct ifaddrs *entry = list; entry && !is_found; entry = entry->ifa_next)
		is_found = is_address_of(entry, address);
	freeifaddrs(list);
	return is_found;
}

/*
 * An address is one user's, and ours may open it only later. Who is about to has its name already, but
 * does not stand in the registry yet: then its name tells whose it is.
 */
static bool is_another_users(const struct host *host, const struct link_address *address)
{
	struct host_holder holder;

	return !host_has_receiver(host, address) && host_holders(address, &holder, 1) != 0 &&
	       !holder.is_of_our_host;
}

static bool is_same_address(const struct link_path *path)
{
	return link_address_is_equal(&path->source, &path->destination) &&
	       path->source.scope == path->destination.scope;
}

bool sharing_reaches(struct engine *engine, const struct link_path *path, uint32_t qpn)
{
	struct host *host = membership_host(engine);
	uint32_t slot = host_slot_of_qpn(qpn), own, theirs;

	if (!host || slot == host_slot(host))
		return false;
	own = sharing_of(&engine->settings);
	theirs = host_sharing(host, slot);
	if (!(own & theirs & REGISTRY_SHARES_MEMORY))
		return false;
	if (is_same_address(path))
		return true;
	if (((own | theirs) & REGISTRY_SHARES_AS_HOST) && !(own & theirs & REGISTRY_SHARES_FAR))
		return false;
	return is_of_this_machine(&path->destination) &&
	       !is_another_users(host, &path->destination);
}

int sharing_open(struct engine *engine, struct link **link)
{
	struct host *host = membership_host(engine);
	struct link_shm_options options = {
		.generation = host_generation(host),
		.wake = host_wake_descriptor(host),
		.wake_name = host_wake_name(host, host_slot(host)),
	};

	return link_shm_open(&options, link);
}

int sharing_attach(struct engine *engine, const struct engine_flow *flow)
{
	struct host *host = membership_host(engine);
	struct link_shm_peer peer = {
		.number = flow->slot,
		.generation = host_peer_generation(flow->peer),
		.outbound = host_ring_map(host, host_slot(host), flow->slot),
		.inbound = host_ring_map(host, flow->slot, host_slot(host)),
		.wake_name = host_wake_name(host, flow->slot),
	};

	if (!peer.outbound || !peer.inbound)
		return -ENOMEM;
	while (!peer.session)
		random_bytes(&peer.session, sizeof(peer.session));
	link_shm_attach(engine->rings, &peer);
	/* Who sleeps does not wait for this one. */
	helper_notice(engine, 0);
	return 0;
}

void sharing_mourn(struct engine *engine, const struct engine_flow *flow)
{
	link_shm_peer_died(engine->rings, flow->slot, host_peer_generation(flow->peer));
}

void sharing_let_go(struct engine *engine, uint32_t slot)
{
	host_rings_let_go(membership_host(engine), slot);
}

const _Atomic vbn_time *sharing_served_at(struct engine *engine, const struct engine_flow *flow)
{
	return link_shm_served_at(engine->rings, flow->slot);
}
