/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester's part of direct.h: a QP's way into the memory of its peer. */
#include <stdlib.h>
#include <string.h>

#include "engine/direct_mapped.h"
#include "engine/engine_state.h"
#include "host/adopted.h"
#include "host/rings.h"
#include "host/tables.h"

/* Pieces up to this size may be torn by the kernel. */
#define TORN_BYTES_MAX 8u
#define ATOMIC_BYTES 8u
/* Regions of its peer that a QP remembers. */
#define KNOWN_REGIONS 16u

/* What it has learnt of one, and where that is mapped here. */
struct known_region {
	struct published_known published;
	struct mapped_region mapped;
};

struct direct_reach {
	struct reach reach;
	struct engine_qp *qp;
	struct direct_peer *peer;
	uint32_t cell;
	struct published_request request; /* what is the same for all */
	uint32_t vm_bytes_min;		  /* of messages for which the system's calls pay */
	bool uses_mappings;
	struct known_region known[KNOWN_REGIONS];
	struct known_region *last; /* that was asked for; never NULL */
	uint32_t given_up;	   /* how many had to make place */
};

/* --- what is known of regions --- */

static bool is_of(const struct known_region *known, uint32_t key)
{
	return known->published.number == key;
}

/* That of @key, or else a place for it; what one that is full held is found out again. */
static struct known_region *find_known(struct direct_reach *reach, uint32_t key)
{
	struct known_region *vacant = NULL;

	for (uint32_t i = 0; i < KNOWN_REGIONS; i++) {
		if (is_of(&reach->known[i], key))
			return &reach->known[i];
		if (!vacant && is_of(&reach->known[i], 0))
			vacant = &reach->known[i];
	}
	return vacant ? vacant : &reach->known[reach->given_up++ % KNOWN_REGIONS];
}

static struct known_region *known_of(struct direct_reach *reach, uint32_t key)
{
	if (!is_of(reach->last, key))
		reach->last = find_known(reach, key);
	return reach->last;
}

/* --- cells, under the lock --- */

/* ANNOUNCEMENT_CELLS: all are in use. */
static uint32_t take_cell(struct direct *direct, struct direct_peer *peer)
{
	uint64_t *used = direct->cells[peer->slot];

	for (uint32_t i = 0; i < ANNOUNCEMENT_CELLS; i++) {
		if (used[i / 64] >> i % 64 & 1)
			continue;
		used[i / 64] |= 1ull << i % 64;
		announcements_use(peer->announcements, i, random_number());
		return i;
	}
	return ANNOUNCEMENT_CELLS;
}

static void return_cell(struct direct *direct, const struct direct_peer *peer, uint32_t cell)
{
	direct->cells[peer->slot][cell / 64] &= ~(1ull << cell % 64);
}

/* --- peers, under the lock --- */

static struct direct_peer *find_peer(const struct direct *direct, const struct engine_flow *flow)
{
	struct direct_peer *peer;

	LIST_FOREACH(peer, &direct->peers, next)
	if (peer->slot == flow->slot && peer->generation == host_peer_generation(flow->peer))
		return peer;
	return NULL;
}

static struct direct_peer *add_peer(struct engine *engine, const struct engine_flow *flow)
{
	struct host *host = membership_host(engine);
	struct direct_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->slot = flow->slot;
	peer->generation = host_peer_generation(flow->peer);
	peer->process = host_peer_process(flow->peer);
	peer->tables = host_tables_look(host, flow->slot);
	peer->announcements = host_announcements_open(host, flow->slot);
	if (!peer->tables || !peer->announcements) {
		free(peer);
		return NULL;
	}
	/* Without a number there are no calls; shared pages need none. */
	atomic_store(&peer->is_refused, peer->process <= 0);
	LIST_INSERT_HEAD(&engine->direct.peers, peer, next);
	return peer;
}

static void return_peer(struct direct_peer *peer)
{
	if (--peer->user_count)
		return;
	LIST_REMOVE(peer, next);
	free(peer);
}

/* --- one access --- */

static struct direct_target target_of(const struct direct_peer *peer)
{
	return (struct direct_target){
		.process = peer->process,
		.door = atomic_load(&peer->tables->head.door),
		.proof = atomic_load(&peer->tables->head.proof),
	};
}

/* Until the peer has published where its door is, nothing is tried and nothing is decided. */
static bool is_reached(struct direct_peer *peer)
{
	struct direct_target target;
	enum direct_outcome outcome;

	if (atomic_load_explicit(&peer->is_refused, memory_order_relaxed))
		return false;
	if (atomic_load_explicit(&peer->is_known, memory_order_relaxed))
		return true;
	if (atomic_load(&peer->tables->head.owner) != peer->generation)
		return false;
	target = target_of(peer);
	outcome = direct_vm_probe(&target);
	atomic_store(&peer->is_known, outcome == DIRECT_MOVED);
	atomic_store(&peer->is_refused, outcome != DIRECT_MOVED);
	return outcome == DIRECT_MOVED;
}

/* It is announced as @number, unless it is a READ. */
static bool move_by_vm(const struct direct_reach *reach, const struct published_grant *grant,
		       const struct reach_step *step, uint32_t number)
{
	struct direct_peer *peer = reach->peer;
	struct direct_target target = target_of(peer);
	enum direct_outcome outcome;

	target.done = target.door +
		      direct_door_done(host_slot(membership_host(reach->qp->engine)), reach->cell);
	target.number = number;
	outcome = direct_vm_move(&target, grant->address + step->offset, step);
	if (outcome == DIRECT_REFUSED)
		atomic_store(&peer->is_refused, true);
	return outcome == DIRECT_MOVED;
}

/* Two system calls, now and then. */
static bool is_alive(const struct direct_reach *reach, vbn_time now)
{
	struct direct_peer *peer = reach->peer;
	vbn_time last = atomic_load_explicit(&peer->looked_at, memory_order_relaxed);

	if (now >= vbn_time_add(last, DIRECT_LOOK_NS) &&
	    atomic_compare_exchange_strong(&peer->looked_at, &last, now) &&
	    host_slot_is_dead(membership_host(reach->qp->engine), peer->slot))
		atomic_store(&peer->is_dead, true);
	return !atomic_load_explicit(&peer->is_dead, memory_order_relaxed);
}

/* Where the step's bytes are mapped here; NULL: they are not shared. */
static uint8_t *find_mapped(struct direct_reach *reach, const struct published_grant *grant,
			    const struct reach_step *step)
{
	if (!reach->uses_mappings || !is_alive(reach, step->now))
		return NULL;
	return mapped_find(&known_of(reach, step->key)->mapped, reach->qp->engine, reach->peer,
			   grant, grant->address + step->offset, step->bytes);
}

/* For the system's calls. What is lent never is: who lends it has asked for them. */
static bool is_short(const struct direct_reach *reach, const struct reach_step *step)
{
	bool is_lent = reach->request.rights == 0;

	return !is_lent && (step->length <= TORN_BYTES_MAX || step->length < reach->vm_bytes_min);
}

/* Whether the system's calls would pay, and take it. */
static bool is_for_vm(struct direct_reach *reach, const struct reach_step *step)
{
	reach->reach.was_short = is_short(reach, step);
	return !reach->reach.was_short && is_reached(reach->peer);
}

/* By either way; it is announced as @number, unless it is a READ. */
static bool move(struct direct_reach *reach, const struct published_grant *grant,
		 const struct reach_step *step, uint32_t number)
{
	uint8_t *there = find_mapped(reach, grant, step);

	if (!there)
		return is_for_vm(reach, step) && move_by_vm(reach, grant, step, number);
	if (!step->is_read)
		announcement_is_by_sharing(&reach->peer->announcements->cells[reach->cell]);
	return mapped_move(there, step);
}

static bool ask_tables(struct direct_reach *reach, struct published_grant *grant)
{
	const struct published_request *request = &reach->request;

	return published_grants(reach->peer->tables, &known_of(reach, request->key)->published,
				request, grant);
}

static bool write_there(struct direct_reach *reach, const struct reach_step *step,
			struct published_grant *grant)
{
	struct announcement *cell = &reach->peer->announcements->cells[reach->cell];
	uint32_t number = announcement_begin(cell, step->key, reach->request.qpn);
	bool is_moved = ask_tables(reach, grant) && move(reach, grant, step, number);

	announcement_end(cell);
	return is_moved;
}

static bool read_there(struct direct_reach *reach, const struct reach_step *step,
		       struct published_grant *grant)
{
	bool is_moved = ask_tables(reach, grant) && move(reach, grant, step, 0);

	/* Whether it still stands is looked at behind it. */
	atomic_thread_fence(memory_order_seq_cst);
	return is_moved;
}

/* What is asked for; the rest of the request is the same for all. */
static void ask(struct direct_reach *reach, uint32_t key, uint32_t rights, uint64_t address,
		uint64_t length)
{
	struct published_request *request = &reach->request;

	reach->reach.was_short = false;
	request->wanted.first_psn = reach->qp->qp->attr.sq_psn;
	request->key = key;
	request->rights = rights;
	request->address = address;
	request->length = length;
}

static void ask_for(struct direct_reach *reach, const struct reach_step *step)
{
	ask(reach, step->key, step->is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE,
	    step->address, step->length);
}

/* Whether the step's bytes are shared, or else the system's calls are for it. */
static bool has_way(struct direct_reach *reach, const struct published_grant *grant,
		    const struct reach_step *step)
{
	return (reach->uses_mappings &&
		mapped_is_shared(grant, grant->address + step->offset, step->bytes)) ||
	       is_for_vm(reach, step);
}

static bool is_granted(struct reach *base, const struct reach_step *step)
{
	struct direct_reach *reach = (struct direct_reach *)base;
	struct published_grant grant;

	ask_for(reach, step);
	return ask_tables(reach, &grant) && has_way(reach, &grant, step);
}

static bool access_peer(struct reach *base, const struct reach_step *step)
{
	struct direct_reach *reach = (struct direct_reach *)base;
	struct published_grant grant;

	ask_for(reach, step);
	/* Where there are no shared pages nothing is announced that would not be tried. */
	if (!reach->uses_mappings && !is_for_vm(reach, step))
		return false;
	return (step->is_read ? read_there : write_there)(reach, step, &grant) &&
	       published_stands(&grant);
}

static bool fetch_from_peer(struct reach *base, const struct reach_step *step)
{
	struct direct_reach *reach = (struct direct_reach *)base;
	struct published_grant grant;

	ask(reach, step->key, 0, step->address, step->length);
	return read_there(reach, step, &grant) && published_stands(&grant);
}

/*
 * The owner took its memory back meanwhile. If that was a moment ago it has waited for us, for it waits
 * longer than that for everybody; otherwise nobody knows.
 */
static enum reach_outcome outcome_of_late(const struct reach_atomic *atomic)
{
	return clock_now() - atomic->now < DIRECT_PATIENCE_NS / 2 ? REACH_DONE : REACH_UNCERTAIN;
}

static enum reach_outcome atomic_at_peer(struct reach *base, const struct reach_atomic *atomic,
					 uint64_t *original)
{
	struct direct_reach *reach = (struct direct_reach *)base;
	struct announcement *cell = &reach->peer->announcements->cells[reach->cell];
	struct published_grant grant;
	uint8_t *there = NULL;
	bool is_done = false;

	if (atomic->address % ATOMIC_BYTES)
		return REACH_NOT;
	ask(reach, atomic->key, IBV_ACCESS_REMOTE_ATOMIC, atomic->address, ATOMIC_BYTES);
	announcement_begin(cell, atomic->key, reach->request.qpn);
	if (ask_tables(reach, &grant) && is_alive(reach, atomic->now))
		there = mapped_find(&known_of(reach, atomic->key)->mapped, reach->qp->engine,
				    reach->peer, &grant, grant.address, ATOMIC_BYTES);
	if (there) {
		announcement_is_by_sharing(cell);
		is_done = mapped_atomic(there, atomic, original);
	}
	announcement_end(cell);
	if (!is_done)
		return REACH_NOT;
	return published_stands(&grant) ? REACH_DONE : outcome_of_late(atomic);
}

/* --- connections --- */

/* FNV-1a of both addresses, in the direction of requests. */
static uint64_t hash_path(const struct link_address *from, const struct link_address *to)
{
	uint64_t hash = 14695981039346656037ull;

	for (unsigned i = 0; i < 32; i++)
		hash = (hash ^ (i < 16 ? from->gid[i] : to->gid[i - 16])) * 1099511628211ull;
	return hash;
}

static struct published_request request_of(const struct engine_qp *qp, const struct path *path)
{
	const struct link_path *addresses = &qp->route.path;

	return (struct published_request){
		.owner = host_peer_generation(qp->flow->peer),
		.qpn = qp->qp->attr.dest_qp_num,
		.wanted = {.peer = qp->qp->number,
			   .peer_owner = host_generation(membership_host(qp->engine)),
			   .path = hash_path(&addresses->source, &addresses->destination),
			   .payload_max = path->payload_max},
	};
}

/* NULL: packets serve it. */
static struct direct_reach *open_reach(struct engine_qp *qp)
{
	struct direct *direct = &qp->engine->direct;
	struct direct_reach *reach = calloc(1, sizeof(*reach));

	if (!reach)
		return NULL;
	pthread_mutex_lock(&direct->lock);
	reach->peer = find_peer(direct, qp->flow);
	if (!reach->peer)
		reach->peer = add_peer(qp->engine, qp->flow);
	reach->last = reach->known;
	reach->cell = reach->peer ? take_cell(direct, reach->peer) : ANNOUNCEMENT_CELLS;
	if (reach->cell != ANNOUNCEMENT_CELLS)
		reach->peer->user_count++;
	pthread_mutex_unlock(&direct->lock);
	if (reach->cell != ANNOUNCEMENT_CELLS)
		return reach;
	free(reach);
	return NULL;
}

static uint32_t bytes_min_of(const struct settings *settings)
{
	if (settings->direct_bytes_min)
		return settings->direct_bytes_min;
	return settings->direct == DIRECT_CHOICE_VM ? 1 : DIRECT_BYTES_MIN;
}

/* By which ways; the transport need not ask for what none of them is for. */
static void set_ways(struct direct_reach *reach)
{
	struct engine *engine = reach->qp->engine;

	reach->vm_bytes_min = bytes_min_of(&engine->settings);
	reach->uses_mappings = engine->settings.direct != DIRECT_CHOICE_VM &&
			       engine->settings.adopt != ADOPT_CHOICE_OFF &&
			       host_adopted_file(membership_host(engine));
	reach->reach = (struct reach){
		.grants = is_granted,
		.access = access_peer,
		.bytes_min = reach->uses_mappings ? 1 : reach->vm_bytes_min,
		.fetch = fetch_from_peer,
		/* The peer may have to read it by the system's calls. */
		.lend_bytes_min = reach->vm_bytes_min,
		.atomic = reach->uses_mappings ? atomic_at_peer : NULL,
	};
}

static bool peer_wishes(const struct engine_qp *qp)
{
	return host_sharing(membership_host(qp->engine), qp->flow->slot) & REGISTRY_SHARES_DIRECT;
}

void direct_connect(struct engine_qp *qp, struct path *path, uint32_t dest_qpn)
{
	struct engine *engine = qp->engine;

	if (qp->link != engine->shm_link || qp->qp->type != IBV_QPT_RC ||
	    !direct_is_wished(&engine->settings) || !peer_wishes(qp) || !direct_begin(engine))
		return;
	qp->direct = (struct direct_qp){.is_on = true};
	qp->direct.reach = open_reach(qp);
	if (!qp->direct.reach)
		return;
	qp->direct.reach->qp = qp;
	qp->direct.reach->request = request_of(qp, path);
	qp->direct.reach->request.qpn = dest_qpn;
	set_ways(qp->direct.reach);
	path->reach = &qp->direct.reach->reach;
}

void direct_disconnect(struct engine_qp *qp)
{
	struct direct *direct = &qp->engine->direct;
	struct direct_reach *reach = qp->direct.reach;

	direct_withdraw_qp(qp);
	qp->direct = (struct direct_qp){.is_on = false};
	if (!reach)
		return;
	for (uint32_t i = 0; i < KNOWN_REGIONS; i++)
		mapped_forget(&reach->known[i].mapped, qp->engine);
	pthread_mutex_lock(&direct->lock);
	return_cell(direct, reach->peer, reach->cell);
	return_peer(reach->peer);
	pthread_mutex_unlock(&direct->lock);
	free(reach);
}

uint64_t direct_path_towards(const struct engine_qp *qp)
{
	return hash_path(&qp->route.path.destination, &qp->route.path.source);
}
