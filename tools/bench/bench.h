/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `verbena bench`: what is measured, how much of it, and the parts that do it.
 *
 * Rounds alternate: in each, everything that is compared is measured once, cell after cell, so
 * that a change of the machine's mood meets all. Pairs of our own ends stay alive over all
 * rounds, others' programs are started once a round.
 */
#ifndef VBN_TOOLS_BENCH_BENCH_H
#define VBN_TOOLS_BENCH_BENCH_H

#include <stdio.h>

#include "tools/bench/pair.h"
#include "tools/bench/results.h"

#define SIZES_MAX 32
#define CONTENDERS_MAX 16
#define SMALL_SIZE 16 /* of what is shown in detail, and of mixed operations */
/* Of memory that is registered at once, where pages are measured. */
#define PAGES_SIZE (UINT64_C(4) << 20)

struct plan {
	bool latency, throughput, qps, market, pages;
	bool is_wanted[CONTENDERS_MAX]; /* by index in contenders */
	uint64_t sizes[SIZES_MAX];
	size_t size_count;
	unsigned rounds;
	double seconds_max;   /* no round begins later */
	uint64_t duration_ns; /* of one measurement */
	uint32_t samples_max; /* of one measurement */
	uint32_t qp_counts[3];
	uint32_t snapshots; /* of one round of market data */
	bool is_quick;
};

struct bench {
	const struct plan *plan;
	struct place place;
	struct results *results;
	struct pair pairs[CONTENDERS_MAX];
	bool is_lost[CONTENDERS_MAX]; /* contenders that are not tried again */
	unsigned losses[CONTENDERS_MAX];
	unsigned done, todo; /* steps, for the progress line */
	double started;
	double others_sum;
	unsigned others_count;
};

/* Measures; false: nothing could be. What happened stands in @results. */
bool bench_measure(const struct plan *plan, struct results *results);

/* --- the parts of a round --- */

/* One operation, size and pair. */
void measure_cell(struct bench *bench, size_t contender, enum work work, enum operation operation,
		  uint64_t size);
/* All sizes of a program of others. */
void measure_outside(struct bench *bench, size_t contender);
/* Cells of @contender that a program of others is asked for, of both kinds of work. */
size_t outside_cell_count(const struct plan *plan, const struct contender *contender);
void measure_qps(struct bench *bench, size_t contender, uint32_t count);
/* What becomes of registered memory. */
void measure_pages(struct bench *bench, size_t contender, enum operation step);
/* A link by the example's program, or the bare line. */
void measure_market(struct bench *bench, size_t contender);

/* Leaves a contender out from now on, and remarks why. */
__attribute__((format(printf, 3, 4))) void bench_lose(struct bench *bench, size_t contender,
						      const char *format, ...);
/* Seconds since it began. */
double bench_seconds(const struct bench *bench);

/* --- the progress line: on standard error, only on a terminal --- */

void progress_show(const struct bench *bench, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void progress_clear(void);

/* --- what comes out --- */

void table_write(FILE *out, const struct plan *plan, const struct results *results);
void results_write_json(FILE *out, const struct plan *plan, const struct results *results,
			bool with_samples);
void report_write(FILE *out, const struct plan *plan, const struct results *results);

/* "1 B", "64 KiB" */
const char *size_text(uint64_t size, char text[static 16]);
/* Nanoseconds as microseconds, and rates, in three or four digits; "-" for NAN. */
const char *microseconds_text(double ns, char text[static 16]);
const char *number_text(double value, char text[static 16]);

#endif
