/* SPDX-License-Identifier: BSD-2-Clause */
/* Entries of an outbox are handed out zeroed, so that no field of an earlier use shines through. */
#include "transport/outbox.h"

#include <string.h>

#include "base/assert.h"

struct packet_out *outbox_add_packet(struct outbox *out)
{
	struct packet_out *packet;

	VBN_ASSERT(out->packet_count < OUTBOX_PACKETS);
	packet = &out->packets[out->packet_count++];
	memset(packet, 0, sizeof(*packet));
	return packet;
}

struct completion *outbox_add_completion(struct outbox *out)
{
	struct completion *completion;

	VBN_ASSERT(out->completion_count < OUTBOX_COMPLETIONS);
	completion = &out->completions[out->completion_count++];
	memset(completion, 0, sizeof(*completion));
	return completion;
}

void outbox_add_event(struct outbox *out, enum ibv_event_type event)
{
	VBN_ASSERT(out->event_count < OUTBOX_EVENTS);
	out->events[out->event_count++] = event;
}
