/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/end/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#define PORT_NUMBER 1
#define INLINE_WANTED 220u
#define READS_WANTED 16
#define ALL_RIGHTS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static void open_device(struct nic *nic)
{
	struct ibv_device **list = end_need(ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_device_attr device;
	struct ibv_port_attr port;

	if (!list[0])
		end_fail("there is no RDMA device");
	nic->context = end_need(ibv_open_device(list[0]), "ibv_open_device");
	ibv_free_device_list(list);
	end_need_zero(ibv_query_device(nic->context, &device), "ibv_query_device");
	end_need_zero(ibv_query_port(nic->context, PORT_NUMBER, &port), "ibv_query_port");
	end_need_zero(ibv_query_gid(nic->context, PORT_NUMBER, 0, &nic->gid), "ibv_query_gid");
	nic->mtu = port.active_mtu;
	nic->lid = port.lid;
	nic->reads_max = (uint8_t)(device.max_qp_rd_atom < READS_WANTED ? device.max_qp_rd_atom
									: READS_WANTED);
	nic->pd = end_need(ibv_alloc_pd(nic->context), "ibv_alloc_pd");
}

/* Ordinary memory, touched once: the first touch of a page is not what is measured. */
static void register_memory(struct nic *nic)
{
	size_t length = 2 * ORDER_SIZE_MAX;

	nic->source =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (nic->source == MAP_FAILED)
		end_fail_errno("mmap");
	nic->target = nic->source + ORDER_SIZE_MAX;
	memset(nic->source, 1, length);
	nic->mr = end_need(ibv_reg_mr(nic->pd, nic->source, length, ALL_RIGHTS), "ibv_reg_mr");
}

static struct ibv_qp *try_qp(const struct nic *nic, uint32_t send_depth, uint32_t receive_depth,
			     uint32_t inline_max)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = nic->send_cq,
		.recv_cq = nic->receive_cq,
		.cap = {.max_send_wr = send_depth,
			.max_recv_wr = receive_depth,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = inline_max},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(nic->pd, &attr);
}

struct ibv_qp *nic_create_qp(struct nic *nic, uint32_t send_depth, uint32_t receive_depth,
			     uint32_t inline_max)
{
	struct ibv_qp *qp = try_qp(nic, send_depth, receive_depth, inline_max);

	/* How much fits inline is found out by trying. */
	if (!qp && inline_max) {
		inline_max = 0;
		qp = try_qp(nic, send_depth, receive_depth, 0);
	}
	nic->inline_max = inline_max;
	return end_need(qp, "ibv_create_qp");
}

struct nic_address nic_describe(const struct nic *nic, const struct ibv_qp *qp)
{
	struct nic_address own = {
		.gid = nic->gid,
		.memory = (uintptr_t)nic->target,
		.qpn = qp->qp_num,
		.rkey = nic->mr->rkey,
		.lid = nic->lid,
		.mtu = (uint8_t)nic->mtu,
	};

	if (getrandom(&own.psn, sizeof(own.psn), 0) != sizeof(own.psn))
		end_fail_errno("getrandom");
	own.psn &= 0xffffff;
	return own;
}

static void move_to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = PORT_NUMBER, .qp_access_flags = ALL_RIGHTS};

	end_need_zero(ibv_modify_qp(qp, &attr,
				    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					    IBV_QP_ACCESS_FLAGS),
		      "ibv_modify_qp to INIT");
}

static void move_to_rtr(const struct nic *nic, struct ibv_qp *qp, const struct nic_address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = peer->mtu < nic->mtu ? (enum ibv_mtu)peer->mtu : nic->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = nic->reads_max,
		.min_rnr_timer = 1, /* 0.01 ms */
		.ah_attr = {.is_global = 1,
			    .dlid = peer->lid,
			    .port_num = PORT_NUMBER,
			    .grh = {.dgid = peer->gid, .hop_limit = 64}},
	};

	end_need_zero(ibv_modify_qp(qp, &attr,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					    IBV_QP_MIN_RNR_TIMER),
		      "ibv_modify_qp to RTR");
}

static void move_to_rts(const struct nic *nic, struct ibv_qp *qp, const struct nic_address *own)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14, /* 67 ms */
		.retry_cnt = 7,
		.rnr_retry = 7, /* without end */
		.sq_psn = own->psn,
		.max_rd_atomic = nic->reads_max,
	};

	end_need_zero(ibv_modify_qp(qp, &attr,
				    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					    IBV_QP_MAX_QP_RD_ATOMIC),
		      "ibv_modify_qp to RTS");
}

void nic_connect(const struct nic *nic, struct ibv_qp *qp, const struct nic_address *own,
		 const struct nic_address *peer)
{
	move_to_init(qp);
	move_to_rtr(nic, qp, peer);
	move_to_rts(nic, qp, own);
}

struct nic *nic_open(struct end *end)
{
	struct nic *nic = end_need(calloc(1, sizeof(*nic)), "calloc");
	struct nic_address own;
	int entries = (int)(NIC_SEND_DEPTH + NIC_RECEIVE_DEPTH);

	open_device(nic);
	register_memory(nic);
	nic->send_cq =
		end_need(ibv_create_cq(nic->context, entries, NULL, NULL, 0), "ibv_create_cq");
	nic->receive_cq =
		end_need(ibv_create_cq(nic->context, entries, NULL, NULL, 0), "ibv_create_cq");
	nic->qp = nic_create_qp(nic, NIC_SEND_DEPTH, NIC_RECEIVE_DEPTH, INLINE_WANTED);
	own = nic_describe(nic, nic->qp);
	end_exchange(end, &own, &nic->peer, sizeof(own));
	nic_connect(nic, nic->qp, &own, &nic->peer);
	return nic;
}

/* --- requests --- */

static void post(struct nic *nic, struct ibv_send_wr *request)
{
	struct ibv_send_wr *bad;
	int error = ibv_post_send(nic->qp, request, &bad);

	if (error)
		end_fail("ibv_post_send failed: %s", strerror(error));
}

void nic_post(struct nic *nic, enum ibv_wr_opcode opcode, uint64_t wr_id, unsigned flags)
{
	bool is_read = opcode == IBV_WR_RDMA_READ;
	uint8_t *memory = is_read ? nic->target : nic->source;
	struct ibv_sge sge = {(uintptr_t)memory, nic->size, nic->mr->lkey};
	/* The target is the peer's; a READ takes from the peer's source. */
	struct ibv_send_wr request = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = flags | (is_read ? 0 : nic->inline_flag),
		.wr.rdma = {nic->peer.memory - (is_read ? ORDER_SIZE_MAX : 0), nic->peer.rkey},
	};

	post(nic, &request);
}

void nic_post_atomic(struct nic *nic, enum ibv_wr_opcode opcode, uint64_t wr_id, unsigned flags)
{
	struct ibv_sge sge = {(uintptr_t)nic->target, sizeof(uint64_t), nic->mr->lkey};
	struct ibv_send_wr request = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = flags,
		.wr.atomic = {.remote_addr = nic->peer.memory,
			      .compare_add = 1,
			      .swap = 1,
			      .rkey = nic->peer.rkey},
	};

	post(nic, &request);
}

void nic_post_receive(struct nic *nic)
{
	struct ibv_sge sge = {(uintptr_t)nic->target, (uint32_t)ORDER_SIZE_MAX, nic->mr->lkey};
	struct ibv_recv_wr request = {.sg_list = &sge, .num_sge = 1}, *bad;
	int error = ibv_post_recv(nic->qp, &request, &bad);

	if (error)
		end_fail("ibv_post_recv failed: %s", strerror(error));
	nic->receives_posted++;
}

void nic_fill_receives(struct nic *nic)
{
	while (nic->receives_posted - nic->receives_taken < NIC_RECEIVE_DEPTH)
		nic_post_receive(nic);
}

int nic_poll(struct ibv_cq *cq, struct ibv_wc *completions, int count)
{
	int found = ibv_poll_cq(cq, count, completions);

	if (found < 0)
		end_fail("ibv_poll_cq failed");
	for (int i = 0; i < found; i++)
		if (completions[i].status != IBV_WC_SUCCESS)
			end_fail("a request was completed with \"%s\"",
				 ibv_wc_status_str(completions[i].status));
	return found;
}

void nic_await(struct end *end, struct ibv_cq *cq, struct ibv_wc *completion)
{
	struct patience patience = patience_of(end);

	while (nic_poll(cq, completion, 1) == 0)
		patience_try(&patience);
}

/* --- the transport --- */

static void *open_verbs(struct end *end)
{
	return nic_open(end);
}

static void prepare(struct end *end)
{
	struct nic *nic = end->state;

	nic->size = (uint32_t)end->order.size;
	nic->inline_flag = nic->size <= nic->inline_max ? IBV_SEND_INLINE : 0;
	/* No byte that a ping-pong waits for, and no word that is compared, is there already. */
	memset(nic->target, 0, end->order.size < 8 ? 8 : end->order.size);
	nic->turns = 0;
	nic_fill_receives(nic);
}

static uint64_t run(struct end *end, uint64_t count, uint64_t *stamps)
{
	if (end->order.work == WORK_THROUGHPUT)
		return window_run(end, count);
	if (end->order.operation == OPERATION_WRITE)
		return write_ping_pong(end, count, stamps);
	if (end->order.operation == OPERATION_SEND)
		return send_ping_pong(end, count, stamps);
	return fetch_one_by_one(end, count, stamps);
}

static void run_special(struct end *end, struct report *report, double **samples)
{
	(end->order.work == WORK_PAGES ? pages_run : qps_run)(end, report, samples);
}

const struct transport transport_verbs = {
	.name = "verbs",
	.open = open_verbs,
	.prepare = prepare,
	.run = run,
	.run_special = run_special,
};
