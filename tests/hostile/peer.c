/* SPDX-License-Identifier: BSD-2-Clause */
/* The honest peer: what it wrote must come back as it was, whatever else arrives there. */
#include "hostile/scene.h"

#include <stdlib.h>
#include <string.h>

#include "tools/fail.h"

#define DEPTH 64
#define BLOCK_BYTES 4096u
#define BLOCKS (REGION_BYTES / BLOCK_BYTES)
#define SEND_BYTES 256u
#define PATIENCE_SECONDS 120

struct peer {
	struct scene *scene;
	struct nic nic;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *written, *read; /* a block each, behind each other */
};

static void open_all(struct peer *p)
{
	nic_open(&p->nic, NIC_GID_IPV4);
	p->written = aligned_alloc(4096, 2 * BLOCK_BYTES);
	need_object(p->written, "aligned_alloc");
	p->read = p->written + BLOCK_BYTES;
	p->mr = ibv_reg_mr(p->nic.pd, p->written, 2 * BLOCK_BYTES, NIC_ALL_RIGHTS);
	need_object(p->mr, "ibv_reg_mr");
	p->cq = ibv_create_cq(p->nic.context, 2 * DEPTH, NULL, NULL, 0);
	need_object(p->cq, "ibv_create_cq");
	p->qp = nic_create_qp(&p->nic, p->cq, p->cq, DEPTH);
	scene_wait(&p->scene->responder_is_ready, "the responder's QP");
	p->scene->peer = nic_describe(&p->nic, p->qp, p->mr);
	atomic_store(&p->scene->peer_is_ready, true);
	nic_connect(&p->nic, p->qp, &p->scene->peer, &p->scene->responder, &nic_usual_patience);
	/* Packets for a socket that is not there yet would be missing in the account. */
	scene_wait(&p->scene->responder_is_connected, "the responder's connection");
}

static void close_all(struct peer *p)
{
	need_zero(ibv_destroy_qp(p->qp), "ibv_destroy_qp");
	need_zero(ibv_destroy_cq(p->cq), "ibv_destroy_cq");
	need_zero(ibv_dereg_mr(p->mr), "ibv_dereg_mr");
	nic_close(&p->nic);
	free(p->written);
}

static void post(struct peer *p, enum ibv_wr_opcode opcode, uint8_t *bytes, uint32_t length,
		 uint32_t offset, bool is_last)
{
	struct ibv_sge sge = {.addr = (uintptr_t)bytes, .length = length, .lkey = p->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = offset,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = is_last ? IBV_SEND_SIGNALED : 0},
			   *bad;

	wr.wr.rdma.remote_addr = p->scene->responder.address + offset;
	wr.wr.rdma.rkey = p->scene->responder.rkey;
	need_zero(ibv_post_send(p->qp, &wr, &bad), "ibv_post_send");
}

static void wait_for_completion(struct peer *p)
{
	vbn_time give_up_at = scene_now() + PATIENCE_SECONDS * VBN_SECOND;
	struct ibv_wc wc;
	int count;

	for (uint32_t turns = 0; (count = ibv_poll_cq(p->cq, 1, &wc)) == 0; turns++)
		if (turns % 1024 == 0 && scene_now() > give_up_at)
			give_up("real traffic stands still");
	if (count < 0 || wc.status != IBV_WC_SUCCESS)
		give_up("real traffic ended with %s", ibv_wc_status_str(wc.status));
}

/* Writes a block, reads it back, sends a little. */
static void do_operation(struct peer *p, uint64_t number)
{
	uint32_t offset = (uint32_t)(number % BLOCKS) * BLOCK_BYTES;

	memset(p->written, (int)(number * 7 + 1), BLOCK_BYTES);
	memcpy(p->written, &number, sizeof(number));
	memset(p->read, 0, BLOCK_BYTES);
	post(p, IBV_WR_RDMA_WRITE, p->written, BLOCK_BYTES, offset, false);
	post(p, IBV_WR_RDMA_READ, p->read, BLOCK_BYTES, offset, false);
	post(p, IBV_WR_SEND, p->written, SEND_BYTES, 0, true);
	wait_for_completion(p);
	if (memcmp(p->written, p->read, BLOCK_BYTES) != 0)
		give_up("operation %llu read back other bytes than it wrote",
			(unsigned long long)number);
}

void peer_run(struct scene *scene)
{
	struct peer p = {.scene = scene};

	open_all(&p);
	while (!atomic_load(&scene->peer_must_stop))
		do_operation(&p, atomic_fetch_add(&scene->operations, 1));
	close_all(&p);
	atomic_store(&scene->peer_has_stopped, true);
}
