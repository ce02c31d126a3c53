/* SPDX-License-Identifier: BSD-2-Clause */
/* Extended reliable connections. */
#include "conformance/verbs/claims.h"

#include <fcntl.h>
#include <unistd.h>

struct xrc {
	struct ibv_xrcd *domain;
	struct ibv_srq *srq;
	struct ibv_qp *sender, *receiver;
	uint32_t number;
};

static struct ibv_xrcd *open_domain(struct room *room, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
						       IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = fd,
					  .oflags = oflags};

	return ibv_open_xrcd(room->nic.context, &attr);
}

static struct ibv_qp *create_sender(struct room *room)
{
	struct ibv_qp_init_attr plain = room_qp_attr(IBV_QPT_XRC_SEND, room->near.cq);

	plain.recv_cq = NULL;
	plain.cap.max_recv_wr = 0;
	return room_create_extended(room, &plain, IBV_QP_EX_WITH_SEND);
}

static bool create(struct room *room, struct xrc *xrc)
{
	struct ibv_srq_init_attr_ex srq = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = room->nic.pd,
		.xrcd = xrc->domain,
		.cq = room->far.cq,
	};
	struct ibv_qp_init_attr_ex receiver = {.qp_type = IBV_QPT_XRC_RECV,
					       .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					       .xrcd = xrc->domain};

	xrc->srq = ibv_create_srq_ex(room->nic.context, &srq);
	xrc->receiver = ibv_create_qp_ex(room->nic.context, &receiver);
	xrc->sender = create_sender(room);
	return xrc->srq && xrc->receiver && xrc->sender;
}

static bool message_arrives(struct room *room, struct xrc *xrc)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(xrc->sender);
	struct ibv_sge sge = room_piece(&room->far, 64), sent = room_piece(&room->near, 64);
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad;

	room_fill(room);
	if (ibv_post_srq_recv(xrc->srq, &receive, &bad) != 0)
		return false;
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, xrc->number);
	ibv_wr_set_sge(ex, sent.lkey, sent.addr, sent.length);
	return ibv_wr_complete(ex) == 0 && room_await_success(room->near.cq, IBV_WC_SEND) &&
	       room_await_success(room->far.cq, IBV_WC_RECV) && room_is_equal(room, 64);
}

/* The messages go on to come after who created the receiver has given it back. */
static void further_handles(struct room *room, struct xrc *xrc)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = xrc->receiver->qp_num,
		.qp_type = IBV_QPT_XRC_RECV,
		.xrcd = xrc->domain,
	};
	struct ibv_qp *same = ibv_open_qp(room->nic.context, &attr);

	WORKS("ibv_open_qp", same && same->qp_num == attr.qp_num &&
				     ibv_destroy_qp(xrc->receiver) == 0 &&
				     message_arrives(room, xrc));
	attr.qp_num ^= 1;
	LIMIT("ibv_open_qp", ERROR_OF_NULL(ibv_open_qp(room->nic.context, &attr)),
	      "a QP whose domain only another process has opened");
	if (same)
		xrc->receiver = same;
}

void claims_about_xrc(struct room *room)
{
	struct xrc xrc = {.domain = open_domain(room, -1, O_CREAT)};

	WORKS("ibv_open_xrcd", xrc.domain && create(room, &xrc));
	if (!xrc.srq || !xrc.receiver || !xrc.sender)
		return;
	LIMIT("ibv_open_xrcd", ERROR_OF_NULL(open_domain(room, STDOUT_FILENO, 0)),
	      "a domain that only another process has opened");
	WORKS("ibv_get_srq_num", ibv_get_srq_num(xrc.srq, &xrc.number) == 0);
	nic_connect_pair(&room->nic, xrc.sender, xrc.receiver);
	WORKS("ibv_wr_set_xrc_srqn", message_arrives(room, &xrc));
	further_handles(room, &xrc);
	WORKS("ibv_close_xrcd",
	      ibv_close_xrcd(xrc.domain) == EBUSY && ibv_destroy_qp(xrc.sender) == 0 &&
		      ibv_destroy_qp(xrc.receiver) == 0 && ibv_destroy_srq(xrc.srq) == 0 &&
		      ibv_close_xrcd(xrc.domain) == 0);
}
