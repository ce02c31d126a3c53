/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/watch.h"

#include <stddef.h>

#include "cm/deadlines.h"
#include "cm/ending.h"
#include "cm/sending.h"

/* Who dies soon after the beginning should have been heard before. */
#define FIRST_DIVISOR 16

void watch_begin(struct cm_agent *agent, struct cm_connection *connection, vbn_time now)
{
	uint64_t watch_ns = connection->timing.watch_ns;

	connection->watch_silence = 0;
	connection->is_watch_answered = false;
	deadline_set(agent, connection,
		     watch_ns ? vbn_time_add(now, watch_ns / FIRST_DIVISOR) : VBN_TIME_NEVER);
}

void watch_again(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
		 struct cm_out *out)
{
	struct cm_message lap = message_of(connection, CM_LAP, NULL);
	uint8_t most = connection->is_watch_answered ? CM_WATCH_TRIES : CM_WATCH_TRIES_FIRST;

	if (connection->watch_silence < most) {
		connection->watch_silence++;
		send_once(&lap, &connection->path, out);
		deadline_set(agent, connection, vbn_time_add(now, connection->timing.watch_ns));
	} else if (connection->is_watch_answered) {
		end_disconnected(agent, connection, CM_REJECT_TIMEOUT, NULL, now, out);
	} else {
		deadline_set(agent, connection, VBN_TIME_NEVER);
	}
}

enum reason watch_answered(struct cm_agent *agent, struct cm_connection *connection,
			   const struct cm_message *apr, vbn_time now, struct cm_out *out)
{
	/* What was not asked is not believed. */
	if (connection->state != CM_ESTABLISHED || !connection->watch_silence)
		return REASON_DROP_CM_STATE;
	connection->watch_silence = 0;
	connection->is_watch_answered = true;
	if (apr->apr.status == CM_APR_COMM_ID)
		end_disconnected(agent, connection, CM_REJECT_COMM_ID, apr, now, out);
	else if (connection->deadline == VBN_TIME_NEVER)
		deadline_set(agent, connection, vbn_time_add(now, connection->timing.watch_ns));
	return REASON_NONE;
}
