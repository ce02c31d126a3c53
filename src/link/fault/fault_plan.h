/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fault injection does to a packet, as a pure decision: a plan (read from a
 * text) and a seeded stream in, a decision out. The simulator and the link that
 * wraps a real one both carry decisions out, so that a seed means the same to both.
 *
 * Rates are parts per million. Every decision takes the same number of draws from
 * the stream whatever the rates are: raising one rate leaves the others' victims.
 */
#ifndef VBN_LINK_FAULT_FAULT_PLAN_H
#define VBN_LINK_FAULT_FAULT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "base/time.h"

/* A reordered packet is late by at most so much unless the text says otherwise. */
#define FAULT_REORDER_NS (200 * VBN_MICROSECOND)
#define FAULT_DELAY_NS_MAX (10 * VBN_SECOND)

struct fault_plan {
	uint32_t loss_per_million;
	uint32_t reorder_per_million;
	uint32_t duplicate_per_million;
	uint32_t corrupt_per_million;
	uint64_t delay_ns_min; /* added to every packet, uniform between the two */
	uint64_t delay_ns_max;
	uint64_t reorder_ns_max; /* a reordered packet is held back 1 to so many more */
	/* Of the connection manager's messages those that are lost, counted from 1; 0: none. */
	uint32_t cm_loss_first, cm_loss_last;
	uint64_t seed;
};

struct fault_decision {
	bool is_dropped;    /* the rest is then unset */
	bool is_duplicated; /* one more copy, with the delay below, without corruption */
	bool is_corrupted;  /* invert bit corrupt_bit, counted from the first byte's lowest */
	bool is_reordered;  /* delay_ns includes the holding back */
	uint32_t corrupt_bit;
	uint64_t delay_ns;
	uint64_t duplicate_delay_ns;
};

/*
 * Reads a list "loss=1%,reorder=2%,dup=1%,corrupt=0.1%,delay=50us..2ms,seed=7", in any
 * order, each part at most once. Rates are percentages or fractions ("0.01"), down to
 * a millionth. delay is one time or a range; reorder_by=TIME sets reorder_ns_max; times
 * have the unit ns, us, ms or s. cm_loss is a number or a range of numbers, "3" or "1..2". The empty text is a plan without faults. False: @error
 * (may be NULL) names the part that is wrong and why; @plan is then unchanged.
 */
bool fault_plan_parse(const char *text, struct fault_plan *plan, char *error, size_t error_bytes);

/* A stream for @plan; @flow sets the streams of several directions or links apart. */
struct random_stream fault_plan_stream(const struct fault_plan *plan, uint64_t flow);

/* Whether the connection manager's message @number, counted from 1, is lost; draws nothing. */
static inline bool fault_plan_loses_cm(const struct fault_plan *plan, uint32_t number)
{
	return plan->cm_loss_first <= number && number <= plan->cm_loss_last;
}

/* What happens to the next packet, of @packet_bytes bytes (at least 1). */
struct fault_decision fault_plan_decide(const struct fault_plan *plan, struct random_stream *stream,
					uint32_t packet_bytes);

#endif
