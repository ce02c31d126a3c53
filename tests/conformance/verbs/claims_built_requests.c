/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests as calls: ibv_wr_*. */
#include "conformance/verbs/claims.h"

#include <string.h>

static struct ibv_qp_ex *begin(const struct room *room)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(room->near.qp);

	room_fill(room);
	ibv_wr_start(ex);
	ex->wr_id = 5;
	ex->wr_flags = IBV_SEND_SIGNALED;
	return ex;
}

static void set_piece(struct ibv_qp_ex *ex, const struct room *room, uint32_t length)
{
	ibv_wr_set_sge(ex, room->near.mr->lkey, (uintptr_t)room->near.bytes, length);
}

static bool completes(const struct room *room, struct ibv_qp_ex *ex, enum ibv_wc_opcode opcode)
{
	return ibv_wr_complete(ex) == 0 && room_await_success(room->near.cq, opcode);
}

/* A receive of the far side that was posted before came to its end, with @flags. */
static bool is_received(const struct room *room, unsigned flags, uint32_t value)
{
	struct ibv_wc completion = room_await(room->far.cq);

	return completion.status == IBV_WC_SUCCESS && completion.wc_flags == flags &&
	       (!flags || completion.imm_data == value);
}

static void sends(struct room *room)
{
	struct ibv_qp_ex *ex;

	room_post_receive(&room->far, room->far.qp);
	ex = begin(room);
	ibv_wr_send(ex);
	set_piece(ex, room, 64);
	WORKS("ibv_wr_start ibv_wr_send ibv_wr_set_sge ibv_wr_complete",
	      completes(room, ex, IBV_WC_SEND) && is_received(room, 0, 0) &&
		      room_is_equal(room, 64));
	room_post_receive(&room->far, room->far.qp);
	ex = begin(room);
	ibv_wr_send_imm(ex, 0x77);
	WORKS("ibv_wr_send_imm",
	      completes(room, ex, IBV_WC_SEND) && is_received(room, IBV_WC_WITH_IMM, 0x77));
}

static void data(struct room *room)
{
	uint32_t key = room->far.mr->rkey;
	uint64_t target = (uintptr_t)room->far.bytes;
	struct ibv_sge list[] = {room_piece(&room->near, 32), room_piece(&room->near, 32)};
	struct ibv_data_buf buffers[] = {{room->near.bytes, 16}, {room->near.bytes + 16, 16}};
	struct ibv_qp_ex *ex = begin(room);

	list[1].addr += 32;
	ibv_wr_rdma_write(ex, key, target);
	ibv_wr_set_sge_list(ex, 2, list);
	WORKS("ibv_wr_rdma_write ibv_wr_set_sge_list",
	      completes(room, ex, IBV_WC_RDMA_WRITE) && room_is_equal(room, 64));
	ex = begin(room);
	ibv_wr_rdma_write(ex, key, target);
	ibv_wr_set_inline_data(ex, room->near.bytes, 64);
	WORKS("ibv_wr_set_inline_data",
	      completes(room, ex, IBV_WC_RDMA_WRITE) && room_is_equal(room, 64));
	ex = begin(room);
	ibv_wr_rdma_write(ex, key, target);
	ibv_wr_set_inline_data_list(ex, 2, buffers);
	WORKS("ibv_wr_set_inline_data_list",
	      completes(room, ex, IBV_WC_RDMA_WRITE) && room_is_equal(room, 32));
	room_post_receive(&room->far, room->far.qp);
	ex = begin(room);
	ibv_wr_rdma_write_imm(ex, key, target, 0x99);
	set_piece(ex, room, 64);
	WORKS("ibv_wr_rdma_write_imm", completes(room, ex, IBV_WC_RDMA_WRITE) &&
					       is_received(room, IBV_WC_WITH_IMM, 0x99) &&
					       room_is_equal(room, 64));
}

static void reads_and_atomics(struct room *room)
{
	uint32_t key = room->far.mr->rkey;
	uint64_t target = (uintptr_t)room->far.bytes, value = 0;
	struct ibv_qp_ex *ex = begin(room);

	ibv_wr_rdma_read(ex, key, target);
	set_piece(ex, room, 64);
	WORKS("ibv_wr_rdma_read", completes(room, ex, IBV_WC_RDMA_READ) && room_is_equal(room, 64));
	ex = begin(room);
	ibv_wr_atomic_fetch_add(ex, key, target, 5);
	set_piece(ex, room, 8);
	WORKS("ibv_wr_atomic_fetch_add", completes(room, ex, IBV_WC_FETCH_ADD) &&
						 memcpy(&value, room->far.bytes, 8) && value == 5);
	ex = begin(room);
	ibv_wr_atomic_cmp_swp(ex, key, target, 0, 7);
	set_piece(ex, room, 8);
	WORKS("ibv_wr_atomic_cmp_swp", completes(room, ex, IBV_WC_COMP_SWAP) &&
					       memcpy(&value, room->far.bytes, 8) && value == 7);
}

static void windows(struct room *room)
{
	struct ibv_mw *mw = ibv_alloc_mw(room->nic.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = {room->near.mr, (uintptr_t)room->near.bytes, 64,
					IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_ex *ex = begin(room);
	uint32_t key = ibv_inc_rkey(mw->rkey);

	ibv_wr_bind_mw(ex, mw, key, &info);
	WORKS("ibv_wr_bind_mw", completes(room, ex, IBV_WC_BIND_MW));
	ex = begin(room);
	ibv_wr_local_inv(ex, key);
	WORKS("ibv_wr_local_inv", completes(room, ex, IBV_WC_LOCAL_INV));
	/* Far binds, near's send invalidates. */
	ex = ibv_qp_to_qp_ex(room->far.qp);
	info.mr = room->far.mr;
	info.addr = (uintptr_t)room->far.bytes;
	key = ibv_inc_rkey(key);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, mw, key, &info);
	WORKS("ibv_wr_send_inv",
	      ibv_wr_complete(ex) == 0 && room_await_success(room->far.cq, IBV_WC_BIND_MW));
	room_post_receive(&room->far, room->far.qp);
	ex = begin(room);
	ibv_wr_send_inv(ex, key);
	WORKS("ibv_wr_send_inv",
	      completes(room, ex, IBV_WC_SEND) && is_received(room, IBV_WC_WITH_INV, key));
	ibv_dealloc_mw(mw);
}

static void giving_up(struct room *room)
{
	struct ibv_qp_ex *ex = begin(room);
	struct ibv_wc completion;

	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	WORKS("ibv_wr_abort", ibv_poll_cq(room->near.cq, 1, &completion) == 0);
}

void claims_about_built_requests(struct room *room)
{
	sends(room);
	data(room);
	reads_and_atomics(room);
	windows(room);
	giving_up(room);
	REFUSED("ibv_wr_send_tso", room_refused_operation(room, IBV_QP_EX_WITH_TSO),
		"`ibv_create_qp_ex` refuses: there is no TSO");
	REFUSED("ibv_wr_atomic_write", room_refused_operation(room, IBV_QP_EX_WITH_ATOMIC_WRITE),
		"`ibv_create_qp_ex` refuses: there are no atomic writes");
}
