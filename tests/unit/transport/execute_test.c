/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The check pipeline: which messages are executed, which are refused and how, and
 * that a refused packet changes no byte of memory.
 */
#include <string.h>

#include "unit/transport/request_step.h"

static uint64_t post_recv_key(struct fixture *f, uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = {.addr = FIXTURE_IOVA + RECV_OFFSET, .length = length, .lkey = lkey};
	struct ibv_recv_wr wr = {.wr_id = f->wr_id_next++, .sg_list = &sge, .num_sge = 1};

	assert_int_equal(qp_post_recv(f->qp, &wr, NULL), 0);
	return wr.wr_id;
}

/* --- what is executed --- */

struct message {
	const char *name;
	struct step steps[3];
	uint32_t step_count;
	uint32_t length; /* of the whole message */
	uint32_t target; /* offset in the region */
	/* The receive that completes; none for a plain WRITE. */
	bool has_completion;
	enum ibv_wc_opcode opcode;
	bool has_immediate, is_solicited;
};

#define SEND_SOLICITED(op, bytes, at) \
	{ \
		.operation = OPCODE_SEND_##op, .length = (bytes), .offset = (at), \
		.solicited = true \
	}
#define RECV .target = RECV_OFFSET, .has_completion = true, .opcode = IBV_WC_RECV
#define RECV_RDMA \
	.target = WRITE_OFFSET, .has_completion = true, .has_immediate = true, \
	.opcode = IBV_WC_RECV_RDMA_WITH_IMM

/* clang-format off */
static const struct message messages[] = {
	{"send of one packet", {SEND(ONLY, 100, 0)}, 1, 100, RECV},
	{"send of nothing", {SEND(ONLY, 0, 0)}, 1, 0, RECV},
	{"send of a full packet", {SEND(ONLY, MTU, 0)}, 1, MTU, RECV},
	{"send with immediate", {SEND(ONLY_IMM, 8, 0)}, 1, 8, RECV, .has_immediate = true},
	{"solicited send", {SEND_SOLICITED(ONLY, 8, 0)}, 1, 8, RECV, .is_solicited = true},
	{"send of two packets", {SEND(FIRST, MTU, 0), SEND(LAST, 1, MTU)}, 2, MTU + 1, RECV},
	{"send of three packets with immediate", {SEND(FIRST, MTU, 0), SEND(MIDDLE, MTU, MTU),
	 SEND_SOLICITED(LAST_IMM, MTU, 2 * MTU)}, 3, 3 * MTU, RECV, .has_immediate = true,
	 .is_solicited = true},
	{"write of one packet", {WRITE(ONLY, 100, 0, 100)}, 1, 100, .target = WRITE_OFFSET},
	{"write of nothing", {WRITE(ONLY, 0, 0, 0)}, 1, 0, .target = WRITE_OFFSET},
	{"write of nothing by a key that is none", {{.operation = OPCODE_WRITE_ONLY,
	 .rkey = 0xdeadbeef}}, 1, 0, .target = WRITE_OFFSET},
	{"write of three packets", {WRITE(FIRST, MTU, 0, 2 * MTU + 4), WRITE(MIDDLE, MTU, MTU, 0),
	 WRITE(LAST, 4, 2 * MTU, 0)}, 3, 2 * MTU + 4, .target = WRITE_OFFSET},
	{"write with immediate", {WRITE(ONLY_IMM, 64, 0, 64)}, 1, 64, RECV_RDMA},
	{"write of nothing with immediate", {WRITE(ONLY_IMM, 0, 0, 0)}, 1, 0, RECV_RDMA},
	{"write of two packets with immediate", {WRITE(FIRST, MTU, 0, MTU + 9),
	 WRITE(LAST_IMM, 9, MTU, 0)}, 2, MTU + 9, RECV_RDMA},
};
/* clang-format on */

static void check_message_completion(struct fixture *f, const struct message *message,
				     uint64_t wr_id)
{
	const struct completion *completion = fixture_expect_completion(f, wr_id, IBV_WC_SUCCESS);

	assert_int_equal(completion->opcode, message->opcode);
	assert_int_equal(completion->byte_len, message->length);
	assert_int_equal(completion->wc_flags, message->has_immediate ? IBV_WC_WITH_IMM : 0);
	assert_int_equal(completion->immediate, message->has_immediate ? htobe32(0xcafe0001) : 0);
	assert_int_equal(completion->source_qpn, FIXTURE_PEER_QPN);
	assert_int_equal(completion->is_solicited, message->is_solicited);
	assert_true(completion->is_receive);
	assert_int_equal(completion->slots_released, 1);
	assert_int_equal(completion->complaint.reason, REASON_NONE);
}

static void check_message(const struct message *message)
{
	struct fixture *f = fixture_new(&fixture_usual);
	uint64_t wr_id = fixture_post_recv(f, RECV_OFFSET, 4 * MTU);

	for (uint32_t i = 0; i < message->step_count; i++) {
		struct step step = message->steps[i];

		step.ack_requested = i + 1 == message->step_count;
		fixture_expect_nothing(f);
		assert_int_equal(f->qp->responder.msn, 0);
		assert_int_equal(send_step(f, &step, E + i), REASON_NONE);
	}
	fixture_expect_ack(f, E + message->step_count - 1, SYNDROME_ACK_UNLIMITED, 1);
	if (message->has_completion)
		check_message_completion(f, message, wr_id);
	fixture_expect_nothing(f);
	expect_bytes(f, message->target, message->length);
	assert_int_equal(f->qp->recv_queue.done, message->has_completion ? 1 : 0);
	assert_int_equal(f->qp->responder.psn_expected, E + message->step_count);
	fixture_free(f);
}

static void messages_are_executed(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		print_message("  %s\n", messages[i].name);
		check_message(&messages[i]);
	}
}

static void a_send_is_scattered_over_the_list(void **state)
{
	const uint32_t lengths[4] = {10, 0, 1500, 700};
	struct fixture *f = fixture_new(&fixture_usual);
	struct ibv_sge list[4];
	struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = list, .num_sge = 4};
	const struct step steps[] = {SEND(FIRST, MTU, 0), SEND(LAST, MTU, MTU)};
	uint32_t at = 0;

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		list[i] = (struct ibv_sge){FIXTURE_IOVA + RECV_OFFSET + i * 0x1000, lengths[i],
					   FIXTURE_KEY};
	assert_int_equal(qp_post_recv(f->qp, &wr, NULL), 0);
	send_step(f, &steps[0], E);
	send_step(f, &steps[1], E + 1);
	assert_int_equal(fixture_expect_completion(f, 9, IBV_WC_SUCCESS)->byte_len, 2 * MTU);
	for (uint32_t i = 0; i < 4; i++) {
		const uint8_t *piece = f->memory + RECV_OFFSET + i * 0x1000;
		uint32_t filled = at + lengths[i] <= 2 * MTU ? lengths[i] : 2 * MTU - at;

		for (uint32_t j = 0; j < filled; j++)
			assert_int_equal(piece[j], message_byte(at + j));
		assert_int_equal(piece[filled], 0);
		at += filled;
	}
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void a_receive_without_elements_takes_a_send_of_nothing(void **state)
{
	struct fixture *f = fixture_new(&fixture_usual);
	struct ibv_recv_wr wr = {.wr_id = 4};
	const struct step step = SEND(ONLY, 0, 0);

	(void)state;
	assert_int_equal(qp_post_recv(f->qp, &wr, NULL), 0);
	assert_int_equal(send_step(f, &step, E), REASON_NONE);
	assert_int_equal(fixture_expect_completion(f, 4, IBV_WC_SUCCESS)->byte_len, 0);
	fixture_expect_nothing(f);
	fixture_free(f);
}

/* --- what is refused --- */

struct refusal {
	const char *name;
	struct step steps[3]; /* the last one is refused */
	uint32_t step_count;
	enum reason reason;
	uint8_t syndrome;
	/* Either the receive that was taken ends with this status, or there is an event. */
	enum ibv_wc_status status;
	enum ibv_event_type event;
	uint32_t recv_bytes; /* of the one receive; 0: none is posted */
	uint32_t recv_key;   /* 0: FIXTURE_KEY */
	uint32_t access_off; /* rights the QP does not have */
};

#define INVALID SYNDROME_NAK_INVALID_REQUEST
#define ACCESS SYNDROME_NAK_REMOTE_ACCESS
#define OPERATION SYNDROME_NAK_REMOTE_OPERATION
#define WRITE_AT(op, at, bytes, whole) \
	{ \
		.operation = OPCODE_WRITE_##op, .length = (bytes), .iova = (at), \
		.reth_length = (whole) \
	}
#define ATOMIC_AT(at) \
	{ \
		.operation = OPCODE_FETCH_ADD, .iova = (at) \
	}
#define UNOFFERED(op, bytes) \
	{ \
		.operation = (enum opcode)(op), .length = (bytes) \
	}
#define END_IOVA (FIXTURE_IOVA + FIXTURE_BYTES)

/* clang-format off */
static const struct refusal refusals[] = {
	{"middle without first", {SEND(MIDDLE, MTU, 0)}, 1, REASON_OPCODE_ORDER, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR, .recv_bytes = 4096},
	{"last without first", {SEND(LAST, 4, 0)}, 1, REASON_OPCODE_ORDER, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR},
	{"write middle without first", {WRITE(MIDDLE, MTU, 0, 0)}, 1, REASON_OPCODE_ORDER, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR},
	{"first in a send", {SEND(FIRST, MTU, 0), SEND(FIRST, MTU, 0)}, 2, REASON_OPCODE_ORDER,
	 INVALID, .status = IBV_WC_REM_INV_REQ_ERR, .recv_bytes = 4096},
	{"write middle in a send", {SEND(FIRST, MTU, 0), WRITE(MIDDLE, MTU, 0, 0)}, 2,
	 REASON_OPCODE_ORDER, INVALID, .status = IBV_WC_REM_INV_REQ_ERR, .recv_bytes = 4096},
	{"send last in a write", {WRITE(FIRST, MTU, 0, 2000), SEND(LAST, 976, 0)}, 2,
	 REASON_OPCODE_ORDER, INVALID, .event = IBV_EVENT_QP_REQ_ERR, .recv_bytes = 4096},
	{"read in a send", {SEND(FIRST, MTU, 0), READ(WRITE_IOVA, 8)}, 2, REASON_OPCODE_ORDER,
	 INVALID, .status = IBV_WC_REM_INV_REQ_ERR, .recv_bytes = 4096},
	{"atomic in a write", {WRITE(FIRST, MTU, 0, 2000), ATOMIC_AT(WRITE_IOVA)}, 2,
	 REASON_OPCODE_ORDER, INVALID, .event = IBV_EVENT_QP_REQ_ERR},
	{"atomic write", {UNOFFERED(0x1d, 24)}, 1, REASON_OPCODE_UNSUPPORTED, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR},
	{"atomic write of sixteen bytes", {UNOFFERED(0x1d, 32)}, 1, REASON_OPCODE_UNSUPPORTED,
	 INVALID, .event = IBV_EVENT_QP_REQ_ERR, .recv_bytes = 64},
	{"atomic write of nothing", {UNOFFERED(0x1d, 16)}, 1, REASON_OPCODE_UNSUPPORTED, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR},
	{"flush", {UNOFFERED(0x1c, 20)}, 1, REASON_OPCODE_UNSUPPORTED, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR},
	{"reserved operation", {UNOFFERED(0x15, 0)}, 1, REASON_OPCODE_UNSUPPORTED, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR},
	{"reserved operation in a send", {SEND(FIRST, MTU, 0), UNOFFERED(0x1f, MTU)}, 2,
	 REASON_OPCODE_UNSUPPORTED, INVALID, .status = IBV_WC_REM_INV_REQ_ERR,
	 .recv_bytes = 4096},
	{"send that invalidates a region", {SEND(ONLY_INVALIDATE, 64, 0)}, 1,
	 REASON_INVALIDATE_REFUSED, ACCESS, .status = IBV_WC_LOC_ACCESS_ERR, .recv_bytes = 64},
	{"last that invalidates a region", {SEND(FIRST, MTU, 0), SEND(LAST_INVALIDATE, 4, MTU)}, 2,
	 REASON_INVALIDATE_REFUSED, ACCESS, .status = IBV_WC_LOC_ACCESS_ERR, .recv_bytes = 4096},
	{"last of nothing that invalidates", {SEND(FIRST, MTU, 0), SEND(LAST_INVALIDATE, 0, MTU)},
	 2, REASON_PACKET_LENGTH, INVALID, .status = IBV_WC_REM_INV_REQ_ERR, .recv_bytes = 4096},
	{"first that is not full", {SEND(FIRST, MTU - 1, 0)}, 1, REASON_PACKET_LENGTH, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR, .recv_bytes = 4096},
	{"middle that is not full", {SEND(FIRST, MTU, 0), SEND(MIDDLE, 4, MTU)}, 2,
	 REASON_PACKET_LENGTH, INVALID, .status = IBV_WC_REM_INV_REQ_ERR, .recv_bytes = 4096},
	{"last of nothing", {SEND(FIRST, MTU, 0), SEND(LAST, 0, MTU)}, 2, REASON_PACKET_LENGTH,
	 INVALID, .status = IBV_WC_REM_INV_REQ_ERR, .recv_bytes = 4096},
	{"last past the MTU", {SEND(FIRST, MTU, 0), SEND(LAST, MTU + 1, MTU)}, 2,
	 REASON_PACKET_LENGTH, INVALID, .status = IBV_WC_REM_INV_REQ_ERR, .recv_bytes = 4096},
	{"only past the MTU", {SEND(ONLY, MTU + 1, 0)}, 1, REASON_PACKET_LENGTH, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR, .recv_bytes = 4096},
	{"write longer than told", {WRITE(ONLY, 65, 0, 64)}, 1, REASON_PACKET_LENGTH, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR},
	{"write shorter than told", {WRITE(ONLY, 63, 0, 64)}, 1, REASON_PACKET_LENGTH, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR},
	{"write first that is all", {WRITE(FIRST, MTU, 0, MTU)}, 1, REASON_PACKET_LENGTH, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR},
	{"write middle that leaves nothing", {WRITE(FIRST, MTU, 0, 2 * MTU),
	 WRITE(MIDDLE, MTU, MTU, 0)}, 2, REASON_PACKET_LENGTH, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR},
	{"write last that leaves something", {WRITE(FIRST, MTU, 0, 2 * MTU),
	 WRITE(LAST, 4, MTU, 0)}, 2, REASON_PACKET_LENGTH, INVALID, .event = IBV_EVENT_QP_REQ_ERR},
	{"write last with immediate of a wrong length", {WRITE(FIRST, MTU, 0, 2 * MTU),
	 WRITE(LAST_IMM, 4, MTU, 0)}, 2, REASON_PACKET_LENGTH, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR, .recv_bytes = 64},
	{"write first of 4 GiB", {WRITE(FIRST, MTU, 0, UINT32_MAX)}, 1, REASON_MESSAGE_TOO_LONG,
	 INVALID, .event = IBV_EVENT_QP_REQ_ERR},
	{"read of 4 GiB", {READ(WRITE_IOVA, UINT32_MAX)}, 1, REASON_MESSAGE_TOO_LONG, INVALID,
	 .event = IBV_EVENT_QP_REQ_ERR},
	{"read of one more than 2 GiB", {READ(WRITE_IOVA, 0x80000001u)}, 1,
	 REASON_MESSAGE_TOO_LONG, INVALID, .event = IBV_EVENT_QP_REQ_ERR},
	{"write without the right of the QP", {WRITE(ONLY, 4, 0, 4)}, 1, REASON_QP_NO_REMOTE_WRITE,
	 ACCESS, .event = IBV_EVENT_QP_ACCESS_ERR, .access_off = IBV_ACCESS_REMOTE_WRITE},
	{"write of nothing without the right of the QP", {WRITE(ONLY, 0, 0, 0)}, 1,
	 REASON_QP_NO_REMOTE_WRITE, ACCESS, .event = IBV_EVENT_QP_ACCESS_ERR,
	 .access_off = IBV_ACCESS_REMOTE_WRITE},
	{"read without the right of the QP", {READ(WRITE_IOVA, 4)}, 1, REASON_QP_NO_REMOTE_READ,
	 ACCESS, .event = IBV_EVENT_QP_ACCESS_ERR, .access_off = IBV_ACCESS_REMOTE_READ},
	{"atomic without the right of the QP", {ATOMIC_AT(WRITE_IOVA)}, 1,
	 REASON_QP_NO_REMOTE_ATOMIC, ACCESS, .event = IBV_EVENT_QP_ACCESS_ERR,
	 .access_off = IBV_ACCESS_REMOTE_ATOMIC},
	{"write by a wrong key", {WRONG_KEY(WRITE_ONLY, 64)}, 1, REASON_KEY_UNKNOWN, ACCESS,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	{"write with immediate by a wrong key", {WRONG_KEY(WRITE_ONLY_IMM, 64)}, 1,
	 REASON_KEY_UNKNOWN, ACCESS, .status = IBV_WC_LOC_ACCESS_ERR, .recv_bytes = 64},
	{"read by a wrong key", {WRONG_KEY(READ_REQUEST, 0)}, 1, REASON_KEY_UNKNOWN, ACCESS,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	{"atomic by a wrong key", {WRONG_KEY(COMPARE_SWAP, 0)}, 1, REASON_KEY_UNKNOWN, ACCESS,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	{"write past the end", {WRITE_AT(ONLY, END_IOVA - 4, 8, 8)}, 1, REASON_KEY_RANGE, ACCESS,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	{"write whose last packet would run past the end",
	 {WRITE_AT(FIRST, END_IOVA - MTU, MTU, MTU + 1)}, 1, REASON_KEY_RANGE, ACCESS,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	{"write that wraps the address space", {WRITE_AT(FIRST, UINT64_MAX - 3, MTU, 0x80000000u)},
	 1, REASON_KEY_RANGE, ACCESS, .event = IBV_EVENT_QP_ACCESS_ERR},
	{"read of 2 GiB from a smaller region", {READ(FIXTURE_IOVA, 0x80000000u)}, 1,
	 REASON_KEY_RANGE, ACCESS, .event = IBV_EVENT_QP_ACCESS_ERR},
	{"write to a read-only region", {{.operation = OPCODE_WRITE_ONLY, .length = 4,
	 .iova = FIXTURE_READ_ONLY_IOVA, .reth_length = 4, .rkey = FIXTURE_READ_ONLY_KEY}}, 1,
	 REASON_KEY_NO_REMOTE_WRITE, ACCESS, .event = IBV_EVENT_QP_ACCESS_ERR},
	{"atomic on a read-only region", {{.operation = OPCODE_FETCH_ADD,
	 .iova = FIXTURE_READ_ONLY_IOVA, .rkey = FIXTURE_READ_ONLY_KEY}}, 1,
	 REASON_KEY_NO_REMOTE_ATOMIC, ACCESS, .event = IBV_EVENT_QP_ACCESS_ERR},
	{"atomic that is not aligned", {ATOMIC_AT(WRITE_IOVA + 4)}, 1, REASON_ATOMIC_MISALIGNED,
	 INVALID, .event = IBV_EVENT_QP_REQ_ERR},
	{"send longer than the receive", {SEND(ONLY, 65, 0)}, 1, REASON_RECV_TOO_SHORT, INVALID,
	 .status = IBV_WC_LOC_LEN_ERR, .recv_bytes = 64},
	{"last packet longer than the receive", {SEND(FIRST, MTU, 0), SEND(LAST, 2, MTU)}, 2,
	 REASON_RECV_TOO_SHORT, INVALID, .status = IBV_WC_LOC_LEN_ERR, .recv_bytes = MTU + 1},
	{"receive with a wrong key", {SEND(ONLY, 64, 0)}, 1, REASON_KEY_UNKNOWN, OPERATION,
	 .status = IBV_WC_LOC_PROT_ERR, .recv_bytes = 64, .recv_key = 0x00abcd02},
	{"receive without local write", {SEND(ONLY, 64, 0)}, 1, REASON_KEY_NO_LOCAL_WRITE,
	 OPERATION, .status = IBV_WC_LOC_PROT_ERR, .recv_bytes = 64,
	 .recv_key = FIXTURE_READ_ONLY_KEY},
};
/* clang-format on */

static void check_outcome(struct fixture *f, const struct refusal *refusal)
{
	const struct completion *completion;

	if (!refusal->status) {
		fixture_expect_event(f, refusal->event);
		if (refusal->recv_bytes)
			fixture_expect_completion(f, 1, IBV_WC_WR_FLUSH_ERR);
		return;
	}
	completion = fixture_expect_completion(f, 1, refusal->status);
	assert_true(completion->is_receive);
	assert_int_equal(completion->complaint.reason, refusal->reason);
	assert_int_equal(completion->complaint.qpn, FIXTURE_QPN);
	assert_int_equal(completion->slots_released, 1);
}

static struct fixture *refusal_fixture(const struct refusal *refusal)
{
	struct fixture_settings settings = fixture_usual;
	struct fixture *f;

	settings.access &= ~refusal->access_off;
	f = fixture_new(&settings);
	if (refusal->recv_bytes)
		post_recv_key(f, refusal->recv_bytes,
			      refusal->recv_key ? refusal->recv_key : FIXTURE_KEY);
	return f;
}

static void check_refusal(const struct refusal *refusal, const struct copier *copier)
{
	static uint8_t before[FIXTURE_BYTES];
	struct fixture *f = refusal_fixture(refusal);
	uint32_t last = refusal->step_count - 1;

	f->core.copier = copier;
	for (uint32_t i = 0; i < last; i++)
		assert_int_equal(send_step(f, &refusal->steps[i], E + i), REASON_NONE);
	fixture_expect_nothing(f);
	memcpy(before, f->memory, FIXTURE_BYTES);

	assert_int_equal(send_step(f, &refusal->steps[last], E + last), refusal->reason);
	fixture_expect_ack(f, E + last, refusal->syndrome, 0);
	check_outcome(f, refusal);
	fixture_expect_nothing(f);
	assert_memory_equal(f->memory, before, FIXTURE_BYTES);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_int_equal(f->qp->first_complaint.reason, refusal->reason);
	assert_int_equal(f->qp->responder.psn_expected, E + last);
	fixture_free(f);
}

static void refusals_end_the_connection(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		print_message("  %s\n", refusals[i].name);
		check_refusal(&refusals[i], &copier_direct);
	}
}

static void a_send_past_two_gigabytes_is_too_long(void **state)
{
	const struct refusal refusal = {.recv_bytes = 64};
	struct fixture *f = refusal_fixture(&refusal);
	const struct step first = SEND(FIRST, MTU, 0), last = SEND(LAST, 1, 0);

	(void)state;
	/* The message is not played in full: its count is set to where it would stand. */
	recv_wqe_at(&f->qp->recv_queue, 0)->length = UINT64_MAX;
	recv_wqe_at(&f->qp->recv_queue, 0)->sge[0].length = MTU;
	assert_int_equal(send_step(f, &first, E), REASON_NONE);
	f->qp->responder.received = MESSAGE_BYTES_MAX;
	assert_int_equal(send_step(f, &last, E + 1), REASON_MESSAGE_TOO_LONG);
	fixture_expect_ack(f, E + 1, SYNDROME_NAK_INVALID_REQUEST, 0);
	fixture_expect_completion(f, 1, IBV_WC_LOC_LEN_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void a_region_that_goes_away_ends_a_write_in_the_middle(void **state)
{
	const struct step first = WRITE(FIRST, MTU, 0, 2 * MTU);
	const struct step last = WRITE(LAST_IMM, MTU, MTU, 0);
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post_recv(f, RECV_OFFSET, 16);
	assert_int_equal(send_step(f, &first, E), REASON_NONE);
	fixture_deregister(f);
	assert_int_equal(send_step(f, &last, E + 1), REASON_KEY_UNKNOWN);
	fixture_expect_ack(f, E + 1, SYNDROME_NAK_REMOTE_ACCESS, 0);
	fixture_expect_completion(f, 1, IBV_WC_LOC_ACCESS_ERR);
	fixture_expect_nothing(f);
	expect_bytes(f, WRITE_OFFSET, MTU);
	fixture_free(f);
}

static void a_right_that_is_withdrawn_ends_a_write_in_the_middle(void **state)
{
	const struct step first = WRITE(FIRST, MTU, 0, 2 * MTU), last = WRITE(LAST, MTU, MTU, 0);
	struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_REMOTE_READ};
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	assert_int_equal(send_step(f, &first, E), REASON_NONE);
	qp_modify(f->qp, &attr, IBV_QP_ACCESS_FLAGS, NULL, &f->core);
	assert_int_equal(send_step(f, &last, E + 1), REASON_QP_NO_REMOTE_WRITE);
	fixture_expect_ack(f, E + 1, SYNDROME_NAK_REMOTE_ACCESS, 0);
	fixture_expect_event(f, IBV_EVENT_QP_ACCESS_ERR);
	fixture_expect_nothing(f);
	expect_bytes(f, WRITE_OFFSET, MTU);
	fixture_free(f);
}

/* --- memory that is registered but gone --- */

static size_t fault_copy(void *to, const void *from, size_t length)
{
	(void)to;
	(void)from;
	(void)length;
	return 0;
}

static bool fault_fetch_add(uint64_t *target, uint64_t add, uint64_t *original)
{
	(void)target;
	(void)add;
	(void)original;
	return false;
}

static bool fault_compare_swap(uint64_t *target, uint64_t compare, uint64_t swap,
			       uint64_t *original)
{
	(void)target;
	(void)compare;
	(void)swap;
	(void)original;
	return false;
}

static const struct copier copier_fault = {fault_copy, fault_fetch_add, fault_compare_swap};

/* clang-format off */
static const struct refusal faults[] = {
	{"send", {SEND(ONLY, 64, 0)}, 1, REASON_MEMORY_FAULT, OPERATION,
	 .status = IBV_WC_LOC_PROT_ERR, .recv_bytes = 64},
	{"write", {WRITE(ONLY, 64, 0, 64)}, 1, REASON_MEMORY_FAULT, OPERATION,
	 .event = IBV_EVENT_QP_FATAL, .recv_bytes = 64},
	{"write with immediate", {WRITE(ONLY_IMM, 64, 0, 64)}, 1, REASON_MEMORY_FAULT, OPERATION,
	 .status = IBV_WC_LOC_QP_OP_ERR, .recv_bytes = 64},
	{"fetch and add", {ATOMIC_AT(WRITE_IOVA)}, 1, REASON_MEMORY_FAULT, OPERATION,
	 .event = IBV_EVENT_QP_FATAL},
	{"compare and swap", {{.operation = OPCODE_COMPARE_SWAP, .iova = WRITE_IOVA}}, 1,
	 REASON_MEMORY_FAULT, OPERATION, .event = IBV_EVENT_QP_FATAL},
};
/* clang-format on */

static void a_fault_is_the_responders_own_failure(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		print_message("  %s\n", faults[i].name);
		check_refusal(&faults[i], &copier_fault);
	}
}

static void a_fault_under_a_read_is_told_where_it_happened(void **state)
{
	const struct step read = READ(WRITE_IOVA, 4 * MTU);
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	f->core.copier = &copier_fault;
	assert_int_equal(send_step(f, &read, E), REASON_NONE);
	fixture_expect_ack(f, E, SYNDROME_NAK_REMOTE_OPERATION, 1);
	fixture_expect_event(f, IBV_EVENT_QP_FATAL);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void a_failed_qp_flushes_a_taken_receive_once(void **state)
{
	const struct step first = SEND(FIRST, MTU, 0);
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	fixture_post_recv(f, RECV_OFFSET, 4096);
	fixture_post_recv(f, RECV_OFFSET, 4096);
	assert_int_equal(send_step(f, &first, E), REASON_NONE);
	fixture_move(f, IBV_QPS_ERR);
	fixture_expect_completion(f, 1, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_completion(f, 2, IBV_WC_WR_FLUSH_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void reads_past_the_depth_are_refused(void **state)
{
	const struct step read = READ(WRITE_IOVA, 8);
	struct fixture *f = fixture_new(&fixture_usual);

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(send_step_only(f, &read, E + i), REASON_NONE);
	assert_int_equal(send_step_only(f, &read, E + 4), REASON_READ_DEPTH);
	fixture_run(f);
	for (uint32_t i = 0; i < 4; i++)
		fixture_expect(f, OPCODE_READ_RESPONSE_ONLY, E + i);
	fixture_expect_ack(f, E + 4, SYNDROME_NAK_INVALID_REQUEST, 4);
	fixture_expect_event(f, IBV_EVENT_QP_REQ_ERR);
	fixture_expect_nothing(f);
	fixture_free(f);
}

static void each_reason_has_its_syndrome(void **state)
{
	(void)state;
	assert_int_equal(rc_responder_syndrome(REASON_RECV_QUEUE_EMPTY), SYNDROME_RNR_BASE);
	assert_int_equal(rc_responder_syndrome(REASON_DROP_OUT_OF_ORDER), SYNDROME_NAK_SEQUENCE);
	assert_int_equal(rc_responder_syndrome(REASON_READ_DEPTH), SYNDROME_NAK_INVALID_REQUEST);
	assert_int_equal(rc_responder_syndrome(REASON_KEY_PD_MISMATCH), SYNDROME_NAK_REMOTE_ACCESS);
	assert_int_equal(rc_responder_syndrome(REASON_MEMORY_FAULT), SYNDROME_NAK_REMOTE_OPERATION);
	assert_int_equal(rc_responder_syndrome(REASON_KEY_NO_LOCAL_WRITE),
			 SYNDROME_NAK_REMOTE_OPERATION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_are_executed),
		cmocka_unit_test(a_send_is_scattered_over_the_list),
		cmocka_unit_test(a_receive_without_elements_takes_a_send_of_nothing),
		cmocka_unit_test(refusals_end_the_connection),
		cmocka_unit_test(a_send_past_two_gigabytes_is_too_long),
		cmocka_unit_test(a_region_that_goes_away_ends_a_write_in_the_middle),
		cmocka_unit_test(a_right_that_is_withdrawn_ends_a_write_in_the_middle),
		cmocka_unit_test(a_fault_is_the_responders_own_failure),
		cmocka_unit_test(a_fault_under_a_read_is_told_where_it_happened),
		cmocka_unit_test(a_failed_qp_flushes_a_taken_receive_once),
		cmocka_unit_test(reads_past_the_depth_are_refused),
		cmocka_unit_test(each_reason_has_its_syndrome),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
