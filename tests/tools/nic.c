/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/nic.h"

#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

#include "tools/fail.h"

#define PORT_NUMBER 1

const struct patience nic_usual_patience = {
	.timeout = 14, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 1};

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

static void choose_gid(struct nic *nic, int table_length, int wanted)
{
	for (int i = 0; i < table_length; i++) {
		if (wanted >= 0 && i != wanted)
			continue;
		if (ibv_query_gid(nic->context, PORT_NUMBER, i, &nic->gid) != 0)
			give_up("ibv_query_gid of index %d failed", i);
		nic->gid_index = i;
		if (wanted >= 0 || is_ipv4(&nic->gid) == (wanted == NIC_GID_IPV4))
			return;
	}
	give_up("there is no such GID");
}

void nic_open(struct nic *nic, int gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port;

	need_object(list, "ibv_get_device_list");
	if (!list[0])
		give_up("there is no device");
	nic->context = ibv_open_device(list[0]);
	need_object(nic->context, "ibv_open_device");
	ibv_free_device_list(list);
	need_zero(ibv_query_port(nic->context, PORT_NUMBER, &port), "ibv_query_port");
	nic->mtu = port.active_mtu;
	nic->lid = port.lid;
	choose_gid(nic, port.gid_tbl_len, gid_index);
	nic->pd = ibv_alloc_pd(nic->context);
	need_object(nic->pd, "ibv_alloc_pd");
}

void nic_close(struct nic *nic)
{
	need_zero(ibv_dealloc_pd(nic->pd), "ibv_dealloc_pd");
	need_zero(ibv_close_device(nic->context), "ibv_close_device");
}

struct ibv_qp *nic_create_qp(const struct nic *nic, struct ibv_cq *send_cq, struct ibv_cq *recv_cq,
			     uint32_t depth)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.cap = {.max_send_wr = depth,
			.max_recv_wr = depth,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(nic->pd, &attr);

	need_object(qp, "ibv_create_qp");
	return qp;
}

struct endpoint nic_describe(const struct nic *nic, const struct ibv_qp *qp,
			     const struct ibv_mr *mr)
{
	struct endpoint own;

	memset(&own, 0, sizeof(own)); /* it travels as it is, padding included */
	if (getrandom(&own.psn, sizeof(own.psn), 0) != sizeof(own.psn))
		fail_errno("getrandom");
	own.psn &= 0xffffff;
	own.gid = nic->gid;
	own.qpn = qp->qp_num;
	own.lid = nic->lid;
	own.mtu = (uint8_t)nic->mtu;
	if (mr) {
		own.rkey = mr->rkey;
		own.address = (uintptr_t)mr->addr;
	}
	return own;
}

static void to_init(struct ibv_qp *qp)
{
	bool is_ud = qp->qp_type == IBV_QPT_UD;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT_NUMBER,
		.qp_access_flags = NIC_ALL_RIGHTS,
		.qkey = NIC_QKEY,
	};

	need_zero(ibv_modify_qp(qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					(is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
		  "ibv_modify_qp to INIT");
}

static struct ibv_ah_attr way_to(const struct nic *nic, const struct endpoint *peer)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.dlid = peer->lid,
		.port_num = PORT_NUMBER,
		.grh = {.dgid = peer->gid, .sgid_index = (uint8_t)nic->gid_index, .hop_limit = 64},
	};
}

static bool is_reliable(const struct ibv_qp *qp)
{
	return qp->qp_type != IBV_QPT_UC && qp->qp_type != IBV_QPT_UD;
}

static void to_rtr(const struct nic *nic, struct ibv_qp *qp, const struct endpoint *peer,
		   const struct patience *patience)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (uint8_t)nic->mtu < peer->mtu ? nic->mtu : (enum ibv_mtu)peer->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = patience->min_rnr_timer,
		.ah_attr = way_to(nic, peer),
	};
	int mask = IBV_QP_STATE;

	if (qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (is_reliable(qp))
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	need_zero(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp to RTR");
}

static void to_rts(struct ibv_qp *qp, const struct endpoint *own, const struct patience *patience)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = patience->timeout,
		.retry_cnt = patience->retry_count,
		.rnr_retry = patience->rnr_retry,
		.sq_psn = own->psn,
		.max_rd_atomic = 8,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (is_reliable(qp))
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	need_zero(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp to RTS");
}

struct ibv_ah *nic_create_ah(const struct nic *nic, const struct endpoint *peer)
{
	struct ibv_ah_attr attr = way_to(nic, peer);
	struct ibv_ah *ah = ibv_create_ah(nic->pd, &attr);

	need_object(ah, "ibv_create_ah");
	return ah;
}

void nic_connect(const struct nic *nic, struct ibv_qp *qp, const struct endpoint *own,
		 const struct endpoint *peer, const struct patience *patience)
{
	to_init(qp);
	to_rtr(nic, qp, peer, patience);
	to_rts(qp, own, patience);
}

void nic_connect_pair(const struct nic *nic, struct ibv_qp *a, struct ibv_qp *b)
{
	struct endpoint end_a = nic_describe(nic, a, NULL), end_b = nic_describe(nic, b, NULL);

	nic_connect(nic, a, &end_a, &end_b, &nic_usual_patience);
	nic_connect(nic, b, &end_b, &end_a, &nic_usual_patience);
}
