/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects that all threads use at the same time: two QPs, one CQ, one region. No model
 * can say what a call answers then, but only that it is one of few things, that no entry is
 * handed out twice, and that nothing breaks.
 */
#include "fuzz/api_shared.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tools/fail.h"
#include "tools/nic.h"

#define DEPTH 64
#define BYTES 65536
#define SEEN 65536

static struct {
	struct nic nic;
	struct ibv_cq *cq;
	struct ibv_qp *qps[2];
	struct ibv_mr *mr;
	uint8_t *buffer;
	_Atomic uint64_t next_id;
	_Atomic uint64_t seen[SEEN]; /* the last wr_id polled whose low bits are these */
} shared;

void shared_open(void)
{
	nic_open(&shared.nic, NIC_GID_IPV4);
	shared.buffer = aligned_alloc(4096, BYTES);
	need_object(shared.buffer, "aligned_alloc");
	memset(shared.buffer, 0, BYTES);
	shared.mr = ibv_reg_mr(shared.nic.pd, shared.buffer, BYTES, NIC_ALL_RIGHTS);
	need_object(shared.mr, "ibv_reg_mr");
	shared.cq = ibv_create_cq(shared.nic.context, 4 * DEPTH, NULL, NULL, 0);
	need_object(shared.cq, "ibv_create_cq");
	for (int i = 0; i < 2; i++)
		shared.qps[i] = nic_create_qp(&shared.nic, shared.cq, shared.cq, DEPTH);
	nic_connect_pair(&shared.nic, shared.qps[0], shared.qps[1]);
}

void shared_close(void)
{
	for (int i = 0; i < 2; i++)
		need_zero(ibv_destroy_qp(shared.qps[i]), "ibv_destroy_qp");
	need_zero(ibv_destroy_cq(shared.cq), "ibv_destroy_cq");
	need_zero(ibv_dereg_mr(shared.mr), "ibv_dereg_mr");
	nic_close(&shared.nic);
	free(shared.buffer);
}

static struct ibv_sge draw_piece(struct world *world)
{
	return (struct ibv_sge){.addr = (uintptr_t)shared.buffer + draw(world, BYTES / 2),
				.length = draw(world, 2000),
				.lkey = shared.mr->lkey};
}

static void post_send(struct world *world, struct ibv_qp *qp)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND,
						     IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM};
	struct ibv_sge piece = draw_piece(world);
	struct ibv_send_wr wr = {.wr_id = atomic_fetch_add(&shared.next_id, 1) + 1,
				 .sg_list = &piece,
				 .num_sge = 1,
				 .opcode = opcodes[draw(world, 4)],
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	int error;

	wr.wr.rdma.remote_addr = (uintptr_t)shared.buffer + draw(world, BYTES / 2);
	wr.wr.rdma.rkey = shared.mr->rkey;
	error = ibv_post_send(qp, &wr, &bad);
	CLAIM(world, !error || error == EINVAL || error == ENOMEM);
}

static void post_receive(struct world *world, struct ibv_qp *qp)
{
	struct ibv_sge piece = draw_piece(world);
	struct ibv_recv_wr wr = {.wr_id = atomic_fetch_add(&shared.next_id, 1) + 1,
				 .sg_list = &piece,
				 .num_sge = 1},
			   *bad;
	int error;

	piece.length = 2000;
	error = ibv_post_recv(qp, &wr, &bad);
	CLAIM(world, !error || error == EINVAL || error == ENOMEM);
}

/* Numbers are given once, so a number that is polled again was handed out twice. */
static void poll_cq(struct world *world)
{
	struct ibv_wc entries[8];
	int count = ibv_poll_cq(shared.cq, 8, entries);

	CLAIM(world, count >= 0 && count <= 8);
	for (int i = 0; i < count; i++) {
		uint64_t before =
			atomic_exchange(&shared.seen[entries[i].wr_id % SEEN], entries[i].wr_id);

		CLAIM(world, before != entries[i].wr_id);
		world->completions += entries[i].status == IBV_WC_SUCCESS;
	}
}

/* All the way round; others may do the same, and then some moves are refused. */
static void reconnect(struct world *world, struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.port_num = 1,
		.qp_access_flags = NIC_ALL_RIGHTS,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 1,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = shared.nic.gid,
				    .sgid_index = (uint8_t)shared.nic.gid_index}},
	};
	static const struct {
		enum ibv_qp_state state;
		int mask;
	} moves[] = {
		{IBV_QPS_RESET, IBV_QP_STATE},
		{IBV_QPS_INIT,
		 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
		{IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER},
		{IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC},
	};

	for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
		int error;

		attr.qp_state = moves[i].state;
		error = ibv_modify_qp(qp, &attr, moves[i].mask);
		CLAIM(world, !error || error == EINVAL);
	}
}

static void change(struct world *world, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;

	switch (draw(world, 6)) {
	case 0:
		CLAIM(world, ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
		return;
	case 1:
		CLAIM(world, ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
		return;
	case 2:
		CLAIM(world, ibv_req_notify_cq(shared.cq, 0) == 0);
		return;
	default:
		reconnect(world, shared.qps[0], shared.qps[1]);
		reconnect(world, shared.qps[1], shared.qps[0]);
		return;
	}
}

void step_shared(struct world *world)
{
	struct ibv_qp *qp = shared.qps[draw(world, 2)];

	world->step++;
	world->step_name = "shared";
	switch (draw(world, 64)) {
	case 0:
		change(world, qp);
		break;
	case 1 ... 24:
		post_send(world, qp);
		break;
	case 25 ... 44:
		post_receive(world, qp);
		break;
	default:
		poll_cq(world);
		break;
	}
}
