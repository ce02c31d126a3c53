/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's part of pacing what nobody acknowledges (transport/flow_pace.h): QPs of one flow have
 * different locks, so each flow has one for its pace; and a UD QP, whose requests go here and there,
 * is told how many of them may leave.
 */
#ifndef VBN_ENGINE_PACE_H
#define VBN_ENGINE_PACE_H

#include <stdbool.h>

#include "base/time.h"

struct engine_flow;
struct engine_qp;
struct pass;

/* By which a connected QP is paced; NULL: by none. The QP's lock is held, here and below. */
struct engine_flow *pace_flow(const struct engine_qp *qp);
/* Around qp_output(): a UC QP asks for itself whether a packet may leave. */
void pace_enter(struct engine_flow *flow);
void pace_leave(struct engine_flow *flow);
/*
 * Says in pass->core how many of the datagrams that wait in @qp may leave now, at most an outbox
 * full. Returns when the next one may; NEVER: none has to wait.
 */
vbn_time pace_datagrams(struct engine_qp *qp, struct pass *pass);
/* What was handed out for @flow has left. */
void pace_left(struct engine_flow *flow);

#endif
