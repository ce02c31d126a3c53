/* SPDX-License-Identifier: BSD-2-Clause */
/* The one setter of a connection's state, and what follows from it for the tables. */
#ifndef VBN_CM_STATE_H
#define VBN_CM_STATE_H

#include "cm/cm.h"

/* Nothing of it is left to either side but answers to what is repeated. */
static inline bool state_is_over(enum cm_state state)
{
	return state == CM_TIMEWAIT || state == CM_REFUSED || state == CM_CLOSED;
}

/* A move that the theory of operation (cm.h) does not know is our own mistake. */
void state_set(struct cm_connection *connection, enum cm_state state);

#endif
