/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the RC service call in each other. Not for use outside of
 * transport/.
 */
#ifndef VBN_TRANSPORT_RC_H
#define VBN_TRANSPORT_RC_H

#include "transport/transport.h"

/* rc_requester.c: requests, from where the cursor stands, as long as there is room. */
bool rc_requester_output(struct qp *qp, const struct core *core, struct outbox *out);

/* rc_completer.c: an acknowledgement or answer. */
enum reason rc_completer_receive(struct qp *qp, const struct packet *packet,
				 const struct core *core, struct outbox *out);
/* Completions of WQEs that have their outcome; true when the outbox is full. */
bool rc_completer_output(struct qp *qp, const struct core *core, struct outbox *out);
/* Fails the oldest WQE without outcome with @status and moves the QP to ERROR. */
void rc_completer_fail(struct qp *qp, enum ibv_wc_status status,
		       const struct complaint *complaint);

/* rc_retry.c */
/* Next packet to send is @psn, which must be one that was sent before and is not acknowledged. */
void rc_retry_go_back(struct qp *qp, uint32_t psn);
/* Something was sent at core->now; starts the timers that are not running. */
void rc_retry_sent(struct qp *qp, const struct core *core);
/* psn_unacked has moved: counts are full again, timers start anew or stop. */
void rc_retry_progress(struct qp *qp, const struct core *core);
void rc_retry_rnr(struct qp *qp, uint8_t timer_code, const struct core *core);
void rc_retry_deadline(struct qp *qp, const struct core *core, struct outbox *out);
void rc_retry_stop(struct qp *qp);

/* rc_responder.c: a request packet, in whatever order. */
enum reason rc_responder_receive(struct qp *qp, const struct packet *packet,
				 const struct core *core, struct outbox *out);
/* Executes held packets whose turn has come; true when the outbox is full. */
bool rc_responder_run_held(struct qp *qp, const struct core *core, struct outbox *out);
void rc_responder_reset(struct qp *qp, struct hold_pool *holds);
/* The NAK that answers @reason. */
uint8_t rc_responder_syndrome(enum reason reason);

/* rc_replay.c: answers. */
/* Queues an answer in PSN order; false when there is no room. */
bool rc_replay_add(struct rc_responder *responder, const struct response *response);
void rc_replay_save_atomic(struct rc_responder *responder, const struct saved_atomic *saved);
const struct saved_atomic *rc_replay_find_atomic(const struct rc_responder *responder,
						 uint32_t psn);
/* A repeated READ or atomic: restarts the queued answer or queues it anew. */
enum reason rc_replay_duplicate(struct qp *qp, const struct packet *packet,
				const struct core *core);
/* Answers, then the NAK or ACK that is due; true when the outbox is full. */
bool rc_replay_output(struct qp *qp, const struct core *core, struct outbox *out);

/* pacing.c */
bool pacing_may_send(const struct qp *qp, uint32_t cost);
/* How many packets of a READ's answer may be asked for: 0 to @wanted. */
uint32_t pacing_read_packets(const struct qp *qp, uint32_t wanted);
void pacing_charge_outbound(struct qp *qp, int64_t bytes); /* negative: gives back */
void pacing_charge_inbound(struct qp *qp, int64_t bytes);
void pacing_release_all(struct qp *qp);
/* What the packets of @wqe at [@first_psn, @first_psn + @count) cost. */
int64_t pacing_cost(const struct qp *qp, const struct send_wqe *wqe, uint32_t first_psn,
		    uint32_t count);

/* qp_state.c: the one setter of qp->state; asserts that the move is legal. */
void qp_set_state(struct qp *qp, enum ibv_qp_state state);
/* To ERROR because of @complaint: answers queued stay, requests stop, flushing starts. */
void qp_fail(struct qp *qp, const struct complaint *complaint);
/* qp_flush.c: flush completions of both queues; true when the outbox is full. */
bool qp_flush_output(struct qp *qp, struct outbox *out);

#endif
