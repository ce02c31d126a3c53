/* SPDX-License-Identifier: BSD-2-Clause */
/* What the engine asks the system for besides memory: the time of the wall, random numbers. */
#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "base/assert.h"
#include "engine/engine_state.h"

uint64_t engine_clock(void)
{
	return clock_now();
}

uint64_t engine_clock_to_wall(uint64_t time)
{
	struct timespec wall;
	vbn_time now = clock_now();

	clock_gettime(CLOCK_REALTIME, &wall);
	return (uint64_t)wall.tv_sec * VBN_SECOND + (uint64_t)wall.tv_nsec - (now - time);
}

void random_bytes(void *bytes, size_t length)
{
	ssize_t got;

	do
		got = getrandom(bytes, length, 0);
	while (got < 0 && errno == EINTR);
	VBN_ASSERT(got == (ssize_t)length);
}

uint32_t random_number(void)
{
	uint32_t number;

	random_bytes(&number, sizeof(number));
	return number;
}
