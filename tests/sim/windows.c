/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/windows.h"

#include "base/assert.h"
#include "memory/window.h"

#define WINDOWS_SALT 7

static bool chance(struct endpoint *end, uint32_t percent)
{
	return random_chance(&end->window.random, percent * 10000);
}

void windows_init(struct endpoint *end, uint32_t pd)
{
	struct host *host = end->qp->host;
	struct sim_window *window = &end->window;
	struct mr_slot *slot = NULL;

	if (!end->plan->window_percent)
		return;
	window->random.state = end->random.state ^ WINDOWS_SALT;
	while (!slot) {
		window->mw.rkey = (uint32_t)random_next(&window->random);
		slot = window_create(&host->memory, IBV_MW_TYPE_2, pd, window->mw.rkey);
	}
	window->mw.type = IBV_MW_TYPE_2;
	window->mr.lkey = end->target->key;
}

void windows_begin(struct endpoint *end)
{
	const struct qp *qp = end->qp->qp;
	const struct access access = {
		.memory = &end->qp->host->memory, .pd = qp->pd, .owner = qp->incarnation};
	struct sim_window *window = &end->window;

	if (!end->plan->window_percent)
		return;
	/* The key of the last bind that was executed is one of 256. */
	for (uint32_t low = 0; low < 256; low++) {
		window->mw.rkey = ibv_inc_rkey(window->mw.rkey);
		window->is_bound = window_check_invalidate(&access, window->mw.rkey, NULL) ==
				   REASON_NONE;
		if (window->is_bound)
			return;
	}
}

void windows_draw(struct endpoint *end, struct operation *operation)
{
	struct sim_window *window = &end->window;
	bool is_wrong;

	if (!end->plan->window_percent || operation->is_echo ||
	    !chance(end, end->plan->window_percent))
		return;
	is_wrong = chance(end, end->plan->bad_per_thousand / 10);
	operation->length = 0;
	operation->flags &= IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	operation->expected = is_wrong ? IBV_WC_MW_BIND_ERR : IBV_WC_SUCCESS;
	operation->opcode = window->is_bound == is_wrong ? IBV_WR_BIND_MW : IBV_WR_LOCAL_INV;
	if (operation->opcode == IBV_WR_BIND_MW && !is_wrong)
		window->mw.rkey = ibv_inc_rkey(window->mw.rkey);
	operation->rkey = window->mw.rkey;
	if (!is_wrong)
		window->is_bound = !window->is_bound;
}

void windows_fill(const struct endpoint *end, const struct operation *operation,
		  struct ibv_send_wr *wr)
{
	wr->num_sge = 0;
	if (operation->opcode == IBV_WR_LOCAL_INV) {
		wr->invalidate_rkey = operation->rkey;
		return;
	}
	wr->bind_mw.mw = (struct ibv_mw *)(uintptr_t)&end->window.mw;
	wr->bind_mw.rkey = operation->rkey;
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = (struct ibv_mr *)(uintptr_t)&end->window.mr,
		.addr = end->target->iova,
		.length = end->target->length,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
}
