/* SPDX-License-Identifier: BSD-2-Clause */
#include "sample.h"

#include <stdlib.h>
#include <time.h>

#include "tools/fail.h"

uint64_t sample_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

uint64_t sample_median(uint64_t *samples, size_t count)
{
	qsort(samples, count, sizeof(*samples), compare);
	return samples[count / 2];
}

size_t sample_count_argument(const char *text, size_t max)
{
	char *rest;
	unsigned long value = strtoul(text, &rest, 10);

	if (*rest || !value || value > max)
		give_up("%s is not a number from 1 to %zu", text, max);
	return value;
}
