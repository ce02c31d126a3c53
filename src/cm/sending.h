/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What leaves a connection: messages, their repetition, and events.
 */
#ifndef VBN_CM_SENDING_H
#define VBN_CM_SENDING_H

#include "cm/cm.h"

/*
 * A copy of @given (NULL: an empty one) as a message of @kind from @connection to its peer: ids and
 * transaction are filled in.
 */
struct cm_message message_of(const struct cm_connection *connection, enum cm_kind kind,
			     const struct cm_message *given);
/*
 * A message of @kind that answers @arrival for nobody: the ids are those that the peer named, as
 * Linux has it.
 */
struct cm_message message_back(const struct cm_arrival *arrival, enum cm_kind kind);

/* Sends without keeping. */
void send_once(const struct cm_message *message, const struct cm_path *path, struct cm_out *out);
/* Sends and keeps it for send_again(). */
void send_kept(struct cm_connection *connection, const struct cm_message *message,
	       struct cm_out *out);
void send_again(const struct cm_connection *connection, struct cm_out *out);
/* The REJ about a REQ or REP that reached nobody who wants it. */
void send_reject_back(const struct cm_arrival *arrival, uint16_t reason, struct cm_out *out);
/* The REJ that tells the peer in any state; @info is the CA's GUID where it is needed. */
void send_timeout(struct cm_connection *connection, struct cm_out *out);

/* Waits for an answer to what was sent, from now on and with all retries. */
void wait_begin(struct cm_agent *agent, struct cm_connection *connection, vbn_time now);
/* The peer asks for patience. */
void wait_prolong(struct cm_connection *connection, uint8_t service_timeout, vbn_time now);
/*
 * Nobody listens. True: the peer will be asked again (timing.listener_ns), or has been already and
 * may still answer that; false: so be it.
 */
bool wait_for_listener(struct cm_agent *agent, struct cm_connection *connection, vbn_time now);
/* The answer did not come. True: it was sent again; false: that was the last try, or it is refused. */
bool wait_repeat(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
		 struct cm_out *out);
/* What wait_begin() lets pass between two transmissions, from the timing of @connection. */
uint64_t wait_between(const struct cm_timing *timing);

/* Nothing for a connection that was released, GONE apart. @message may be NULL. */
void tell(struct cm_connection *connection, enum cm_event_kind kind, uint16_t reason,
	  const struct cm_message *message, struct cm_out *out);

#endif
