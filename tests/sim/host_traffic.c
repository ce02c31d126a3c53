/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets in, packets and completions out, deadlines: the busy half of a host. */
#include <string.h>

#include "base/assert.h"
#include "sim/copy.h"
#include "sim/host.h"
#include "transport/counting.h"
#include "wire/icrc.h"
#include "wire/lent.h"

/* More calls than any honest output needs; a transport that never rests is found. */
#define OUTPUT_ROUNDS_MAX 20000
#define DEADLINES_AT_ONCE_MAX 50
/* No requester waits less for an answer. What waits longer at a slow host is late, as if lost. */
#define PATIENCE (10 * VBN_MILLISECOND)

static const struct copier copier = {sim_copy, sim_fetch_add, sim_compare_swap};

struct core host_core(struct host *host)
{
	return (struct core){.now = host->world->now,
			     .memory = &host->memory,
			     .copier = &copier,
			     .holds = &host->holds};
}

static struct trace_place place_of(const struct host_qp *qp)
{
	return (struct trace_place){qp->host->world->now, qp->host->index, qp->index};
}

#define EACH_OBSERVER(world, call, ...) \
	for (uint32_t i_ = 0; i_ < (world)->observer_count; i_++) \
		if ((world)->observers[i_].call) \
	(world)->observers[i_].call((world)->observers[i_].context, __VA_ARGS__)

void host_datagram_header(uint32_t from, uint32_t to, uint8_t header[GRH_BYTES])
{
	const uint8_t ipv4[20] = {0x45,
				  [8] = 64,
				  [9] = 17,
				  [12] = 10,
				  [15] = (uint8_t)(from + 1),
				  [16] = 10,
				  [19] = (uint8_t)(to + 1)};

	memset(header, 0, GRH_BYTES - sizeof(ipv4));
	memcpy(header + GRH_BYTES - sizeof(ipv4), ipv4, sizeof(ipv4));
}

/* 10.0.0.1 is host a. */
static struct icrc_envelope envelope_of(const struct datagram *datagram)
{
	return (struct icrc_envelope){
		.source = {10, 0, 0, (uint8_t)(datagram->from + 1)},
		.destination = {10, 0, 0, (uint8_t)(datagram->to + 1)},
		.dont_fragment = true,
		.source_port = 49152,
	};
}

/* Headers, of whole words, and payload are in place; pads, protects and sends. */
static void seal_and_send(struct host *host, struct datagram *datagram, uint32_t to)
{
	uint32_t bytes = datagram->length;
	uint32_t pad = packet_pad_bytes(bytes);
	struct icrc_envelope envelope;

	memset(datagram->bytes + bytes, 0, pad);
	bytes += pad;
	datagram->from = host->index;
	datagram->to = to;
	datagram->length = bytes + ICRC_BYTES;
	envelope = envelope_of(datagram);
	icrc_store(datagram->bytes + bytes, icrc_compute(&envelope, datagram->bytes, bytes));
	link_send(host->world, datagram);
}

void host_send_forged(struct host *host, uint32_t to, const struct packet *packet, bool is_lent)
{
	struct datagram *datagram = world_datagram(host->world);
	size_t header_bytes = packet_emit_header(packet, datagram->bytes);

	datagram->is_hostile = true;
	datagram->is_lent = is_lent;
	datagram->length = (uint32_t)header_bytes + packet->payload_bytes;
	if (packet->payload_bytes)
		memcpy(datagram->bytes + header_bytes, packet->payload, packet->payload_bytes);
	seal_and_send(host, datagram, to);
}

static uint32_t destination_of(const struct host_qp *qp, const struct packet_out *out)
{
	return qp_is_datagram(qp->qp) ? qp->destinations[out->wqe_position % HOST_SENDS_MAX]
				      : qp->peer_host;
}

static enum reason emit_carried(struct host_qp *qp, const struct packet_out *out,
				struct datagram *datagram, struct complaint *complaint)
{
	struct core core = host_core(qp->host);
	uint32_t header_bytes = (uint32_t)packet_emit_header(&out->packet, datagram->bytes);

	datagram->length = header_bytes + out->packet.payload_bytes;
	return payload_copy(qp->qp, out, &core, datagram->bytes + header_bytes, complaint);
}

/* @packet becomes what a receiver makes of it. */
static enum reason emit_lent(struct host_qp *qp, const struct packet_out *out,
			     struct packet *packet, struct datagram *datagram,
			     struct complaint *complaint)
{
	struct core core = host_core(qp->host);
	struct lent_payload lent;
	enum reason reason = payload_lend(qp->qp, out, &core, &lent, complaint);
	uint32_t header_bytes;

	if (reason != REASON_NONE)
		return reason;
	packet->payload_bytes = LENT_BYTES;
	header_bytes = (uint32_t)packet_emit_header(packet, datagram->bytes);
	packet->payload = datagram->bytes + header_bytes;
	lent_emit(&lent, datagram->bytes + header_bytes);
	datagram->length = header_bytes + LENT_BYTES;
	datagram->is_lent = true;
	if (!lent_parse(packet))
		world_fail(qp->host->world, "lent", "a packet of which nobody can make sense");
	return REASON_NONE;
}

/* False: the payload cannot be read, and the rest of the outbox's packets are stale. */
static bool send_packet(struct host_qp *qp, const struct packet_out *out)
{
	struct host *host = qp->host;
	struct trace_place place = place_of(qp);
	struct datagram *datagram = world_datagram(host->world);
	struct packet packet = out->packet;
	struct core core = host_core(host);
	struct complaint complaint;
	enum reason reason = out->payload.kind == PAYLOAD_LENT
				     ? emit_lent(qp, out, &packet, datagram, &complaint)
				     : emit_carried(qp, out, datagram, &complaint);

	trace_packet(&host->world->trace, &place, "send", &packet, reason);
	if (reason != REASON_NONE) {
		world_datagram_free(host->world, datagram);
		return qp_payload_failed(qp->qp, out, &complaint, &core);
	}
	EACH_OBSERVER(host->world, sent, qp, &packet);
	seal_and_send(host, datagram, destination_of(qp, out));
	return true;
}

static void push_completion(struct host_qp *qp, const struct completion *completion)
{
	struct host_cq *cq = completion->is_receive ? qp->recv_cq : qp->send_cq;
	struct cq_entry entry = cq_entry_of(completion, qp, qp->qp->number, 0);
	struct trace_place place = place_of(qp);

	trace_completion(&qp->host->world->trace, &place, completion);
	EACH_OBSERVER(qp->host->world, completed, qp, completion);
	switch (completion_queue_push(&cq->queue, &entry)) {
	case CQ_PUSHED:
	case CQ_PUSHED_HOLD:
	case CQ_PUSHED_NOTIFY:
		break;
	case CQ_OVERRUN_FIRST:
	case CQ_OVERRUN_AGAIN:
		world_fail(qp->host->world, "completion", "more completions than slots");
		break;
	}
	EACH_OBSERVER(qp->host->world, cq_has_entries, cq);
}

static const char *event_name(enum ibv_event_type event)
{
	switch ((int)event) {
	case IBV_EVENT_QP_FATAL:
		return "QP_FATAL";
	case IBV_EVENT_QP_REQ_ERR:
		return "QP_REQ_ERR";
	case IBV_EVENT_QP_ACCESS_ERR:
		return "QP_ACCESS_ERR";
	case IBV_EVENT_COMM_EST:
		return "COMM_EST";
	case IBV_EVENT_SQ_DRAINED:
		return "SQ_DRAINED";
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return "LAST_WQE_REACHED";
	default:
		return "an event of no QP";
	}
}

/* Carries out what stands in the outbox and empties it. False: a payload failed, which is news. */
static bool carry_out(struct host_qp *qp, struct outbox *out)
{
	struct world *world = qp->host->world;
	struct trace_place place = place_of(qp);

	bool is_good = true;

	for (uint32_t i = 0; i < out->packet_count && is_good; i++)
		is_good = send_packet(qp, &out->packets[i]);
	for (uint32_t i = 0; i < out->completion_count; i++)
		push_completion(qp, &out->completions[i]);
	for (uint32_t i = 0; i < out->event_count; i++) {
		trace_note(&world->trace, &place, "event    %s", event_name(out->events[i]));
		EACH_OBSERVER(world, event, qp, out->events[i]);
	}
	outbox_clear(out);
	return is_good;
}

static void run_timer(struct world *world, void *subject, uint64_t argument);

static void set_timer(struct host_qp *qp)
{
	struct world *world = qp->host->world;
	vbn_time next = vbn_time_min(qp_next_deadline(qp->qp), qp_ack_deadline(qp->qp));
	vbn_time due;

	if (next == VBN_TIME_NEVER) {
		qp->timer = VBN_TIME_NEVER;
		return;
	}
	due = vbn_time_add(next > world->now ? next : world->now, qp->host->limits.timer_slack_ns);
	if (due == qp->timer)
		return;
	qp->timer = due;
	world_schedule(world, due, run_timer, qp, due);
}

/* Every second of those that are one packet: then qp_output() finds nothing more to do. */
static bool goes_shortly(const struct host_qp *qp, const struct core *core)
{
	return !core->may_hold_ack && qp_has_one_packet(qp->qp) &&
	       qp->qp->send_queue.posted % 2 == 0;
}

static bool output_shortly(struct host_qp *qp, const struct core *core, struct outbox *out)
{
	struct outbox_mark mark;
	bool has_more;

	qp_output_one_packet(qp->qp, core, out);
	mark = outbox_mark(out);
	has_more = qp_output(qp->qp, core, out);
	if (has_more || out->packet_count != mark.packet_count ||
	    out->completion_count != mark.completion_count || out->event_count)
		world_fail(qp->host->world, "rest", "a QP had more to send than one packet");
	return has_more;
}

/* A QP that rests has nothing to say but an ACK, if it owes one. */
static bool output_checked(struct host_qp *qp, const struct core *core, struct outbox *out)
{
	bool rests = qp_rests(qp->qp);
	struct outbox_mark mark = outbox_mark(out);
	uint32_t packets_max = mark.packet_count + qp_owes_ack(qp->qp);
	uint32_t event_count = out->event_count;
	vbn_time deadline = qp_next_deadline(qp->qp);
	bool has_more = qp_output(qp->qp, core, out);

	if (rests && (has_more || out->packet_count > packets_max ||
		      out->completion_count > mark.completion_count ||
		      out->event_count > event_count || qp_next_deadline(qp->qp) < deadline))
		world_fail(qp->host->world, "rest", "a QP that rests had something to do");
	return has_more;
}

/* Output after the outbox holds what qp_receive() left there; an ACK may stay if @may_hold_ack. */
static void finish_output(struct host_qp *qp, bool may_hold_ack)
{
	struct host *host = qp->host;
	struct core core = host_core(host);
	struct outbox *out = &host->world->outbox;
	uint32_t rounds = 0;
	bool has_more;

	core.may_hold_ack = may_hold_ack;
	core.paces_datagrams = host->limits.datagram_batch;
	core.datagrams_max = host->limits.datagram_batch;
	do {
		has_more = goes_shortly(qp, &core) ? output_shortly(qp, &core, out)
						   : output_checked(qp, &core, out);
		has_more |= !carry_out(qp, out);
		if (++rounds > OUTPUT_ROUNDS_MAX) {
			world_fail(host->world, "deadline", "output never ends");
			return;
		}
	} while (has_more);
	set_timer(qp);
	EACH_OBSERVER(host->world, rests, qp);
}

void host_qp_output(struct host_qp *qp)
{
	outbox_clear(&qp->host->world->outbox);
	finish_output(qp, false);
}

static void run_timer(struct world *world, void *subject, uint64_t argument)
{
	struct host_qp *qp = subject;
	struct core core = host_core(qp->host);
	struct trace_place place = place_of(qp);

	/* Only the event of the newest setting counts. */
	if (!qp->qp || qp->timer != argument)
		return;
	qp->timer = VBN_TIME_NEVER;
	trace_note(&world->trace, &place, "deadline");
	outbox_clear(&world->outbox);
	EACH_OBSERVER(world, before_deadline, qp);
	qp_deadline(qp->qp, &core);
	EACH_OBSERVER(world, after_deadline, qp);
	finish_output(qp, false);
	qp->deadlines_at_once = qp->timer == world->now ? qp->deadlines_at_once + 1 : 0;
	if (qp->deadlines_at_once > DEADLINES_AT_ONCE_MAX)
		world_fail(world, "deadline", "a deadline that has passed stays");
}

/* Whether the program is told of this batch and may answer it. */
static bool draws_hold(struct host *host)
{
	return host->limits.ack_hold_percent &&
	       random_below(&host->world->random, 100) < host->limits.ack_hold_percent;
}

static struct host_qp *find_qp(struct host *host, uint32_t number, uint32_t from)
{
	for (uint32_t i = 0; i < host->qp_count; i++)
		if (host->qps[i].qp && host->qps[i].qp->number == number)
			return qp_is_datagram(host->qps[i].qp) || host->qps[i].peer_host == from
				       ? &host->qps[i]
				       : NULL;
	return NULL;
}

static bool is_intact(struct host *host, const struct datagram *datagram)
{
	struct icrc_envelope envelope = envelope_of(datagram);
	size_t bytes = datagram->length - ICRC_BYTES;
	bool is_right = icrc_compute(&envelope, datagram->bytes, bytes) ==
			icrc_load(datagram->bytes + bytes);

	if (is_right == datagram->is_corrupted)
		world_fail(host->world, "icrc",
			   is_right ? "takes a corrupted packet for good"
				    : "takes a good packet for corrupted");
	return is_right;
}

/* Feeds one datagram; *@qp_of_output is the QP whose outbox is being filled. */
static void feed(struct host *host, const struct datagram *datagram, struct host_qp **qp_of_output)
{
	struct world *world = host->world;
	struct core core = host_core(host);
	struct trace_place place = {world->now, host->index, TRACE_NO_QP};
	struct datagram_source source = {.has_header = true};
	struct packet packet;
	struct host_qp *qp;
	enum reason reason;

	if (!is_intact(host, datagram)) {
		world->last_loss = world->now;
		trace_note(&world->trace, &place, "drop     (%s)",
			   reason_counter_name(REASON_DROP_ICRC));
		return;
	}
	reason = datagram_parse(datagram, &packet);
	qp = reason == REASON_NONE ? find_qp(host, packet.dest_qpn, datagram->from) : NULL;
	if (!qp) {
		reason = reason == REASON_NONE ? REASON_DROP_NO_QP : reason;
		trace_note(&world->trace, &place, "drop     (%s)", reason_counter_name(reason));
		return;
	}
	if (*qp_of_output && *qp_of_output != qp)
		finish_output(*qp_of_output, draws_hold(host));
	if (*qp_of_output != qp)
		outbox_clear(&world->outbox);
	*qp_of_output = qp;
	/* What nobody repeats is not held for lack of room, so that there must be some. */
	if (qp_is_unreliable(qp->qp) && !outbox_completions_room(&world->outbox))
		carry_out(qp, &world->outbox);
	place = place_of(qp);
	host_datagram_header(datagram->from, datagram->to, source.header);
	core.source = &source;
	world->packet_is_hostile = datagram->is_hostile;
	reason = qp_receive(qp->qp, &packet, &core, &world->outbox);
	trace_packet(&world->trace, &place, "receive", &packet, reason);
	EACH_OBSERVER(world, received, qp, &packet, reason);
}

static void wake(struct world *world, void *subject, uint64_t argument)
{
	struct host *host = subject;
	struct host_qp *qp_of_output = NULL;

	(void)argument;
	host->is_waking = false;
	for (uint32_t i = 0; i < host->limits.receive_batch && host->oldest; i++) {
		struct datagram *datagram = host->oldest;

		host->oldest = datagram->next;
		host->waiting_bytes -= datagram->length;
		if (world->now - datagram->arrived_at > PATIENCE)
			world->last_loss = world->now;
		feed(host, datagram, &qp_of_output);
		world_datagram_free(world, datagram);
	}
	if (qp_of_output)
		finish_output(qp_of_output, draws_hold(host));
	if (!host->oldest)
		atomic_store(&host->served_at, world->now + 1);
	if (host->oldest && !host->is_waking) {
		host->is_waking = true;
		world_schedule(world, world->now + host->limits.wake_ns, wake, host, 0);
	}
}

void host_take_in(struct host *host, struct datagram *datagram)
{
	struct world *world = host->world;
	uint32_t max = host->limits.receive_bytes_max;
	struct trace_place place = {world->now, host->index, TRACE_NO_QP};

	if (max && host->waiting_bytes + datagram->length > max) {
		trace_note(&world->trace, &place, "overflow of the receive buffer");
		world->last_loss = world->now;
		world_datagram_free(world, datagram);
		return;
	}
	datagram->arrived_at = world->now;
	if (host->oldest)
		host->newest->next = datagram;
	else
		host->oldest = datagram;
	host->newest = datagram;
	datagram->next = NULL;
	host->waiting_bytes += datagram->length;
	if (!host->is_waking) {
		host->is_waking = true;
		world_schedule(world, world->now + host->limits.wake_ns, wake, host, 0);
	}
}
