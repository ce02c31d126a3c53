/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: receiving datagrams
 *
 * A datagram comes from anybody, at any time, and is answered by nobody. What keeps strangers out
 * is the Q_Key: it must be the QP's. PSNs are not looked at: nothing is in order, and nothing
 * that is lost comes again.
 *
 * In the receive, 40 bytes stand in front of the payload and count in byte_len: the header of IPv6,
 * or 20 zeros and the header of IPv4 (annex A17.4.5.2). Programs tell the two apart by the first
 * byte, so that the zeros are written as well.
 *
 * What does not pass is dropped without a word to anybody, and counted under its reason: a wrong
 * Q_Key, no receive posted, or a receive that is too short, which stays for the next one (of an
 * SRQ: for this QP's next one).
 * That the length is not this side's fault, and that no stranger can stop a QP by one long
 * packet, is IBA 9.9.3 (class D), and what the kernel's drivers for adapters without a transport
 * of their own do; some adapters complete the receive with LOC_LEN_ERR instead.
 *
 * A receive whose list cannot be written, however, is the program's own fault: it completes with
 * LOC_PROT_ERR and the QP goes to ERROR (IBA 11.6.2).
 */
#include "transport/ud.h"

#include "base/assert.h"
#include "transport/counting.h"
#include "transport/receive.h"
#include "transport/service.h"
#include "transport/srq.h"
#include "wire/opcode.h"

/* The receive for the next datagram; of an SRQ one may be left that was too short for the last. */
static bool has_receive(struct qp *qp)
{
	return (qp->srq && qp->srq_slot != SRQ_NO_SLOT) || receive_take(qp);
}

static enum reason check(struct qp *qp, const struct packet *packet)
{
	if (packet->deth.qkey != qp->attr.qkey)
		return REASON_DROP_QKEY;
	if (packet->payload_bytes > qp->path.payload_max)
		return REASON_PACKET_LENGTH;
	if (!has_receive(qp)) {
		qp_count(qp, QP_OUT_OF_BUFFER);
		return REASON_DROP_NO_RECEIVE;
	}
	if ((uint64_t)GRH_BYTES + packet->payload_bytes > receive_taken(qp)->length) {
		qp_count(qp, QP_RESP_LOCAL_LENGTH_ERROR);
		return REASON_DROP_RECV_SHORT;
	}
	return REASON_NONE;
}

static enum reason place(const struct qp *qp, const struct packet *packet, const struct core *core,
			 struct complaint *complaint)
{
	struct access access = access_of(qp, core);
	const struct recv_wqe *wqe = receive_taken(qp);
	enum reason reason;

	access.pd = receive_pd(qp);
	reason = sge_scatter(&access, wqe->sge, wqe->sge_count, 0, core->source->header, GRH_BYTES,
			     complaint);
	if (reason == REASON_NONE && packet->payload_bytes)
		reason = sge_scatter(&access, wqe->sge, wqe->sge_count, GRH_BYTES, packet->payload,
				     packet->payload_bytes, complaint);
	return reason;
}

static void describe(struct completion *completion, const struct packet *packet,
		     const struct datagram_source *source)
{
	completion->byte_len = GRH_BYTES + packet->payload_bytes;
	completion->is_solicited = packet->solicited;
	completion->source_qpn = packet->deth.source_qpn;
	completion->source_lid = source->lid;
	if (source->has_header)
		completion->wc_flags |= IBV_WC_GRH;
	if (opcode_has(opcode_properties_of(packet->opcode), OPCODE_HAS_IMMEDIATE)) {
		completion->wc_flags |= IBV_WC_WITH_IMM;
		completion->immediate = packet->immediate;
	}
}

enum reason ud_receive(struct qp *qp, const struct packet *packet, const struct core *core,
		       struct outbox *out)
{
	struct complaint complaint = {0};
	struct completion *completion;
	enum reason reason = check(qp, packet);

	if (reason != REASON_NONE)
		return reason;
	VBN_ASSERT(core->source);
	reason = place(qp, packet, core, &complaint);
	completion = receive_complete(qp, out);
	if (reason == REASON_NONE) {
		describe(completion, packet, core->source);
		qp_count(qp, QP_RX_SEND_REQUESTS);
		return REASON_NONE;
	}
	complaint.reason = reason;
	complaint.qpn = qp->number;
	completion->status = IBV_WC_LOC_PROT_ERR;
	completion->complaint = complaint;
	qp_fail(qp, &complaint);
	return reason;
}
