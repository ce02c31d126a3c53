/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: sending datagrams
 *
 * A request is one packet, and is done when the packet was handed to the link: nobody
 * acknowledges it. Where it goes is in the request, not in the QP: the number of the peer and
 * its Q_Key here, the address with whoever posted (the engine finds it by the position of the
 * request in the ring).
 *
 * The Q_Key that travels is the one of the request, unless its top bit is set: then it is the
 * QP's own (IBA 10.2.5). Such keys belong to privileged QPs, and a program cannot send one that
 * its QP was not given.
 *
 * [done, started) is what was handed out by the call before: its payload has been copied, since
 * the caller does so before it calls again, and completes now, with the others in order. A
 * payload that could not be copied fails its request, and takes back those behind it, which did
 * not leave.
 *
 * A failed request stops the send queue and nothing else (IBA 10.3.1.7): the QP goes to SQE,
 * what is posted is flushed, receiving goes on. The program brings it back to RTS.
 */
#include "transport/ud.h"

#include "base/assert.h"
#include "transport/message_packet.h"
#include "transport/service.h"

#define QPN_MASK 0xffffffu
#define QKEY_IS_THE_QPS 0x80000000u

static uint32_t qkey_of(const struct qp *qp, const struct send_wqe *wqe)
{
	return wqe->remote_qkey & QKEY_IS_THE_QPS ? qp->attr.qkey : wqe->remote_qkey;
}

static void start(struct qp *qp, struct outbox *out)
{
	uint32_t position = qp->send_queue.started++;
	struct send_wqe *wqe = send_wqe_at(&qp->send_queue, position);
	struct packet_out *packet = outbox_add_packet(out);

	wqe->first_psn = qp->requester.psn_next;
	wqe->psn_count = 1;
	qp->requester.psn_next = rc_wqe_end(wqe);
	message_packet_fill(packet, SERVICE_UD, wqe, wqe->first_psn, qp->path.payload_max);
	packet->wqe_position = position;
	packet->packet.dest_qpn = wqe->remote_qpn & QPN_MASK;
	packet->packet.deth.qkey = qkey_of(qp, wqe);
	packet->packet.deth.source_qpn = qp->number;
}

/* True: the outbox is full. */
static bool complete_handed_out(struct qp *qp, struct outbox *out)
{
	struct work_queue *queue = &qp->send_queue;

	while (queue->done != queue->started) {
		const struct send_wqe *wqe = send_wqe_at(queue, queue->done);

		if (wqe->is_signalled || wqe->has_failed) {
			if (!outbox_completions_room(out))
				return true;
			send_complete(qp, wqe, out);
		}
		queue->done++;
		if (wqe->has_failed)
			qp_fail_sends(qp, &wqe->complaint);
	}
	return false;
}

bool ud_send_output(struct qp *qp, const struct core *core, struct outbox *out)
{
	struct work_queue *queue = &qp->send_queue;
	uint32_t left = core->paces_datagrams ? core->datagrams_max : UINT32_MAX;

	if (complete_handed_out(qp, out))
		return true;
	for (; left && qp->state == IBV_QPS_RTS && queue->started != queue->posted &&
	       outbox_packets_room(out);
	     left--)
		start(qp, out);
	qp_report_drained(qp, out);
	return queue->done != queue->started;
}

void ud_send_failed(struct qp *qp, const struct packet_out *packet,
		    const struct complaint *complaint)
{
	struct work_queue *queue = &qp->send_queue;

	VBN_ASSERT(packet->wqe_position - queue->done < queue->started - queue->done);
	send_fail(qp, send_wqe_at(queue, packet->wqe_position), IBV_WC_LOC_PROT_ERR, complaint);
	queue->started = packet->wqe_position + 1;
	qp->requester.psn_next = packet->packet.psn;
}
