/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: connections between queue pairs (IBA chapter 12)
 *
 * Two programs that want to connect their QPs exchange datagrams from QP 1 to QP 1:
 *
 *	active	REQ ->		<- REP		RTU ->	   (each with private data)
 *	passive
 *
 * and to part again DREQ and DREP. Datagrams get lost, repeated and reordered, either side may
 * vanish or forget everything at any moment, and still each side is told exactly once how it
 * ended. This layer decides all of it. It stores no time and sends nothing: messages and
 * events leave in a struct cm_out, and the caller asks for the next deadline.
 *
 * An agent is all connections of one process. A connection is memory of the caller that the
 * agent keeps in its tables: by local communication id, by the peer's id and address, by the
 * peer's QP. Its states, and what leads from one to the other:
 *
 *	active	 IDLE -connect-> REQ_SENT -REP-> REP_RCVD -confirm-> ESTABLISHED
 *	passive	 IDLE -REQ-> REQ_RCVD -accept-> REP_SENT -RTU-> ESTABLISHED
 *	both	 ESTABLISHED -disconnect-> DREQ_SENT -DREP-> TIMEWAIT -time-> CLOSED
 *		 ESTABLISHED -DREQ, answered by DREP-> TIMEWAIT
 *	refusal	 REQ_RCVD -reject-> REFUSED -time-> CLOSED
 *	UD	 IDLE -query-> SIDR_SENT -SIDR_REP-> CLOSED
 *		 IDLE -SIDR_REQ-> SIDR_RCVD -answer-> REFUSED (lingers the same way) -time-> CLOSED
 *
 * Who waits repeats. REQ, REP, DREQ and SIDR_REQ are sent again until an answer comes, so many
 * times as the retries say; in between passes what the peer may take to answer and twice the
 * lifetime of a packet (IBA 12.9.8.3). A connection keeps the bytes of the message that it sent
 * last, and sends just these again. An MRA from the peer buys it time: until that is over
 * repetitions go on, since only they find out that the peer is gone, but use up no retries. All
 * MRAs together buy at most CM_PATIENCE_COUNT times what one asks for.
 *
 * Who answers answers again. A repeated REQ brings out the REP or REJ that was sent, or an MRA
 * while the program has not decided; a repeated REP the RTU or REJ, or an MRA; a repeated DREQ
 * the DREP, and a DREQ for ids that nobody has any more a DREP too. That is why a connection that
 * is over stays for a while (TIMEWAIT, REFUSED), also when its owner let it go.
 *
 * What the rules leave out:
 * - A REQ whose QP is connected here already, by another request or by the same ids with other
 *   contents, shows that the peer forgot that connection. The REQ is rejected as stale,
 *   and the old connection is torn down with a DREQ; its owner hears DISCONNECTED (12.9.8.3.1).
 *   The same happens with a REP.
 * - A REP for ids that nobody has is answered by REJ "invalid communication id", so that a peer
 *   whose partner was killed need not wait for its timeout.
 * - A DREQ that finds the passive side in REP_SENT proves that the RTU was lost: it is told
 *   ESTABLISHED and DISCONNECTED.
 * - Data that arrive on the QP in REP_SENT prove the same: cm_establish().
 * - DREQs that cross: each side answers the other's and both are done.
 * - That nobody listens need not be the last word: see cm_timing.listener_ns. Such a refusal leaves no
 *   trace at the peer, so the same REQ is a new one for it. And it answers one REQ: while repetitions
 *   are on the way, one of them may find a listener that came meanwhile, and its program would meet
 *   a peer that has given up. So the last word is the answer to the last of them, or as long a silence as
 *   that answer took, a second at most.
 * - Alternate paths are refused: LAP is answered by APR "unsupported", or where the connection is over
 *   or unknown by "invalid communication id".
 * - A peer that was killed says nothing any more; a LAP finds that out (watch.h).
 *
 * Invariants: of ESTABLISHED, REJECTED, UNREACHABLE and CONNECT_ERROR each connection tells at
 * most one; DISCONNECTED comes once after ESTABLISHED and never otherwise; then, or after a
 * failure that may have left packets on the way (a REP was sent or received, or the peer called us
 * stale), TIMEWAIT_EXIT once. A connection whose owner released it tells nothing but GONE, exactly
 * once, and then its memory is the caller's.
 *
 * Timewait is 4.096 us * 2^t with t the local ACK timeout that the REQ names, corrected by the
 * peer's ack delay as the kernel does: at least two packet lifetimes and the delay. With the
 * lifetime that Linux assumes for RoCE (2^18) that is 2^19, or 2.1 seconds.
 *
 * Nothing here locks: the caller serialises all calls on one agent. Whatever a message says may
 * be a lie; it is believed only if ids, address and, where it names one, QP fit together.
 */
#ifndef VBN_CM_CM_H
#define VBN_CM_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "base/time.h"
#include "wire/cm_message.h"

/*
 * Between which ends messages of a connection go. device is the caller's: anything that tells
 * two ways out apart where GIDs do not (two links with link-local addresses).
 */
struct cm_path {
	uint8_t local_gid[16], remote_gid[16];
	uint32_t device;
};

/*
 * How long and how often. Exponents are of 4.096 us. A connection begins with its agent's; the
 * caller may change its timing member until connect, query or accept. On the passive side
 * response_timeout, packet_lifetime and retries are those of the REQ.
 */
struct cm_timing {
	uint8_t response_timeout; /* what each side takes to answer, as told to the peer */
	uint8_t packet_lifetime;  /* of the path, one way */
	uint8_t ack_delay;	  /* of our device, as told to the peer */
	uint8_t service_timeout;  /* what an MRA that the agent sends by itself asks for */
	uint8_t retries;	  /* 0 to 15, after the first transmission */
	/*
	 * Not 0: a lost message is repeated sooner at first, after this time, then after four
	 * times as long, and so on until that would be longer than the regular wait. These
	 * repetitions use up no retries.
	 */
	uint64_t early_ns;
	/*
	 * Not 0: in ESTABLISHED the peer is asked so often whether it still knows the connection. After
	 * CM_WATCH_TRIES without an answer, or when it does not, the connection is over. A peer that
	 * never answered is asked CM_WATCH_TRIES_FIRST times and then left alone.
	 */
	uint64_t watch_ns;
	/*
	 * Not 0: that nobody listens is believed only so long after the REQ or SIDR_REQ was sent first.
	 * Until then the peer is asked again, soon at first: its program may be about to listen, and
	 * here all that lies between two programs is shorter than they are used to. These repetitions
	 * use up no retries either.
	 */
	uint64_t listener_ns;
};

#define CM_WATCH_TRIES 8
#define CM_WATCH_TRIES_FIRST 3

/* As Linux has them. */
#define CM_TIMING_LINUX \
	{ \
		.response_timeout = 20, .packet_lifetime = 18, .ack_delay = 15, \
		.service_timeout = 24, .retries = 15, \
	}
/* What a peer's REQ claims to need for answers and packets is believed up to this (69 seconds). */
#define CM_EXPONENT_MAX 24
#define CM_PATIENCE_COUNT 16

static inline uint64_t cm_exponent_ns(uint8_t exponent)
{
	return 4096ull << (exponent & 31);
}

/*
 * The local ACK timeout of a path: two packet lifetimes and the peer's ack delay, as an exponent.
 * Its time is timewait too, and that after which a QP repeats.
 */
uint8_t cm_ack_timeout(uint8_t packet_lifetime, uint8_t ack_delay);

enum cm_state {
	CM_IDLE,
	CM_REQ_SENT,
	CM_REQ_RCVD,
	CM_REP_SENT,
	CM_REP_RCVD,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_TIMEWAIT,
	CM_REFUSED, /* we refused or answered for good, and answer the same for a while */
	CM_SIDR_SENT,
	CM_SIDR_RCVD,
	CM_CLOSED,
	CM_STATE_COUNT
};

const char *cm_state_name(enum cm_state state);

/* Chains of one table. */
enum cm_table { CM_BY_LOCAL_ID, CM_BY_REMOTE_ID, CM_BY_REMOTE_QP, CM_TABLE_COUNT };

struct cm_link {
	struct cm_connection *next;
	struct cm_connection **slot; /* what points here; NULL: not in the table */
};

/*
 * One connection or SIDR exchange. The caller's memory, ours from cm_connection_init() to
 * CM_EVENT_GONE; the caller may read the first part, and write timing as said above.
 */
struct cm_connection {
	void *owner; /* the caller's, never looked at */
	struct cm_timing timing;
	enum cm_state state;
	uint32_t local_id, remote_id; /* remote 0: not known (yet) */
	struct cm_path path;
	uint32_t local_qpn, remote_qpn;
	uint8_t service_type; /* enum cm_service_type, of the REQ */
	bool is_passive;      /* a REQ or SIDR_REQ of the peer made it */
	bool is_released;     /* its owner let it go */

	/* Private from here. */
	bool is_sidr;
	bool is_told_end; /* DISCONNECTED was told */
	bool asks_again;  /* nobody listened: what comes next is the same question */
	bool is_refused;  /* nobody listened for one REQ; a later one may have been heard */
	uint8_t retries_left;
	uint32_t unanswered;	/* of those REQs that were sent */
	uint8_t ack_timeout;	/* exponent of timewait */
	uint64_t wait_ns;	/* between two transmissions */
	uint64_t early_ns;	/* the next wait, if it is an early one; otherwise 0 */
	vbn_time begun;		/* the wait that is on */
	vbn_time patient_until; /* after an MRA; otherwise 0 */
	uint8_t watch_silence;	/* LAPs without an answer */
	bool is_watch_answered;
	uint64_t linger_ns; /* of REFUSED: longer than the peer waits before it repeats */
	uint64_t transaction;
	uint64_t local_guid, remote_guid;
	uint64_t service_id;
	uint32_t remote_psn; /* with others: tells a repeated REQ from another one */
	struct cm_link links[CM_TABLE_COUNT];
	/* Deadlines (deadlines.h). */
	vbn_time deadline;
	struct cm_connection *heap_child, *heap_sibling, *heap_previous;
	/* What was sent last and is sent again; 0: nothing. */
	uint16_t sent_kind;
	uint8_t sent[MAD_BYTES];
};

enum cm_event_kind {
	/* Passive: a REQ took the spare connection. message: the REQ. */
	CM_EVENT_REQUEST,
	/* Active: the REP. Now cm_confirm() or cm_reject(). message: the REP. */
	CM_EVENT_RESPONSE,
	CM_EVENT_ESTABLISHED, /* either side. message: the RTU, where one came */
	/*
	 * The peer refused, at any time before ESTABLISHED. reason: enum cm_reject. message: the REJ, or
	 * where we ended it for the peer's fault (a REP that is stale, a DREQ too early) none.
	 */
	CM_EVENT_REJECTED,
	CM_EVENT_UNREACHABLE,	/* no answer to REQ or SIDR_REQ, after all retries */
	CM_EVENT_CONNECT_ERROR, /* no answer to REP */
	/*
	 * The connection is over. reason: 0, or CM_REJECT_TIMEOUT (nobody answered our DREQ, or for long
	 * anything else), CM_REJECT_STALE (the peer forgot it), CM_REJECT_COMM_ID (nobody at its address
	 * knows it), or that of a REJ. message: DREQ, DREP, REJ or APR, if any.
	 */
	CM_EVENT_DISCONNECTED,
	CM_EVENT_TIMEWAIT_EXIT, /* the QP may be used again */
	CM_EVENT_SIDR_REQUEST,	/* a SIDR_REQ took the spare connection. message: it */
	CM_EVENT_SIDR_RESPONSE, /* reason: enum cm_sidr_status. message: the SIDR_REP */
	CM_EVENT_GONE,		/* after cm_release(): the memory is the caller's again */
	CM_EVENT_KIND_COUNT
};

const char *cm_event_name(enum cm_event_kind kind);

struct cm_event {
	enum cm_event_kind kind;
	struct cm_connection *connection; /* GONE: only a name for memory, and its owner */
	uint16_t reason;
	bool has_message;
	struct cm_message message;
};

/* A datagram for QP 1 of path.remote_gid. */
struct cm_datagram {
	struct cm_path path;
	uint8_t bytes[MAD_BYTES];
};

#define CM_OUT_DATAGRAMS 4
#define CM_OUT_EVENTS 6

/*
 * What a call has to say: at most so much. Each call adds to it; the caller clears it before.
 * Datagrams first, then events, is the right order to carry it out in.
 */
struct cm_out {
	uint32_t datagram_count, event_count;
	struct cm_datagram datagrams[CM_OUT_DATAGRAMS];
	struct cm_event events[CM_OUT_EVENTS];
};

static inline void cm_out_clear(struct cm_out *out)
{
	out->datagram_count = out->event_count = 0;
}

struct cm_agent {
	struct cm_timing timing;
	uint64_t hash_key;
	uint32_t transaction_high;
	uint32_t bucket_mask;
	struct cm_connection **buckets[CM_TABLE_COUNT];
	struct cm_connection *heap; /* the earliest deadline */
	uint32_t connection_count;  /* in the tables: initialised and not gone */
};

struct cm_setup {
	struct cm_timing timing;
	uint64_t hash_key;	   /* random and secret: peers choose what is hashed */
	uint32_t transaction_high; /* upper half of transaction ids, the lower is the local id */
	uint32_t bucket_count;	   /* of each table, a power of two */
	/* CM_TABLE_COUNT * bucket_count, of the caller, for as long as the agent is used. */
	struct cm_connection **buckets;
};

/* --- life (agent.c, ending.c) --- */

void cm_agent_init(struct cm_agent *agent, const struct cm_setup *setup);
/*
 * Makes @connection IDLE with @local_id: not 0, random, and where messages are steered by it
 * with the owner's slot in front. False: the id is in use, draw another.
 */
bool cm_connection_init(struct cm_agent *agent, struct cm_connection *connection, uint32_t local_id,
			void *owner);
/*
 * The owner lets go: no event but GONE any more, now or later. What is under way is ended as is
 * right in each state: REQ_SENT by REJ "timeout", REQ_RCVD, REP_SENT and REP_RCVD by REJ
 * "consumer", ESTABLISHED by a DREQ that is repeated as ever, SIDR_RCVD by status "rejected".
 */
void cm_release(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
		struct cm_out *out);
/*
 * Forgets @connection without a word: no message, no event, not even GONE. For the end of the
 * agent and for what was never used.
 */
void cm_forget(struct cm_agent *agent, struct cm_connection *connection);

/* --- what a program asks for (connect.c, ending.c, sidr.c) ---
 *
 * 0, or -EINVAL: not in this state, and nothing happened. Messages given (@message) are
 * of the kind that the call sends; ids, transaction and the fields named here are filled in by
 * the agent and need not be set. NULL, where allowed: nothing but what must be in it.
 */

/*
 * Active side: IDLE. A REQ without response timeouts, max_cm_retries and primary.ack_timeout, which
 * come from the connection's timing. Its qpn is the local QP, ca_guid that of our device.
 */
int cm_connect(struct cm_agent *agent, struct cm_connection *connection, const struct cm_path *path,
	       const struct cm_message *req, vbn_time now, struct cm_out *out);
/*
 * Passive side: REQ_RCVD. A REP without target_ack_delay. Put the QP into eecn if the service
 * type of the REQ was EXTENDED.
 */
int cm_accept(struct cm_agent *agent, struct cm_connection *connection,
	      const struct cm_message *rep, vbn_time now, struct cm_out *out);
/* Active side: REP_RCVD, the QP is ready to send. @rtu may be NULL. Tells ESTABLISHED. */
int cm_confirm(struct cm_agent *agent, struct cm_connection *connection,
	       const struct cm_message *rtu, vbn_time now, struct cm_out *out);
/* REQ_RCVD, REP_RCVD, REP_SENT. A REJ without about. No event follows but TIMEWAIT_EXIT. */
int cm_reject(struct cm_agent *agent, struct cm_connection *connection,
	      const struct cm_message *rej, vbn_time now, struct cm_out *out);
/*
 * REQ_RCVD, REP_RCVD: asks the peer for patience, without waiting for it to repeat itself (then the
 * agent does so by its own). @mra may be NULL; a service_timeout of 0 is that of the timing.
 */
int cm_mra(struct cm_agent *agent, struct cm_connection *connection, const struct cm_message *mra,
	   vbn_time now, struct cm_out *out);
/*
 * Data arrived on the QP: in REP_SENT it is ESTABLISHED, as if the RTU had come. 0 and no effect in
 * ESTABLISHED.
 */
int cm_establish(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
		 struct cm_out *out);
/*
 * ESTABLISHED: sends the DREQ, DISCONNECTED follows. In states after that 0 and no effect, so that
 * either side may always say it. @dreq may be NULL.
 */
int cm_disconnect(struct cm_agent *agent, struct cm_connection *connection,
		  const struct cm_message *dreq, vbn_time now, struct cm_out *out);
/* IDLE: asks for the QP and Q_Key of a datagram service. */
int cm_sidr_query(struct cm_agent *agent, struct cm_connection *connection,
		  const struct cm_path *path, const struct cm_message *sidr_req, vbn_time now,
		  struct cm_out *out);
/* SIDR_RCVD: a SIDR_REP without service_id. */
int cm_sidr_answer(struct cm_agent *agent, struct cm_connection *connection,
		   const struct cm_message *sidr_rep, vbn_time now, struct cm_out *out);

/* --- what happens (receive.c, timeout.c, ending.c) --- */

struct cm_arrival {
	struct cm_path path; /* from remote_gid, to local_gid, by device */
	const struct cm_message *message;
	/*
	 * For REQ and SIDR_REQ: an IDLE connection that a new request takes (CM_EVENT_REQUEST,
	 * CM_EVENT_SIDR_REQUEST), and keeps untouched otherwise. NULL: it cannot be served;
	 */
	struct cm_connection *spare;
	/* ... then the reason of the REJ, or the status of the SIDR_REP; 0: silence. */
	uint16_t refusal;
};

/*
 * Takes in a message. REASON_NONE, or why it was of no use: DROP_CM_ID, DROP_CM_STATE,
 * DROP_SOURCE, DROP_DUPLICATE; there may be an answer even so.
 *
 * Of messages for other processes (local ids with another slot) it thinks that nobody has
 * their ids, and answers so: they are the caller's to pass on.
 */
enum reason cm_receive(struct cm_agent *agent, const struct cm_arrival *arrival, vbn_time now,
		       struct cm_out *out);

/*
 * The peer is known to be dead, with nobody left who would answer for it: what would otherwise be
 * told after all retries, or never, is told now. Nothing is sent.
 */
void cm_peer_died(struct cm_agent *agent, struct cm_connection *connection, vbn_time now,
		  struct cm_out *out);

/* When cm_deadline() wants to be called; NEVER: not at all. */
vbn_time cm_next_deadline(const struct cm_agent *agent);
/* Acts on one deadline at or before @now, the earliest; false: there is none. */
bool cm_deadline(struct cm_agent *agent, vbn_time now, struct cm_out *out);

/* The connection with this local id, or NULL. */
struct cm_connection *cm_find(const struct cm_agent *agent, uint32_t local_id);

#endif
