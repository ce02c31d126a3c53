/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/xrc_requests.h"

#include "sim/shared_receives.h"

/* One of them ends the connection. */
#define WRONG_PER_MILLION 10000

static bool is_of_other_domain(const struct endpoint *end, uint32_t index)
{
	return xrc_requests_pd(index, end->peer->shared_count) != XRC_PD;
}

/* An SRQ that does not exist, or one that the memory does not belong to. */
static void spoil(struct endpoint *end, struct operation *operation)
{
	if (random_below(&end->random, 2)) {
		operation->srq_index = HOST_XRC_SRQS_MAX;
		operation->expected = IBV_WC_REM_INV_REQ_ERR;
	} else if (!operation_is_send(operation) && operation->length) {
		operation->srq_index = end->peer->shared_count - 1;
		if (is_of_other_domain(end, operation->srq_index))
			operation->expected = IBV_WC_REM_ACCESS_ERR;
	}
}

void xrc_requests_draw(struct endpoint *end, struct operation *operation)
{
	operation->srq_index = (uint32_t)random_below(&end->random, end->peer->shared_count);
	if (!operation_is_send(operation) && is_of_other_domain(end, operation->srq_index))
		operation->srq_index = 0;
	if (operation->expected == IBV_WC_SUCCESS && !operation->is_echo &&
	    random_chance(&end->random, WRONG_PER_MILLION))
		spoil(end, operation);
}

uint32_t xrc_requests_number(const struct endpoint *end, const struct operation *operation)
{
	uint32_t number = end->peer->shared[0].srq->number;

	if (operation->srq_index < end->peer->shared_count)
		return end->peer->shared[operation->srq_index].srq->number;
	/* The upper bits are random, and 0 is none. */
	return number ^ 0x800000;
}
