/* SPDX-License-Identifier: BSD-2-Clause */
/* What the measuring programs share: the clock, the median, counts on the command line. */
#ifndef VBN_BENCH_SAMPLE_H
#define VBN_BENCH_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* CLOCK_MONOTONIC. */
uint64_t sample_now_ns(void);
/* Sorts @samples; @count is not 0. */
uint64_t sample_median(uint64_t *samples, size_t count);
/* A number from 1 to @max, or the end of the program. */
size_t sample_count_argument(const char *text, size_t max);

#endif
