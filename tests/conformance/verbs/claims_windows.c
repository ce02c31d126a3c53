/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows of both types. */
#include "conformance/verbs/claims.h"

#include <stdint.h>

static enum ibv_wc_status write_by(const struct room *room, uint32_t key)
{
	struct ibv_sge sge = room_piece(&room->near, 64);
	struct ibv_send_wr wr = room_request(room, IBV_WR_RDMA_WRITE, &sge);

	wr.wr.rdma.rkey = key;
	room_fill(room);
	if (!room_post_send(room->near.qp, &wr))
		return IBV_WC_GENERAL_ERR;
	return room_await(room->near.cq).status;
}

static struct ibv_mw_bind_info first_bytes(const struct room *room)
{
	return (struct ibv_mw_bind_info){.mr = room->far.mr,
					 .addr = (uintptr_t)room->far.bytes,
					 .length = 64,
					 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
}

static void bound_by_a_call(struct room *room)
{
	struct ibv_mw *mw = ibv_alloc_mw(room->nic.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = first_bytes(room)};
	uint32_t before = mw ? mw->rkey : 0;
	bool is_bound = mw && ibv_bind_mw(room->far.qp, mw, &bind) == 0 &&
			room_await_success(room->far.cq, IBV_WC_BIND_MW);

	WORKS("ibv_bind_mw",
	      is_bound && write_by(room, mw->rkey) == IBV_WC_SUCCESS && room_is_equal(room, 64));
	WORKS("ibv_inc_rkey", is_bound && ibv_inc_rkey(before) == mw->rkey);
	/* The region has to stay as long as the window. */
	WORKS("ibv_dealloc_mw", is_bound && ibv_dereg_mr(room->far.mr) == EBUSY &&
					ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(room->far.mr) == 0);
	room->far.mr = ibv_reg_mr(room->nic.pd, room->far.bytes, ROOM_BYTES, ROOM_RIGHTS);
}

static void bound_by_a_request(struct room *room)
{
	struct ibv_mw *mw = ibv_alloc_mw(room->nic.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW,
				 .send_flags = IBV_SEND_SIGNALED,
				 .bind_mw = {mw, mw ? ibv_inc_rkey(mw->rkey) : 0,
					     first_bytes(room)}};

	NOTE("ibv_alloc_mw",
	     mw && room_post_send(room->far.qp, &wr) &&
		     room_await_success(room->far.cq, IBV_WC_BIND_MW) &&
		     write_by(room, wr.bind_mw.rkey) == IBV_WC_SUCCESS,
	     "types 1 and 2B");
	if (mw)
		ibv_dealloc_mw(mw);
}

void claims_about_windows(struct room *room)
{
	bound_by_a_call(room);
	bound_by_a_request(room);
}
