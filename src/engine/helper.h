/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: who does the NIC's work
 *
 * Whoever polls, works: polling and posting run the engine inline. When nobody
 * does, one helper thread works, so that a program that sleeps, computes or blocks on
 * a channel still answers its peers.
 *
 * Polling is a lease. Every verbs call that does the NIC's work stores the time.
 * While the lease runs the helper sleeps with the links disarmed, so that it does
 * not compete with the poller for each packet. When the lease ends without a new
 * poll it arms the links, looks once more, and sleeps on their descriptors. A
 * lease is short at first, so that a target that stops calling verbs is served soon; it
 * doubles, up to a bound, while polls keep coming. Arming a channel ends it
 * at once: the program is about to sleep.
 *
 * A lost wake-up would be a hang. The sleeper stores until when it sleeps, then
 * looks for links and deadlines again; whoever adds a link or sets a deadline stores
 * it, then looks until when the helper sleeps. All of it sequentially consistent, or under
 * one lock: one of the two sees the other. A lease needs no wake-up for deadlines: the
 * poller serves them, and it ends soon.
 *
 * The wake-up is a descriptor in a program that is not ours. When the program closed it
 * or put something else in its place nothing is written there, and the helper makes a
 * new one when it wakes, after a second at the latest.
 */
#ifndef VBN_ENGINE_HELPER_H
#define VBN_ENGINE_HELPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/time.h"
#include "link/descriptor.h"

struct engine;

enum helper_state { HELPER_ABSENT, HELPER_RUNNING, HELPER_REFUSED };

struct helper {
	pthread_t thread;
	pthread_mutex_t start_lock;
	_Atomic int state; /* enum helper_state */
	_Atomic bool must_stop;
	pthread_mutex_t wake_lock;     /* of wake; a leaf */
	struct descriptor wake;	       /* an eventfd */
	_Atomic vbn_time sleeps_until; /* 0: awake, or in a lease */
	_Atomic bool is_leased;	       /* asleep with the links disarmed */
	uint64_t lease_ns;	       /* the helper's own */
};

void helper_init(struct helper *helper);
/*
 * Starts the thread if it does not run. Where threads may not be created, progress is
 * made by polling alone; that is said once.
 */
void helper_start(struct engine *engine);
void helper_stop(struct engine *engine);
/* @deadline was set, or 0: there is a new link. Wakes the helper if it would oversleep that. */
void helper_notice(struct engine *engine, vbn_time deadline);
/* The program is about to sleep or compute: the lease ends now. */
void helper_take_over(struct engine *engine);

#endif
