/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/held_acks.h"

#include "engine/engine_state.h"
#include "engine/pass.h"

/* Another one may be faster: then its place is not ours, and the next free one is tried. */
static bool take_place(struct engine_qp *qp)
{
	struct held_acks *acks = &qp->engine->held_acks;
	uint64_t free = ~atomic_load_explicit(&acks->used, memory_order_relaxed);

	while (free) {
		uint64_t bit = free & -free;
		uint64_t used = atomic_fetch_or(&acks->used, bit);

		if (!(used & bit)) {
			qp->ack_place = (uint8_t)__builtin_ctzll(bit) + 1;
			return true;
		}
		free = ~used & ~bit;
	}
	return false;
}

static void give_back(struct engine_qp *qp)
{
	struct held_acks *acks = &qp->engine->held_acks;
	uint32_t index = qp->ack_place - 1u;

	atomic_store_explicit(&acks->places[index].qpn, 0, memory_order_relaxed);
	qp->ack_place = 0;
	atomic_fetch_and(&acks->used, ~(1ull << index));
}

bool held_acks_set(struct engine_qp *qp, vbn_time until)
{
	struct held_ack *place;

	if (until == VBN_TIME_NEVER) {
		if (qp->ack_place)
			give_back(qp);
		return true;
	}
	if (!qp->ack_place && !take_place(qp))
		return false;
	place = &qp->engine->held_acks.places[qp->ack_place - 1];
	atomic_store_explicit(&place->until, until, memory_order_relaxed);
	atomic_store_explicit(&place->qpn, qp->qp->number, memory_order_release);
	return true;
}

/* NEVER: nobody holds one there. 0: it is just being taken. */
static vbn_time until_of(const struct held_ack *place)
{
	return atomic_load_explicit(&place->qpn, memory_order_acquire)
		       ? atomic_load_explicit(&place->until, memory_order_relaxed)
		       : 0;
}

vbn_time held_acks_next(const struct held_acks *acks)
{
	vbn_time next = VBN_TIME_NEVER;

	for (uint64_t used = atomic_load(&acks->used); used; used &= used - 1)
		next = vbn_time_min(next, until_of(&acks->places[__builtin_ctzll(used)]));
	return next;
}

static bool lock(struct engine_qp *qp, bool may_wait)
{
	if (!may_wait)
		return brief_lock_try(&qp->lock);
	brief_lock_take(&qp->lock);
	return true;
}

/* The QP that had the place when the caller looked; it may have lost it. */
static void serve_place(struct engine_qp *qp, uint32_t index, struct pass *pass, bool may_wait)
{
	if (!lock(qp, may_wait))
		return;
	if (qp->ack_place == index + 1) {
		/* Before the peer can know of it. */
		give_back(qp);
		note_answer(qp, false);
		run_qp(qp, pass);
	}
	brief_lock_release(&qp->lock);
}

void held_acks_serve(struct engine *engine, struct pass *pass, vbn_time horizon, bool may_wait)
{
	struct held_acks *acks = &engine->held_acks;

	for (uint64_t used = atomic_load(&acks->used); used; used &= used - 1) {
		uint32_t index = (uint32_t)__builtin_ctzll(used);
		struct held_ack *place = &acks->places[index];
		uint32_t qpn = atomic_load_explicit(&place->qpn, memory_order_acquire);
		struct pin_slot *slot;

		if (!qpn || atomic_load_explicit(&place->until, memory_order_relaxed) > horizon)
			continue;
		slot = pin_table_pin(&engine->qps, qpn);
		if (!slot)
			continue;
		serve_place(((struct qp_slot *)slot)->qp, index, pass, may_wait);
		pin_slot_unpin(slot);
	}
}
