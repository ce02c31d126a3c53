/* SPDX-License-Identifier: BSD-2-Clause */
/* Life of a QP: limits, its number, state changes, and an end that nobody outlives. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "engine/explain.h"
#include "engine/fault_guard.h"
#include "engine/names.h"
#include "engine/pass.h"

/* QP numbers 0 and 1 are for management, 0xffffff is for multicast. */
#define QPN_MIN 0x10
#define QPN_MASK 0xffffff
#define QPN_MULTICAST 0xffffff
#define QPN_FREE_BITS 7

static int check_limit(const char *name, uint32_t value, uint32_t limit)
{
	if (value <= limit)
		return 0;
	return explain_call(-EINVAL, "ibv_create_qp",
			    "%s is %u and the device allows %u; ask for less (ibv_query_device "
			    "tells the limits)",
			    name, value, limit);
}

static int check_caps(const struct ibv_qp_cap *cap)
{
	int error = check_limit("max_send_wr", cap->max_send_wr, DEVICE_MAX_QP_WR);

	if (!error)
		error = check_limit("max_recv_wr", cap->max_recv_wr, DEVICE_MAX_QP_WR);
	if (!error)
		error = check_limit("max_send_sge", cap->max_send_sge, DEVICE_MAX_SGE);
	if (!error)
		error = check_limit("max_recv_sge", cap->max_recv_sge, DEVICE_MAX_SGE);
	if (!error)
		error = check_limit("max_inline_data", cap->max_inline_data, DEVICE_MAX_INLINE);
	return error;
}

/* Draws a number and publishes the QP under it. */
static int take_number(struct engine *engine, struct engine_qp *qp)
{
	struct pin_slot *slot = NULL;
	uint32_t number = 0;

	pthread_mutex_lock(&engine->qps_lock);
	while (!slot && !pin_table_is_full(&engine->qps)) {
		number = random_number() & QPN_MASK;
		if (number >= QPN_MIN && number != QPN_MULTICAST)
			slot = pin_table_claim(&engine->qps, number);
	}
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
	return 0;
}

static int make_core(struct engine_qp *qp, const struct engine_qp_attr *attr)
{
	size_t bytes = qp_bytes(&attr->cap);
	void *memory = bytes ? aligned_alloc(64, (bytes + 63) & ~(size_t)63) : NULL;

	if (!memory)
		return -ENOMEM;
	memset(memory, 0, bytes);
	qp->qp = qp_init(memory, &attr->cap, attr->type, 0, qp->pd->number, attr->signals_all);
	return 0;
}

int engine_qp_create(struct engine_pd *pd, struct engine_qp_attr *attr, struct engine_qp **qp)
{
	struct engine *engine = pd->engine;
	struct engine_qp *created;
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	if (attr->type != IBV_QPT_RC)
		return explain_call(-EOPNOTSUPP, "ibv_create_qp",
				    "only reliable connections (IBV_QPT_RC) are offered");
	error = check_caps(&attr->cap);
	if (error)
		return error;
	created = calloc(1, sizeof(*created));
	if (!created)
		return -ENOMEM;
	created->engine = engine;
	created->pd = pd;
	created->send_cq = attr->send_cq;
	created->recv_cq = attr->recv_cq;
	created->async = attr->async;
	created->object = attr->object;
	created->device = attr->device;
	created->signals_all = attr->signals_all;
	error = make_core(created, attr);
	if (!error) {
		pthread_mutex_init(&created->lock, NULL);
		error = take_number(engine, created);
	}
	if (error) {
		free(created->qp);
		free(created);
		return error;
	}
	atomic_fetch_add(&pd->user_count, 1);
	atomic_fetch_add(&attr->send_cq->user_count, 1);
	atomic_fetch_add(&attr->recv_cq->user_count, 1);
	pin_slot_publish(&created->slot->pin, created->qp->number);
	*qp = created;
	return 0;
}

uint32_t engine_qp_number(const struct engine_qp *qp)
{
	return qp->qp->number;
}

static void purge_cq(struct engine_cq *cq, const struct engine_qp *qp)
{
	pthread_mutex_lock(&cq->lock);
	completion_queue_purge(&cq->queue, qp);
	pthread_mutex_unlock(&cq->lock);
}

static void tell_flushes(struct engine_qp *qp)
{
	explain_flushes(qp->qp->number, qp->flush_count);
	qp->flush_count = 0;
}

static struct qp_limits limits_of(const struct device *device)
{
	return (struct qp_limits){
		.port_count = 1,
		.pkey_count = 1,
		.gid_count = DEVICE_GIDS_MAX,
		.active_mtu = device->active_mtu,
		.rd_atomic_max = QP_RD_ATOMIC_MAX,
		.is_infiniband = device->is_infiniband,
	};
}

/* The QP's lock is held. */
static int modify_locked(struct engine_qp *qp, const struct ibv_qp_attr *attr, int mask,
			 struct pass *pass)
{
	struct qp_limits limits = limits_of(qp->device);
	const char *rule = "";
	struct path path;
	bool goes_to_rtr = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR;
	bool resets = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET;
	int error = qp_modify_check(qp->qp, attr, mask, &limits, &rule);

	if (error)
		return explain_call(-error, "ibv_modify_qp", "QP 0x%06x in %s: %s", qp->qp->number,
				    name_of_state(qp->qp->state), rule);
	if (goes_to_rtr) {
		error = connect_path(qp, attr, &path);
		if (error)
			return error;
	}
	if (resets) {
		tell_flushes(qp);
		purge_cq(qp->send_cq, qp);
		purge_cq(qp->recv_cq, qp);
	}
	qp_modify(qp->qp, attr, mask, goes_to_rtr ? &path : NULL, &pass->core);
	run_qp(qp, pass);
	if (resets)
		connect_release(qp);
	return 0;
}

int engine_qp_modify(struct engine_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct engine *engine = qp->engine;
	struct pass *pass;
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	fault_guard_look_again();
	pass = pass_begin(engine);
	pthread_mutex_lock(&qp->lock);
	error = modify_locked(qp, attr, mask, pass);
	pthread_mutex_unlock(&qp->lock);
	pass_end(pass);
	if (!error && (mask & IBV_QP_STATE) && attr->qp_state != IBV_QPS_RESET)
		helper_start(engine);
	progress_after_send(engine);
	return error;
}

void engine_qp_query(struct engine_qp *qp, struct ibv_qp_attr *attr,
		     struct ibv_qp_init_attr *init_attr)
{
	pthread_mutex_lock(&qp->lock);
	if (attr)
		qp_query(qp->qp, attr);
	if (init_attr) {
		init_attr->cap = qp->qp->cap;
		init_attr->qp_type = qp->qp->type;
		init_attr->sq_sig_all = qp->signals_all;
	}
	pthread_mutex_unlock(&qp->lock);
}

enum ibv_qp_state engine_qp_state(const struct engine_qp *qp)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&qp->lock;
	enum ibv_qp_state state;

	pthread_mutex_lock(lock);
	state = qp->qp->state;
	pthread_mutex_unlock(lock);
	return state;
}

/* After this nobody finds the QP, and nobody who found it still works on it. */
static void withdraw(struct engine_qp *qp)
{
	struct engine *engine = qp->engine;

	pin_slot_retire(&qp->slot->pin);
	pthread_mutex_lock(&qp->lock);
	timers_set(&engine->timers, &qp->timer, VBN_TIME_NEVER);
	pthread_mutex_unlock(&qp->lock);
	while (!pin_slot_is_idle(&qp->slot->pin))
		sched_yield();
	/* Whoever still had it pinned may have set the timer again. */
	timers_set(&engine->timers, &qp->timer, VBN_TIME_NEVER);
}

int engine_qp_destroy(struct engine_qp *qp)
{
	struct engine *engine = qp->engine;

	if (!engine_is_inherited(engine)) {
		withdraw(qp);
		tell_flushes(qp);
		qp_fini(qp->qp, &engine->holds);
		connect_release(qp);
		purge_cq(qp->send_cq, qp);
		purge_cq(qp->recv_cq, qp);
		if (qp->async)
			event_queue_purge(qp->async, qp->object);
		pthread_mutex_lock(&engine->qps_lock);
		pin_table_release(&engine->qps, &qp->slot->pin);
		pthread_mutex_unlock(&engine->qps_lock);
		pthread_mutex_destroy(&qp->lock);
		atomic_fetch_sub(&qp->send_cq->user_count, 1);
		atomic_fetch_sub(&qp->recv_cq->user_count, 1);
		atomic_fetch_sub(&qp->pd->user_count, 1);
	}
	free(qp->qp);
	free(qp);
	return 0;
}
