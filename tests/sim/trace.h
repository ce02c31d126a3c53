/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happened, as a hash always and as text when somebody wants to read it. Two
 * runs of one seed have the same hash; a story compares the text.
 *
 * A line is: virtual time in microseconds, the queue pair (host letter and index),
 * the event, its details, and the reason where there is one.
 */
#ifndef VBN_TESTS_SIM_TRACE_H
#define VBN_TESTS_SIM_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "base/reason.h"
#include "base/time.h"
#include "transport/outbox.h"
#include "wire/packet.h"

struct trace {
	uint64_t hash;
	FILE *text; /* NULL: hash only */
	bool with_times;
};

/* Where and when; @qp_index is TRACE_NO_QP for what happens to a host or a link. */
#define TRACE_NO_QP UINT32_MAX
struct trace_place {
	vbn_time now;
	uint32_t host;
	uint32_t qp_index;
};

void trace_init(struct trace *trace, FILE *text);
void trace_mix(struct trace *trace, uint64_t value);
/* @event: "send", "receive", "lost", ...; @reason is printed unless it is NONE. */
void trace_packet(struct trace *trace, const struct trace_place *place, const char *event,
		  const struct packet *packet, enum reason reason);
void trace_completion(struct trace *trace, const struct trace_place *place,
		      const struct completion *completion);
/* Any other event; its words are part of the hash. */
__attribute__((format(printf, 3, 4))) void
trace_note(struct trace *trace, const struct trace_place *place, const char *format, ...);

#endif
