/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester's part of direct.h: a QP's way into the memory of its peer. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine_state.h"
#include "host/rings.h"
#include "host/tables.h"

/* Pieces up to this size may be torn by the kernel. */
#define TORN_BYTES_MAX 8u

struct direct_reach {
	struct reach reach;
	struct engine_qp *qp;
	struct direct_peer *peer;
	uint32_t cell;
	struct published_request request; /* what is the same for all */
};

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
	if (!peer->tables || !peer->announcements || peer->process <= 0) {
		free(peer);
		return NULL;
	}
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
static bool move(const struct direct_reach *reach, const struct published_grant *grant,
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

static bool write_by_vm(const struct direct_reach *reach, const struct reach_step *step,
			struct published_grant *grant)
{
	struct announcement *cell = &reach->peer->announcements->cells[reach->cell];
	uint32_t number = announcement_begin(cell, step->key, reach->request.qpn);
	bool is_moved = published_grants(reach->peer->tables, &reach->request, grant) &&
			move(reach, grant, step, number);

	announcement_end(cell);
	return is_moved;
}

static bool read_by_vm(const struct direct_reach *reach, const struct reach_step *step,
		       struct published_grant *grant)
{
	bool is_moved = published_grants(reach->peer->tables, &reach->request, grant) &&
			move(reach, grant, step, 0);

	/* Whether it still stands is looked at behind it. */
	atomic_thread_fence(memory_order_seq_cst);
	return is_moved;
}

/* False: this peer or this message is not to be accessed. */
static bool aim(struct direct_reach *reach, const struct reach_step *step)
{
	struct published_request *request = &reach->request;

	if (step->length <= TORN_BYTES_MAX || !is_reached(reach->peer))
		return false;
	request->wanted.first_psn = reach->qp->qp->attr.sq_psn;
	request->key = step->key;
	request->rights = step->is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	request->address = step->address;
	request->length = step->length;
	return true;
}

static bool is_granted(struct reach *base, const struct reach_step *step)
{
	struct direct_reach *reach = (struct direct_reach *)base;
	struct published_grant grant;

	return aim(reach, step) && published_grants(reach->peer->tables, &reach->request, &grant);
}

static bool access_by_vm(struct reach *base, const struct reach_step *step)
{
	struct direct_reach *reach = (struct direct_reach *)base;
	struct published_grant grant;

	return aim(reach, step) &&
	       (step->is_read ? read_by_vm : write_by_vm)(reach, step, &grant) &&
	       published_stands(&grant);
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
	qp->direct.reach->reach = (struct reach){
		.grants = is_granted,
		.access = access_by_vm,
		.bytes_min = bytes_min_of(&engine->settings),
	};
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
