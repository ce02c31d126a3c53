/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of more than one service call in the QP that they share. Not for use outside
 * of transport/.
 */
#ifndef VBN_TRANSPORT_SERVICE_H
#define VBN_TRANSPORT_SERVICE_H

#include "transport/transport.h"

/* Full member of the default partition: the P_Key of every packet. */
#define PKEY_DEFAULT 0xffffu

/* By whom memory is asked for. */
static inline struct access access_of(const struct qp *qp, const struct core *core)
{
	return (struct access){.memory = core->memory,
			       .copier = core->copier,
			       .pd = qp->pd,
			       .owner = qp->incarnation};
}

/*
 * qp_state.c: the one setter of qp->state; asserts that the move is legal. To SQE goes only
 * qp_fail_sends().
 */
void qp_set_state(struct qp *qp, enum ibv_qp_state state);
/* To ERROR because of @complaint: answers queued stay, requests stop, flushing starts. */
void qp_fail(struct qp *qp, const struct complaint *complaint);
/* To SQE because of @complaint: sends are flushed, receiving goes on. Not for RC. */
void qp_fail_sends(struct qp *qp, const struct complaint *complaint);
/* In SQD, with everything finished that was started: tells the program once, if it asked. */
void qp_report_drained(struct qp *qp, struct outbox *out);

/*
 * send_complete.c: @wqe has failed and says so when its turn to complete comes. What was found out
 * about it earlier stands.
 */
void send_fail(const struct qp *qp, struct send_wqe *wqe, enum ibv_wc_status status,
	       const struct complaint *complaint);
/*
 * The completion of @wqe, the oldest of the send queue: its failure if it has
 * failed, else success. It stays in the queue.
 */
void send_complete(const struct qp *qp, const struct send_wqe *wqe, struct outbox *out);

/* qp_flush.c: flush completions of both queues, or of sends alone; true when the outbox is full. */
bool qp_flush_output(struct qp *qp, struct outbox *out);
bool qp_flush_sends(struct qp *qp, struct outbox *out);

#endif
