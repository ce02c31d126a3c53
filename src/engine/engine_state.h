/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's insides: what engine.h only names. Not for the faces.
 *
 * engine.c    life of an engine        progress.c  whoever polls, works
 * receive.c   what becomes of a packet tell.c      what the program is told
 * held_acks.c acknowledgements that wait for an answer
 * links.c     links and flows          pass.c      scratch of one thread at work
 * membership.c  what other processes of this host want and give
 * qp.c        life of a QP             helper.c    the thread that works when nobody polls
 * connect.c   the path at RTR          timers.c    deadlines
 * adoption*.c pages of the program that peers of this host access; adopted_regions.c when
 * sharing.c   with whom packets go through memory
 * direct*.c   accessing each other's registered memory without packets
 * ah.c        address handles          multicast.c groups, and the QPs attached to them
 * gsi.c       QP 1                     gsi_meeting.c which addresses are Verbenas'
 * pace.c      what nobody acknowledges waits
 * run.c       output of one QP         cq.c pd.c mr.c mw.c events.c   objects
 * srq.c       shared receive queues            xrc.c       domains of XRC
 * post.c      posting                  counters.c  what became of packets
 * queue_memory.c  memory that programs may provide
 * statistics.c  what others see of it
 * cm_*.c      connections (cm_state.h)
 * port.c      open devices, and what becomes of their interfaces
 * deputy.c    a thread that blocks     sleeper.c   how helper and deputy sleep
 *
 * Locks, outer to inner: receive lock of a link (only tried), that of connections or QP, CQ, SRQ,
 * then leaves
 * that hold nothing while they call nobody: timers, links, keys, qps, events. The ports' lock
 * stands outside of membership's and of events, and nobody takes it with another one held.
 * The lock of QP 1's handler stands behind the receive lock, outside of all that a handler takes.
 */
#ifndef VBN_ENGINE_ENGINE_STATE_H
#define VBN_ENGINE_ENGINE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/pin_table.h"
#include "engine/adopted_regions.h"
#include "engine/adoption.h"
#include "engine/counters.h"
#include "engine/deputy.h"
#include "engine/direct.h"
#include "engine/engine.h"
#include "engine/gsi.h"
#include "engine/held_acks.h"
#include "engine/helper.h"
#include "engine/membership.h"
#include "engine/multicast.h"
#include "engine/port.h"
#include "engine/statistics.h"
#include "engine/timers.h"
#include "link/clock.h"
#include "link/descriptor.h"
#include "link/link.h"
#include "memory/memory.h"
#include "transport/completion_queue.h"
#include "transport/srq.h"
#include "transport/transport.h"

#define ENGINE_LINKS_MAX 64
#define ENGINE_KEY_SLOTS (1u << 20)
#define ENGINE_QP_SLOTS (1u << 17)
#define ENGINE_HOLD_BUFFERS 256
/* A link is read by pollers only while it carried traffic this recently. */
#define ENGINE_LINK_WARM_NS (2 * VBN_MILLISECOND)

/* Packets of all QPs towards one process: a member of this host, or all there is at an address. */
struct engine_flow {
	LIST_ENTRY(engine_flow) next;
	struct link_address destination;
	const struct engine_link *link; /* by which they go */
	struct host_peer *peer;		/* NULL: not of this host, or not to be told */
	uint32_t slot;			/* of the peer */
	bool is_watched;		/* the peer's death would be noticed */
	uint32_t user_count;		/* under flows_lock */
	struct flow flow;
	struct flow
		inbound; /* READ answers from there, where each peer has room of its own for them */
	pthread_mutex_t pace_lock; /* of flow.pace (pace.h); a leaf */
	uint64_t pace_window_seen; /* under it: membership_refresh() for datagrams */
};

struct engine_link {
	struct link *link;
	struct link_address local;
	struct descriptor claim; /* the name that holds the address; -1: not alone, or none needed */
	pthread_mutex_t receive_lock;
	_Atomic bool is_kicked; /* somebody wanted to receive while it was locked */
	_Atomic vbn_time last_traffic;
	struct pass *pass; /* of who polls rings, under the lock; NULL: not needed yet */
	struct flow inbound;
};

struct qp_slot {
	struct pin_slot pin; /* its number is the QPN */
	struct engine_qp *qp;
	vbn_time freed_at; /* under qps_lock: when a QP here was destroyed last */
};

struct engine {
	struct settings settings;
	pid_t owner;		   /* the process that made it */
	_Atomic bool is_inherited; /* we are a forked child of that process */
	LIST_ENTRY(engine) next;   /* all engines of the process, for fork */

	struct memory memory;
	struct mr_slot *key_slots;
	pthread_mutex_t keys_lock;
	uint64_t registered_bytes;	/* under keys_lock; strict memlock */
	uint32_t mr_count, mw_count;	/* under keys_lock */
	uint32_t pd_count;		/* under keys_lock */
	uint32_t pd_next;		/* under keys_lock */
	LIST_HEAD(, engine_mr) regions; /* under keys_lock */
	struct adoption adoption;
	uint32_t region_counts[ADOPTION_COUNT]; /* of regions, by their verdict; under keys_lock */

	struct pin_table qps;
	struct qp_slot *qp_slots;
	pthread_mutex_t qps_lock;
	uint64_t qp_incarnations; /* under qps_lock: QPs there ever were */
	_Atomic uint32_t cq_count;
	_Atomic uint32_t srq_count, ah_count;

	void *hold_memory;
	struct hold_pool holds;

	pthread_mutex_t links_lock; /* of adding links; may be held for a second (host.h) */
	/* Of flows. The helper takes it to answer other processes, so nobody waits under it. */
	pthread_mutex_t flows_lock;
	struct engine_link links[ENGINE_LINKS_MAX];
	_Atomic uint32_t link_count; /* published after the entry is whole; never shrinks */
	struct engine_link *_Atomic self_link;
	struct engine_link *_Atomic shm_link; /* to processes of this host (sharing.h) */
	struct link *rings;		      /* what it is without capture and fault injection */
	struct capture_file *capture;
	LIST_HEAD(, engine_flow) flows;
	struct groups groups;
	struct gsi gsi;
	struct connections *_Atomic connections; /* NULL: rdma_cm is not used (cm_state.h) */

	struct timers timers;
	struct held_acks held_acks;
	struct timers held_events; /* until when, by CQ (moderation) */
	_Atomic bool is_leaving;   /* the program ends: nothing is held any more */
	struct helper helper;
	struct membership membership;
	struct direct direct;
	struct ports ports;
	_Atomic vbn_time last_poll; /* the lease: when a verbs call last did the NIC's work */
	_Atomic uint64_t calls;	    /* of the program that do it (engine_call_begin()) */
	_Atomic uint64_t rested_at; /* clock_ticks(); 0: progress() is due (progress_is_due()) */

	struct statistics statistics;
};

/* A thread of the program begins and ends to do the NIC's work. */
#define ENGINE_CALLS_ENDED (1ull << 16)

static inline void engine_call_begin(struct engine *engine)
{
	atomic_fetch_add_explicit(&engine->calls, 1, memory_order_relaxed);
}

static inline void engine_call_end(struct engine *engine)
{
	atomic_fetch_add_explicit(&engine->calls, ENGINE_CALLS_ENDED - 1, memory_order_relaxed);
}

/* Whether one of them is at it. */
static inline bool engine_has_callers(const struct engine *engine)
{
	return atomic_load(&engine->calls) % ENGINE_CALLS_ENDED != 0;
}

/* How often they have done it. */
static inline uint64_t engine_calls_ended(const struct engine *engine)
{
	return atomic_load(&engine->calls) / ENGINE_CALLS_ENDED;
}

struct engine_pd {
	struct engine *engine;
	struct engine_pd *whole; /* NULL: it is no part of another one */
	uint32_t number;
	_Atomic uint32_t user_count;
	_Atomic bool is_near; /* adopted_regions.h: a QP is connected with a process of this host */
};

struct engine_mr {
	struct engine_pd *pd;
	struct mr_slot *slot;
	uint32_t key;
	/* Under keys_lock. */
	LIST_ENTRY(engine_mr) next;
	bool is_changing;	       /* not to be published now */
	bool is_busy;		       /* being adopted: not to be changed now */
	struct published_entry *shown; /* NULL: it is not published */
	/* adopted_regions.h; of who registers, changes or ends it, or has made it busy. */
	struct adopted_area *area; /* NULL: it is not adopted, and why: */
	enum adoption_verdict adoption;
};

/* What the core calls an SRQ, and the lock of it; see srq_enter(). */
struct engine_srq {
	struct engine *engine;
	struct engine_pd *pd;
	struct brief_lock *lock; /* its own, or that of its XRC domain */
	struct brief_lock own_lock;
	struct srq srq;
	struct queue_memory memory; /* of srq; under lock */
	const struct queue_allocator *allocator;
	struct event_queue *async;
	void *object;
	_Atomic uint32_t user_count;
	/* XRC (xrc.h); NULL otherwise. */
	struct engine_xrcd *xrcd;
	struct engine_cq *cq;
	LIST_ENTRY(engine_srq) next;
};

struct engine_mw {
	struct engine_pd *pd;
	struct mr_slot *slot;
	uint32_t key; /* the first one */
};

struct engine_cq {
	struct engine *engine;
	struct brief_lock lock;
	struct completion_queue queue;
	_Atomic uint32_t shown_count; /* of entries in it, for who looks without the lock */
	struct queue_memory memory;   /* of the queue's entries */
	const struct queue_allocator *allocator;
	bool ignores_overrun;
	bool has_timestamps; /* otherwise those of its entries are some milliseconds old, perhaps */
	vbn_time last_stamp; /* of the youngest entry; under lock */
	/* Moderation. */
	uint64_t hold_ns; /* under lock */
	struct timer hold_timer;
	_Atomic uint32_t pin_count; /* threads that found it by its timer */
	struct engine_pd *pd;
	struct event_queue *channel;
	struct event_queue *async;
	void *object;
	_Atomic uint32_t user_count;
	_Atomic vbn_time idle_since; /* a poll found nothing and yielded then; 0: not idle */
	_Atomic bool shares_core;    /* somebody else ran when it yielded last */
	_Atomic vbn_time stays_until;
};

/* Who hears of what happens to a QP: the program, once for each of its handles. */
struct qp_listener {
	LIST_ENTRY(qp_listener) next;
	struct event_queue *async;
	void *object;
};

/* One late answer, of a thread that lost its core for a moment, says nothing of the next. */
#define ANSWER_TRUST 3

struct engine_qp {
	struct engine *engine;
	struct engine_pd *pd;
	struct brief_lock lock;
	struct qp *qp;
	struct queue_memory memory; /* of *qp */
	struct qp_slot *slot;
	struct engine_cq *send_cq, *recv_cq;
	struct engine_srq *srq;	    /* NULL: receives are posted to the QP */
	struct engine_xrcd *xrcd;   /* of an XRC_RECV QP; NULL otherwise */
	LIST_ENTRY(engine_qp) next; /* of that domain */
	bool is_ending; /* of an XRC_RECV QP, under its domain's qps_lock: no more handles */
	struct qp_listener maker;
	LIST_HEAD(, qp_listener) listeners; /* under lock; not empty, and one unless XRC_RECV */
	const struct device *device;
	struct device *device_copy; /* of an XRC_RECV QP */
	struct stats_qp *stats;	    /* NULL: there was no entry left */
	bool signals_all;

	/* The connection, from RTR on; under lock. */
	struct engine_link *link;
	struct link_route route;
	struct engine_flow *flow;
	uint64_t window_seen; /* membership_refresh() */
	struct direct_qp direct;

	/* UD instead: the handles of what is in the send queue, by its slot (ah.h); under lock. */
	struct engine_ah **ahs;
	uint32_t group_count; /* to which it is attached; under the lock of groups */

	struct timer timer;
	uint8_t ack_place; /* of its held ACK + 1 (held_acks.h); 0: none. Under lock */
	/*
	 * Under lock. Whether an ACK is held is a guess: that the program answers a message at
	 * once, because it did so lately. How many times it may fail to until it is trusted no
	 * more.
	 */
	uint32_t answer_trust;
	bool is_written;      /* in this pass: who looks at its memory sees a message */
	vbn_time told_at;     /* of a message that it did not answer yet; 0: none */
	uint64_t flush_count; /* under lock: told in one line at the end */
};

/* The last message was answered at once, or was not; under the lock. */
static inline void note_answer(struct engine_qp *qp, bool at_once)
{
	if (at_once)
		qp->answer_trust = ANSWER_TRUST;
	else if (qp->answer_trust)
		qp->answer_trust--;
	qp->told_at = 0;
}

/* clock.c */
/* Unpredictable numbers of the system; aborts when there are none. */
void random_bytes(void *bytes, size_t length);
uint32_t random_number(void);

/*
 * srq.c: around the calls of the core that may touch the SRQ of @qp (qp_attach_srq()); nothing
 * where it has none. The QP's lock is held; no CQ's lock is taken in between, because
 * who polls returns slots with the CQ's lock held. Leaving raises the limit event if it is due.
 */
void srq_leave_locked(struct engine_srq *srq);
void srq_enter_xrc(struct engine_xrcd *xrcd); /* xrc.c */
void srq_leave_xrc(struct engine_xrcd *xrcd);
static inline void srq_enter(const struct engine_qp *qp)
{
	if (qp->srq)
		brief_lock_take(qp->srq->lock);
	else if (qp->xrcd)
		srq_enter_xrc(qp->xrcd);
}
static inline void srq_leave(const struct engine_qp *qp)
{
	if (qp->srq)
		srq_leave_locked(qp->srq);
	else if (qp->xrcd)
		srq_leave_xrc(qp->xrcd);
}
/* The limit event, if it is due. The lock is held. */
void srq_raise_event(struct engine_srq *srq);
/* To which CQ a completion of @qp goes. */
struct engine_cq *srq_cq_of(const struct engine_qp *qp, const struct completion *completion);
/* The completion of a receive that @srq gave was polled, or nobody will poll it. */
void srq_return_slot(struct srq *srq, uint32_t slot);

/* cq.c: the entries of @qp, or of receives of @srq, vanish. */
void cq_purge(struct engine_cq *cq, const struct engine_qp *qp);
void cq_purge_srq(struct engine_cq *cq, const struct engine_srq *srq);

struct poll_room;
/* cq.c: appends an entry; stamps it no earlier than those before. The CQ's lock is held. */
enum cq_push_result cq_push(struct engine_cq *cq, struct cq_entry *entry);
/*
 * cq.c: the same for a poller that waits for it: as if it had been pushed and polled. False: it has to be pushed,
 * for others are before it, the program wants an event, or there is no room. The CQ's lock is held.
 */
bool cq_give(struct engine_cq *cq, struct cq_entry *entry, struct poll_room *room);
/* cq.c: raises the events that moderation has held until @now. */
void cq_serve_held_events(struct engine *engine, vbn_time now);

/* links.c */
/*
 * The link of a local address, opened and claimed at first use; NULL: the self link. What stands
 * in the way is told for @call.
 */
int links_open(struct engine *engine, const struct link_address *local, const char *call,
	       struct engine_link **link);
/* That to processes of this host. */
int links_open_shm(struct engine *engine, const char *call, struct engine_link **link);
/* The program ends: what it was told is sent leaves. */
void links_finish(struct engine *engine);
/* Whether it is one of the sockets of an address, and not one of these two. */
static inline bool link_has_address(const struct engine *engine, const struct engine_link *link)
{
	return link != engine->self_link && link != engine->shm_link;
}
/* The flow by which packets of @link reach QP number @qpn at @destination; NULL: no memory. */
struct engine_flow *links_take_flow(struct engine *engine, const struct engine_link *link,
				    const struct link_address *destination, uint32_t qpn);
void links_return_flow(struct engine *engine, struct engine_flow *flow);
/* The link that receives on @local, or NULL. Takes no lock. */
const struct engine_link *links_find(struct engine *engine, const struct link_address *local);
void links_close_all(struct engine *engine);

/* mr.c: outside of locks, waits until nobody uses what the slot describes any more. */
void wait_until_idle(const struct mr_slot *slot);

/* progress.c */
struct pass;
/* Where a poller of a CQ wants completions, which then need not pass through the queue (cq_give()). */
struct poll_room {
	struct ibv_wc *entries;
	int count, taken;
};
/* Who looks at once at what comes: a poller of a CQ, or a thread that waits for events. */
struct audience {
	struct engine_cq *cq;
	struct poll_room *room; /* of who polls it; NULL: he takes from the queue */
	struct event_queue *events;
	vbn_time now; /* when it looked; 0: not known */
};
/*
 * Receives from the links that may have something and runs what is due. @all: look at
 * every link, warm or not. Returns whether anything was found.
 */
bool progress(struct engine *engine, bool all, const struct audience *audience);
/*
 * Whether a poller that finds no packet in a ring has to call it. A moment after it found that nothing
 * comes in another way just now, it can wait: then an idle poll costs looks at rings and nothing more.
 */
bool progress_is_due(const struct engine *engine);
/*
 * The part of it that nobody should wait for: what processes of this host have written for us. Looks
 * again and again for an instant, which costs less than all the rest that progress() looks after.
 */
bool progress_rings(struct engine *engine, const struct audience *audience);
/* Acknowledgements that are held leave now: the program is going to wait. */
void progress_release_acks(struct engine *engine);
/* The same when the program ends. Waits for no lock. */
void progress_release_acks_at_exit(struct engine *engine);
/* After a post: what the self link holds. What is left to do then is told to the helper. */
void progress_after_send(struct engine *engine);
/* The helper's part of membership.h. */
void progress_membership(struct engine *engine);
/* Takes packets that other members of the host forwarded to us. One thread at a time. */
uint32_t progress_forwarded(struct engine *engine, struct host *host, struct pass *pass,
			    uint32_t budget);
vbn_time progress_next_deadline(struct engine *engine);
/* Whether pollers read @link themselves: it carried packets a moment ago. */
bool progress_link_is_warm(const struct engine_link *link, vbn_time now);

/* run.c: sends the ACK that is owed, if one is: the connection ends. The QP's lock is held. */
void run_owed_ack(struct engine_qp *qp, struct pass *pass);
/* Everything one QP has to send, complete and tell. Its lock is held. */
void run_qp(struct engine_qp *qp, struct pass *pass);
/*
 * What was just posted, as far as it takes no more than memory of the peer's (direct.h): no pass, no packet, no
 * timer, and what was granted last (qp_grant_direct()). @core needs the time of clock_coarse() only. Its lock is held. False: there is more to
 * do, and run_qp() does it.
 */
bool run_straight(struct engine_qp *qp, const struct core *core);
/*
 * What was just posted, if it is one packet that can be made where the peer reads it, with the ACK that is owed
 * before it: no pass, and the time as above. Its lock is held. False: as above.
 */
bool run_one_packet(struct engine_qp *qp, const struct core *core);
/*
 * Only what qp_receive() left in the outbox. Its lock is held. True: what
 * came of it (a payload that cannot be read, a CQ that overran) makes run_qp() necessary.
 */
bool run_outbox(struct engine_qp *qp, struct pass *pass);

#endif
