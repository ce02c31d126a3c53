/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Throughput: the active end keeps order.depth requests under way. One in a quarter of them asks
 * for a completion, which stands for all before it. Of SENDs the passive end takes the receives
 * in and posts new ones; of all else it calls no verb.
 */
#include "tools/bench/end/nic.h"

#define SIGNALS_IN_DEPTH 4

struct window {
	uint64_t count, depth, signal_every;
	uint64_t posted, completed;
};

static void post_next(struct nic *nic, const struct order *order, struct window *window)
{
	uint64_t number = window->posted++;
	bool asks = window->posted % window->signal_every == 0 || window->posted == window->count;
	unsigned flags = asks ? IBV_SEND_SIGNALED : 0;

	switch ((enum operation)order->operation) {
	case OPERATION_WRITE:
		nic_post(nic, IBV_WR_RDMA_WRITE, window->posted, flags);
		break;
	case OPERATION_SEND:
		nic_post(nic, IBV_WR_SEND, window->posted, flags);
		break;
	case OPERATION_READ:
		nic_post(nic, IBV_WR_RDMA_READ, window->posted, flags);
		break;
	case OPERATION_MIX:
		nic_post(nic, number % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, window->posted, flags);
		break;
	case OPERATION_ADD:
		nic_post_atomic(nic, IBV_WR_ATOMIC_FETCH_AND_ADD, window->posted, flags);
		break;
	case OPERATION_SWAP:
		nic_post_atomic(nic, IBV_WR_ATOMIC_CMP_AND_SWP, window->posted, flags);
		break;
	case OPERATION_TOUCH:
	case OPERATION_ADOPT:
	case OPERATION_MOVE_BACK:
	case OPERATION_COUNT:
		end_fail("there is no such operation");
	}
}

static void request_all(struct end *end, struct window *window)
{
	struct nic *nic = end->state;
	struct patience patience = patience_of(end);
	struct ibv_wc completions[NIC_POLL_BATCH];

	while (window->completed < window->count) {
		int found;

		while (window->posted < window->count &&
		       window->posted - window->completed < window->depth)
			post_next(nic, &end->order, window);
		found = nic_poll(nic->send_cq, completions, NIC_POLL_BATCH);
		if (found) {
			window->completed = completions[found - 1].wr_id;
			patience = patience_of(end);
		}
		patience_try(&patience);
	}
}

static void take_receives(struct end *end, uint64_t count)
{
	struct nic *nic = end->state;
	struct patience patience = patience_of(end);
	struct ibv_wc completions[NIC_POLL_BATCH];

	while (count) {
		int wanted = count < NIC_POLL_BATCH ? (int)count : NIC_POLL_BATCH;
		int found = nic_poll(nic->receive_cq, completions, wanted);

		for (int i = 0; i < found; i++)
			nic_post_receive(nic);
		nic->receives_taken += (uint64_t)found;
		count -= (uint64_t)found;
		if (found)
			patience = patience_of(end);
		patience_try(&patience);
	}
}

uint64_t window_run(struct end *end, uint64_t count)
{
	const struct order *order = &end->order;
	struct window window = {.count = count,
				.depth = order->depth,
				.signal_every =
					(order->depth + SIGNALS_IN_DEPTH - 1) / SIGNALS_IN_DEPTH};

	if (order->depth == 0 || order->depth > NIC_SEND_DEPTH)
		end_fail("no window of %u requests fits the send queue", order->depth);
	if (end->is_active)
		request_all(end, &window);
	else if (order->operation == OPERATION_SEND)
		take_receives(end, count);
	else if (order->operation == OPERATION_MIX)
		take_receives(end, count / 2);
	return count;
}
