/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that arrive, but for REQ (request.c) and SIDR (sidr.c). They name the receiver's id, and
 * are for that connection only if they come from its peer and the peer calls itself by the id that
 * it has there.
 */
#include <stddef.h>

#include "cm/cm.h"
#include "cm/connect.h"
#include "cm/ending.h"
#include "cm/request.h"
#include "cm/sending.h"
#include "cm/sidr.h"
#include "cm/state.h"
#include "cm/tables.h"
#include "cm/watch.h"

/* Whose a message is. */
enum match {
	MATCH_NOBODY,	/* no connection has the receiver's id */
	MATCH_INSTANCE, /* one does, but the peer calls itself by another id than before */
	MATCH_SOURCE,	/* one does, with another peer */
	MATCH_FOUND,
};

static enum match find(const struct cm_agent *agent, const struct cm_arrival *arrival,
		       struct cm_connection **connection)
{
	struct cm_connection *found = cm_find(agent, arrival->message->remote_id);

	if (!found || found->is_sidr || found->state == CM_IDLE || found->state == CM_CLOSED)
		return MATCH_NOBODY;
	if (!path_same_peer(&found->path, &arrival->path))
		return MATCH_SOURCE;
	*connection = found;
	/* In REQ_SENT nobody knows the peer's id yet. */
	return found->remote_id == 0 || found->remote_id == arrival->message->local_id
		       ? MATCH_FOUND
		       : MATCH_INSTANCE;
}

static enum reason reason_of(enum match match)
{
	return match == MATCH_SOURCE ? REASON_DROP_SOURCE : REASON_DROP_CM_ID;
}

/* A REP that is not the first one. */
static void answer_rep_again(struct cm_connection *connection, struct cm_out *out)
{
	switch (connection->state) {
	case CM_REP_RCVD:
		connect_mra(connection, out);
		break;
	case CM_ESTABLISHED:
		if (connection->sent_kind == CM_RTU)
			send_again(connection, out);
		break;
	case CM_TIMEWAIT:
		if (connection->sent_kind == CM_REJ)
			send_again(connection, out);
		break;
	case CM_DREQ_SENT: /* the DREQ tells as much as an RTU */
	case CM_IDLE:
	case CM_REQ_SENT:
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REFUSED:
	case CM_SIDR_SENT:
	case CM_SIDR_RCVD:
	case CM_CLOSED:
	case CM_STATE_COUNT:
		break;
	}
}

/* The REP that was waited for. */
static enum reason first_rep(struct cm_agent *agent, const struct cm_arrival *arrival,
			     struct cm_connection *connection, vbn_time now, struct cm_out *out)
{
	const struct cm_message *rep = arrival->message;
	uint32_t qpn = cm_rep_qpn(&rep->rep, connection->service_type);
	struct cm_connection *same_id, *same_qp;

	if (rep->local_id == 0)
		return REASON_DROP_CM_ID;
	same_id = table_by_remote_id(agent, &arrival->path, rep->local_id, false);
	same_qp = table_by_remote_qp(agent, &arrival->path, qpn);
	if (!same_id && !same_qp) {
		connect_response(agent, connection, rep, out);
		return REASON_NONE;
	}
	send_reject_back(arrival, CM_REJECT_STALE, out);
	end_rejected(agent, connection, CM_REJECT_STALE, NULL, now, out);
	if (same_id)
		end_stale(agent, same_id, now, out);
	if (same_qp)
		end_stale(agent, same_qp, now, out);
	return REASON_NONE;
}

static enum reason receive_rep(struct cm_agent *agent, const struct cm_arrival *arrival,
			       vbn_time now, struct cm_out *out)
{
	struct cm_connection *connection;
	enum match match = find(agent, arrival, &connection);

	switch (match) {
	case MATCH_NOBODY:
		send_reject_back(arrival, CM_REJECT_COMM_ID, out);
		return REASON_DROP_CM_ID;
	case MATCH_INSTANCE:
		send_reject_back(arrival, CM_REJECT_COMM_INSTANCE, out);
		return REASON_DROP_CM_ID;
	case MATCH_SOURCE:
		return REASON_DROP_SOURCE;
	case MATCH_FOUND:
		break;
	}
	if (connection->state == CM_REQ_SENT)
		return first_rep(agent, arrival, connection, now, out);
	answer_rep_again(connection, out);
	return REASON_DROP_DUPLICATE;
}

static enum reason receive_rtu(struct cm_agent *agent, const struct cm_arrival *arrival,
			       vbn_time now, struct cm_out *out)
{
	struct cm_connection *connection;
	enum match match = find(agent, arrival, &connection);

	if (match != MATCH_FOUND)
		return reason_of(match);
	if (connection->state == CM_REP_SENT) {
		connect_established(agent, connection, arrival->message, now, out);
		return REASON_NONE;
	}
	return connection->state == CM_ESTABLISHED ? REASON_DROP_DUPLICATE : REASON_DROP_CM_STATE;
}

static enum reason receive_mra(struct cm_agent *agent, const struct cm_arrival *arrival,
			       vbn_time now)
{
	const struct cm_message *mra = arrival->message;
	struct cm_connection *connection;
	enum match match = find(agent, arrival, &connection);

	if (match != MATCH_FOUND)
		return reason_of(match);
	if (!(connection->state == CM_REQ_SENT && mra->mra.about == CM_ABOUT_REQ) &&
	    !(connection->state == CM_REP_SENT && mra->mra.about == CM_ABOUT_REP))
		return REASON_DROP_CM_STATE;
	wait_prolong(connection, mra->mra.service_timeout, now);
	return REASON_NONE;
}

/*
 * A REJ may come from one who has no id yet, or does not know ours: then its own and its
 * address say which connection is meant.
 */
static enum match find_rejected(const struct cm_agent *agent, const struct cm_arrival *arrival,
				struct cm_connection **connection)
{
	const struct cm_message *rej = arrival->message;

	if (rej->remote_id == 0) {
		*connection = rej->local_id ? table_by_remote_id(agent, &arrival->path,
								 rej->local_id, false)
					    : NULL;
		return *connection ? MATCH_FOUND : MATCH_NOBODY;
	}
	return find(agent, arrival, connection);
}

static enum reason receive_rej(struct cm_agent *agent, const struct cm_arrival *arrival,
			       vbn_time now, struct cm_out *out)
{
	const struct cm_message *rej = arrival->message;
	struct cm_connection *connection;
	enum match match = find_rejected(agent, arrival, &connection);

	if (match != MATCH_FOUND)
		return reason_of(match);
	switch (connection->state) {
	case CM_REQ_SENT:
		if (rej->rej.reason == CM_REJECT_SERVICE_ID &&
		    wait_for_listener(agent, connection, now))
			return REASON_NONE;
		tell(connection, CM_EVENT_REJECTED, rej->rej.reason, rej, out);
		/* Stale: packets of the connection that the peer remembers may be on the way. */
		if (rej->rej.reason == CM_REJECT_STALE)
			end_in_timewait(agent, connection, now);
		else
			end_closed(agent, connection, out);
		return REASON_NONE;
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
		end_rejected(agent, connection, rej->rej.reason, rej, now, out);
		return REASON_NONE;
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
		end_disconnected(agent, connection, rej->rej.reason, rej, now, out);
		return REASON_NONE;
	case CM_IDLE:
	case CM_TIMEWAIT:
	case CM_REFUSED:
	case CM_SIDR_SENT:
	case CM_SIDR_RCVD:
	case CM_CLOSED:
	case CM_STATE_COUNT:
		break;
	}
	return REASON_DROP_CM_STATE;
}

static void send_drep(const struct cm_arrival *arrival, struct cm_out *out)
{
	struct cm_message drep = message_back(arrival, CM_DREP);

	send_once(&drep, &arrival->path, out);
}

/* What a DREQ of the peer means to @connection; the DREP is on its way. */
static enum reason disconnected(struct cm_agent *agent, const struct cm_message *dreq,
				struct cm_connection *connection, vbn_time now, struct cm_out *out)
{
	switch (connection->state) {
	case CM_REP_SENT:
		connect_established(agent, connection, NULL, now, out);
		end_disconnected(agent, connection, 0, dreq, now, out);
		return REASON_NONE;
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
		end_disconnected(agent, connection, 0, dreq, now, out);
		return REASON_NONE;
	case CM_REP_RCVD:
		/* It took data for our RTU, and is gone again before we were ready. */
		end_rejected(agent, connection, CM_REJECT_CONSUMER, NULL, now, out);
		return REASON_NONE;
	case CM_TIMEWAIT:
		return REASON_DROP_DUPLICATE;
	case CM_IDLE:
	case CM_REQ_SENT:
	case CM_REQ_RCVD:
	case CM_REFUSED:
	case CM_SIDR_SENT:
	case CM_SIDR_RCVD:
	case CM_CLOSED:
	case CM_STATE_COUNT:
		break;
	}
	return REASON_DROP_CM_STATE;
}

static enum reason receive_dreq(struct cm_agent *agent, const struct cm_arrival *arrival,
				vbn_time now, struct cm_out *out)
{
	struct cm_connection *connection;
	enum match match = find(agent, arrival, &connection);

	if (match == MATCH_SOURCE)
		return REASON_DROP_SOURCE;
	if (match != MATCH_FOUND) {
		/* Forgotten here; the peer wants to forget it too. */
		send_drep(arrival, out);
		return REASON_DROP_CM_ID;
	}
	if (arrival->message->dreq.remote_qpn != connection->local_qpn)
		return REASON_DROP_CM_STATE;
	send_drep(arrival, out);
	return disconnected(agent, arrival->message, connection, now, out);
}

static enum reason receive_drep(struct cm_agent *agent, const struct cm_arrival *arrival,
				vbn_time now, struct cm_out *out)
{
	struct cm_connection *connection;
	enum match match = find(agent, arrival, &connection);

	if (match != MATCH_FOUND)
		return reason_of(match);
	if (connection->state != CM_DREQ_SENT)
		return connection->state == CM_TIMEWAIT ? REASON_DROP_DUPLICATE
							: REASON_DROP_CM_STATE;
	end_disconnected(agent, connection, 0, arrival->message, now, out);
	return REASON_NONE;
}

/* There are no alternate paths here; say so to who asks. */
static enum reason receive_lap(const struct cm_agent *agent, const struct cm_arrival *arrival,
			       struct cm_out *out)
{
	struct cm_message apr = message_back(arrival, CM_APR);
	struct cm_connection *connection;
	enum match match = find(agent, arrival, &connection);
	bool is_known = match == MATCH_FOUND && !state_is_over(connection->state);

	if (match == MATCH_SOURCE)
		return REASON_DROP_SOURCE;
	/* Who asks about what is over here missed its end. */
	apr.apr.status = is_known ? CM_APR_UNSUPPORTED : CM_APR_COMM_ID;
	send_once(&apr, &arrival->path, out);
	return match == MATCH_FOUND ? REASON_NONE : REASON_DROP_CM_ID;
}

static enum reason receive_apr(struct cm_agent *agent, const struct cm_arrival *arrival,
			       vbn_time now, struct cm_out *out)
{
	struct cm_connection *connection;
	enum match match = find(agent, arrival, &connection);

	if (match != MATCH_FOUND)
		return reason_of(match);
	return watch_answered(agent, connection, arrival->message, now, out);
}

enum reason cm_receive(struct cm_agent *agent, const struct cm_arrival *arrival, vbn_time now,
		       struct cm_out *out)
{
	switch (arrival->message->kind) {
	case CM_REQ:
		return receive_req(agent, arrival, now, out);
	case CM_MRA:
		return receive_mra(agent, arrival, now);
	case CM_REJ:
		return receive_rej(agent, arrival, now, out);
	case CM_REP:
		return receive_rep(agent, arrival, now, out);
	case CM_RTU:
		return receive_rtu(agent, arrival, now, out);
	case CM_DREQ:
		return receive_dreq(agent, arrival, now, out);
	case CM_DREP:
		return receive_drep(agent, arrival, now, out);
	case CM_SIDR_REQ:
		return receive_sidr_req(agent, arrival, now, out);
	case CM_SIDR_REP:
		return receive_sidr_rep(agent, arrival, now, out);
	case CM_LAP:
		return receive_lap(agent, arrival, out);
	case CM_APR:
		return receive_apr(agent, arrival, now, out);
	}
	return REASON_DROP_CM_STATE;
}
