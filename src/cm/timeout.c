/* SPDX-License-Identifier: BSD-2-Clause */
/* Deadlines: repeat, ask, give up, or be done with waiting. */
#include <stddef.h>

#include "cm/cm.h"
#include "cm/ending.h"
#include "cm/sending.h"
#include "cm/watch.h"

vbn_time cm_next_deadline(const struct cm_agent *agent)
{
	return agent->heap ? agent->heap->deadline : VBN_TIME_NEVER;
}

/* Nobody answered the last try, or all who did have no listener. */
static void give_up(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
		    struct cm_out *out)
{
	switch (connection->state) {
	case CM_REQ_SENT:
		send_timeout(connection, out);
		if (connection->is_refused)
			tell(connection, CM_EVENT_REJECTED, CM_REJECT_SERVICE_ID, NULL, out);
		else
			tell(connection, CM_EVENT_UNREACHABLE, 0, NULL, out);
		end_closed(agent, connection, out);
		break;
	case CM_REP_SENT:
		send_timeout(connection, out);
		tell(connection, CM_EVENT_CONNECT_ERROR, 0, NULL, out);
		end_in_timewait(agent, connection, now);
		break;
	case CM_SIDR_SENT:
		tell(connection, CM_EVENT_UNREACHABLE, 0, NULL, out);
		end_closed(agent, connection, out);
		break;
	case CM_DREQ_SENT:
		end_disconnected(agent, connection, CM_REJECT_TIMEOUT, NULL, now, out);
		break;
	case CM_IDLE:
	case CM_REQ_RCVD:
	case CM_REP_RCVD:
	case CM_ESTABLISHED:
	case CM_TIMEWAIT:
	case CM_REFUSED:
	case CM_SIDR_RCVD:
	case CM_CLOSED:
	case CM_STATE_COUNT:
		break; /* wait for nothing */
	}
}

bool cm_deadline(struct cm_agent *agent, vbn_time now, struct cm_out *out)
{
	struct cm_connection *connection = agent->heap;

	if (cm_next_deadline(agent) > now)
		return false;
	if (connection->state == CM_TIMEWAIT)
		tell(connection, CM_EVENT_TIMEWAIT_EXIT, 0, NULL, out);
	if (connection->state == CM_ESTABLISHED)
		watch_again(agent, connection, now, out);
	else if (connection->state == CM_TIMEWAIT || connection->state == CM_REFUSED)
		end_closed(agent, connection, out);
	else if (!wait_repeat(agent, connection, now, out))
		give_up(agent, connection, now, out);
	return true;
}
