/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: sending to those who acknowledge nothing
 *
 * Nobody says that a packet of UC or UD has arrived, and a socket that is full loses it for good.
 * Between adapters the link holds a sender back, and programs count on it: most that use these
 * services inside a machine or a rack end badly when a packet is lost. So a sender waits here too.
 * All QPs of both services that send by one flow share its pace.
 *
 * A peer on this host shows when it last found its socket empty (flow.h): what left before that is
 * out of its buffer. What left since is kept as two sums, each with the time of its last packet.
 * The newer one is closed when it is half of the window; the older one is gone when the peer has
 * shown a later time. So a stream that never pauses goes on as well. These bytes and those
 * of reliable connections share the window, unless the flow has one for each. A packet is dated when it is admitted, and again when
 * it has left (flow_pace_left()): a thread may lose its core in between.
 *
 * A peer whose buffer is full as far as we know, and which shows nothing new for a while, is
 * stopped or starved. Until it shows something it is treated like a stranger, and may lose packets.
 * Time in which the sender itself did not run is no part of that while: all of a machine, or a
 * process that sends to itself, stops at once.
 *
 * Of a stranger, who is on another host or shows nothing, one thing is known: a program gets a
 * receive buffer of a certain size from the system without asking for any privilege. Half of
 * the flow's limit, which is a quarter of that, may leave at once, and as much again
 * in each FLOW_PACE_BURST_NS. The rest of the buffer is for the time in which the peer has no
 * core. We know of such times only by our own: a sender that comes much later than it meant to is
 * on a busy machine, perhaps the same as the peer, and goes slower for a while.
 *
 * The calls need the lock of the flow's pace, which the caller owns; flow_pace_bytes() does not.
 */
#ifndef VBN_TRANSPORT_FLOW_PACE_H
#define VBN_TRANSPORT_FLOW_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

struct flow;

/* So long a sender waits for a peer that showed its looks before and shows none any more. */
#define FLOW_PACE_PATIENCE_NS (500 * VBN_MILLISECOND)
/* A sender that asks again only after more than this had no core itself: no more of it counts. */
#define FLOW_PACE_ABSENT_NS (1 * VBN_MILLISECOND)
/* So often it looks whether there is a new one. */
#define FLOW_PACE_LOOK_NS (30 * VBN_MICROSECOND)
/* In this time a stranger gets one burst. */
#define FLOW_PACE_BURST_NS (2 * VBN_MILLISECOND)
/* Who comes so much later than it was told is starved; for how long, and by how much, it slows. */
#define FLOW_PACE_STARVED_NS (1 * VBN_MILLISECOND)
#define FLOW_PACE_SLOW_NS (100 * VBN_MILLISECOND)
#define FLOW_PACE_SLOW_FACTOR 4

/* All zero at first. */
struct flow_pace {
	/* A peer that shows its looks. Atomic for those who only read, without the lock. */
	_Atomic int64_t older, newer; /* bytes; newer is 0 only before the first packet */
	_Atomic vbn_time older_until, newer_until;
	bool older_is_leaving; /* it was closed since flow_pace_left() */
	vbn_time asked_at;     /* by who waits, the last time; 0: nobody waits */
	uint64_t waited_ns;
	vbn_time given_up_at; /* what it showed when patience ended; 0: it did not */
	/* A stranger. */
	bool is_free;	     /* it gets all there is */
	uint64_t burst_ns;   /* in which it gets a burst; 0: FLOW_PACE_BURST_NS */
	vbn_time full_at;    /* from then on a whole burst may leave */
	vbn_time due_at;     /* when the last one that was refused was told to come; 0: none was */
	vbn_time slow_until; /* we were starved */
};

/*
 * Whether a packet that costs @cost bytes of the receiver's buffer may leave by @flow at @now; it
 * is counted then. False: @again_at is when to ask again.
 */
bool flow_pace_admit(struct flow *flow, uint32_t cost, vbn_time now, vbn_time *again_at);
/* Strangers get @rate bytes a microsecond, 0: as many as there are. Before the first packet. */
void flow_pace_set_rate(struct flow *flow, uint32_t rate);
/* What the caller had admitted has left, and it is @now. */
void flow_pace_left(struct flow *flow, vbn_time now);
/* What a peer that shows its looks has not yet taken out of its buffer, as far as we know. */
int64_t flow_pace_bytes(const struct flow *flow);

#endif
