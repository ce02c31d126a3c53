/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads what measuring programs print. Pure. What is not understood is refused, so that another
 * version of a program gives no wrong numbers.
 */
#ifndef VBN_TOOLS_BENCH_READINGS_H
#define VBN_TOOLS_BENCH_READINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READING_NAME_BYTES 32

/* A line of `ucx_perftest -b FILE -v -f`. Latencies of ping-pong tests are one way. */
struct ucx_reading {
	char name[READING_NAME_BYTES]; /* of the test in the batch file */
	uint64_t iterations;
	double median_us, mean_us; /* of the whole test */
	double messages_per_second;
};

/* A line of `fi_pingpong`; one way as well. */
struct libfabric_reading {
	uint64_t bytes;
	double mean_us;
};

/* How many were read into @readings; -1: refused. */
int readings_of_ucx(const char *text, struct ucx_reading *readings, int readings_max);
int readings_of_libfabric(const char *text, struct libfabric_reading *readings, int readings_max);
/* The number behind "@label: "; false: there is no such line, or no number. */
bool reading_labelled(const char *text, const char *label, double *value);

#endif
