/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuzz/pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/qp_types.h"
#include "unit/wire/sample_packet.h"

/* A QP that goes on and on without an event from outside would hang an engine. */
#define ROUNDS_MAX 4096

static const struct qp_limits limits = {.port_count = 1,
					.pkey_count = 1,
					.gid_count = 1,
					.active_mtu = IBV_MTU_4096,
					.rd_atomic_max = QP_RD_ATOMIC_MAX};

/* One pair a process, since the copier is told nothing but addresses. */
static struct pair the_pair;

/* --- life --- */

static bool is_xrc(const struct pair_terms *terms)
{
	return terms->type == IBV_QPT_XRC_SEND;
}

static enum ibv_qp_type type_of(const struct side *side)
{
	const struct pair *pair = side->pair;

	return is_xrc(&pair->terms) && side == &pair->sides[1] ? IBV_QPT_XRC_RECV
							       : pair->terms.type;
}

bool side_reaches(const struct side *side, uint32_t pd)
{
	return pd == PD || type_of(side) == IBV_QPT_XRC_RECV;
}

static void open_srqs(struct side *side, const struct pair_terms *terms)
{
	side->unpolled_count = 0;
	side->srq_count = type_of(side) == IBV_QPT_XRC_RECV  ? SRQS
			  : terms->has_srq && !is_xrc(terms) ? 1
							     : 0;
	VBN_ASSERT(srq_bytes(QUEUE_DEPTH, SGE_MAX) <= SRQ_MEMORY);
	memset(&side->domain, 0, sizeof(side->domain));
	for (uint32_t i = 0; i < side->srq_count; i++) {
		memset(side->srq_memory[i], 0, SRQ_MEMORY);
		srq_init(&side->srqs[i], side->srq_memory[i], QUEUE_DEPTH, SGE_MAX,
			 i ? PD_FOREIGN : PD);
		if (type_of(side) == IBV_QPT_XRC_RECV)
			VBN_ASSERT(xrc_domain_add(&side->domain, &side->srqs[i], 0x5a5000 + i));
	}
}

static void open_qp(struct side *side, const struct pair_terms *terms)
{
	bool has_ring = !side->srq_count && !is_xrc(terms);
	struct ibv_qp_cap cap = {.max_send_wr = QUEUE_DEPTH,
				 .max_recv_wr = has_ring ? QUEUE_DEPTH : 0,
				 .max_send_sge = SGE_MAX,
				 .max_recv_sge = has_ring ? SGE_MAX : 0,
				 .max_inline_data = INLINE_MAX};

	VBN_ASSERT(qp_bytes(&cap) && qp_bytes(&cap) <= sizeof(side->qp_memory));
	memset(side->qp_memory, 0, sizeof(side->qp_memory));
	side->qp = qp_init(side->qp_memory, &cap, type_of(side), QPN(side),
			   type_of(side) == IBV_QPT_XRC_RECV ? 0 : PD, terms->signals_all);
	if (type_of(side) == IBV_QPT_XRC_RECV)
		qp_attach_xrc(side->qp, &side->domain);
	else if (side->srq_count)
		qp_attach_srq(side->qp, &side->srqs[0]);
}

static void open_side(struct side *side, const struct pair_terms *terms)
{
	/* As of a datagram over IPv6; who sent it does not matter here. */
	static const struct datagram_source source = {.header = {0x60}, .has_header = true};

	side_open_memory(side);
	side_open_reach(side);
	side_open_windows(side);
	open_srqs(side, terms);
	hold_pool_init(&side->holds, side->hold_memory, HOLD_BUFFERS);
	side->outbound.bytes_max = side->inbound.bytes_max = terms->flow_bytes_max;
	side->core = (struct core){.now = VBN_SECOND,
				   .memory = &side->keys,
				   .copier = &copier_checked,
				   .holds = &side->holds,
				   .source = &source};
	memset(&side->sends, 0, sizeof(side->sends));
	memset(side->receives, 0, sizeof(side->receives));
	side->wire.head = side->wire.count = 0;
	side->uses_left = 0;
	outbox_clear(&side->out);
	open_qp(side, terms);
}

struct pair *pair_open(const struct pair_terms *terms)
{
	struct pair *pair = &the_pair;

	pair->terms = *terms;
	for (int i = 0; i < 2; i++) {
		pair->sides[i].pair = pair;
		pair->sides[i].peer = &pair->sides[1 - i];
		open_side(&pair->sides[i], terms);
	}
	return pair;
}

/* Of an SRQ there is left what nobody took. */
static void close_receives(struct side *side)
{
	side_poll(side);
	VBN_ASSERT(side->qp->recv_queue.done == side->qp->recv_queue.posted);
	VBN_ASSERT(side->srq_count || side->receives[0].done == side->receives[0].posted);
	for (uint32_t i = 0; i < side->srq_count; i++) {
		const struct srq *srq = &side->srqs[i];
		uint32_t left = side->receives[i].posted - side->receives[i].done;

		VBN_ASSERT(srq->waiting_count == left && srq->used_count == left);
		VBN_ASSERT(srq->taken_count == 0);
	}
}

static void close_side(struct side *side)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	side->uses_left = 0;
	side_modify(side, &attr, IBV_QP_STATE);
	side_run(side);
	VBN_ASSERT(side->qp->send_queue.done == side->qp->send_queue.posted);
	close_receives(side);
	for (uint32_t i = side->sends.done; i != side->sends.posted; i++)
		VBN_ASSERT(!side->sends.ring[i % RECORDS].is_signalled);
	qp_fini(side->qp, &side->holds);
	VBN_ASSERT(atomic_load(&side->holds.claimed[0]) == 0);
	VBN_ASSERT(atomic_load(&side->outbound.bytes_under_way) == 0);
	VBN_ASSERT(atomic_load(&side->inbound.bytes_under_way) == 0);
	side_close_windows(side);
	for (int kind = 0; kind < REGION_COUNT; kind++)
		side_deregister(side, (enum region_kind)kind);
}

void pair_close(struct pair *pair)
{
	close_side(&pair->sides[0]);
	close_side(&pair->sides[1]);
}

/* --- states --- */

static void forget_records(struct records *records)
{
	records->done = records->pollable = records->posted;
	records->has_failed = false;
}

/* What was posted to an SRQ stays there, but for the receive that a message had taken. */
static void forget_receives(struct side *side, const struct srq *taken_from)
{
	if (!side->srq_count)
		forget_records(&side->receives[0]);
	for (uint32_t i = 0; i < side->srq_count; i++) {
		side->receives[i].has_failed = false;
		side->receives[i].done += &side->srqs[i] == taken_from;
	}
}

bool side_modify(struct side *side, const struct ibv_qp_attr *attr, int mask)
{
	const struct srq *taken_from = side->qp->srq_slot == SRQ_NO_SLOT ? NULL : side->qp->srq;
	enum ibv_qp_state from = side->qp->state;
	struct path path = {.payload_max = side->pair->terms.payload_max,
			    .is_lossless = side->pair->terms.is_lossless,
			    .reach = side->pair->terms.lends ? &side->reach : NULL,
			    .outbound = &side->outbound,
			    .inbound = &side->inbound};
	bool is_rtr = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR;

	if (qp_modify_check(side->qp, attr, mask, &limits, NULL) != 0)
		return false;
	qp_modify(side->qp, attr, mask, is_rtr ? &path : NULL, &side->core);
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET) {
		forget_records(&side->sends);
		forget_receives(side, taken_from);
	}
	/* Sends that follow are new ones. */
	if (from == IBV_QPS_SQE && side->qp->state == IBV_QPS_RTS)
		side->sends.has_failed = false;
	return true;
}

bool side_connect(struct side *side, uint32_t sq_psn, uint32_t rq_psn)
{
	const struct pair_terms *terms = &side->pair->terms;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = PAIR_QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = QPN(side->peer),
		.rq_psn = rq_psn,
		.sq_psn = sq_psn,
		.max_dest_rd_atomic = terms->depth,
		.max_rd_atomic = terms->depth,
		.min_rnr_timer = 1,
		.timeout = terms->timeout,
		.retry_cnt = terms->retry_count,
		.rnr_retry = terms->rnr_retry,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh.dgid.raw = {1}},
	};

	if (!side_modify(side, &attr, qp_moves_to_init(type_of(side))))
		return false;
	attr.qp_state = IBV_QPS_RTR;
	if (!side_modify(side, &attr, qp_moves_to_rtr(type_of(side))))
		return false;
	attr.qp_state = IBV_QPS_RTS;
	return side_modify(side, &attr, qp_moves_to_rts(type_of(side)));
}

/* --- posting --- */

static void keep_list(struct record *record, const struct ibv_sge *list, int count)
{
	record->sge_count = (uint32_t)count;
	if (count)
		memcpy(record->sge, list, (size_t)count * sizeof(*list));
}

static bool is_local(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV;
}

static int post(struct side *side, const struct ibv_send_wr *wr)
{
	if (wr->opcode == IBV_WR_BIND_MW && wr->bind_mw.mw->type == IBV_MW_TYPE_1)
		return qp_post_bind_type_1(side->qp, wr, NULL);
	return qp_post_send(side->qp, wr, &copier_checked, NULL);
}

void side_post_send(struct side *side, struct ibv_send_wr *wr)
{
	bool is_full = work_queue_is_full(&side->qp->send_queue);
	bool brings = wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		      wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct record record = {.is_signalled = side->qp->signals_all ||
						(wr->send_flags & IBV_SEND_SIGNALED),
				.may_write = brings,
				.pd = PD,
				.opcode = wr->opcode,
				.key = wr->invalidate_rkey};
	uint32_t grant_count = side->grant_count;
	int error;

	if (wr->opcode == IBV_WR_BIND_MW && !side_note_bind(side, wr, &record))
		return;
	wr->wr_id = side->sends.posted;
	copying_side = side;
	error = post(side, wr);
	VBN_ASSERT(!error || error == EINVAL || error == EOPNOTSUPP || error == EFAULT ||
		   (error == ENOMEM && is_full));
	if (error) {
		side->grant_count = grant_count;
		return;
	}
	if (wr->opcode == IBV_WR_BIND_MW && !record.is_impossible)
		side->mws[record.window].rkey = record.key;
	VBN_ASSERT(!is_full);
	if (!is_local(wr))
		keep_list(&record, wr->sg_list, wr->num_sge);
	side->sends.ring[side->sends.posted++ % RECORDS] = record;
}

void side_post_receive(struct side *side, struct ibv_recv_wr *wr, uint32_t index)
{
	struct srq *srq = side->srq_count ? &side->srqs[index % side->srq_count] : NULL;
	struct records *receives = &side->receives[srq ? srq - side->srqs : 0];
	struct record record = {.is_signalled = true, .may_write = true, .pd = srq ? srq->pd : PD};

	wr->wr_id = receives->posted;
	if (srq ? srq_post(srq, wr, NULL) : qp_post_recv(side->qp, wr, NULL))
		return;
	keep_list(&record, wr->sg_list, wr->num_sge);
	receives->ring[receives->posted++ % RECORDS] = record;
}

void side_poll(struct side *side)
{
	atomic_store(&side->qp->send_queue.released, side->sends.pollable);
	if (!side->srq_count)
		atomic_store(&side->qp->recv_queue.released, side->receives[0].pollable);
	while (side->unpolled_count) {
		uint32_t last = --side->unpolled_count;

		srq_release(side->unpolled[last].srq, side->unpolled[last].slot);
	}
}

/* --- the wire --- */

struct wire_packet *wire_oldest(struct wire *wire)
{
	return wire->count ? &wire->packets[wire->head] : NULL;
}

void wire_drop(struct wire *wire)
{
	wire->head = (wire->head + 1) % WIRE_DEPTH;
	wire->count--;
}

/* A wire that is full loses. */
static struct wire_packet *wire_newest(struct wire *wire)
{
	static struct wire_packet lost;

	if (wire->count == WIRE_DEPTH)
		return &lost;
	return &wire->packets[(wire->head + wire->count++) % WIRE_DEPTH];
}

/* What we send must be what we would understand. */
static void check_sent(const struct side *side, const struct packet *packet,
		       const struct wire_packet *sent)
{
	struct packet again;

	VBN_ASSERT(packet->payload_bytes <= side->pair->terms.payload_max);
	VBN_ASSERT(packet_parse(sent->bytes, sent->length, &again) == REASON_NONE);
	VBN_ASSERT(sample_is_equal(packet, &again));
}

/* To @bytes, or else what says where it lies. */
static enum reason take_payload(const struct side *side, const struct packet_out *out,
				uint8_t *bytes, struct complaint *complaint)
{
	struct lent_payload lent;
	enum reason reason;

	if (out->payload.kind != PAYLOAD_LENT)
		return payload_copy(side->qp, out, &side->core, bytes, complaint);
	reason = payload_lend(side->qp, out, &side->core, &lent, complaint);
	if (reason == REASON_NONE)
		lent_emit(&lent, bytes);
	return reason;
}

/* False when the payload could not be had: the rest of the outbox's packets is void. */
static bool send(struct side *side, const struct packet_out *out)
{
	struct wire_packet *sent = wire_newest(&side->peer->wire);
	struct packet packet = out->packet;
	struct complaint complaint = {.reason = REASON_NONE};
	uint32_t bytes;

	sent->is_lent = out->payload.kind == PAYLOAD_LENT;
	if (sent->is_lent)
		packet.payload_bytes = LENT_BYTES;
	bytes = packet.payload_bytes;
	sent->length = (uint32_t)packet_emit_header(&packet, sent->bytes);
	packet.payload = sent->bytes + sent->length;
	if (take_payload(side, out, sent->bytes + sent->length, &complaint) != REASON_NONE) {
		/* Under way stays what was there: half a packet that the parser will refuse. */
		sent->length = 0;
		return qp_payload_failed(side->qp, out, &complaint, &side->core);
	}
	memset(sent->bytes + sent->length + bytes, 0, packet_pad_bytes(bytes));
	sent->length += bytes + packet_pad_bytes(bytes);
	check_sent(side, &packet, sent);
	return true;
}

static bool empty_outbox(struct side *side)
{
	struct outbox *out = &side->out;
	bool is_whole = true;

	for (uint32_t i = 0; i < out->packet_count && is_whole; i++)
		is_whole = send(side, &out->packets[i]);
	for (uint32_t i = 0; i < out->completion_count; i++)
		check_completion(side, &out->completions[i]);
	outbox_clear(out);
	return is_whole;
}

/* What is one packet goes the short way, and leaves nothing to do. */
static bool output(struct side *side)
{
	uint32_t packet_count;
	bool has_more;

	if (!qp_has_one_packet(side->qp) || outbox_packets_room(&side->out) < 2)
		return qp_output(side->qp, &side->core, &side->out);
	qp_output_one_packet(side->qp, &side->core, &side->out);
	packet_count = side->out.packet_count;
	has_more = qp_output(side->qp, &side->core, &side->out);
	VBN_ASSERT(!has_more && side->out.packet_count == packet_count);
	return false;
}

void side_run(struct side *side)
{
	uint32_t rounds = 0;
	bool has_more, is_whole;

	copying_side = side;
	do {
		has_more = output(side);
		is_whole = empty_outbox(side);
		VBN_ASSERT(++rounds < ROUNDS_MAX);
	} while (has_more || !is_whole);
}

void side_receive_packet(struct side *side, const struct packet *packet)
{
	copying_side = side;
	qp_receive(side->qp, packet, &side->core, &side->out);
	side_run(side);
}

void side_receive(struct side *side, const struct wire_packet *arrived)
{
	/* Of exactly its size, so that a byte too far is seen. */
	uint8_t *exact = malloc(arrived->length + !arrived->length);
	struct packet packet;

	VBN_ASSERT(exact);
	memcpy(exact, arrived->bytes, arrived->length);
	if (packet_parse(exact, arrived->length, &packet) == REASON_NONE &&
	    (!arrived->is_lent || lent_parse(&packet)) && packet.dest_qpn == side->qp->number)
		side_receive_packet(side, &packet);
	free(exact);
}

void side_advance(struct side *side, uint64_t ns)
{
	side->core.now = vbn_time_add(side->core.now, ns);
	if (side->core.now == VBN_TIME_NEVER)
		side->core.now--;
	copying_side = side;
	if (qp_next_deadline(side->qp) <= side->core.now)
		qp_deadline(side->qp, &side->core);
	side_run(side);
	/* A deadline that stays in the past would be a busy loop for the engine. */
	VBN_ASSERT(qp_next_deadline(side->qp) > side->core.now);
}
