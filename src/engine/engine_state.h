/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's insides: what engine.h only names. Not for the faces.
 *
 * engine.c    life of an engine        progress.c  receiving and running QPs
 * links.c     links, claims, flows     pass.c      scratch of one thread at work
 * qp.c        life of a QP             helper.c    the thread that works when nobody polls
 * connect.c   the path at RTR          timers.c    deadlines
 * run.c       output of one QP         cq.c pd.c mr.c events.c   objects
 * post.c      posting                  counters.c  what became of packets
 *
 * Locks, outer to inner: receive lock of a link (only tried), QP, CQ, then leaves
 * that hold nothing while they call nobody: timers, links, keys, qps, events.
 */
#ifndef VBN_ENGINE_ENGINE_STATE_H
#define VBN_ENGINE_ENGINE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/pin_table.h"
#include "engine/counters.h"
#include "engine/engine.h"
#include "engine/helper.h"
#include "engine/timers.h"
#include "link/descriptor.h"
#include "link/link.h"
#include "memory/memory.h"
#include "transport/completion_queue.h"
#include "transport/transport.h"

#define ENGINE_LINKS_MAX 64
#define ENGINE_KEY_SLOTS (1u << 20)
#define ENGINE_QP_SLOTS (1u << 17)
#define ENGINE_HOLD_BUFFERS 256
/* A link is read by pollers only while it carried traffic this recently. */
#define ENGINE_LINK_WARM_NS (2 * VBN_MILLISECOND)

/* Packets of all QPs towards one address (for READ answers: towards ourselves). */
struct engine_flow {
	LIST_ENTRY(engine_flow) next;
	struct link_address destination;
	uint32_t user_count; /* under links_lock */
	struct flow flow;
};

struct engine_link {
	struct link *link;
	struct link_address local;
	struct descriptor claim; /* the name that holds the address; -1: none needed */
	pthread_mutex_t receive_lock;
	_Atomic bool is_kicked; /* somebody wanted to receive while it was locked */
	_Atomic vbn_time last_traffic;
	struct flow inbound;
};

struct qp_slot {
	struct pin_slot pin; /* its number is the QPN */
	struct engine_qp *qp;
};

struct engine {
	struct settings settings;
	pid_t owner;		   /* the process that made it */
	_Atomic bool is_inherited; /* we are a forked child of that process */
	LIST_ENTRY(engine) next;   /* all engines of the process, for fork */

	struct memory memory;
	struct mr_slot *key_slots;
	pthread_mutex_t keys_lock;
	uint64_t registered_bytes; /* under keys_lock; strict memlock */
	uint32_t pd_count;	   /* under keys_lock */
	uint32_t pd_next;	   /* under keys_lock */

	struct pin_table qps;
	struct qp_slot *qp_slots;
	pthread_mutex_t qps_lock;
	_Atomic uint32_t cq_count;

	void *hold_memory;
	struct hold_pool holds;

	pthread_mutex_t links_lock; /* of adding links and of flows */
	struct engine_link links[ENGINE_LINKS_MAX];
	_Atomic uint32_t link_count; /* published after the entry is whole; never shrinks */
	struct engine_link *_Atomic self_link;
	struct capture_file *capture;
	LIST_HEAD(, engine_flow) flows;

	struct timers timers;
	struct helper helper;
	_Atomic vbn_time last_poll; /* the lease: when a verbs call last did the NIC's work */

	struct counters counters;
};

struct engine_pd {
	struct engine *engine;
	uint32_t number;
	_Atomic uint32_t user_count;
};

struct engine_mr {
	struct engine_pd *pd;
	struct mr_slot *slot;
	uint32_t key;
};

struct engine_cq {
	struct engine *engine;
	pthread_mutex_t lock;
	struct completion_queue queue;
	struct event_queue *channel;
	struct event_queue *async;
	void *object;
	_Atomic uint32_t user_count;
	_Atomic vbn_time idle_since; /* a poll found nothing and yielded then; 0: not idle */
};

struct engine_qp {
	struct engine *engine;
	struct engine_pd *pd;
	pthread_mutex_t lock;
	struct qp *qp;
	struct qp_slot *slot;
	struct engine_cq *send_cq, *recv_cq;
	struct event_queue *async;
	void *object;
	const struct device *device;
	bool signals_all;

	/* The connection, from RTR on; under lock. */
	struct engine_link *link;
	struct link_route route;
	struct engine_flow *flow;

	struct timer timer;
	uint64_t flush_count; /* under lock: told in one line at the end */
};

/* clock.c: nanoseconds of CLOCK_MONOTONIC. */
vbn_time clock_now(void);
/* Unpredictable numbers of the system; aborts when there are none. */
void random_bytes(void *bytes, size_t length);
uint32_t random_number(void);

/* links.c */
/* The link of a local address, opened and claimed at first use; NULL: the self link. */
int links_open(struct engine *engine, const struct link_address *local, struct engine_link **link);
struct engine_flow *links_take_flow(struct engine *engine, const struct link_address *destination,
				    int64_t bytes_max);
void links_return_flow(struct engine *engine, struct engine_flow *flow);
void links_close_all(struct engine *engine);

/* connect.c: the path of a connection; called with the QP's lock held, before RTR. */
int connect_path(struct engine_qp *qp, const struct ibv_qp_attr *attr, struct path *path);
void connect_release(struct engine_qp *qp);

/* progress.c */
struct pass;
/*
 * Receives from the links that may have something and runs what is due. @all: look at
 * every link, warm or not. Returns whether anything was found.
 */
bool progress(struct engine *engine, bool all);
/* After a post: what the self link holds. What is left to do then is told to the helper. */
void progress_after_send(struct engine *engine);
vbn_time progress_next_deadline(struct engine *engine);
/* Whether pollers read @link themselves: it carried packets a moment ago. */
bool progress_link_is_warm(const struct engine_link *link, vbn_time now);

/* run.c: everything one QP has to send, complete and tell. Its lock is held. */
void run_qp(struct engine_qp *qp, struct pass *pass);
/*
 * Only what qp_receive() left in the outbox. Its lock is held. True: what
 * came of it (a payload that cannot be read, a CQ that overran) makes run_qp() necessary.
 */
bool run_outbox(struct engine_qp *qp, struct pass *pass);

#endif
