/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting, accepting, refusing and taking down.
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/library.h"

/* The consumer has no use for the peer's abilities (IBA 12.6.7.2, reason 35). */
#define REASON_VENDOR_OPTION 35

static uint8_t smaller(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static int check_depths(const struct endpoint *endpoint, const struct rdma_conn_param *param,
			const char *call)
{
	const struct cm_device *device = endpoint->device;

	if (param->responder_resources != RDMA_MAX_RESP_RES &&
	    param->responder_resources > device->max_responder_resources)
		return fail(EINVAL, call, "responder_resources %u, and the device has %u",
			    param->responder_resources, device->max_responder_resources);
	if (param->initiator_depth != RDMA_MAX_INIT_DEPTH &&
	    param->initiator_depth > device->max_initiator_depth)
		return fail(EINVAL, call, "initiator_depth %u, and the device has %u",
			    param->initiator_depth, device->max_initiator_depth);
	return 0;
}

static int check_parameters(const struct endpoint *endpoint, const struct rdma_conn_param *param,
			    const char *call)
{
	if (!endpoint->device)
		return fail(EINVAL, call, "the endpoint is bound to no device");
	if (endpoint->id.ps != RDMA_PS_TCP)
		return 0;
	if (!endpoint->id.qp && !param)
		return fail(EINVAL, call,
			    "without a QP of the endpoint the parameters must name one");
	return param ? check_depths(endpoint, param, call) : 0;
}

/* What ai_connect gave goes before what the program gives now. */
static int fill_private_data(const struct endpoint *endpoint, const struct rdma_conn_param *param,
			     uint8_t *bytes, struct cm_offer *with, const char *call)
{
	size_t given = param && param->private_data ? param->private_data_len : 0;
	size_t length = endpoint->connect_data_length + given;

	if (length > UINT8_MAX)
		return fail(EINVAL, call, "%zu bytes of private data are too many", length);
	if (endpoint->connect_data_length)
		memcpy(bytes, endpoint->connect_data, endpoint->connect_data_length);
	if (given)
		memcpy(bytes + endpoint->connect_data_length, param->private_data, given);
	with->private_data = bytes;
	with->private_data_length = (uint8_t)length;
	return 0;
}

static int fill(const struct endpoint *endpoint, const struct rdma_conn_param *param,
		uint8_t *bytes, struct cm_offer *with, const char *call)
{
	const struct ibv_qp *qp = endpoint->id.qp;

	*with = (struct cm_offer){
		.responder_resources = endpoint->responder_resources,
		.initiator_depth = endpoint->initiator_depth,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	if (param) {
		with->flow_control = param->flow_control;
		with->retry_count = param->retry_count;
		with->rnr_retry_count = param->rnr_retry_count;
		with->qp_number = param->qp_num;
		with->has_srq = param->srq;
	}
	if (qp) {
		with->qp_number = qp->qp_num;
		with->has_srq = qp->srq != NULL;
	}
	return fill_private_data(endpoint, param, bytes, with, call);
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	struct endpoint *endpoint = endpoint_of(id);
	uint8_t bytes[CM_PRIVATE_DATA_MAX];
	struct cm_offer with;
	int result;

	if (check_parameters(endpoint, conn_param, "rdma_connect") != 0)
		return -1;
	endpoint->initiator_depth = conn_param && conn_param->initiator_depth != RDMA_MAX_INIT_DEPTH
					    ? conn_param->initiator_depth
					    : endpoint->device->max_initiator_depth;
	endpoint->responder_resources = conn_param && conn_param->responder_resources !=
								RDMA_MAX_RESP_RES
						? conn_param->responder_resources
						: endpoint->device->max_responder_resources;
	if (fill(endpoint, conn_param, bytes, &with, "rdma_connect") != 0)
		return -1;
	with.ece.vendor_id = endpoint->local_ece.vendor_id;
	with.ece.options = endpoint->local_ece.options;
	result = vbn_cm_connect(endpoint->engine_id, &with);
	if (result)
		return outcome(result);
	endpoint->connect_data_length = 0;
	return endpoint_complete(id);
}

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	int result = vbn_cm_listen(endpoint_of(id)->engine_id, backlog);

	return result ? outcome(result) : endpoint_refresh(endpoint_of(id), "rdma_listen");
}

static int accept_request(struct endpoint *endpoint, const struct rdma_conn_param *param)
{
	uint8_t bytes[CM_PRIVATE_DATA_MAX];
	struct cm_offer with;
	int result;

	if (fill(endpoint, param, bytes, &with, "rdma_accept") != 0)
		return -1;
	/* The vendor is that of the request. */
	with.ece.vendor_id = endpoint->remote_ece.vendor_id;
	with.ece.options = endpoint->local_ece.options;
	result = vbn_cm_accept(endpoint->engine_id, &with, endpoint);
	if (!result)
		return 0;
	endpoint_qp_to_error(&endpoint->id);
	return outcome(result);
}

static void choose_depths(struct endpoint *endpoint, const struct rdma_conn_param *param)
{
	const struct cm_device *device = endpoint->device;

	if (!param || param->initiator_depth == RDMA_MAX_INIT_DEPTH)
		endpoint->initiator_depth =
			smaller(endpoint->initiator_depth, device->max_initiator_depth);
	else
		endpoint->initiator_depth = param->initiator_depth;
	if (!param || param->responder_resources == RDMA_MAX_RESP_RES)
		endpoint->responder_resources =
			smaller(endpoint->responder_resources, device->max_responder_resources);
	else
		endpoint->responder_resources = param->responder_resources;
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	struct endpoint *endpoint = endpoint_of(id);

	if (check_parameters(endpoint, conn_param, "rdma_accept") != 0)
		return -1;
	choose_depths(endpoint, conn_param);
	if (!is_datagram(id) && (endpoint_qp_to_rtr(id, endpoint->responder_resources) != 0 ||
				 endpoint_qp_to_rts(id, endpoint->initiator_depth) != 0))
		return -1;
	if (accept_request(endpoint, conn_param) != 0)
		return -1;
	if (!is_datagram(id))
		return endpoint_complete(id);
	if (endpoint->is_synchronous && id->event) {
		rdma_ack_cm_event(id->event);
		id->event = NULL;
	}
	return 0;
}

int endpoint_accept_answer(struct endpoint *endpoint)
{
	struct rdma_cm_id *id = &endpoint->id;
	int error;

	if (endpoint_qp_to_rtr(id, RDMA_MAX_RESP_RES) == 0 &&
	    endpoint_qp_to_rts(id, RDMA_MAX_INIT_DEPTH) == 0 &&
	    outcome(vbn_cm_accept(endpoint->engine_id, NULL, NULL)) == 0)
		return 0;
	error = errno;
	endpoint_qp_to_error(id);
	errno = error;
	return -1;
}

EXPORT int rdma_establish(struct rdma_cm_id *id)
{
	if (id->qp)
		return fail(EINVAL, "rdma_establish",
			    "the QP of the endpoint was made by rdma_create_qp, which establishes "
			    "by itself");
	return endpoint_accept_answer(endpoint_of(id));
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return outcome(
		vbn_cm_reject(endpoint_of(id)->engine_id, private_data, private_data_len, 0));
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
			   uint8_t private_data_len)
{
	return outcome(vbn_cm_reject(endpoint_of(id)->engine_id, private_data, private_data_len,
				     REASON_VENDOR_OPTION));
}

EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	return outcome(vbn_cm_notify(endpoint_of(id)->engine_id, event));
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	int result;

	if (!id->verbs)
		return fail(EINVAL, "rdma_disconnect", "the endpoint is bound to no device");
	if (endpoint_qp_to_error(id) != 0)
		return -1;
	result = vbn_cm_disconnect(endpoint_of(id)->engine_id);
	return result ? outcome(result) : endpoint_complete(id);
}
