/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Latency of READ, fetch-and-add and compare-and-swap: from the post to the completion. The passive
 * end calls no verb meanwhile, which is the point of these operations.
 */
#include "tools/bench/end/nic.h"

static void fetch_one(struct nic *nic, uint32_t operation)
{
	if (operation == OPERATION_READ)
		nic_post(nic, IBV_WR_RDMA_READ, 0, IBV_SEND_SIGNALED);
	else
		nic_post_atomic(nic,
				operation == OPERATION_ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD
							   : IBV_WR_ATOMIC_CMP_AND_SWP,
				0, IBV_SEND_SIGNALED);
}

uint64_t fetch_one_by_one(struct end *end, uint64_t count, uint64_t *stamps)
{
	struct nic *nic = end->state;
	struct ibv_wc completion;

	if (!end->is_active)
		return count;
	stamps[0] = ticks_now();
	for (uint64_t i = 0; i < count; i++) {
		fetch_one(nic, end->order.operation);
		nic_await(end, nic->send_cq, &completion);
		stamps[i + 1] = ticks_now();
	}
	return count;
}
