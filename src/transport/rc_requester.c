/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: work requests to packets
 *
 * A WQE gets its PSNs when its first packet is about to be sent ("started"). From then
 * on packet and PSN determine each other, so nothing is kept per packet and going back
 * is only a matter of moving the cursor (send_position, send_psn).
 *
 *   psn_unacked <= send_psn <= psn_next          fewer than 2^23 apart
 *
 * Where the cursor stands at psn_next, packets are new; where it stands before, they are
 * repeated, except those that were acknowledged or answered meanwhile: the cursor steps
 * over them. A cursor that comes to the end of a WQE is moved to the next one at
 * once; send_position == started says that the next packet starts a WQE.
 *
 * A READ is asked for piece by piece, one request packet for many PSNs. Each request, and
 * each atomic, is an entry of reads[] until its answer is complete; a repeated request
 * starts at the cursor and ends where the entry ends.
 *
 * Output stops when the outbox is full (true: call again), when a window is closed
 * (flow, READ depth, 2^23 PSNs) or nothing may be sent: RNR wait, fence, SQD, a WQE that
 * has failed. The last packet of every call asks for an acknowledgement, so that a window
 * that closed is sure to open again and no ACK depends on a packet that is still to come.
 *
 * Binds and local invalidations have no packets (rc_local.c). They are executed when it is
 * their turn to be started, have no PSNs, and the cursor never stands at one.
 *
 * A long SEND between processes of one host may say where its payload lies instead of carrying it;
 * then one packet stands for many PSNs (rc_lent.c).
 *
 * What can be performed in the peer's memory is done when it would be started (rc_direct.c),
 * and then is like one of these. With nothing under way that is when it is posted, and needs no
 * output (rc_requester_perform()).
 *
 * A WQE whose memory is not what its keys promise is never started: it is marked and the
 * cursor stays in front of it until all before it is done and the completer reports it. A SEND
 * or WRITE of one packet is not looked at beforehand: its packet is not sent when that shows
 * (payload.c), and the cursor goes back in front of it.
 */
#include "base/assert.h"
#include "transport/counting.h"
#include "transport/message_packet.h"
#include "transport/rc.h"
#include "transport/rc_direct.h"
#include "transport/rc_lent.h"
#include "transport/rc_wqe.h"
#include "transport/xrc.h"

/* Distances between the PSNs of a requester stay positive as signed 24-bit numbers. */
#define OUTSTANDING_PACKETS_MAX (PSN_HALF - 1)

enum send_result { SEND_DONE, SEND_CLOSED };

/* One call of output. */
struct sending {
	struct qp *qp;
	const struct core *core;
	struct outbox *out;
	struct packet *last; /* the last packet of this call, NULL at first */
	bool has_outcomes;   /* local operations were done that nothing outstanding precedes */
};

static struct send_wqe *wqe_at_cursor(const struct qp *qp)
{
	return send_wqe_at(&qp->send_queue, qp->requester.send_position);
}

/* Where a packet comes from, or a new WQE. */
static void cursor_skip_local(struct qp *qp)
{
	while (qp->requester.send_position != qp->send_queue.started &&
	       rc_wqe_is_local(wqe_at_cursor(qp)))
		qp->requester.send_position++;
}

/* What lies before @end, within or at the end of @wqe, which is at the cursor, is charged. */
static void cursor_move(struct qp *qp, const struct send_wqe *wqe, uint32_t end)
{
	struct rc_requester *requester = &qp->requester;

	requester->send_psn = end;
	if (psn_forward(requester->psn_unacked, end) >
	    psn_forward(requester->psn_unacked, requester->psn_next))
		requester->psn_next = end;
	if (end == rc_wqe_end(wqe)) {
		requester->send_position++;
		cursor_skip_local(qp);
	}
}

/* The next @count PSNs are under way, by being sent or because there is no need to. */
static void cursor_advance(struct qp *qp, uint32_t count)
{
	struct rc_requester *requester = &qp->requester;
	uint32_t end = psn_add(requester->send_psn, count);

	pacing_charge(qp, requester->send_position, requester->send_psn, end);
	cursor_move(qp, wqe_at_cursor(qp), end);
}

static bool is_answered(const struct rc_requester *requester, uint32_t psn)
{
	uint32_t bit = psn_forward(requester->psn_unacked, psn);

	return bit < ANSWER_WINDOW && (requester->answered >> bit & 1);
}

/* PSNs at the cursor, within its WQE, that need not be sent again. */
static uint32_t settled_at_cursor(const struct qp *qp)
{
	const struct rc_requester *requester = &qp->requester;
	const struct send_wqe *wqe = wqe_at_cursor(qp);
	uint32_t left = psn_forward(requester->send_psn, rc_wqe_end(wqe));
	int32_t acked = psn_distance(requester->psn_acked, requester->send_psn);
	uint32_t count = 0;

	if (rc_wqe_wants_answers(wqe)) {
		while (count < left && is_answered(requester, psn_add(requester->send_psn, count)))
			count++;
		return count;
	}
	if (acked <= 0)
		return 0;
	return (uint32_t)acked < left ? (uint32_t)acked : left;
}

static void cursor_skip_settled(struct qp *qp)
{
	struct rc_requester *requester = &qp->requester;
	uint32_t count;

	while (requester->send_psn != requester->psn_next && !wqe_at_cursor(qp)->has_failed) {
		count = settled_at_cursor(qp);
		if (count == 0)
			return;
		cursor_advance(qp, count);
	}
}

/* --- starting a WQE --- */

static uint32_t read_depth(const struct qp *qp)
{
	return qp->attr.max_rd_atomic < QP_RD_ATOMIC_MAX ? qp->attr.max_rd_atomic
							 : QP_RD_ATOMIC_MAX;
}

static enum reason check_memory(const struct qp *qp, const struct send_wqe *wqe,
				const struct core *core, struct complaint *complaint)
{
	struct access access = access_of(qp, core);
	uint32_t rights = rc_wqe_wants_answers(wqe) ? IBV_ACCESS_LOCAL_WRITE : 0;

	if (wqe->is_inline)
		return REASON_NONE;
	return sge_check(&access, wqe->sge, wqe->sge_count, rights, complaint);
}

/* False: the WQE is marked as failed. */
static bool check_locally(struct qp *qp, struct send_wqe *wqe, const struct core *core)
{
	struct complaint complaint = {0};
	enum reason reason = check_memory(qp, wqe, core, &complaint);

	if (reason != REASON_NONE) {
		complaint.reason = reason;
		send_fail(qp, wqe, IBV_WC_LOC_PROT_ERR, &complaint);
	} else if (rc_wqe_wants_answers(wqe) && read_depth(qp) == 0) {
		complaint.reason = REASON_READ_DEPTH;
		send_fail(qp, wqe, IBV_WC_LOC_QP_OP_ERR, &complaint);
	}
	return !wqe->has_failed;
}

/* What goes into one packet is looked at when that is made. */
static bool is_checked_later(const struct qp *qp, const struct send_wqe *wqe)
{
	return !rc_wqe_wants_answers(wqe) && wqe->length <= qp->path.payload_max;
}

enum start_result { START_DONE, START_LOCAL, START_NOTHING, START_AGAIN, START_FAILED };

/* @wqe, the next to start, takes the next @count PSNs; whether it is lent was decided. */
static void start_packets(struct qp *qp, struct send_wqe *wqe, uint32_t count)
{
	wqe->first_psn = qp->requester.psn_next;
	wqe->psn_count = count;
	qp->send_queue.started++;
}

/* @wqe, the next to start, was executed without a packet. True: nothing before it is outstanding. */
static bool start_done(struct qp *qp, struct send_wqe *wqe)
{
	struct rc_requester *requester = &qp->requester;
	bool is_oldest = requester->unacked_position == qp->send_queue.started;

	wqe->first_psn = requester->psn_next;
	wqe->psn_count = 0;
	wqe->is_lent = false;
	if (is_oldest)
		requester->unacked_position++;
	requester->send_position = ++qp->send_queue.started;
	return is_oldest;
}

/* Its outcome is there when nothing before is outstanding. */
static enum start_result end_local(struct sending *sending, struct send_wqe *wqe)
{
	sending->has_outcomes |= start_done(sending->qp, wqe);
	return START_LOCAL;
}

/* Executed at once. */
static enum start_result start_local(struct sending *sending, struct send_wqe *wqe)
{
	struct qp *qp = sending->qp;
	struct complaint complaint = {0};

	switch (rc_local_execute(qp, wqe, sending->core, &complaint)) {
	case LOCAL_DONE:
		break;
	case LOCAL_WAITS:
		return START_NOTHING;
	case LOCAL_AGAIN:
		return START_AGAIN;
	case LOCAL_FAILED:
		send_fail(qp, wqe, IBV_WC_MW_BIND_ERR, &complaint);
		return START_FAILED;
	}
	return end_local(sending, wqe);
}

/* In SQD what is half done is brought to its end. */
static bool may_start(const struct qp *qp)
{
	return qp->state == IBV_QPS_RTS || rc_direct_is_under_way(qp);
}

static bool waits_for_reads(const struct qp *qp, const struct send_wqe *wqe)
{
	return (wqe->flags & IBV_SEND_FENCE) && qp->requester.read_count;
}

static enum start_result start_next(struct sending *sending)
{
	struct qp *qp = sending->qp;
	struct work_queue *queue = &qp->send_queue;
	struct send_wqe *wqe = send_wqe_at(queue, queue->started);

	if (queue->started == queue->posted || !may_start(qp) || wqe->has_failed)
		return START_NOTHING;
	if (waits_for_reads(qp, wqe))
		return START_NOTHING;
	if (rc_wqe_is_local(wqe))
		return start_local(sending, wqe);
	if (!is_checked_later(qp, wqe) && !check_locally(qp, wqe, sending->core))
		return START_FAILED;
	switch (rc_wqe_is_send(wqe) ? DIRECT_BY_PACKETS : rc_direct_step(qp, wqe, sending->core)) {
	case DIRECT_DONE:
		return end_local(sending, wqe);
	case DIRECT_LATER:
		return START_NOTHING;
	case DIRECT_SPOILED:
		return START_FAILED;
	case DIRECT_BY_PACKETS:
		break;
	}
	wqe->is_lent = rc_lent_is_due(qp, wqe);
	start_packets(qp, wqe, rc_wqe_is_atomic(wqe) ? 1 : rc_packet_count(qp, wqe->length));
	return START_DONE;
}

/* --- without output --- */

/* Nothing is under way, and all outcomes were told. */
static bool is_at_rest(const struct qp *qp)
{
	const struct work_queue *queue = &qp->send_queue;

	return qp->state == IBV_QPS_RTS && queue->done == queue->started &&
	       qp->requester.unacked_position == queue->started;
}

/* Atomics have outcomes besides success (rc_direct.c), and are left to output. */
static bool may_be_performed(const struct qp *qp, const struct send_wqe *wqe)
{
	if (wqe->has_failed || rc_wqe_is_atomic(wqe) || rc_wqe_is_send(wqe))
		return false;
	return !rc_wqe_is_read(wqe) || read_depth(qp) != 0;
}

bool rc_requester_perform(struct qp *qp, const struct core *core)
{
	struct work_queue *queue = &qp->send_queue;
	struct send_wqe *wqe = send_wqe_at(queue, queue->started);
	enum direct_result result;

	if (!qp->path.reach || queue->started == queue->posted || !is_at_rest(qp) ||
	    !may_be_performed(qp, wqe))
		return false;
	result = rc_direct_step(qp, wqe, core);
	wqe->goes_by_packets = result == DIRECT_BY_PACKETS;
	if (result != DIRECT_DONE)
		return false;
	start_done(qp, wqe);
	return true;
}

/* --- packets --- */

/* @packet bears @psn, which belongs to @wqe at @position. */
static void address_packet(struct sending *sending, struct packet_out *packet_out,
			   const struct send_wqe *wqe, uint32_t position, uint32_t psn)
{
	struct packet *packet = &packet_out->packet;

	packet->xrc_srqn = wqe->remote_srqn;
	packet->dest_qpn = sending->qp->attr.dest_qp_num;
	packet_out->wqe_position = position;
	if (psn != sending->qp->requester.psn_next)
		qp_count(sending->qp, QP_RETRANSMITTED_PKTS);
	sending->last = packet;
}

static struct packet_out *add_packet(struct sending *sending, uint32_t position,
				     enum opcode operation, uint32_t psn)
{
	struct packet_out *packet_out = outbox_add_packet(sending->out);
	struct packet *packet = &packet_out->packet;

	packet->opcode = opcode_byte(xrc_service_of(sending->qp), operation);
	packet->pkey = PKEY_DEFAULT;
	packet->psn = psn;
	address_packet(sending, packet_out, send_wqe_at(&sending->qp->send_queue, position),
		       position, psn);
	return packet_out;
}

/* A packet of a SEND or WRITE. */
static void add_message_packet(struct sending *sending, const struct send_wqe *wqe,
			       uint32_t position, uint32_t psn)
{
	struct packet_out *packet_out = outbox_add_packet(sending->out);

	message_packet_fill(packet_out, xrc_service_of(sending->qp), wqe, psn,
			    sending->qp->path.payload_max);
	address_packet(sending, packet_out, wqe, position, psn);
}

/* Asks for the answers [@psn, @psn + @count) of a READ. */
static void add_read_request(struct sending *sending, uint32_t position, uint32_t psn,
			     uint32_t count)
{
	const struct send_wqe *wqe = send_wqe_at(&sending->qp->send_queue, position);
	uint32_t payload_max = sending->qp->path.payload_max;
	uint32_t offset = rc_wqe_offset(wqe, psn, payload_max);
	uint32_t last_psn = psn_add(psn, count - 1);
	struct packet *packet = &add_packet(sending, position, OPCODE_READ_REQUEST, psn)->packet;

	packet->reth.address = wqe->remote_address + offset;
	packet->reth.rkey = wqe->rkey;
	packet->reth.length = rc_wqe_offset(wqe, last_psn, payload_max) +
			      rc_wqe_payload_bytes(wqe, last_psn, payload_max) - offset;
}

static void add_atomic_request(struct sending *sending, uint32_t position, uint32_t psn)
{
	const struct send_wqe *wqe = send_wqe_at(&sending->qp->send_queue, position);
	bool is_add = wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct packet *packet =
		&add_packet(sending, position, is_add ? OPCODE_FETCH_ADD : OPCODE_COMPARE_SWAP, psn)
			 ->packet;

	packet->atomic.address = wqe->remote_address;
	packet->atomic.rkey = wqe->rkey;
	packet->atomic.swap_or_add = is_add ? wqe->compare_add : wqe->swap;
	packet->atomic.compare = is_add ? 0 : wqe->compare_add;
}

/* --- asking for acknowledgements --- */

/* A quarter of the flow window may pass between two of them. */
static bool is_quarter_due(const struct qp *qp)
{
	int64_t bytes_max =
		atomic_load_explicit(&qp->path.outbound->bytes_max, memory_order_relaxed);
	int64_t quarter = bytes_max / 4;
	int64_t since = (int64_t)qp->requester.packets_since_ack_request *
			flow_packet_cost(qp->path.payload_max);

	return since >= quarter;
}

static void request_ack(struct sending *sending)
{
	sending->last->ack_requested = true;
	sending->qp->requester.packets_since_ack_request = 0;
}

/* The packet just added is new and asks for an acknowledgement. */
static void time_packet(struct sending *sending)
{
	struct rc_requester *requester = &sending->qp->requester;

	if (requester->rtt_is_timing)
		return;
	requester->rtt_is_timing = true;
	requester->rtt_psn = sending->last->psn;
	requester->rtt_sent = sending->core->now;
}

/* --- sending what is at the cursor --- */

static bool psns_have_room(const struct rc_requester *requester, uint32_t count)
{
	uint32_t until = psn_forward(requester->psn_unacked, requester->send_psn) + count;

	return until <= OUTSTANDING_PACKETS_MAX;
}

/* Packets of the path MTU would be as many as the PSNs that it takes. */
static enum send_result send_lent(struct sending *sending, const struct send_wqe *wqe)
{
	struct qp *qp = sending->qp;
	struct rc_requester *requester = &qp->requester;
	uint32_t psn = requester->send_psn, count = rc_lent_packets(qp, wqe);
	bool is_new = psn == requester->psn_next;
	struct packet_out *packet_out;

	if (!psns_have_room(requester, count) || !pacing_may_send(qp, FLOW_PACKET_COST_MIN))
		return SEND_CLOSED;
	packet_out = outbox_add_packet(sending->out);
	message_packet_fill_lent(packet_out, wqe, psn, qp->path.payload_max, count);
	address_packet(sending, packet_out, wqe, requester->send_position, psn);
	cursor_advance(qp, count);
	request_ack(sending);
	if (is_new)
		time_packet(sending);
	return SEND_DONE;
}

static enum send_result send_message_packet(struct sending *sending, const struct send_wqe *wqe)
{
	struct qp *qp = sending->qp;
	struct rc_requester *requester = &qp->requester;
	uint32_t psn = requester->send_psn;
	uint32_t cost = flow_packet_cost(rc_wqe_payload_bytes(wqe, psn, qp->path.payload_max));
	bool is_new = psn == requester->psn_next;
	bool is_last = psn_add(psn, 1) == rc_wqe_end(wqe);

	if (!psns_have_room(requester, 1) || !pacing_may_send(qp, cost))
		return SEND_CLOSED;
	add_message_packet(sending, wqe, requester->send_position, psn);
	pacing_charge_packet(qp, cost);
	cursor_move(qp, wqe, psn_add(psn, 1));
	requester->packets_since_ack_request++;
	if (is_last || is_quarter_due(qp)) {
		request_ack(sending);
		if (is_new)
			time_packet(sending);
	}
	return SEND_DONE;
}

static const struct read_outstanding *find_read(const struct rc_requester *requester, uint32_t psn)
{
	for (uint32_t i = 0; i < requester->read_count; i++)
		if (psn_is_within(psn, requester->reads[i].first_psn,
				  requester->reads[i].psn_count))
			return &requester->reads[i];
	return NULL;
}

/* How many answers the new request at the cursor asks for; 0 when it has to wait. */
static uint32_t new_request_packets(const struct qp *qp, const struct send_wqe *wqe)
{
	const struct rc_requester *requester = &qp->requester;
	uint32_t wanted = psn_forward(requester->send_psn, rc_wqe_end(wqe));
	uint32_t most = READ_REQUEST_BYTES_MAX / qp->path.payload_max;

	if (requester->read_count >= read_depth(qp))
		return 0;
	if (most == 0)
		most = 1;
	wanted = pacing_read_packets(qp, wanted < most ? wanted : most);
	return psns_have_room(requester, wanted) ? wanted : 0;
}

/*
 * A repeated request keeps its end: cut in two it might be more than the peer's depth
 * allows. Where the window is too small for all of it, it waits until nothing is charged.
 */
static uint32_t repeated_request_packets(const struct qp *qp, const struct read_outstanding *read)
{
	const struct rc_requester *requester = &qp->requester;
	uint32_t wanted =
		psn_forward(requester->send_psn, psn_add(read->first_psn, read->psn_count));

	if (requester->inbound_charged && pacing_read_packets(qp, wanted) < wanted)
		return 0;
	return wanted;
}

static enum send_result send_read_or_atomic(struct sending *sending, const struct send_wqe *wqe)
{
	struct qp *qp = sending->qp;
	struct rc_requester *requester = &qp->requester;
	uint32_t psn = requester->send_psn;
	const struct read_outstanding *repeated = find_read(requester, psn);
	uint32_t count = repeated ? repeated_request_packets(qp, repeated)
				  : new_request_packets(qp, wqe);

	if (count == 0 || !pacing_may_send(qp, FLOW_PACKET_COST_MIN))
		return SEND_CLOSED;
	if (rc_wqe_is_atomic(wqe))
		add_atomic_request(sending, requester->send_position, psn);
	else
		add_read_request(sending, requester->send_position, psn, count);
	request_ack(sending);
	if (!repeated) {
		requester->reads[requester->read_count++] =
			(struct read_outstanding){.first_psn = psn, .psn_count = count};
		time_packet(sending);
	}
	cursor_advance(qp, count);
	return SEND_DONE;
}

/* --- the probe --- */

/* The last request packet again: of a READ, from the first answer that is missing. */
static void send_probe(struct sending *sending)
{
	const struct qp *qp = sending->qp;
	const struct rc_requester *requester = &qp->requester;
	uint32_t psn = psn_add(requester->send_psn, PSN_MASK);
	uint32_t position = requester->unacked_position;
	const struct send_wqe *wqe = send_wqe_at(&qp->send_queue, position);
	const struct read_outstanding *read = find_read(requester, psn);
	uint32_t first;

	while (!psn_is_within(psn, wqe->first_psn, wqe->psn_count))
		wqe = send_wqe_at(&qp->send_queue, ++position);
	if (!rc_wqe_wants_answers(wqe)) {
		add_message_packet(sending, wqe, position, psn);
	} else if (rc_wqe_is_atomic(wqe)) {
		add_atomic_request(sending, position, psn);
	} else {
		VBN_ASSERT(read);
		first = read->first_psn;
		if (psn_is_before(first, requester->psn_unacked))
			first = requester->psn_unacked;
		while (first != psn && is_answered(requester, first))
			first = psn_add(first, 1);
		add_read_request(sending, position, first, psn_forward(first, psn) + 1);
	}
	request_ack(sending);
}

/* --- output --- */

static enum send_result send_at_cursor(struct sending *sending, const struct send_wqe *wqe)
{
	if (rc_wqe_wants_answers(wqe))
		return send_read_or_atomic(sending, wqe);
	return wqe->is_lent ? send_lent(sending, wqe) : send_message_packet(sending, wqe);
}

/* Sends until something stops it; true when qp_output() is to be called again. */
static bool send_all(struct sending *sending)
{
	struct qp *qp = sending->qp;
	struct rc_requester *requester = &qp->requester;
	const struct send_wqe *wqe;
	enum send_result result = SEND_DONE;

	while (result == SEND_DONE) {
		cursor_skip_settled(qp);
		if (requester->send_position == qp->send_queue.started) {
			enum start_result start = start_next(sending);

			if (start == START_LOCAL)
				continue;
			if (start != START_DONE)
				return start != START_NOTHING;
		}
		wqe = wqe_at_cursor(qp);
		if (wqe->has_failed)
			return false;
		if (outbox_packets_room(sending->out) == 0)
			return true;
		result = send_at_cursor(sending, wqe);
	}
	return false;
}

bool rc_requester_output(struct qp *qp, const struct core *core, struct outbox *out)
{
	struct rc_requester *requester = &qp->requester;
	struct sending sending = {.qp = qp, .core = core, .out = out};
	bool has_more;

	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return false;
	if (requester->rnr_deadline != VBN_TIME_NEVER)
		return false;
	if (requester->probe_is_due) {
		if (outbox_packets_room(out) == 0)
			return true;
		requester->probe_is_due = false;
		send_probe(&sending);
	}
	has_more = send_all(&sending) || sending.has_outcomes;
	if (!sending.last)
		return has_more;
	if (!sending.last->ack_requested)
		request_ack(&sending);
	rc_retry_sent(qp, core);
	return has_more;
}

/* The next packet is the first of a WQE, and nothing has to be waited for or asked. */
static bool is_at_new_wqe(const struct qp *qp)
{
	const struct rc_requester *requester = &qp->requester;

	return requester->send_psn == requester->psn_next &&
	       requester->send_position == qp->send_queue.started &&
	       requester->rnr_deadline == VBN_TIME_NEVER && !requester->probe_is_due;
}

bool rc_requester_has_one_packet(const struct qp *qp)
{
	const struct work_queue *queue = &qp->send_queue;
	const struct send_wqe *wqe = send_wqe_at(queue, queue->started);

	return queue->posted - queue->started == 1 && is_at_new_wqe(qp) && !rc_wqe_is_local(wqe) &&
	       is_checked_later(qp, wqe) && !wqe->has_failed && !waits_for_reads(qp, wqe) &&
	       !rc_lent_is_due(qp, wqe) && (rc_wqe_is_send(wqe) || !rc_direct_may_be(qp, wqe)) &&
	       psns_have_room(&qp->requester, 1) &&
	       pacing_may_send(qp, flow_packet_cost(wqe->length));
}

void rc_requester_output_one_packet(struct qp *qp, const struct core *core, struct outbox *out)
{
	struct sending sending = {.qp = qp, .core = core, .out = out};
	uint32_t position = qp->send_queue.started, psn = qp->requester.send_psn;
	struct send_wqe *wqe = send_wqe_at(&qp->send_queue, position);

	wqe->is_lent = false;
	start_packets(qp, wqe, 1);
	add_message_packet(&sending, wqe, position, psn);
	pacing_charge_packet(qp, flow_packet_cost(wqe->length));
	cursor_move(qp, wqe, psn_add(psn, 1));
	request_ack(&sending);
	rc_retry_sent(qp, core);
}

void rc_requester_fail_wqe(struct qp *qp, uint32_t position, uint32_t psn,
			   enum ibv_wc_status status, const struct complaint *complaint)
{
	struct send_wqe *wqe = send_wqe_at(&qp->send_queue, position);

	VBN_ASSERT(psn_is_within(psn, wqe->first_psn, wqe->psn_count));
	send_fail(qp, wqe, status, complaint);
	rc_retry_go_back(qp, psn);
}
