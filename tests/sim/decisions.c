/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/decisions.h"

#include <stdarg.h>

#include "base/psn.h"
#include "wire/syndrome.h"

/* An event at a QP: what it was before, what it is now. */
struct change {
	struct host_qp *host_qp;
	const struct qp *qp;
	struct decisions_qp *before;
};

static struct change change_of(void *context, struct host_qp *host_qp)
{
	struct decisions *decisions = context;

	return (struct change){host_qp, host_qp->qp, &decisions->qps[host_qp->serial]};
}

static void remember(const struct change *change)
{
	change->before->state = change->qp->state;
	change->before->requester = change->qp->requester;
	change->before->responder = change->qp->responder;
}

__attribute__((format(printf, 2, 3))) static void tell(const struct change *change,
						       const char *format, ...)
{
	struct world *world = change->host_qp->host->world;
	struct trace_place place = {world->now, change->host_qp->host->index,
				    change->host_qp->index};
	char words[128];
	va_list list;

	va_start(list, format);
	vsnprintf(words, sizeof(words), format, list);
	va_end(list);
	trace_note(&world->trace, &place, "decide   %s", words);
}

/* --- both halves --- */

static void tell_state(const struct change *change)
{
	const struct qp *qp = change->qp;

	if (qp->state == change->before->state || qp->state != IBV_QPS_ERR)
		return;
	/* Without a complaint it was the program, and the trace has its call. */
	if (qp->first_complaint.reason != REASON_NONE)
		tell(change, "ERROR: %s", reason_text(qp->first_complaint.reason));
}

/* --- a request has come in --- */

static uint32_t psns_of(const struct qp *qp, const struct packet *packet)
{
	bool is_read = opcode_has(opcode_properties_of(packet->opcode), OPCODE_IS_READ);
	uint32_t length = is_read		   ? packet->reth.length
			  : packet_is_lent(packet) ? packet->payload_bytes
						   : 0;

	return length ? (length - 1) / qp->path.payload_max + 1 : 1;
}

static const char *nak_name(uint8_t syndrome)
{
	switch (syndrome) {
	case SYNDROME_NAK_SEQUENCE:
		return "NAK sequence";
	case SYNDROME_NAK_INVALID_REQUEST:
		return "NAK invalid request";
	case SYNDROME_NAK_REMOTE_ACCESS:
		return "NAK remote access";
	case SYNDROME_NAK_REMOTE_OPERATION:
		return "NAK remote operation";
	default:
		return "RNR NAK";
	}
}

static void tell_ahead(const struct change *change, const struct packet *packet)
{
	const struct rc_responder *old = &change->before->responder;
	const struct rc_responder *new = &change->qp->responder;

	if (new->held_count > old->held_count)
		tell(change, "hold psn %u: psn %u has not come", packet->psn, old->psn_expected);
	if (new->nak_is_due && !old->nak_is_due)
		tell(change, "NAK sequence: expected %u, got %u%s", old->psn_expected, packet->psn,
		     old->nak_is_given ? ", a new wave without its head" : "");
	else if (old->nak_is_given && !old->nak_is_due)
		tell(change, "no second NAK for psn %u in this wave", old->psn_expected);
}

static void tell_expected(const struct change *change, const struct packet *packet,
			  enum reason reason)
{
	const struct rc_responder *old = &change->before->responder;
	const struct rc_responder *new = &change->qp->responder;
	uint32_t here = psns_of(change->qp, packet);
	uint32_t moved = (new->psn_expected - old->psn_expected) & PSN_MASK;

	if (reason == REASON_NONE && moved == here + 1)
		tell(change, "execute what was held: psn %u", psn_add(packet->psn, here));
	else if (reason == REASON_NONE && moved > here)
		tell(change, "execute what was held: psn %u to %u", psn_add(packet->psn, here),
		     psn_add(new->psn_expected, PSN_MASK));
	if (reason == REASON_RECV_QUEUE_EMPTY)
		tell(change, "RNR NAK: no receive for psn %u, come again after %llu us",
		     packet->psn,
		     (unsigned long long)rnr_timer_ns(new->nak_syndrome & 0x1f) / 1000);
	else if (reason != REASON_NONE && new->nak_is_due)
		tell(change, "%s: %s", nak_name(new->nak_syndrome), reason_text(reason));
}

static void tell_repeat(const struct change *change, const struct packet *packet,
			enum reason reason)
{
	opcode_properties has = opcode_properties_of(packet->opcode);

	if (opcode_has(has, OPCODE_HAS_PAYLOAD))
		tell(change, "repeat of psn %u: acknowledge up to %u again, write nothing",
		     packet->psn, psn_add(change->qp->responder.psn_expected, PSN_MASK));
	else if (reason == REASON_NONE && opcode_has(has, OPCODE_IS_READ))
		tell(change, "repeat: read %u bytes again, as psn %u", packet->reth.length,
		     packet->psn);
	else if (reason == REASON_NONE)
		tell(change, "repeat of psn %u: answer with the saved result, do not execute",
		     packet->psn);
}

static void tell_request(const struct change *change, const struct packet *packet,
			 enum reason reason)
{
	int32_t ahead = psn_distance(packet->psn, change->before->responder.psn_expected);

	if (reason == REASON_DROP_QP_STATE)
		return;
	if (ahead > 0)
		tell_ahead(change, packet);
	else if (ahead == 0)
		tell_expected(change, packet, reason);
	else
		tell_repeat(change, packet, reason);
}

/* --- an answer or acknowledgement has come in --- */

static void tell_progress(const struct change *change)
{
	uint32_t from = change->before->requester.psn_unacked;
	uint32_t to = change->qp->requester.psn_unacked;

	if (to == psn_add(from, 1))
		tell(change, "done: psn %u", from);
	else if (to != from)
		tell(change, "done: psn %u to %u", from, psn_add(to, PSN_MASK));
}

static const char *cause_of_going_back(const struct packet *packet)
{
	if (packet->opcode != opcode_byte(SERVICE_RC, OPCODE_ACKNOWLEDGE))
		return "its answer is missing, later ones came";
	switch (syndrome_kind(packet->aeth.syndrome)) {
	case SYNDROME_ACK:
		return "its answer is missing, later ones were given";
	case SYNDROME_RNR:
		return "the peer has no receive";
	case SYNDROME_NAK:
	case SYNDROME_RESERVED:
		break;
	}
	return packet->aeth.syndrome == SYNDROME_NAK_SEQUENCE ? "the peer misses it"
							      : "the peer refuses a later one";
}

static void tell_rnr_wait(const struct change *change)
{
	const struct rc_requester *new = &change->qp->requester;
	uint64_t wait = new->rnr_deadline - change->host_qp->host->world->now;

	if (change->qp->attr.rnr_retry == 7)
		tell(change, "wait %llu us, for ever if need be", (unsigned long long)wait / 1000);
	else
		tell(change, "wait %llu us, RNR tries left: %u", (unsigned long long)wait / 1000,
		     new->rnr_retries_left);
}

static void tell_answer(const struct change *change, const struct packet *packet)
{
	const struct rc_requester *old = &change->before->requester;
	const struct rc_requester *new = &change->qp->requester;
	uint32_t bit = (packet->psn - new->psn_unacked) & PSN_MASK;

	tell_progress(change);
	if (bit < 64 && new->psn_unacked == old->psn_unacked &&
	    (new->answered & ~old->answered) >> bit & 1)
		tell(change, "place psn %u although psn %u has not come", packet->psn,
		     new->psn_unacked);
	/* A QP that ends looks at its cursor no more. */
	if (change->qp->state != IBV_QPS_ERR && psn_is_before(new->send_psn, old->send_psn))
		tell(change, "go back to psn %u: %s", new->send_psn, cause_of_going_back(packet));
	if (new->rnr_deadline != old->rnr_deadline &&new->rnr_deadline != VBN_TIME_NEVER)
		tell_rnr_wait(change);
}

/* --- the observer --- */

static void received(void *context, struct host_qp *host_qp, const struct packet *packet,
		     enum reason reason)
{
	struct change change = change_of(context, host_qp);

	if (opcode_has(opcode_properties_of(packet->opcode), OPCODE_IS_REQUEST))
		tell_request(&change, packet, reason);
	else
		tell_answer(&change, packet);
	tell_state(&change);
	remember(&change);
}

static void before_deadline(void *context, struct host_qp *host_qp)
{
	struct change change = change_of(context, host_qp);

	remember(&change);
}

static void after_deadline(void *context, struct host_qp *host_qp)
{
	struct change change = change_of(context, host_qp);
	const struct rc_requester *old = &change.before->requester;
	const struct rc_requester *new = &change.qp->requester;
	vbn_time now = host_qp->host->world->now;

	if (old->rnr_deadline <= now)
		tell(&change, "the RNR wait is over");
	if (old->retry_deadline <= now && change.qp->state == IBV_QPS_ERR)
		tell(&change, "ACK timeout, no try left");
	else if (old->retry_deadline <= now)
		tell(&change, "ACK timeout: go back to psn %u, tries left: %u", new->send_psn,
		     new->retries_left);
	else if (new->probe_is_due)
		tell(&change, "probe: nothing came for a while, ask with psn %u again",
		     psn_add(new->send_psn, PSN_MASK));
	tell_state(&change);
	remember(&change);
}

/* The oldest request that was not started, when something other than room stops it. */
static void tell_waiting(const struct change *change)
{
	const struct work_queue *queue = &change->qp->send_queue;
	const struct send_wqe *wqe = send_wqe_at(queue, queue->started);

	if (queue->started == queue->posted || change->qp->state == IBV_QPS_ERR ||
	    change->before->waiting_position == queue->started + 1)
		return;
	if (change->qp->state == IBV_QPS_SQD)
		tell(change, "wr %llu waits: the send queue drains",
		     (unsigned long long)wqe->wr_id);
	else if ((wqe->flags & IBV_SEND_FENCE) && change->qp->requester.read_count)
		tell(change, "wr %llu waits: it is fenced, an answer before it is due",
		     (unsigned long long)wqe->wr_id);
	else if (change->qp->requester.rnr_deadline == VBN_TIME_NEVER)
		tell(change, "wr %llu waits: no room on the way or in READ depth",
		     (unsigned long long)wqe->wr_id);
	change->before->waiting_position = queue->started + 1;
}

static void rests(void *context, struct host_qp *host_qp)
{
	struct change change = change_of(context, host_qp);

	tell_state(&change);
	tell_waiting(&change);
	remember(&change);
}

void decisions_attach(struct decisions *decisions, struct world *world)
{
	struct observer *observer = world_observe(world, decisions);

	*decisions = (struct decisions){.world = world};
	for (uint32_t h = 0; h < world->host_count; h++)
		for (uint32_t i = 0; i < world->hosts[h]->qp_count; i++) {
			struct change change = change_of(decisions, &world->hosts[h]->qps[i]);

			remember(&change);
		}
	observer->received = received;
	observer->before_deadline = before_deadline;
	observer->after_deadline = after_deadline;
	observer->rests = rests;
}
