/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair: the struct, nothing else. What happens to it is in
 *
 *   qp_state.c      RESET ... ERROR: attributes, legal moves, the one setter
 *   rc_requester.c  work request to packets
 *   rc_local.c      binds and invalidations, which have no packets
 *   rc_direct.c     requests performed in the peer's memory
 *   rc_lent.c       long SENDs whose payload the responder fetches
 *   message_packet.c  what a packet of a SEND or WRITE carries
 *   rc_completer.c  acknowledgements, NAKs, READ and atomic answers
 *   rc_retry.c      timeouts, RNR waits, going back, probes
 *   rc_responder.c  request packets: their order, gaps, repeats
 *   rc_execute.c    the check pipeline and execution
 *   rc_refuse.c     NAKs and what goes with them
 *   rc_replay.c     answers queued and saved: READ streaming, atomic results
 *   pacing.c        what may be under way
 *   flow_pace.c     when packets leave that nobody acknowledges
 *   uc_send.c       messages out that nobody acknowledges
 *   uc_receive.c    messages in that nobody repeats
 *   ud_send.c       datagrams out: of the parts below UD uses the queues and psn_next alone
 *   ud_receive.c    datagrams in
 *   receive.c       where receive WQEs come from: the QP's own ring or an SRQ (srq.c)
 *   counting.c      what is counted at the seam
 *   rest.c          when output has nothing to do, or one packet is all
 *
 * All fields are guarded by the lock of the QP, which belongs to the engine,
 * except where a comment says otherwise.
 */
#ifndef VBN_TRANSPORT_QP_H
#define VBN_TRANSPORT_QP_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/qp_counters.h"
#include "base/reason.h"
#include "base/time.h"
#include "memory/reach.h"
#include "transport/flow.h"
#include "transport/hold.h"
#include "transport/work_queue.h"

/* READs and atomics outstanding: the device's limit, each direction. */
#define QP_RD_ATOMIC_MAX 16
/* A requester asks for at most so many bytes by one READ request packet. */
#define READ_REQUEST_BYTES_MAX 65536
/* READ answers may arrive so many packets ahead of the oldest one missing. */
#define ANSWER_WINDOW 64
#define MESSAGE_BYTES_MAX 0x80000000u
/*
 * So many bytes are moved directly by one run of a QP: 12 to 100 us by the processors of today, beside which
 * what comes between two steps costs little.
 */
#define DIRECT_STEP_BYTES (1u << 20)

/* What the link of the connection promises; set by the engine before RTR. */
struct path {
	uint32_t payload_max;  /* bytes of payload in one packet: the path MTU on udp */
	bool is_lossless;      /* no retry timer, no probe */
	struct flow *outbound; /* requests towards the peer; NULL only for datagrams */
	struct flow *inbound;  /* READ answers towards us; NULL only for datagrams */
	struct reach *reach;   /* into the peer's memory; NULL: there is none. Outlives the path. */
};

/*
 * A READ request packet or an atomic whose answer is not complete. It is kept when the
 * requester goes back, so that the request is repeated within the same bounds: one that
 * joined two of the old ones might straddle what the peer has executed.
 */
struct read_outstanding {
	uint32_t first_psn;
	uint32_t psn_count;
};

/* Written by rc_requester.c, rc_completer.c, rc_retry.c. */
struct rc_requester {
	uint32_t psn_next;	   /* PSN of the next packet that was never sent */
	uint32_t psn_unacked;	   /* oldest PSN without acknowledgement or answer */
	uint32_t unacked_position; /* its WQE; == started: all that were started are done */
	uint32_t psn_acked;	   /* all before it was acknowledged (answers may be missing) */
	uint32_t send_position;	   /* WQE of the next packet to send; == started: a new one */
	uint32_t send_psn; /* next packet to send: psn_next, or before it after going back */
	uint64_t answered; /* bit i: the answer at psn_unacked + i has been placed */

	struct read_outstanding reads[QP_RD_ATOMIC_MAX]; /* oldest first */
	uint32_t read_count;

	uint32_t packets_since_ack_request;
	int64_t outbound_charged; /* our part of path.outbound */
	int64_t inbound_charged;  /* our part of path.inbound */

	uint8_t retries_left;
	uint8_t rnr_retries_left;
	bool in_recovery; /* a loss was inferred and acted on; no second time before progress */
	uint32_t nak_psn; /* of the last sequence NAK that was acted on */
	vbn_time nak_quiet_until; /* the same NAK again before it is an echo */

	vbn_time retry_deadline; /* local ACK timeout; NEVER when nothing is under way */
	vbn_time retry_served;	 /* what the peer showed when that timer started (flow.h) */
	vbn_time rnr_deadline;	 /* nothing is sent before it; NEVER: no RNR wait */
	vbn_time probe_deadline; /* tail probe */
	uint32_t probe_count;	 /* since the last progress */
	bool probe_is_due;	 /* the last packet is to be sent again */

	/* Round-trip estimate from one timed packet at a time. */
	bool rtt_is_timing;
	uint32_t rtt_psn;
	vbn_time rtt_sent;
	uint64_t rtt_ns; /* smoothed; 0: none yet */
	uint64_t rtt_deviation_ns;

	bool drain_is_reported; /* SQ_DRAINED was raised for this stay in SQD */

	uint32_t direct_done; /* rc_direct.c: bytes of the next WQE to start that have moved */
	bool lends_nothing;   /* rc_lent.c: the peer has refused what was lent */
};

enum response_kind { RESPONSE_READ, RESPONSE_ATOMIC };

/* An answer on its way: a READ being streamed, or an atomic result. */
struct response {
	enum response_kind kind;
	uint32_t first_psn;
	uint32_t psn_count;
	uint32_t sent_count; /* packets handed out so far */
	uint32_t rkey;	     /* READ */
	uint32_t length;     /* READ */
	uint64_t iova;	     /* READ */
	uint32_t pd;	     /* READ: of the key */
	uint64_t original;   /* ATOMIC, host order */
	uint32_t msn;	     /* ATOMIC: as first answered */
	bool is_repeat;	     /* asked for again: does not count against max_dest_rd_atomic */
	bool was_sent;	     /* all of it has left before */
};

struct saved_atomic {
	uint32_t psn;
	uint32_t msn;
	uint64_t original;
};

enum responder_message { MESSAGE_NONE, MESSAGE_SEND, MESSAGE_WRITE };

/* Written by rc_responder.c, rc_execute.c, rc_refuse.c and rc_replay.c. */
struct rc_responder {
	uint32_t psn_expected;
	uint32_t ack_psn; /* last SEND or WRITE packet executed; an ACK bears no other PSN */
	uint32_t msn;	  /* completed messages */

	/* The message whose FIRST came and whose LAST did not. */
	enum responder_message message;
	uint64_t received;   /* bytes of it */
	uint32_t write_rkey; /* WRITE */
	uint64_t write_iova; /* WRITE: of the next byte */
	uint32_t write_left; /* WRITE: bytes still to come */

	/* Sequence NAK or RNR NAK given for psn_expected; quiet until it comes, or
	 * until PSNs run backwards, which is a new wave that lost its head. */
	bool nak_is_given;
	uint32_t gap_last_psn; /* highest PSN seen behind the gap in this wave */

	/* What goes out behind all queued answers. */
	bool ack_is_due;
	bool ack_is_urgent;	 /* the peer may be waiting for it: it is not held */
	bool ack_is_held;	 /* due, and the program's next call may take it along */
	vbn_time ack_held_until; /* while it is held */
	bool nak_is_due;
	uint8_t nak_syndrome;
	uint32_t nak_psn;

	struct response responses[2 * QP_RD_ATOMIC_MAX]; /* by PSN; half of them for repeats */
	uint32_t response_count;
	struct saved_atomic atomics[QP_RD_ATOMIC_MAX]; /* ring of the last ones */
	uint32_t atomic_count; /* saved; past the ring's first round it stays in the second */

	uint16_t held[HOLD_WINDOW]; /* ring by PSN: buffer of the pool, or HOLD_NONE */
	uint32_t held_count;

	bool has_heard;	   /* COMM_EST was raised */
	bool event_is_due; /* the QP failed; the program is told by the next output */
	enum ibv_event_type event;
};

struct srq;
struct xrc_domain;

struct qp {
	/* Fixed at creation. */
	uint32_t number;
	uint32_t pd;
	enum ibv_qp_type type;
	bool signals_all;     /* sq_sig_all */
	uint64_t incarnation; /* whose a type 2 window is; no other QP ever has it. Set before use. */
	struct ibv_qp_cap cap;
	struct qp_counters *counters; /* never NULL; see qp_count_in() */
	struct srq *srq; /* NULL: receives come from recv_queue; else that has a limit of 0 */
	struct xrc_domain *xrc; /* of an XRC_RECV QP: srq is that of the WQE taken, or NULL */

	/* Written by qp_state.c. */
	enum ibv_qp_state state;
	struct ibv_qp_attr attr; /* what modify stored and query returns */
	struct path path;
	uint32_t access; /* IBV_ACCESS_REMOTE_* of the QP */
	bool wants_drained_event;

	struct work_queue send_queue;
	struct work_queue recv_queue;
	uint32_t srq_slot;	/* of the WQE taken from the SRQ, or SRQ_NO_SLOT */
	bool last_wqe_is_told;	/* LAST_WQE_REACHED was raised for this stay in ERR */
	bool has_flushed_sends; /* no send may complete in another way any more */

	struct rc_requester requester;
	/* rc_direct.c: bytes that may still be moved directly, and whether it waits for more. */
	uint32_t direct_left;
	bool wants_direct;
	/* Written by uc_send.c, which of the requester uses the cursor alone. */
	vbn_time uc_again_at; /* when a packet that had to wait may leave; NEVER: none has to */
	struct rc_responder responder;

	/* Why the QP went to ERROR, kept for those who only see flushes. */
	struct complaint first_complaint;

	struct qp_counters own_counters; /* where nobody gave others */
};

/* Of the UC service: connected, and the peer says nothing of what it got. */
static inline bool qp_is_uc(const struct qp *qp)
{
	return qp->type == IBV_QPT_UC;
}

/* Of the UD service: each request names its peer, and whoever knows the Q_Key is heard. */
static inline bool qp_is_datagram(const struct qp *qp)
{
	return qp->type == IBV_QPT_UD;
}

/* Nobody acknowledges what it sends, nor does it what it gets. */
static inline bool qp_is_unreliable(const struct qp *qp)
{
	return qp_is_datagram(qp) || qp_is_uc(qp);
}

#endif
