/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: work requests that stay at home
 *
 * Binding a memory window and invalidating one are work requests, so that they keep their
 * place among the others (IBA 10.8.3.3): what is posted behind them starts after they are
 * executed, and their completions come in the order of the queue.
 *
 *   bind         executed as soon as it is its turn, before what was sent earlier is
 *                acknowledged. With the fence it waits for READs and atomics, like any other.
 *   invalidate   waits until all before it is done. The specification leaves that to an
 *                indicator (local invalidate fence) that verbs do not have.
 *
 * On an unreliable connection both wait until what stands before them was handed to the link.
 *
 * Nothing of them is ever repeated: going back is among packets.
 *
 * A refused one fails with MW_BIND_ERR, which is also what the specification's memory
 * management operation error (IBA 11.6.2) is in verbs.
 */
#include "base/assert.h"
#include "transport/rc.h"

static bool is_first_outstanding(const struct qp *qp)
{
	return qp->requester.unacked_position == qp->send_queue.started;
}

static enum local_result bind(const struct send_wqe *wqe, const struct access *access,
			      struct complaint *complaint)
{
	switch (window_bind(access, &wqe->bind, complaint)) {
	case WINDOW_DONE:
		return LOCAL_DONE;
	case WINDOW_IN_USE:
		return LOCAL_AGAIN;
	case WINDOW_REFUSED:
		return LOCAL_FAILED;
	}
	vbn_assert_failed("a bind has one of three outcomes", __FILE__, __LINE__);
}

enum local_result rc_local_execute(const struct qp *qp, const struct send_wqe *wqe,
				   const struct core *core, struct complaint *complaint)
{
	struct access access = access_of(qp, core);

	if (wqe->opcode == IBV_WR_BIND_MW)
		return bind(wqe, &access, complaint);
	VBN_ASSERT(wqe->opcode == IBV_WR_LOCAL_INV);
	if (!qp_is_uc(qp) && !is_first_outstanding(qp))
		return LOCAL_WAITS;
	if (window_invalidate(&access, wqe->immediate, complaint) != REASON_NONE)
		return LOCAL_FAILED;
	return LOCAL_DONE;
}
