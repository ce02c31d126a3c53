/* SPDX-License-Identifier: BSD-2-Clause */
/* The way up, of either side: REQ, REP, RTU, and the MRA in between. */
#include "cm/connect.h"

#include <errno.h>
#include <stddef.h>

#include "base/assert.h"
#include "cm/deadlines.h"
#include "cm/sending.h"
#include "cm/state.h"
#include "cm/tables.h"
#include "cm/watch.h"

#define EXPONENT_MASK 31

static uint8_t capped(uint8_t exponent)
{
	return exponent < CM_EXPONENT_MAX ? exponent : CM_EXPONENT_MAX;
}

uint8_t cm_ack_timeout(uint8_t packet_lifetime, uint8_t ack_delay)
{
	uint8_t timeout = packet_lifetime + 1;

	/* The sum of two powers, rounded up to one where they are close (as Linux does). */
	if (timeout >= ack_delay)
		timeout += ack_delay >= timeout - 1;
	else
		timeout = ack_delay + (timeout >= ack_delay - 1);
	return timeout < EXPONENT_MASK ? timeout : EXPONENT_MASK;
}

int cm_connect(struct cm_agent *agent, struct cm_connection *connection, const struct cm_path *path,
	       const struct cm_message *req, vbn_time now, struct cm_out *out)
{
	const struct cm_timing *timing = &connection->timing;
	struct cm_message message;

	if (connection->state != CM_IDLE)
		return -EINVAL;
	connection->ack_timeout = cm_ack_timeout(timing->packet_lifetime, timing->ack_delay);
	message = message_of(connection, CM_REQ, req);
	message.req.remote_response_timeout = timing->response_timeout;
	message.req.local_response_timeout = timing->response_timeout;
	message.req.max_cm_retries = timing->retries;
	message.req.primary.ack_timeout = connection->ack_timeout;
	connection->path = *path;
	connection->local_guid = message.req.ca_guid;
	connection->local_qpn = message.req.qpn;
	connection->service_type = message.req.service_type;
	connection->service_id = message.req.service_id;
	state_set(connection, CM_REQ_SENT);
	send_kept(connection, &message, out);
	wait_begin(agent, connection, now);
	return 0;
}

void connect_request(struct cm_agent *agent, const struct cm_arrival *arrival, struct cm_out *out)
{
	struct cm_connection *connection = arrival->spare;
	const struct cm_message *message = arrival->message;
	const struct cm_req *req = &message->req;
	uint8_t ack_timeout = capped(req->primary.ack_timeout);
	uint64_t peer_waits =
		cm_exponent_ns(capped(req->remote_response_timeout)) + cm_exponent_ns(ack_timeout);

	VBN_ASSERT(connection->state == CM_IDLE);
	connection->is_passive = true;
	connection->path = arrival->path;
	connection->remote_id = message->local_id;
	connection->remote_qpn = req->qpn;
	connection->remote_psn = req->starting_psn;
	connection->remote_guid = req->ca_guid;
	connection->service_id = req->service_id;
	connection->service_type = req->service_type;
	connection->transaction = message->transaction;
	connection->timing.response_timeout = capped(req->local_response_timeout);
	connection->timing.packet_lifetime = ack_timeout ? ack_timeout - 1 : 0;
	connection->timing.retries = req->max_cm_retries;
	connection->ack_timeout = ack_timeout;
	connection->linger_ns = 2 * peer_waits;
	table_insert(agent, connection, CM_BY_REMOTE_ID);
	table_insert(agent, connection, CM_BY_REMOTE_QP);
	state_set(connection, CM_REQ_RCVD);
	tell(connection, CM_EVENT_REQUEST, 0, message, out);
}

int cm_accept(struct cm_agent *agent, struct cm_connection *connection,
	      const struct cm_message *rep, vbn_time now, struct cm_out *out)
{
	struct cm_message message;

	if (connection->state != CM_REQ_RCVD)
		return -EINVAL;
	message = message_of(connection, CM_REP, rep);
	message.rep.target_ack_delay = connection->timing.ack_delay;
	connection->local_guid = message.rep.ca_guid;
	connection->local_qpn = cm_rep_qpn(&message.rep, connection->service_type);
	state_set(connection, CM_REP_SENT);
	send_kept(connection, &message, out);
	wait_begin(agent, connection, now);
	return 0;
}

void connect_response(struct cm_agent *agent, struct cm_connection *connection,
		      const struct cm_message *rep, struct cm_out *out)
{
	connection->remote_id = rep->local_id;
	connection->remote_qpn = cm_rep_qpn(&rep->rep, connection->service_type);
	connection->remote_psn = rep->rep.starting_psn;
	connection->remote_guid = rep->rep.ca_guid;
	connection->ack_timeout = cm_ack_timeout(connection->timing.packet_lifetime,
						 capped(rep->rep.target_ack_delay));
	connection->sent_kind = 0;
	table_insert(agent, connection, CM_BY_REMOTE_ID);
	table_insert(agent, connection, CM_BY_REMOTE_QP);
	state_set(connection, CM_REP_RCVD);
	deadline_set(agent, connection, VBN_TIME_NEVER);
	tell(connection, CM_EVENT_RESPONSE, 0, rep, out);
}

int cm_confirm(struct cm_agent *agent, struct cm_connection *connection,
	       const struct cm_message *rtu, vbn_time now, struct cm_out *out)
{
	struct cm_message message;

	if (connection->state != CM_REP_RCVD)
		return -EINVAL;
	message = message_of(connection, CM_RTU, rtu);
	state_set(connection, CM_ESTABLISHED);
	watch_begin(agent, connection, now);
	send_kept(connection, &message, out);
	tell(connection, CM_EVENT_ESTABLISHED, 0, NULL, out);
	return 0;
}

void connect_established(struct cm_agent *agent, struct cm_connection *connection,
			 const struct cm_message *rtu, vbn_time now, struct cm_out *out)
{
	state_set(connection, CM_ESTABLISHED);
	watch_begin(agent, connection, now);
	tell(connection, CM_EVENT_ESTABLISHED, 0, rtu, out);
}

int cm_establish(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
		 struct cm_out *out)
{
	if (connection->state == CM_ESTABLISHED)
		return 0;
	if (connection->state != CM_REP_SENT)
		return -EINVAL;
	connect_established(agent, connection, NULL, now, out);
	return 0;
}

static void send_mra(struct cm_connection *connection, const struct cm_message *given,
		     struct cm_out *out)
{
	struct cm_message mra = message_of(connection, CM_MRA, given);

	mra.mra.about = connection->state == CM_REQ_RCVD ? CM_ABOUT_REQ : CM_ABOUT_REP;
	if (mra.mra.service_timeout == 0)
		mra.mra.service_timeout = connection->timing.service_timeout;
	send_kept(connection, &mra, out);
}

void connect_mra(struct cm_connection *connection, struct cm_out *out)
{
	if (connection->sent_kind == CM_MRA)
		send_again(connection, out);
	else
		send_mra(connection, NULL, out);
}

int cm_mra(struct cm_agent *agent, struct cm_connection *connection, const struct cm_message *mra,
	   vbn_time now, struct cm_out *out)
{
	(void)agent;
	(void)now;
	if (connection->state != CM_REQ_RCVD && connection->state != CM_REP_RCVD)
		return -EINVAL;
	send_mra(connection, mra, out);
	return 0;
}
