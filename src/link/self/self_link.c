/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The self link: both QPs live in this process. A plain queue of packets: senders
 * append copies, the engine drains it after the poster let go of its locks. Nothing
 * is ever lost; what may be queued is bounded by the flow limit that the link states
 * and the transport keeps.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "link/link.h"

/* As much as a few large messages: enough to overlap, small enough to stay in cache. */
#define FLOW_BYTES_MAX (256 << 10)

struct parcel {
	STAILQ_ENTRY(parcel) next;
	struct link_path path;
	bool is_damaged;
	uint32_t length;
	uint8_t bytes[PACKET_HEADER_BYTES_MAX + PACKET_MTU_MAX + 4];
};

STAILQ_HEAD(parcel_list, parcel);

struct self_link {
	struct link link;
	pthread_mutex_t lock; /* of the lists; a leaf */
	struct parcel_list queued;
	struct parcel_list spare;
};

static int self_open_route(struct link *link, const struct link_path *path,
			   struct link_route *route)
{
	(void)link;
	memset(route, 0, sizeof(*route));
	route->path = *path;
	/* There is no port; a capture shows one of the range that RoCEv2 uses. */
	route->source_port = (uint16_t)(0xc000 | (path->entropy & 0x3fff));
	return 0;
}

static struct parcel *take_spare(struct self_link *self)
{
	struct parcel *parcel;

	pthread_mutex_lock(&self->lock);
	parcel = STAILQ_FIRST(&self->spare);
	if (parcel)
		STAILQ_REMOVE_HEAD(&self->spare, next);
	pthread_mutex_unlock(&self->lock);
	return parcel ? parcel : malloc(sizeof(*parcel));
}

static void self_send(struct link *link, const struct link_route *route, struct send_batch *batch,
		      vbn_time now)
{
	struct self_link *self = (struct self_link *)link;

	(void)now;
	for (uint32_t i = 0; i < batch->message_count; i++) {
		const struct send_message *message = &batch->messages[i];
		struct parcel *parcel = take_spare(self);

		/* Out of memory: lost, and the connection ends with it, as nobody repeats here. */
		if (!parcel || message->length > sizeof(parcel->bytes)) {
			free(parcel);
			continue;
		}
		parcel->path = route->path;
		parcel->is_damaged = message->damaged_bit != 0;
		parcel->length = message->length;
		memcpy(parcel->bytes, batch->bytes + message->offset, message->length);
		pthread_mutex_lock(&self->lock);
		STAILQ_INSERT_TAIL(&self->queued, parcel, next);
		pthread_mutex_unlock(&self->lock);
	}
}

static void deliver_parcel(const struct parcel *parcel, struct link_sink *sink)
{
	struct link_packet packet = {
		.bytes = parcel->bytes,
		.length = parcel->length,
		.source = parcel->path.source,
		.destination = parcel->path.destination,
		.traffic_class = parcel->path.traffic_class,
		.hop_limit = parcel->path.hop_limit,
	};

	/* There is no ICRC here that could find the damage; a wire would have. */
	if (parcel->is_damaged)
		sink->drop(sink, REASON_DROP_ICRC, 1);
	else
		sink->deliver(sink, &packet);
}

static uint32_t self_receive(struct link *link, struct link_sink *sink, uint32_t budget,
			     vbn_time now)
{
	struct self_link *self = (struct self_link *)link;
	uint32_t taken = 0;

	(void)now;
	while (taken < budget) {
		struct parcel *parcel;

		pthread_mutex_lock(&self->lock);
		parcel = STAILQ_FIRST(&self->queued);
		if (parcel)
			STAILQ_REMOVE_HEAD(&self->queued, next);
		pthread_mutex_unlock(&self->lock);
		if (!parcel)
			break;
		deliver_parcel(parcel, sink);
		taken++;
		pthread_mutex_lock(&self->lock);
		STAILQ_INSERT_HEAD(&self->spare, parcel, next);
		pthread_mutex_unlock(&self->lock);
	}
	return taken;
}

static int self_descriptor(struct link *link, vbn_time now)
{
	(void)now;
	(void)link;
	return -1;
}

/* A queued packet is due at once: whoever looks at deadlines finds it. */
static vbn_time self_next_deadline(const struct link *link)
{
	struct self_link *self = (struct self_link *)link;
	bool is_empty;

	pthread_mutex_lock(&self->lock);
	is_empty = STAILQ_EMPTY(&self->queued);
	pthread_mutex_unlock(&self->lock);
	return is_empty ? VBN_TIME_NEVER : 0;
}

static void free_list(struct parcel_list *list)
{
	struct parcel *parcel;

	while ((parcel = STAILQ_FIRST(list))) {
		STAILQ_REMOVE_HEAD(list, next);
		free(parcel);
	}
}

static void self_close(struct link *link)
{
	struct self_link *self = (struct self_link *)link;

	free_list(&self->queued);
	free_list(&self->spare);
	pthread_mutex_destroy(&self->lock);
	free(self);
}

static void self_close_inherited(struct link *link)
{
	(void)link;
}

static const struct link_ops self_ops = {
	.open_route = self_open_route,
	.send = self_send,
	.receive = self_receive,
	.descriptor = self_descriptor,
	.next_deadline = self_next_deadline,
	.close = self_close,
	.close_inherited = self_close_inherited,
};

int link_self_open(struct link **link)
{
	struct self_link *self = calloc(1, sizeof(*self));

	if (!self)
		return -ENOMEM;
	self->link = (struct link){
		.ops = &self_ops,
		.properties = {.name = "self",
			       .payload_max = PACKET_MTU_MAX,
			       .is_lossless = true,
			       .is_internal = true,
			       .sends_for_nothing = true,
			       .flow_bytes_max = FLOW_BYTES_MAX},
	};
	pthread_mutex_init(&self->lock, NULL);
	STAILQ_INIT(&self->queued);
	STAILQ_INIT(&self->spare);
	*link = &self->link;
	return 0;
}
