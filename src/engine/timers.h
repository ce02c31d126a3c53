/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines of QPs: a binary heap, so that an engine with ten thousand idle QPs
 * looks at one number. The lock is a leaf. A timer is set by whoever holds its QP's
 * lock; it fires by being popped, then its owner looks at the QP again.
 */
#ifndef VBN_ENGINE_TIMERS_H
#define VBN_ENGINE_TIMERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "link/brief_lock.h"

struct timer {
	vbn_time deadline;
	_Atomic uint32_t index; /* in the heap + 1; 0: not set. Written under the lock */
};

struct timers {
	struct brief_lock lock;
	struct timer **heap;
	uint32_t count, capacity;
	_Atomic vbn_time next; /* of the earliest; NEVER when empty */
};

void timers_init(struct timers *timers);
void timers_fini(struct timers *timers);
/* Room for one more timer; called when a QP is made. False: out of memory. */
bool timers_reserve(struct timers *timers, uint32_t count);
/*
 * Without the lock. True may be late: it is being popped. False is sure for the one who sets it,
 * but does not mean that the one who popped it is done with its owner.
 */
static inline bool timer_is_set(const struct timer *timer)
{
	return atomic_load_explicit(&timer->index, memory_order_relaxed) != 0;
}
/*
 * The timer fires at @deadline or before: one that is set for an earlier time stays, and its owner,
 * looked at too soon, sets it anew. That is rare, and deadlines mostly move on. True: it was set.
 */
bool timers_set_at_latest(struct timers *timers, struct timer *timer, vbn_time deadline);
/* NEVER unsets it. After this nobody who pops it still looks at its owner without a pin. */
void timers_set(struct timers *timers, struct timer *timer, vbn_time deadline);
/*
 * A timer whose deadline is at or before @now, taken out, or NULL. @pin is called on it under
 * the timers' lock, so that its owner cannot vanish in between.
 */
struct timer *timers_pop(struct timers *timers, vbn_time now, bool (*pin)(struct timer *timer));

/* Sequentially consistent with what the caller stored before (helper.h). */
static inline vbn_time timers_next(const struct timers *timers)
{
	return atomic_load(&timers->next);
}

#endif
