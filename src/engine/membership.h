/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine as a member of its host (host/host.h): QP numbers, sockets of addresses that
 * other processes use too, packets that came to the wrong process, peers that die.
 *
 * Membership begins with the first QP, whose number needs the slot, and ends with the
 * engine. Where it cannot be had, or with VERBENA_SHARE=0, the engine goes on alone: its QP
 * numbers are any, and each address that it uses is its own.
 *
 * All that other processes may want of us wakes one descriptor, which the helper waits on.
 */
#ifndef VBN_ENGINE_MEMBERSHIP_H
#define VBN_ENGINE_MEMBERSHIP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/host.h"
#include "link/descriptor.h"
#include "link/link.h"

struct engine;
struct engine_flow;
struct pass;

struct membership {
	pthread_mutex_t lock; /* of joining */
	bool is_decided;      /* under lock: joined, or given up */
	struct host *_Atomic host;
	/* An epoll set: newcomers, forwarded packets, deaths; and, members or not, ports. */
	struct descriptor wakes;
	_Atomic vbn_time wakes_looked_at; /* descriptor_use() */
	_Atomic bool has_wakes;
	pthread_mutex_t forward_lock;  /* only tried: one thread reads forwarded packets */
	_Atomic vbn_time last_forward; /* when one came last */
	_Atomic vbn_time guarded_at;   /* membership_guard() */
	_Atomic vbn_time shares_begun; /* a second of membership_share() */
	_Atomic uint32_t share_count;  /* in it */
};

void membership_init(struct membership *membership);
void membership_fini(struct membership *membership);
/* In the child of a fork. */
void membership_close_inherited(struct membership *membership);

/* Joins once, starting the helper; what stands in the way is said once, at level info. */
void membership_join(struct engine *engine);
/* NULL: the engine is alone. */
struct host *membership_host(struct engine *engine);
/* A number that this engine may give to a QP, if it has none of that number. */
uint32_t membership_draw_qpn(struct engine *engine);

/* @fd, which is readable when ports_serve() has something to do, is watched as well. */
bool membership_watch_ports(struct engine *engine, int fd);
/* Readable when membership_serve() has something to do; -1: nothing ever comes. */
int membership_descriptor(struct engine *engine, vbn_time now);
/* Answers newcomers, buries peers, takes forwarded packets, looks at ports. True: packets came. */
bool membership_serve(struct engine *engine, struct pass *pass);
/* The same for pollers, who look only while such packets keep coming. */
bool membership_poll(struct engine *engine, struct pass *pass);
bool membership_is_warm(struct engine *engine, vbn_time now);
/* A packet for QP 1: whether it is for the process of another slot. */
bool membership_is_others(struct engine *engine, const struct link_packet *packet, uint32_t *slot);
/* A packet for the process of @slot: true if it went there; false also if that is ours. */
bool membership_forward(struct engine *engine, uint32_t slot, const struct link_packet *packet);

/*
 * A message of the connection manager that nothing tells whose it is, and that is not ours: a copy goes
 * to each other member that may have been asked for a connection. False: there is none, or there
 * were too many such messages lately.
 */
bool membership_share(struct engine *engine, const struct link_packet *packet);
/*
 * Now and then: buries the members next to us that are dead. Whom nobody is connected with is
 * missed by nobody, and what its listeners are sent would stay in its sockets.
 */
void membership_guard(struct engine *engine, vbn_time now);

/*
 * Who the flow goes to: a member of this host or, with no peer, somebody elsewhere.
 * Both with the engine's flows_lock held.
 */
void membership_attach(struct engine *engine, struct engine_flow *flow);
void membership_detach(struct engine *engine, struct engine_flow *flow);
/* A peer is silent: it may have gone in a way that wakes nobody (exec, leaving). */
void membership_suspect(struct engine *engine, struct engine_flow *flow);
/*
 * Brings the limit of @flow up to date when senders came or went. @seen: the caller's, 0 at first.
 */
void membership_refresh(struct engine *engine, struct engine_flow *flow, uint64_t *seen);

#endif
