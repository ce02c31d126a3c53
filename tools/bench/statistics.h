/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a set of samples says. Pure. Percentiles are by nearest rank: the smallest sample that at
 * least so many percent of all do not exceed, so each is a value that was measured.
 */
#ifndef VBN_TOOLS_BENCH_STATISTICS_H
#define VBN_TOOLS_BENCH_STATISTICS_H

#include <stddef.h>

struct summary {
	size_t count;
	double mean, deviation; /* of the samples themselves, not an estimate for more of them */
	double least, median, most;
	double p99, p999; /* NAN of fewer than 100 or 1000 samples: they would be the largest */
};

/* Sorts @samples. Without any, all values are NAN. */
struct summary statistics_summary(double *samples, size_t count);
/* Sorts @values. The middle, or the mean of the two in the middle; NAN without any. */
double statistics_median(double *values, size_t count);
/* Of sorted values; @part is 0.99 for p99. @count is not 0. */
double statistics_percentile(const double *sorted, size_t count, double part);

#endif
