/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the RC service call in each other. Not for use outside of
 * transport/.
 */
#ifndef VBN_TRANSPORT_RC_H
#define VBN_TRANSPORT_RC_H

#include "transport/service.h"
#include "transport/transport.h"

/* Packets, hence PSNs, of @length bytes of payload: at least one. */
static inline uint32_t rc_packet_count(const struct qp *qp, uint32_t length)
{
	return length == 0 ? 1 : (length - 1) / qp->path.payload_max + 1;
}

/*
 * rc_requester.c: requests, from where the cursor stands, as long as there is room. True: call
 * qp_output() again, for lack of room or because a WQE has failed and is to be reported.
 */
bool rc_requester_output(struct qp *qp, const struct core *core, struct outbox *out);
/*
 * Whether all that it would do is to start a SEND or WRITE of one packet and send that. Then the second does the same,
 * without a measurement of the round trip: core->now may be some milliseconds old.
 */
bool rc_requester_has_one_packet(const struct qp *qp);
void rc_requester_output_one_packet(struct qp *qp, const struct core *core, struct outbox *out);
/* Performs the next WQE to start without output, if it can be; it has its outcome then, success. */
bool rc_requester_perform(struct qp *qp, const struct core *core);
/*
 * The WQE at ring position @position cannot be sent any further, from @psn on. It is reported
 * with @status when all before it is done; until then nothing from @psn on is sent.
 */
void rc_requester_fail_wqe(struct qp *qp, uint32_t position, uint32_t psn,
			   enum ibv_wc_status status, const struct complaint *complaint);

/* rc_local.c: binds and invalidations; no packet, no PSN. */
enum local_result { LOCAL_DONE, LOCAL_WAITS, LOCAL_AGAIN, LOCAL_FAILED };
/*
 * Executes @wqe, the next one to start. WAITS: for what was posted before it. AGAIN: call
 * qp_output() again. FAILED: @complaint has the reason.
 */
enum local_result rc_local_execute(const struct qp *qp, const struct send_wqe *wqe,
				   const struct core *core, struct complaint *complaint);

/* rc_completer.c: an acknowledgement or answer. What it completes comes out by output. */
enum reason rc_completer_receive(struct qp *qp, const struct packet *packet,
				 const struct core *core);
/*
 * Completions of WQEs that have their outcome, the one that failed included; true when the
 * outbox is full. In ERROR it comes before qp_flush_output(), which flushes from `done` on.
 */
bool rc_completer_output(struct qp *qp, struct outbox *out);
/* The oldest WQE has its outcome, success. True: @completion is for the program. */
bool rc_completer_end_oldest(struct qp *qp, struct completion *completion);
/*
 * The oldest WQE without outcome has failed with @status; the QP goes to ERROR. The completion
 * comes from rc_completer_output().
 */
void rc_completer_fail(struct qp *qp, enum ibv_wc_status status, const struct complaint *complaint);

/* rc_retry.c */
/*
 * Next packet to send is @psn, which must be one that was sent before and is not acknowledged.
 * Nothing happens when the cursor stands there or before it already.
 */
void rc_retry_go_back(struct qp *qp, uint32_t psn);
/*
 * Whether a sequence NAK for @psn is news. The same one within half a round trip is not: it
 * was caused by packets of the wave that is being repeated.
 */
bool rc_retry_nak_is_news(struct qp *qp, uint32_t psn, const struct core *core);
void rc_retry_start_timer(struct qp *qp, const struct core *core);
void rc_retry_start_probe(struct qp *qp, const struct core *core);
/* Something was sent at core->now; starts the timers that are not running. */
static inline void rc_retry_sent(struct qp *qp, const struct core *core)
{
	if (qp->requester.retry_deadline == VBN_TIME_NEVER)
		rc_retry_start_timer(qp, core);
	if (qp->requester.probe_deadline == VBN_TIME_NEVER && !qp->path.is_lossless)
		rc_retry_start_probe(qp, core);
}
/* psn_unacked has moved: counts are full again, timers start anew or stop. */
void rc_retry_progress(struct qp *qp, const struct core *core);
void rc_retry_rnr(struct qp *qp, uint8_t timer_code, const struct core *core);
/* Acts on those of the three deadlines that have passed; what it decides is sent by output. */
void rc_retry_deadline(struct qp *qp, const struct core *core);
void rc_retry_stop(struct qp *qp);

/*
 * rc_responder.c: a request packet, in whatever order. NONE: executed, held or queued;
 * otherwise why it was dropped or, for a packet that was executed and refused, what it did wrong.
 */
enum reason rc_responder_receive(struct qp *qp, const struct packet *packet,
				 const struct core *core, struct outbox *out);
/*
 * Executes held packets whose turn has come; true when the outbox is full. In ERROR it
 * gives them back to the pool.
 */
bool rc_responder_run_held(struct qp *qp, const struct core *core, struct outbox *out);
/* As at RTR: everything forgotten, psn_expected is attr.rq_psn. @holds may be NULL at first. */
void rc_responder_reset(struct qp *qp, struct hold_pool *holds);
/* The program moved the QP to ERROR: nothing more is answered, held packets are given back. */
void rc_responder_stop(struct qp *qp, struct hold_pool *holds);

/* rc_execute.c: checks and executes the packet whose turn it is; needs room for a completion. */
enum reason rc_execute(struct qp *qp, const struct packet *packet, const struct core *core,
		       struct outbox *out);

/* The same for UC, where nothing is answered: what is refused is the caller's to judge. */
enum reason rc_execute_uc(struct qp *qp, const struct packet *packet, const struct core *core,
			  struct outbox *out, struct complaint *complaint);

/* rc_refuse.c */
/* The NAK that answers @reason; an RNR NAK without its timer. Fails on reasons that have none. */
uint8_t rc_responder_syndrome(enum reason reason);
/* A NAK for @psn takes the place of any other that did not leave yet. */
void rc_refuse_nak(struct rc_responder *responder, uint8_t syndrome, uint32_t psn);
/* NAKs @psn for good: the QP goes to ERROR (unless it is there) because of @complaint. */
void rc_refuse_fatal(struct qp *qp, uint8_t syndrome, uint32_t psn,
		     const struct complaint *complaint);
/* The asynchronous event for a NAK that no receive completion reports. */
void rc_refuse_event(struct rc_responder *responder, uint8_t syndrome);

/* rc_replay.c: answers. */
/* The answer to a READ request or atomic, none of it sent yet. */
struct response rc_replay_read_response(const struct qp *qp, const struct packet *request);
struct response rc_replay_atomic_response(const struct saved_atomic *saved);
/* Queues an answer in PSN order; false when there is no room. */
bool rc_replay_add(struct rc_responder *responder, const struct response *response);
/* How many queued answers are repeats, or are not. */
uint32_t rc_replay_count(const struct rc_responder *responder, bool is_repeat);
void rc_replay_save_atomic(struct rc_responder *responder, const struct saved_atomic *saved);
const struct saved_atomic *rc_replay_find_atomic(const struct rc_responder *responder,
						 uint32_t psn);
/* A repeated READ or atomic: queues its answer in place of what it asks for again. */
enum reason rc_replay_duplicate(struct qp *qp, const struct packet *packet,
				const struct core *core);
/*
 * The payload of the READ response at @psn cannot be had: a NAK there, the answers
 * behind it are discarded, the QP goes to ERROR.
 */
void rc_replay_failed(struct qp *qp, uint32_t psn, const struct complaint *complaint);
/* No acknowledgement is owed any more. */
void rc_replay_forget_ack(struct rc_responder *responder);
/* Events, answers, then the NAK or ACK that is due; true when the outbox is full. */
bool rc_replay_output(struct qp *qp, const struct core *core, struct outbox *out);
/* If the packet behind the ACK at @ack_index of @out is a WRITE as a whole, they change places. */
void rc_replay_let_write_lead(struct outbox *out, uint32_t ack_index);

/* pacing.c, and here what is asked for every packet. */
static inline bool pacing_may_send(const struct qp *qp, uint32_t cost)
{
	return qp->requester.outbound_charged == 0 || flow_has_room(qp->path.outbound, cost);
}
/* How many packets of a READ's answer may be asked for: 0 to @wanted. */
uint32_t pacing_read_packets(const struct qp *qp, uint32_t wanted);
/*
 * The PSNs [@from, @to) come to be under way, or are so no longer. @position is the ring
 * position of the WQE that contains @from; all PSNs must belong to started WQEs.
 */
void pacing_charge(struct qp *qp, uint32_t position, uint32_t from, uint32_t to);
/* The same of a single packet of a SEND or WRITE, which costs @cost. */
static inline void pacing_charge_packet(struct qp *qp, uint32_t cost)
{
	qp->requester.outbound_charged += cost;
	flow_add(qp->path.outbound, cost);
}
void pacing_give_back(struct qp *qp, uint32_t position, uint32_t from, uint32_t to);
/* Everything at once, whatever is under way (error, reset). */
void pacing_release_all(struct qp *qp);
/* What the packets of @wqe at [@first_psn, @first_psn + @count) cost: requests, or answers. */
int64_t pacing_cost(const struct qp *qp, const struct send_wqe *wqe, uint32_t first_psn,
		    uint32_t count);

#endif
