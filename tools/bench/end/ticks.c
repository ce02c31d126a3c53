/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/end/ticks.h"

#include <cpuid.h>
#include <time.h>

#define COMPARED_FOR_NS 20000000
#define CPUID_POWER 0x80000007u
#define CPUID_POWER_EDX_INVARIANT (1u << 8)

struct tick_source tick_source = {.is_counter = false, .ns = 1.0};

uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool is_invariant(void)
{
	unsigned eax, ebx, ecx, edx;

	return __get_cpuid(CPUID_POWER, &eax, &ebx, &ecx, &edx) &&
	       (edx & CPUID_POWER_EDX_INVARIANT);
}

void ticks_init(void)
{
	uint64_t start_ns, end_ns, start, end;

	if (!is_invariant())
		return;
	start_ns = monotonic_ns();
	start = __rdtsc();
	do {
		end_ns = monotonic_ns();
		end = __rdtsc();
	} while (end_ns - start_ns < COMPARED_FOR_NS);
	if (end <= start)
		return;
	tick_source.ns = (double)(end_ns - start_ns) / (double)(end - start);
	tick_source.is_counter = true;
}
