/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: sleeping without missing anything
 *
 * A sleeper is a thread that does the NIC's work when nobody polls and has nothing to
 * do: the helper, or a thread of the program that blocks on a channel (deputy.h). It
 * sleeps in one ppoll() on the links' descriptors, on a descriptor of its own by which it is
 * woken, and until the next deadline.
 *
 * A lost wake-up would be a hang. The sleeper stores until when it sleeps, then
 * looks for links and deadlines again; whoever adds a link or sets a deadline stores
 * it, then looks until when each sleeper sleeps. All of it sequentially consistent, or under
 * one lock: one of the two sees the other. A lease (helper.h) needs no wake-up for
 * deadlines: the poller serves them, and it ends soon.
 *
 * A link whose packets lie in memory has a descriptor by which the other side wakes who said before that it
 * sleeps: such links are armed for each sleep, and disarmed after it (link.h).
 *
 * The wake-up is a descriptor in a program that is not ours. When the program closed it
 * or put something else in its place nothing is written there, and the sleeper makes a
 * new one when it wakes, after a second at the latest.
 */
#ifndef VBN_ENGINE_SLEEPER_H
#define VBN_ENGINE_SLEEPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/time.h"
#include "link/descriptor.h"

struct engine;
struct deputy;

/* The longest lease. */
#define SLEEPER_LEASE_NS_MAX (1 * VBN_MILLISECOND)
/* How long nobody may be able to wake a sleeper after the program closed its descriptor. */
#define SLEEP_NS_MAX (1 * VBN_SECOND)

struct sleeper {
	pthread_mutex_t wake_lock;     /* of wake; a leaf */
	struct descriptor wake;	       /* an eventfd */
	_Atomic vbn_time looked_at;    /* descriptor_use() */
	_Atomic vbn_time sleeps_until; /* 0: awake, or in a lease */
	_Atomic bool is_leased;	       /* asleep with the links disarmed */
	_Atomic uint64_t armed;	       /* links that know that it waits for them, a bit each */
	pthread_mutex_t awake_lock;    /* the helper has it except in its sleep (helpers_hold()) */
	_Atomic bool is_wanted;	       /* somebody is waiting for that lock: he is first */
	/* The sleeper's own. */
	bool has_worked; /* the last turn brought packets */
	uint64_t lease_ns;
	uint64_t calls_seen; /* how many calls of the program had been, */
	vbn_time seen_at;    /* and when */
};

/* What ended a sleep. */
enum sleep_end {
	SLEEP_IS_OVER,	   /* its time, or somebody woke it */
	SLEEP_HAS_PACKETS, /* a link has something */
	SLEEP_HAS_EVENT,   /* the queue has something */
	SLEEP_INTERRUPTED, /* by a signal */
	SLEEP_DISMISSED,   /* the deputy may not touch the engine any more */
};

void sleeper_init(struct sleeper *sleeper);
void sleeper_fini(struct sleeper *sleeper);
/* Makes the descriptor, if there is none that is ours. */
void sleeper_prepare(struct sleeper *sleeper);
/* Any thread. */
void sleeper_wake(struct sleeper *sleeper);
/* Wakes it if it would oversleep @deadline; 0: in any case, if it sleeps with links armed. */
void sleeper_notice(struct sleeper *sleeper, vbn_time deadline);
/* Sleeps without an eye on links, until it is woken, and @duration_ns at the longest. */
void sleeper_nap(struct sleeper *sleeper, uint64_t duration_ns);
/* It waits no longer, or never again. Its links are told. */
void sleeper_disarm(struct engine *engine, struct sleeper *sleeper);
/*
 * One turn of whoever does the NIC's work: in a lease sits it out, otherwise sleeps
 * until there is something to do and does it. @deputy: whose turn it is, and then an event
 * in its queue ends the turn as well; NULL: the helper's.
 */
enum sleep_end sleeper_turn(struct engine *engine, struct sleeper *sleeper, struct deputy *deputy);

#endif
