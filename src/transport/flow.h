/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow: how many bytes may be on their way to one receive buffer
 *
 * A UDP socket's buffer is small (some 25 packets of 4 KiB by default) and shared
 * by everything sent to its process; overrunning it loses packets, and going back
 * costs far more than waiting. All QPs that send towards one process share a
 * flow; READs share the flow of our own buffer, since the answers land there. A
 * QP with nothing under way may always send one packet, so nobody waits for
 * another QP's acknowledgements: its own will wake it.
 *
 * The counter is atomic because QPs of one flow have different locks.
 */
#ifndef VBN_TRANSPORT_FLOW_H
#define VBN_TRANSPORT_FLOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What a small datagram costs in a receive buffer, whatever its length. */
#define FLOW_PACKET_COST_MIN 768

struct flow {
	_Atomic int64_t bytes_under_way;
	int64_t bytes_max; /* INT64_MAX: no limit (lossless links) */
};

static inline uint32_t flow_packet_cost(uint32_t payload_bytes)
{
	return payload_bytes + FLOW_PACKET_COST_MIN / 4 < FLOW_PACKET_COST_MIN
		       ? FLOW_PACKET_COST_MIN
		       : payload_bytes + FLOW_PACKET_COST_MIN / 4;
}

static inline bool flow_has_room(const struct flow *flow, uint32_t cost)
{
	return atomic_load_explicit(&flow->bytes_under_way, memory_order_relaxed) + cost <=
	       flow->bytes_max;
}

static inline void flow_add(struct flow *flow, int64_t bytes)
{
	atomic_fetch_add_explicit(&flow->bytes_under_way, bytes, memory_order_relaxed);
}

#endif
