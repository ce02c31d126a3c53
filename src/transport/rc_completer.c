/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: what the peer says about our requests
 *
 * SENDs and WRITEs are done when they are acknowledged, READs and atomics when their
 * answers are placed. So there are two marks:
 *
 *   psn_acked     the peer has executed everything before it
 *   psn_unacked   everything before it is done for us; stops at the first READ or
 *                 atomic PSN whose answer is missing
 *
 * and a window of bits behind psn_unacked for answers that came ahead of one
 * that is missing. READ answers are placed as they come, in any order: unlike
 * a WRITE nobody may look at the memory before the completion.
 *
 * Everything acknowledges everything before it: ACK n what lies up to n, an answer or a NAK
 * what lies before its own PSN. An ACK or NAK that passes a missing answer proves that the answer
 * was lost, for a responder answers in order; an answer does so only when it is three or
 * more ahead of the missing one, since neighbours may overtake each other on their way; after
 * a probe, which comes long after the first wave, being ahead is enough. Then
 * the requester goes back, once until there is progress: what is still under way from
 * the first wave would prove the same loss again and again.
 *
 * A NAK that refuses a request (IBA 9.7.5.2.4) fails the WQE that contains its PSN. The peer is
 * in ERROR then and answers nothing more. When answers of earlier READs are missing, the WQE
 * is only marked, and nothing from it on is sent. Late answers may still complete the
 * READs; if they do not come the retry timer ends the READ with RETRY_EXC_ERR, which is what
 * happened to it. Without a retry timer there would be no end, so the oldest WQE
 * fails at once with the status of the NAK. An RNR NAK behind a missing answer is just
 * a sign of loss: the peer will say it again.
 *
 * Outcomes are found here, completions are made when output is asked for: `done` is
 * the oldest WQE without its completion, unacked_position the oldest without its outcome.
 */
#include "base/assert.h"
#include "transport/counting.h"
#include "transport/rc.h"
#include "transport/rc_lent.h"
#include "transport/rc_wqe.h"
#include "wire/syndrome.h"

#include <string.h>

/* Answers so far ahead of a missing one prove that it was lost. */
#define ANSWERS_AHEAD_OF_LOSS 3

/* --- progress --- */

static void acknowledge_before(struct rc_requester *requester, uint32_t psn)
{
	if (psn_distance(psn, requester->psn_acked) > 0)
		requester->psn_acked = psn;
}

/* How many PSNs at psn_unacked, within its WQE, are done. */
static uint32_t settled_at_head(const struct qp *qp, const struct send_wqe *wqe)
{
	const struct rc_requester *requester = &qp->requester;
	uint32_t left = psn_forward(requester->psn_unacked, rc_wqe_end(wqe));
	uint32_t count;

	if (!rc_wqe_wants_answers(wqe))
		count = psn_forward(requester->psn_unacked, requester->psn_acked);
	else if (requester->answered == UINT64_MAX)
		count = ANSWER_WINDOW;
	else
		count = (uint32_t)__builtin_ctzll(~requester->answered);
	return count < left ? count : left;
}

static void head_advance(struct rc_requester *requester, uint32_t count)
{
	requester->psn_unacked = psn_add(requester->psn_unacked, count);
	requester->answered = count < ANSWER_WINDOW ? requester->answered >> count : 0;
	acknowledge_before(requester, requester->psn_unacked);
}

static void forget_answered_reads(struct rc_requester *requester)
{
	uint32_t gone = 0;

	while (gone < requester->read_count &&
	       psn_distance(psn_add(requester->reads[gone].first_psn,
				    requester->reads[gone].psn_count),
			    requester->psn_unacked) <= 0)
		gone++;
	requester->read_count -= gone;
	if (gone)
		memmove(requester->reads, requester->reads + gone,
			requester->read_count * sizeof(requester->reads[0]));
}

/* The head has moved from @from in the WQE at @position: it may have passed the cursor. */
static void cursor_follow(struct qp *qp, uint32_t position, uint32_t from)
{
	struct rc_requester *requester = &qp->requester;
	uint32_t moved = psn_forward(from, requester->psn_unacked);
	uint32_t under_way = psn_forward(from, requester->send_psn);

	pacing_give_back(qp, position, from,
			 moved < under_way ? requester->psn_unacked : requester->send_psn);
	if (moved >= under_way) {
		requester->send_psn = requester->psn_unacked;
		requester->send_position = requester->unacked_position;
		VBN_ASSERT(!requester->outbound_charged && !requester->inbound_charged);
	}
}

/* Moves psn_unacked over all that is done. It stays in front of a WQE that has failed. */
static void head_move(struct qp *qp, const struct core *core)
{
	struct rc_requester *requester = &qp->requester;
	uint32_t position = requester->unacked_position;
	uint32_t from = requester->psn_unacked;

	while (requester->unacked_position != qp->send_queue.started) {
		const struct send_wqe *wqe =
			send_wqe_at(&qp->send_queue, requester->unacked_position);

		if (wqe->has_failed)
			break;
		head_advance(requester, settled_at_head(qp, wqe));
		if (requester->psn_unacked != rc_wqe_end(wqe))
			break;
		requester->unacked_position++;
	}
	if (requester->psn_unacked == from)
		return;
	cursor_follow(qp, position, from);
	forget_answered_reads(requester);
	rc_retry_progress(qp, core);
}

/* An answer is missing at psn_unacked although later ones are known to have been given. */
static void loss_inferred(struct qp *qp)
{
	if (qp->requester.in_recovery)
		return;
	qp_count(qp, QP_IMPLIED_NAK_SEQ_ERR);
	qp->requester.in_recovery = true;
	rc_retry_go_back(qp, qp->requester.psn_unacked);
}

static bool is_outstanding(const struct rc_requester *requester, uint32_t psn)
{
	return psn_forward(requester->psn_unacked, psn) <
	       psn_forward(requester->psn_unacked, requester->psn_next);
}

/* The WQE of a PSN that is outstanding. */
static uint32_t position_of(const struct qp *qp, uint32_t psn)
{
	uint32_t position = qp->requester.unacked_position;
	const struct send_wqe *wqe = send_wqe_at(&qp->send_queue, position);

	while (!psn_is_within(psn, wqe->first_psn, wqe->psn_count))
		wqe = send_wqe_at(&qp->send_queue, ++position);
	return position;
}

/* --- acknowledgements --- */

static enum reason receive_ack(struct qp *qp, uint32_t psn, const struct core *core)
{
	struct rc_requester *requester = &qp->requester;
	uint32_t next = psn_add(psn, 1);

	/* The one before psn_unacked: the peer repeats its last word. */
	if (next != requester->psn_unacked && !is_outstanding(requester, psn))
		return REASON_DROP_STALE_ACK;
	acknowledge_before(requester, next);
	head_move(qp, core);
	if (psn_distance(next, requester->psn_unacked) > 0)
		loss_inferred(qp);
	return REASON_NONE;
}

struct refusal {
	enum ibv_wc_status status;
	enum reason reason;
};

static void receive_refusal(struct qp *qp, uint32_t psn, const struct refusal *refusal)
{
	uint32_t position = position_of(qp, psn);
	const struct send_wqe *wqe = send_wqe_at(&qp->send_queue, position);
	struct complaint complaint = {.reason = refusal->reason,
				      .qpn = qp->number,
				      .key = wqe->rkey,
				      .address = wqe->remote_address,
				      .length = wqe->length};
	bool has_timer = qp->attr.timeout;

	if (position == qp->requester.unacked_position || !has_timer) {
		rc_completer_fail(qp, refusal->status, &complaint);
		return;
	}
	rc_requester_fail_wqe(qp, position, psn, refusal->status, &complaint);
	loss_inferred(qp);
}

/* What a sequence NAK asks for at once, others after a wait: from the oldest that is not done. */
static void go_back_to_head(struct qp *qp, uint32_t psn)
{
	/* Answers are missing as well; stragglers of this wave will show it again. */
	if (qp->requester.psn_unacked != psn)
		qp->requester.in_recovery = true;
	rc_retry_go_back(qp, qp->requester.psn_unacked);
}

static void receive_sequence(struct qp *qp, uint32_t psn)
{
	go_back_to_head(qp, psn);
	rc_lent_refused(qp, psn);
}

static void receive_rnr(struct qp *qp, uint32_t psn, uint8_t syndrome, const struct core *core)
{
	go_back_to_head(qp, psn);
	if (qp->requester.psn_unacked == psn)
		rc_retry_rnr(qp, syndrome & 0x1f, core);
}

/* False: a reserved code, which says nothing. */
static bool find_refusal(uint8_t syndrome, struct refusal *refusal)
{
	switch (syndrome) {
	case SYNDROME_NAK_INVALID_REQUEST:
		*refusal = (struct refusal){IBV_WC_REM_INV_REQ_ERR, REASON_NAK_INVALID_REQUEST};
		return true;
	case SYNDROME_NAK_REMOTE_ACCESS:
		*refusal = (struct refusal){IBV_WC_REM_ACCESS_ERR, REASON_NAK_REMOTE_ACCESS};
		return true;
	case SYNDROME_NAK_REMOTE_OPERATION:
		*refusal = (struct refusal){IBV_WC_REM_OP_ERR, REASON_NAK_REMOTE_OPERATION};
		return true;
	default:
		return false;
	}
}

/* A NAK of any kind, RNR included. */
static enum reason receive_nak(struct qp *qp, uint32_t psn, uint8_t syndrome,
			       const struct core *core)
{
	struct rc_requester *requester = &qp->requester;
	bool is_rnr = syndrome_kind(syndrome) == SYNDROME_RNR;
	bool is_sequence = !is_rnr && syndrome == SYNDROME_NAK_SEQUENCE;
	struct refusal refusal = {0};

	if (!is_rnr && !is_sequence && !find_refusal(syndrome, &refusal))
		return REASON_DROP_STALE_ACK;
	if (!is_outstanding(requester, psn))
		return REASON_DROP_STALE_ACK;
	if (is_sequence)
		qp_count(qp, QP_PACKET_SEQ_ERR);
	/* Nothing was sent since the wait began, so this is the same NAK once more. */
	if (is_rnr && requester->rnr_deadline != VBN_TIME_NEVER && psn == requester->psn_unacked)
		return REASON_DROP_DUPLICATE;
	acknowledge_before(requester, psn);
	head_move(qp, core);
	if (is_sequence && !rc_retry_nak_is_news(qp, psn, core))
		return REASON_DROP_DUPLICATE;
	/* Answers that were placed may have carried the head past what is refused. */
	if (!is_outstanding(requester, psn))
		return REASON_DROP_STALE_ACK;
	if (is_rnr)
		receive_rnr(qp, psn, syndrome, core);
	else if (is_sequence)
		receive_sequence(qp, psn);
	else
		receive_refusal(qp, psn, &refusal);
	return REASON_NONE;
}

static enum reason receive_acknowledge(struct qp *qp, const struct packet *packet,
				       const struct core *core)
{
	uint8_t syndrome = packet->aeth.syndrome & 0x7f;

	switch (syndrome_kind(syndrome)) {
	case SYNDROME_ACK:
		return receive_ack(qp, packet->psn, core);
	case SYNDROME_RNR:
	case SYNDROME_NAK:
		return receive_nak(qp, packet->psn, syndrome, core);
	case SYNDROME_RESERVED:
		break;
	}
	return REASON_DROP_STALE_ACK;
}

/* --- answers --- */

static bool is_well_formed(const struct qp *qp, const struct send_wqe *wqe,
			   const struct packet *packet)
{
	opcode_properties properties = opcode_properties_of(packet->opcode);

	if (opcode_has(properties, OPCODE_HAS_AETH) &&
	    syndrome_kind(packet->aeth.syndrome) != SYNDROME_ACK)
		return false;
	return rc_wqe_is_atomic(wqe) ||
	       packet->payload_bytes ==
		       rc_wqe_payload_bytes(wqe, packet->psn, qp->path.payload_max);
}

static enum reason scatter_answer(const struct qp *qp, const struct send_wqe *wqe,
				  const struct packet *packet, const struct core *core,
				  struct complaint *complaint)
{
	struct access access = access_of(qp, core);

	/* The original value is host order here, as the program wants it. */
	if (rc_wqe_is_atomic(wqe))
		return sge_scatter(&access, wqe->sge, wqe->sge_count, 0,
				   (const uint8_t *)&packet->atomic_original,
				   sizeof(packet->atomic_original), complaint);
	if (packet->payload_bytes == 0)
		return REASON_NONE;
	return sge_scatter(&access, wqe->sge, wqe->sge_count,
			   rc_wqe_offset(wqe, packet->psn, qp->path.payload_max), packet->payload,
			   packet->payload_bytes, complaint);
}

/* After a probe the answers of its wave are no neighbours that overtake each other any more. */
static int32_t answers_ahead_of_loss(const struct rc_requester *requester)
{
	return requester->probe_count ? 1 : ANSWERS_AHEAD_OF_LOSS;
}

/* An answer inside the window that was not placed before. */
static void place_answer(struct qp *qp, uint32_t position, const struct packet *packet,
			 const struct core *core)
{
	struct rc_requester *requester = &qp->requester;
	const struct send_wqe *wqe = send_wqe_at(&qp->send_queue, position);
	struct complaint complaint = {0};
	enum reason reason = scatter_answer(qp, wqe, packet, core, &complaint);

	if (reason != REASON_NONE) {
		complaint.reason = reason;
		rc_requester_fail_wqe(qp, position, packet->psn, IBV_WC_LOC_PROT_ERR, &complaint);
		return;
	}
	requester->answered |= 1ull << psn_forward(requester->psn_unacked, packet->psn);
	head_move(qp, core);
}

static enum reason receive_valid_answer(struct qp *qp, uint32_t position,
					const struct packet *packet, const struct core *core)
{
	struct rc_requester *requester = &qp->requester;
	enum reason reason = REASON_NONE;
	uint32_t ahead;

	acknowledge_before(requester, packet->psn);
	head_move(qp, core);
	if (!is_outstanding(requester, packet->psn))
		return REASON_DROP_DUPLICATE;
	ahead = psn_forward(requester->psn_unacked, packet->psn);
	if (ahead >= ANSWER_WINDOW)
		reason = REASON_DROP_OUT_OF_ORDER;
	else if (requester->answered >> ahead & 1)
		reason = REASON_DROP_DUPLICATE;
	else if (!send_wqe_at(&qp->send_queue, position)->has_failed)
		place_answer(qp, position, packet, core);
	if (psn_distance(packet->psn, requester->psn_unacked) >= answers_ahead_of_loss(requester))
		loss_inferred(qp);
	return reason;
}

static enum reason receive_answer(struct qp *qp, const struct packet *packet, bool is_atomic,
				  const struct core *core)
{
	const struct send_wqe *wqe;
	uint32_t position;

	if (!is_outstanding(&qp->requester, packet->psn))
		return REASON_DROP_STALE_ACK;
	position = position_of(qp, packet->psn);
	wqe = send_wqe_at(&qp->send_queue, position);
	if (is_atomic ? !rc_wqe_is_atomic(wqe) : !rc_wqe_is_read(wqe))
		return REASON_DROP_STALE_ACK;
	if (!is_well_formed(qp, wqe, packet)) {
		struct complaint complaint = {.reason = REASON_RESPONSE_BAD,
					      .key = wqe->rkey,
					      .address = wqe->remote_address,
					      .length = packet->payload_bytes};

		rc_requester_fail_wqe(qp, position, packet->psn, IBV_WC_BAD_RESP_ERR, &complaint);
		return REASON_NONE;
	}
	return receive_valid_answer(qp, position, packet, core);
}

enum reason rc_completer_receive(struct qp *qp, const struct packet *packet,
				 const struct core *core)
{
	opcode_properties properties = opcode_properties_of(packet->opcode);

	VBN_ASSERT(opcode_has(properties, OPCODE_IS_RESPONSE));
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return REASON_DROP_QP_STATE;
	if (opcode_has(properties, OPCODE_IS_READ))
		return receive_answer(qp, packet, false, core);
	if (opcode_has(properties, OPCODE_IS_ATOMIC))
		return receive_answer(qp, packet, true, core);
	return receive_acknowledge(qp, packet, core);
}

/* --- outcomes --- */

void rc_completer_fail(struct qp *qp, enum ibv_wc_status status, const struct complaint *complaint)
{
	uint32_t position = qp->requester.unacked_position;
	struct send_wqe *wqe = send_wqe_at(&qp->send_queue, position);

	VBN_ASSERT(position != qp->send_queue.posted);
	send_fail(qp, wqe, status, complaint);
	qp_fail(qp, &wqe->complaint);
}

/* @completion is zeroed. */
static void complete_oldest(const struct qp *qp, enum ibv_wc_status status,
			    struct completion *completion)
{
	const struct work_queue *queue = &qp->send_queue;
	const struct send_wqe *wqe = send_wqe_at(queue, queue->done);

	completion->wr_id = wqe->wr_id;
	completion->status = status;
	completion->opcode = send_wqe_completion_opcode(wqe);
	completion->slots_released = queue->done + 1;
	if (status != IBV_WC_SUCCESS)
		completion->complaint = wqe->complaint;
	else if (rc_wqe_wants_answers(wqe))
		completion->byte_len = wqe->length;
}

static bool has_failed_at_head(const struct qp *qp)
{
	const struct work_queue *queue = &qp->send_queue;

	return queue->done == qp->requester.unacked_position && queue->done != queue->posted &&
	       send_wqe_at(queue, queue->done)->has_failed;
}

/* The first failure ends the QP; its completion comes whether it was asked for or not. */
static void complete_failed(struct qp *qp, struct outbox *out)
{
	struct work_queue *queue = &qp->send_queue;
	const struct send_wqe *wqe = send_wqe_at(queue, queue->done);

	complete_oldest(qp, wqe->status, outbox_add_completion(out));
	/* It may have failed before it was started; done never passes started. */
	if (queue->started == queue->done)
		queue->started++;
	queue->done++;
	qp_fail(qp, &wqe->complaint);
}

static bool oldest_is_signalled(const struct qp *qp)
{
	return send_wqe_at(&qp->send_queue, qp->send_queue.done)->is_signalled;
}

bool rc_completer_end_oldest(struct qp *qp, struct completion *completion)
{
	bool is_signalled = oldest_is_signalled(qp);

	VBN_ASSERT(qp->send_queue.done != qp->requester.unacked_position);
	if (is_signalled) {
		*completion = (struct completion){0};
		complete_oldest(qp, IBV_WC_SUCCESS, completion);
	}
	qp->send_queue.done++;
	return is_signalled;
}

bool rc_completer_output(struct qp *qp, struct outbox *out)
{
	struct work_queue *queue = &qp->send_queue;

	while ((int32_t)(qp->requester.unacked_position - queue->done) > 0) {
		if (oldest_is_signalled(qp)) {
			if (outbox_completions_room(out) == 0)
				return true;
			complete_oldest(qp, IBV_WC_SUCCESS, outbox_add_completion(out));
		}
		queue->done++;
	}
	if (has_failed_at_head(qp)) {
		if (outbox_completions_room(out) == 0)
			return true;
		complete_failed(qp, out);
	}
	qp_report_drained(qp, out);
	return false;
}
