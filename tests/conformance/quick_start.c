// SPDX-License-Identifier: BSD-2-Clause
// For runs in their thousands: perftest spends most of its time before the first packet. It
// measures the processor's rate against gettimeofday() for a quarter of a second before
// each row that it prints, and fills its buffers with rand(), which takes a lock for each byte.
// Put in front of a program, this library makes that clock run faster and those numbers cheap.
// Nothing of Verbena uses either; the figures that the program prints are wrong then, and the
// cross product does not look at them.
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

enum { FASTER = 250 };

// The C library's own declaration says "nonnull" and takes a second argument nobody uses.
__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict tv,
							void *restrict tz)
{
	(void)tz;
	struct timespec now;
	if (clock_gettime(CLOCK_MONOTONIC, &now))
		return -1;
	long long ns = (now.tv_sec * 1000000000LL + now.tv_nsec) * FASTER;
	tv->tv_sec = ns / 1000000000;
	tv->tv_usec = ns % 1000000000 / 1000;
	return 0;
}

__attribute__((visibility("default"))) int rand(void)
{
	// Threads may lose a step of each other, which makes it no less random.
	static unsigned state = 1;

	// The upper bits are the better ones.
	state = state * 1103515245 + 12345;
	return (int)(state >> 1);
}
