/* SPDX-License-Identifier: BSD-2-Clause */
/* The one place where the clock and the system's random numbers are read. */
#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "base/assert.h"
#include "engine/engine_state.h"

vbn_time clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (vbn_time)now.tv_sec * VBN_SECOND + (vbn_time)now.tv_nsec;
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
