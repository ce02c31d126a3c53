/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checker: no deadline is forgotten
 *
 * A QP that waits for its peer over a path that loses packets must be woken by time alone: it
 * always has a next deadline, and one that is near enough, or else a lost packet is a connection
 * that hangs. On a lossless path a timeout does the same, for the peer may be gone; with neither it
 * may wait for ever. A QP that waits for a receive at the peer (RNR) has one on any path. An ACK
 * that is held has one. One that is in ERR or RESET or has nothing outstanding has none. A UC QP
 * waits for nobody but its own window, and looks again soon; a UD QP never waits. That
 * something useful happens at the deadline is not judged here: then the world would not come to its
 * end (see the swarm's time limit).
 */
#include "sim/check_deadline.h"

#include "wire/syndrome.h"

#define NAME "deadline"
/* So long a UC QP may wait until it asks again whether a packet may leave. */
#define PACE_LOOK_MAX (FLOW_PACE_SLOW_FACTOR * FLOW_PACE_BURST_NS)

static bool waits(const struct qp *qp)
{
	return (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
	       qp->requester.psn_unacked != qp->requester.psn_next;
}

/* Probes are at most a second apart, an RNR wait is at most 655 ms. */
static uint64_t longest_wait(const struct qp *qp)
{
	uint64_t timeout = 4 * ack_timeout_ns(qp->attr.timeout);

	return timeout > 2 * VBN_SECOND ? timeout : 2 * VBN_SECOND;
}

/* An acknowledgement that is due has left, or is held for a moment. */
static void look_at_ack(struct world *world, const struct qp *qp)
{
	vbn_time until = qp_ack_deadline(qp);

	if (!qp->responder.ack_is_due)
		return;
	if (until == VBN_TIME_NEVER)
		world_fail(world, NAME, "an ACK is due, and nothing makes it leave");
	else if (until > world->now + ACK_HOLD_NS)
		world_fail(world, NAME, "an ACK is held for %llu ns more",
			   (unsigned long long)(until - world->now));
}

/* It asks again as long as packets wait, and only then. */
static void look_at_pace(struct world *world, const struct qp *qp, vbn_time next)
{
	const struct work_queue *queue = &qp->send_queue;
	bool waits = (qp->state == IBV_QPS_RTS && queue->started != queue->posted) ||
		     ((qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
		      qp->requester.send_position != queue->started);

	if (waits && next > world->now + PACE_LOOK_MAX)
		world_fail(world, NAME, "packets wait to leave, and nobody asks soon");
	if (!waits && next != VBN_TIME_NEVER)
		world_fail(world, NAME, "nothing waits to leave and it has a deadline");
}

static void look_at_datagrams(struct world *world, const struct qp *qp, vbn_time next)
{
	const struct work_queue *queue = &qp->send_queue;

	if (next != VBN_TIME_NEVER)
		world_fail(world, NAME, "a UD QP has a deadline");
	if (qp->state == IBV_QPS_RTS && queue->done != queue->posted)
		world_fail(world, NAME, "a datagram stays behind");
}

static void rests(void *context, struct host_qp *host_qp)
{
	struct world *world = context;
	const struct qp *qp = host_qp->qp;
	vbn_time next = qp_next_deadline(qp);

	look_at_ack(world, qp);
	if (qp_is_uc(qp)) {
		look_at_pace(world, qp, next);
		return;
	}
	if (qp_is_datagram(qp)) {
		look_at_datagrams(world, qp, next);
		return;
	}
	if (!waits(qp)) {
		if (next != VBN_TIME_NEVER)
			world_fail(world, NAME, "a QP with nothing outstanding has a deadline");
		if (qp->state == IBV_QPS_RTS && qp->send_queue.started != qp->send_queue.posted)
			world_fail(world, NAME, "nothing is outstanding and nothing is started");
		return;
	}
	if (next == VBN_TIME_NEVER) {
		if (!qp->path.is_lossless || qp->attr.timeout)
			world_fail(world, NAME,
				   "packets are outstanding and nothing ends the wait");
		return;
	}
	if (next > world->now + longest_wait(qp))
		world_fail(world, NAME, "the next deadline is %llu ns away",
			   (unsigned long long)(next - world->now));
}

void check_deadline_attach(struct world *world)
{
	world_observe(world, world)->rests = rests;
}
