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
 * Lock order: link receive (tried only), QP, CQ, event queue. A program's thread
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
#include "engine/settings.h"

struct engine;
struct engine_pd;
struct engine_mr;
struct engine_cq;
struct engine_qp;

/* --- the engine (engine.c) --- */

int engine_create(const struct settings *settings, struct engine **engine);
/* All objects must be gone. */
void engine_destroy(struct engine *engine);
/* True in a child of fork: objects of the parent are dead here; calls answer -EIO. */
bool engine_is_inherited(const struct engine *engine);
const struct settings *engine_settings(const struct engine *engine);

/* --- protection domains (pd.c) --- */

int engine_pd_create(struct engine *engine, struct engine_pd **pd);
/* -EBUSY while MRs or QPs use it. */
int engine_pd_destroy(struct engine_pd *pd);

/* --- memory regions (mr.c) --- */

/*
 * Registers [@address, @address + @length) under a new key, which serves as lkey and
 * rkey. -EINVAL (rights, overflow), -EFAULT (not mapped, or not writable where
 * write is asked), -ENOMEM (table full, memlock limit in strict mode).
 */
int engine_mr_create(struct engine_pd *pd, void *address, uint64_t length, uint64_t iova,
		     uint32_t access, struct engine_mr **mr);
uint32_t engine_mr_key(const struct engine_mr *mr);
/*
 * ibv_rereg_mr: @flags IBV_REREG_MR_CHANGE_*. The key stays, as programs that change
 * only rights rely on. On failure the region is as it was.
 */
int engine_mr_change(struct engine_mr *mr, int flags, struct engine_pd *pd, void *address,
		     uint64_t length, uint64_t iova, uint32_t access);
/* Waits until no access to the region is under way. */
int engine_mr_destroy(struct engine_mr *mr);

/* --- completion queues (cq.c) --- */

/* @channel may be NULL. Events carry @object. Capacity is granted exactly. */
int engine_cq_create(struct engine *engine, uint32_t capacity, struct event_queue *channel,
		     struct event_queue *async, void *object, struct engine_cq **cq);
/* -EBUSY while QPs use it. Unread events of its object are dropped from both queues. */
int engine_cq_destroy(struct engine_cq *cq);
int engine_cq_resize(struct engine_cq *cq, uint32_t capacity);
uint32_t engine_cq_capacity(const struct engine_cq *cq);
/* ibv_poll_cq: up to @count entries; runs the engine when there are none. */
int engine_cq_poll(struct engine_cq *cq, int count, struct ibv_wc *entries);
int engine_cq_arm(struct engine_cq *cq, bool solicited_only);

/* --- queue pairs (qp.c, post.c) --- */

struct engine_qp_attr {
	enum ibv_qp_type type;
	struct ibv_qp_cap cap; /* checked against the device's limits; granted back in place */
	bool signals_all;
	struct engine_cq *send_cq, *recv_cq;
	struct event_queue *async;
	void *object;
	const struct device *device; /* outlives the QP */
};

int engine_qp_create(struct engine_pd *pd, struct engine_qp_attr *attr, struct engine_qp **qp);
uint32_t engine_qp_number(const struct engine_qp *qp);
/* 0 or -errno: -EINVAL, -EADDRINUSE (address held by another process), -ENETUNREACH ... */
int engine_qp_modify(struct engine_qp *qp, const struct ibv_qp_attr *attr, int mask);
void engine_qp_query(struct engine_qp *qp, struct ibv_qp_attr *attr,
		     struct ibv_qp_init_attr *init_attr);
enum ibv_qp_state engine_qp_state(const struct engine_qp *qp);
/* Its completions vanish from the CQs, its unread events from the async queue. */
int engine_qp_destroy(struct engine_qp *qp);
/* Lists as in ibv_post_send: a positive errno and *@bad on the first refused. */
int engine_post_send(struct engine_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad);
/* The same, but all of @list or nothing of it (ibv_wr_complete). */
int engine_post_send_all(struct engine_qp *qp, struct ibv_send_wr *list);
int engine_post_recv(struct engine_qp *qp, struct ibv_recv_wr *list, struct ibv_recv_wr **bad);

#endif
