/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/thread_work.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tools/fail.h"
#include "tools/pattern.h"

/* The last eight bytes of the part for the peer are a counter; the data stops before it. */
#define DATA_BYTES (LANE_BYTES - 8)
#define BLOCK_BYTES (3 * LANE_BYTES)

void lane_open(struct lane *lane, struct nic *nic, struct ibv_cq *cq, uint64_t seed)
{
	*lane = (struct lane){.nic = nic, .cq = cq, .seed = seed};
	lane->block = aligned_alloc(4096, BLOCK_BYTES);
	need_object(lane->block, "aligned_alloc");
	memset(lane->block, 0, BLOCK_BYTES);
	lane->mr = ibv_reg_mr(nic->pd, lane->block, BLOCK_BYTES, NIC_ALL_RIGHTS);
	need_object(lane->mr, "ibv_reg_mr");
	lane->qp = nic_create_qp(nic, cq, cq, LANE_DEPTH);
}

void lane_close(struct lane *lane)
{
	need_zero(ibv_destroy_qp(lane->qp), "ibv_destroy_qp");
	need_zero(ibv_dereg_mr(lane->mr), "ibv_dereg_mr");
	free(lane->block);
}

struct endpoint lane_describe(const struct lane *lane)
{
	struct endpoint own = nic_describe(lane->nic, lane->qp, lane->mr);

	own.address += BLOCK_BYTES - LANE_BYTES;
	return own;
}

/* Completions name their lane, so that whoever polls a shared CQ can credit it. */
static void credit(const struct ibv_wc *completion)
{
	struct lane *lane = (struct lane *)(uintptr_t)completion->wr_id;

	if (completion->status != IBV_WC_SUCCESS)
		give_up("QP 0x%x: %s", completion->qp_num, ibv_wc_status_str(completion->status));
	atomic_fetch_add_explicit(&lane->completed, 1, memory_order_release);
}

static void await_all(struct lane *lane)
{
	struct ibv_wc completions[4];

	while (atomic_load_explicit(&lane->completed, memory_order_acquire) < lane->posted) {
		int count = ibv_poll_cq(lane->cq, 4, completions);

		if (count < 0)
			give_up("ibv_poll_cq failed");
		for (int i = 0; i < count; i++)
			credit(&completions[i]);
		if (count == 0)
			sched_yield();
	}
}

static void post(struct lane *lane, struct ibv_send_wr *request, size_t offset, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)lane->block + offset, length, lane->mr->lkey};
	struct ibv_send_wr *bad;

	request->wr_id = (uintptr_t)lane;
	request->sg_list = &sge;
	request->num_sge = 1;
	request->send_flags = IBV_SEND_SIGNALED;
	need_zero(ibv_post_send(lane->qp, request, &bad), "ibv_post_send");
	lane->posted++;
}

static void move(struct lane *lane, enum ibv_wr_opcode opcode, size_t own_offset, uint32_t length)
{
	struct ibv_send_wr request = {
		.opcode = opcode,
		.wr.rdma = {lane->peer.address, lane->peer.rkey},
	};

	post(lane, &request, own_offset, length);
}

static void count_at_peer(struct lane *lane, uint64_t round)
{
	struct ibv_send_wr request = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic = {.remote_addr = lane->peer.address + DATA_BYTES,
			      .rkey = lane->peer.rkey,
			      .compare_add = 1},
	};
	uint64_t before;

	post(lane, &request, LANE_BYTES, 8);
	await_all(lane);
	memcpy(&before, lane->block + LANE_BYTES, 8);
	if (before != round)
		give_up("the peer's counter was %llu in round %llu", (unsigned long long)before,
			(unsigned long long)round);
}

void lane_run_round(struct lane *lane, uint64_t round)
{
	uint32_t length = (uint32_t)pattern_size(lane->seed, round, DATA_BYTES);

	pattern_fill(lane->block, length, lane->seed, round);
	move(lane, IBV_WR_RDMA_WRITE, 0, length);
	/* Behind the WRITE on the same QP, so it reads what was written. */
	move(lane, IBV_WR_RDMA_READ, LANE_BYTES, length);
	await_all(lane);
	if (pattern_find_wrong(lane->block + LANE_BYTES, length, lane->seed, round) >= 0)
		give_up("round %llu read back other bytes than it wrote",
			(unsigned long long)round);
	count_at_peer(lane, round);
}

void churn_once(const struct nic *nic, uint64_t seed)
{
	struct nic own = *nic;
	struct lane lanes[2];
	struct ibv_cq *cq;

	own.pd = ibv_alloc_pd(nic->context);
	need_object(own.pd, "ibv_alloc_pd");
	cq = ibv_create_cq(nic->context, 4 * LANE_DEPTH, NULL, NULL, 0);
	need_object(cq, "ibv_create_cq");
	for (int i = 0; i < 2; i++)
		lane_open(&lanes[i], &own, cq, seed + (uint64_t)i);
	nic_connect_pair(&own, lanes[0].qp, lanes[1].qp);
	lanes[0].peer = lane_describe(&lanes[1]);
	lanes[1].peer = lane_describe(&lanes[0]);
	for (uint64_t round = 0; round < 2; round++)
		lane_run_round(&lanes[0], round);
	/* The last QP goes with a request still under way. */
	move(&lanes[0], IBV_WR_RDMA_WRITE, 0, DATA_BYTES);
	for (int i = 0; i < 2; i++)
		lane_close(&lanes[i]);
	need_zero(ibv_destroy_cq(cq), "ibv_destroy_cq");
	need_zero(ibv_dealloc_pd(own.pd), "ibv_dealloc_pd");
}
