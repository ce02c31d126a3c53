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
 * at once: the program is about to sleep. And while a thread of the program is inside
 * such a call, for as long as that lasts, the helper steps aside. It does so too, once, when the
 * lease ends of a program that polled without a pause: with as many pollers as cores it was the
 * helper, as a rule, who took the poller's core.
 *
 * While a thread of the program blocks on a channel that one does the work (deputy.h), and
 * the helper stands back.
 */
#ifndef VBN_ENGINE_HELPER_H
#define VBN_ENGINE_HELPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/time.h"
#include "engine/sleeper.h"

struct engine;
struct deputy;

enum helper_state { HELPER_ABSENT, HELPER_RUNNING, HELPER_REFUSED };

struct helper {
	pthread_t thread;
	pthread_mutex_t start_lock;
	_Atomic int state; /* enum helper_state */
	_Atomic bool must_stop;
	LIST_ENTRY(helper) next; /* all that run in this process */
	_Atomic pid_t number;	 /* its thread's; 0: it has not run yet */
	struct sleeper sleeper;

	pthread_mutex_t deputy_lock;   /* of changing deputy; a leaf */
	struct deputy *_Atomic deputy; /* NULL: none */
	struct sleeper deputy_sleeper; /* whoever is the deputy */
	_Atomic vbn_time naps_until;   /* 0: does not stand back */
	_Atomic uint64_t deputy_count; /* that ever were */
};

void helper_init(struct helper *helper);
/*
 * Starts the thread if it does not run. Where threads may not be created, progress is
 * made by polling alone; that is said once.
 */
void helper_start(struct engine *engine);
void helper_stop(struct engine *engine);
/* In the child of a fork. */
void helper_close_inherited(struct helper *helper);
/* @deadline was set, or 0: there is a new link. Wakes whoever would oversleep that. */
void helper_notice(struct engine *engine, vbn_time deadline);
/* The program is about to sleep or compute: the lease ends now. */
void helper_take_over(struct engine *engine);

/*
 * Holds all helpers of the process where they sleep, or are about to, until helpers_release();
 * meanwhile none of them starts or ends. False: one of them did not come to rest until @deadline,
 * and none is held. The caller has no lock that a helper may want.
 */
bool helpers_hold(vbn_time deadline);
void helpers_release(void);
/* While they are held: how many there are, and whether @thread is one. */
uint32_t helpers_count(void);
bool helpers_have(pid_t thread);
/* Around fork. In the child there are none. */
void helpers_before_fork(void);
void helpers_after_fork(bool is_child);

#endif
