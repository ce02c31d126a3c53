/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/outbox.h"

struct completion *outbox_add_completion(struct outbox *out)
{
	struct completion *completion;

	VBN_ASSERT(out->completion_count < OUTBOX_COMPLETIONS);
	completion = &out->completions[out->completion_count++];
	memset(completion, 0, offsetof(struct completion, complaint));
	completion->complaint.reason = REASON_NONE;
	return completion;
}

void outbox_add_event(struct outbox *out, enum ibv_event_type event)
{
	VBN_ASSERT(out->event_count < OUTBOX_EVENTS);
	out->events[out->event_count++] = event;
}
