/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What was measured: cells, each of one contender, one kind of work, one operation and one size,
 * with all samples and, of each round, its figures. Figures are compared by the median of
 * their rounds. And remarks: what was left out, and why.
 */
#ifndef VBN_TOOLS_BENCH_RESULTS_H
#define VBN_TOOLS_BENCH_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/bench/contender.h"
#include "tools/bench/statistics.h"

#define ROUNDS_MAX 99

enum figure {
	FIGURE_MEDIAN,	    /* ns */
	FIGURE_MEAN,	    /* ns */
	FIGURE_P99,	    /* ns */
	FIGURE_RATE,	    /* messages a second */
	FIGURE_POLL,	    /* ns of a poll that finds nothing */
	FIGURE_CPU_ACTIVE,  /* processor seconds a second, of the end that asks */
	FIGURE_CPU_PASSIVE, /* and of the other */
	FIGURE_COUNT
};

struct figures {
	double values[ROUNDS_MAX];
	unsigned count;
};

struct cell {
	const struct contender *contender;
	enum work work;
	enum operation operation;
	uint64_t size; /* of WORK_QPS: how many QPs */
	double *samples;
	size_t sample_count;
	struct figures figures[FIGURE_COUNT];
	uint64_t lost; /* datagrams, in all rounds */
};

struct remark {
	char text[320];
};

struct results {
	struct cell *cells;
	size_t cell_count;
	struct remark *remarks;
	size_t remark_count;
	unsigned rounds;     /* complete ones */
	bool is_interrupted; /* by the user */
	double seconds;	     /* that it took */
	double others;	     /* processes that wanted a processor between measurements, the mean */
};

/* Finds or makes it. Pointers hold until the next call. Ends the program without memory. */
struct cell *results_cell(struct results *results, const struct contender *contender,
			  enum work work, enum operation operation, uint64_t size);
/* NULL: not measured. */
const struct cell *results_find(const struct results *results, const struct contender *contender,
				enum work work, enum operation operation, uint64_t size);
void results_free(struct results *results);

void cell_add_figure(struct cell *cell, enum figure figure, double value);
/* Takes the samples of a round in, and from them its median, mean and p99. */
void cell_add_samples(struct cell *cell, const double *samples, size_t count);
/* The median of the rounds; NAN when there is none, or no cell. */
double cell_figure(const struct cell *cell, enum figure figure);
/* The median, or of who tells only a mean that one. */
double cell_latency(const struct cell *cell);
/* Of all samples; sorts them. */
struct summary cell_summary(const struct cell *cell);
/* MB/s of 10^6 bytes. */
double cell_megabytes(const struct cell *cell);

/* Said once, however often it happens. */
__attribute__((format(printf, 2, 3))) void results_remark(struct results *results,
							  const char *format, ...);

#endif
