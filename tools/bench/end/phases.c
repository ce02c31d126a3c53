/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An order is done in phases of a known number of messages, which the active end chooses and tells
 * the passive one. The first few show how long one takes. Then come a warm-up of a quarter of the
 * duration and what is measured, each cut into phases of a part of it: on a busy machine a message
 * may suddenly take a thousand times as long, and the rest is then left out.
 */
#include "tools/bench/end/end.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_COUNT 4u
#define COUNT_MIN 2u
#define WARM_UP_PART 4
#define PHASES 6
/* Fewer say nothing: for their sake a measurement may take longer, though not without end. */
#define COUNT_WANTED 16u
#define LONGEST 5 /* durations */

/* What was seen so far. */
struct run {
	uint64_t count, arrived;
	double elapsed_ns;
	double message_ns; /* of the last phase */
	double *samples;
};

static bool is_whole(uint32_t operation)
{
	return operation == OPERATION_READ || operation == OPERATION_ADD ||
	       operation == OPERATION_SWAP;
}

/* A READ or an atomic is over when it is complete; of a ping-pong one way is a half. */
static void keep_samples(const struct end *end, struct run *run, uint64_t count)
{
	double part = is_whole(end->order.operation) ? 1.0 : 0.5;

	for (uint64_t i = 0; i < count; i++)
		run->samples[run->count + i] =
			part * ticks_to_ns(end->stamps[i + 1] - end->stamps[i]);
}

static void run_phase(struct end *end, struct run *run, uint64_t count)
{
	uint64_t start;
	double elapsed_ns;

	end_tell(end, &count, sizeof(count));
	start = ticks_now();
	run->arrived += end->transport->run(end, count, end->stamps);
	elapsed_ns = ticks_to_ns(ticks_now() - start);
	if (run->samples && end->order.work == WORK_LATENCY)
		keep_samples(end, run, count);
	run->count += count;
	run->elapsed_ns += elapsed_ns;
	run->message_ns = elapsed_ns / (double)count;
}

/* Even, since some operations come in pairs. */
static uint64_t fitting(const struct run *run, double duration_ns, uint64_t most)
{
	double wanted = duration_ns / run->message_ns;
	uint64_t count = wanted > (double)most ? most : (uint64_t)wanted;

	return (count < COUNT_MIN ? COUNT_MIN : count) & ~UINT64_C(1);
}

static bool is_enough(const struct run *run, double duration_ns)
{
	return run->elapsed_ns >= (run->count >= COUNT_WANTED ? 1 : LONGEST) * duration_ns;
}

static void run_for(struct end *end, struct run *run, double duration_ns)
{
	uint64_t count_max = end->order.count_max & ~UINT64_C(1);

	while (run->count < count_max && !is_enough(run, duration_ns))
		run_phase(end, run, fitting(run, duration_ns / PHASES, count_max - run->count));
}

static void warm_up(struct end *end, struct run *run)
{
	run_phase(end, run, FIRST_COUNT);
	run->elapsed_ns = 0;
	run_for(end, run, (double)end->order.duration_ns / WARM_UP_PART);
}

static void lead(struct end *end, struct report *report, double **samples)
{
	const uint64_t over = 0;
	struct run before = {0}, run;
	double cpu_before;

	*samples = end_need(calloc(end->order.count_max, sizeof(double)), "calloc");
	warm_up(end, &before);
	run = (struct run){.message_ns = before.message_ns, .samples = *samples};
	cpu_before = end_cpu_ns();
	run_for(end, &run, (double)end->order.duration_ns);
	report->cpu_ns = end_cpu_ns() - cpu_before;
	end_tell(end, &over, sizeof(over));
	report->elapsed_ns = run.elapsed_ns;
	report->messages = run.arrived;
	report->lost = run.count - run.arrived;
	if (end->order.work == WORK_LATENCY)
		report->sample_count = (uint32_t)run.count;
}

static void follow(struct end *end)
{
	for (;;) {
		uint64_t count;

		end_hear(end, &count, sizeof(count));
		if (count == 0)
			return;
		end->transport->run(end, count, end->stamps);
	}
}

void phases_run(struct end *end, struct report *report, double **samples)
{
	end->transport->prepare(end);
	/* The first touch of a page, on either side, is not to be seen in a sample. */
	if (end->order.work == WORK_LATENCY)
		memset(end->stamps, 0, (end->order.count_max + 1) * sizeof(*end->stamps));
	end_meet(end);
	if (end->is_active)
		lead(end, report, samples);
	else
		follow(end);
}
