/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles and multicast groups, with two UD QPs. */
#include "conformance/verbs/claims.h"

#include <string.h>

#define GRH_BYTES 40
#define QKEY 0x11111111

static struct ibv_qp *create_qp(struct room *room, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr plain = room_qp_attr(IBV_QPT_UD, cq);
	struct ibv_qp *qp = room_create_extended(room, &plain, IBV_QP_EX_WITH_SEND);

	if (qp && !room_start_datagrams(qp)) {
		ibv_destroy_qp(qp);
		return NULL;
	}
	return qp;
}

static struct ibv_ah_attr way_to(const struct room *room, const union ibv_gid *gid)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.dlid = room->nic.lid,
		.grh = {.dgid = *gid, .sgid_index = (uint8_t)room->nic.gid_index, .hop_limit = 64},
	};
}

static void send_by(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t number, struct ibv_sge sge)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, number, QKEY);
	ibv_wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
	WORKS("ibv_wr_set_ud_addr", ibv_wr_complete(ex) == 0);
}

/* 64 bytes of the near side come in behind a header. */
static bool arrives(const struct room *room, struct ibv_wc *completion)
{
	*completion = room_await(room->far.cq);
	return completion->status == IBV_WC_SUCCESS && completion->byte_len == GRH_BYTES + 64 &&
	       memcmp(room->far.bytes + GRH_BYTES, room->near.bytes, 64) == 0 &&
	       room_await_success(room->near.cq, IBV_WC_SEND);
}

static void the_way_back(struct room *room, struct ibv_wc *completion)
{
	struct ibv_grh *grh = (struct ibv_grh *)room->far.bytes;
	struct ibv_ah_attr attr = {0};
	struct ibv_ah *ah;

	WORKS("ibv_init_ah_from_wc",
	      ibv_init_ah_from_wc(room->nic.context, 1, completion, grh, &attr) == 0 &&
		      memcmp(&attr.grh.dgid, &room->nic.gid, sizeof(attr.grh.dgid)) == 0);
	ah = ibv_create_ah_from_wc(room->nic.pd, completion, grh, 1);
	WORKS("ibv_create_ah_from_wc", ah && ibv_destroy_ah(ah) == 0);
}

static void handles(struct room *room, struct ibv_qp *near, struct ibv_qp *far)
{
	struct ibv_ah_attr attr = way_to(room, &room->nic.gid), by_lid = {.dlid = 1, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(room->nic.pd, &attr);
	struct ibv_wc completion;
	uint8_t mac[ETHERNET_LL_SIZE];
	uint16_t vlan;

	room_fill(room);
	if (ah && room_post_receive(&room->far, far))
		send_by(near, ah, far->qp_num, room_piece(&room->near, 64));
	WORKS("ibv_create_ah", ah && arrives(room, &completion));
	LIMIT("ibv_create_ah", ERROR_OF_NULL(ibv_create_ah(room->nic.pd, &by_lid)),
	      "without a GRH, unless the link layer is InfiniBand");
	the_way_back(room, &completion);
	WORKS("ibv_destroy_ah", ah && ibv_destroy_ah(ah) == 0);
	REFUSED("ibv_resolve_eth_l2_from_gid",
		-ibv_resolve_eth_l2_from_gid(room->nic.context, &attr, mac, &vlan),
		"the host's IP stack finds the way; no Ethernet address is known");
}

static void groups(struct room *room, struct ibv_qp *near, struct ibv_qp *far)
{
	union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [15] = 9}};
	struct ibv_ah_attr attr = way_to(room, &group);
	struct ibv_ah *ah = ibv_create_ah(room->nic.pd, &attr);
	struct ibv_wc completion;
	bool is_member = ibv_attach_mcast(far, &group, 0) == 0;

	room_fill(room);
	if (ah && is_member && room_post_receive(&room->far, far))
		send_by(near, ah, 0xffffff, room_piece(&room->near, 64));
	WORKS("ibv_attach_mcast", ah && is_member && arrives(room, &completion));
	LIMIT("ibv_attach_mcast", ibv_attach_mcast(room->near.qp, &group, 0),
	      "QPs that are not UD");
	WORKS("ibv_detach_mcast", ibv_destroy_qp(far) == EBUSY &&
					  ibv_detach_mcast(far, &group, 0) == 0 &&
					  ibv_detach_mcast(far, &group, 0) != 0);
	if (ah)
		ibv_destroy_ah(ah);
}

void claims_about_datagrams(struct room *room)
{
	struct ibv_qp *near = create_qp(room, room->near.cq), *far = create_qp(room, room->far.cq);

	claim_heading("Address handles and multicast groups");
	WORKS("ibv_create_ah", near && far);
	if (!near || !far)
		return;
	handles(room, near, far);
	groups(room, near, far);
	ibv_destroy_qp(near);
	ibv_destroy_qp(far);
}
