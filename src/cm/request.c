/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A REQ is a repeated one, or shows that something here is stale, or is new. It is the same as
 * another one if all agree that a peer cannot have twice by chance: its id, QP, first PSN, GUID and
 * the service asked for.
 */
#include "cm/request.h"

#include <stddef.h>

#include "cm/connect.h"
#include "cm/deadlines.h"
#include "cm/ending.h"
#include "cm/sending.h"
#include "cm/tables.h"

static bool is_repeated(const struct cm_connection *known, const struct cm_req *req)
{
	return known->is_passive && known->remote_qpn == req->qpn &&
	       known->remote_psn == req->starting_psn && known->remote_guid == req->ca_guid &&
	       known->service_id == req->service_id;
}

/* The answer got lost, or is not decided, or crossed the repetition. */
static void answer_again(struct cm_agent *agent, const struct cm_arrival *arrival,
			 struct cm_connection *known, vbn_time now, struct cm_out *out)
{
	switch (known->state) {
	case CM_REQ_RCVD:
		connect_mra(known, out);
		break;
	case CM_REP_SENT:
		send_again(known, out);
		break;
	case CM_REFUSED:
		if (known->sent_kind)
			send_again(known, out);
		deadline_set(agent, known, vbn_time_add(now, known->linger_ns));
		break;
	case CM_TIMEWAIT:
		if (known->sent_kind == CM_REJ)
			send_again(known, out);
		else
			send_reject_back(arrival, CM_REJECT_STALE, out);
		break;
	case CM_ESTABLISHED: /* the peer has our REP: the RTU came, or data */
	case CM_DREQ_SENT:
	case CM_IDLE:
	case CM_REQ_SENT:
	case CM_REP_RCVD:
	case CM_SIDR_SENT:
	case CM_SIDR_RCVD:
	case CM_CLOSED:
	case CM_STATE_COUNT:
		break;
	}
}

static bool is_supported(const struct cm_req *req)
{
	switch (req->service_type) {
	case CM_SERVICE_RC:
	case CM_SERVICE_UC:
		return true;
	case CM_SERVICE_EXTENDED:
		return req->extended_type == CM_EXTENDED_XRC;
	default:
		return false;
	}
}

enum reason receive_req(struct cm_agent *agent, const struct cm_arrival *arrival, vbn_time now,
			struct cm_out *out)
{
	const struct cm_message *message = arrival->message;
	struct cm_connection *same_id, *same_qp;

	if (message->local_id == 0)
		return REASON_DROP_CM_ID;
	same_id = table_by_remote_id(agent, &arrival->path, message->local_id, false);
	if (same_id && is_repeated(same_id, &message->req)) {
		answer_again(agent, arrival, same_id, now, out);
		return REASON_DROP_DUPLICATE;
	}
	same_qp = table_by_remote_qp(agent, &arrival->path, message->req.qpn);
	if (same_id || same_qp) {
		send_reject_back(arrival, CM_REJECT_STALE, out);
		if (same_id)
			end_stale(agent, same_id, now, out);
		if (same_qp)
			end_stale(agent, same_qp, now, out);
		return REASON_NONE;
	}
	if (!is_supported(&message->req)) {
		send_reject_back(arrival, CM_REJECT_SERVICE_TYPE, out);
		return REASON_NONE;
	}
	if (!arrival->spare) {
		if (arrival->refusal)
			send_reject_back(arrival, arrival->refusal, out);
		return arrival->refusal ? REASON_NONE : REASON_DROP_NO_ROOM;
	}
	connect_request(agent, arrival, out);
	return REASON_NONE;
}
