/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues and queue pairs. */
#include "conformance/verbs/claims.h"

#include <string.h>

/* An RC QP that takes its receives from @srq is connected to the near one, which sends. */
static bool srq_receives(struct room *room, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = room_qp_attr(IBV_QPT_RC, room->far.cq);
	struct ibv_sge sge = room_piece(&room->far, 64), sent = room_piece(&room->near, 64);
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_send_wr wr = room_request(room, IBV_WR_SEND, &sent);
	struct ibv_qp_init_attr sender_init = room_qp_attr(IBV_QPT_RC, room->near.cq);
	struct ibv_qp *sender = ibv_create_qp(room->nic.pd, &sender_init), *receiver;
	bool has_come;

	init.srq = srq;
	receiver = ibv_create_qp(room->nic.pd, &init);
	if (!sender || !receiver)
		return false;
	nic_connect_pair(&room->nic, sender, receiver);
	room_fill(room);
	has_come = ibv_post_srq_recv(srq, &receive, &bad) == 0 && room_post_send(sender, &wr) &&
		   room_await_success(room->far.cq, IBV_WC_RECV) &&
		   room_await_success(room->near.cq, IBV_WC_SEND) && room_is_equal(room, 64);
	return ibv_destroy_srq(srq) == EBUSY && ibv_destroy_qp(sender) == 0 &&
	       ibv_destroy_qp(receiver) == 0 && has_come;
}

static void shared_receive_queues(struct room *room)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq_init_attr_ex extended = {
		.attr = init.attr, .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = room->nic.pd};
	struct ibv_srq *srq = ibv_create_srq(room->nic.pd, &init), *other;
	struct ibv_srq_attr attr = {.max_wr = 8}, now = {0};
	uint32_t number;

	WORKS("ibv_create_srq", srq != NULL);
	WORKS("ibv_modify_srq", ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR) == 0);
	WORKS("ibv_query_srq", ibv_query_srq(srq, &now) == 0 && now.max_wr == 8);
	WORKS("ibv_post_srq_recv", srq_receives(room, srq));
	LIMIT("ibv_get_srq_num", ibv_get_srq_num(srq, &number), "a basic SRQ");
	WORKS("ibv_destroy_srq", ibv_destroy_srq(srq) == 0);
	other = ibv_create_srq_ex(room->nic.context, &extended);
	WORKS("ibv_create_srq_ex", other && ibv_destroy_srq(other) == 0);
	extended.comp_mask |= IBV_SRQ_INIT_ATTR_TYPE;
	extended.srq_type = IBV_SRQT_TM;
	LIMIT("ibv_create_srq_ex", ERROR_OF_NULL(ibv_create_srq_ex(room->nic.context, &extended)),
	      "tag matching");
}

static int refused_type(struct room *room, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = room_qp_attr(type, room->near.cq);

	return ERROR_OF_NULL(ibv_create_qp(room->nic.pd, &attr));
}

static void creation(struct room *room)
{
	struct ibv_qp_init_attr attr = room_qp_attr(IBV_QPT_RC, room->near.cq);
	struct ibv_qp *qp = ibv_create_qp(room->nic.pd, &attr);
	struct ibv_qp *uc;

	attr.qp_type = IBV_QPT_UC;
	uc = ibv_create_qp(room->nic.pd, &attr);
	WORKS("ibv_create_qp", qp && uc && qp->qp_num != uc->qp_num);
	LIMIT("ibv_create_qp ibv_create_qp_ex",
	      claim_same_error(refused_type(room, IBV_QPT_RAW_PACKET),
			       refused_type(room, IBV_QPT_DRIVER)),
	      "types but RC, UC, UD and XRC");
	WORKS("ibv_destroy_qp", ibv_destroy_qp(qp) == 0 && ibv_destroy_qp(uc) == 0);
}

/* @mask: one more bit of comp_mask. */
static int refused_extension(struct room *room, uint32_t mask, uint32_t create_flags)
{
	struct ibv_qp_init_attr plain = room_qp_attr(IBV_QPT_RC, room->near.cq);
	struct ibv_qp_init_attr_ex attr = {0};

	memcpy(&attr, &plain, sizeof(plain));
	attr.pd = room->nic.pd;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | mask;
	attr.create_flags = create_flags;
	return ERROR_OF_NULL(ibv_create_qp_ex(room->nic.context, &attr));
}

/* Each of the flags alone. */
static int refused_flags(struct room *room)
{
	int error = refused_extension(room, IBV_QP_INIT_ATTR_CREATE_FLAGS, 1);

	for (uint32_t flag = 2; flag; flag <<= 1)
		error = claim_same_error(
			error, refused_extension(room, IBV_QP_INIT_ATTR_CREATE_FLAGS, flag));
	return error;
}

static void extended_creation(struct room *room)
{
	int tso = refused_extension(room, IBV_QP_INIT_ATTR_MAX_TSO_HEADER, 0);
	int rss = claim_same_error(refused_extension(room, IBV_QP_INIT_ATTR_RX_HASH, 0),
				   refused_extension(room, IBV_QP_INIT_ATTR_IND_TABLE, 0));

	WORKS("ibv_create_qp_ex ibv_qp_to_qp_ex",
	      &ibv_qp_to_qp_ex(room->near.qp)->qp_base == room->near.qp);
	LIMIT("ibv_create_qp_ex", refused_flags(room), "every one of the create_flags");
	LIMIT("ibv_create_qp_ex", claim_same_error(tso, rss), "TSO, RSS and work queues");
	LIMIT("ibv_create_qp_ex",
	      claim_same_error(room_refused_operation(room, IBV_QP_EX_WITH_TSO),
			       room_refused_operation(room, IBV_QP_EX_WITH_ATOMIC_WRITE)),
	      "send operations TSO and atomic write");
}

static void states(struct room *room)
{
	struct ibv_qp_init_attr init = room_qp_attr(IBV_QPT_RC, room->near.cq), shown;
	struct ibv_qp *qp = ibv_create_qp(room->nic.pd, &init);
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_REARM, .alt_port_num = 1}, now = {0};

	WORKS("ibv_modify_qp", room_to_init(qp) == 0 && qp->state == IBV_QPS_INIT);
	WORKS("ibv_query_qp", ibv_query_qp(qp, &now, IBV_QP_STATE | IBV_QP_CAP, &shown) == 0 &&
				      now.qp_state == IBV_QPS_INIT &&
				      now.cap.max_send_wr == ROOM_DEPTH &&
				      shown.send_cq == room->near.cq);
	LIMIT("ibv_modify_qp",
	      claim_same_error(ibv_modify_qp(room->near.qp, &attr, IBV_QP_PATH_MIG_STATE),
			       ibv_modify_qp(room->near.qp, &attr, IBV_QP_ALT_PATH)),
	      "alternate paths and their migration");
	LIMIT("ibv_modify_qp",
	      claim_same_error(ibv_modify_qp(room->near.qp, &now, IBV_QP_CAP),
			       ibv_modify_qp(room->near.qp, &now, IBV_QP_RATE_LIMIT)),
	      "another capacity of a QP, and limits on its rate");
	ibv_destroy_qp(qp);
}

static void properties(struct room *room)
{
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = 1000};
	struct ibv_ece foreign = {.vendor_id = 1, .options = 1}, own = {0};

	NOTE("ibv_query_ece", ibv_query_ece(room->near.qp, &own) == 0 && own.options == 0,
	     "the device's vendor, and no options");
	WORKS("ibv_set_ece", ibv_set_ece(room->near.qp, &own) == 0);
	LIMIT("ibv_set_ece", ibv_set_ece(room->near.qp, &foreign), "what another vendor offers");
	WORKS("ibv_query_qp_data_in_order",
	      ibv_query_qp_data_in_order(room->near.qp, IBV_WR_RDMA_READ, 0) == 0);
	NOTE("ibv_query_qp_data_in_order",
	     ibv_query_qp_data_in_order(room->near.qp, IBV_WR_RDMA_WRITE, 0) == 0,
	     "no: only that the last word of a message comes last, which it has no word for");
	REFUSED("ibv_modify_qp_rate_limit", ibv_modify_qp_rate_limit(room->near.qp, &rate),
		"the rate of a QP has no limit");
}

void claims_about_queues(struct room *room)
{
	claim_heading("Queue pairs and shared receive queues");
	creation(room);
	extended_creation(room);
	states(room);
	properties(room);
	shared_receive_queues(room);
}
