/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a QP has decided, and why, in words of the trace: "go back to psn 5", "hold psn 7".
 * The core prints nothing, so decisions are read off the states before and after an event.
 */
#ifndef VBN_TESTS_SIM_DECISIONS_H
#define VBN_TESTS_SIM_DECISIONS_H

#include "sim/host.h"

/* A QP as it was after the last event. */
struct decisions_qp {
	enum ibv_qp_state state;
	struct rc_requester requester;
	struct rc_responder responder;
	uint32_t waiting_position; /* of the WQE whose wait has been told last, plus one */
};

struct decisions {
	struct world *world;
	struct decisions_qp qps[HOST_QPS_IN_WORLD];
};

/* Tells of every QP of @world from now on; connect them first. @decisions lives as long. */
void decisions_attach(struct decisions *decisions, struct world *world);

#endif
