/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine towards the faces
 *
 * An engine owns the links, the memory table, the QPs and CQs and the helper
 * thread of one software NIC. It is an object: tests run two in one process; the verbs
 * face keeps one for all its contexts. All calls may be made by any thread unless
 * a comment says otherwise. Failing calls return a negative errno and leave a
 * sentence behind (explain.h) that says why.
 *
 * Lock order: link receive (tried only), QP, CQ, SRQ, event queue. A program's thread
 * never waits for a receive lock.
 */
#ifndef VBN_ENGINE_ENGINE_H
#define VBN_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/reason.h"
#include "engine/device.h"
#include "engine/events.h"
#include "engine/queue_memory.h"
#include "engine/settings.h"

struct engine;
struct engine_pd;
struct engine_mr;
struct engine_mw;
struct engine_cq;
struct engine_srq;
struct engine_xrcd;
struct engine_qp;
struct engine_port;
struct engine_ah;

/* --- the engine (engine.c) --- */

int engine_create(const struct settings *settings, struct engine **engine);
/* All objects must be gone. */
void engine_destroy(struct engine *engine);
/* True in a child of fork: objects of the parent are dead here; calls answer -EIO. */
bool engine_is_inherited(const struct engine *engine);
const struct settings *engine_settings(const struct engine *engine);
/* The device's clock, by which completions are stamped: nanoseconds that never run back. */
uint64_t engine_clock(void);
/* What the wall clock showed at @time of the device's clock: nanoseconds since 1970. */
uint64_t engine_clock_to_wall(uint64_t time);

/* --- ports (port.c): devices that are open, and what becomes of their interfaces --- */

/* Events of the port go to @async. -ENOMEM. */
int engine_port_open(struct engine *engine, const struct device *device, struct event_queue *async,
		     struct engine_port **port);
void engine_port_close(struct engine_port *port);
/* The device as it was when it was looked at last. Good until the port is closed. */
const struct device *engine_port_device(const struct engine_port *port);
void engine_port_look_again(struct engine_port *port);
/* From now on changes are noticed by themselves. */
void engine_watch_ports(struct engine *engine);
bool engine_ports_are_watched(const struct engine *engine);

/* --- protection domains (pd.c) --- */

int engine_pd_create(struct engine *engine, struct engine_pd **pd);
/*
 * One that counts its users for itself and is the same domain otherwise: what belongs to one
 * may be used with what belongs to the other. It uses @whole.
 */
int engine_pd_create_part(struct engine_pd *whole, struct engine_pd **pd);
/* One more user of @pd, and one less. */
void engine_pd_hold(struct engine_pd *pd);
void engine_pd_let_go(struct engine_pd *pd);
/* -EBUSY while anything uses it. */
int engine_pd_destroy(struct engine_pd *pd);

/* --- memory regions (mr.c) --- */

/*
 * Registers [@address, @address + @length) under a new key, which serves as lkey and
 * rkey. -EINVAL (rights, overflow), -EFAULT (not mapped, or not writable where
 * write is asked), -ENOMEM (table full, memlock limit in strict mode). With
 * IBV_ACCESS_ON_DEMAND nothing needs to be mapped yet, and @address 0 with @length SIZE_MAX
 * is the whole address space.
 */
int engine_mr_create(struct engine_pd *pd, void *address, uint64_t length, uint64_t iova,
		     uint32_t access, struct engine_mr **mr);
/* Whether @key names a region of @pd, and how long that is. */
bool engine_mr_find(const struct engine_pd *pd, uint32_t key, uint64_t *length);
/* A region that swallows what is written and reads as zeros, for local access alone. */
int engine_mr_create_null(struct engine_pd *pd, struct engine_mr **mr);
uint32_t engine_mr_key(const struct engine_mr *mr);
/*
 * ibv_rereg_mr: @flags IBV_REREG_MR_CHANGE_*. The key stays, as programs that change
 * only rights rely on. On failure the region is as it was. -EBUSY while windows are bound.
 */
int engine_mr_change(struct engine_mr *mr, int flags, struct engine_pd *pd, void *address,
		     uint64_t length, uint64_t iova, uint32_t access);
/* Waits until no access to the region is under way. -EBUSY while windows are bound. */
int engine_mr_destroy(struct engine_mr *mr);
/*
 * ibv_advise_mr: asks the system for the pages of on-demand regions. 0 also where it cannot
 * help; -ENOENT (no on-demand region), -EPERM (other PD, not writable), -EFAULT (outside).
 */
int engine_mr_advise(struct engine_pd *pd, enum ibv_advise_mr_advice advice, bool waits,
		     const struct ibv_sge *list, uint32_t count);

/* --- memory windows (mw.c) --- */

/* Not bound. Binding and invalidating are work requests. */
int engine_mw_create(struct engine_pd *pd, enum ibv_mw_type type, struct engine_mw **mw);
/* Random in its upper 24 bits, which stay; a bind gives the lower 8. */
uint32_t engine_mw_key(const struct engine_mw *mw);
/* Bound or not. Waits until no access through the window is under way. */
int engine_mw_destroy(struct engine_mw *mw);

/* --- completion queues (cq.c) --- */

struct engine_cq_attr {
	uint32_t capacity;			 /* granted exactly */
	struct event_queue *channel;		 /* may be NULL */
	struct event_queue *async;		 /* may be NULL */
	void *object;				 /* what events carry */
	struct engine_pd *pd;			 /* which it uses; may be NULL */
	const struct queue_allocator *allocator; /* may be NULL */
	bool ignores_overrun; /* an entry that finds it full takes the oldest one's place */
	bool has_timestamps;  /* of completions somebody reads when they came about */
};

int engine_cq_create_from(struct engine *engine, const struct engine_cq_attr *attr,
			  struct engine_cq **cq);
int engine_cq_create(struct engine *engine, uint32_t capacity, struct event_queue *channel,
		     struct event_queue *async, void *object, struct engine_cq **cq);
/* -EBUSY while QPs use it. Unread events of its object are dropped from both queues. */
int engine_cq_destroy(struct engine_cq *cq);
int engine_cq_resize(struct engine_cq *cq, uint32_t capacity);
uint32_t engine_cq_capacity(const struct engine_cq *cq);
/* ibv_poll_cq: up to @count entries; runs the engine when there are none. */
int engine_cq_poll(struct engine_cq *cq, int count, struct ibv_wc *entries);
int engine_cq_arm(struct engine_cq *cq, bool solicited_only);
/*
 * An armed CQ raises its event for @count entries together, or @period_us after the first of
 * them. If either is 0 each entry raises it at once.
 */
int engine_cq_moderate(struct engine_cq *cq, uint32_t count, uint32_t period_us);

/*
 * A completion, and, where the CQ has timestamps, when it came about by the device's clock. Of one CQ they
 * never run back.
 */
struct engine_completion {
	struct ibv_wc wc;
	uint64_t timestamp_ns;
};

/*
 * The oldest entry, for those who poll one by one: 1, or 0 when there is none. @works: as
 * engine_cq_poll() does, the engine runs before it gives up.
 */
int engine_cq_take(struct engine_cq *cq, bool works, struct engine_completion *completion);
/* The one who took entries one by one stops; what is left behind may raise the event. */
void engine_cq_stop_taking(struct engine_cq *cq);

/* --- XRC domains (xrc.c) --- */

/*
 * @fd: of the file that names the domain, or -1. As long as there is the domain, no other file
 * gets the inode that stands for it.
 */
int engine_xrcd_create(struct engine *engine, int fd, struct engine_xrcd **xrcd);
/* -EBUSY while SRQs or QPs use it. */
int engine_xrcd_destroy(struct engine_xrcd *xrcd);
/* For engine_qp_create() of an XRC_RECV QP, which has no PD of its own. */
struct engine_pd *engine_xrcd_pd(const struct engine_xrcd *xrcd);

/* --- shared receive queues (srq.c) --- */

struct engine_srq_attr {
	uint32_t wr_max, sge_max;		 /* granted exactly as asked */
	const struct queue_allocator *allocator; /* may be NULL */
	struct event_queue *async;
	void *object; /* of its events */
	/* Both for an XRC SRQ, none for a basic one. */
	struct engine_xrcd *xrcd;
	struct engine_cq *cq;
};

/* The limit is not armed. */
int engine_srq_create(struct engine_pd *pd, const struct engine_srq_attr *attr,
		      struct engine_srq **srq);
/*
 * -EBUSY while QPs use it, or are in the middle of a message to an XRC SRQ. Unread events of its
 * object are dropped, and of an XRC SRQ the completions.
 */
int engine_srq_destroy(struct engine_srq *srq);
/* Of an XRC SRQ; 0: it is a basic one. */
uint32_t engine_srq_number(const struct engine_srq *srq);
/*
 * ibv_modify_srq: @mask of IBV_SRQ_MAX_WR (as many as are posted must fit) and IBV_SRQ_LIMIT,
 * both or neither. A limit above what waits now raises its event at once.
 */
int engine_srq_modify(struct engine_srq *srq, const struct ibv_srq_attr *attr, int mask);
void engine_srq_query(struct engine_srq *srq, struct ibv_srq_attr *attr);
/* A list as in engine_post_recv(). */
int engine_srq_post(struct engine_srq *srq, struct ibv_recv_wr *list, struct ibv_recv_wr **bad);

/* --- queue pairs (qp.c) --- */

struct engine_qp_attr {
	enum ibv_qp_type type;
	struct ibv_qp_cap cap; /* checked against the device's limits; granted back in place */
	bool signals_all;
	struct engine_cq *send_cq, *recv_cq; /* XRC_SEND has no recv_cq, XRC_RECV none of them */
	struct engine_xrcd *xrcd;	     /* XRC_RECV only */
	struct engine_srq *srq; /* may be NULL; otherwise the receive limits of cap are ignored */
	struct event_queue *async;
	void *object;
	const struct device *device;		 /* outlives the QP, or is copied (XRC_RECV) */
	const struct queue_allocator *allocator; /* may be NULL */
};

int engine_qp_create(struct engine_pd *pd, struct engine_qp_attr *attr, struct engine_qp **qp);
uint32_t engine_qp_number(const struct engine_qp *qp);
/* 0 or -errno: -EINVAL, -EADDRINUSE (address held by another process), -ENETUNREACH ... */
int engine_qp_modify(struct engine_qp *qp, const struct ibv_qp_attr *attr, int mask);
void engine_qp_query(struct engine_qp *qp, struct ibv_qp_attr *attr,
		     struct ibv_qp_init_attr *init_attr);
enum ibv_qp_state engine_qp_state(const struct engine_qp *qp);
/*
 * ibv_attach_mcast, ibv_detach_mcast (multicast.c): @gid names the group. Attaching twice is as
 * good as once. -EINVAL (no UD QP, no multicast address, not attached), -ENOSPC, and what the
 * system says.
 */
int engine_qp_attach(struct engine_qp *qp, const uint8_t *gid);
int engine_qp_detach(struct engine_qp *qp, const uint8_t *gid);
/*
 * -EBUSY while it is attached. Its completions vanish from the CQs, its unread events from the
 * async queue.
 */
int engine_qp_destroy(struct engine_qp *qp);
/*
 * A further handle of the XRC_RECV QP of that number (xrc.c): its events go to @async as well, about
 * @object. -EINVAL: the domain has none.
 */
int engine_qp_open(struct engine_xrcd *xrcd, uint32_t number, struct event_queue *async,
		   void *object, struct engine_qp **qp);
/*
 * engine_qp_destroy() for the handle of @object. The QP ends with the last of them; otherwise
 * unread events of this one are dropped, and no more come.
 */
int engine_qp_close(struct engine_qp *qp, const void *object);

/* --- address handles (ah.c) --- */

/*
 * Looks into @attr, by which datagrams leave from @device. -EINVAL, and what a link may say, as
 * at RTR. What was posted with a handle goes where it should when the handle is destroyed.
 */
int engine_ah_create(struct engine_pd *pd, const struct device *device,
		     const struct ibv_ah_attr *attr, struct engine_ah **ah);
/* What work requests point at, and back. Its fields are the face's. */
struct ibv_ah *engine_ah_shown(struct engine_ah *ah);
struct engine_ah *engine_ah_of(struct ibv_ah *shown);
void engine_ah_destroy(struct engine_ah *ah);

/* --- posting (post.c) --- */

/* Lists as in ibv_post_send: a positive errno and *@bad on the first refused. */
int engine_post_send(struct engine_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad);
/* The same, but all of @list or nothing of it (ibv_wr_complete). */
int engine_post_send_all(struct engine_qp *qp, struct ibv_send_wr *list);
/* IBV_WR_BIND_MW of @mw, of type 1. A positive errno; EPERM: QP and window are of two PDs. */
int engine_post_bind_type_1(struct engine_qp *qp, const struct engine_mw *mw,
			    struct ibv_send_wr *wr);
int engine_post_recv(struct engine_qp *qp, struct ibv_recv_wr *list, struct ibv_recv_wr **bad);

#endif
