/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Enhanced connection establishment: what the two devices say to each other about their
 * abilities, in the messages that connect them.
 */
#include "rdmacm/id.h"
#include "rdmacm/library.h"

/* What the device has to say, and to a QP that answers a request, what the peer said. */
int endpoint_ece_before(struct endpoint *endpoint, struct ibv_qp *qp)
{
	struct ibv_ece ece = {0};
	int error = ibv_query_ece(qp, &ece);

	if (error && error != EOPNOTSUPP)
		return outcome_of_verb(error);
	endpoint->local_ece.vendor_id = ece.vendor_id;
	endpoint->local_ece.options = ece.options;
	if (!endpoint->remote_ece.vendor_id)
		return 0;
	/* Of another vendor's abilities ours know nothing. */
	if (endpoint->remote_ece.vendor_id == endpoint->local_ece.vendor_id)
		ece.options = endpoint->remote_ece.options;
	else
		ece.options = 0;
	error = ibv_set_ece(qp, &ece);
	return error == EOPNOTSUPP ? 0 : outcome_of_verb(error);
}

int endpoint_ece_after(struct endpoint *endpoint, struct ibv_qp *qp)
{
	struct ibv_ece ece = {0};
	int error;

	if (!endpoint->remote_ece.vendor_id)
		return 0;
	error = ibv_query_ece(qp, &ece);
	if (error && error != EOPNOTSUPP)
		return outcome_of_verb(error);
	endpoint->local_ece.options = ece.options;
	return 0;
}

int endpoint_accept_answer_with_ece(struct endpoint *endpoint, const struct cm_ece *ece)
{
	struct ibv_ece agreed = {.vendor_id = ece->vendor_id, .options = ece->options};
	int result;

	if (!ece->vendor_id) {
		agreed.vendor_id = endpoint->local_ece.vendor_id;
		agreed.options = 0;
	} else if (ece->vendor_id != endpoint->local_ece.vendor_id) {
		endpoint_qp_to_error(&endpoint->id);
		return fail(EINVAL, "rdma_get_cm_event",
			    "the answer to the request tells abilities of vendor 0x%x, though "
			    "the request was of vendor 0x%x",
			    ece->vendor_id, endpoint->local_ece.vendor_id);
	}
	endpoint->remote_ece.vendor_id = ece->vendor_id;
	result = ibv_set_ece(endpoint->id.qp, &agreed);
	if (result && result != EOPNOTSUPP)
		return result;
	if (endpoint_accept_answer(endpoint) != 0)
		return -1;
	result = ibv_query_ece(endpoint->id.qp, &agreed);
	if (result && result != EOPNOTSUPP) {
		endpoint_qp_to_error(&endpoint->id);
		return result;
	}
	endpoint->local_ece.options = result == EOPNOTSUPP ? 0 : agreed.options;
	return 0;
}

EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return fail(EINVAL, "rdma_set_local_ece",
			    "it takes an endpoint whose QP was made without rdma_create_qp, a "
			    "vendor_id, and comp_mask 0");
	endpoint_of(id)->local_ece.vendor_id = ece->vendor_id;
	endpoint_of(id)->local_ece.options = ece->options;
	return 0;
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece)
		return fail(EINVAL, "rdma_get_remote_ece",
			    "it takes an endpoint whose QP was made without rdma_create_qp");
	ece->vendor_id = endpoint_of(id)->remote_ece.vendor_id;
	ece->options = endpoint_of(id)->remote_ece.options;
	ece->comp_mask = 0;
	return 0;
}
