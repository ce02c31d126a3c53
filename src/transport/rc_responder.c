/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: the order of request packets
 *
 * A responder executes each request packet once, in the order of PSNs, from the
 * expected one on (E). What arrives is one of three (IBA 9.7.2):
 *
 *   at E       It is executed and E moves on: by one, for a READ by the packets
 *              of its answer, with lent payload by those that it stands for
 *              (rc_lent.h). If it is refused for lack of a receive, E stays
 *              and the peer comes again after the RNR time; so it does, at once, for
 *              lent payload that cannot be read; any other refusal ends the
 *              connection.
 *   before E   A repeat: its answer was lost or is late. SENDs and WRITEs are
 *              acknowledged again, READs and atomics answered again (rc_replay.c).
 *   behind E   A gap: packets were lost, or overtook each other. It is held until
 *              its turn comes, and the peer is told where the gap is.
 *
 * One gap, one NAK: the packets of a window behind one loss must not each cause the
 * peer to go back. But the peer's second attempt may lose its head as well, and
 * a peer that was told once would wait for its timer. PSNs that run backwards
 * while E is still missing are such a new wave, and get a NAK of their own.
 * An RNR NAK quiets the packets behind it in the same way.
 *
 * Invariants: every packet held lies in [E, E + HOLD_WINDOW) and there is one for
 * each PSN at most; the packet at E is held only while the outbox has no room for
 * the completion it may cause. A NAK that asks for E is withdrawn when E moves.
 *
 * An acknowledgement is due when a packet that asks for one was executed and
 * when a repeat came, never on its own; output sends one for all of them. It may be held for
 * a moment (rc_replay.c), but not in the middle of a message, where the peer's window waits for
 * it, nor after a repeat, which says that it waits already.
 */
#include "transport/rc.h"

#include <string.h>

#include "base/psn.h"
#include "transport/counting.h"
#include "wire/syndrome.h"

_Static_assert((PSN_MASK + 1) % HOLD_WINDOW == 0, "a PSN's place must not change when PSNs wrap");

/* --- held packets --- */

static uint16_t *held_place(struct rc_responder *responder, uint32_t psn)
{
	return &responder->held[psn % HOLD_WINDOW];
}

/* Takes the packet at @psn out of the ring: its buffer, or HOLD_NONE. */
static uint16_t held_remove(struct rc_responder *responder, uint32_t psn)
{
	uint16_t index = *held_place(responder, psn);

	if (index != HOLD_NONE) {
		*held_place(responder, psn) = HOLD_NONE;
		responder->held_count--;
	}
	return index;
}

/* Gives back the first @count places from E on. */
static void held_drop(struct rc_responder *responder, struct hold_pool *holds, uint32_t count)
{
	for (uint32_t i = 0; responder->held_count > 0 && i < count && i < HOLD_WINDOW; i++) {
		uint16_t index = held_remove(responder, psn_add(responder->psn_expected, i));

		if (index != HOLD_NONE)
			hold_release(holds, index);
	}
}

static enum reason hold_packet(struct rc_responder *responder, const struct packet *packet,
			       struct hold_pool *holds)
{
	uint16_t *place = held_place(responder, packet->psn);

	if (!psn_is_within(packet->psn, responder->psn_expected, HOLD_WINDOW))
		return REASON_DROP_OUT_OF_ORDER;
	if (*place != HOLD_NONE)
		return REASON_DROP_DUPLICATE;
	*place = hold_take(holds, packet);
	if (*place == HOLD_NONE)
		return REASON_DROP_NO_ROOM;
	responder->held_count++;
	return REASON_NONE;
}

/* --- life --- */

void rc_responder_stop(struct qp *qp, struct hold_pool *holds)
{
	struct rc_responder *responder = &qp->responder;

	held_drop(responder, holds, HOLD_WINDOW);
	responder->response_count = 0;
	rc_replay_forget_ack(responder);
	responder->nak_is_due = false;
	responder->event_is_due = false;
}

void rc_responder_reset(struct qp *qp, struct hold_pool *holds)
{
	struct rc_responder *responder = &qp->responder;

	held_drop(responder, holds, HOLD_WINDOW);
	memset(responder, 0, sizeof(*responder));
	for (uint32_t i = 0; i < HOLD_WINDOW; i++)
		responder->held[i] = HOLD_NONE;
	responder->psn_expected = qp->attr.rq_psn & PSN_MASK;
	responder->ack_psn = psn_add(responder->psn_expected, PSN_MASK);
}

static bool is_alive(const struct qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;
}

/* --- packets whose turn it is --- */

/* E moves by @count: what was held there is done with, and so is the NAK that asked for it. */
static void advance(struct rc_responder *responder, struct hold_pool *holds, uint32_t count)
{
	held_drop(responder, holds, count);
	responder->psn_expected = psn_add(responder->psn_expected, count);
	responder->nak_is_given = false;
	responder->nak_is_due = false;
}

/* PSNs that a request takes: a READ takes those of its answer, lent payload those of as many packets. */
static uint32_t request_psns(const struct qp *qp, const struct packet *packet)
{
	if (opcode_has(opcode_properties_of(packet->opcode), OPCODE_IS_READ))
		return rc_packet_count(qp, packet->reth.length);
	return packet_is_lent(packet) ? rc_packet_count(qp, packet->payload_bytes) : 1;
}

/* READs and atomics are acknowledged by their answers, and so is all that lies before them. */
static void note_acknowledgement(struct rc_responder *responder, const struct packet *packet)
{
	/* The last one that it took. */
	uint32_t psn = psn_add(responder->psn_expected, PSN_MASK);

	if (!opcode_has(opcode_properties_of(packet->opcode), OPCODE_HAS_PAYLOAD)) {
		rc_replay_forget_ack(responder);
		return;
	}
	responder->ack_psn = psn;
	if (!packet->ack_requested)
		return;
	responder->ack_is_due = true;
	/* In the middle of a message: it is the window that waits, and no program is told yet. */
	if (responder->message != MESSAGE_NONE)
		responder->ack_is_urgent = true;
}

static enum reason execute(struct qp *qp, const struct packet *packet, const struct core *core,
			   struct outbox *out)
{
	struct rc_responder *responder = &qp->responder;
	enum reason reason = rc_execute(qp, packet, core, out);

	if (reason == REASON_NONE) {
		advance(responder, core->holds, request_psns(qp, packet));
		note_acknowledgement(responder, packet);
	} else if (is_alive(qp)) {
		responder->nak_is_given = true;
	}
	return reason;
}

bool rc_responder_run_held(struct qp *qp, const struct core *core, struct outbox *out)
{
	struct rc_responder *responder = &qp->responder;

	if (!is_alive(qp))
		held_drop(responder, core->holds, HOLD_WINDOW);
	while (*held_place(responder, responder->psn_expected) != HOLD_NONE) {
		uint16_t index;

		if (outbox_completions_room(out) == 0)
			return true;
		index = held_remove(responder, responder->psn_expected);
		execute(qp, &core->holds->buffers[index].packet, core, out);
		hold_release(core->holds, index);
	}
	return false;
}

/* --- the three cases --- */

static enum reason receive_expected(struct qp *qp, const struct packet *packet,
				    const struct core *core, struct outbox *out)
{
	struct rc_responder *responder = &qp->responder;
	enum reason reason;

	if (outbox_completions_room(out) == 0)
		return hold_packet(responder, packet, core->holds);

	reason = execute(qp, packet, core, out);
	/* A wave that begins at E: whatever was seen behind E before belongs to an older one. */
	if (reason != REASON_NONE)
		responder->gap_last_psn = packet->psn;
	if (responder->held_count)
		rc_responder_run_held(qp, core, out);
	return reason;
}

static enum reason receive_ahead(struct qp *qp, const struct packet *packet,
				 const struct core *core)
{
	struct rc_responder *responder = &qp->responder;
	bool is_missing = *held_place(responder, responder->psn_expected) == HOLD_NONE;
	bool is_new_wave = psn_distance(packet->psn, responder->gap_last_psn) <= 0;

	if (is_missing && !responder->nak_is_due && (!responder->nak_is_given || is_new_wave)) {
		rc_refuse_nak(responder, rc_responder_syndrome(REASON_DROP_OUT_OF_ORDER),
			      responder->psn_expected);
		responder->nak_is_given = true;
	}
	responder->gap_last_psn = packet->psn;
	qp_count(qp, QP_OUT_OF_SEQUENCE);
	return hold_packet(responder, packet, core->holds);
}

static enum reason receive_repeat(struct qp *qp, const struct packet *packet,
				  const struct core *core)
{
	qp_count(qp, QP_DUPLICATE_REQUEST);
	if (!opcode_has(opcode_properties_of(packet->opcode), OPCODE_HAS_PAYLOAD))
		return rc_replay_duplicate(qp, packet, core);
	qp->responder.ack_is_due = true;
	qp->responder.ack_is_urgent = true;
	return REASON_DROP_DUPLICATE;
}

enum reason rc_responder_receive(struct qp *qp, const struct packet *packet,
				 const struct core *core, struct outbox *out)
{
	int32_t ahead = psn_distance(packet->psn, qp->responder.psn_expected);

	if (qp->state == IBV_QPS_RTR && !qp->responder.has_heard) {
		qp->responder.has_heard = true;
		outbox_add_event(out, IBV_EVENT_COMM_EST);
	}
	if (ahead == 0)
		return receive_expected(qp, packet, core, out);
	return ahead > 0 ? receive_ahead(qp, packet, core) : receive_repeat(qp, packet, core);
}
