/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: acknowledgements that wait for the program's answer
 *
 * A QP that holds one (qp_hold_ack()) has a place here, so that the acknowledgement leaves in time if the
 * program does not answer: pollers send all of them, whoever sleeps those whose time is over. In
 * most cases the answer takes it along within a microsecond, so what counts is that a
 * place is taken and given back by one instruction that others notice, with no lock and no order by
 * time. There are HELD_ACKS places; who finds none sends at once.
 *
 * A place is the QP's from its bit in `used` on. Only who holds the QP's lock takes it for the QP, fills it in,
 * and gives it back. Whoever serves finds a number in it, pins the QP by that, locks it, and only then
 * sees whether the place is still that QP's. A bit without a number is a place that is just being
 * taken: its time counts as over, so that a sleeper does not overlook it.
 *
 * No wake-up is lost: the bit is set before the caller looks until when sleepers sleep (helper_notice()), and
 * they say that before they look at the bits.
 */
#ifndef VBN_ENGINE_HELD_ACKS_H
#define VBN_ENGINE_HELD_ACKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

struct engine;
struct engine_qp;
struct pass;

#define HELD_ACKS 64

struct held_acks {
	_Atomic uint64_t used; /* a bit for each place */
	struct held_ack {
		_Atomic uint32_t qpn; /* 0: not filled in yet */
		_Atomic vbn_time until;
	} places[HELD_ACKS];
};

/* Whether there are any, which is seldom. */
static inline bool held_acks_any(const struct held_acks *acks)
{
	return atomic_load_explicit(&acks->used, memory_order_relaxed) != 0;
}
/*
 * The QP's acknowledgement is held until @until; NEVER: it holds none any more. Its lock is held.
 * False: there is no place, and the caller has to send it.
 */
bool held_acks_set(struct engine_qp *qp, vbn_time until);
/* When the first one must leave. Sequentially consistent with what the caller stored before (helper.h). */
vbn_time held_acks_next(const struct held_acks *acks);
/* Sends those that may not be held longer than until @horizon. Whose QP is locked is left out unless @may_wait. */
void held_acks_serve(struct engine *engine, struct pass *pass, vbn_time horizon, bool may_wait);

#endif
