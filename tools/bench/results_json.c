/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One object. Members may grow in number, and those that are there keep their meaning; what was
 * not measured is null. docs/performance.md describes them.
 */
#include "tools/bench/bench.h"

#include "tools/bench/requirements.h"
#include "tools/json.h"

static const char *const work_ids[] = {
	[WORK_LATENCY] = "latency",    [WORK_THROUGHPUT] = "throughput", [WORK_QPS] = "qps",
	[WORK_MARKET] = "market-data", [WORK_PAGES] = "pages",
};

static const char *const figure_ids[FIGURE_COUNT] = {
	[FIGURE_MEDIAN] = "median_ns",
	[FIGURE_MEAN] = "mean_ns",
	[FIGURE_P99] = "p99_ns",
	[FIGURE_RATE] = "messages_per_second",
	[FIGURE_POLL] = "poll_ns",
	[FIGURE_CPU_ACTIVE] = "cpu_active",
	[FIGURE_CPU_PASSIVE] = "cpu_passive",
};

static void put_text(FILE *out, const char *name, const char *text)
{
	fprintf(out, "\"%s\": ", name);
	json_put_string(out, text);
	fputs(", ", out);
}

static void put_number(FILE *out, const char *name, double value)
{
	fprintf(out, "\"%s\": ", name);
	json_put_number(out, value);
	fputs(", ", out);
}

static void put_numbers(FILE *out, const char *name, const double *values, size_t count)
{
	fprintf(out, "\"%s\": [", name);
	for (size_t i = 0; i < count; i++) {
		fputs(i ? ", " : "", out);
		json_put_number(out, values[i]);
	}
	fputc(']', out);
}

/* Of all samples together. */
static void put_summary(FILE *out, const struct cell *cell)
{
	struct summary summary = cell_summary(cell);

	put_number(out, "samples", (double)cell->sample_count);
	put_number(out, "median_ns", summary.median);
	put_number(out, "p99_ns", summary.p99);
	put_number(out, "p999_ns", summary.p999);
	put_number(out, "mean_ns", summary.mean);
	put_number(out, "deviation_ns", summary.deviation);
	put_number(out, "least_ns", summary.least);
	put_number(out, "most_ns", summary.most);
}

static void put_rounds(FILE *out, const struct cell *cell)
{
	bool is_first = true;

	fputs("\"rounds\": {", out);
	for (enum figure f = 0; f < FIGURE_COUNT; f++) {
		if (!cell->figures[f].count)
			continue;
		fputs(is_first ? "" : ", ", out);
		put_numbers(out, figure_ids[f], cell->figures[f].values, cell->figures[f].count);
		is_first = false;
	}
	fputc('}', out);
}

static void put_cell(FILE *out, const struct cell *cell, bool with_samples)
{
	fputs("{", out);
	put_text(out, "kind", work_ids[cell->work]);
	put_text(out, "contender", cell->contender->id);
	if (cell->work == WORK_LATENCY || cell->work == WORK_THROUGHPUT || cell->work == WORK_PAGES)
		put_text(out, "operation", operation_id(cell->operation));
	put_number(out, cell->work == WORK_QPS ? "queue_pairs" : "size", (double)cell->size);
	put_number(out, "lost", (double)cell->lost);
	if (cell->figures[FIGURE_RATE].count)
		put_number(out, "messages_per_second", cell_figure(cell, FIGURE_RATE));
	/* The order of the rounds, before the summary sorts them. */
	if (with_samples) {
		put_numbers(out, "all_samples_ns", cell->samples, cell->sample_count);
		fputs(", ", out);
	}
	put_summary(out, cell);
	put_rounds(out, cell);
	fputc('}', out);
}

static bool has_figures(const struct cell *cell)
{
	for (enum figure f = 0; f < FIGURE_COUNT; f++)
		if (cell->figures[f].count)
			return true;
	return false;
}

static void put_requirement(FILE *out, const struct requirement *requirement)
{
	fputs("{", out);
	put_text(out, "text", requirement->text);
	put_number(out, "ours", requirement->ours);
	put_number(out, "other", requirement->other);
	put_number(out, "ratio", requirement->ratio);
	put_number(out, requirement->is_at_least ? "at_least" : "at_most", requirement->bound);
	fprintf(out, "\"holds\": %s}", requirement_holds(requirement) ? "true" : "false");
}

static void put_requirements(FILE *out, const struct results *results)
{
	struct requirement found[REQUIREMENTS_MAX];
	size_t count = requirements_find(results, found);

	fputs("\"requirements\": [", out);
	for (size_t i = 0; i < count; i++) {
		fputs(i ? ",\n  " : "\n  ", out);
		put_requirement(out, &found[i]);
	}
	fputs("],\n", out);
}

static void put_remarks(FILE *out, const struct results *results)
{
	fputs("\"remarks\": [", out);
	for (size_t i = 0; i < results->remark_count; i++) {
		fputs(i ? ", " : "", out);
		json_put_string(out, results->remarks[i].text);
	}
	fputs("]}\n", out);
}

void results_write_json(FILE *out, const struct plan *plan, const struct results *results,
			bool with_samples)
{
	bool is_first = true;

	fputs("{", out);
	put_text(out, "version", VERBENA_VERSION);
	put_number(out, "rounds", results->rounds);
	put_number(out, "seconds", results->seconds);
	put_number(out, "others", results->others);
	fprintf(out, "\"quick\": %s, \"interrupted\": %s,\n", plan->is_quick ? "true" : "false",
		results->is_interrupted ? "true" : "false");
	fputs("\"figures\": [", out);
	for (size_t i = 0; i < results->cell_count; i++) {
		if (!has_figures(&results->cells[i]))
			continue;
		fputs(is_first ? "\n  " : ",\n  ", out);
		put_cell(out, &results->cells[i], with_samples);
		is_first = false;
	}
	fputs("],\n", out);
	put_requirements(out, results);
	put_remarks(out, results);
}
