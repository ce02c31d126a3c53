/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/clock.h"

#include <time.h>

vbn_time clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (vbn_time)now.tv_sec * VBN_SECOND + (vbn_time)now.tv_nsec;
}
