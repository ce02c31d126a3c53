/* SPDX-License-Identifier: BSD-2-Clause */
/* Which state may follow which. */
#include "cm/state.h"

#include "base/assert.h"
#include "cm/tables.h"

#define TO(state) (1u << (state))

static const uint32_t moves[CM_STATE_COUNT] = {
	[CM_IDLE] = TO(CM_REQ_SENT) | TO(CM_REQ_RCVD) | TO(CM_SIDR_SENT) | TO(CM_SIDR_RCVD),
	[CM_REQ_SENT] = TO(CM_REP_RCVD) | TO(CM_TIMEWAIT) | TO(CM_CLOSED),
	[CM_REQ_RCVD] = TO(CM_REP_SENT) | TO(CM_REFUSED),
	[CM_REP_SENT] = TO(CM_ESTABLISHED) | TO(CM_TIMEWAIT),
	[CM_REP_RCVD] = TO(CM_ESTABLISHED) | TO(CM_TIMEWAIT),
	[CM_ESTABLISHED] = TO(CM_DREQ_SENT) | TO(CM_TIMEWAIT),
	[CM_DREQ_SENT] = TO(CM_TIMEWAIT),
	[CM_TIMEWAIT] = TO(CM_CLOSED),
	[CM_REFUSED] = TO(CM_CLOSED),
	[CM_SIDR_SENT] = TO(CM_CLOSED),
	[CM_SIDR_RCVD] = TO(CM_REFUSED),
};

void state_set(struct cm_connection *connection, enum cm_state state)
{
	VBN_ASSERT(moves[connection->state] & TO(state));
	connection->state = state;
	if (state_is_over(state))
		table_remove(connection, CM_BY_REMOTE_QP);
	if (state == CM_CLOSED)
		table_remove(connection, CM_BY_REMOTE_ID);
}
