/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles: an address vector that was looked into once, for all datagrams to it. */
#include "engine/ah.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/connect.h"
#include "engine/engine_state.h"
#include "engine/explain.h"

static const char call[] = "ibv_create_ah";

/* A way to the destination. */
struct way {
	struct engine_link *link; /* NULL: there is no such way */
	struct link_route route;
};

struct engine_ah {
	struct ibv_ah ibv; /* first: work requests point at it */
	struct engine *engine;
	struct engine_pd *pd;
	_Atomic uint32_t reference_count; /* the program's, and one of each slot */
	struct way outside, inside;	  /* inside: to QPs of this process */

	pthread_mutex_t lock; /* QPs of several threads send by it */
	/* By the slot of the receiver, from its first datagram on; NULL: none yet. Set under lock. */
	struct engine_flow *_Atomic flows[HOST_SLOTS];
};

static int open_way(struct engine *engine, const struct link_address *local,
		    const struct link_path *path, struct way *way)
{
	struct engine_link *link;
	int error = links_open(engine, local, call, &link);

	if (error)
		return error;
	error = link->link->ops->open_route(link->link, path, &way->route);
	if (error)
		return explain_call(error, call, "there is no route to the peer: %s",
				    strerror(-error));
	way->link = link;
	return 0;
}

static int open_ways(struct engine_ah *ah, const struct device *device,
		     const struct ibv_ah_attr *attr)
{
	struct engine *engine = ah->engine;
	struct link_path path = {.entropy = attr->is_global ? attr->grh.flow_label & 0xfffff : 0};
	int error = connect_addresses(device, attr, call, &path);

	if (error)
		return error;
	/* A handle knows no QP numbers to spread packets by. */
	if (!path.entropy)
		path.entropy = random_number() & 0xfffff;
	error = open_way(engine, &path.source, &path, &ah->outside);
	if (!error && engine->settings.link != LINK_CHOICE_UDP &&
	    device_has_address(device, &path.destination))
		error = open_way(engine, NULL, &path, &ah->inside);
	return error;
}

static int check(const struct engine *engine, const struct device *device,
		 const struct ibv_ah_attr *attr)
{
	const struct qp_limits limits = connect_limits(engine, device);
	const char *complaint = qp_address_check(attr, &limits);

	return complaint ? explain_call(-EINVAL, call, "%s", complaint) : 0;
}

static int count_one(struct engine *engine)
{
	if (atomic_fetch_add(&engine->ah_count, 1) < DEVICE_MAX_AH)
		return 0;
	atomic_fetch_sub(&engine->ah_count, 1);
	return explain_call(-ENOMEM, call, "the device has only %d address handles", DEVICE_MAX_AH);
}

int engine_ah_create(struct engine_pd *pd, const struct device *device,
		     const struct ibv_ah_attr *attr, struct engine_ah **ah)
{
	struct engine *engine = pd->engine;
	struct engine_ah *created;
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	error = check(engine, device, attr);
	if (!error)
		error = count_one(engine);
	if (error)
		return error;
	/* The address may be shared with other processes, whether or not a QP came before. */
	membership_join(engine);
	created = calloc(1, sizeof(*created));
	if (created) {
		created->engine = engine;
		created->pd = pd;
		pthread_mutex_init(&created->lock, NULL);
		atomic_init(&created->reference_count, 1);
	}
	error = created ? open_ways(created, device, attr) : -ENOMEM;
	if (error) {
		atomic_fetch_sub(&engine->ah_count, 1);
		free(created);
		return error;
	}
	atomic_fetch_add(&pd->user_count, 1);
	*ah = created;
	return 0;
}

static void end(struct engine_ah *ah)
{
	/* In a child of fork they are the parent's. */
	for (uint32_t i = 0; i < HOST_SLOTS && !engine_is_inherited(ah->engine); i++)
		if (ah->flows[i])
			links_return_flow(ah->engine, ah->flows[i]);
	pthread_mutex_destroy(&ah->lock);
	free(ah);
}

static void let_go(struct engine_ah *ah)
{
	if (ah && atomic_fetch_sub(&ah->reference_count, 1) == 1)
		end(ah);
}

void engine_ah_destroy(struct engine_ah *ah)
{
	atomic_fetch_sub(&ah->pd->user_count, 1);
	atomic_fetch_sub(&ah->engine->ah_count, 1);
	let_go(ah);
}

struct ibv_ah *engine_ah_shown(struct engine_ah *ah)
{
	return &ah->ibv;
}

struct engine_ah *engine_ah_of(struct ibv_ah *shown)
{
	return (struct engine_ah *)shown;
}

/* --- the handles of a QP's requests --- */

static struct engine_ah **slot_of(const struct engine_qp *qp, uint32_t position)
{
	return &qp->ahs[position & qp->qp->send_queue.slot_mask];
}

int ah_slots_create(struct engine_qp *qp)
{
	qp->ahs = calloc((size_t)qp->qp->send_queue.slot_mask + 1, sizeof(struct engine_ah *));
	return qp->ahs ? 0 : -ENOMEM;
}

void ah_slots_clear(struct engine_qp *qp)
{
	for (uint32_t i = 0; qp->ahs && i <= qp->qp->send_queue.slot_mask; i++) {
		let_go(qp->ahs[i]);
		qp->ahs[i] = NULL;
	}
}

void ah_slots_destroy(struct engine_qp *qp)
{
	ah_slots_clear(qp);
	free(qp->ahs);
	qp->ahs = NULL;
}

/* Other requests have other things in the place of the handle; they are refused for that. */
static bool is_send(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM;
}

int ah_check(const struct engine_qp *qp, const struct ibv_send_wr *wr)
{
	if (!is_send(wr))
		return 0;
	if (!wr->wr.ud.ah)
		return explain_call(
			EINVAL, "ibv_post_send",
			"a send of UD QP 0x%06x has no address handle: set wr.ud.ah, or "
			"call ibv_wr_set_ud_addr",
			qp->qp->number);
	if (engine_ah_of(wr->wr.ud.ah)->pd->number != qp->pd->number)
		return explain_call(
			EINVAL, "ibv_post_send",
			"the address handle belongs to another PD than UD QP 0x%06x; make "
			"it with the PD of the QP",
			qp->qp->number);
	return 0;
}

void ah_hold(struct engine_qp *qp, const struct ibv_send_wr *wr)
{
	struct engine_ah **slot = slot_of(qp, qp->qp->send_queue.posted - 1);
	struct engine_ah *ah = engine_ah_of(wr->wr.ud.ah);

	if (*slot == ah)
		return;
	atomic_fetch_add(&ah->reference_count, 1);
	let_go(*slot);
	*slot = ah;
}

static bool goes_inside(const struct engine_ah *ah, uint32_t qpn)
{
	return ah->inside.link && connect_is_own_number(ah->engine, qpn);
}

static void take_flow(struct engine_ah *ah, uint32_t slot, uint32_t qpn)
{
	pthread_mutex_lock(&ah->lock);
	if (!atomic_load(&ah->flows[slot]))
		atomic_store(&ah->flows[slot],
			     links_take_flow(ah->engine, ah->outside.link,
					     &ah->outside.route.path.destination, qpn));
	pthread_mutex_unlock(&ah->lock);
}

/* One that is not to be had (no memory) is none to wait for. */
struct engine_flow *ah_flow(const struct engine_qp *qp, uint32_t position, uint32_t qpn)
{
	struct engine_ah *ah = *slot_of(qp, position);
	uint32_t slot = host_slot_of_qpn(qpn & 0xffffff);

	if (goes_inside(ah, qpn))
		return NULL;
	if (!atomic_load_explicit(&ah->flows[slot], memory_order_acquire))
		take_flow(ah, slot, qpn);
	return atomic_load_explicit(&ah->flows[slot], memory_order_acquire);
}

struct target ah_target(const struct engine_qp *qp, uint32_t position, uint32_t qpn)
{
	const struct engine_ah *ah = *slot_of(qp, position);
	bool is_inside = goes_inside(ah, qpn);
	const struct way *way = is_inside ? &ah->inside : &ah->outside;
	uint32_t slot = host_slot_of_qpn(qpn & 0xffffff);

	return (struct target){
		.link = way->link,
		.route = &way->route,
		.slot = slot,
		.flow = is_inside ? NULL : atomic_load(&ah->flows[slot]),
	};
}
