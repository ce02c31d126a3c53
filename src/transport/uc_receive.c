/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: receiving on an unreliable connection
 *
 * Packets are executed by the same checks as on a reliable connection (rc_execute.c), but
 * nothing is answered, so nothing comes again. A packet that is missing, wrong, or finds no
 * receive breaks its message: what follows of it is dropped, until a packet begins a
 * new one (IBA 9.8.2.2.4). The bytes that the broken message brought stay where they are; a receive
 * that it had taken is taken by the next message.
 *
 * Whatever the peer does wrong is dropped in silence and counted under its reason, and neither
 * side's QP stops for it: the peer would not know why (IBA 9.9.3, class D). Memory that is not
 * there any more, or a receive whose list cannot be written, is the program's own fault (class A):
 * the QP goes to ERROR, and the receive that was taken, or an event, says why (IBA 11.6.2).
 */
#include "transport/uc.h"

#include "base/psn.h"
#include "transport/counting.h"
#include "transport/rc.h"
#include "transport/receive.h"
#include "transport/service.h"
#include "wire/opcode.h"

/* Which packets are missing does not matter: this one goes on with a message, or it does not. */
static void follow(struct rc_responder *responder, struct qp *qp, const struct packet *packet,
		   bool starts)
{
	bool is_next = packet->psn == responder->psn_expected;

	if (!is_next)
		qp_count(qp, QP_OUT_OF_SEQUENCE);
	if (!is_next || starts)
		responder->message = MESSAGE_NONE;
	responder->psn_expected = psn_add(packet->psn, 1);
}

static bool is_own_fault(enum reason reason, bool is_send)
{
	return reason == REASON_MEMORY_FAULT ||
	       (is_send && (reason == REASON_KEY_UNKNOWN || reason == REASON_KEY_PD_MISMATCH ||
			    reason == REASON_KEY_NO_LOCAL_WRITE || reason == REASON_KEY_RANGE));
}

static void complete_failed(struct qp *qp, bool is_send, const struct complaint *complaint,
			    struct outbox *out)
{
	struct completion *completion = receive_complete(qp, out);

	if (!is_send)
		completion->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	completion->status = is_send ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_QP_OP_ERR;
	completion->complaint = *complaint;
}

static void fail(struct qp *qp, opcode_properties properties, struct complaint *complaint,
		 struct outbox *out)
{
	bool is_send = opcode_has(properties, OPCODE_IS_SEND);

	complaint->qpn = qp->number;
	if (is_send || opcode_has(properties, OPCODE_HAS_IMMEDIATE))
		complete_failed(qp, is_send, complaint, out);
	else
		outbox_add_event(out, IBV_EVENT_QP_FATAL);
	qp_fail(qp, complaint);
}

/* Under the name that a receiver without acknowledgements has for it. */
static enum reason drop(struct qp *qp, enum reason reason)
{
	if (reason == REASON_RECV_QUEUE_EMPTY) {
		qp_count(qp, QP_OUT_OF_BUFFER);
		return REASON_DROP_NO_RECEIVE;
	}
	if (reason == REASON_RECV_TOO_SHORT) {
		qp_count(qp, QP_RESP_LOCAL_LENGTH_ERROR);
		return REASON_DROP_RECV_SHORT;
	}
	return reason;
}

enum reason uc_receive(struct qp *qp, const struct packet *packet, const struct core *core,
		       struct outbox *out)
{
	opcode_properties properties = opcode_properties_of(packet->opcode);
	struct rc_responder *responder = &qp->responder;
	struct complaint complaint = {0};
	enum reason reason;

	if (qp->state == IBV_QPS_RTR && !responder->has_heard) {
		responder->has_heard = true;
		outbox_add_event(out, IBV_EVENT_COMM_EST);
	}
	follow(responder, qp, packet, opcode_has(properties, OPCODE_STARTS));
	reason = rc_execute_uc(qp, packet, core, out, &complaint);
	if (reason == REASON_NONE)
		return REASON_NONE;
	responder->message = MESSAGE_NONE;
	if (!is_own_fault(reason, opcode_has(properties, OPCODE_IS_SEND)))
		return drop(qp, reason);
	complaint.reason = reason;
	fail(qp, properties, &complaint, out);
	return reason;
}
