/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/results.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"

static void *grown(void *block, size_t count, size_t size)
{
	void *larger = reallocarray(block, count, size);

	if (larger)
		return larger;
	fputs("verbena bench: out of memory.\n", stderr);
	exit(STATUS_FAILED);
}

static struct cell *find(const struct results *results, const struct contender *contender,
			 enum work work, enum operation operation, uint64_t size)
{
	for (size_t i = 0; i < results->cell_count; i++) {
		struct cell *cell = &results->cells[i];

		if (cell->contender == contender && cell->work == work &&
		    cell->operation == operation && cell->size == size)
			return cell;
	}
	return NULL;
}

struct cell *results_cell(struct results *results, const struct contender *contender,
			  enum work work, enum operation operation, uint64_t size)
{
	struct cell *cell = find(results, contender, work, operation, size);

	if (cell)
		return cell;
	results->cells = grown(results->cells, results->cell_count + 1, sizeof(*cell));
	cell = &results->cells[results->cell_count++];
	*cell = (struct cell){
		.contender = contender, .work = work, .operation = operation, .size = size};
	return cell;
}

const struct cell *results_find(const struct results *results, const struct contender *contender,
				enum work work, enum operation operation, uint64_t size)
{
	return find(results, contender, work, operation, size);
}

void results_free(struct results *results)
{
	for (size_t i = 0; i < results->cell_count; i++)
		free(results->cells[i].samples);
	free(results->cells);
	free(results->remarks);
	*results = (struct results){0};
}

void cell_add_figure(struct cell *cell, enum figure figure, double value)
{
	struct figures *figures = &cell->figures[figure];

	if (figures->count < ROUNDS_MAX)
		figures->values[figures->count++] = value;
}

void cell_add_samples(struct cell *cell, const double *samples, size_t count)
{
	struct summary round;
	double *added;

	if (!count)
		return;
	cell->samples = grown(cell->samples, cell->sample_count + count, sizeof(*samples));
	added = cell->samples + cell->sample_count;
	memcpy(added, samples, count * sizeof(*samples));
	cell->sample_count += count;
	round = statistics_summary(added, count);
	cell_add_figure(cell, FIGURE_MEDIAN, round.median);
	cell_add_figure(cell, FIGURE_MEAN, round.mean);
	if (!isnan(round.p99))
		cell_add_figure(cell, FIGURE_P99, round.p99);
}

double cell_figure(const struct cell *cell, enum figure figure)
{
	double values[ROUNDS_MAX];

	if (!cell)
		return NAN;
	memcpy(values, cell->figures[figure].values, sizeof(values));
	return statistics_median(values, cell->figures[figure].count);
}

double cell_latency(const struct cell *cell)
{
	double median = cell_figure(cell, FIGURE_MEDIAN);

	return isnan(median) ? cell_figure(cell, FIGURE_MEAN) : median;
}

struct summary cell_summary(const struct cell *cell)
{
	return statistics_summary(cell->samples, cell->sample_count);
}

double cell_megabytes(const struct cell *cell)
{
	return cell ? cell_figure(cell, FIGURE_RATE) * (double)cell->size / 1e6 : NAN;
}

void results_remark(struct results *results, const char *format, ...)
{
	struct remark remark;
	va_list words;

	va_start(words, format);
	vsnprintf(remark.text, sizeof(remark.text), format, words);
	va_end(words);
	for (size_t i = 0; i < results->remark_count; i++)
		if (strcmp(results->remarks[i].text, remark.text) == 0)
			return;
	results->remarks = grown(results->remarks, results->remark_count + 1, sizeof(remark));
	results->remarks[results->remark_count++] = remark;
}
