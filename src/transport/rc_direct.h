/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: requests that the requester performs itself
 *
 * Where the peer's memory is within reach (memory/reach.h), a WRITE or READ needs no packet: its
 * bytes move, and it is done. It has no PSN, takes part in no window, and the peer's
 * responder never hears of it. So that nobody can tell it from packets by the order of things, it
 * is performed only
 *
 *   when it is its turn to be started (the fence and SQD count as ever), and
 *   when nothing that was started before it is outstanding: all that it could overtake has been
 *   executed and acknowledged, and its completion is the next one.
 *
 * Behind requests of its own kind that had to go by packets, for whatever reason, it waits until they
 * are done, if it would be granted then: a queue that is never empty would otherwise go on by
 * packets for ever. Behind others it is packets too.
 *
 * What is posted behind it starts when it is done. Atomics are performed where the reach can
 * (reach.atomic), exactly once: one of which it cannot be told whether it was executed, because the
 * peer took its memory back in the middle of it, ends its QP as one whose answer never came.
 * WRITEs with immediate data and SENDs are packets always (rc_lent.h tells of long SENDs); so is what is
 * too short to pay (reach.bytes_min), and whatever cannot be done directly, for any reason: the packet is
 * refused or executed as if there were no other way.
 * A message that was begun directly and cannot be ended so is sent as a whole. Bytes of it
 * are then written twice, the last one once.
 *
 * The caller grants a number of bytes for each run of the QP (qp_grant_direct()), so that nobody
 * waits long for the QP's lock and a thread that only wants to post comes back. A longer message
 * moves in several steps; in between it is still the next one to start, with direct_done of its
 * bytes moved, and draining (SQD) waits for it.
 */
#ifndef VBN_TRANSPORT_RC_DIRECT_H
#define VBN_TRANSPORT_RC_DIRECT_H

#include "transport/transport.h"

enum direct_result {
	DIRECT_DONE,
	DIRECT_LATER,	   /* not before more may move, or what is outstanding is done */
	DIRECT_BY_PACKETS, /* it is started like any other */
	DIRECT_SPOILED,	   /* an atomic that may have been executed, and has no result: it failed */
};

/* Of @wqe, the next one to start, whose own memory was checked. */
enum direct_result rc_direct_step(struct qp *qp, struct send_wqe *wqe, const struct core *core);

/* Whether that would do anything but leave it to packets, as far as is known without asking the reach. */
bool rc_direct_may_be(const struct qp *qp, const struct send_wqe *wqe);

/* Whether the next WQE to start is half done. */
static inline bool rc_direct_is_under_way(const struct qp *qp)
{
	return qp->requester.direct_done != 0;
}

#endif
