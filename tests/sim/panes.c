/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/panes.h"

#include <string.h>

#include "base/assert.h"
#include "memory/window.h"
#include "sim/windows.h"

#define NAME "panes"
#define PANES_SALT 11
#define RACE_PERCENT 10
/* Of uses that must be refused, in a million: one of them ends a reliable connection. */
#define WRONG_RELIABLE 15000
#define WRONG_UNRELIABLE 150000

static bool chance(struct endpoint *end, uint32_t percent)
{
	return random_chance(&end->pane.random, percent * 10000);
}

static bool has_pane(const struct endpoint *end)
{
	return end->pane.region != NULL;
}

/* --- life --- */

void panes_init(struct endpoint *end, uint32_t pd)
{
	struct host *host = end->qp->host;
	struct pane *pane = &end->pane;
	struct mr_slot *slot = NULL;

	if (!end->plan->pane_percent)
		return;
	pane->random.state = end->random.state ^ PANES_SALT;
	pane->region =
		host_add_region(host, PANE_BYTES, pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	pane->mw.type = chance(end, 30) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
	while (!slot) {
		pane->mw.rkey = (uint32_t)random_next(&pane->random);
		slot = window_create(&host->memory, pane->mw.type, pd, pane->mw.rkey);
	}
	pane->mr.lkey = pane->region->key;
}

static void freeze(struct endpoint *end)
{
	struct pane *pane = &end->pane;

	pane->state = PANE_FREE;
	pane->is_frozen = true;
	memcpy(pane->frozen, host_bytes(end->qp->host, pane->region, pane->region->iova),
	       PANE_BYTES);
}

void panes_check(struct endpoint *end)
{
	const struct pane *pane = &end->pane;

	if (has_pane(end) && pane->is_frozen &&
	    memcmp(pane->frozen, host_bytes(end->qp->host, pane->region, pane->region->iova),
		   PANE_BYTES) != 0)
		world_fail(end->world, NAME, "memory changes through a window that is closed");
}

/* Whatever was executed of what was flushed. */
void panes_begin(struct endpoint *end)
{
	const struct qp *qp = end->qp->qp;
	const struct access access = {
		.memory = &end->qp->host->memory, .pd = qp->pd, .owner = qp->incarnation};
	struct pane *pane = &end->pane;

	if (!has_pane(end))
		return;
	panes_check(end);
	if (pane->mw.type == IBV_MW_TYPE_1)
		window_bind(&access,
			    &(struct window_bind){.window = pane->mw.rkey, .key = pane->mw.rkey},
			    NULL);
	else
		window_invalidate(&access, pane->mw.rkey, NULL);
	freeze(end);
}

/* --- who is under way to it --- */

static bool is_access(const struct operation *operation, uint32_t key)
{
	return operation->uses_pane && !operation_is_local(operation) && operation->rkey == key;
}

/* Done is what was polled: what is not may still be under way. */
static bool has_accesses(struct endpoint *accessor, uint32_t key)
{
	for (uint32_t count = accessor->completed; count != accessor->posted; count++)
		if (is_access(endpoint_operation(accessor, count), key))
			return true;
	return false;
}

static void let_be_refused(struct endpoint *accessor, uint32_t key)
{
	for (uint32_t i = 0; i < ENDPOINT_RING; i++) {
		if (accessor->operations[i].state == OPERATION_POSTED &&
		    is_access(&accessor->operations[i], key))
			accessor->operations[i].may_be_refused = true;
		if (is_access(&accessor->consumers[i], key))
			accessor->consumers[i].may_be_refused = true;
	}
}

/* A local invalidation whose window a message of the peer may free before it. */
static void let_closing_fail(struct endpoint *end)
{
	for (uint32_t i = 0; i < ENDPOINT_RING; i++)
		if (end->operations[i].state == OPERATION_POSTED && end->operations[i].uses_pane &&
		    end->operations[i].opcode == IBV_WR_LOCAL_INV)
			end->operations[i].may_be_refused = true;
}

/* --- what the end itself does --- */

static void draw_bind(struct endpoint *end, struct operation *operation)
{
	static const uint32_t rights[] = {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ,
					  IBV_ACCESS_REMOTE_ATOMIC};
	struct pane *pane = &end->pane;
	uint64_t offset = random_below(&pane->random, PANE_BYTES / 16) * 8;

	operation->opcode = IBV_WR_BIND_MW;
	pane->rights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	if (chance(end, 40))
		pane->rights ^= rights[random_below(&pane->random, 3)];
	pane->iova = pane->region->iova + offset;
	pane->length = 8 * (uint32_t)random_between(&pane->random, 1, (PANE_BYTES - offset) / 8);
	pane->iova_base = 0;
	if (chance(end, 25)) {
		pane->rights |= IBV_ACCESS_ZERO_BASED;
		pane->iova_base = pane->iova;
	}
}

static void draw_own(struct endpoint *end, struct operation *operation)
{
	struct pane *pane = &end->pane;

	if (pane->state == PANE_FREE)
		draw_bind(end, operation);
	else if (pane->state == PANE_OPEN &&
		 (!has_accesses(end->peer, pane->mw.rkey) || chance(end, RACE_PERCENT)))
		operation->opcode = pane->mw.type == IBV_MW_TYPE_1 ? IBV_WR_BIND_MW
								   : IBV_WR_LOCAL_INV;
	else
		return;
	operation->uses_pane = true;
	operation->length = 0;
	operation->is_signalled = true;
	operation->flags &= IBV_SEND_FENCE;
	if (!end->plan->signals_all)
		operation->flags |= IBV_SEND_SIGNALED;
}

/* --- what the peer does --- */

static uint32_t right_of(const struct operation *operation)
{
	if (operation_is_atomic(operation))
		return IBV_ACCESS_REMOTE_ATOMIC;
	return operation_is_write(operation) ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
}

/* The part of an open pane that such a request may name; its length, 0: there is none. */
static uint32_t part_for(const struct pane *pane, const struct operation *operation,
			 uint64_t *first)
{
	uint64_t border = pane->region->iova + PANE_ATOMIC_BYTES;
	uint64_t begin = pane->iova, end = pane->iova + pane->length;

	if (operation_is_write(operation) && begin < border)
		begin = border;
	if (operation_is_atomic(operation) && end > border)
		end = border;
	*first = begin;
	return begin < end ? (uint32_t)(end - begin) : 0;
}

/* False: the window has no place for such a request. */
static bool aim(struct endpoint *end, const struct pane *pane, struct operation *operation)
{
	struct operation write = *operation;
	uint64_t first, offset;
	uint32_t room;

	if (operation_is_send(operation))
		write.opcode = IBV_WR_RDMA_WRITE;
	room = part_for(pane, &write, &first);
	if (!room)
		return false;
	*operation = write;
	if (!operation_is_atomic(operation))
		operation->length = 1 + operation->length % room;
	if (operation->length > end->plan->cap.max_inline_data)
		operation->flags &= ~(unsigned)IBV_SEND_INLINE;
	offset = random_between(&end->pane.random, 0, room - operation->length);
	if (operation_is_atomic(operation))
		offset &= ~7ull;
	operation->uses_pane = true;
	operation->remote = pane->region;
	operation->remote_iova = first + offset;
	operation->iova_base = pane->iova_base;
	operation->rkey = pane->mw.rkey;
	return true;
}

static void refuse(const struct endpoint *end, struct operation *operation)
{
	if (endpoint_is_reliable(end))
		operation->expected = IBV_WC_REM_ACCESS_ERR;
	else
		operation->is_dropped = true;
}

static void draw_access(struct endpoint *end, struct operation *operation)
{
	const struct pane *pane = &end->peer->pane;

	if (!(pane->rights & right_of(operation)) && !operation_is_send(operation))
		return;
	if (operation_is_send(operation) && !(pane->rights & IBV_ACCESS_REMOTE_WRITE))
		return;
	if (!(end->peer->plan->terms.access & IBV_ACCESS_REMOTE_WRITE) &&
	    operation_is_send(operation))
		return;
	aim(end, pane, operation);
}

static bool is_done_with_it(struct endpoint *end)
{
	return !has_accesses(end, end->peer->pane.mw.rkey) || chance(end, RACE_PERCENT);
}

/* READs are answered before the window goes, or they would lose it. */
static void draw_closing_message(struct endpoint *end, struct operation *operation)
{
	operation->opcode = IBV_WR_SEND_WITH_INV;
	operation->uses_pane = true;
	operation->flags |= IBV_SEND_FENCE;
	operation->rkey = end->peer->pane.mw.rkey;
	if (operation->length > end->peer->plan->receive_bytes)
		operation->length = end->peer->plan->receive_bytes;
	if (operation->length > end->plan->cap.max_inline_data)
		operation->flags &= ~(unsigned)IBV_SEND_INLINE;
}

/* Bound for another QP of the host, which does not help us; NULL: there is none. */
static const struct pane *strangers_pane(const struct endpoint *end)
{
	const struct host *host = end->peer->qp->host;

	for (uint32_t i = 0; i < host->qp_count; i++) {
		const struct endpoint *other = host->qps[i].program;

		if (other != end->peer && has_pane(other) && other->pane.state == PANE_OPEN &&
		    other->pane.mw.type == IBV_MW_TYPE_2)
			return &other->pane;
	}
	return NULL;
}

static void draw_wrong_access(struct endpoint *end, struct operation *operation)
{
	const struct pane *pane = &end->peer->pane, *other = strangers_pane(end);
	bool is_aimed = false;

	if (!pane->length)
		return;
	if (other && chance(end, 50)) {
		is_aimed = aim(end, other, operation);
	} else if (pane->state == PANE_OPEN && chance(end, 50)) {
		is_aimed = aim(end, pane, operation);
		if (is_aimed)
			operation->remote_iova = pane->iova + pane->length - operation->length + 8;
	} else if (pane->state == PANE_OPEN && !(pane->rights & right_of(operation)) &&
		   !operation_is_send(operation)) {
		is_aimed = aim(end, pane, operation);
	} else if (pane->state == PANE_FREE ||
		   (pane->state == PANE_CLOSING && pane->closes_by_message)) {
		is_aimed = aim(end, pane, operation);
	}
	if (is_aimed)
		refuse(end, operation);
}

static void draw_use(struct endpoint *end, struct operation *operation)
{
	const struct endpoint *peer = end->peer;

	if (random_chance(&end->pane.random,
			  endpoint_is_reliable(end) ? WRONG_RELIABLE : WRONG_UNRELIABLE))
		draw_wrong_access(end, operation);
	else if (peer->pane.state == PANE_OPEN && peer->pane.mw.type == IBV_MW_TYPE_2 &&
		 endpoint_is_reliable(end) && chance(end, 25) && is_done_with_it(end))
		draw_closing_message(end, operation);
	else if (peer->pane.state == PANE_OPEN)
		draw_access(end, operation);
}

void panes_draw(struct endpoint *end, struct operation *operation)
{
	if (!has_pane(end) || !has_pane(end->peer) || operation->is_echo ||
	    operation_is_local(operation) || operation->expected != IBV_WC_SUCCESS ||
	    operation->is_dropped || !chance(end, end->plan->pane_percent))
		return;
	if (chance(end, 40))
		draw_own(end, operation);
	else
		draw_use(end, operation);
}

/* --- from drawing to posting --- */

static void become_nothing(struct endpoint *end, struct operation *operation)
{
	operation->opcode = IBV_WR_RDMA_WRITE;
	operation->uses_pane = false;
	operation->remote = end->peer->target;
	operation->remote_iova = end->peer->target->iova;
	operation->rkey = end->peer->target->key;
	if (end->peer->plan->terms.access & IBV_ACCESS_REMOTE_WRITE)
		return;
	refuse(end, operation);
}

/* It may have waited for room, while the pane has changed. */
static void judge_own(struct endpoint *end, struct operation *operation)
{
	const struct pane *pane = &end->pane;
	bool is_bind = operation->opcode == IBV_WR_BIND_MW;

	if (pane->state == PANE_FREE ? !is_bind : pane->state != PANE_OPEN)
		become_nothing(end, operation);
	else if (pane->state == PANE_OPEN && is_bind && pane->mw.type == IBV_MW_TYPE_2)
		become_nothing(end, operation);
}

static void judge_use(struct endpoint *end, struct operation *operation)
{
	const struct pane *pane = &end->peer->pane;

	if (operation->expected != IBV_WC_SUCCESS || operation->is_dropped)
		return;
	if (pane->mw.rkey != operation->rkey || pane->state == PANE_FREE)
		refuse(end, operation);
	else if (pane->state != PANE_OPEN)
		operation->may_be_refused = true;
}

void panes_judge(struct endpoint *end, struct operation *operation)
{
	if (!operation->uses_pane)
		return;
	if (operation_is_local(operation))
		judge_own(end, operation);
	else
		judge_use(end, operation);
}

static void posted_own(struct endpoint *end)
{
	struct pane *pane = &end->pane;

	if (pane->state == PANE_FREE) {
		panes_check(end);
		pane->is_frozen = false;
		pane->state = PANE_BINDING;
		pane->mw.rkey = ibv_inc_rkey(pane->mw.rkey);
		return;
	}
	pane->state = PANE_CLOSING;
	pane->closes_by_message = false;
	let_be_refused(end->peer, pane->mw.rkey);
}

static void posted_closing(struct endpoint *end, const struct operation *operation)
{
	struct pane *pane = &end->peer->pane;

	if (pane->mw.rkey != operation->rkey || pane->state == PANE_FREE)
		return;
	if (pane->state == PANE_CLOSING)
		let_closing_fail(end->peer);
	else
		pane->closes_by_message = true;
	pane->state = PANE_CLOSING;
}

void panes_posted(struct endpoint *end, const struct operation *operation)
{
	if (!operation->uses_pane)
		return;
	if (operation_is_local(operation))
		posted_own(end);
	else if (operation->opcode == IBV_WR_SEND_WITH_INV)
		posted_closing(end, operation);
}

void panes_fill(const struct endpoint *end, const struct operation *operation,
		struct ibv_send_wr *wr)
{
	struct pane *pane = (struct pane *)(uintptr_t)&end->pane;

	wr->num_sge = 0;
	if (operation->opcode == IBV_WR_LOCAL_INV) {
		wr->invalidate_rkey = pane->mw.rkey;
		return;
	}
	wr->bind_mw.mw = &pane->mw;
	if (pane->state == PANE_OPEN) { /* of type 1: bound to nothing */
		wr->bind_mw.rkey = pane->mw.rkey;
		return;
	}
	wr->bind_mw.rkey = ibv_inc_rkey(pane->mw.rkey);
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = &pane->mr,
		.addr = pane->iova,
		.length = pane->length,
		.mw_access_flags = pane->rights,
	};
}

/* --- what has become of it --- */

static void own_completed(struct endpoint *end, const struct completion *completion)
{
	struct pane *pane = &end->pane;

	if (completion->opcode != IBV_WC_BIND_MW && completion->opcode != IBV_WC_LOCAL_INV)
		return;
	for (uint32_t count = end->completed; count != end->posted; count++) {
		const struct operation *operation = endpoint_operation(end, count);

		if (operation->id != completion->wr_id || !operation->uses_pane)
			continue;
		if (pane->state == PANE_BINDING)
			pane->state = PANE_OPEN;
		else if (pane->state == PANE_CLOSING)
			freeze(end);
	}
}

static void completed(void *context, struct host_qp *qp, const struct completion *completion)
{
	struct endpoint *end = qp->program;
	struct pane *pane = &end->pane;

	(void)context;
	if (!has_pane(end) || completion->status != IBV_WC_SUCCESS)
		return;
	if (!completion->is_receive)
		own_completed(end, completion);
	else if (completion->wc_flags & IBV_WC_WITH_INV && completion->immediate == pane->mw.rkey &&
		 pane->state == PANE_CLOSING)
		freeze(end);
}

void panes_attach(struct world *world)
{
	world_observe(world, world)->completed = completed;
}

/* Two panes may be meant: a stranger's is closed to everybody but its own peer. */
bool panes_is_closed_to(const struct endpoint *end, const struct operation *operation)
{
	const struct pane *pane = &end->pane;

	return operation->rkey != pane->mw.rkey || pane->state == PANE_FREE;
}

bool panes_may_be_closed_to(const struct endpoint *end, const struct operation *operation)
{
	return panes_is_closed_to(end, operation) || end->pane.state != PANE_OPEN;
}
