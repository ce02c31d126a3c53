/* SPDX-License-Identifier: BSD-2-Clause */
/* How a connection comes up, as far as several files need it. */
#ifndef VBN_CM_CONNECT_H
#define VBN_CM_CONNECT_H

#include "cm/cm.h"

/* The passive side knows that the active one is ready. @rtu: how, or NULL: by data. */
void connect_established(struct cm_agent *agent, struct cm_connection *connection,
			 const struct cm_message *rtu, vbn_time now, struct cm_out *out);
/* The MRA of REQ_RCVD or REP_RCVD, or the same again. */
void connect_mra(struct cm_connection *connection, struct cm_out *out);
/* A REQ takes the arrival's spare connection. */
void connect_request(struct cm_agent *agent, const struct cm_arrival *arrival, struct cm_out *out);
/* The REP came that a connection in REQ_SENT waits for. */
void connect_response(struct cm_agent *agent, struct cm_connection *connection,
		      const struct cm_message *rep, struct cm_out *out);

#endif
