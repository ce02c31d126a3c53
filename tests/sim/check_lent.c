/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checker: lent payload
 *
 * A packet whose payload is lent leaves only where its connection lends, and not any more when the
 * peer has once asked for a PSN that was lent. It is of a SEND that is long enough, and names bytes
 * of that SEND's buffer: from a whole number of packets on, and as many whole packets, but for the
 * last of the message. It takes as many PSNs as those would, and is executed for all of them or for
 * none; then it is asked for again. What an ordinary packet carries fits the path.
 *
 * That the bytes which are fetched are those that were sent is for check_payload.h.
 */
#include "sim/check_lent.h"

#include "base/psn.h"
#include "sim/endpoint.h"
#include "transport/rc_lent.h"
#include "wire/syndrome.h"

#define NAME "lent"

static struct check_lent_qp *seen_of(void *context, const struct host_qp *qp)
{
	return &((struct check_lent *)context)->qps[qp->serial];
}

static uint32_t psns_of(const struct host_qp *qp, const struct packet *packet)
{
	return (packet->payload_bytes - 1) / qp->qp->path.payload_max + 1;
}

static bool is_last(const struct packet *packet)
{
	return opcode_has(opcode_properties_of(packet->opcode), OPCODE_ENDS);
}

/* --- what leaves --- */

/* Whether the bytes that @packet names are those that it would carry of @operation. */
static bool is_part_of(const struct operation *operation, const struct packet *packet, uint32_t mtu)
{
	opcode_properties has = opcode_properties_of(packet->opcode);
	uint64_t offset = packet->lent_address - operation->sge[0].addr;

	if (!operation_is_send(operation) || operation->sge_count != 1 ||
	    operation->flags & IBV_SEND_INLINE || offset >= operation->length ||
	    packet->payload_bytes > operation->length - offset)
		return false;
	return offset % mtu == 0 && (offset == 0) == opcode_has(has, OPCODE_STARTS) &&
	       (offset + packet->payload_bytes == operation->length) ==
		       opcode_has(has, OPCODE_ENDS);
}

static const struct operation *find_operation(struct endpoint *end, const struct packet *packet)
{
	for (uint32_t count = end->completed; count != end->posted; count++) {
		const struct operation *operation = endpoint_operation(end, count);

		if (is_part_of(operation, packet, endpoint_mtu(end)))
			return operation;
	}
	return NULL;
}

static void check_leaving(struct endpoint *end, const struct check_lent_qp *seen,
			  const struct packet *packet)
{
	const struct operation *operation = find_operation(end, packet);
	uint32_t bytes_min = end->plan->terms.lending.bytes_min;
	uint32_t mtu = endpoint_mtu(end);

	if (!bytes_min || seen->is_refused)
		world_fail(end->world, NAME, "PSN %u is lent %s", packet->psn,
			   bytes_min ? "after a refusal" : "where nothing is");
	if (!operation || operation->length < bytes_min || packet->lent_key != end->source->key)
		world_fail(end->world, NAME, "PSN %u lends what is of no such SEND", packet->psn);
	if (packet->payload_bytes > LENT_BYTES_MAX ||
	    (!is_last(packet) && packet->payload_bytes % mtu != 0))
		world_fail(end->world, NAME, "PSN %u lends %u bytes", packet->psn,
			   packet->payload_bytes);
}

static void sent(void *context, struct host_qp *qp, const struct packet *packet)
{
	struct check_lent_qp *seen = seen_of(context, qp);
	uint32_t index = seen->sent_count % CHECK_LENT_PACKETS;

	if (!packet_is_lent(packet)) {
		if (packet->payload_bytes > qp->qp->path.payload_max)
			world_fail(qp->host->world, NAME, "PSN %u carries %u bytes", packet->psn,
				   packet->payload_bytes);
		return;
	}
	check_leaving(qp->program, seen, packet);
	seen->sent[index].first_psn = packet->psn;
	seen->sent[index].psn_count = psns_of(qp, packet);
	seen->sent_count++;
}

/* --- what arrives --- */

static bool was_lent(const struct check_lent_qp *seen, uint32_t psn)
{
	for (uint32_t i = 0; i < seen->sent_count && i < CHECK_LENT_PACKETS; i++)
		if (psn_is_within(psn, seen->sent[i].first_psn, seen->sent[i].psn_count))
			return true;
	return false;
}

static bool asks_again(const struct packet *packet)
{
	return opcode_operation(packet->opcode) == OPCODE_ACKNOWLEDGE &&
	       packet->aeth.syndrome == SYNDROME_NAK_SEQUENCE;
}

/* What the QP expects has passed all that @packet stands for, or nothing of it. */
static void check_executed(const struct host_qp *qp, const struct packet *packet)
{
	uint32_t expected = qp->qp->responder.psn_expected;
	uint32_t end = psn_add(packet->psn, psns_of(qp, packet));

	if (psn_is_before(packet->psn, expected) && psn_is_before(expected, end))
		world_fail(qp->host->world, NAME, "of lent PSN %u the next one is %u, not %u",
			   packet->psn, expected, end);
}

/* Also of what is forged: one that cannot be is not even looked for. */
static void check_length(const struct host_qp *qp, const struct packet *packet, enum reason reason)
{
	bool is_executed = reason == REASON_NONE &&
			   psn_is_before(packet->psn, qp->qp->responder.psn_expected);

	if ((is_executed || reason == REASON_DROP_LENT) && !is_last(packet) &&
	    packet->payload_bytes % qp->qp->path.payload_max != 0)
		world_fail(qp->host->world, NAME, "PSN %u of %u lent bytes is not the last",
			   packet->psn, packet->payload_bytes);
}

/* Whoever lent what cannot be had is asked for it again, and at once. */
static void check_told(const struct host_qp *qp, const struct packet *packet)
{
	const struct rc_responder *responder = &qp->qp->responder;

	if (!responder->nak_is_due || responder->nak_syndrome != SYNDROME_NAK_SEQUENCE ||
	    responder->psn_expected != packet->psn)
		world_fail(qp->host->world, NAME, "PSN %u cannot be had, and nobody is told",
			   packet->psn);
}

static void received(void *context, struct host_qp *qp, const struct packet *packet,
		     enum reason reason)
{
	struct check_lent_qp *seen = seen_of(context, qp);

	if (packet_is_lent(packet))
		check_length(qp, packet, reason);
	if (reason == REASON_DROP_LENT)
		check_told(qp, packet);
	if (reason != REASON_NONE)
		return;
	if (packet_is_lent(packet))
		check_executed(qp, packet);
	if (asks_again(packet) && was_lent(seen, packet->psn))
		seen->is_refused = true;
}

/* In a new life all may be lent again. */
static void rests(void *context, struct host_qp *qp)
{
	struct check_lent_qp *seen = seen_of(context, qp);

	if (qp->qp->state == IBV_QPS_RESET) {
		seen->sent_count = 0;
		seen->is_refused = false;
	}
}

void check_lent_attach(struct check_lent *check, struct world *world)
{
	struct observer *observer = world_observe(world, check);

	observer->sent = sent;
	observer->received = received;
	observer->rests = rests;
}
