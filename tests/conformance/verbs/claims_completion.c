/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and channels. */
#include "conformance/verbs/claims.h"

static bool send_and_receive(const struct room *room)
{
	struct ibv_send_wr wr = room_request(room, IBV_WR_SEND, NULL);

	return room_post_receive(&room->far, room->far.qp) && room_post_send(room->near.qp, &wr);
}

static void channels(struct room *room)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(room->nic.context);
	struct ibv_cq *cq = NULL;
	void *context = NULL;
	bool is_armed = ibv_req_notify_cq(room->far.cq, 0) == 0 && send_and_receive(room);
	bool has_come = is_armed && room_is_readable(room->channel->fd) &&
			ibv_get_cq_event(room->channel, &cq, &context) == 0;

	WORKS("ibv_create_comp_channel", channel && channel->fd >= 0);
	WORKS("ibv_destroy_comp_channel", channel && ibv_destroy_comp_channel(channel) == 0);
	WORKS("ibv_req_notify_cq", has_come && room_await_success(room->far.cq, IBV_WC_RECV));
	WORKS("ibv_get_cq_event", cq == room->far.cq && context == &room->far);
	WORKS("ibv_poll_cq", room_await_success(room->near.cq, IBV_WC_SEND));
	/* The CQ is destroyed when all is over, which would wait for ever otherwise. */
	if (has_come)
		ibv_ack_cq_events(cq, 1);
	WORKS("ibv_ack_cq_events", has_come && room->far.cq->comp_events_completed == 1);
}

static void queues(struct room *room)
{
	struct ibv_context *context = room->nic.context;
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					      .moderate = {.cq_count = 4, .cq_period = 100}};
	struct ibv_modify_cq_attr other = {.attr_mask = IBV_CQ_ATTR_RESERVED};

	WORKS("ibv_create_cq", cq && cq->cqe == 10);
	LIMIT("ibv_create_cq", ERROR_OF_NULL(ibv_create_cq(context, 10, NULL, NULL, 1)),
	      "there is one completion vector, number 0");
	WORKS("ibv_resize_cq", cq && ibv_resize_cq(cq, 100) == 0 && cq->cqe == 100);
	WORKS("ibv_modify_cq", cq && ibv_modify_cq(cq, &moderate) == 0);
	LIMIT("ibv_modify_cq", ibv_modify_cq(cq, &other), "anything but moderation");
	WORKS("ibv_destroy_cq",
	      cq && ibv_destroy_cq(room->near.cq) == EBUSY && ibv_destroy_cq(cq) == 0);
}

void claims_about_completions(struct room *room)
{
	claim_heading("Completion queues");
	channels(room);
	queues(room);
}
