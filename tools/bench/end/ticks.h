/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The clock of latencies. Reading CLOCK_MONOTONIC takes 20 to 40 ns, as long as a small message
 * through shared memory takes one way; the processor's own counter takes a third of that.
 * It is used where the processor says that it runs evenly, and is compared with CLOCK_MONOTONIC
 * once at the start.
 */
#ifndef VBN_TOOLS_BENCH_TICKS_H
#define VBN_TOOLS_BENCH_TICKS_H

#include <stdbool.h>
#include <stdint.h>
#include <x86intrin.h>

struct tick_source {
	bool is_counter; /* else ticks are nanoseconds */
	double ns;	 /* of a tick */
};

extern struct tick_source tick_source;

void ticks_init(void);
/* CLOCK_MONOTONIC, which all processes of the machine share. */
uint64_t monotonic_ns(void);

static inline uint64_t ticks_now(void)
{
	return tick_source.is_counter ? __rdtsc() : monotonic_ns();
}

static inline double ticks_to_ns(uint64_t ticks)
{
	return (double)ticks * tick_source.ns;
}

static inline uint64_t ticks_of_ns(uint64_t ns)
{
	return (uint64_t)((double)ns / tick_source.ns);
}

#endif
