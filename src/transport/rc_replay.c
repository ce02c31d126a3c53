/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: answers, also those asked for again
 *
 * READs and atomics are answered by packets that bear the PSNs of their request.
 * An answer is queued when its request is executed and leaves packet by packet as
 * the outbox has room; the queue is in PSN order, and an acknowledgement or NAK
 * leaves only when it is empty, because either acknowledges every PSN before it
 * and a requester would take the answers still missing for lost. An ACK never bears the
 * PSN of a READ or atomic: where the answer was lost, a requester like Linux's soft RoCE
 * would complete the request without its data.
 *
 * The bytes of a READ are fetched when a packet is handed to the link, not before:
 * key and range are checked there once more. If they can no longer be had the
 * answer ends in a NAK at that PSN, and with it the connection.
 *
 * A program that has just been told of a message often answers it with a message of its own. Where
 * the caller expects that (core.may_hold_ack), the ACK stays behind for ACK_HOLD_NS, so that both
 * leave in one system call, the ACK first: by the time the peer's program sees the answer
 * its own request is done. The next output that is not told to hold sends it. A NAK is never held,
 * and takes the ACK along; answers to READs and atomics are never held either.
 *
 * An answer that is a WRITE of one packet, and tells the peer's program nothing, goes in front
 * of the ACK instead. A program that looks for bytes in its memory polls its CQ until its own
 * request is done, and then no more: what comes with the ACK, or before it, is taken in by that
 * poll, what comes behind it must wait for another thread.
 *
 * A repeated READ is executed again from memory, which IBA 9.7.5.1.5 allows; it may
 * ask for a part of what was asked for before, never for more. The newest request is
 * the one that the peer waits for: it takes the place of all queued answers that
 * begin inside it and cuts the one that it begins in, and its opcodes start anew.
 * A repeated READ that fails its checks is dropped rather than refused, since the
 * copy of a request that is long done must not end a connection whose program has
 * deregistered the memory by now. The same holds for packets of its answer whose bytes can
 * no longer be had: they are left out, if all of it has left before. A program that was told
 * that its peer is done may free registered memory without deregistering it: an adapter
 * has pinned the pages, and goes on answering.
 *
 * A repeated atomic is answered from the saved results and never executed: an
 * addition must happen once. Results are saved for as many as a peer may have
 * outstanding; an older repeat cannot come from an honest one and is dropped.
 */
#include "transport/rc.h"

#include <string.h>

#include "base/psn.h"
#include "transport/xrc.h"
#include "wire/syndrome.h"

/* --- the queue --- */

/*
 * Order is told by how far a PSN lies back, over the whole circle: one READ of 2^31
 * bytes alone can span half of it, too far for the sign of a distance.
 */
static uint32_t psn_age(const struct rc_responder *responder, uint32_t psn)
{
	return (responder->psn_expected - psn) & PSN_MASK;
}

uint32_t rc_replay_count(const struct rc_responder *responder, bool is_repeat)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < responder->response_count; i++)
		count += responder->responses[i].is_repeat == is_repeat;
	return count;
}

bool rc_replay_add(struct rc_responder *responder, const struct response *response)
{
	uint32_t position = responder->response_count;
	uint32_t age = psn_age(responder, response->first_psn);

	if (rc_replay_count(responder, response->is_repeat) == QP_RD_ATOMIC_MAX)
		return false;
	for (; position > 0; position--) {
		const struct response *before = &responder->responses[position - 1];

		if (psn_age(responder, before->first_psn) >= age)
			break;
		responder->responses[position] = *before;
	}
	responder->responses[position] = *response;
	responder->response_count++;
	return true;
}

static void drop_first(struct rc_responder *responder)
{
	responder->response_count--;
	memmove(&responder->responses[0], &responder->responses[1],
		responder->response_count * sizeof(responder->responses[0]));
}

struct response rc_replay_read_response(const struct qp *qp, const struct packet *request)
{
	return (struct response){.kind = RESPONSE_READ,
				 .first_psn = request->psn,
				 .psn_count = rc_packet_count(qp, request->reth.length),
				 .rkey = request->reth.rkey,
				 .length = request->reth.length,
				 .iova = request->reth.address,
				 .pd = xrc_pd_of(qp, request)};
}

struct response rc_replay_atomic_response(const struct saved_atomic *saved)
{
	return (struct response){.kind = RESPONSE_ATOMIC,
				 .first_psn = saved->psn,
				 .psn_count = 1,
				 .original = saved->original,
				 .msn = saved->msn};
}

/* --- saved results --- */

void rc_replay_save_atomic(struct rc_responder *responder, const struct saved_atomic *saved)
{
	responder->atomics[responder->atomic_count % QP_RD_ATOMIC_MAX] = *saved;
	if (++responder->atomic_count == 2 * QP_RD_ATOMIC_MAX)
		responder->atomic_count = QP_RD_ATOMIC_MAX;
}

/* The newest comes first: PSNs come round again, and an old result may bear the same. */
const struct saved_atomic *rc_replay_find_atomic(const struct rc_responder *responder, uint32_t psn)
{
	for (uint32_t back = 1; back <= QP_RD_ATOMIC_MAX && back <= responder->atomic_count;
	     back++) {
		uint32_t index = (responder->atomic_count - back) % QP_RD_ATOMIC_MAX;

		if (responder->atomics[index].psn == psn)
			return &responder->atomics[index];
	}
	return NULL;
}

/* --- repeated requests --- */

/*
 * Makes place for an answer of @count packets from @first on. Of the one that is cut only
 * full packets remain, so its length needs no care. True: no packet gave way that never left.
 */
static bool supersede(struct rc_responder *responder, uint32_t first, uint32_t count)
{
	uint32_t kept = 0;
	bool was_sent = true;

	for (uint32_t i = 0; i < responder->response_count; i++) {
		struct response response = responder->responses[i];

		if (psn_is_within(response.first_psn, first, count)) {
			was_sent &= response.was_sent;
			continue;
		}
		if (psn_is_within(first, response.first_psn, response.psn_count)) {
			was_sent &= response.was_sent;
			response.psn_count = (first - response.first_psn) & PSN_MASK;
			if (response.sent_count >= response.psn_count)
				continue;
		}
		responder->responses[kept++] = response;
	}
	responder->response_count = kept;
	return was_sent;
}

static bool may_read(const struct qp *qp, const struct packet *packet, const struct core *core)
{
	struct access access = access_of(qp, core);

	access.pd = xrc_pd_of(qp, packet);
	if (!(qp->access & IBV_ACCESS_REMOTE_READ) || packet->reth.length > MESSAGE_BYTES_MAX)
		return false;
	return remote_check(&access, packet->reth.rkey, packet->reth.address, packet->reth.length,
			    IBV_ACCESS_REMOTE_READ, NULL) == REASON_NONE;
}

static enum reason repeat_read(struct qp *qp, const struct packet *packet, const struct core *core)
{
	struct rc_responder *responder = &qp->responder;
	struct response response = rc_replay_read_response(qp, packet);

	if (psn_age(responder, packet->psn) < response.psn_count || !may_read(qp, packet, core))
		return REASON_DROP_REPLAY_LOST;
	response.is_repeat = true;
	response.was_sent = supersede(responder, response.first_psn, response.psn_count);
	return rc_replay_add(responder, &response) ? REASON_NONE : REASON_DROP_NO_ROOM;
}

static bool is_queued(const struct rc_responder *responder, uint32_t psn)
{
	for (uint32_t i = 0; i < responder->response_count; i++) {
		if (responder->responses[i].first_psn == psn)
			return true;
	}
	return false;
}

static enum reason repeat_atomic(struct rc_responder *responder, uint32_t psn)
{
	const struct saved_atomic *saved = rc_replay_find_atomic(responder, psn);
	struct response response;

	if (!saved)
		return REASON_DROP_REPLAY_LOST;
	if (is_queued(responder, psn))
		return REASON_DROP_DUPLICATE;
	response = rc_replay_atomic_response(saved);
	response.is_repeat = true;
	return rc_replay_add(responder, &response) ? REASON_NONE : REASON_DROP_NO_ROOM;
}

enum reason rc_replay_duplicate(struct qp *qp, const struct packet *packet, const struct core *core)
{
	if (opcode_has(opcode_properties_of(packet->opcode), OPCODE_IS_READ))
		return repeat_read(qp, packet, core);
	return repeat_atomic(&qp->responder, packet->psn);
}

void rc_replay_failed(struct qp *qp, uint32_t psn, const struct complaint *complaint)
{
	uint8_t syndrome = rc_responder_syndrome(complaint->reason);

	qp->responder.response_count = 0;
	/* In ERROR already: the program was told why, and once is enough. */
	if (qp->state != IBV_QPS_ERR)
		rc_refuse_event(&qp->responder, syndrome);
	rc_refuse_fatal(qp, syndrome, psn, complaint);
}

/* --- output --- */

static struct packet_out *add_packet(const struct qp *qp, struct outbox *out, enum opcode opcode,
				     uint32_t psn)
{
	struct packet_out *answer = outbox_add_packet(out);

	answer->packet.opcode = opcode_byte(xrc_service_of(qp), opcode);
	answer->packet.pkey = PKEY_DEFAULT;
	answer->packet.dest_qpn = qp->attr.dest_qp_num;
	answer->packet.psn = psn;
	return answer;
}

static enum opcode read_opcode(uint32_t index, uint32_t count)
{
	if (count == 1)
		return OPCODE_READ_RESPONSE_ONLY;
	if (index == 0)
		return OPCODE_READ_RESPONSE_FIRST;
	return index == count - 1 ? OPCODE_READ_RESPONSE_LAST : OPCODE_READ_RESPONSE_MIDDLE;
}

/* The next packet of a READ's answer; its AETH tells how many messages are done today. */
static void output_read(const struct qp *qp, const struct response *response, struct outbox *out)
{
	uint32_t index = response->sent_count;
	uint32_t offset = index * qp->path.payload_max;
	uint32_t left = response->length - offset;
	struct packet_out *answer = add_packet(qp, out, read_opcode(index, response->psn_count),
					       psn_add(response->first_psn, index));

	answer->packet.payload_bytes = left < qp->path.payload_max ? left : qp->path.payload_max;
	if (answer->packet.payload_bytes > 0) {
		answer->payload.kind = PAYLOAD_REMOTE;
		answer->payload.remote.rkey = response->rkey;
		answer->payload.remote.pd = response->pd;
		answer->payload.remote.iova = response->iova + offset;
		answer->payload.remote.was_sent = response->was_sent;
	}
	if (opcode_has(opcode_properties_of(answer->packet.opcode), OPCODE_HAS_AETH)) {
		answer->packet.aeth.syndrome = SYNDROME_ACK_UNLIMITED;
		answer->packet.aeth.msn = qp->responder.msn;
	}
}

static void output_atomic(const struct qp *qp, const struct response *response, struct outbox *out)
{
	struct packet_out *answer =
		add_packet(qp, out, OPCODE_ATOMIC_ACKNOWLEDGE, response->first_psn);

	answer->packet.aeth.syndrome = SYNDROME_ACK_UNLIMITED;
	answer->packet.aeth.msn = response->msn;
	answer->packet.atomic_original = response->original;
}

static void output_response(struct qp *qp, struct outbox *out)
{
	struct response *response = &qp->responder.responses[0];

	switch (response->kind) {
	case RESPONSE_READ:
		output_read(qp, response, out);
		break;
	case RESPONSE_ATOMIC:
		output_atomic(qp, response, out);
		break;
	}
	if (++response->sent_count == response->psn_count)
		drop_first(&qp->responder);
}

void rc_replay_forget_ack(struct rc_responder *responder)
{
	responder->ack_is_due = false;
	responder->ack_is_urgent = false;
	responder->ack_is_held = false;
}

/* One for all that came since the last; a NAK acknowledges everything before it as well. */
static void output_acknowledgement(struct qp *qp, struct outbox *out)
{
	struct rc_responder *responder = &qp->responder;
	uint32_t psn = responder->nak_is_due ? responder->nak_psn : responder->ack_psn;
	struct packet_out *answer = add_packet(qp, out, OPCODE_ACKNOWLEDGE, psn);

	answer->packet.aeth.syndrome = responder->nak_is_due ? responder->nak_syndrome
							     : SYNDROME_ACK_UNLIMITED;
	answer->packet.aeth.msn = responder->msn;
	responder->nak_is_due = false;
	rc_replay_forget_ack(responder);
}

void rc_replay_let_write_lead(struct outbox *out, uint32_t ack_index)
{
	struct packet_out *pair = &out->packets[ack_index], ack;

	if (ack_index + 1 >= out->packet_count || pair[0].packet.opcode != OPCODE_ACKNOWLEDGE ||
	    pair[1].packet.opcode != OPCODE_WRITE_ONLY)
		return;
	ack = pair[0];
	pair[0] = pair[1];
	pair[0].leads_ack = true;
	pair[1] = ack;
}

/* Starts to hold it at the first time of asking; a hold is never made longer. */
static bool holds_acknowledgement(const struct qp *qp, struct rc_responder *responder,
				  const struct core *core)
{
	if (!core->may_hold_ack || responder->nak_is_due || responder->ack_is_urgent ||
	    qp->state == IBV_QPS_ERR)
		return false;
	if (!responder->ack_is_held) {
		responder->ack_is_held = true;
		responder->ack_held_until = vbn_time_add(core->now, ACK_HOLD_NS);
	}
	return core->now < responder->ack_held_until;
}

bool qp_hold_ack(struct qp *qp, const struct core *core)
{
	return qp->responder.ack_is_due && holds_acknowledgement(qp, &qp->responder, core);
}

bool rc_replay_output(struct qp *qp, const struct core *core, struct outbox *out)
{
	struct rc_responder *responder = &qp->responder;

	if (responder->event_is_due) {
		outbox_add_event(out, responder->event);
		responder->event_is_due = false;
	}
	while (responder->response_count > 0) {
		if (outbox_packets_room(out) == 0)
			return true;
		output_response(qp, out);
	}
	if (!responder->ack_is_due && !responder->nak_is_due)
		return false;
	if (holds_acknowledgement(qp, responder, core))
		return false;
	if (outbox_packets_room(out) == 0)
		return true;
	output_acknowledgement(qp, out);
	return false;
}
