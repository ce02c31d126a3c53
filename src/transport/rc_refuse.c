/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: saying no
 *
 * There are two kinds of NAK (IBA 9.7.5.2, 9.9.3). A sequence or RNR NAK asks the
 * peer to come again; the QP lives on, and when the packet it names arrives
 * after all, the NAK is withdrawn if it did not leave yet. Any other ends the
 * connection: the QP goes to ERROR, answers that are queued and the NAK
 * still leave, and the program hears of it either by the completion of the receive
 * that the message had taken, or by an asynchronous event, never by both.
 *
 * A NAK waits in the responder until all answers before it have left, so it is
 * never lost for lack of room. There is one place for it: the newest wins, since
 * whatever it replaces concerned the same PSN or one behind it.
 */
#include "transport/rc.h"

#include "base/assert.h"
#include "wire/syndrome.h"

uint8_t rc_responder_syndrome(enum reason reason)
{
	switch (reason) {
	case REASON_RECV_QUEUE_EMPTY:
		return SYNDROME_RNR_BASE;
	case REASON_DROP_OUT_OF_ORDER:
	case REASON_DROP_LENT:
		return SYNDROME_NAK_SEQUENCE;
	case REASON_OPCODE_ORDER:
	case REASON_OPCODE_UNSUPPORTED:
	case REASON_XRC_SRQ_UNKNOWN:
	case REASON_PACKET_LENGTH:
	case REASON_MESSAGE_TOO_LONG:
	case REASON_RECV_TOO_SHORT:
	case REASON_READ_DEPTH:
	case REASON_ATOMIC_MISALIGNED:
		return SYNDROME_NAK_INVALID_REQUEST;
	case REASON_KEY_UNKNOWN:
	case REASON_KEY_PD_MISMATCH:
	case REASON_KEY_RANGE:
	case REASON_KEY_NO_REMOTE_WRITE:
	case REASON_KEY_NO_REMOTE_READ:
	case REASON_KEY_NO_REMOTE_ATOMIC:
	case REASON_WINDOW_OTHER_QP:
	case REASON_INVALIDATE_REFUSED:
	case REASON_QP_NO_REMOTE_WRITE:
	case REASON_QP_NO_REMOTE_READ:
	case REASON_QP_NO_REMOTE_ATOMIC:
		return SYNDROME_NAK_REMOTE_ACCESS;
	case REASON_KEY_NO_LOCAL_WRITE:
	case REASON_MEMORY_FAULT:
		return SYNDROME_NAK_REMOTE_OPERATION;
	case REASON_NONE:
	case REASON_KEY_NO_BIND:
	case REASON_WINDOW_UNKNOWN:
	case REASON_WINDOW_TYPE:
	case REASON_WINDOW_BOUND:
	case REASON_WINDOW_KEY:
	case REASON_NAK_SEQUENCE:
	case REASON_NAK_INVALID_REQUEST:
	case REASON_NAK_REMOTE_ACCESS:
	case REASON_NAK_REMOTE_OPERATION:
	case REASON_RESPONSE_BAD:
	case REASON_RETRY_EXCEEDED:
	case REASON_RNR_RETRY_EXCEEDED:
	case REASON_FLUSHED:
	case REASON_DROP_SHORT:
	case REASON_DROP_VERSION:
	case REASON_DROP_OPCODE:
	case REASON_DROP_PAD:
	case REASON_DROP_ICRC:
	case REASON_DROP_PKEY:
	case REASON_DROP_NO_QP:
	case REASON_DROP_QP_STATE:
	case REASON_DROP_SERVICE:
	case REASON_DROP_SOURCE:
	case REASON_DROP_DUPLICATE:
	case REASON_DROP_STALE_ACK:
	case REASON_DROP_REPLAY_LOST:
	case REASON_DROP_NO_ROOM:
	case REASON_DROP_QKEY:
	case REASON_DROP_NO_RECEIVE:
	case REASON_DROP_RECV_SHORT:
	case REASON_DROP_MAD_LENGTH:
	case REASON_DROP_MAD_VERSION:
	case REASON_DROP_MAD_CLASS:
	case REASON_DROP_MAD_METHOD:
	case REASON_DROP_CM_ID:
	case REASON_DROP_CM_STATE:
	case REASON_DROP_FAULT:
	case REASON_DROP_SOCKET_OVERFLOW:
	case REASON_DROP_RING:
	case REASON_DROP_TOO_LONG:
	case REASON_CALL_INVALID:
	case REASON_CALL_STATE:
	case REASON_CALL_LIMIT:
	case REASON_CQ_OVERRUN:
	case REASON_COUNT:
		break;
	}
	VBN_ASSERT(!"the responder refuses nothing for this reason");
	return SYNDROME_NAK_REMOTE_OPERATION;
}

void rc_refuse_nak(struct rc_responder *responder, uint8_t syndrome, uint32_t psn)
{
	responder->nak_is_due = true;
	responder->nak_syndrome = syndrome;
	responder->nak_psn = psn;
}

void rc_refuse_fatal(struct qp *qp, uint8_t syndrome, uint32_t psn,
		     const struct complaint *complaint)
{
	rc_refuse_nak(&qp->responder, syndrome, psn);
	if (qp->state != IBV_QPS_ERR)
		qp_fail(qp, complaint);
}

void rc_refuse_event(struct rc_responder *responder, uint8_t syndrome)
{
	responder->event_is_due = true;
	if (syndrome == SYNDROME_NAK_REMOTE_ACCESS)
		responder->event = IBV_EVENT_QP_ACCESS_ERR;
	else if (syndrome == SYNDROME_NAK_INVALID_REQUEST)
		responder->event = IBV_EVENT_QP_REQ_ERR;
	else
		responder->event = IBV_EVENT_QP_FATAL;
}
