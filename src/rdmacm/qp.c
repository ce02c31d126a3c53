/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QPs and SRQs of endpoints, with the completion queues that come along, and the states that
 * a QP goes through with its connection.
 */
#include <rdma/rdma_verbs.h>

#include <stdlib.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/library.h"

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
	return outcome(vbn_cm_qp_attributes(endpoint_of(id)->engine_id, qp_attr, qp_attr_mask));
}

/* @adjust, if it is not NULL, has the last word on the attributes. */
static int move(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state,
		void (*adjust)(struct ibv_qp_attr *attr, uint8_t depth), uint8_t depth)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	if (rdma_init_qp_attr(id, &attr, &mask) != 0)
		return -1;
	if (adjust)
		adjust(&attr, depth);
	return outcome_of_verb(ibv_modify_qp(qp, &attr, mask));
}

static void set_responder(struct ibv_qp_attr *attr, uint8_t depth)
{
	attr->max_dest_rd_atomic = depth;
}

static void set_initiator(struct ibv_qp_attr *attr, uint8_t depth)
{
	attr->max_rd_atomic = depth;
}

int endpoint_qp_to_rtr(struct rdma_cm_id *id, uint8_t responder_resources)
{
	bool is_given = responder_resources != RDMA_MAX_RESP_RES;

	if (!id->qp)
		return 0;
	/* Once more to INIT: what the connection allows (access rights) is known only now. */
	if (move(id, id->qp, IBV_QPS_INIT, NULL, 0) != 0)
		return -1;
	return move(id, id->qp, IBV_QPS_RTR, is_given ? set_responder : NULL, responder_resources);
}

int endpoint_qp_to_rts(struct rdma_cm_id *id, uint8_t initiator_depth)
{
	bool is_given = initiator_depth != RDMA_MAX_INIT_DEPTH;

	if (!id->qp)
		return 0;
	return move(id, id->qp, IBV_QPS_RTS, is_given ? set_initiator : NULL, initiator_depth);
}

int endpoint_qp_to_error(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return id->qp ? outcome_of_verb(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE)) : 0;
}

static void destroy_one_cq(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (*cq)
		ibv_destroy_cq(*cq);
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

/* Those that the endpoint has, made here or given by the program. */
static void destroy_cqs(struct rdma_cm_id *id)
{
	/* They belong to the SRQ then, and go with it. */
	if (id->qp_type == IBV_QPT_XRC_RECV && id->srq)
		return;
	if (id->send_cq == id->recv_cq)
		id->send_cq = NULL;
	if (id->send_cq_channel == id->recv_cq_channel)
		id->send_cq_channel = NULL;
	destroy_one_cq(&id->recv_cq, &id->recv_cq_channel);
	destroy_one_cq(&id->send_cq, &id->send_cq_channel);
}

static int create_one_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_cq **cq,
			 struct ibv_comp_channel **channel)
{
	if (!size)
		return 0;
	*channel = ibv_create_comp_channel(id->verbs);
	if (*channel)
		*cq = ibv_create_cq(id->verbs, (int)size, id, *channel, 0);
	return *cq ? 0 : -1;
}

static int create_cqs(struct rdma_cm_id *id, uint32_t send_size, uint32_t recv_size)
{
	int error;

	if (create_one_cq(id, recv_size, &id->recv_cq, &id->recv_cq_channel) == 0 &&
	    create_one_cq(id, send_size, &id->send_cq, &id->send_cq_channel) == 0)
		return 0;
	error = errno;
	destroy_cqs(id);
	errno = error;
	return -1;
}

static int complete_xrc_srq(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd) {
		attr->xrcd = device_xrcd(endpoint_of(id)->device);
		if (!attr->xrcd)
			return -1;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		if (create_cqs(id, 0, attr->attr.max_wr) != 0)
			return -1;
		attr->cq = id->recv_cq;
	}
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	return 0;
}

/* Many calls need to know the device of the endpoint. */
static int expect_device(const struct rdma_cm_id *id, const char *call)
{
	if (id->verbs)
		return 0;
	return fail(EINVAL, call,
		    "the endpoint is bound to no device yet; resolve an address or bind to one "
		    "that is no wildcard first");
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq *srq;
	int error;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return fail(EINVAL, "rdma_create_srq_ex", "comp_mask does not name the srq_type");
	if (expect_device(id, "rdma_create_srq_ex") != 0)
		return -1;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->srq_type == IBV_SRQT_XRC && complete_xrc_srq(id, attr) != 0)
		return -1;
	srq = ibv_create_srq_ex(id->verbs, attr);
	if (!srq) {
		error = errno;
		destroy_cqs(id);
		errno = error;
		return -1;
	}
	if (!id->pd)
		id->pd = attr->pd;
	id->srq = srq;
	return 0;
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex extended = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.pd = pd,
	};
	int result = rdma_create_srq_ex(id, &extended);

	attr->attr = extended.attr;
	return result;
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	destroy_cqs(id);
}

static int check_create(const struct rdma_cm_id *id, const struct ibv_qp_init_attr_ex *attr)
{
	if (id->qp)
		return fail(EINVAL, "rdma_create_qp", "the endpoint has a QP already");
	if (expect_device(id, "rdma_create_qp") != 0)
		return -1;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) && attr->pd && attr->pd->context != id->verbs)
		return fail(EINVAL, "rdma_create_qp",
			    "the PD belongs to another context than the endpoint (id->verbs)");
	if ((id->recv_cq && attr->recv_cq && id->recv_cq != attr->recv_cq) ||
	    (id->send_cq && attr->send_cq && id->send_cq != attr->send_cq))
		return fail(EINVAL, "rdma_create_qp",
			    "the endpoint has completion queues already, and others are given");
	return 0;
}

/* What the program left to us. */
static int complete_qp(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	}
	if (id->qp_type == IBV_QPT_XRC_RECV &&
	    (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd)) {
		attr->xrcd = device_xrcd(endpoint_of(id)->device);
		if (!attr->xrcd)
			return -1;
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	}
	if (create_cqs(id, attr->send_cq || id->send_cq ? 0 : attr->cap.max_send_wr,
		       attr->recv_cq || id->recv_cq ? 0 : attr->cap.max_recv_wr) != 0)
		return -1;
	if (!attr->send_cq)
		attr->send_cq = id->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	if (id->srq && !attr->srq)
		attr->srq = id->srq;
	return 0;
}

/* Datagrams can flow at once; a connection comes later. */
static int bring_up(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};

	if (move(id, qp, IBV_QPS_INIT, NULL, 0) != 0)
		return -1;
	if (!is_datagram(id))
		return 0;
	if (outcome_of_verb(ibv_modify_qp(qp, &attr, IBV_QP_STATE)) != 0)
		return -1;
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0;
	return outcome_of_verb(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static int introduce(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	if (endpoint_ece_before(endpoint_of(id), qp) != 0 || bring_up(id, qp) != 0)
		return -1;
	return endpoint_ece_after(endpoint_of(id), qp);
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = NULL;
	int error;

	if (check_create(id, attr) != 0)
		return -1;
	if (complete_qp(id, attr) == 0)
		qp = ibv_create_qp_ex(id->verbs, attr);
	if (qp && introduce(id, qp) == 0) {
		/* An XRC_RECV QP has none. */
		if (qp->pd)
			id->pd = qp->pd;
		id->qp = qp;
		return 0;
	}
	error = errno;
	if (qp)
		ibv_destroy_qp(qp);
	destroy_cqs(id);
	errno = error;
	return -1;
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *qp_init_attr)
{
	struct ibv_qp_init_attr_ex extended = {0};
	int result;

	/* The one is the beginning of the other. */
	memcpy(&extended, qp_init_attr, sizeof(*qp_init_attr));
	extended.comp_mask = IBV_QP_INIT_ATTR_PD;
	extended.pd = pd ? pd : id->pd;
	result = rdma_create_qp_ex(id, &extended);
	memcpy(qp_init_attr, &extended, sizeof(*qp_init_attr));
	return result;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	destroy_cqs(id);
}
