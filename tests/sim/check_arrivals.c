/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checker: what arrives without acknowledgements
 *
 * An exact model: of each packet that arrives it is known whose it is, and the services' rules say
 * what it does. UC: it goes on with the message under way, or begins one, or is dropped and breaks
 * what was under way. UD: it is a message, if the Q_Key fits. So a message arrives whole or not at
 * all, a lost packet takes its own message along and no other, and nothing arrives more often
 * than the network delivered it.
 *
 * What a packet does is done to the model of memory at once, also in receives whose message
 * never ends. A packet that is dropped must have one of the reasons for it that the model knows.
 */
#include "sim/check_arrivals.h"

#include <string.h>

#include "base/psn.h"
#include "sim/check_payload.h"
#include "sim/panes.h"
#include "sim/pattern.h"
#include "sim/session.h"
#include "sim/shared_receives.h"

#define NAME "arrivals"

static const struct qp *qp_of(const struct endpoint *end)
{
	return end->qp->qp;
}

/* --- whose a packet is that arrives --- */

static struct endpoint *sender_of(const struct endpoint *end, const struct packet *packet)
{
	uint32_t serial = packet->deth.source_qpn - 0x100;
	struct world *world = end->world;

	if (!endpoint_is_datagram(end))
		return end->peer;
	if (serial / HOST_QPS_MAX >= world->host_count)
		return NULL;
	return world->hosts[serial / HOST_QPS_MAX]->qps[serial % HOST_QPS_MAX].program;
}

static const struct message *find_message(struct endpoint *end, const struct packet *packet)
{
	const struct endpoint *sender = sender_of(end, packet);
	const struct arrivals *arrivals = sender ? sender->arrivals : NULL;

	for (uint32_t i = 1; arrivals && i <= arrivals->message_count && i <= ARRIVALS_MESSAGES;
	     i++) {
		const struct message *message =
			&arrivals->messages[(arrivals->message_count - i) % ARRIVALS_MESSAGES];

		if (((packet->psn - message->first_psn) & PSN_MASK) < message->sent_count)
			return message;
	}
	return NULL;
}

/* A packet of UC or UD on its way through the model. */
struct arrival_step {
	struct endpoint *end;
	const struct packet *packet;
	const struct message *message;
	enum reason reason;
	uint32_t offset; /* of its payload in the message */
	bool starts, ends;
	const struct receive *receive; /* which it has, or needs; NULL: none is there */
};

static bool takes_receive(const struct arrival_step *step)
{
	const struct operation *operation = &step->message->operation;

	return operation_is_send(operation) || (operation_takes_receive(operation) && step->ends);
}

/* A receive that this very packet completed is in the outbox and nowhere else. */
static const struct receive *receive_of_srq(const struct arrival_step *step)
{
	struct shared_receives *shared = step->end->shared;
	const struct outbox *out = &step->end->world->outbox;
	const struct qp *qp = qp_of(step->end);

	if (qp->srq_slot != SRQ_NO_SLOT)
		return shared_receives_find(shared, srq_wqe_at(qp->srq, qp->srq_slot)->wr_id);
	if (step->reason == REASON_DROP_NO_RECEIVE || !out->completion_count)
		return NULL;
	return shared_receives_find(shared, out->completions[out->completion_count - 1].wr_id);
}

static const struct receive *receive_of(const struct arrival_step *step)
{
	struct endpoint *end = step->end;

	if (!takes_receive(step))
		return NULL;
	if (end->shared)
		return receive_of_srq(step);
	if (end->arrivals->taken_count == end->receives_posted)
		return NULL;
	return endpoint_receive(end, end->arrivals->taken_count);
}

/* --- what it does --- */

static uint32_t area_bytes(const struct endpoint *end)
{
	return endpoint_is_datagram(end) ? GRH_BYTES : 0;
}

static uint64_t place_of(const struct arrival_step *step)
{
	const struct operation *operation = &step->message->operation;

	if (operation_is_write(operation))
		return operation->remote_iova + step->offset;
	return step->receive->iova + area_bytes(step->end) + step->offset;
}

static const struct region *region_of(const struct arrival_step *step)
{
	return operation_is_write(&step->message->operation) ? step->message->operation.remote
							     : step->receive->region;
}

static void place_area(const struct arrival_step *step, const struct host_qp *from)
{
	struct host *host = step->end->qp->host;

	host_datagram_header(from->host->index, host->index,
			     host_model(host, step->receive->region, step->receive->iova));
}

static void note_due(const struct arrival_step *step)
{
	struct arrivals *arrivals = step->end->arrivals;

	arrivals->due[arrivals->due_end++ % ARRIVALS_DUE] =
		(struct arrival){step->message, step->receive->id, step->packet->deth.source_qpn};
	if (!step->end->shared)
		arrivals->taken_count++;
}

static void apply(const struct arrival_step *step)
{
	struct endpoint *end = step->end;

	if (takes_receive(step) && !step->receive) {
		world_fail(end->world, NAME, "message %llu arrives without a receive",
			   (unsigned long long)step->message->operation.id);
		return;
	}
	if (endpoint_is_datagram(end))
		place_area(step, sender_of(end, step->packet)->qp);
	if (step->packet->payload_bytes)
		pattern_fill(host_model(end->qp->host, region_of(step), place_of(step)),
			     step->message->operation.id, step->offset,
			     step->packet->payload_bytes);
	if (takes_receive(step) && step->ends)
		note_due(step);
}

/* A copy that met the hole of an upset: each byte is what it was or what it was to be. */
static void apply_in_part(const struct arrival_step *step)
{
	struct host *host = step->end->qp->host;
	uint8_t *bytes = host_bytes(host, region_of(step), place_of(step));
	uint8_t *model = host_model(host, region_of(step), place_of(step));

	if (endpoint_is_datagram(step->end))
		memcpy(host_model(host, step->receive->region, step->receive->iova),
		       host_bytes(host, step->receive->region, step->receive->iova), GRH_BYTES);
	for (uint32_t i = 0; i < step->packet->payload_bytes; i++) {
		if (bytes[i] == pattern_byte(step->message->operation.id, step->offset + i))
			model[i] = bytes[i];
	}
}

/* --- whether it may do that --- */

static bool is_too_long(const struct arrival_step *step)
{
	return operation_is_send(&step->message->operation) && step->receive &&
	       area_bytes(step->end) + step->offset + step->packet->payload_bytes >
		       step->receive->length;
}

static bool has_bad_list(const struct arrival_step *step)
{
	return operation_is_send(&step->message->operation) && step->receive &&
	       step->receive->has_bad_key &&
	       area_bytes(step->end) + step->packet->payload_bytes > 0;
}

static bool has_no_receive(const struct arrival_step *step)
{
	const struct qp *qp = qp_of(step->end);

	if (step->reason != REASON_DROP_NO_RECEIVE || !takes_receive(step))
		return false;
	return qp->srq ? qp->srq->waiting_count == 0 && qp->srq_slot == SRQ_NO_SLOT
		       : step->end->arrivals->taken_count == step->end->receives_posted;
}

/* Whether a packet that is in its place must not be executed. */
static bool must_be_dropped(const struct arrival_step *step)
{
	const struct operation *operation = &step->message->operation;

	if (operation->uses_pane && panes_is_closed_to(step->end, operation))
		return true;
	return (operation->is_dropped && operation_is_write(operation)) || is_too_long(step) ||
	       has_bad_list(step);
}

static bool may_be_dropped(const struct arrival_step *step)
{
	const struct operation *operation = &step->message->operation;

	if (operation->uses_pane && panes_may_be_closed_to(step->end, operation))
		return true;
	return must_be_dropped(step) || has_no_receive(step) || step->end->session->has_lost_memory;
}

static void complain(const struct arrival_step *step, const char *what)
{
	world_fail(step->end->world, NAME, "packet %u of message %llu %s: %s", step->packet->psn,
		   (unsigned long long)step->message->operation.id, what,
		   reason_counter_name(step->reason));
}

/* In its place; the only question left is whether there are reasons to drop it. */
static void take(struct arrival_step *step)
{
	if (step->reason == REASON_NONE && must_be_dropped(step)) {
		complain(step, "is executed and must not");
	} else if (step->reason == REASON_NONE) {
		apply(step);
		step->end->arrivals->arriving = step->ends ? NULL : step->message;
	} else {
		if (!may_be_dropped(step))
			complain(step, "is dropped and must not");
		if (step->reason == REASON_MEMORY_FAULT)
			apply_in_part(step);
		if (step->reason == REASON_MEMORY_FAULT && qp_of(step->end)->state != IBV_QPS_ERR)
			complain(step, "met memory that is gone, and the QP goes on");
		step->end->arrivals->arriving = NULL;
	}
}

static void take_connected(struct arrival_step *step)
{
	struct arrivals *arrivals = step->end->arrivals;
	bool is_in_order = step->packet->psn == arrivals->psn_expected;

	arrivals->psn_expected = psn_add(step->packet->psn, 1);
	if (!is_in_order || step->starts)
		arrivals->arriving = NULL;
	if (step->starts || (arrivals->arriving && arrivals->arriving == step->message)) {
		take(step);
		return;
	}
	arrivals->arriving = NULL;
	if (step->reason == REASON_NONE)
		complain(step, "goes on with nothing and is executed");
}

static void take_datagram(struct arrival_step *step)
{
	struct endpoint *end = step->end;

	if (step->packet->deth.qkey != end->plan->terms.qkey) {
		if (step->reason != REASON_DROP_QKEY)
			complain(step, "has another Q_Key");
	} else if (step->packet->payload_bytes > endpoint_mtu(end)) {
		if (step->reason != REASON_PACKET_LENGTH)
			complain(step, "is longer than the path allows");
	} else {
		take(step);
	}
}

static bool is_dead(const struct qp *qp)
{
	return qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT || qp->state == IBV_QPS_ERR;
}

/* What nobody's QP made is dropped, and breaks a message if it has the looks of the service. */
static void take_forged(struct endpoint *end, const struct packet *packet, enum reason reason)
{
	if (reason == REASON_NONE)
		world_fail(end->world, NAME, "a forged packet is executed");
	if (reason == REASON_DROP_SERVICE)
		return;
	end->arrivals->psn_expected = psn_add(packet->psn, 1);
	end->arrivals->arriving = NULL;
}

static void received(void *context, struct host_qp *qp, const struct packet *packet,
		     enum reason reason)
{
	struct endpoint *end = qp->program;
	opcode_properties properties = opcode_properties_of(packet->opcode);
	struct arrival_step step = {.end = end, .packet = packet, .reason = reason};

	(void)context;
	if (endpoint_is_reliable(end))
		return;
	if (reason == REASON_DROP_QP_STATE) {
		if (!is_dead(qp->qp))
			world_fail(end->world, NAME, "a QP that lives takes no packets");
		return;
	}
	/* Of UD all that is wrong with a service is somebody's who sends to anybody. */
	if (reason == REASON_DROP_SERVICE &&
	    opcode_service(packet->opcode) != (endpoint_is_datagram(end) ? SERVICE_UD : SERVICE_UC))
		return;
	if (end->world->packet_is_hostile) {
		take_forged(end, packet, reason);
		return;
	}
	step.message = find_message(end, packet);
	if (!step.message) {
		world_fail(end->world, NAME, "PSN %u arrives and was not sent", packet->psn);
		return;
	}
	step.offset = ((packet->psn - step.message->first_psn) & PSN_MASK) * endpoint_mtu(end);
	step.starts = opcode_has(properties, OPCODE_STARTS);
	step.ends = opcode_has(properties, OPCODE_ENDS);
	step.receive = receive_of(&step);
	if (endpoint_is_datagram(end))
		take_datagram(&step);
	else
		take_connected(&step);
}

void check_arrivals_attach(struct world *world)
{
	struct observer *observer = world_observe(world, world);

	observer->sent = check_departures_sent;
	observer->received = received;
}

/* --- life --- */

void check_arrivals_begin(struct endpoint *end)
{
	struct arrivals *arrivals = end->arrivals;

	arrivals->next_operation = 0;
	arrivals->psn_next = end->plan->terms.sq_psn;
	arrivals->psn_expected = end->plan->terms.rq_psn;
	arrivals->arriving = NULL;
	arrivals->taken_count = 0;
	arrivals->due_first = arrivals->due_end = 0;
}

void check_arrivals_go_on(struct endpoint *end)
{
	end->arrivals->next_operation = end->posted;
}

/* --- what completes --- */

static void check_area(struct endpoint *end, const struct completion *completion,
		       const struct arrival *arrival)
{
	if (completion->source_qpn != arrival->source_qpn)
		world_fail(end->world, NAME, "a datagram of QP 0x%x is said to be of 0x%x",
			   arrival->source_qpn, completion->source_qpn);
	if (!(completion->wc_flags & IBV_WC_GRH))
		world_fail(end->world, NAME, "a datagram without a header in front of it");
}

/* All of it, the bytes behind the message, and what an earlier one may have left there. */
static void check_buffer(struct endpoint *end, const struct receive *receive, uint64_t id)
{
	struct host *host = end->qp->host;

	if (memcmp(host_bytes(host, receive->region, receive->iova),
		   host_model(host, receive->region, receive->iova), receive->length) != 0)
		world_fail(end->world, NAME, "the receive of message %llu holds wrong bytes",
			   (unsigned long long)id);
}

void check_arrivals_received(struct endpoint *end, const struct receive *receive,
			     const struct completion *completion)
{
	struct arrivals *arrivals = end->arrivals;
	const struct arrival *arrival = &arrivals->due[arrivals->due_first % ARRIVALS_DUE];

	if (arrivals->due_first == arrivals->due_end || arrival->receive_id != receive->id) {
		world_fail(end->world, NAME, "receive %llu completes and no message has arrived",
			   (unsigned long long)receive->id);
		return;
	}
	arrivals->due_first++;
	check_payload_marks(end, &arrival->message->operation, completion, area_bytes(end));
	if (endpoint_is_datagram(end))
		check_area(end, completion, arrival);
	check_buffer(end, receive, arrival->message->operation.id);
}

void check_arrivals_closed(struct endpoint *end)
{
	if (end->arrivals->due_first != end->arrivals->due_end)
		world_fail(end->world, NAME, "%u messages have arrived and were not told of",
			   end->arrivals->due_end - end->arrivals->due_first);
}
