/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/statistics.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double middle(const double *sorted, size_t count)
{
	return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

double statistics_median(double *values, size_t count)
{
	if (count == 0)
		return NAN;
	qsort(values, count, sizeof(*values), compare);
	return middle(values, count);
}

double statistics_percentile(const double *sorted, size_t count, double part)
{
	/* 0.999 * 1000 is a little more than 999 in binary, and is meant to be rank 999. */
	double rank = ceil(part * (double)count - 1e-9 * (double)count);

	return sorted[rank < 1 ? 0 : (size_t)rank - 1];
}

/* Of differences from the mean: sums of squares of large values would lose the small ones. */
static double deviation_of(const double *samples, size_t count, double mean)
{
	double squares = 0;

	for (size_t i = 0; i < count; i++)
		squares += (samples[i] - mean) * (samples[i] - mean);
	return sqrt(squares / (double)count);
}

struct summary statistics_summary(double *samples, size_t count)
{
	struct summary summary = {0, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
	double sum = 0;

	if (count == 0)
		return summary;
	qsort(samples, count, sizeof(*samples), compare);
	for (size_t i = 0; i < count; i++)
		sum += samples[i];
	summary.count = count;
	summary.mean = sum / (double)count;
	summary.deviation = deviation_of(samples, count, summary.mean);
	summary.least = samples[0];
	summary.median = middle(samples, count);
	summary.most = samples[count - 1];
	if (count >= 100)
		summary.p99 = statistics_percentile(samples, count, 0.99);
	if (count >= 1000)
		summary.p999 = statistics_percentile(samples, count, 0.999);
	return summary;
}
