/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: who blocks, works
 *
 * A thread of the program that blocks in ibv_get_cq_event() waits for a packet. Were the
 * packet taken by the helper, two threads would have to wake up for it, one after the
 * other. So the thread is the helper's deputy meanwhile: it sleeps on the links itself, does
 * the NIC's work, and goes back to the program as soon as its event is there. The helper
 * stands back: it naps, and looks now and then whether there is still a deputy.
 *
 * One deputy at a time; further threads that block wait for their descriptor alone, as
 * they all did before. When the deputy goes it leaves a lease behind (helper.h),
 * since the program will now poll and post; the helper is woken only when it naps for longer
 * than a lease may be. A program that comes back to block within its naps wakes it never.
 *
 *   deputy   stores that it goes, then looks how long the helper naps
 *   helper   stores how long it naps, then looks whether there is a deputy
 *
 * both sequentially consistent: one of the two sees the other.
 *
 * The program may destroy the channel that a thread waits on, and then the engine; the
 * thread would wait for ever on a real NIC. It is dismissed: a deputy that is
 * asleep never touches the engine again, one that is awake is waited for, which is short. It
 * may be cancelled as well, asleep only, and then resigns first.
 */
#ifndef VBN_ENGINE_DEPUTY_H
#define VBN_ENGINE_DEPUTY_H

#include <poll.h>
#include <stdatomic.h>

#include "engine/events.h"

struct engine;

enum deputy_state { DEPUTY_AWAKE, DEPUTY_ASLEEP, DEPUTY_DISMISSED };

/* On the stack of its thread. */
struct deputy {
	struct engine *engine;
	struct event_queue *queue; /* what it waits for */
	_Atomic int state;	   /* enum deputy_state */
	int cancel_state;	   /* of its thread, as the program set it */
};

/*
 * event_queue_pop() for a thread that may work while it waits. Not for callers that hold a lock
 * of the engine. A signal ends the wait with EINTR unless the handlers that the
 * program has installed restart system calls.
 */
int deputy_pop(struct engine *engine, struct event_queue *queue, struct event *event,
	       void (*taken)(const struct event *event));
/* Nobody works for @queue when this returns; it is about to be destroyed. */
void deputy_dismiss(struct engine *engine, struct event_queue *queue);

/*
 * For the sleeper: ppoll() in which the thread may be cancelled. -1 with ECANCELED: it was
 * dismissed, and nothing of the engine may be touched.
 */
int deputy_poll(struct deputy *deputy, struct pollfd *entries, nfds_t count,
		const struct timespec *timeout);

#endif
