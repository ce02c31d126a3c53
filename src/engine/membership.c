/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/membership.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/cm_state.h"
#include "engine/explain.h"
#include "engine/pass.h"
#include "engine/sharing.h"
#include "host/forward.h"
#include "host/ports.h"

#define QPN_MASK 0xffffffu
#define QPN_OWN_MASK ((1u << HOST_QPN_BITS) - 1)
#define FORWARD_BUDGET 64
#define WAKES_AT_ONCE 16
/* Of messages that are shown to all: as many connection attempts as are given up in a burst. */
#define SHARES_MAX 1000u
/* Whoever sleeps wakes once a second in any case. */
#define GUARD_NS (500 * VBN_MILLISECOND)

void membership_init(struct membership *membership)
{
	*membership = (struct membership){.wakes.fd = -1};
	pthread_mutex_init(&membership->lock, NULL);
	pthread_mutex_init(&membership->forward_lock, NULL);
}

void membership_fini(struct membership *membership)
{
	struct host *host = atomic_load(&membership->host);

	descriptor_close(&membership->wakes);
	atomic_store(&membership->host, NULL);
	if (host)
		host_leave(host);
	pthread_mutex_destroy(&membership->lock);
	pthread_mutex_destroy(&membership->forward_lock);
}

void membership_close_inherited(struct membership *membership)
{
	struct host *host = atomic_load(&membership->host);

	descriptor_close(&membership->wakes);
	if (host)
		host_close_inherited(host);
	atomic_store(&membership->host, NULL);
}

struct host *membership_host(struct engine *engine)
{
	return atomic_load_explicit(&engine->membership.host, memory_order_acquire);
}

/* --- joining --- */

/* @owner: the flow whose peer is watched; NULL for what serves all. */
static bool watch(struct membership *membership, int fd, struct engine_flow *owner)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = owner};

	return fd >= 0 &&
	       descriptor_epoll_change(membership->wakes.fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* The lock is held. Errno says why there is none. */
static bool make_wakes(struct membership *membership)
{
	if (atomic_load(&membership->has_wakes))
		return true;
	membership->wakes = descriptor_adopt(descriptor_epoll_create());
	atomic_store(&membership->has_wakes, membership->wakes.fd >= 0);
	return membership->wakes.fd >= 0;
}

bool membership_watch_ports(struct engine *engine, int fd)
{
	struct membership *membership = &engine->membership;
	/* No flow is found there. */
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = &engine->ports};
	bool is_watched;

	pthread_mutex_lock(&membership->lock);
	is_watched = make_wakes(membership) &&
		     descriptor_epoll_change(membership->wakes.fd, EPOLL_CTL_ADD, fd, &event) == 0;
	pthread_mutex_unlock(&membership->lock);
	return is_watched;
}

/* Not to be shown is no reason not to be a member. */
static void show_statistics(struct engine *engine, const struct host *host)
{
	struct stats_room *room = host_open_stats(host);

	if (room)
		engine_statistics_place(engine, room);
}

static int join(struct engine *engine, const char **why)
{
	struct membership *membership = &engine->membership;
	struct host_options options = {
		.has_no_steering = engine->settings.has_no_steering,
		.receive_buffer_bytes = engine->settings.receive_buffer_bytes,
		.sharing = sharing_of(&engine->settings),
	};
	struct host *host;
	int error;

	*why = NULL;
	if (!make_wakes(membership))
		return -errno;
	error = host_join(&options, &host, why);
	if (error)
		return error;
	show_statistics(engine, host);
	watch(membership, host_ask_descriptor(host), NULL);
	watch(membership, host_forward_descriptor(host), NULL);
	atomic_store(&membership->host, host);
	return 0;
}

void membership_join(struct engine *engine)
{
	struct membership *membership = &engine->membership;
	const char *why;
	int error = 0;

	pthread_mutex_lock(&membership->lock);
	if (!membership->is_decided && !engine->settings.has_no_share) {
		error = join(engine, &why);
		if (error)
			explain_note(LOG_INFO,
				     "this process uses its addresses alone, as with "
				     "VERBENA_SHARE=0: %s",
				     why ? why : strerror(-error));
	}
	membership->is_decided = true;
	pthread_mutex_unlock(&membership->lock);
	/* Newcomers ask from now on, whether or not this program ever connects. */
	if (membership_host(engine))
		helper_start(engine);
}

uint32_t membership_draw_qpn(struct engine *engine)
{
	struct host *host = membership_host(engine);
	uint32_t number = random_number() & QPN_MASK;

	return host ? host_slot(host) << HOST_QPN_BITS | (number & QPN_OWN_MASK) : number;
}

/* --- being woken --- */

int membership_descriptor(struct engine *engine, vbn_time now)
{
	struct membership *membership = &engine->membership;

	if (!atomic_load_explicit(&membership->has_wakes, memory_order_acquire))
		return -1;
	return descriptor_use(&membership->wakes, &membership->wakes_looked_at, now);
}

/* Beside @flow, to the same peer: through memory, and through sockets. NULL: there is none. */
static struct engine_flow *flow_beside(struct engine *engine, const struct engine_flow *flow)
{
	struct engine_flow *other;

	LIST_FOREACH(other, &engine->flows, next)
	if (other != flow && other->peer == flow->peer)
		return other;
	return NULL;
}

/* From now on the peer's silence counts. */
static void note_death(struct engine *engine, struct engine_flow *flow)
{
	if (flow->link == engine->shm_link)
		sharing_mourn(engine, flow);
	/* Last, so that show_served() cannot bring it back: the peer is known as dead. */
	atomic_store(&flow->flow.served_at, NULL);
}

/* Nobody divides its buffer with it any more. */
static void mourn(struct engine *engine, struct engine_flow *flow)
{
	struct membership *membership = &engine->membership;
	struct engine_flow *other = flow_beside(engine, flow);

	descriptor_epoll_change(membership->wakes.fd, EPOLL_CTL_DEL,
				host_peer_descriptor(flow->peer), NULL);
	host_peer_died(membership_host(engine), flow->peer);
	note_death(engine, flow);
	if (other)
		note_death(engine, other);
	connections_note_death(engine, &flow->destination, flow->slot);
}

/*
 * The peer may list its address later than we connect to it. A death that cannot be noticed
 * must not make silence endless.
 */
static void show_served(struct engine *engine, struct engine_flow *flow)
{
	if (!flow->is_watched || atomic_load(&flow->flow.served_at))
		return;
	if (flow->link == engine->shm_link) {
		atomic_store(&flow->flow.served_at, sharing_served_at(engine, flow));
		return;
	}
	atomic_store(&flow->flow.served_at, host_peer_served_at(flow->peer));
	if (!host_peer_served_at(flow->peer))
		atomic_store(&flow->flow.served_at, NULL);
}

void membership_suspect(struct engine *engine, struct engine_flow *flow)
{
	if (!flow->peer || !atomic_load(&flow->flow.served_at) || !host_peer_is_dead(flow->peer))
		return;
	pthread_mutex_lock(&engine->flows_lock);
	mourn(engine, flow);
	pthread_mutex_unlock(&engine->flows_lock);
}

/* Under flows_lock a flow that the set names is still there. */
static void serve_wakes(struct engine *engine, bool *has_packets, bool *has_changes)
{
	struct membership *membership = &engine->membership;
	struct epoll_event events[WAKES_AT_ONCE];
	int count;

	pthread_mutex_lock(&engine->flows_lock);
	count = descriptor_epoll_look(membership->wakes.fd, events, WAKES_AT_ONCE);
	for (int i = 0; i < count; i++) {
		if (events[i].data.ptr == &engine->ports)
			*has_changes = true;
		else if (events[i].data.ptr)
			mourn(engine, events[i].data.ptr);
		else
			*has_packets = true; /* perhaps; or somebody asks */
	}
	pthread_mutex_unlock(&engine->flows_lock);
}

bool membership_is_warm(struct engine *engine, vbn_time now)
{
	vbn_time last =
		atomic_load_explicit(&engine->membership.last_forward, memory_order_relaxed);

	return last && now <= vbn_time_add(last, ENGINE_LINK_WARM_NS);
}

bool membership_poll(struct engine *engine, struct pass *pass)
{
	struct membership *membership = &engine->membership;
	struct host *host = membership_host(engine);
	uint32_t taken;

	if (!host || !membership_is_warm(engine, pass->core.now))
		return false;
	if (pthread_mutex_trylock(&membership->forward_lock) != 0)
		return false;
	taken = progress_forwarded(engine, host, pass, FORWARD_BUDGET);
	pthread_mutex_unlock(&membership->forward_lock);
	if (taken)
		atomic_store_explicit(&membership->last_forward, pass->core.now,
				      memory_order_relaxed);
	return taken != 0;
}

bool membership_serve(struct engine *engine, struct pass *pass)
{
	struct membership *membership = &engine->membership;
	bool has_packets = false, has_changes = false;
	struct host *host;

	if (membership_descriptor(engine, pass->core.now) < 0)
		return false;
	serve_wakes(engine, &has_packets, &has_changes);
	if (has_changes)
		ports_serve(engine);
	/* While it joins, the host may be watched already and not be known yet. */
	host = membership_host(engine);
	if (!has_packets || !host)
		return false;
	host_serve(host);
	atomic_store_explicit(&membership->last_forward, pass->core.now, memory_order_relaxed);
	return membership_poll(engine, pass);
}

bool membership_is_others(struct engine *engine, const struct link_packet *packet, uint32_t *slot)
{
	struct host *host = membership_host(engine);

	if (!host)
		return false;
	*slot = host_management_slot(host, &packet->destination, packet->bytes, packet->length);
	return *slot != host_slot(host);
}

bool membership_forward(struct engine *engine, uint32_t slot, const struct link_packet *packet)
{
	struct host *host = membership_host(engine);

	if (!host || slot == host_slot(host))
		return false;
	if (!host_forward(host, slot, packet))
		return false;
	host_steer_again(host, &packet->destination, clock_now());
	return true;
}

/* So that a flood of forged ones is not multiplied. */
static bool may_share(struct membership *membership, vbn_time now)
{
	vbn_time begun = atomic_load(&membership->shares_begun);

	if (now >= vbn_time_add(begun, VBN_SECOND) &&
	    atomic_compare_exchange_strong(&membership->shares_begun, &begun, now))
		atomic_store(&membership->share_count, 0);
	return atomic_fetch_add(&membership->share_count, 1) < SHARES_MAX;
}

bool membership_share(struct engine *engine, const struct link_packet *packet)
{
	struct host *host = membership_host(engine);
	struct host_slot_set listeners;
	bool is_shared = false;

	if (!host || !host_management_is_anonymous(packet->bytes, packet->length) ||
	    !may_share(&engine->membership, clock_now()))
		return false;
	listeners = host_management_listeners(host, &packet->destination);
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
		if (host_slot_set_has(&listeners, slot))
			is_shared |= host_forward(host, slot, packet);
	return is_shared;
}

void membership_guard(struct engine *engine, vbn_time now)
{
	struct membership *membership = &engine->membership;
	struct host *host = membership_host(engine);
	vbn_time last = atomic_load_explicit(&membership->guarded_at, memory_order_relaxed);

	if (host && now >= vbn_time_add(last, GUARD_NS) &&
	    atomic_compare_exchange_strong(&membership->guarded_at, &last, now))
		host_guard(host);
}

/* --- flows --- */

void membership_attach(struct engine *engine, struct engine_flow *flow)
{
	struct membership *membership = &engine->membership;
	const struct engine_flow *other = flow_beside(engine, flow);
	uint64_t seen = 0;

	/* We are our own peer, too, through a socket: nobody waits for us when we are dead. */
	flow->is_watched = flow->slot == host_slot(membership_host(engine)) ||
			   (other ? other->is_watched
				  : watch(membership, host_peer_descriptor(flow->peer), flow));
	show_served(engine, flow);
	membership_refresh(engine, flow, &seen);
}

void membership_detach(struct engine *engine, struct engine_flow *flow)
{
	struct engine_flow *other = flow_beside(engine, flow);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = other};
	int fd = host_peer_descriptor(flow->peer);

	atomic_store(&flow->flow.served_at, NULL);
	if (fd >= 0)
		descriptor_epoll_change(engine->membership.wakes.fd,
					other ? EPOLL_CTL_MOD : EPOLL_CTL_DEL, fd, &event);
}

void membership_refresh(struct engine *engine, struct engine_flow *flow, uint64_t *seen)
{
	int64_t window;

	/* Room in a ring is for us alone. */
	if (!flow->peer || flow->link == engine->shm_link)
		return;
	window = host_peer_window(membership_host(engine), flow->peer, seen);
	if (window <= 0)
		return;
	atomic_store_explicit(&flow->flow.bytes_max, window, memory_order_relaxed);
	show_served(engine, flow);
}
