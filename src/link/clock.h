/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock of all that is outside of the core. */
#ifndef VBN_LINK_CLOCK_H
#define VBN_LINK_CLOCK_H

#include "base/time.h"

/* Nanoseconds of CLOCK_MONOTONIC, which all processes of a host see alike. */
vbn_time clock_now(void);
/* The same as it was some milliseconds ago at most; costs a quarter of it. */
vbn_time clock_coarse(void);

/*
 * For "a moment ago", where asking for the time would take longer than what is saved: counts on with the
 * processor's frequency or so, and may differ between two cores, so that "later" may be "much earlier".
 */
static inline uint64_t clock_ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return clock_now();
#endif
}

#endif
