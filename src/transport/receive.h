/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a message's receive WQE comes from: the QP's own ring, or the SRQ it is attached
 * to. Those who execute messages and those who flush need not know which.
 *
 * At most one WQE is taken at a time. In the QP's own ring it stays the oldest and leaves the
 * ring by its completion; that of an SRQ leaves the SRQ when it is taken, and the QP keeps its
 * slot until then. Not for use outside of transport/.
 */
#ifndef VBN_TRANSPORT_RECEIVE_H
#define VBN_TRANSPORT_RECEIVE_H

#include "transport/outbox.h"
#include "transport/qp.h"
#include "transport/srq.h"

static inline bool receive_ring_has_one(const struct qp *qp)
{
	return qp->recv_queue.done != qp->recv_queue.posted;
}

/* receive_take() where there is an SRQ. */
bool receive_take_shared(struct qp *qp);

/* For a message that begins to need one. False: there is none. */
static inline bool receive_take(struct qp *qp)
{
	return qp->srq ? receive_take_shared(qp) : receive_ring_has_one(qp);
}

/* The one taken; there must be one. */
static inline const struct recv_wqe *receive_taken(const struct qp *qp)
{
	return qp->srq ? srq_wqe_at(qp->srq, qp->srq_slot)
		       : recv_wqe_at(&qp->recv_queue, qp->recv_queue.done);
}

/* Whose keys its list names. */
static inline uint32_t receive_pd(const struct qp *qp)
{
	return qp->srq ? qp->srq->pd : qp->pd;
}

/*
 * Adds the completion of the one taken, which is taken no longer: in success, with nothing
 * else said about the message.
 */
struct completion *receive_complete(struct qp *qp, struct outbox *out);
/* In ERROR: takes the next one that is the QP's to flush. False: all of them are flushed. */
bool receive_take_to_flush(struct qp *qp);
/* The QP is reset or ends: nothing of its receives will complete. */
void receive_forget(struct qp *qp);

#endif
