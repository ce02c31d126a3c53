/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Latency of WRITE, as programs use it that wait for each other by memory alone: each side writes
 * into the other's memory, and looks at the last byte of its own until it changes. The completion
 * of the own WRITE is fetched meanwhile.
 */
#include "tools/bench/end/nic.h"

/* Never 0, which is what is there before the first; different from the one before. */
static uint8_t mark_of(uint64_t turn)
{
	return (uint8_t)(1 + turn % 255);
}

static void write_mark(struct end *end, uint64_t turn)
{
	struct nic *nic = end->state;
	struct ibv_wc completion;

	nic->source[nic->size - 1] = mark_of(turn);
	nic_post(nic, IBV_WR_RDMA_WRITE, turn, IBV_SEND_SIGNALED);
	nic_await(end, nic->send_cq, &completion);
}

static void await_mark(struct end *end, uint64_t turn)
{
	const struct nic *nic = end->state;
	const uint8_t *last = nic->target + nic->size - 1;
	struct patience patience = patience_of(end);

	while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != mark_of(turn))
		patience_try(&patience);
}

uint64_t write_ping_pong(struct end *end, uint64_t count, uint64_t *stamps)
{
	/* Turns run on over the phases of an order: the byte still has the last one's mark. */
	struct nic *nic = end->state;
	uint64_t turn = nic->turns;

	stamps[0] = ticks_now();
	for (uint64_t i = 0; i < count; i++, turn++) {
		if (end->is_active)
			write_mark(end, turn);
		await_mark(end, turn);
		if (!end->is_active)
			write_mark(end, turn);
		stamps[i + 1] = ticks_now();
	}
	nic->turns = turn;
	return count;
}
