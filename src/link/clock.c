/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/clock.h"

#include <time.h>

static vbn_time read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (vbn_time)now.tv_sec * VBN_SECOND + (vbn_time)now.tv_nsec;
}

vbn_time clock_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

vbn_time clock_coarse(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE);
}
