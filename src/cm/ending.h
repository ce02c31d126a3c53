/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ways in which a connection ends. None of them tells how it came to that: that is said before.
 */
#ifndef VBN_CM_ENDING_H
#define VBN_CM_ENDING_H

#include "cm/cm.h"

/* Packets may be on the way: TIMEWAIT, and TIMEWAIT_EXIT after it. */
void end_in_timewait(struct cm_agent *agent, struct cm_connection *connection, vbn_time now);
/* For good, but repetitions are answered for a while. */
void end_refused(struct cm_agent *agent, struct cm_connection *connection, vbn_time now);
/* Nothing more will happen; a released one is GONE. */
void end_closed(struct cm_agent *agent, struct cm_connection *connection, struct cm_out *out);
/* Tells DISCONNECTED, once, and goes to TIMEWAIT. */
void end_disconnected(struct cm_agent *agent, struct cm_connection *connection, uint16_t reason,
		      const struct cm_message *message, vbn_time now, struct cm_out *out);
/*
 * Before ESTABLISHED: tells REJECTED. Where only a REQ was received nothing is on the way; otherwise
 * TIMEWAIT.
 */
void end_rejected(struct cm_agent *agent, struct cm_connection *connection, uint16_t reason,
		  const struct cm_message *message, vbn_time now, struct cm_out *out);
/* The peer turned out to have forgotten it. */
void end_stale(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
	       struct cm_out *out);
/* Sends the REJ that the program wants, in a state where it may. */
void end_by_reject(struct cm_agent *agent, struct cm_connection *connection,
		   const struct cm_message *given, vbn_time now, struct cm_out *out);

#endif
