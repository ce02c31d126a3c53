/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: sending without acknowledgements
 *
 * A request takes the same packets as on a reliable connection, each leaves once, and the
 * request is done when its last packet was handed to the link.
 *
 *   done <= send_position <= started
 *
 * [done, send_position) was handed out whole by the calls before: its payload has been copied,
 * since the caller does so before it calls again, and completes now. At send_position stands
 * the request whose packets leave next. A payload that cannot be copied fails its request,
 * and takes back those behind it, which did not leave; the peer sees a message without an
 * end and forgets it. A failed request stops the send queue and nothing else (SQE).
 *
 * When a packet may leave is said by flow_pace.h, since nobody says that one has arrived.
 */
#include "transport/uc.h"

#include "base/assert.h"
#include "base/psn.h"
#include "transport/message_packet.h"
#include "transport/rc.h"
#include "transport/service.h"

vbn_time uc_send_next_deadline(const struct qp *qp)
{
	return qp->uc_again_at;
}

/* --- requests --- */

/* Nothing of it is sent: it is over at once, well or not. */
static void execute_local(struct qp *qp, struct send_wqe *wqe, const struct core *core)
{
	struct complaint complaint = {0};
	enum local_result result = rc_local_execute(qp, wqe, core, &complaint);

	if (result == LOCAL_AGAIN)
		return;
	VBN_ASSERT(result != LOCAL_WAITS);
	wqe->first_psn = qp->requester.psn_next;
	wqe->psn_count = 0;
	if (result == LOCAL_FAILED)
		send_fail(qp, wqe, IBV_WC_MW_BIND_ERR, &complaint);
	qp->send_queue.started++;
	qp->requester.send_position++;
}

/* False: there is none, or it has no packets (any more). */
static bool start_next(struct qp *qp, const struct core *core)
{
	struct work_queue *queue = &qp->send_queue;
	struct send_wqe *wqe = send_wqe_at(queue, queue->started);
	struct access access = access_of(qp, core);
	struct complaint complaint = {0};

	if (queue->started == queue->posted || qp->state != IBV_QPS_RTS)
		return false;
	if (rc_wqe_is_local(wqe)) {
		/* What was handed out may yet fail, and take back what stands behind it. */
		if (queue->done == qp->requester.send_position)
			execute_local(qp, wqe, core);
		return false;
	}
	queue->started++;
	wqe->first_psn = qp->requester.psn_next;
	wqe->psn_count = rc_packet_count(qp, wqe->length);
	if (!wqe->is_inline)
		complaint.reason = sge_check(&access, wqe->sge, wqe->sge_count, 0, &complaint);
	if (complaint.reason == REASON_NONE)
		return true;
	send_fail(qp, wqe, IBV_WC_LOC_PROT_ERR, &complaint);
	qp->requester.send_position++;
	return false;
}

/* True: the outbox is full. */
static bool complete_handed_out(struct qp *qp, struct outbox *out)
{
	struct work_queue *queue = &qp->send_queue;

	while (queue->done != qp->requester.send_position) {
		const struct send_wqe *wqe = send_wqe_at(queue, queue->done);

		if (wqe->is_signalled || wqe->has_failed) {
			if (!outbox_completions_room(out))
				return true;
			send_complete(qp, wqe, out);
		}
		queue->done++;
		if (wqe->has_failed && qp->state != IBV_QPS_ERR)
			qp_fail_sends(qp, &wqe->complaint);
	}
	return false;
}

/* --- packets --- */

static void add_packet(struct qp *qp, const struct send_wqe *wqe, struct outbox *out)
{
	struct rc_requester *requester = &qp->requester;
	struct packet_out *packet = outbox_add_packet(out);
	uint32_t psn = requester->psn_next;

	message_packet_fill(packet, SERVICE_UC, wqe, psn, qp->path.payload_max);
	packet->packet.dest_qpn = qp->attr.dest_qp_num;
	packet->wqe_position = requester->send_position;
	requester->psn_next = psn_add(psn, 1);
	requester->send_psn = requester->psn_next;
	if (requester->psn_next == rc_wqe_end(wqe))
		requester->send_position++;
}

/*
 * False: uc_again_at says when to ask again. Where nothing can be lost, and nobody shows what he has
 * taken, the link keeps whatever it is given.
 */
static bool may_leave(struct qp *qp, const struct send_wqe *wqe, const struct core *core)
{
	uint32_t bytes = rc_wqe_payload_bytes(wqe, qp->requester.psn_next, qp->path.payload_max);

	if (qp->path.is_lossless && !flow_served_at(qp->path.outbound))
		return true;
	return flow_pace_admit(qp->path.outbound, flow_packet_cost(bytes), core->now,
			       &qp->uc_again_at);
}

/* True: the outbox is full. */
static bool send_all(struct qp *qp, const struct core *core, struct outbox *out)
{
	struct rc_requester *requester = &qp->requester;
	struct work_queue *queue = &qp->send_queue;

	for (;;) {
		const struct send_wqe *wqe;

		if (requester->send_position == queue->started && !start_next(qp, core))
			return false;
		if (!outbox_packets_room(out))
			return true;
		wqe = send_wqe_at(queue, requester->send_position);
		if (!may_leave(qp, wqe, core))
			return false;
		add_packet(qp, wqe, out);
	}
}

/* It was left for the next call, when all before it is done or its window is not in use. */
static bool local_is_next(const struct qp *qp)
{
	const struct work_queue *queue = &qp->send_queue;

	return qp->state == IBV_QPS_RTS && queue->started != queue->posted &&
	       qp->requester.send_position == queue->started &&
	       rc_wqe_is_local(send_wqe_at(queue, queue->started));
}

bool uc_send_output(struct qp *qp, const struct core *core, struct outbox *out)
{
	bool is_full;

	if (complete_handed_out(qp, out))
		return true;
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return false;
	qp->uc_again_at = VBN_TIME_NEVER;
	is_full = send_all(qp, core, out);
	qp_report_drained(qp, out);
	return is_full || qp->send_queue.done != qp->requester.send_position || local_is_next(qp);
}

void uc_send_failed(struct qp *qp, const struct packet_out *packet,
		    const struct complaint *complaint)
{
	struct work_queue *queue = &qp->send_queue;

	VBN_ASSERT(packet->wqe_position - queue->done < queue->started - queue->done);
	send_fail(qp, send_wqe_at(queue, packet->wqe_position), IBV_WC_LOC_PROT_ERR, complaint);
	queue->started = packet->wqe_position + 1;
	qp->requester.send_position = queue->started;
	qp->requester.psn_next = packet->packet.psn;
	qp->requester.send_psn = packet->packet.psn;
}
