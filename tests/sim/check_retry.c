/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checker: nobody gives up too early, too late or without cause
 *
 * RETRY_EXC_ERR is right only when retry_cnt + 1 timers ran out since the last progress
 * or sign of life, one after the other, each after at least the timeout T that the
 * attribute names; and when a packet was lost on the way not long before, or the peer's
 * QP is gone or in error. RNR_RETRY_EXC_ERR is right only when rnr_retry + 1 RNR NAKs
 * arrived since the last progress, and never with rnr_retry 7.
 *
 * Progress is seen from outside: the oldest PSN without acknowledgement has moved.
 * An RNR NAK is a sign of life and starts the count of expiries again.
 */
#include "sim/check_retry.h"

#include "wire/syndrome.h"

#define NAME "retry"
#define ACK_TIMEOUT_MIN (10 * VBN_MILLISECOND)
#define RNR_RETRY_INFINITE 7
/* What was lost may have been under way for a while when the last progress was made. */
#define OLD_LOSS VBN_SECOND

static struct check_retry_qp *seen_of(void *context, const struct host_qp *qp)
{
	return &((struct check_retry *)context)->qps[qp->serial];
}

static void restart(struct check_retry_qp *seen, vbn_time now)
{
	seen->expiries = 0;
	seen->since = now;
}

static void look_for_progress(void *context, struct host_qp *qp)
{
	struct check_retry_qp *seen = seen_of(context, qp);
	const struct rc_requester *requester = &qp->qp->requester;

	if (seen->psn_unacked == requester->psn_unacked &&
	    requester->psn_unacked != requester->psn_next)
		return;
	seen->psn_unacked = requester->psn_unacked;
	seen->rnr_naks = 0;
	restart(seen, qp->host->world->now);
}

static void received(void *context, struct host_qp *qp, const struct packet *packet,
		     enum reason reason)
{
	struct check_retry_qp *seen = seen_of(context, qp);

	look_for_progress(context, qp);
	/*
	 * A repeated READ that may not be answered any more gets no answer: it is as good as lost.
	 */
	if (reason == REASON_DROP_REPLAY_LOST)
		qp->host->world->last_loss = qp->host->world->now;
	if (opcode_operation(packet->opcode) != OPCODE_ACKNOWLEDGE ||
	    syndrome_kind(packet->aeth.syndrome) != SYNDROME_RNR || reason != REASON_NONE ||
	    packet->psn != qp->qp->requester.psn_unacked)
		return;
	seen->rnr_naks++;
	restart(seen, qp->host->world->now);
}

static void before_deadline(void *context, struct host_qp *qp)
{
	if (qp->qp->requester.retry_deadline <= qp->host->world->now)
		seen_of(context, qp)->expiries++;
}

static bool peer_answers(const struct host_qp *qp)
{
	const struct host *host = qp->host->world->hosts[qp->peer_host];

	for (uint32_t i = 0; i < host->qp_count; i++) {
		const struct qp *peer = host->qps[i].qp;

		if (peer && peer->number == qp->qp->attr.dest_qp_num)
			return peer->state != IBV_QPS_ERR && peer->state != IBV_QPS_RESET;
	}
	return false;
}

static void check_retry_exceeded(struct world *world, const struct check_retry_qp *seen,
				 const struct host_qp *host_qp)
{
	const struct ibv_qp_attr *attr = &host_qp->qp->attr;
	uint64_t timeout = ack_timeout_ns(attr->timeout), elapsed = world->now - seen->since;
	uint32_t attempts = attr->retry_cnt + 1u;

	if (timeout == 0)
		world_fail(world, NAME, "gives up although there is no timeout");
	if (timeout < ACK_TIMEOUT_MIN)
		timeout = ACK_TIMEOUT_MIN;
	if (seen->expiries != attempts)
		world_fail(world, NAME, "gives up after %u expiries, not %u", seen->expiries,
			   attempts);
	if (elapsed < attempts * timeout)
		world_fail(world, NAME, "gives up %llu ns after the last progress",
			   (unsigned long long)elapsed);
	if (peer_answers(host_qp) && world->last_loss + OLD_LOSS < seen->since)
		world_fail(world, NAME, "gives up and no packet was lost since %llu ns",
			   (unsigned long long)seen->since);
}

static void completed(void *context, struct host_qp *qp, const struct completion *completion)
{
	struct world *world = qp->host->world;
	struct check_retry_qp *seen = seen_of(context, qp);

	if (completion->status == IBV_WC_RETRY_EXC_ERR)
		check_retry_exceeded(world, seen, qp);
	if (completion->status != IBV_WC_RNR_RETRY_EXC_ERR)
		return;
	if (qp->qp->attr.rnr_retry == RNR_RETRY_INFINITE)
		world_fail(world, NAME, "RNR retries run out although they are infinite");
	else if (seen->rnr_naks != qp->qp->attr.rnr_retry + 1u)
		world_fail(world, NAME, "gives up after %u RNR NAKs, not %u", seen->rnr_naks,
			   qp->qp->attr.rnr_retry + 1u);
}

void check_retry_attach(struct check_retry *check, struct world *world)
{
	struct observer *observer = world_observe(world, check);

	*check = (struct check_retry){.world = world};
	observer->received = received;
	observer->before_deadline = before_deadline;
	observer->rests = look_for_progress;
	observer->completed = completed;
}
