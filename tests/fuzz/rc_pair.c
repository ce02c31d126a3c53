/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuzz/rc_pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "unit/wire/sample_packet.h"

#define PD 7u
#define PD_FOREIGN 8u
#define QPN(side) (0x111u + (uint32_t)((side) - (side)->pair->sides))
/* A QP that goes on and on without an event from outside would hang an engine. */
#define ROUNDS_MAX 4096

static const struct qp_limits limits = {.port_count = 1,
					.pkey_count = 1,
					.gid_count = 1,
					.active_mtu = IBV_MTU_4096,
					.rd_atomic_max = QP_RD_ATOMIC_MAX};

/* One pair a process, since the copier is told nothing but addresses. */
static struct pair the_pair;

/* --- copies --- */

static struct side *copying_side;

static bool faults(void)
{
	return copying_side->uses_left && --copying_side->uses_left == 0;
}

static size_t copy_checked(void *to, const void *from, size_t length)
{
	size_t count = faults() ? length / 2 : length;

	check_copy(&the_pair, to, from, length);
	memcpy(to, from, count);
	return count;
}

static bool fetch_add_checked(uint64_t *target, uint64_t add, uint64_t *original)
{
	check_copy(&the_pair, target, original, sizeof(*target));
	if (faults())
		return false;
	*original = *target;
	*target += add;
	return true;
}

static bool compare_swap_checked(uint64_t *target, uint64_t compare, uint64_t swap,
				 uint64_t *original)
{
	check_copy(&the_pair, target, original, sizeof(*target));
	if (faults())
		return false;
	*original = *target;
	if (*target == compare)
		*target = swap;
	return true;
}

static const struct copier copier_checked = {
	.copy = copy_checked,
	.fetch_add = fetch_add_checked,
	.compare_swap = compare_swap_checked,
};

/* --- memory --- */

uint32_t region_offset(enum region_kind kind)
{
	return GUARD_BYTES + (uint32_t)kind * (REGION_BYTES + GUARD_BYTES);
}

uint64_t region_iova(enum region_kind kind)
{
	return 0x0000700000000000ull + region_offset(kind);
}

uint32_t region_key(const struct side *side, enum region_kind kind)
{
	/* The slot is cut out of the number above its low eight bits. */
	return ((uint32_t)kind + 1) << 8 | (0x40u + (uint32_t)(side - side->pair->sides));
}

void side_register(struct side *side, enum region_kind kind)
{
	static const uint32_t rights[REGION_COUNT] = {
		[REGION_OPEN] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		[REGION_LOCAL] = IBV_ACCESS_LOCAL_WRITE,
		[REGION_READ_ONLY] = IBV_ACCESS_REMOTE_READ,
		[REGION_FOREIGN] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct mr mr = {.iova = region_iova(kind),
			.length = REGION_BYTES,
			.address = side->arena + region_offset(kind),
			.pd = kind == REGION_FOREIGN ? PD_FOREIGN : PD,
			.access = rights[kind]};

	if (side->regions[kind])
		return;
	side->regions[kind] = memory_register(&side->keys, &mr, region_key(side, kind));
	VBN_ASSERT(side->regions[kind]);
}

void side_deregister(struct side *side, enum region_kind kind)
{
	if (!side->regions[kind])
		return;
	pin_slot_retire(&side->regions[kind]->pin);
	pin_table_release(&side->keys.keys, &side->regions[kind]->pin);
	side->regions[kind] = NULL;
}

/* --- life --- */

static void open_memory(struct side *side)
{
	memset(side->slots, 0, sizeof(side->slots));
	memory_init(&side->keys, side->slots, KEY_SLOTS);
	for (uint32_t i = 0; i < ARENA_BYTES; i++)
		side->arena[i] = (uint8_t)(i * 7 + (i >> 8));
	memcpy(side->shadow, side->arena, ARENA_BYTES);
	for (int kind = 0; kind < REGION_COUNT; kind++) {
		side->regions[kind] = NULL;
		side_register(side, (enum region_kind)kind);
	}
}

static void open_side(struct side *side, const struct pair_terms *terms)
{
	static const struct ibv_qp_cap cap = {.max_send_wr = QUEUE_DEPTH,
					      .max_recv_wr = QUEUE_DEPTH,
					      .max_send_sge = SGE_MAX,
					      .max_recv_sge = SGE_MAX,
					      .max_inline_data = INLINE_MAX};

	open_memory(side);
	hold_pool_init(&side->holds, side->hold_memory, HOLD_BUFFERS);
	side->outbound.bytes_max = side->inbound.bytes_max = terms->flow_bytes_max;
	side->core = (struct core){.now = VBN_SECOND,
				   .memory = &side->keys,
				   .copier = &copier_checked,
				   .holds = &side->holds};
	memset(&side->sends, 0, sizeof(side->sends));
	memset(&side->receives, 0, sizeof(side->receives));
	side->wire.head = side->wire.count = 0;
	side->uses_left = 0;
	outbox_clear(&side->out);
	VBN_ASSERT(qp_bytes(&cap) && qp_bytes(&cap) <= sizeof(side->qp_memory));
	memset(side->qp_memory, 0, sizeof(side->qp_memory));
	side->qp = qp_init(side->qp_memory, &cap, IBV_QPT_RC, QPN(side), PD, terms->signals_all);
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

static void close_side(struct side *side)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	side->uses_left = 0;
	side_modify(side, &attr, IBV_QP_STATE);
	side_run(side);
	VBN_ASSERT(side->qp->send_queue.done == side->qp->send_queue.posted);
	VBN_ASSERT(side->qp->recv_queue.done == side->qp->recv_queue.posted);
	VBN_ASSERT(side->receives.done == side->receives.posted);
	for (uint32_t i = side->sends.done; i != side->sends.posted; i++)
		VBN_ASSERT(!side->sends.ring[i % RECORDS].is_signalled);
	qp_fini(side->qp, &side->holds);
	VBN_ASSERT(atomic_load(&side->holds.claimed[0]) == 0);
	VBN_ASSERT(atomic_load(&side->outbound.bytes_under_way) == 0);
	VBN_ASSERT(atomic_load(&side->inbound.bytes_under_way) == 0);
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

bool side_modify(struct side *side, const struct ibv_qp_attr *attr, int mask)
{
	struct path path = {.payload_max = side->pair->terms.payload_max,
			    .is_lossless = side->pair->terms.is_lossless,
			    .outbound = &side->outbound,
			    .inbound = &side->inbound};
	bool is_rtr = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR;

	if (qp_modify_check(side->qp, attr, mask, &limits, NULL) != 0)
		return false;
	qp_modify(side->qp, attr, mask, is_rtr ? &path : NULL, &side->core);
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET) {
		forget_records(&side->sends);
		forget_records(&side->receives);
	}
	return true;
}

bool side_connect(struct side *side, uint32_t sq_psn, uint32_t rq_psn)
{
	const struct pair_terms *terms = &side->pair->terms;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
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

	if (!side_modify(side, &attr,
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return false;
	attr.qp_state = IBV_QPS_RTR;
	if (!side_modify(side, &attr,
			 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return false;
	attr.qp_state = IBV_QPS_RTS;
	return side_modify(side, &attr,
			   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* --- posting --- */

static void keep_record(struct records *records, const struct ibv_sge *list, int count,
			bool may_write, bool is_signalled)
{
	struct record *record = &records->ring[records->posted++ % RECORDS];

	record->may_write = may_write;
	record->is_signalled = is_signalled;
	record->sge_count = (uint32_t)count;
	if (count)
		memcpy(record->sge, list, (size_t)count * sizeof(*list));
}

void side_post_send(struct side *side, struct ibv_send_wr *wr)
{
	bool is_full = work_queue_is_full(&side->qp->send_queue);
	bool brings = wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		      wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	int error;

	wr->wr_id = side->sends.posted;
	copying_side = side;
	error = qp_post_send(side->qp, wr, &copier_checked, NULL);
	VBN_ASSERT(!error || error == EINVAL || error == EOPNOTSUPP || error == EFAULT ||
		   (error == ENOMEM && is_full));
	if (error)
		return;
	VBN_ASSERT(!is_full);
	keep_record(&side->sends, wr->sg_list, wr->num_sge, brings,
		    side->qp->signals_all || (wr->send_flags & IBV_SEND_SIGNALED));
}

void side_post_receive(struct side *side, struct ibv_recv_wr *wr)
{
	wr->wr_id = side->receives.posted;
	if (qp_post_recv(side->qp, wr, NULL) == 0)
		keep_record(&side->receives, wr->sg_list, wr->num_sge, true, true);
}

void side_poll(struct side *side)
{
	atomic_store(&side->qp->send_queue.released, side->sends.pollable);
	atomic_store(&side->qp->recv_queue.released, side->receives.pollable);
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

/* False when the payload could not be had: the rest of the outbox's packets is void. */
static bool send(struct side *side, const struct packet_out *out)
{
	struct wire_packet *sent = wire_newest(&side->peer->wire);
	struct packet packet = out->packet;
	struct complaint complaint = {.reason = REASON_NONE};
	uint32_t bytes = packet.payload_bytes;

	sent->length = (uint32_t)packet_emit_header(&packet, sent->bytes);
	packet.payload = sent->bytes + sent->length;
	if (payload_copy(side->qp, out, &side->core, sent->bytes + sent->length, &complaint) !=
	    REASON_NONE) {
		/* Under way stays what was there: half a packet that the parser will refuse. */
		sent->length = 0;
		qp_payload_failed(side->qp, out, &complaint, &side->core);
		return false;
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

void side_run(struct side *side)
{
	uint32_t rounds = 0;
	bool has_more, is_whole;

	copying_side = side;
	do {
		has_more = qp_output(side->qp, &side->core, &side->out);
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

void side_receive(struct side *side, const uint8_t *bytes, uint32_t length)
{
	/* Of exactly its size, so that a byte too far is seen. */
	uint8_t *exact = malloc(length + !length);
	struct packet packet;

	VBN_ASSERT(exact);
	memcpy(exact, bytes, length);
	if (packet_parse(exact, length, &packet) == REASON_NONE &&
	    packet.dest_qpn == side->qp->number)
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
