/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmprobe tells stories of connections: two ends meet by rdma_cm, say a few bytes to each
 * other and part, or fail to. Each prints what it is told, event by event. The two agree on
 * the side, over TCP, as two of vprobe do, and share its work with buffers and completions.
 */
#ifndef VBN_TESTS_INTEROP_CMPROBE_CMPROBE_H
#define VBN_TESTS_INTEROP_CMPROBE_CMPROBE_H

#include <stdbool.h>

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "interop/vprobe/probe.h"

/* In words of the story: who does it. */
enum side { SIDE_NONE, SIDE_CLIENT, SIDE_SERVER, SIDE_BOTH };

enum answer {
	ANSWER_ACCEPT,
	ANSWER_REJECT,
	ANSWER_LEAVE,  /* destroys the endpoint instead of answering */
	ANSWER_ABSENT, /* nobody listens there */
	ANSWER_NONE,   /* the client gives up before there is one */
};

enum ending { ENDING_PART, ENDING_LEAVE, ENDING_DIE };

struct story {
	const char *name;
	enum rdma_port_space space;
	enum answer answer;
	unsigned int late_ms; /* the server takes so long to answer */
	enum ending ending;   /* of an accepted connection */
	enum side who;	      /* ends it */
	bool until_timewait_exit;
};

struct cm_end {
	struct probe probe;
	const struct story *story;
	union {
		struct sockaddr any;
		struct sockaddr_in ip4;
		struct sockaddr_in6 ip6;
	} server; /* on the wire */
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id, *listener;
};

static inline bool cm_end_is(const struct cm_end *end, enum side side)
{
	return side == SIDE_BOTH || side == (end->probe.is_client ? SIDE_CLIENT : SIDE_SERVER);
}

/* events.c: prints the next event, which has to be @type, and hands it out. */
struct rdma_cm_event *event_await(struct cm_end *end, enum rdma_cm_event_type type);
/* The same, acknowledged. */
void event_pass(struct cm_end *end, enum rdma_cm_event_type type);

/* endpoint.c: what both ends make and say. */
void endpoint_create(struct cm_end *end);
/* A QP for end->id, with one receive posted. */
void endpoint_prepare(struct cm_end *end);
struct rdma_conn_param endpoint_offer(const struct cm_end *end);
/* A message each way, every byte compared. */
void endpoint_exchange(struct cm_end *end);
void endpoint_destroy(struct cm_end *end);

#endif
