/* SPDX-License-Identifier: BSD-2-Clause */
/* Every way down: disconnecting, refusing, letting go, being stale. */
#include "cm/ending.h"

#include <errno.h>

#include "cm/deadlines.h"
#include "cm/sending.h"
#include "cm/state.h"

void end_in_timewait(struct cm_agent *agent, struct cm_connection *connection, vbn_time now)
{
	state_set(connection, CM_TIMEWAIT);
	deadline_set(agent, connection, vbn_time_add(now, cm_exponent_ns(connection->ack_timeout)));
}

void end_refused(struct cm_agent *agent, struct cm_connection *connection, vbn_time now)
{
	state_set(connection, CM_REFUSED);
	deadline_set(agent, connection, vbn_time_add(now, connection->linger_ns));
}

static void end_gone(struct cm_agent *agent, struct cm_connection *connection, struct cm_out *out)
{
	cm_forget(agent, connection);
	tell(connection, CM_EVENT_GONE, 0, NULL, out);
}

void end_closed(struct cm_agent *agent, struct cm_connection *connection, struct cm_out *out)
{
	state_set(connection, CM_CLOSED);
	deadline_set(agent, connection, VBN_TIME_NEVER);
	if (connection->is_released)
		end_gone(agent, connection, out);
}

void end_disconnected(struct cm_agent *agent, struct cm_connection *connection, uint16_t reason,
		      const struct cm_message *message, vbn_time now, struct cm_out *out)
{
	if (!connection->is_told_end)
		tell(connection, CM_EVENT_DISCONNECTED, reason, message, out);
	connection->is_told_end = true;
	end_in_timewait(agent, connection, now);
}

void end_rejected(struct cm_agent *agent, struct cm_connection *connection, uint16_t reason,
		  const struct cm_message *message, vbn_time now, struct cm_out *out)
{
	tell(connection, CM_EVENT_REJECTED, reason, message, out);
	if (connection->state != CM_REQ_RCVD) {
		end_in_timewait(agent, connection, now);
		return;
	}
	connection->sent_kind = 0;
	end_refused(agent, connection, now);
}

/* The DREQ, with what @given has as private data; repeated until the DREP comes. */
static void send_dreq(struct cm_agent *agent, struct cm_connection *connection,
		      const struct cm_message *given, vbn_time now, struct cm_out *out)
{
	struct cm_message dreq = message_of(connection, CM_DREQ, given);

	/* An exchange of its own, whichever side begins it. */
	dreq.transaction = (uint64_t)agent->transaction_high << 32 | connection->local_id;
	dreq.dreq.remote_qpn = connection->remote_qpn;
	state_set(connection, CM_DREQ_SENT);
	send_kept(connection, &dreq, out);
	wait_begin(agent, connection, now);
}

int cm_disconnect(struct cm_agent *agent, struct cm_connection *connection,
		  const struct cm_message *dreq, vbn_time now, struct cm_out *out)
{
	switch (connection->state) {
	case CM_ESTABLISHED:
		send_dreq(agent, connection, dreq, now, out);
		return 0;
	case CM_DREQ_SENT:
	case CM_TIMEWAIT:
	case CM_CLOSED:
		return 0;
	case CM_IDLE:
	case CM_REQ_SENT:
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
	case CM_REFUSED:
	case CM_SIDR_SENT:
	case CM_SIDR_RCVD:
	case CM_STATE_COUNT:
		break;
	}
	return -EINVAL;
}

void end_stale(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
	       struct cm_out *out)
{
	switch (connection->state) {
	case CM_ESTABLISHED:
		/* Its owner need not wait for an answer that may never come. */
		tell(connection, CM_EVENT_DISCONNECTED, CM_REJECT_STALE, NULL, out);
		connection->is_told_end = true;
		send_dreq(agent, connection, NULL, now, out);
		break;
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
		end_rejected(agent, connection, CM_REJECT_STALE, NULL, now, out);
		break;
	case CM_DREQ_SENT: /* being torn down */
	case CM_TIMEWAIT:
	case CM_REFUSED:
	case CM_CLOSED:
	case CM_IDLE:
	case CM_REQ_SENT:
	case CM_SIDR_SENT:
	case CM_SIDR_RCVD:
	case CM_STATE_COUNT:
		break;
	}
}

void cm_peer_died(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
		  struct cm_out *out)
{
	switch (connection->state) {
	case CM_REQ_SENT:
	case CM_SIDR_SENT:
		tell(connection, CM_EVENT_UNREACHABLE, 0, NULL, out);
		end_closed(agent, connection, out);
		break;
	case CM_REQ_RCVD:
		/* A kernel would have said so for a process that ends while it waits. */
		end_rejected(agent, connection, CM_REJECT_TIMEOUT, NULL, now, out);
		break;
	case CM_REP_SENT:
	case CM_REP_RCVD:
		/* As if somebody had answered for an id that is no more. */
		end_rejected(agent, connection, CM_REJECT_COMM_ID, NULL, now, out);
		break;
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
		end_disconnected(agent, connection, 0, NULL, now, out);
		break;
	case CM_IDLE: /* nothing is waited for, or it is over */
	case CM_TIMEWAIT:
	case CM_REFUSED:
	case CM_SIDR_RCVD:
	case CM_CLOSED:
	case CM_STATE_COUNT:
		break;
	}
}

void end_by_reject(struct cm_agent *agent, struct cm_connection *connection,
		   const struct cm_message *given, vbn_time now, struct cm_out *out)
{
	struct cm_message rej = message_of(connection, CM_REJ, given);

	if (connection->state == CM_REQ_RCVD) {
		rej.rej.about = CM_ABOUT_REQ;
		/* Nobody there heard of our id, unless by an MRA. */
		if (!connection->sent_kind)
			rej.local_id = 0;
		send_kept(connection, &rej, out);
		end_refused(agent, connection, now);
		return;
	}
	rej.rej.about = connection->state == CM_REP_RCVD ? CM_ABOUT_REP : CM_ABOUT_OTHER;
	send_kept(connection, &rej, out);
	end_in_timewait(agent, connection, now);
}

int cm_reject(struct cm_agent *agent, struct cm_connection *connection,
	      const struct cm_message *rej, vbn_time now, struct cm_out *out)
{
	if (connection->state != CM_REQ_RCVD && connection->state != CM_REP_RCVD &&
	    connection->state != CM_REP_SENT)
		return -EINVAL;
	end_by_reject(agent, connection, rej, now, out);
	return 0;
}

void cm_release(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
		struct cm_out *out)
{
	static const struct cm_message consumer = {
		.kind = CM_REJ,
		.rej.reason = CM_REJECT_CONSUMER,
	};
	static const struct cm_message sidr = {
		.kind = CM_SIDR_REP,
		.sidr_rep.status = CM_SIDR_REJECT,
	};

	connection->is_released = true;
	switch (connection->state) {
	case CM_IDLE:
	case CM_CLOSED:
		end_gone(agent, connection, out);
		break;
	case CM_REQ_SENT:
		/* A REP that comes after this finds an id that nobody has. */
		send_timeout(connection, out);
		end_closed(agent, connection, out);
		break;
	case CM_SIDR_SENT:
		end_closed(agent, connection, out);
		break;
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
		end_by_reject(agent, connection, &consumer, now, out);
		break;
	case CM_ESTABLISHED:
		send_dreq(agent, connection, NULL, now, out);
		break;
	case CM_SIDR_RCVD:
		cm_sidr_answer(agent, connection, &sidr, now, out);
		break;
	case CM_DREQ_SENT:
	case CM_TIMEWAIT:
	case CM_REFUSED:
	case CM_STATE_COUNT:
		break; /* GONE when that is over */
	}
}
