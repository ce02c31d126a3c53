/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow: how many bytes may be on their way to one receive buffer
 *
 * A UDP socket's buffer is small (some 25 packets of 4 KiB by default) and shared
 * by everything sent to its process; overrunning it loses packets, and going back
 * costs far more than waiting. All QPs that send towards one process share a
 * flow; READs share the flow of our own buffer, since the answers land there. A
 * QP with nothing under way may always send one packet, so nobody waits for
 * another QP's acknowledgements: its own will wake it. What nobody acknowledges is
 * in flow_pace.h.
 *
 * The fields are atomic because QPs of one flow have different locks, and because the
 * engine changes the limit when other senders to that process come and go.
 *
 * A peer on this host shows when it last found its socket empty. One that is stopped (a
 * debugger, SIGSTOP) or starved does not look, and its silence then means nothing:
 * a NIC would answer for it.
 */
#ifndef VBN_TRANSPORT_FLOW_H
#define VBN_TRANSPORT_FLOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "transport/flow_pace.h"

/* What a small datagram costs in a receive buffer, whatever its length. */
#define FLOW_PACKET_COST_MIN 768

struct flow {
	_Atomic int64_t bytes_under_way;
	_Atomic int64_t bytes_max; /* INT64_MAX: no limit (lossless links) */
	/*
	 * Of what nobody acknowledges, apart from the rest: where the link keeps what it has no room for.
	 * 0: all share bytes_max.
	 */
	int64_t pace_bytes_max;
	/* Changes whenever the peer looked at its packets. NULL: not known, or it is dead. */
	const _Atomic vbn_time *_Atomic served_at;
	struct flow_pace pace; /* of QPs whose packets nobody acknowledges */
};

static inline uint32_t flow_packet_cost(uint32_t payload_bytes)
{
	return payload_bytes + FLOW_PACKET_COST_MIN / 4 < FLOW_PACKET_COST_MIN
		       ? FLOW_PACKET_COST_MIN
		       : payload_bytes + FLOW_PACKET_COST_MIN / 4;
}

static inline bool flow_has_room(const struct flow *flow, uint32_t cost)
{
	int64_t paced = flow->pace_bytes_max ? 0 : flow_pace_bytes(flow);

	return atomic_load_explicit(&flow->bytes_under_way, memory_order_relaxed) + paced + cost <=
	       atomic_load_explicit(&flow->bytes_max, memory_order_relaxed);
}

static inline void flow_add(struct flow *flow, int64_t bytes)
{
	atomic_fetch_add_explicit(&flow->bytes_under_way, bytes, memory_order_relaxed);
}

/* What the peer showed last; 0 where nothing is known. */
static inline vbn_time flow_served_at(const struct flow *flow)
{
	const _Atomic vbn_time *served_at =
		atomic_load_explicit(&flow->served_at, memory_order_acquire);

	return served_at ? atomic_load_explicit(served_at, memory_order_relaxed) : 0;
}

/* Whether the peer is known not to have looked at its packets since it showed @seen. */
static inline bool flow_is_unserved_since(const struct flow *flow, vbn_time seen)
{
	return atomic_load_explicit(&flow->served_at, memory_order_acquire) != NULL && seen != 0 &&
	       seen != VBN_TIME_NEVER && flow_served_at(flow) == seen;
}

#endif
