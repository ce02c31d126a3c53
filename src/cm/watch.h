/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the peer of an established connection still knows it.
 *
 * A kernel takes down the connections of a process that was killed. Where the process is the adapter
 * nobody is left who could, and a program that only waits would wait for ever. So the peer
 * is asked now and then, by a LAP without an alternate path: it has no effect, and is answered in any state
 * by an APR, "unsupported" by who knows the connection, "invalid communication id" by
 * whom it is over for and by whoever else lives at the address.
 *
 * Only silence after an answer means anything: Linux drops a LAP on RoCE, and a peer that
 * never answered is left alone.
 */
#ifndef VBN_CM_WATCH_H
#define VBN_CM_WATCH_H

#include "cm/cm.h"

/* The connection is ESTABLISHED. */
void watch_begin(struct cm_agent *agent, struct cm_connection *connection, vbn_time now);
/* Its deadline has come: asks, or gives up. */
void watch_again(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
		 struct cm_out *out);
/* An APR of the peer. */
enum reason watch_answered(struct cm_agent *agent, struct cm_connection *connection,
			   const struct cm_message *apr, vbn_time now, struct cm_out *out);

#endif
