/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What befalls end 0 of a connection in the middle of its work:
 *
 *   error      its program moves the QP to ERR
 *   destroy    its program destroys the QP, with requests outstanding
 *   drain      its program visits SQD and comes back
 *   revoke     one of its regions is deregistered; from then on no byte of it may
 *              change by the network, and whoever names it is refused
 *   hole       memory goes away under a registration: copies fault in its middle
 */
#include "sim/upset.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/copy.h"
#include "sim/shared_receives.h"

bool upset_is_due(const struct session *session)
{
	const struct endpoint *end = &session->ends[0];

	uint32_t done = end->plan->type == IBV_QPT_XRC_RECV ? end->receives_completed
							    : end->completed;

	return !session->upset_is_done && done >= session->plan.upset_after &&
	       !end->send_has_failed && end->qp->qp->state == IBV_QPS_RTS;
}

static void deregister(struct host *host, const struct region *region)
{
	struct pin_slot *slot = pin_table_pin(&host->memory.keys, region->key);

	VBN_ASSERT(slot);
	pin_slot_unpin(slot);
	pin_slot_retire(slot);
	VBN_ASSERT(pin_slot_is_idle(slot));
	pin_table_release(&host->memory.keys, slot);
}

/* The source is left out: its own program goes on writing there. */
static void keep_copy(struct session *session, struct endpoint *end, struct region *region)
{
	session->revoked = region;
	session->revoked_bytes = malloc(region->length);
	VBN_ASSERT(session->revoked_bytes);
	memcpy(session->revoked_bytes, host_bytes(end->qp->host, region, region->iova),
	       region->length);
}

static struct region *any_region(struct endpoint *end)
{
	/* A sink that is shared is not this connection's to lose. */
	struct region *regions[] = {end->target, end->shared ? end->target : end->sink,
				    end->source};

	return regions[random_below(&end->random, 3)];
}

static void revoke(struct session *session, struct endpoint *end)
{
	struct region *region = session->plan.revokes_source ? end->source : any_region(end);

	session->has_lost_memory = true;
	deregister(end->qp->host, region);
	if (region != end->source)
		keep_copy(session, end, region);
}

/* Not in the source: inline bytes are read from there by the post call. */
static void make_hole(struct session *session, struct endpoint *end)
{
	struct region *region = random_below(&end->random, 2) || end->shared ? end->target
									     : end->sink;
	uint64_t offset = random_below(&end->random, region->length) & ~7ull;
	const uint8_t *begin = host_bytes(end->qp->host, region, region->iova + offset);

	session->has_lost_memory = true;
	sim_copy_set_hole(begin, begin + 64);
}

static void drain(struct endpoint *end)
{
	end->is_draining = true;
	end->drained_started = end->qp->qp->send_queue.started;
	host_qp_set_state(end->qp, IBV_QPS_SQD, true);
}

void upset_strike(struct session *session)
{
	struct endpoint *end = &session->ends[0];

	session->upset_is_done = true;
	switch (session->plan.upset) {
	case UPSET_NONE:
		break;
	case UPSET_ERROR:
		host_qp_set_state(end->qp, IBV_QPS_ERR, false);
		session_break(session);
		break;
	case UPSET_DESTROY:
		if (end->shared)
			shared_receives_hand_over_all(end);
		host_qp_destroy(end->qp);
		session_break(session);
		break;
	case UPSET_DRAIN:
		drain(end);
		break;
	case UPSET_REVOKE:
		if (!session->has_lost_memory)
			revoke(session, end);
		break;
	case UPSET_HOLE:
		make_hole(session, end);
		break;
	}
}

void upset_judge(struct session *session)
{
	const struct endpoint *end = &session->ends[0];

	if (session->revoked &&
	    memcmp(session->revoked_bytes,
		   host_bytes(end->qp->host, session->revoked, session->revoked->iova),
		   session->revoked->length) != 0)
		world_fail(session->world, "memory", "a region changes after its deregistration");
}

void upset_fini(struct session *session)
{
	free(session->revoked_bytes);
}
