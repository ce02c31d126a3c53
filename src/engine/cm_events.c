/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What endpoints tell: notices in the queue of their channel, and the meaning of what the agent
 * says.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cm_state.h"
#include "engine/engine_state.h"

static bool queue(struct engine_cm_id *id, struct engine_cm_group *group, void *user,
		  const struct cm_told *told)
{
	struct cm_notice *notice;
	struct event event;

	if (!id->channel || !user || id->stage == CM_STAGE_DESTROYED)
		return true;
	notice = malloc(sizeof(*notice));
	if (!notice)
		return false;
	notice->id = id;
	notice->group = group;
	notice->told = *told;
	notice->told.user = user;
	LIST_INSERT_HEAD(&id->notices, notice, next);
	event = (struct event){.object = notice};
	event_queue_push(id->channel, &event);
	return true;
}

bool cm_tell(struct engine_cm_id *id, const struct cm_told *told)
{
	return queue(id, NULL, id->user, told);
}

bool cm_tell_group(struct engine_cm_group *group, const struct cm_told *told)
{
	return queue(group->id, group, group->user, told);
}

bool cm_tell_type(struct engine_cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct cm_told told = {
		.type = type, .status = status, .is_datagram = id->qp_type == IBV_QPT_UD};

	return cm_tell(id, &told);
}

/* A request that nobody heard of is refused. */
static void drop(struct cm_notice *notice, struct cm_turn *turn)
{
	struct engine_cm_id *request = notice->told.request;

	LIST_REMOVE(notice, next);
	free(notice);
	if (request) {
		cm_id_end(request, turn);
		engine_cm_free(request);
	}
}

void cm_untell(struct engine_cm_id *id, const struct engine_cm_group *group, struct cm_turn *turn)
{
	struct cm_notice *notice, *next;

	for (notice = LIST_FIRST(&id->notices); notice; notice = next) {
		next = LIST_NEXT(notice, next);
		if (group && notice->group != group)
			continue;
		cm_turn_make_room(turn);
		if (event_queue_purge(id->channel, notice)) {
			drop(notice, turn);
			continue;
		}
		/* Somebody has popped it and is on the way to engine_cm_get_event()'s end. */
		LIST_REMOVE(notice, next);
		notice->id = NULL;
		notice->group = NULL;
	}
}

/* Under the lock of the queue: the endpoint is there as long as its notice waits. */
static void count(const struct event *event)
{
	struct cm_notice *notice = event->object;

	atomic_fetch_add_explicit(&notice->id->reported, 1, memory_order_relaxed);
	if (notice->group)
		atomic_fetch_add_explicit(&notice->group->reported, 1, memory_order_relaxed);
}

int engine_cm_get_event(struct engine *engine, struct event_queue *channel, struct cm_told *told)
{
	struct connections *connections;
	struct cm_notice *notice;
	struct event event;

	if (deputy_pop(engine, channel, &event, count) != 0)
		return -1;
	notice = event.object;
	connections = connections_of(engine);
	pthread_mutex_lock(&connections->lock);
	if (notice->id) {
		LIST_REMOVE(notice, next);
		if (notice->told.request)
			notice->id->backlog++;
	}
	*told = notice->told;
	if (told->request)
		told->request->channel = channel;
	pthread_mutex_unlock(&connections->lock);
	free(notice);
	return 0;
}

/* --- what the agent says --- */

static void copy_private_data(struct cm_told *told, const struct cm_message *message)
{
	told->private_data_length = message->private_bytes;
	memcpy(told->private_data, message->private_data, message->private_bytes);
}

/* The answer to our request. */
static void tell_response(struct engine_cm_id *id, const struct cm_message *rep)
{
	struct cm_told told = {
		.type = RDMA_CM_EVENT_CONNECT_RESPONSE,
		.conn =
			{
				/* As seen from here. */
				.responder_resources = rep->rep.initiator_depth,
				.initiator_depth = rep->rep.responder_resources,
				.flow_control = rep->rep.flow_control,
				.rnr_retry_count = rep->rep.rnr_retry_count,
				.srq = rep->rep.srq,
				.qp_num = cm_rep_qpn(&rep->rep, id->connection->service_type),
			},
		.ece = {rep->ece_vendor, rep->ece_options},
	};

	if (id->stage != CM_STAGE_CONNECT)
		return;
	cm_learn_answer(id, rep);
	copy_private_data(&told, rep);
	cm_tell(id, &told);
}

static void tell_rejected(struct engine_cm_id *id, const struct cm_event *event)
{
	struct cm_told told = {.type = RDMA_CM_EVENT_REJECTED, .status = event->reason};

	if (id->stage != CM_STAGE_CONNECT)
		return;
	/* All of the area, also where the peer sent no message. */
	told.private_data_length = CM_REJ_PRIVATE_BYTES;
	if (event->has_message && event->message.kind == CM_REJ)
		copy_private_data(&told, &event->message);
	cm_tell(id, &told);
}

static void tell_disconnected(struct engine_cm_id *id, const struct cm_event *event)
{
	if (id->stage != CM_STAGE_CONNECT)
		return;
	id->stage = CM_STAGE_DISCONNECT;
	cm_tell_type(id, RDMA_CM_EVENT_DISCONNECTED,
		     event->reason == CM_REJECT_TIMEOUT ? -ETIMEDOUT : 0);
}

static void tell_datagram_answer(struct engine_cm_id *id, const struct cm_event *event)
{
	const struct cm_message *rep = &event->message;
	struct cm_told told = {.type = RDMA_CM_EVENT_ESTABLISHED, .is_datagram = true};
	struct ibv_ah_attr *ah = &told.ud.ah_attr;

	if (id->stage != CM_STAGE_CONNECT)
		return;
	copy_private_data(&told, rep);
	told.ece = (struct cm_ece){rep->ece_vendor, rep->ece_options};
	if (event->reason != CM_SIDR_SUCCESS) {
		told.type = RDMA_CM_EVENT_UNREACHABLE;
		told.status = event->reason;
	} else if (id->qkey && rep->sidr_rep.qkey && id->qkey != rep->sidr_rep.qkey) {
		told.type = RDMA_CM_EVENT_ADDR_ERROR;
		told.status = -EINVAL;
	} else {
		cm_fill_address_vector(id, ah);
		told.ud.qp_num = rep->sidr_rep.qpn;
		told.ud.qkey = rep->sidr_rep.qkey;
		id->qkey = rep->sidr_rep.qkey;
	}
	cm_tell(id, &told);
}

static void tell_unanswered(struct engine_cm_id *id)
{
	if (id->stage == CM_STAGE_CONNECT)
		cm_tell_type(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

/* Of our own requests the face tells when the answer was accepted. */
static void tell_established(struct engine_cm_id *id)
{
	if (id->stage == CM_STAGE_CONNECT && id->connection->is_passive)
		cm_tell_type(id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void tell_timewait_exit(struct engine_cm_id *id)
{
	if (id->stage == CM_STAGE_DISCONNECT)
		cm_tell_type(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

void cm_tell_event(struct cm_turn *turn, const struct cm_event *event)
{
	struct engine_cm_id *id;

	if (event->kind == CM_EVENT_GONE) {
		free(event->connection);
		return;
	}
	if (event->kind == CM_EVENT_REQUEST || event->kind == CM_EVENT_SIDR_REQUEST) {
		cm_request_taken(turn, event);
		return;
	}
	id = event->connection->owner;
	/* Nothing but GONE follows a release; until then the owner is there. */
	switch (event->kind) {
	case CM_EVENT_RESPONSE:
		tell_response(id, &event->message);
		break;
	case CM_EVENT_ESTABLISHED:
		tell_established(id);
		break;
	case CM_EVENT_REJECTED:
		tell_rejected(id, event);
		break;
	case CM_EVENT_UNREACHABLE:
	case CM_EVENT_CONNECT_ERROR:
		tell_unanswered(id);
		break;
	case CM_EVENT_DISCONNECTED:
		tell_disconnected(id, event);
		break;
	case CM_EVENT_TIMEWAIT_EXIT:
		tell_timewait_exit(id);
		break;
	case CM_EVENT_SIDR_RESPONSE:
		tell_datagram_answer(id, event);
		break;
	case CM_EVENT_REQUEST:
	case CM_EVENT_SIDR_REQUEST:
	case CM_EVENT_GONE:
	case CM_EVENT_KIND_COUNT:
		break;
	}
}
