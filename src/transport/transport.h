/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam of the transport
 *
 * In: work requests, parsed packets, passed deadlines, state changes. Out: an
 * outbox of packets, completions and events, and the next deadline. Nothing here
 * makes a system call, reads a clock, allocates or blocks.
 *
 * A caller takes events in (qp_receive, qp_deadline, posting, qp_modify; many if
 * it likes) and then calls qp_output() until it returns false, emptying the
 * outbox each time: packets are copied out while the QP's lock is held, then
 * completions go to their CQs. The same lock guards every call on one QP.
 */
#ifndef VBN_TRANSPORT_TRANSPORT_H
#define VBN_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/reason.h"
#include "base/time.h"
#include "memory/memory.h"
#include "transport/hold.h"
#include "transport/outbox.h"
#include "transport/qp.h"
#include "wire/lent.h"
#include "wire/packet.h"

/* Where a packet came from, for QPs that hear anybody. */
struct datagram_source {
	uint8_t header[GRH_BYTES]; /* goes in front of the payload (ud_receive.c) */
	bool has_header;	   /* it says something; otherwise the LID does */
	uint16_t lid;		   /* 0 where there are none */
};

/* What surrounds a call: the time, the memory, the way to copy, the hold pool. */
struct core {
	vbn_time now;
	const struct memory *memory;
	const struct copier *copier;
	struct hold_pool *holds;
	/*
	 * The program hears of a message, or sees it, now and may answer: an ACK may wait for that.
	 */
	bool may_hold_ack;
	/* Of the packet that qp_receive() takes in; a UD QP needs it, others do not look at it. */
	const struct datagram_source *source;
	/* How many datagrams qp_output() may hand out, where they are paced. */
	bool paces_datagrams;
	uint32_t datagrams_max;
};

/* So long may an ACK be held. */
#define ACK_HOLD_NS (25 * VBN_MICROSECOND)

/* --- life (qp_create.c) --- */

/*
 * Bytes of a QP with @cap, or 0 when a value is beyond what this code can do.
 * Device limits are the caller's to check.
 */
size_t qp_bytes(const struct ibv_qp_cap *cap);
/*
 * Makes a QP in RESET in @memory, qp_bytes() zeroed bytes aligned to 64. @cap is
 * granted exactly as given. RC and UD: other types are the caller's to refuse.
 */
struct qp *qp_init(void *memory, const struct ibv_qp_cap *cap, enum ibv_qp_type type,
		   uint32_t number, uint32_t pd, bool signals_all);
/*
 * Counts in @counters instead of memory of the QP's own. It is the caller's, of any value, and
 * stays until the QP's last call. Before the first packet.
 */
void qp_count_in(struct qp *qp, struct qp_counters *counters);
/*
 * Receives come from @srq, which outlives the QP; max_recv_wr must be 0. Before the first
 * packet. The calls that then touch the SRQ, and need its lock as well, are qp_receive(),
 * qp_output(), qp_modify() and qp_fini(); its event is for the caller to take after them.
 */
void qp_attach_srq(struct qp *qp, struct srq *srq);
/* For an XRC_RECV QP: the same, for all SRQs of @domain, which one lock guards. */
void qp_attach_xrc(struct qp *qp, struct xrc_domain *domain);
/*
 * Gives back what the QP holds of the pool, of flows and of an SRQ. The memory stays the caller's.
 */
void qp_fini(struct qp *qp, struct hold_pool *holds);

/* --- states (qp_state.c) --- */

struct qp_limits {
	uint32_t port_count, pkey_count, gid_count;
	enum ibv_mtu active_mtu;
	uint8_t rd_atomic_max; /* each direction */
	bool is_infiniband;    /* LIDs instead of a GRH are enough */
};

/*
 * Checks a modify_qp against the transition table: legal move, required and
 * allowed attributes, values in range. 0 or EINVAL; @complaint_text (may be NULL)
 * is set to a static sentence that names the attribute and the rule.
 */
int qp_modify_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask,
		    const struct qp_limits *limits, const char **complaint_text);
/* The part of it that is about an address vector: NULL, or what is wrong with it. */
const char *qp_address_check(const struct ibv_ah_attr *ah, const struct qp_limits *limits);
/*
 * Does what qp_modify_check() allowed. At RTR the caller passes the @path of the connection
 * (otherwise NULL; for UD it says only what fits a packet). Moving to ERROR starts flushing, to
 * RESET forgets all.
 */
void qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask, const struct path *path,
	       const struct core *core);
/* Fills @attr as ibv_query_qp does (all of it, whatever was asked). */
void qp_query(const struct qp *qp, struct ibv_qp_attr *attr);

/* --- posting (post_send.c, post_recv.c) --- */

/*
 * Appends one work request. Returns 0 or a positive errno: EINVAL (state, opcode,
 * too many SGEs or inline bytes, message too long), EOPNOTSUPP (an operation that
 * this device does not offer), ENOMEM (queue full); nothing is appended then.
 * @complaint (may be NULL) tells why. Inline data are copied here by @copier; a fault
 * there is EFAULT.
 */
int qp_post_send(struct qp *qp, const struct ibv_send_wr *wr, const struct copier *copier,
		 struct complaint *complaint);
/* IBV_WR_BIND_MW of a type 1 window, which qp_post_send() refuses. */
int qp_post_bind_type_1(struct qp *qp, const struct ibv_send_wr *wr, struct complaint *complaint);
/* Takes back the last @count requests; qp_output() has not run since they were posted. */
void qp_unpost_sends(struct qp *qp, uint32_t count);
int qp_post_recv(struct qp *qp, const struct ibv_recv_wr *wr, struct complaint *complaint);

/* --- events --- */

/*
 * Takes in one packet that passed parsing and whose source, for a connected QP, was checked.
 * Returns REASON_NONE or why it was ignored (a DROP_ reason, for the counters). For a UC or UD QP
 * @out must have room for a completion; others come to terms with a full one.
 */
enum reason qp_receive(struct qp *qp, const struct packet *packet, const struct core *core,
		       struct outbox *out);
/* Acts on deadlines at or before core->now. */
void qp_deadline(struct qp *qp, const struct core *core);
vbn_time qp_next_deadline(const struct qp *qp);
/*
 * When an ACK that is held leaves at the latest, by qp_output() without core.may_hold_ack; NEVER:
 * none is held. Sooner is better, as soon as the program turns out not to answer.
 */
vbn_time qp_ack_deadline(const struct qp *qp);
/* Whether an ACK is held or due, and qp_output() has something to send. */
bool qp_owes_ack(const struct qp *qp);
/*
 * True: all that qp_output() could find to do now is to send or hold the ACK that is owed, if one
 * is, and no deadline came nearer since it ran last. False says nothing.
 */
bool qp_rests(const struct qp *qp);
/*
 * What qp_output() does about the ACK that is owed where core.may_hold_ack is set. False: it is not
 * to be held, or no longer, and qp_output() sends it.
 */
bool qp_hold_ack(struct qp *qp, const struct core *core);

/*
 * So many bytes, DIRECT_STEP_BYTES usually, may be moved in the peer's memory (path.reach) by the
 * calls of qp_output() that follow. Afterwards, whether there is more to move than that.
 */
void qp_grant_direct(struct qp *qp, uint32_t bytes);
bool qp_wants_direct(const struct qp *qp);

/*
 * The short way for what was just posted: performs the oldest request that was not started, if
 * nothing is under way and it needs no packet (rc_direct.h), within what was granted. True: that
 * was done, with success; then *@is_signalled says whether @completion is for the program. False:
 * nothing was; qp_output() does what is to be done.
 */
bool qp_perform(struct qp *qp, const struct core *core, struct completion *completion,
		bool *is_signalled);
/* Nothing that was posted waits to be started. */
static inline bool qp_has_started_all(const struct qp *qp)
{
	return qp->send_queue.started == qp->send_queue.posted;
}

/*
 * Fills @out with what there is to send, complete and tell. True: it stopped for
 * lack of room and is to be called again with an emptied outbox.
 */
bool qp_output(struct qp *qp, const struct core *core, struct outbox *out);

/*
 * The same cut short, for what was just posted. Whether all that qp_output() would do is to send the one packet
 * of a SEND or WRITE, and before it the ACK that is owed, if one is; then the second puts these into @out, which has
 * room. core->now may be some milliseconds old, and core->may_hold_ack is not set.
 */
bool qp_has_one_packet(const struct qp *qp);
void qp_output_one_packet(struct qp *qp, const struct core *core, struct outbox *out);

/*
 * Copies the payload of @packet to @bytes. Anything but NONE: the packet must not
 * be sent, and qp_payload_failed() is called with the same values. True: that was all, for
 * nobody may need the packet. False: it failed the
 * WQE, or for a READ response answers with a NAK, and later packets of this
 * outbox for the same message are stale: the caller drops the rest of the outbox's packets
 * and calls qp_output() once more, whatever it returned before.
 */
enum reason payload_copy(const struct qp *qp, const struct packet_out *packet,
			 const struct core *core, uint8_t *bytes, struct complaint *complaint);
/* The same for PAYLOAD_LENT: @lent becomes what goes out in place of the payload. */
enum reason payload_lend(const struct qp *qp, const struct packet_out *packet,
			 const struct core *core, struct lent_payload *lent,
			 struct complaint *complaint);
bool qp_payload_failed(struct qp *qp, const struct packet_out *packet,
		       const struct complaint *complaint, const struct core *core);

#endif
