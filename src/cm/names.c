/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of states and events, for logs, traces and tests. */
#include "cm/cm.h"

#include "base/assert.h"

static const char *const state_names[CM_STATE_COUNT] = {
	[CM_IDLE] = "IDLE",	      [CM_REQ_SENT] = "REQ_SENT",
	[CM_REQ_RCVD] = "REQ_RCVD",   [CM_REP_SENT] = "REP_SENT",
	[CM_REP_RCVD] = "REP_RCVD",   [CM_ESTABLISHED] = "ESTABLISHED",
	[CM_DREQ_SENT] = "DREQ_SENT", [CM_TIMEWAIT] = "TIMEWAIT",
	[CM_REFUSED] = "REFUSED",     [CM_SIDR_SENT] = "SIDR_SENT",
	[CM_SIDR_RCVD] = "SIDR_RCVD", [CM_CLOSED] = "CLOSED",
};

static const char *const event_names[CM_EVENT_KIND_COUNT] = {
	[CM_EVENT_REQUEST] = "REQUEST",
	[CM_EVENT_RESPONSE] = "RESPONSE",
	[CM_EVENT_ESTABLISHED] = "ESTABLISHED",
	[CM_EVENT_REJECTED] = "REJECTED",
	[CM_EVENT_UNREACHABLE] = "UNREACHABLE",
	[CM_EVENT_CONNECT_ERROR] = "CONNECT_ERROR",
	[CM_EVENT_DISCONNECTED] = "DISCONNECTED",
	[CM_EVENT_TIMEWAIT_EXIT] = "TIMEWAIT_EXIT",
	[CM_EVENT_SIDR_REQUEST] = "SIDR_REQUEST",
	[CM_EVENT_SIDR_RESPONSE] = "SIDR_RESPONSE",
	[CM_EVENT_GONE] = "GONE",
};

const char *cm_state_name(enum cm_state state)
{
	VBN_ASSERT(state < CM_STATE_COUNT);
	return state_names[state];
}

const char *cm_event_name(enum cm_event_kind kind)
{
	VBN_ASSERT(kind < CM_EVENT_KIND_COUNT);
	return event_names[kind];
}
