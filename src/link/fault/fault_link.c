/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fault injection around a link: packets that are sent are lost, repeated, delayed,
 * reordered and damaged as a plan says; what is received passes untouched, so that two
 * ends with the same plan lose each packet once. Always lossy, whatever is inside.
 *
 * A packet that is held back waits in a list by due time and leaves at the next
 * receive() after it; next_deadline() tells the engine when to call.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "link/fault/fault_plan.h"
#include "link/link.h"
#include "wire/mad.h"
#include "wire/packet.h"

/* More than that in waiting is a queue that overflows: lost. */
#define HELD_MAX 4096

struct held_message {
	TAILQ_ENTRY(held_message) next;
	vbn_time due;
	struct link_route route;
	uint32_t damaged_bit;
	bool is_lent;
	uint32_t length;
	uint8_t bytes[];
};

struct fault_link {
	struct link link;
	struct link *inner;
	struct fault_plan plan;
	pthread_mutex_t lock; /* of the stream and the list; a leaf */
	struct random_stream stream;
	uint32_t cm_count; /* of the connection manager's messages that were sent */
	TAILQ_HEAD(held_list, held_message) held; /* by due time */
	uint32_t held_count;
	struct send_batch batch; /* for what is due; used under the receive lock */
};

static int fault_open_route(struct link *link, const struct link_path *path,
			    struct link_route *route)
{
	struct fault_link *fault = (struct fault_link *)link;

	return fault->inner->ops->open_route(fault->inner, path, route);
}

static void hold_message(struct fault_link *fault, const struct link_route *route,
			 const uint8_t *bytes, const struct send_message *message, vbn_time due)
{
	struct held_message *held, *before;

	if (fault->held_count >= HELD_MAX || !(held = malloc(sizeof(*held) + message->length)))
		return;
	held->due = due;
	held->route = *route;
	held->damaged_bit = message->damaged_bit;
	held->is_lent = message->is_lent;
	held->length = message->length;
	memcpy(held->bytes, bytes + message->offset, message->length);
	fault->held_count++;
	TAILQ_FOREACH_REVERSE(before, &fault->held, held_list, next)
	{
		if (before->due <= due) {
			TAILQ_INSERT_AFTER(&fault->held, before, held, next);
			return;
		}
	}
	TAILQ_INSERT_HEAD(&fault->held, held, next);
}

static bool is_of_cm(const uint8_t *bytes, uint32_t length)
{
	struct mad_header header;
	struct packet packet;

	return packet_parse(bytes, length, &packet) == REASON_NONE && packet.dest_qpn == MAD_QPN &&
	       mad_parse(packet.payload, packet.payload_bytes, &header) == REASON_NONE &&
	       header.mgmt_class == MAD_CLASS_CM;
}

/* False: the message does not leave with this batch. */
static bool judge_message(struct fault_link *fault, const struct link_route *route,
			  const uint8_t *bytes, struct send_message *message, vbn_time now)
{
	struct fault_decision decision =
		fault_plan_decide(&fault->plan, &fault->stream, message->length + ICRC_BYTES);

	if (fault->plan.cm_loss_last && is_of_cm(bytes + message->offset, message->length) &&
	    fault_plan_loses_cm(&fault->plan, ++fault->cm_count))
		return false;
	if (decision.is_dropped)
		return false;
	if (decision.is_duplicated)
		hold_message(fault, route, bytes, message,
			     vbn_time_add(now, decision.duplicate_delay_ns));
	if (decision.is_corrupted)
		message->damaged_bit = 1 + decision.corrupt_bit;
	if (!decision.delay_ns)
		return true;
	hold_message(fault, route, bytes, message, vbn_time_add(now, decision.delay_ns));
	return false;
}

static void fault_send(struct link *link, const struct link_route *route, struct send_batch *batch,
		       vbn_time now)
{
	struct fault_link *fault = (struct fault_link *)link;
	uint32_t kept = 0;

	pthread_mutex_lock(&fault->lock);
	for (uint32_t i = 0; i < batch->message_count; i++) {
		struct send_message message = batch->messages[i];

		if (judge_message(fault, route, batch->bytes, &message, now))
			batch->messages[kept++] = message;
	}
	pthread_mutex_unlock(&fault->lock);
	batch->message_count = kept;
	if (kept)
		fault->inner->ops->send(fault->inner, route, batch, now);
}

static struct held_message *take_due(struct fault_link *fault, vbn_time now)
{
	struct held_message *held;

	pthread_mutex_lock(&fault->lock);
	held = TAILQ_FIRST(&fault->held);
	if (held && held->due <= now) {
		TAILQ_REMOVE(&fault->held, held, next);
		fault->held_count--;
	} else {
		held = NULL;
	}
	pthread_mutex_unlock(&fault->lock);
	return held;
}

static void send_due(struct fault_link *fault, vbn_time now)
{
	struct held_message *held;

	while ((held = take_due(fault, now))) {
		fault->batch.message_count = 1;
		fault->batch.bytes_used = held->length + ICRC_BYTES;
		fault->batch.messages[0] = (struct send_message){
			.length = held->length,
			.damaged_bit = held->damaged_bit,
			.is_lent = held->is_lent,
		};
		memcpy(fault->batch.bytes, held->bytes, held->length);
		fault->inner->ops->send(fault->inner, &held->route, &fault->batch, now);
		free(held);
	}
}

static uint32_t fault_receive(struct link *link, struct link_sink *sink, uint32_t budget,
			      vbn_time now)
{
	struct fault_link *fault = (struct fault_link *)link;

	send_due(fault, now);
	return fault->inner->ops->receive(fault->inner, sink, budget, now);
}

static int fault_descriptor(struct link *link, vbn_time now)
{
	struct fault_link *fault = (struct fault_link *)link;

	return fault->inner->ops->descriptor(fault->inner, now);
}

static vbn_time fault_next_deadline(const struct link *link)
{
	struct fault_link *fault = (struct fault_link *)link;
	struct held_message *held;
	vbn_time due;

	pthread_mutex_lock(&fault->lock);
	held = TAILQ_FIRST(&fault->held);
	due = held ? held->due : VBN_TIME_NEVER;
	pthread_mutex_unlock(&fault->lock);
	return vbn_time_min(due, fault->inner->ops->next_deadline(fault->inner));
}

static vbn_time fault_arm(struct link *link, vbn_time now)
{
	struct fault_link *fault = (struct fault_link *)link;

	return fault->inner->ops->arm ? fault->inner->ops->arm(fault->inner, now) : VBN_TIME_NEVER;
}

static void fault_disarm(struct link *link)
{
	struct fault_link *fault = (struct fault_link *)link;

	if (fault->inner->ops->disarm)
		fault->inner->ops->disarm(fault->inner);
}

static int fault_set_joined(struct link *link, bool is_joined)
{
	struct fault_link *fault = (struct fault_link *)link;

	return fault->inner->ops->set_joined(fault->inner, is_joined);
}

static void fault_close(struct link *link)
{
	struct fault_link *fault = (struct fault_link *)link;
	struct held_message *held;

	while ((held = TAILQ_FIRST(&fault->held))) {
		TAILQ_REMOVE(&fault->held, held, next);
		free(held);
	}
	fault->inner->ops->close(fault->inner);
	pthread_mutex_destroy(&fault->lock);
	free(fault);
}

static void fault_close_inherited(struct link *link)
{
	struct fault_link *fault = (struct fault_link *)link;

	fault->inner->ops->close_inherited(fault->inner);
}

static const struct link_ops fault_ops = {
	.open_route = fault_open_route,
	.send = fault_send,
	.receive = fault_receive,
	.descriptor = fault_descriptor,
	.next_deadline = fault_next_deadline,
	.arm = fault_arm,
	.disarm = fault_disarm,
	.set_joined = fault_set_joined,
	.close = fault_close,
	.close_inherited = fault_close_inherited,
};

bool link_fault_check(const char *spec, char *why, size_t why_bytes)
{
	struct fault_plan plan = {0};

	return fault_plan_parse(spec, &plan, why, why_bytes);
}

int link_fault_open(struct link *inner, const char *spec, struct link **link)
{
	struct fault_link *fault = aligned_alloc(64, (sizeof(*fault) + 63) & ~(size_t)63);

	if (!fault)
		return -ENOMEM;
	memset(fault, 0, sizeof(*fault));
	if (!fault_plan_parse(spec, &fault->plan, NULL, 0)) {
		free(fault);
		return -EINVAL;
	}
	fault->stream = fault_plan_stream(&fault->plan, 0);
	fault->inner = inner;
	fault->link.ops = &fault_ops;
	fault->link.properties = inner->properties;
	fault->link.properties.is_lossless = false;
	pthread_mutex_init(&fault->lock, NULL);
	TAILQ_INIT(&fault->held);
	*link = &fault->link;
	return 0;
}
