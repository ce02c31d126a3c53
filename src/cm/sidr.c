/* SPDX-License-Identifier: BSD-2-Clause */
/* Service id resolution (IBA 12.11): asking, being asked, and answering again. */
#include "cm/sidr.h"

#include <errno.h>
#include <stddef.h>

#include "base/assert.h"
#include "cm/deadlines.h"
#include "cm/ending.h"
#include "cm/sending.h"
#include "cm/state.h"
#include "cm/tables.h"

int cm_sidr_query(struct cm_agent *agent, struct cm_connection *connection,
		  const struct cm_path *path, const struct cm_message *sidr_req, vbn_time now,
		  struct cm_out *out)
{
	struct cm_message message;

	if (connection->state != CM_IDLE)
		return -EINVAL;
	message = message_of(connection, CM_SIDR_REQ, sidr_req);
	connection->is_sidr = true;
	connection->path = *path;
	connection->service_id = message.sidr_req.service_id;
	state_set(connection, CM_SIDR_SENT);
	send_kept(connection, &message, out);
	wait_begin(agent, connection, now);
	return 0;
}

int cm_sidr_answer(struct cm_agent *agent, struct cm_connection *connection,
		   const struct cm_message *sidr_rep, vbn_time now, struct cm_out *out)
{
	struct cm_message message;

	if (connection->state != CM_SIDR_RCVD)
		return -EINVAL;
	message = message_of(connection, CM_SIDR_REP, sidr_rep);
	message.local_id = connection->remote_id; /* the request's id comes back */
	message.remote_id = 0;
	message.sidr_rep.service_id = connection->service_id;
	send_kept(connection, &message, out);
	end_refused(agent, connection, now);
	return 0;
}

/* A request that came before. False: it asks for something else under an old number. */
static bool answer_again(struct cm_agent *agent, struct cm_connection *known,
			 const struct cm_message *request, vbn_time now, struct cm_out *out)
{
	if (known->service_id != request->sidr_req.service_id) {
		table_remove(known, CM_BY_REMOTE_ID);
		return false;
	}
	if (known->state == CM_REFUSED) {
		send_again(known, out);
		deadline_set(agent, known, vbn_time_add(now, known->linger_ns));
	}
	return true;
}

/* What a request gets that nobody serves: @status, or with 0 nothing. */
static void refuse(const struct cm_arrival *arrival, uint16_t status, struct cm_out *out)
{
	struct cm_message rep = message_back(arrival, CM_SIDR_REP);

	if (status == 0)
		return;
	rep.local_id = arrival->message->local_id;
	rep.remote_id = 0;
	rep.sidr_rep.status = (uint8_t)status;
	rep.sidr_rep.service_id = arrival->message->sidr_req.service_id;
	send_once(&rep, &arrival->path, out);
}

static void take(struct cm_agent *agent, const struct cm_arrival *arrival, struct cm_out *out)
{
	struct cm_connection *connection = arrival->spare;
	const struct cm_message *message = arrival->message;

	VBN_ASSERT(connection->state == CM_IDLE);
	connection->is_passive = true;
	connection->is_sidr = true;
	connection->path = arrival->path;
	connection->remote_id = message->local_id;
	connection->service_id = message->sidr_req.service_id;
	connection->transaction = message->transaction;
	/* The request does not say how long its sender waits; as long as we would. */
	connection->linger_ns = 2 * wait_between(&agent->timing);
	table_insert(agent, connection, CM_BY_REMOTE_ID);
	state_set(connection, CM_SIDR_RCVD);
	tell(connection, CM_EVENT_SIDR_REQUEST, 0, message, out);
}

enum reason receive_sidr_req(struct cm_agent *agent, const struct cm_arrival *arrival, vbn_time now,
			     struct cm_out *out)
{
	const struct cm_message *message = arrival->message;
	struct cm_connection *known;

	if (message->local_id == 0)
		return REASON_DROP_CM_ID;
	known = table_by_remote_id(agent, &arrival->path, message->local_id, true);
	if (known && answer_again(agent, known, message, now, out))
		return REASON_DROP_DUPLICATE;
	if (!arrival->spare) {
		refuse(arrival, arrival->refusal, out);
		return arrival->refusal ? REASON_NONE : REASON_DROP_NO_ROOM;
	}
	take(agent, arrival, out);
	return REASON_NONE;
}

enum reason receive_sidr_rep(struct cm_agent *agent, const struct cm_arrival *arrival, vbn_time now,
			     struct cm_out *out)
{
	const struct cm_message *message = arrival->message;
	struct cm_connection *connection = cm_find(agent, message->local_id);

	if (!connection || connection->state != CM_SIDR_SENT)
		return REASON_DROP_CM_ID;
	if (!path_same_peer(&connection->path, &arrival->path))
		return REASON_DROP_SOURCE;
	if (message->sidr_rep.status == CM_SIDR_UNSUPPORTED &&
	    wait_for_listener(agent, connection, now))
		return REASON_NONE;
	tell(connection, CM_EVENT_SIDR_RESPONSE, message->sidr_rep.status, message, out);
	end_closed(agent, connection, out);
	return REASON_NONE;
}
