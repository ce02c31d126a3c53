/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests as lists of structs. */
#include "conformance/verbs/claims.h"

#include <string.h>

static bool completes(const struct room *room, struct ibv_send_wr *wr, enum ibv_wc_opcode opcode)
{
	return room_post_send(room->near.qp, wr) && room_await_success(room->near.cq, opcode);
}

static bool sends(const struct room *room)
{
	struct ibv_sge sge = room_piece(&room->near, 4096);
	struct ibv_send_wr wr = room_request(room, IBV_WR_SEND_WITH_IMM, &sge);
	struct ibv_wc completion;

	wr.imm_data = 0x1234;
	room_fill(room);
	if (!room_post_receive(&room->far, room->far.qp) || !completes(room, &wr, IBV_WC_SEND))
		return false;
	completion = room_await(room->far.cq);
	return completion.status == IBV_WC_SUCCESS && completion.byte_len == 4096 &&
	       completion.imm_data == 0x1234 && room_is_equal(room, 4096);
}

static bool writes(const struct room *room)
{
	struct ibv_sge sge = room_piece(&room->near, 4096);
	struct ibv_send_wr wr = room_request(room, IBV_WR_RDMA_WRITE, &sge);

	room_fill(room);
	return completes(room, &wr, IBV_WC_RDMA_WRITE) && room_is_equal(room, 4096);
}

static bool reads(const struct room *room)
{
	struct ibv_sge sge = room_piece(&room->near, 4096);
	struct ibv_send_wr wr = room_request(room, IBV_WR_RDMA_READ, &sge);

	room_fill(room);
	memset(room->far.bytes, 0x77, 4096);
	return completes(room, &wr, IBV_WC_RDMA_READ) && room_is_equal(room, 4096);
}

static bool adds_and_swaps(const struct room *room)
{
	struct ibv_sge sge = room_piece(&room->near, 8);
	struct ibv_send_wr add = room_request(room, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
	struct ibv_send_wr swap = room_request(room, IBV_WR_ATOMIC_CMP_AND_SWP, &sge);
	uint64_t value = 5;

	memcpy(room->far.bytes, &value, sizeof(value));
	add.wr.atomic.compare_add = 2;
	swap.wr.atomic.compare_add = 7;
	swap.wr.atomic.swap = 11;
	if (!completes(room, &add, IBV_WC_FETCH_ADD) || !completes(room, &swap, IBV_WC_COMP_SWAP))
		return false;
	memcpy(&value, room->far.bytes, sizeof(value));
	return value == 11;
}

static int refused_operation(const struct room *room, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr wr = room_request(room, opcode, NULL), *bad;

	return ibv_post_send(room->near.qp, &wr, &bad);
}

/* A private key of the QP's region cannot be invalidated: that needs fast registration. */
static enum ibv_wc_status invalidate_region(const struct room *room)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};

	wr.invalidate_rkey = room->near.mr->rkey;
	if (!room_post_send(room->near.qp, &wr))
		return IBV_WC_GENERAL_ERR;
	return room_await(room->near.cq).status;
}

void claims_about_requests(struct room *room)
{
	claim_heading("Requests");
	WORKS("ibv_post_send ibv_post_recv", sends(room));
	WORKS("ibv_post_send", writes(room) && reads(room) && adds_and_swaps(room));
	LIMIT("ibv_post_send", refused_operation(room, IBV_WR_TSO), "opcode TSO");
	LIMIT("ibv_post_send", refused_operation(room, IBV_WR_ATOMIC_WRITE), "opcode atomic write");
	/* The last one: it stops the QP. */
	NOTE("ibv_post_send", invalidate_region(room) == IBV_WC_MW_BIND_ERR,
	     "windows are invalidated, regions are not (`IBV_WC_MW_BIND_ERR`)");
}
