/* SPDX-License-Identifier: BSD-2-Clause */
#include "conformance/verbs/room.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/fail.h"

#define PATIENCE_SECONDS 10
#define PATTERN_BYTES 4096
#define OPERATIONS \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV)

struct ibv_qp_init_attr room_qp_attr(enum ibv_qp_type type, struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = ROOM_DEPTH,
			.max_recv_wr = ROOM_DEPTH,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = type,
	};
}

struct ibv_qp *room_create_extended(const struct room *room, const struct ibv_qp_init_attr *plain,
				    uint64_t operations)
{
	struct ibv_qp_init_attr_ex attr = {0};

	/* The extended form begins with the fields of the plain one. */
	memcpy(&attr, plain, sizeof(*plain));
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.pd = room->nic.pd;
	attr.send_ops_flags = operations;
	return ibv_create_qp_ex(room->nic.context, &attr);
}

int room_refused_operation(const struct room *room, uint64_t operations)
{
	struct ibv_qp_init_attr plain = room_qp_attr(IBV_QPT_RC, room->near.cq);

	errno = 0;
	return room_create_extended(room, &plain, operations) ? 0 : errno;
}

static void open_side(const struct room *room, struct side *side, struct ibv_comp_channel *channel)
{
	struct ibv_qp_init_attr plain;

	side->cq = ibv_create_cq(room->nic.context, 4 * ROOM_DEPTH, side, channel, 0);
	need_object(side->cq, "ibv_create_cq");
	side->bytes = aligned_alloc(4096, ROOM_BYTES);
	need_object(side->bytes, "aligned_alloc");
	side->mr = ibv_reg_mr(room->nic.pd, side->bytes, ROOM_BYTES, ROOM_RIGHTS);
	need_object(side->mr, "ibv_reg_mr");
	plain = room_qp_attr(IBV_QPT_RC, side->cq);
	side->qp = room_create_extended(room, &plain, OPERATIONS);
	need_object(side->qp, "ibv_create_qp_ex");
}

static void close_side(struct side *side)
{
	need_zero(ibv_destroy_qp(side->qp), "ibv_destroy_qp");
	need_zero(ibv_dereg_mr(side->mr), "ibv_dereg_mr");
	need_zero(ibv_destroy_cq(side->cq), "ibv_destroy_cq");
	free(side->bytes);
}

void room_open(struct room *room)
{
	nic_open(&room->nic, NIC_GID_IPV4);
	room->channel = ibv_create_comp_channel(room->nic.context);
	need_object(room->channel, "ibv_create_comp_channel");
	open_side(room, &room->near, NULL);
	open_side(room, &room->far, room->channel);
	nic_connect_pair(&room->nic, room->near.qp, room->far.qp);
}

void room_close(struct room *room)
{
	close_side(&room->near);
	close_side(&room->far);
	need_zero(ibv_destroy_comp_channel(room->channel), "ibv_destroy_comp_channel");
	nic_close(&room->nic);
}

int room_to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	attr.qp_access_flags = NIC_ALL_RIGHTS;
	return ibv_modify_qp(
		qp, &attr, mask | (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

bool room_start_datagrams(struct ibv_qp *qp)
{
	struct ibv_qp_attr receive = {.qp_state = IBV_QPS_RTR}, send = {.qp_state = IBV_QPS_RTS};

	return room_to_init(qp) == 0 && ibv_modify_qp(qp, &receive, IBV_QP_STATE) == 0 &&
	       ibv_modify_qp(qp, &send, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0;
}

void room_fill(const struct room *room)
{
	memset(room->near.bytes, 0, ROOM_BYTES);
	memset(room->far.bytes, 0, ROOM_BYTES);
	for (unsigned i = 0; i < PATTERN_BYTES; i++)
		room->near.bytes[i] = (uint8_t)(1 + i % 251);
}

bool room_is_equal(const struct room *room, size_t length)
{
	return memcmp(room->near.bytes, room->far.bytes, length) == 0;
}

struct ibv_sge room_piece(const struct side *side, uint32_t length)
{
	return (struct ibv_sge){(uintptr_t)side->bytes, length, side->mr->lkey};
}

struct ibv_send_wr room_request(const struct room *room, enum ibv_wr_opcode opcode,
				struct ibv_sge *sge)
{
	struct ibv_send_wr request = {
		.wr_id = 1,
		.sg_list = sge,
		.num_sge = sge ? 1 : 0,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		request.wr.atomic.remote_addr = (uintptr_t)room->far.bytes;
		request.wr.atomic.rkey = room->far.mr->rkey;
	} else {
		request.wr.rdma.remote_addr = (uintptr_t)room->far.bytes;
		request.wr.rdma.rkey = room->far.mr->rkey;
	}
	return request;
}

bool room_post_send(struct ibv_qp *qp, struct ibv_send_wr *request)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, request, &bad) == 0;
}

bool room_post_receive(const struct side *side, struct ibv_qp *qp)
{
	struct ibv_sge sge = room_piece(side, ROOM_BYTES);
	struct ibv_recv_wr request = {.wr_id = 2, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(qp, &request, &bad) == 0;
}

static time_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

struct ibv_wc room_await(struct ibv_cq *cq)
{
	time_t deadline = now() + PATIENCE_SECONDS;
	struct ibv_wc completion;

	while (now() < deadline)
		if (ibv_poll_cq(cq, 1, &completion) == 1)
			return completion;
	return (struct ibv_wc){.status = IBV_WC_GENERAL_ERR};
}

bool room_await_success(struct ibv_cq *cq, enum ibv_wc_opcode opcode)
{
	struct ibv_wc completion = room_await(cq);

	return completion.status == IBV_WC_SUCCESS && completion.opcode == opcode;
}

bool room_is_readable(int descriptor)
{
	struct pollfd wait = {.fd = descriptor, .events = POLLIN};

	return poll(&wait, 1, PATIENCE_SECONDS * 1000) == 1;
}
