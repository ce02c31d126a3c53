/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Latency of SEND: each side waits for the completion of its receive, then answers. One SEND in so
 * many asks for a completion, which is fetched when it has long been there; receives are posted
 * again while the message travels.
 */
#include "tools/bench/end/nic.h"

#define SIGNAL_EVERY 32

static void send_one(struct end *end, uint64_t turn)
{
	struct nic *nic = end->state;
	struct ibv_wc completion;

	nic_post(nic, IBV_WR_SEND, turn, turn % SIGNAL_EVERY == 0 ? IBV_SEND_SIGNALED : 0);
	if (turn % SIGNAL_EVERY == SIGNAL_EVERY - 1)
		nic_await(end, nic->send_cq, &completion);
}

static void receive_one(struct end *end)
{
	struct nic *nic = end->state;
	struct ibv_wc completion;

	nic_await(end, nic->receive_cq, &completion);
	nic->receives_taken++;
}

static void fetch_last_completion(struct end *end, uint64_t count)
{
	struct nic *nic = end->state;
	struct ibv_wc completion;

	if (count % SIGNAL_EVERY != 0)
		nic_await(end, nic->send_cq, &completion);
}

uint64_t send_ping_pong(struct end *end, uint64_t count, uint64_t *stamps)
{
	struct nic *nic = end->state;

	stamps[0] = ticks_now();
	for (uint64_t turn = 0; turn < count; turn++) {
		if (end->is_active)
			send_one(end, turn);
		if (turn)
			nic_post_receive(nic);
		receive_one(end);
		if (!end->is_active)
			send_one(end, turn);
		stamps[turn + 1] = ticks_now();
	}
	nic_post_receive(nic);
	fetch_last_completion(end, count);
	return count;
}
