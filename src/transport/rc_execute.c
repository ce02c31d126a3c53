/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: checking and executing one request packet
 *
 * The packet is the one whose turn it is. It passes the checks in a fixed order,
 * and only a packet that passes them all changes anything: the state of the QP
 * and the memory are as before when it is refused, but for the receive that the
 * message had taken and for a fault in the middle of a copy. The order matters,
 * since a packet may be wrong in several ways and peers see only one answer:
 *
 *   opcode    offered, and in order with the message under way      NAK 0x61
 *   length    of the payload, against opcode, MTU and RETH        NAK 0x61
 *   SRQ       of XRC: in the domain, the same for a whole message NAK 0x61
 *   receive   a WQE is there if the packet takes one              RNR NAK
 *   access    rights of the QP, then key and range of the RETH,   NAK 0x62
 *             or the window to invalidate
 *   resource  depth of READs and atomics, alignment of atomics    NAK 0x61
 *   payload   that is lent can be read (rc_lent.h)                NAK 0x60
 *
 * A WRITE is checked as a whole by its first packet, so that a message that
 * cannot end well writes nothing; each packet checks the right of the QP and its
 * own bytes once more, because the right may be withdrawn and the region
 * deregistered in between.
 *
 * A SEND that invalidates a memory window does so with its last packet, behind the data and
 * before the completion. READs that the peer asked for before and that are still being
 * answered lose the window, too: a peer that has such sets the fence (IBA 10.8.3.3).
 *
 * A SEND takes its receive WQE with its first packet, a WRITE with immediate with
 * the packet that carries the immediate (IBA 9.7.5.1.3). Taken means that the
 * completion is due: with the message's last packet, or in error when the
 * message ends badly. So there is at most one taken, and a flush meets a taken one
 * like any other (receive.h).
 */
#include "transport/rc.h"

#include "base/psn.h"
#include "transport/counting.h"
#include "transport/rc_lent.h"
#include "transport/receive.h"
#include "transport/xrc.h"
#include "wire/syndrome.h"

/* A packet on its way through the checks. */
struct request {
	const struct packet *packet;
	opcode_properties properties;
	bool has_receive; /* a receive WQE is taken, by this packet or by its message's first */
	struct complaint complaint;
};

static bool request_has(const struct request *request, uint32_t bits)
{
	return opcode_has(request->properties, bits);
}

/* --- checks that need nothing but the packet and the message under way --- */

static enum reason check_opcode(const struct qp *qp, const struct request *request)
{
	bool starts = request_has(request, OPCODE_STARTS);

	/* Windows belong to RC QPs, so that there is none to invalidate through another. */
	if (!request_has(request, OPCODE_IS_REQUEST) || request_has(request, OPCODE_IS_UNOFFERED) ||
	    (qp->xrc && request_has(request, OPCODE_HAS_IETH)))
		return REASON_OPCODE_UNSUPPORTED;

	switch (qp->responder.message) {
	case MESSAGE_NONE:
		return starts ? REASON_NONE : REASON_OPCODE_ORDER;
	case MESSAGE_SEND:
		if (!starts && request_has(request, OPCODE_IS_SEND))
			return REASON_NONE;
		break;
	case MESSAGE_WRITE:
		if (!starts && request_has(request, OPCODE_IS_WRITE))
			return REASON_NONE;
		break;
	}
	return REASON_OPCODE_ORDER;
}

/* FIRST and MIDDLE are full, LAST is not empty, and no packet that carries its payload passes the path MTU. */
static bool payload_fits_opcode(const struct qp *qp, const struct request *request)
{
	uint32_t bytes = request->packet->payload_bytes;

	if (!request_has(request, OPCODE_HAS_PAYLOAD))
		return bytes == 0;
	if (packet_is_lent(request->packet))
		return rc_lent_fits(qp, request->packet);
	if (!request_has(request, OPCODE_ENDS))
		return bytes == qp->path.payload_max;
	return bytes <= qp->path.payload_max && (bytes > 0 || request_has(request, OPCODE_STARTS));
}

/* The payloads of a WRITE add up to the length in its RETH, and LAST is not empty. */
static bool payload_fits_write(const struct qp *qp, const struct request *request)
{
	uint32_t left = request_has(request, OPCODE_STARTS) ? request->packet->reth.length
							    : qp->responder.write_left;

	return request_has(request, OPCODE_ENDS) ? request->packet->payload_bytes == left
						 : request->packet->payload_bytes < left;
}

static uint64_t message_bytes(const struct qp *qp, const struct request *request)
{
	uint64_t before = request_has(request, OPCODE_STARTS) ? 0 : qp->responder.received;

	return request_has(request, OPCODE_HAS_RETH) ? request->packet->reth.length
						     : before + request->packet->payload_bytes;
}

static enum reason check_length(const struct qp *qp, struct request *request)
{
	request->complaint.length = request->packet->payload_bytes;
	request->complaint.limit = qp->path.payload_max;
	if (!payload_fits_opcode(qp, request))
		return REASON_PACKET_LENGTH;

	if (message_bytes(qp, request) > MESSAGE_BYTES_MAX) {
		request->complaint.length = message_bytes(qp, request);
		request->complaint.limit = MESSAGE_BYTES_MAX;
		return REASON_MESSAGE_TOO_LONG;
	}
	if (request_has(request, OPCODE_IS_WRITE) && !payload_fits_write(qp, request))
		return REASON_PACKET_LENGTH;
	return REASON_NONE;
}

/* The packets of a message all name the same SRQ. */
static enum reason check_srq(const struct qp *qp, const struct request *request)
{
	const struct srq *srq;

	if (!qp->xrc)
		return REASON_NONE;
	srq = xrc_srq_of(qp, request->packet);
	if (!srq)
		return REASON_XRC_SRQ_UNKNOWN;
	return request->has_receive && srq != qp->srq ? REASON_OPCODE_ORDER : REASON_NONE;
}

static enum reason take_receive(struct qp *qp, struct request *request)
{
	if (!request_has(request, OPCODE_IS_SEND | OPCODE_STARTS) &&
	    !request_has(request, OPCODE_IS_WRITE | OPCODE_HAS_IMMEDIATE))
		return REASON_NONE;
	if (qp->xrc)
		qp->srq = xrc_srq_of(qp, request->packet);
	if (!receive_take(qp))
		return REASON_RECV_QUEUE_EMPTY;
	request->has_receive = true;
	return REASON_NONE;
}

/* --- receive completions --- */

/* The completion of the receive taken, in success until the caller says otherwise. */
static struct completion *complete_receive(struct qp *qp, const struct request *request,
					   struct outbox *out)
{
	struct completion *completion = receive_complete(qp, out);

	if (request_has(request, OPCODE_IS_WRITE))
		completion->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	completion->source_qpn = qp->attr.dest_qp_num;
	return completion;
}

static void complete_message(struct qp *qp, const struct request *request, struct outbox *out)
{
	struct completion *completion = complete_receive(qp, request, out);

	completion->byte_len = (uint32_t)qp->responder.received;
	completion->is_solicited = request->packet->solicited;
	if (request_has(request, OPCODE_HAS_IMMEDIATE)) {
		completion->immediate = request->packet->immediate;
		completion->wc_flags = IBV_WC_WITH_IMM;
	} else if (request_has(request, OPCODE_HAS_IETH)) {
		completion->immediate = request->packet->invalidate_rkey;
		completion->wc_flags = IBV_WC_WITH_INV;
	}
}

/* --- execution --- */

static enum reason place_payload(struct qp *qp, const struct recv_wqe *wqe, struct request *request,
				 const struct access *access, const struct core *core,
				 uint64_t received)
{
	const struct packet *packet = request->packet;

	if (packet->payload_bytes == 0)
		return REASON_NONE;
	if (packet_is_lent(packet))
		return rc_lent_fetch(qp, wqe, packet, access, core, received);
	return sge_scatter(access, wqe->sge, wqe->sge_count, received, packet->payload,
			   packet->payload_bytes, &request->complaint);
}

/* The data of one packet, and with the last the window: nothing of both or all. */
static enum reason place(struct qp *qp, const struct recv_wqe *wqe, struct request *request,
			 const struct access *access, const struct core *core, uint64_t received)
{
	const struct packet *packet = request->packet;
	bool invalidates = request_has(request, OPCODE_HAS_IETH);
	enum reason reason = REASON_NONE;

	if (invalidates)
		reason = window_check_invalidate(access, packet->invalidate_rkey,
						 &request->complaint);
	if (reason == REASON_NONE)
		reason = place_payload(qp, wqe, request, access, core, received);
	if (reason == REASON_NONE && invalidates)
		reason = window_invalidate(access, packet->invalidate_rkey, &request->complaint);
	return reason;
}

static enum reason execute_send(struct qp *qp, struct request *request, const struct access *access,
				const struct core *core, struct outbox *out)
{
	const struct recv_wqe *wqe = receive_taken(qp);
	struct rc_responder *responder = &qp->responder;
	const struct packet *packet = request->packet;
	uint64_t received = request_has(request, OPCODE_STARTS) ? 0 : responder->received;
	enum reason reason;

	if (packet->payload_bytes > wqe->length - received) {
		request->complaint.length = received + packet->payload_bytes;
		request->complaint.limit = wqe->length;
		return REASON_RECV_TOO_SHORT;
	}
	reason = place(qp, wqe, request, access, core, received);
	if (reason != REASON_NONE)
		return reason;

	responder->received = received + packet->payload_bytes;
	responder->message = MESSAGE_SEND;
	if (request_has(request, OPCODE_ENDS)) {
		responder->message = MESSAGE_NONE;
		complete_message(qp, request, out);
	}
	return REASON_NONE;
}

/* Rights of the QP count for any length; remote_check() looks at no key where no bytes are. */
static enum reason check_reth(const struct qp *qp, struct request *request,
			      const struct access *access)
{
	const struct packet *packet = request->packet;
	bool is_write = request_has(request, OPCODE_IS_WRITE);
	uint32_t rights = is_write ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;

	request->complaint.key = packet->reth.rkey;
	request->complaint.address = packet->reth.address;
	request->complaint.length = packet->reth.length;
	request->complaint.limit = 0;
	if (!(qp->access & rights))
		return is_write ? REASON_QP_NO_REMOTE_WRITE : REASON_QP_NO_REMOTE_READ;
	return remote_check(access, packet->reth.rkey, packet->reth.address, packet->reth.length,
			    rights, &request->complaint);
}

/* Where the next bytes of a WRITE go, from its RETH. */
static void start_write(struct rc_responder *responder, const struct packet *packet)
{
	responder->received = 0;
	responder->write_rkey = packet->reth.rkey;
	responder->write_iova = packet->reth.address;
	responder->write_left = packet->reth.length;
}

static enum reason execute_write(struct qp *qp, struct request *request,
				 const struct access *access, struct outbox *out)
{
	struct rc_responder *responder = &qp->responder;
	const struct packet *packet = request->packet;
	enum reason reason = REASON_NONE;

	if (request_has(request, OPCODE_STARTS)) {
		reason = check_reth(qp, request, access);
		if (reason != REASON_NONE)
			return reason;
		start_write(responder, packet);
	} else if (!(qp->access & IBV_ACCESS_REMOTE_WRITE)) {
		return REASON_QP_NO_REMOTE_WRITE;
	}
	if (packet->payload_bytes > 0)
		reason = remote_write(access, responder->write_rkey, responder->write_iova,
				      packet->payload, packet->payload_bytes, &request->complaint);
	if (reason != REASON_NONE)
		return reason;

	responder->received += packet->payload_bytes;
	responder->write_iova += packet->payload_bytes;
	responder->write_left -= packet->payload_bytes;
	responder->message = request_has(request, OPCODE_ENDS) ? MESSAGE_NONE : MESSAGE_WRITE;
	if (request_has(request, OPCODE_HAS_IMMEDIATE))
		complete_message(qp, request, out);
	return REASON_NONE;
}

static enum reason check_depth(const struct qp *qp, struct request *request)
{
	uint32_t depth = qp->attr.max_dest_rd_atomic;
	uint32_t count;

	if (depth > QP_RD_ATOMIC_MAX)
		depth = QP_RD_ATOMIC_MAX;
	/* A repeat of an answer that is long gone may be queued; the peer does not count it. */
	count = rc_replay_count(&qp->responder, false);
	if (count < depth)
		return REASON_NONE;
	request->complaint.length = count + 1;
	request->complaint.limit = depth;
	return REASON_READ_DEPTH;
}

/* A READ is executed by its answer, packet by packet; here it is only admitted. */
static enum reason execute_read(struct qp *qp, struct request *request, const struct access *access)
{
	const struct packet *packet = request->packet;
	enum reason reason = check_reth(qp, request, access);
	struct response response = rc_replay_read_response(qp, packet);

	if (reason == REASON_NONE)
		reason = check_depth(qp, request);
	if (reason == REASON_NONE)
		rc_replay_add(&qp->responder, &response);
	return reason;
}

static enum reason access_atomic(const struct access *access, struct request *request,
				 uint64_t *original)
{
	const struct packet *packet = request->packet;

	if (opcode_operation(packet->opcode) == OPCODE_COMPARE_SWAP)
		return remote_compare_swap(access, packet->atomic.rkey, packet->atomic.address,
					   packet->atomic.compare, packet->atomic.swap_or_add,
					   original, &request->complaint);
	return remote_fetch_add(access, packet->atomic.rkey, packet->atomic.address,
				packet->atomic.swap_or_add, original, &request->complaint);
}

static enum reason execute_atomic(struct qp *qp, struct request *request,
				  const struct access *access)
{
	struct rc_responder *responder = &qp->responder;
	struct saved_atomic saved = {.psn = request->packet->psn,
				     .msn = psn_add(responder->msn, 1)};
	struct response response;
	enum reason reason;

	request->complaint.key = request->packet->atomic.rkey;
	request->complaint.address = request->packet->atomic.address;
	request->complaint.length = sizeof(uint64_t);
	if (!(qp->access & IBV_ACCESS_REMOTE_ATOMIC))
		return REASON_QP_NO_REMOTE_ATOMIC;
	reason = check_depth(qp, request);
	if (reason == REASON_NONE)
		reason = access_atomic(access, request, &saved.original);
	if (reason != REASON_NONE)
		return reason;

	rc_replay_save_atomic(responder, &saved);
	response = rc_replay_atomic_response(&saved);
	rc_replay_add(responder, &response);
	return REASON_NONE;
}

/* --- refusal --- */

/* How the receive ends that was taken by a message that is refused (IBA 11.6.2). */
static enum ibv_wc_status receive_status(enum reason reason, const struct request *request)
{
	bool is_send = request_has(request, OPCODE_IS_SEND);

	if (reason == REASON_INVALIDATE_REFUSED)
		return IBV_WC_LOC_ACCESS_ERR;

	if (reason == REASON_RECV_TOO_SHORT || reason == REASON_MESSAGE_TOO_LONG)
		return IBV_WC_LOC_LEN_ERR;
	switch (rc_responder_syndrome(reason)) {
	case SYNDROME_NAK_REMOTE_ACCESS:
		return is_send ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_ACCESS_ERR;
	case SYNDROME_NAK_REMOTE_OPERATION:
		return is_send ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_QP_OP_ERR;
	default:
		return IBV_WC_REM_INV_REQ_ERR;
	}
}

static void refuse(struct qp *qp, struct request *request, enum reason reason, struct outbox *out)
{
	uint8_t syndrome = rc_responder_syndrome(reason);

	if (reason == REASON_RECV_QUEUE_EMPTY) {
		qp_count(qp, QP_OUT_OF_BUFFER);
		syndrome |= qp->attr.min_rnr_timer & 0x1f;
		rc_refuse_nak(&qp->responder, syndrome, request->packet->psn);
		return;
	}
	if (reason == REASON_DROP_LENT) {
		rc_refuse_nak(&qp->responder, syndrome, request->packet->psn);
		return;
	}
	request->complaint.reason = reason;
	request->complaint.qpn = qp->number;
	if (request->has_receive) {
		struct completion *completion = complete_receive(qp, request, out);

		completion->status = receive_status(reason, request);
		completion->complaint = request->complaint;
		/* The list of the receive is at fault, not what the peer asked for. */
		if (completion->status == IBV_WC_LOC_PROT_ERR)
			syndrome = SYNDROME_NAK_REMOTE_OPERATION;
	} else {
		rc_refuse_event(&qp->responder, syndrome);
	}
	rc_refuse_fatal(qp, syndrome, request->packet->psn, &request->complaint);
}

static enum qp_counter counter_of(const struct request *request)
{
	if (request_has(request, OPCODE_IS_SEND))
		return QP_RX_SEND_REQUESTS;
	if (request_has(request, OPCODE_IS_WRITE))
		return QP_RX_WRITE_REQUESTS;
	return request_has(request, OPCODE_IS_READ) ? QP_RX_READ_REQUESTS : QP_RX_ATOMIC_REQUESTS;
}

static void end_message(struct qp *qp, const struct request *request)
{
	qp->responder.msn = psn_add(qp->responder.msn, 1);
	qp_count(qp, counter_of(request));
}

static enum reason execute(struct qp *qp, struct request *request, const struct core *core,
			   struct outbox *out)
{
	struct access access = access_of(qp, core);

	access.pd = xrc_pd_of(qp, request->packet);
	if (request_has(request, OPCODE_IS_SEND)) {
		access.pd = receive_pd(qp);
		return execute_send(qp, request, &access, core, out);
	}
	if (request_has(request, OPCODE_IS_WRITE))
		return execute_write(qp, request, &access, out);
	if (request_has(request, OPCODE_IS_READ))
		return execute_read(qp, request, &access);
	return execute_atomic(qp, request, &access);
}

static inline enum reason check_and_execute(struct qp *qp, struct request *request,
					    const struct core *core, struct outbox *out)
{
	enum reason reason = check_opcode(qp, request);

	if (reason == REASON_NONE)
		reason = check_length(qp, request);
	if (reason == REASON_NONE)
		reason = check_srq(qp, request);
	if (reason == REASON_NONE)
		reason = take_receive(qp, request);
	if (reason == REASON_NONE)
		reason = execute(qp, request, core, out);
	if (reason == REASON_NONE && request_has(request, OPCODE_ENDS))
		end_message(qp, request);
	return reason;
}

static struct request request_of(const struct qp *qp, const struct packet *packet)
{
	return (struct request){.packet = packet,
				.properties = opcode_properties_of(packet->opcode),
				.has_receive = qp->responder.message == MESSAGE_SEND};
}

enum reason rc_execute(struct qp *qp, const struct packet *packet, const struct core *core,
		       struct outbox *out)
{
	struct request request = request_of(qp, packet);
	enum reason reason = check_and_execute(qp, &request, core, out);

	if (reason != REASON_NONE)
		refuse(qp, &request, reason, out);
	return reason;
}

enum reason rc_execute_uc(struct qp *qp, const struct packet *packet, const struct core *core,
			  struct outbox *out, struct complaint *complaint)
{
	struct request request = request_of(qp, packet);
	enum reason reason = check_and_execute(qp, &request, core, out);

	*complaint = request.complaint;
	return reason;
}
