/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as the life of a connection: posts, packets that arrive, get lost, overtake
 * each other or are changed on their way, packets that nobody sent, time, faults, changes
 * of state and of registrations, binds and invalidations of windows. Forged packets bear right
 * QPNs, PSNs near what is expected and right keys, so that they get as deep as packets can. What
 * must hold after each step is in pair_checks.c; the ICRC is the link's business and not there.
 *
 * Where payload is lent, posts lend it, and forged packets and raw ones may claim to.
 *
 * An input: two bytes of terms, four of first PSNs, then steps: a byte each (low four bits
 * which, bit 4 the side, bits 5 to 7 a variant) and what the step reads behind it. Bytes
 * behind the end read as 0.
 */
#include "fuzz/pair_steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/psn.h"
#include "fuzz/pair_take.h"
#include "sim/qp_types.h"
#include "wire/opcode.h"

#define STEPS_MAX 400
#define DELIVERIES_MAX 200
#define PAYLOAD_MAX 4204

/* --- what the wire does --- */

static void deliver(struct side *side)
{
	struct wire_packet *oldest = wire_oldest(&side->wire);
	struct wire_packet packet;

	if (!oldest)
		return;
	packet = *oldest;
	wire_drop(&side->wire);
	side_receive(side, &packet);
}

static void deliver_all(struct pair *pair)
{
	for (int i = 0; i < DELIVERIES_MAX; i++) {
		if (!wire_oldest(&pair->sides[0].wire) && !wire_oldest(&pair->sides[1].wire))
			return;
		deliver(&pair->sides[i & 1]);
	}
}

static void repeat(struct side *side)
{
	struct wire_packet *oldest = wire_oldest(&side->wire);

	if (oldest)
		side_receive(side, oldest);
}

/* The oldest goes to the end of the queue. */
static void overtake(struct side *side)
{
	struct wire *wire = &side->wire;
	struct wire_packet *oldest = wire_oldest(wire);
	uint32_t end = (wire->head + wire->count) % WIRE_DEPTH;

	if (!oldest)
		return;
	if (wire->count < WIRE_DEPTH)
		wire->packets[end] = *oldest;
	wire->head = (wire->head + 1) % WIRE_DEPTH;
}

/* The oldest arrives with another byte, or shorter, or longer. */
static void mutate(struct side *side, uint8_t variant, struct input *input)
{
	struct wire_packet *oldest = wire_oldest(&side->wire);
	uint32_t at = (uint32_t)take(input, 1);
	uint8_t value = (uint8_t)take(input, 1);
	struct wire_packet packet;

	if (!oldest)
		return;
	packet = *oldest;
	if (variant & 4)
		wire_drop(&side->wire);
	if ((variant & 3) == 3 && packet.length + value <= WIRE_BYTES) {
		memset(packet.bytes + packet.length, (int)at, value);
		packet.length += value;
	} else if ((variant & 3) == 2) {
		packet.length -= value < packet.length ? value : packet.length;
	} else if (at < packet.length) {
		packet.bytes[at] = variant & 1 ? value : packet.bytes[at] ^ value;
	}
	side_receive(side, &packet);
}

/* --- what nobody sent --- */

/* What only packets of other services have. */
static void forge_more(struct side *side, struct input *input, struct packet *packet)
{
	packet->deth.qkey = take_qkey(input);
	packet->deth.source_qpn = QPN(side->peer);
	packet->xrc_srqn = take_srq_number(input, side);
	packet->invalidate_rkey = take_window_key(input, side);
}

/* Its payload is said to lie somewhere at the peer, and to be of any length. False: it has one. */
static bool forge_lent(struct side *side, struct input *input, struct packet *packet)
{
	uint8_t bytes[LENT_BYTES], choice = (uint8_t)take(input, 1);
	struct place place;
	struct lent_payload lent;

	if (!(choice & 1))
		return false;
	place = take_place(input, choice & 2 ? side : side->peer);
	lent = (struct lent_payload){.address = place.iova,
				     .key = place.key,
				     .length = take_length(input, side->pair->terms.payload_max)};
	lent_emit(&lent, bytes);
	packet->payload = bytes;
	packet->payload_bytes = LENT_BYTES;
	if (lent_parse(packet))
		side_receive_packet(side, packet);
	return true;
}

static void forge(struct side *side, uint8_t variant, struct input *input)
{
	uint8_t operation = (uint8_t)take(input, 1);
	uint32_t payload_max = side->pair->terms.payload_max;
	struct packet packet = {
		.opcode = variant & 4
				  ? operation
				  : opcode_byte(qp_type_service(side->qp->type), operation & 0x1f),
		.solicited = variant & 1,
		.ack_requested = variant & 2,
		.pkey = 0xffff,
		.dest_qpn = side->qp->number,
	};
	struct place place;
	uint8_t *payload;

	packet.psn = take_psn(input, side);
	if (side->pair->terms.has_more)
		forge_more(side, input, &packet);
	place = take_remote_place(input, side);
	packet.reth.rkey = packet.atomic.rkey = place.key;
	packet.reth.address = packet.atomic.address = place.iova;
	packet.reth.length = take_length(input, payload_max);
	packet.aeth.syndrome = (uint8_t)take(input, 1);
	packet.aeth.msn = packet.psn;
	packet.atomic.swap_or_add = packet.atomic_original = packet.immediate = operation;
	if (side->pair->terms.lends && forge_lent(side, input, &packet))
		return;
	packet.payload_bytes = take_length(input, payload_max) % PAYLOAD_MAX;
	payload = malloc(packet.payload_bytes + !packet.payload_bytes);
	VBN_ASSERT(payload);
	memset(payload, operation, packet.payload_bytes);
	packet.payload = payload;
	side_receive_packet(side, &packet);
	free(payload);
}

/* The bytes as they are, but for the QPN and, if @variant says so, a PSN that is expected. */
static void receive_raw(struct side *side, uint8_t variant, struct input *input)
{
	struct wire_packet packet = {.length = (uint32_t)take(input, 1),
				     .is_lent = side->pair->terms.lends && variant & 4};
	uint32_t psn = side->qp->responder.psn_expected;

	for (uint32_t i = 0; i < packet.length; i++)
		packet.bytes[i] = (uint8_t)take(input, 1);
	if (packet.length >= BTH_BYTES) {
		for (int i = 0; i < 3; i++)
			packet.bytes[5 + i] = (uint8_t)(side->qp->number >> (16 - 8 * i));
		for (int i = 0; i < 3 && variant; i++)
			packet.bytes[9 + i] = (uint8_t)(psn >> (16 - 8 * i));
	}
	side_receive(side, &packet);
}

/* --- what the program does --- */

static int take_list(struct side *side, struct input *input, struct ibv_sge *list, bool is_short)
{
	uint8_t choice = (uint8_t)take(input, 1);
	int count = choice % (SGE_MAX + 1);

	for (int i = 0; i < count; i++) {
		struct place place = take_place(input, side);

		list[i] = (struct ibv_sge){
			.addr = place.iova,
			.length = is_short ? 8
					   : take_length(input, side->pair->terms.payload_max) %
						     (2 * REGION_BYTES),
			.lkey = place.key};
	}
	return count;
}

/* A window to any region, of any length, with any rights, under any key of its own or not. */
static void take_bind(struct side *side, struct input *input, struct ibv_send_wr *wr,
		      struct ibv_mr *mr)
{
	uint8_t choice = (uint8_t)take(input, 1);
	struct place place = take_place(input, side);
	struct ibv_mw *mw = &side->mws[choice % WINDOWS];

	*mr = (struct ibv_mr){.lkey = place.key};
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = choice & 4 ? mw->rkey ^ (uint32_t)take(input, 2)
				      : ibv_inc_rkey(mw->rkey);
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = mr,
		.addr = place.iova,
		.length = take_length(input, side->pair->terms.payload_max),
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};
	if (choice & 8)
		wr->bind_mw.bind_info.mw_access_flags = (unsigned)take(input, 1);
}

static void post_send(struct side *side, uint8_t variant, struct input *input)
{
	uint8_t operation = (uint8_t)take(input, 1);
	bool has_more = side->pair->terms.has_more;
	uint8_t opcode = (uint8_t)(operation % 8 + (has_more && operation & 32 ? 8 : 0));
	bool is_atomic = opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			 opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge list[SGE_MAX];
	struct ibv_send_wr wr = {.sg_list = list, .opcode = (enum ibv_wr_opcode)opcode};
	struct ibv_mr mr;
	struct place place;

	wr.num_sge = take_list(side, input, list, is_atomic);
	wr.send_flags = (variant & 1 ? IBV_SEND_SIGNALED : 0) | (variant & 2 ? IBV_SEND_FENCE : 0) |
			(operation & 8 ? IBV_SEND_SOLICITED : 0) |
			(operation & 16 ? IBV_SEND_INLINE : 0);
	if (wr.send_flags & IBV_SEND_INLINE)
		for (int i = 0; i < wr.num_sge; i++) {
			list[i].addr = (uintptr_t)side->arena + region_offset(REGION_LOCAL);
			list[i].length %= INLINE_MAX;
			side_register(side, REGION_LOCAL);
		}
	place = take_remote_place(input, side->peer);
	if (opcode == IBV_WR_BIND_MW) {
		take_bind(side, input, &wr, &mr);
	} else if (opcode == IBV_WR_SEND_WITH_INV || (has_more && opcode == IBV_WR_LOCAL_INV)) {
		wr.invalidate_rkey =
			take_window_key(input, opcode == IBV_WR_LOCAL_INV ? side : side->peer);
	} else if (qp_type_service(side->qp->type) == SERVICE_UD) {
		wr.wr.ud.remote_qpn = QPN(side->peer);
		wr.wr.ud.remote_qkey = take_qkey(input);
	} else if (is_atomic) {
		wr.wr.atomic.remote_addr = place.iova;
		wr.wr.atomic.rkey = place.key;
		wr.wr.atomic.compare_add = wr.wr.atomic.swap = operation;
	} else {
		wr.wr.rdma.remote_addr = place.iova;
		wr.wr.rdma.rkey = place.key;
	}
	if (qp_type_service(side->qp->type) == SERVICE_XRC)
		wr.qp_type.xrc.remote_srqn = take_srq_number(input, side->peer);
	side_post_send(side, &wr);
	if (variant & 4)
		side_run(side);
}

static void post_receive(struct side *side, struct input *input)
{
	struct ibv_sge list[SGE_MAX];
	struct ibv_recv_wr wr = {.sg_list = list};

	wr.num_sge = take_list(side, input, list, false);
	side_post_receive(side, &wr, side->srq_count > 1 ? (uint32_t)take(input, 1) : 0);
	side_run(side);
}

/* Starts anew, with PSNs that go on where the peer stands or lie near its window. */
static void reconnect(struct side *side, struct input *input)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	uint8_t near = (uint8_t)take(input, 1);

	side_modify(side, &attr, IBV_QP_STATE);
	side_connect(side, psn_add(side->peer->qp->responder.psn_expected, near & 15),
		     psn_add(side->peer->qp->requester.psn_next, near >> 4));
}

static void modify(struct side *side, uint8_t variant, struct input *input)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_ERR, IBV_QPS_SQD, IBV_QPS_RTS,
						   IBV_QPS_RESET};
	struct ibv_qp_attr attr = {.en_sqd_async_notify = 1, .min_rnr_timer = 2};

	if (variant < 4) {
		attr.qp_state = states[variant];
		side_modify(side, &attr,
			    IBV_QP_STATE | (variant == 1 ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0));
	} else if (variant == 4) {
		reconnect(side, input);
	} else if (variant == 5) {
		attr.qp_access_flags = take(input, 1) &
				       (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					IBV_ACCESS_REMOTE_ATOMIC);
		side_modify(side, &attr, IBV_QP_ACCESS_FLAGS);
	} else {
		side_modify(side, &attr, IBV_QP_MIN_RNR_TIMER);
	}
	side_run(side);
}

static void change_registration(struct side *side, uint8_t variant)
{
	enum region_kind kind = (enum region_kind)(variant % REGION_COUNT);

	if (variant & 4)
		side_register(side, kind);
	else
		side_deregister(side, kind);
}

/* --- the whole --- */

enum step {
	STEP_DELIVER_ALL,
	STEP_DELIVER,
	STEP_REPEAT,
	STEP_LOSE,
	STEP_OVERTAKE,
	STEP_MUTATE,
	STEP_FORGE,
	STEP_RAW,
	STEP_POST_SEND,
	STEP_POST_RECEIVE,
	STEP_POLL,
	STEP_WAIT,
	STEP_MODIFY,
	STEP_FAULT,
	STEP_REGISTRATION,
	STEP_RUN,
};

static void do_step(struct pair *pair, struct input *input)
{
	uint8_t byte = (uint8_t)take(input, 1);
	struct side *side = &pair->sides[byte >> 4 & 1];
	uint8_t variant = byte >> 5;

	switch ((enum step)(byte & 15)) {
	case STEP_DELIVER_ALL:
		return deliver_all(pair);
	case STEP_DELIVER:
		return deliver(side);
	case STEP_REPEAT:
		return repeat(side);
	case STEP_LOSE:
		return wire_oldest(&side->wire) ? wire_drop(&side->wire) : (void)0;
	case STEP_OVERTAKE:
		return overtake(side);
	case STEP_MUTATE:
		return mutate(side, variant, input);
	case STEP_FORGE:
		return forge(side, variant, input);
	case STEP_RAW:
		return receive_raw(side, variant, input);
	case STEP_POST_SEND:
		return post_send(side, variant, input);
	case STEP_POST_RECEIVE:
		return post_receive(side, input);
	case STEP_POLL:
		return side_poll(side);
	case STEP_WAIT:
		return side_advance(side, 1000ull << take(input, 1) % 40);
	case STEP_MODIFY:
		return modify(side, variant, input);
	case STEP_FAULT:
		side->uses_left = variant + 1u;
		return;
	case STEP_REGISTRATION:
		return change_registration(side, variant);
	case STEP_RUN:
		return side_run(side);
	}
}

static struct pair_terms take_terms(struct input *input, const struct pair_terms *service)
{
	uint8_t first = (uint8_t)take(input, 1), second = (uint8_t)take(input, 1);

	return (struct pair_terms){
		.type = service->type,
		.has_srq = service->has_srq,
		.has_more = service->has_more,
		.lends = service->type == IBV_QPT_RC && second & 0x80,
		.payload_max = first & 1 ? 1024 : 256,
		.flow_bytes_max = first & 2 ? 4096 : INT64_MAX,
		.is_lossless = first & 4,
		.signals_all = first & 8,
		.timeout = first & 16 ? 0 : 1,
		.retry_count = first >> 5,
		.rnr_retry = second & 7,
		.depth = second >> 3 & 15,
	};
}

void pair_play(const struct pair_terms *service, const uint8_t *bytes, size_t length)
{
	struct input input = {bytes, length};
	struct pair_terms terms = take_terms(&input, service);
	struct pair *pair = pair_open(&terms);
	/* Near the end of the space as often as not. */
	uint32_t psns[2] = {psn_add((uint32_t)take(&input, 2), PSN_MASK - 0x8000),
			    psn_add((uint32_t)take(&input, 2), PSN_MASK - 0x8000)};

	VBN_ASSERT(side_connect(&pair->sides[0], psns[0], psns[1]));
	VBN_ASSERT(side_connect(&pair->sides[1], psns[1], psns[0]));
	for (int steps = 0; input.left && steps < STEPS_MAX; steps++) {
		check_begin(pair);
		do_step(pair, &input);
		check_end(pair);
	}
	check_begin(pair);
	pair_close(pair);
}
