/* SPDX-License-Identifier: BSD-2-Clause */
/* What the terminal gets: sections, each of which leaves itself out when it has nothing to say. */
#include "tools/bench/bench.h"

#include <math.h>
#include <string.h>

#include "tools/bench/requirements.h"

#define LABEL_WIDTH 18
#define COLUMN_WIDTH_MIN 8

/* --- a matrix: things that are measured by who is measured --- */

struct matrix_row {
	enum work work;
	enum operation operation;
	uint64_t size;
	char label[40];
};

typedef double (*value_of)(const struct cell *cell);

static double rate_in_millions(const struct cell *cell)
{
	return cell_figure(cell, FIGURE_RATE) / 1e6;
}

static double latency_in_us(const struct cell *cell)
{
	return cell_latency(cell) / 1000;
}

static double value_at(const struct results *results, const struct matrix_row *row,
		       size_t contender, value_of value)
{
	const struct cell *cell =
		results_find(results, &contenders[contender], row->work, row->operation, row->size);

	return cell ? value(cell) : NAN;
}

static bool has_column(const struct results *results, const struct matrix_row *rows, size_t count,
		       size_t contender, value_of value)
{
	for (size_t i = 0; i < count; i++)
		if (!isnan(value_at(results, &rows[i], contender, value)))
			return true;
	return false;
}

static bool has_value(const struct results *results, const struct matrix_row *row, value_of value)
{
	for (size_t i = 0; i < contender_count; i++)
		if (has_column(results, row, 1, i, value))
			return true;
	return false;
}

/* Titles stand in two lines: "UCX" over "posix". */
static size_t split_title(const char *title, const char **second)
{
	size_t length = strcspn(title, " ");

	*second = title[length] ? title + length + 1 : "";
	return length;
}

static int column_width(const char *title)
{
	const char *second;
	size_t width = split_title(title, &second);

	if (strlen(second) > width)
		width = strlen(second);
	return width + 2 < COLUMN_WIDTH_MIN ? COLUMN_WIDTH_MIN : (int)width + 2;
}

static void write_titles(FILE *out, const char *label, const bool *columns)
{
	const char *second;

	fprintf(out, "%-*s", LABEL_WIDTH, label);
	for (size_t i = 0; i < contender_count; i++)
		if (columns[i])
			fprintf(out, "%*.*s", column_width(contenders[i].title),
				(int)split_title(contenders[i].title, &second),
				contenders[i].title);
	fprintf(out, "\n%-*s", LABEL_WIDTH, "");
	for (size_t i = 0; i < contender_count; i++)
		if (columns[i]) {
			split_title(contenders[i].title, &second);
			fprintf(out, "%*s", column_width(contenders[i].title), second);
		}
	fputc('\n', out);
}

static void write_matrix(FILE *out, const struct results *results, const char *label,
			 const struct matrix_row *rows, size_t count, value_of value)
{
	bool columns[CONTENDERS_MAX] = {false}, has_any = false;
	char text[16];

	for (size_t i = 0; i < contender_count; i++) {
		columns[i] = has_column(results, rows, count, i, value);
		has_any = has_any || columns[i];
	}
	if (!has_any)
		return;
	write_titles(out, label, columns);
	for (size_t r = 0; r < count; r++) {
		if (!has_value(results, &rows[r], value))
			continue;
		fprintf(out, "%-*s", LABEL_WIDTH, rows[r].label);
		for (size_t i = 0; i < contender_count; i++)
			if (columns[i])
				fprintf(out, "%*s", column_width(contenders[i].title),
					number_text(value_at(results, &rows[r], i, value), text));
		fputc('\n', out);
	}
	fputc('\n', out);
}

/* One operation over all sizes. */
static void write_operation(FILE *out, const struct plan *plan, const struct results *results,
			    enum work work, enum operation operation, value_of value)
{
	struct matrix_row rows[SIZES_MAX];
	char size[16];

	for (size_t i = 0; i < plan->size_count; i++) {
		rows[i] = (struct matrix_row){work, operation, plan->sizes[i], ""};
		snprintf(rows[i].label, sizeof(rows[i].label), "%9s",
			 size_text(plan->sizes[i], size));
	}
	write_matrix(out, results, operation_title(operation), rows, plan->size_count, value);
}

/* --- latency --- */

static void add_row(struct matrix_row *rows, size_t *count, enum work work,
		    enum operation operation, uint64_t size)
{
	char text[16];

	rows[*count] = (struct matrix_row){work, operation, size, ""};
	snprintf(rows[*count].label, sizeof(rows[*count].label), "%s",
		 operation == OPERATION_MIX ? "both in turns" : operation_title(operation));
	if (!operation_is_atomic(operation) && operation != OPERATION_MIX)
		snprintf(rows[*count].label, sizeof(rows[*count].label), "%s, %s",
			 operation_title(operation), size_text(size, text));
	(*count)++;
}

static void write_atomics(FILE *out, const struct results *results)
{
	struct matrix_row rows[2];
	size_t count = 0;

	add_row(rows, &count, WORK_LATENCY, OPERATION_ADD, sizeof(uint64_t));
	add_row(rows, &count, WORK_LATENCY, OPERATION_SWAP, sizeof(uint64_t));
	write_matrix(out, results, "atomics, 8 B", rows, count, latency_in_us);
}

static uint64_t detailed_size(const struct plan *plan)
{
	for (size_t i = 0; i < plan->size_count; i++)
		if (plan->sizes[i] == SMALL_SIZE)
			return SMALL_SIZE;
	return plan->sizes[0];
}

static void write_detail(FILE *out, const struct cell *cell)
{
	struct summary summary = cell_summary(cell);
	char median[16], mean[16], p99[16], p999[16], deviation[16];
	bool has_samples = cell->sample_count > 0;

	/* Programs of others tell no more than their median and mean. */
	fprintf(out, "%-18s%-16s%8s%8s%8s%8s%10s", operation_title(cell->operation),
		cell->contender->title,
		microseconds_text(has_samples ? summary.median : cell_figure(cell, FIGURE_MEDIAN),
				  median),
		microseconds_text(summary.p99, p99), microseconds_text(summary.p999, p999),
		microseconds_text(has_samples ? summary.mean : cell_figure(cell, FIGURE_MEAN),
				  mean),
		microseconds_text(summary.deviation, deviation));
	if (has_samples)
		fprintf(out, "%9zu", cell->sample_count);
	fputc('\n', out);
}

static void write_details(FILE *out, const struct plan *plan, const struct results *results)
{
	uint64_t size = detailed_size(plan);
	char text[16];

	fprintf(out, "%-18s%-16s%8s%8s%8s%8s%10s%9s\n", size_text(size, text), "(all samples)",
		"median", "p99", "p99.9", "mean", "deviation", "samples");
	for (enum operation o = 0; o < OPERATION_COUNT; o++)
		for (size_t i = 0; i < contender_count; i++) {
			const struct cell *cell =
				results_find(results, &contenders[i], WORK_LATENCY, o,
					     operation_is_atomic(o) ? sizeof(uint64_t) : size);

			if (cell && !isnan(cell_latency(cell)))
				write_detail(out, cell);
		}
	fputc('\n', out);
}

static void write_latency(FILE *out, const struct plan *plan, const struct results *results)
{
	if (!plan->latency)
		return;
	fputs("LATENCY, median of rounds' medians, in us: one way; of READ and atomics to and fro. Of libfabric the mean.\n\n",
	      out);
	for (enum operation o = 0; o < OPERATION_COUNT; o++)
		if (!operation_is_atomic(o))
			write_operation(out, plan, results, WORK_LATENCY, o, latency_in_us);
	write_atomics(out, results);
	write_details(out, plan, results);
}

/* --- throughput --- */

static void write_throughput(FILE *out, const struct plan *plan, const struct results *results)
{
	struct matrix_row rows[OPERATION_COUNT];
	size_t count = 0;

	if (!plan->throughput)
		return;
	fputs("THROUGHPUT in MB/s of 10^6 bytes, 64 requests at a time\n\n", out);
	for (enum operation o = 0; o < OPERATION_COUNT; o++)
		if (!operation_is_atomic(o) && o != OPERATION_MIX)
			write_operation(out, plan, results, WORK_THROUGHPUT, o, cell_megabytes);
	fputs("RATE in millions a second\n\n", out);
	for (enum operation o = 0; o < OPERATION_COUNT; o++)
		add_row(rows, &count, WORK_THROUGHPUT, o,
			operation_is_atomic(o) ? sizeof(uint64_t)
			: o == OPERATION_MIX   ? SMALL_SIZE
					       : detailed_size(plan));
	write_matrix(out, results, "", rows, count, rate_in_millions);
}

/* --- queue pairs --- */

static void write_qps(FILE *out, const struct plan *plan, const struct results *results)
{
	char median[16], p99[16], poll[16];

	if (!plan->qps)
		return;
	fprintf(out, "QUEUE PAIRS%23s%22s%22s\n", "create and connect, us", "", "idle poll, ns");
	for (size_t k = 0; k < 3; k++)
		for (size_t i = 0; i < contender_count; i++) {
			const struct cell *cell = results_find(results, &contenders[i], WORK_QPS,
							       OPERATION_WRITE, plan->qp_counts[k]);
			struct summary summary;

			if (!cell || !cell->sample_count)
				continue;
			summary = cell_summary(cell);
			fprintf(out, "%7u %-16s median %7s   p99 %7s  %20s\n", plan->qp_counts[k],
				contenders[i].title, microseconds_text(summary.median, median),
				microseconds_text(summary.p99, p99),
				number_text(cell_figure(cell, FIGURE_POLL), poll));
		}
	fputc('\n', out);
}

/* --- pages --- */

static void write_page_row(FILE *out, const struct cell *cell)
{
	struct summary summary = cell_summary(cell);
	char median[16], mean[16], p99[16];

	fprintf(out, "%-16s%-30s%8s%8s%8s%9zu\n", cell->contender->title,
		operation_title(cell->operation), microseconds_text(summary.median, median),
		microseconds_text(summary.mean, mean), microseconds_text(summary.p99, p99),
		cell->sample_count);
}

static void write_pages(FILE *out, const struct plan *plan, const struct results *results)
{
	if (!plan->pages)
		return;
	fputs("PAGES of memory that is registered for peers, 4 MiB at a time; us of one page\n\n",
	      out);
	fprintf(out, "%-46s%8s%8s%8s%9s\n", "", "median", "mean", "p99", "samples");
	for (size_t i = 0; i < contender_count; i++)
		for (enum operation o = OPERATION_TOUCH; o <= OPERATION_MOVE_BACK; o++) {
			const struct cell *cell =
				results_find(results, &contenders[i], WORK_PAGES, o, PAGES_SIZE);

			if (cell && cell->sample_count)
				write_page_row(out, cell);
		}
	fputc('\n', out);
}

/* --- market data --- */

static void write_market_row(FILE *out, const struct cell *cell)
{
	struct summary summary = cell_summary(cell);
	char mean[16], deviation[16], median[16], p99[16], p999[16], rate[16];

	fprintf(out, "%-16s%8s%10s%8s%8s%8s%10s%9.0f %%%8.0f %%\n", cell->contender->title,
		microseconds_text(summary.mean, mean),
		microseconds_text(summary.deviation, deviation),
		microseconds_text(summary.median, median), microseconds_text(summary.p99, p99),
		microseconds_text(summary.p999, p999),
		number_text(cell_figure(cell, FIGURE_RATE) / 1000, rate),
		cell_figure(cell, FIGURE_CPU_ACTIVE) * 100,
		cell_figure(cell, FIGURE_CPU_PASSIVE) * 100);
}

static void write_market(FILE *out, const struct plan *plan, const struct results *results)
{
	if (!plan->market)
		return;
	fputs("MARKET DATA: snapshots of 4 KiB, 1024 buffers, 64 QPs, in batches of 8;\n"
	      "from the write to its visibility at the receiver, us\n\n",
	      out);
	fprintf(out, "%-16s%8s%10s%8s%8s%8s%10s%11s%10s\n", "", "mean", "deviation", "median",
		"p99", "p99.9", "1000 a s", "publisher", "receiver");
	for (size_t i = 0; i < contender_count; i++) {
		const struct cell *cell =
			results_find(results, &contenders[i], WORK_MARKET, OPERATION_WRITE, 4096);

		if (cell && cell->sample_count)
			write_market_row(out, cell);
	}
	fprintf(out, "%-16s%8s%10s   (published, with RDMA adapters; CPU 15 %%)\n\n", "hardware",
		"1.80", "0.500");
}

/* --- requirements --- */

static void write_requirements(FILE *out, const struct plan *plan, const struct results *results)
{
	struct requirement found[REQUIREMENTS_MAX];
	size_t count = requirements_find(results, found);
	char ratio[16];

	if (!count || plan->is_quick)
		return;
	fprintf(out, "REQUIRED, medians of %u rounds %32s%10s\n", results->rounds, "ratio", "");
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%-54s%9s   %s %-5.3g %s\n", found[i].text,
			number_text(found[i].ratio, ratio),
			found[i].is_at_least ? ">=" : "<=", found[i].bound,
			requirement_holds(&found[i]) ? "holds" : "MISSED");
	fputc('\n', out);
}

static void write_remarks(FILE *out, const struct plan *plan, const struct results *results)
{
	(void)plan;
	for (size_t i = 0; i < results->remark_count; i++)
		fprintf(out, "%s\n", results->remarks[i].text);
	if (results->others > 0.5)
		fprintf(out,
			"%.1f other processes wanted a processor meanwhile: the figures mean "
			"little.\n",
			results->others);
	if (results->is_interrupted)
		fputs("Interrupted; this is what there was.\n", out);
	fprintf(out, "%u rounds in %.0f s.\n", results->rounds, results->seconds);
}

/* A further kind of figure is a further section. */
void table_write(FILE *out, const struct plan *plan, const struct results *results)
{
	static void (*const sections[])(FILE *, const struct plan *, const struct results *) = {
		write_latency, write_throughput,   write_qps,	  write_pages,
		write_market,  write_requirements, write_remarks,
	};

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		sections[i](out, plan, results);
	fflush(out);
}
