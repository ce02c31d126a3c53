/* SPDX-License-Identifier: BSD-2-Clause */
/* Life of a QP: limits, its number, state changes, and an end that nobody outlives. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ah.h"
#include "engine/connect.h"
#include "engine/explain.h"
#include "engine/fault_guard.h"
#include "engine/names.h"
#include "engine/pass.h"
#include "engine/profile.h"
#include "engine/xrc.h"

/* QP numbers 0 and 1 are for management, 0xffffff is for multicast. */
#define QPN_MIN 0x10
/* A number that was just in use may still be on packets under way: it rests. */
#define QPN_REST_NS (1 * VBN_SECOND)
/* After so many draws of resting numbers a tired one is better than none. */
#define QPN_REST_DRAWS 256
#define QP_ALIGNMENT 64

static int check_limit(const char *name, uint32_t value, uint32_t limit)
{
	if (value <= limit)
		return 0;
	return explain_call(-EINVAL, "ibv_create_qp",
			    "%s is %u and the device allows %u; ask for less (ibv_query_device "
			    "tells the limits)",
			    name, value, limit);
}

static int check_caps(const struct profile *profile, const struct ibv_qp_cap *cap)
{
	int error = check_limit("max_send_wr", cap->max_send_wr, profile->qp_wr_max);

	if (!error)
		error = check_limit("max_recv_wr", cap->max_recv_wr, profile->qp_wr_max);
	if (!error)
		error = check_limit("max_send_sge", cap->max_send_sge, profile->sge_max);
	if (!error)
		error = check_limit("max_recv_sge", cap->max_recv_sge, profile->sge_max);
	if (!error)
		error = check_limit("max_inline_data", cap->max_inline_data, profile->inline_max);
	return error;
}

static bool is_resting(const struct pin_slot *slot, vbn_time now)
{
	const struct qp_slot *qp_slot = (const struct qp_slot *)slot;

	return qp_slot->freed_at && now < qp_slot->freed_at + QPN_REST_NS;
}

/* NULL: the table is full. Under qps_lock. */
static struct pin_slot *draw_number(struct engine *engine, uint32_t *number)
{
	vbn_time now = clock_now();

	for (uint32_t draws = 0; !pin_table_is_full(&engine->qps); draws++) {
		struct pin_slot *slot;

		*number = membership_draw_qpn(engine);
		if (*number < QPN_MIN || *number == MULTICAST_QPN)
			continue;
		slot = pin_table_claim(&engine->qps, *number);
		if (!slot)
			continue;
		if (draws >= QPN_REST_DRAWS || !is_resting(slot, now))
			return slot;
		pin_slot_retire(slot);
		pin_table_release(&engine->qps, slot);
	}
	return NULL;
}

/* Draws a number and publishes the QP under it. */
static int take_number(struct engine *engine, struct engine_qp *qp)
{
	struct pin_slot *slot;
	uint64_t incarnation;
	uint32_t number = 0;

	pthread_mutex_lock(&engine->qps_lock);
	incarnation = ++engine->qp_incarnations;
	slot = draw_number(engine, &number);
	if (slot && !timers_reserve(&engine->timers, engine->qps.used_count)) {
		pin_slot_retire(slot);
		pin_table_release(&engine->qps, slot);
		slot = NULL;
	}
	pthread_mutex_unlock(&engine->qps_lock);
	if (!slot)
		return explain_call(-ENOMEM, "ibv_create_qp", "the device has only %d QPs",
				    DEVICE_MAX_QP);
	qp->slot = (struct qp_slot *)slot;
	qp->slot->qp = qp;
	qp->qp->number = number;
	qp->qp->incarnation = incarnation;
	return 0;
}

static int make_core(struct engine_qp *qp, const struct engine_qp_attr *attr)
{
	size_t bytes = qp_bytes(&attr->cap);
	int error = bytes ? queue_memory_take(&qp->memory, "ibv_create_qp", attr->allocator, bytes,
					      QP_ALIGNMENT, QUEUE_MEMORY_QP)
			  : -ENOMEM;

	if (error)
		return error;
	memset(qp->memory.bytes, 0, bytes);
	qp->qp = qp_init(qp->memory.bytes, &attr->cap, attr->type, 0, qp->pd->number,
			 attr->signals_all);
	if (qp->srq)
		qp_attach_srq(qp->qp, &qp->srq->srq);
	if (qp->xrcd) {
		qp_attach_xrc(qp->qp, &qp->xrcd->domain);
		return xrc_prepare_qp(qp);
	}
	return qp_is_datagram(qp->qp) ? ah_slots_create(qp) : 0;
}

static void free_parts(struct engine_qp *qp)
{
	ah_slots_destroy(qp);
	queue_memory_give_back(&qp->memory);
	xrc_free_qp(qp);
}

static bool is_offered(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
	       type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/* Queues that a QP does not have, and CQs that stand in for those it needs not. */
static void leave_out_halves(struct engine_qp_attr *attr)
{
	if (attr->type == IBV_QPT_XRC_RECV) {
		attr->cap = (struct ibv_qp_cap){0};
		attr->send_cq = attr->recv_cq = attr->xrcd->cq;
	}
	if (attr->type == IBV_QPT_XRC_SEND)
		attr->recv_cq = attr->send_cq;
	if (attr->srq || attr->type == IBV_QPT_XRC_SEND)
		attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
}

int engine_qp_create(struct engine_pd *pd, struct engine_qp_attr *attr, struct engine_qp **qp)
{
	struct engine *engine = pd->engine;
	struct engine_qp *created;
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	if (!is_offered(attr->type))
		return explain_call(-EOPNOTSUPP, "ibv_create_qp",
				    "only connections, reliable (IBV_QPT_RC, IBV_QPT_XRC_SEND, "
				    "IBV_QPT_XRC_RECV) or not (IBV_QPT_UC), and datagrams "
				    "(IBV_QPT_UD) are offered");
	leave_out_halves(attr);
	error = check_caps(profile_of(&engine->settings), &attr->cap);
	if (error)
		return error;
	created = calloc(1, sizeof(*created));
	if (!created)
		return -ENOMEM;
	membership_join(engine);
	created->engine = engine;
	created->pd = pd;
	created->send_cq = attr->send_cq;
	created->recv_cq = attr->recv_cq;
	created->srq = attr->srq;
	created->xrcd = attr->xrcd;
	created->maker = (struct qp_listener){.async = attr->async, .object = attr->object};
	LIST_INSERT_HEAD(&created->listeners, &created->maker, next);
	created->device = attr->device;
	created->signals_all = attr->signals_all;
	error = make_core(created, attr);
	if (!error) {
		brief_lock_init(&created->lock);
		error = take_number(engine, created);
	}
	if (error) {
		free_parts(created);
		free(created);
		return error;
	}
	statistics_add(created);
	atomic_fetch_add(&pd->user_count, 1);
	atomic_fetch_add(&attr->send_cq->user_count, 1);
	atomic_fetch_add(&attr->recv_cq->user_count, 1);
	if (attr->srq)
		atomic_fetch_add(&attr->srq->user_count, 1);
	if (attr->xrcd)
		xrc_add_qp(created);
	pin_slot_publish(&created->slot->pin, created->qp->number);
	*qp = created;
	return 0;
}

uint32_t engine_qp_number(const struct engine_qp *qp)
{
	return qp->qp->number;
}

static void purge_events(struct engine_qp *qp)
{
	const struct qp_listener *listener;

	LIST_FOREACH(listener, &qp->listeners, next)
	if (listener->async)
		event_queue_purge(listener->async, listener->object);
}

static void purge_cqs(const struct engine_qp *qp)
{
	cq_purge(qp->send_cq, qp);
	cq_purge(qp->recv_cq, qp);
	if (qp->xrcd)
		xrc_purge(qp);
}

static void tell_flushes(struct engine_qp *qp)
{
	explain_flushes(qp->qp->number, qp->flush_count);
	qp->flush_count = 0;
}

/* The QP's lock is held. */
static int modify_locked(struct engine_qp *qp, const struct ibv_qp_attr *attr, int mask,
			 struct pass *pass)
{
	struct qp_limits limits = connect_limits(qp->engine, qp->device);
	const char *rule = "";
	struct path path;
	bool goes_to_rtr = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR;
	bool resets = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET;
	int error = qp_modify_check(qp->qp, attr, mask, &limits, &rule);

	if (error)
		return explain_call(-error, "ibv_modify_qp", "QP 0x%06x in %s: %s", qp->qp->number,
				    name_of_state(qp->qp->state), rule);
	if (goes_to_rtr) {
		error = qp->ahs ? connect_datagrams(qp, &path) : connect_path(qp, attr, &path);
		if (error)
			return error;
	}
	if ((mask & IBV_QP_STATE) && (resets || attr->qp_state == IBV_QPS_ERR))
		run_owed_ack(qp, pass);
	if (resets) {
		tell_flushes(qp);
		purge_cqs(qp);
	}
	srq_enter(qp);
	qp_modify(qp->qp, attr, mask, goes_to_rtr ? &path : NULL, &pass->core);
	srq_leave(qp);
	run_qp(qp, pass);
	if (resets) {
		connect_release(qp);
		ah_slots_clear(qp);
	}
	statistics_change(qp);
	return 0;
}

int engine_qp_modify(struct engine_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct engine *engine = qp->engine;
	struct pass *pass;
	bool is_near;
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	fault_guard_look_again();
	pass = pass_begin(engine);
	brief_lock_take(&qp->lock);
	error = modify_locked(qp, attr, mask, pass);
	is_near = qp->direct.is_on;
	brief_lock_release(&qp->lock);
	pass_end(pass);
	if (!error && is_near && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR)
		regions_come_near(qp->pd);
	if (!error && (mask & IBV_QP_STATE) && attr->qp_state != IBV_QPS_RESET) {
		helper_start(engine);
		engine_watch_ports(engine);
	}
	progress_after_send(engine);
	return error;
}

void engine_qp_query(struct engine_qp *qp, struct ibv_qp_attr *attr,
		     struct ibv_qp_init_attr *init_attr)
{
	brief_lock_take(&qp->lock);
	if (attr)
		qp_query(qp->qp, attr);
	if (init_attr) {
		init_attr->cap = qp->qp->cap;
		init_attr->qp_type = qp->qp->type;
		init_attr->sq_sig_all = qp->signals_all;
	}
	brief_lock_release(&qp->lock);
}

enum ibv_qp_state engine_qp_state(const struct engine_qp *qp)
{
	struct brief_lock *lock = (struct brief_lock *)&qp->lock;
	enum ibv_qp_state state;

	brief_lock_take(lock);
	state = qp->qp->state;
	brief_lock_release(lock);
	return state;
}

/* A message that the program was told of is acknowledged, whatever becomes of the QP. */
static void send_owed_ack(struct engine_qp *qp)
{
	struct pass *pass = pass_begin(qp->engine);

	brief_lock_take(&qp->lock);
	run_owed_ack(qp, pass);
	brief_lock_release(&qp->lock);
	pass_end(pass);
}

static void unset_timers(struct engine_qp *qp)
{
	timers_set(&qp->engine->timers, &qp->timer, VBN_TIME_NEVER);
	held_acks_set(qp, VBN_TIME_NEVER);
}

/* After this nobody finds the QP, and nobody who found it still works on it. */
static void withdraw(struct engine_qp *qp)
{
	send_owed_ack(qp);
	pin_slot_retire(&qp->slot->pin);
	brief_lock_take(&qp->lock);
	unset_timers(qp);
	direct_disconnect(qp);
	qp->qp->path.reach = NULL;
	brief_lock_release(&qp->lock);
	while (!pin_slot_is_idle(&qp->slot->pin))
		sched_yield();
	/* Whoever still had it pinned may have set the timer again. */
	unset_timers(qp);
}

static bool is_attached(struct engine_qp *qp)
{
	bool is_attached;

	pthread_mutex_lock(&qp->engine->groups.lock);
	is_attached = qp->group_count != 0;
	pthread_mutex_unlock(&qp->engine->groups.lock);
	return is_attached;
}

int engine_qp_destroy(struct engine_qp *qp)
{
	struct engine *engine = qp->engine;

	if (!engine_is_inherited(engine)) {
		if (is_attached(qp))
			return explain_call(-EBUSY, "ibv_destroy_qp",
					    "QP 0x%06x is attached to a multicast group; detach it "
					    "first (ibv_detach_mcast)",
					    qp->qp->number);
		withdraw(qp);
		tell_flushes(qp);
		srq_enter(qp);
		qp_fini(qp->qp, &engine->holds);
		srq_leave(qp);
		statistics_remove(qp);
		connect_release(qp);
		purge_cqs(qp);
		if (qp->xrcd)
			xrc_remove_qp(qp);
		purge_events(qp);
		pthread_mutex_lock(&engine->qps_lock);
		qp->slot->freed_at = clock_now();
		pin_table_release(&engine->qps, &qp->slot->pin);
		pthread_mutex_unlock(&engine->qps_lock);
		brief_lock_fini(&qp->lock);
		atomic_fetch_sub(&qp->send_cq->user_count, 1);
		atomic_fetch_sub(&qp->recv_cq->user_count, 1);
		if (qp->srq)
			atomic_fetch_sub(&qp->srq->user_count, 1);
		/* The allocator ends with the PD. */
		free_parts(qp);
		atomic_fetch_sub(&qp->pd->user_count, 1);
	} else {
		free_parts(qp);
	}
	free(qp);
	return 0;
}
