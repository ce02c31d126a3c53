/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/transport/rc_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "transport/counting.h"

#define KEY_SLOTS 256
#define HOLD_BUFFERS 128

const struct fixture_settings fixture_usual = {
	.payload_max = 1024,
	.sq_psn = 0xfffffe,
	.rq_psn = 0x000100,
	.send_wr_max = 16,
	.recv_wr_max = 16,
	.sge_max = 4,
	.inline_max = 64,
	.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	.max_rd_atomic = 4,
	.max_dest_rd_atomic = 4,
	.timeout = 14,
	.retry_cnt = 3,
	.rnr_retry = 2,
	.min_rnr_timer = 12,
	.signals_all = true,
	.outbound_bytes_max = INT64_MAX,
	.inbound_bytes_max = INT64_MAX,
};

static void *zeroed(size_t bytes)
{
	size_t rounded = (bytes + 63) / 64 * 64;
	void *memory = aligned_alloc(64, rounded);

	assert_non_null(memory);
	memset(memory, 0, rounded);
	return memory;
}

static void register_memory(struct fixture *f)
{
	const uint32_t all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct mr mr = {.iova = FIXTURE_IOVA,
			.length = FIXTURE_BYTES,
			.address = f->memory,
			.pd = FIXTURE_PD,
			.access = all};
	struct mr read_only = {.iova = FIXTURE_READ_ONLY_IOVA,
			       .length = FIXTURE_READ_ONLY_BYTES,
			       .address = f->read_only,
			       .pd = FIXTURE_PD,
			       .access = IBV_ACCESS_REMOTE_READ};

	f->region = memory_register(&f->keys, &mr, FIXTURE_KEY);
	assert_non_null(f->region);
	f->read_only_region = memory_register(&f->keys, &read_only, FIXTURE_READ_ONLY_KEY);
	assert_non_null(f->read_only_region);
}

static void make_world(struct fixture *f)
{
	f->memory = zeroed(FIXTURE_BYTES);
	f->read_only = zeroed(FIXTURE_READ_ONLY_BYTES);
	f->slots = zeroed(KEY_SLOTS * sizeof(struct mr_slot));
	memory_init(&f->keys, f->slots, KEY_SLOTS);
	register_memory(f);
	f->hold_memory = zeroed(hold_pool_bytes(HOLD_BUFFERS));
	hold_pool_init(&f->holds, f->hold_memory, HOLD_BUFFERS);
	f->outbound.bytes_max = f->settings.outbound_bytes_max;
	f->inbound.bytes_max = f->settings.inbound_bytes_max;
	f->core = (struct core){.now = VBN_SECOND,
				.memory = &f->keys,
				.copier = &copier_direct,
				.holds = &f->holds};
}

static void move_to_rtr(struct fixture *f)
{
	const struct fixture_settings *s = &f->settings;
	struct path path = {.payload_max = s->payload_max,
			    .is_lossless = s->is_lossless,
			    .outbound = &f->outbound,
			    .inbound = &f->inbound};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = FIXTURE_PEER_QPN,
				   .rq_psn = s->rq_psn,
				   .max_dest_rd_atomic = s->max_dest_rd_atomic,
				   .min_rnr_timer = s->min_rnr_timer};

	qp_modify(f->qp, &attr,
		  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		  &path, &f->core);
}

static void move_to_rts(struct fixture *f)
{
	const struct fixture_settings *s = &f->settings;
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = s->access};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .sq_psn = s->sq_psn,
				  .timeout = s->timeout,
				  .retry_cnt = s->retry_cnt,
				  .rnr_retry = s->rnr_retry,
				  .max_rd_atomic = s->max_rd_atomic};

	qp_modify(f->qp, &init,
		  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, NULL,
		  &f->core);
	move_to_rtr(f);
	qp_modify(f->qp, &rts,
		  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
		  NULL, &f->core);
}

static void move_to_rts_datagrams(struct fixture *f)
{
	struct path path = {.payload_max = f->settings.payload_max};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = FIXTURE_QKEY};

	qp_modify(f->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, NULL,
		  &f->core);
	attr.qp_state = IBV_QPS_RTR;
	qp_modify(f->qp, &attr, IBV_QP_STATE, &path, &f->core);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = f->settings.sq_psn;
	qp_modify(f->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN, NULL, &f->core);
}

static enum ibv_qp_type type_of(const struct fixture_settings *settings)
{
	if (settings->is_datagram)
		return IBV_QPT_UD;
	if (settings->xrc_type)
		return settings->xrc_type;
	return settings->is_uc ? IBV_QPT_UC : IBV_QPT_RC;
}

struct fixture *fixture_new(const struct fixture_settings *settings)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct ibv_qp_cap cap = {.max_send_wr = settings->send_wr_max,
				 .max_recv_wr = settings->recv_wr_max,
				 .max_send_sge = settings->sge_max,
				 .max_recv_sge = settings->sge_max,
				 .max_inline_data = settings->inline_max};

	assert_non_null(f);
	f->settings = *settings;
	f->wr_id_next = 1;
	make_world(f);
	f->qp_memory = zeroed(qp_bytes(&cap));
	f->qp = qp_init(f->qp_memory, &cap, type_of(settings), FIXTURE_QPN, FIXTURE_PD,
			settings->signals_all);
	if (settings->srq)
		qp_attach_srq(f->qp, settings->srq);
	if (settings->xrc)
		qp_attach_xrc(f->qp, settings->xrc);
	if (settings->is_datagram)
		move_to_rts_datagrams(f);
	else
		move_to_rts(f);
	fixture_run(f);
	fixture_expect_nothing(f);
	return f;
}

static void check_nothing_held(const struct fixture *f)
{
	for (uint32_t i = 0; i < HOLD_BUFFERS / 64; i++)
		assert_int_equal(atomic_load(&f->holds.claimed[i]), 0);
}

void fixture_free(struct fixture *f)
{
	qp_fini(f->qp, &f->holds);
	assert_int_equal(atomic_load(&f->outbound.bytes_under_way), 0);
	assert_int_equal(atomic_load(&f->inbound.bytes_under_way), 0);
	check_nothing_held(f);
	for (uint32_t i = 0; i < f->packet_count; i++)
		free(f->packets[i].bytes);
	free(f->qp_memory);
	free(f->hold_memory);
	free(f->slots);
	free(f->read_only);
	free(f->memory);
	free(f);
}

void fixture_deregister(struct fixture *f)
{
	pin_slot_retire(&f->region->pin);
	assert_true(pin_slot_is_idle(&f->region->pin));
	pin_table_release(&f->keys.keys, &f->region->pin);
}

void fixture_move(struct fixture *f, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .en_sqd_async_notify = 1};
	int mask = IBV_QP_STATE;

	if (state == IBV_QPS_SQD)
		mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
	qp_modify(f->qp, &attr, mask, NULL, &f->core);
	fixture_run(f);
}

static uint32_t fill_list(const struct fixture *f, struct ibv_sge *list, uint32_t offset,
			  uint32_t length)
{
	uint32_t count = 0;

	do {
		uint32_t here = length < FIXTURE_BYTES - offset ? length : FIXTURE_BYTES - offset;

		assert_true(count < f->settings.sge_max);
		list[count++] = (struct ibv_sge){
			.addr = FIXTURE_IOVA + offset, .length = here, .lkey = FIXTURE_KEY};
		length -= here;
		offset = 0;
	} while (length);
	return count;
}

uint64_t fixture_post(struct fixture *f, enum ibv_wr_opcode opcode, uint32_t offset,
		      uint32_t length, unsigned int flags)
{
	bool is_atomic = opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			 opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge list[16];
	struct ibv_send_wr wr = {.wr_id = f->wr_id_next++,
				 .sg_list = list,
				 .opcode = opcode,
				 .send_flags = flags,
				 .imm_data = htobe32(0x11223344)};

	wr.num_sge = (int)fill_list(f, list, offset, is_atomic ? 8 : length);
	if (flags & IBV_SEND_INLINE)
		for (int i = 0; i < wr.num_sge; i++)
			list[i].addr = (uintptr_t)f->memory + offset;
	if (is_atomic) {
		wr.wr.atomic.remote_addr = FIXTURE_REMOTE_ADDRESS;
		wr.wr.atomic.rkey = FIXTURE_REMOTE_KEY;
		wr.wr.atomic.compare_add = 0x0102030405060708;
		wr.wr.atomic.swap = 0x1112131415161718;
	} else {
		wr.wr.rdma.remote_addr = FIXTURE_REMOTE_ADDRESS;
		wr.wr.rdma.rkey = FIXTURE_REMOTE_KEY;
	}
	assert_int_equal(qp_post_send(f->qp, &wr, &copier_direct, NULL), 0);
	return wr.wr_id;
}

uint64_t fixture_post_recv(struct fixture *f, uint32_t offset, uint32_t length)
{
	struct ibv_sge list[16];
	struct ibv_recv_wr wr = {.wr_id = f->wr_id_next++, .sg_list = list};

	wr.num_sge = (int)fill_list(f, list, offset, length);
	assert_int_equal(qp_post_recv(f->qp, &wr, NULL), 0);
	return wr.wr_id;
}

static enum reason take_payload(struct fixture *f, struct fixture_packet *kept,
				struct complaint *complaint)
{
	const struct packet_out *packet = &kept->out;

	if (packet->payload.kind == PAYLOAD_LENT)
		return payload_lend(f->qp, packet, &f->core, &kept->lent, complaint);
	kept->bytes = malloc(packet->packet.payload_bytes + 1);
	assert_non_null(kept->bytes);
	return payload_copy(f->qp, packet, &f->core, kept->bytes, complaint);
}

/* False when the payload could not be had: then the rest of the outbox is void. */
static bool collect_packet(struct fixture *f, const struct packet_out *packet)
{
	struct fixture_packet *kept = &f->packets[f->packet_count];
	struct complaint complaint = {0};

	assert_true(f->packet_count < FIXTURE_COLLECTED_MAX);
	*kept = (struct fixture_packet){.out = *packet};
	if (take_payload(f, kept, &complaint) != REASON_NONE) {
		free(kept->bytes);
		return qp_payload_failed(f->qp, packet, &complaint, &f->core);
	}
	f->packet_count++;
	return true;
}

static bool collect(struct fixture *f)
{
	const struct outbox *out = &f->out;
	bool is_whole = true;

	for (uint32_t i = 0; i < out->packet_count && is_whole; i++)
		is_whole = collect_packet(f, &out->packets[i]);
	for (uint32_t i = 0; i < out->completion_count; i++) {
		assert_true(f->completion_count < FIXTURE_COLLECTED_MAX);
		f->completions[f->completion_count++] = out->completions[i];
	}
	for (uint32_t i = 0; i < out->event_count; i++) {
		assert_true(f->event_count < FIXTURE_COLLECTED_MAX);
		f->events[f->event_count++] = out->events[i];
	}
	outbox_clear(&f->out);
	return is_whole;
}

/* A QP that rests has nothing to say but an ACK, if it owes one. */
static bool output_checked(struct fixture *f)
{
	bool rests = qp_rests(f->qp), owes_ack = qp_owes_ack(f->qp);
	struct outbox_mark mark = outbox_mark(&f->out);
	uint32_t event_count = f->out.event_count;
	vbn_time deadline = qp_next_deadline(f->qp);
	bool has_more = qp_output(f->qp, &f->core, &f->out);

	if (!rests)
		return has_more;
	assert_false(has_more);
	assert_int_equal(f->out.completion_count, mark.completion_count);
	assert_int_equal(f->out.event_count, event_count);
	assert_true(f->out.packet_count <= mark.packet_count + owes_ack);
	if (f->out.packet_count > mark.packet_count)
		assert_int_equal(opcode_operation(f->out.packets[mark.packet_count].packet.opcode),
				 OPCODE_ACKNOWLEDGE);
	assert_true(qp_next_deadline(f->qp) >= deadline);
	return has_more;
}

void fixture_run(struct fixture *f)
{
	bool has_more, is_whole;

	do {
		has_more = output_checked(f);
		is_whole = collect(f);
	} while (has_more || !is_whole);
}

void fixture_advance(struct fixture *f, uint64_t ns)
{
	f->core.now += ns;
	if (qp_next_deadline(f->qp) <= f->core.now)
		qp_deadline(f->qp, &f->core);
	fixture_run(f);
	/* A deadline that stays in the past would be a busy loop for the engine. */
	assert_true(qp_next_deadline(f->qp) > f->core.now);
}

struct packet fixture_packet(enum opcode operation, uint32_t psn)
{
	return (struct packet){.opcode = opcode_byte(SERVICE_RC, operation),
			       .dest_qpn = FIXTURE_QPN,
			       .psn = psn & PSN_MASK,
			       .pkey = 0xffff};
}

static enum service service_of(const struct fixture *f)
{
	if (f->settings.xrc_type)
		return SERVICE_XRC;
	return f->settings.is_uc ? SERVICE_UC : SERVICE_RC;
}

enum reason fixture_receive_only(struct fixture *f, const struct packet *packet)
{
	struct packet sent = *packet;

	if (service_of(f) != SERVICE_RC)
		sent.opcode = opcode_byte(service_of(f), opcode_operation(sent.opcode));
	if (f->settings.xrc)
		sent.xrc_srqn = f->settings.xrc_srqn;
	return qp_receive(f->qp, &sent, &f->core, &f->out);
}

enum reason fixture_receive(struct fixture *f, const struct packet *packet)
{
	enum reason reason = fixture_receive_only(f, packet);

	fixture_run(f);
	return reason;
}

enum reason fixture_ack(struct fixture *f, uint32_t psn)
{
	return fixture_nak(f, psn, SYNDROME_ACK_UNLIMITED);
}

enum reason fixture_nak(struct fixture *f, uint32_t psn, uint8_t syndrome)
{
	struct packet packet = fixture_packet(OPCODE_ACKNOWLEDGE, psn);

	packet.aeth.syndrome = syndrome;
	return fixture_receive(f, &packet);
}

static enum reason receive_filled(struct fixture *f, struct packet *packet, uint8_t fill,
				  uint32_t length)
{
	uint8_t bytes[PACKET_MTU_MAX];

	assert_true(length <= sizeof(bytes));
	memset(bytes, fill, length);
	packet->payload = bytes;
	packet->payload_bytes = length;
	return fixture_receive(f, packet);
}

enum reason fixture_read_response(struct fixture *f, enum opcode operation, uint32_t psn,
				  uint8_t fill, uint32_t length)
{
	struct packet packet = fixture_packet(operation, psn);

	if (operation != OPCODE_READ_RESPONSE_MIDDLE)
		packet.aeth.syndrome = SYNDROME_ACK_UNLIMITED;
	return receive_filled(f, &packet, fill, length);
}

enum reason fixture_atomic_answer(struct fixture *f, uint32_t psn, uint64_t original)
{
	struct packet packet = fixture_packet(OPCODE_ATOMIC_ACKNOWLEDGE, psn);

	packet.aeth.syndrome = SYNDROME_ACK_UNLIMITED;
	packet.atomic_original = original;
	return fixture_receive(f, &packet);
}

enum reason fixture_request(struct fixture *f, enum opcode operation, uint32_t psn,
			    const void *bytes, uint32_t length)
{
	struct packet packet = fixture_packet(operation, psn);

	packet.ack_requested = opcode_has(opcode_properties_of(packet.opcode), OPCODE_ENDS);
	if (!bytes)
		return receive_filled(f, &packet, 0x5a, length);
	packet.payload = bytes;
	packet.payload_bytes = length;
	return fixture_receive(f, &packet);
}

enum reason fixture_rdma_request(struct fixture *f, enum opcode operation, uint32_t psn,
				 uint64_t iova, uint32_t reth_length, uint32_t length)
{
	struct packet packet = fixture_packet(operation, psn);

	packet.reth.address = iova;
	packet.reth.rkey = FIXTURE_KEY;
	packet.reth.length = reth_length;
	packet.ack_requested = opcode_has(opcode_properties_of(packet.opcode), OPCODE_ENDS);
	if (operation == OPCODE_READ_REQUEST)
		return fixture_receive(f, &packet);
	return receive_filled(f, &packet, 0x5a, length);
}

const struct fixture_packet *fixture_expect(struct fixture *f, enum opcode operation, uint32_t psn)
{
	const struct fixture_packet *next = &f->packets[f->packet_next];

	assert_true(f->packet_next < f->packet_count);
	f->packet_next++;
	assert_string_equal(opcode_name(next->out.packet.opcode),
			    opcode_name(opcode_byte(service_of(f), operation)));
	assert_int_equal(next->out.packet.psn, psn & PSN_MASK);
	assert_int_equal(next->out.packet.dest_qpn, FIXTURE_PEER_QPN);
	assert_int_equal(next->out.packet.pkey, 0xffff);
	return next;
}

void fixture_expect_ack(struct fixture *f, uint32_t psn, uint8_t syndrome, uint32_t msn)
{
	const struct fixture_packet *ack = fixture_expect(f, OPCODE_ACKNOWLEDGE, psn);

	assert_int_equal(ack->out.packet.aeth.syndrome, syndrome);
	assert_int_equal(ack->out.packet.aeth.msn, msn);
}

const struct completion *fixture_expect_completion(struct fixture *f, uint64_t wr_id,
						   enum ibv_wc_status status)
{
	const struct completion *next = &f->completions[f->completion_next];

	assert_true(f->completion_next < f->completion_count);
	f->completion_next++;
	assert_int_equal(next->wr_id, wr_id);
	assert_int_equal(next->status, status);
	return next;
}

void fixture_expect_event(struct fixture *f, enum ibv_event_type event)
{
	assert_true(f->event_next < f->event_count);
	assert_int_equal(f->events[f->event_next++], event);
}

void fixture_expect_nothing(const struct fixture *f)
{
	assert_int_equal(f->packet_count - f->packet_next, 0);
	assert_int_equal(f->completion_count - f->completion_next, 0);
	assert_int_equal(f->event_count - f->event_next, 0);
}
