/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page of --report: one file that needs nothing else. It is XML as well as HTML, so that a
 * parser can check it. Beside each plot stands the table of its figures.
 */
#include "tools/bench/bench.h"

#include <math.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "tools/bench/html.h"
#include "tools/bench/requirements.h"

static const char style[] =
	":root{--ink:#1b1f24;--quiet:#5b6470;--page:#fff;--card:#f6f7f9;--grid:#e3e6ea;"
	"--strong:#c6ccd3;--good:#0a6b3d;--bad:#b3261e;"
	"--self:#0a7d55;--shm:#c2410c;--udp:#1d4ed8;--tcp-socket:#7c3aed;--tcp-polled:#a35bd6;"
	"--udp-polled:#0e7490;--memory:#3f3f46;--ucx-posix:#be185d;--ucx-tcp:#d9609a;"
	"--libfabric-shm:#854d0e;--libfabric-tcp:#b07d1a}\n"
	"@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--quiet:#a3abb5;--page:#14171b;"
	"--card:#1d2126;--grid:#2b3138;--strong:#434b55;--good:#5fd39a;--bad:#ff8a80;"
	"--self:#4ade9e;--shm:#fb923c;--udp:#7aa2ff;--tcp-socket:#b79bff;--tcp-polled:#d0a6f0;"
	"--udp-polled:#4fc8e0;--memory:#c9ccd1;--ucx-posix:#ff7ab0;--ucx-tcp:#ffb0d0;"
	"--libfabric-shm:#dfa355;--libfabric-tcp:#f0d080}}\n"
	"*{box-sizing:border-box}"
	"body{margin:0 auto;padding:2rem 1.2rem 4rem;max-width:86rem;background:var(--page);"
	"color:var(--ink);font:16px/1.5 system-ui,sans-serif}\n"
	"h1{font-size:1.7rem;margin:0}h2{font-size:1.3rem;margin:2.6rem 0 .4rem}"
	"h3{font-size:1.05rem;margin:1.6rem 0 .4rem}p{margin:.4rem 0;max-width:60rem}"
	".quiet{color:var(--quiet)}nav a{color:inherit;margin-right:1rem}\n"
	"section.pair{display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr);gap:1.2rem;"
	"align-items:start}"
	"@media(max-width:70rem){section.pair{grid-template-columns:minmax(0,1fr)}}\n"
	"figure{margin:0;background:var(--card);border-radius:.6rem;padding:.8rem}"
	".scroll{overflow-x:auto}svg{display:block;width:100%;height:auto}\n"
	"table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}"
	"caption{text-align:left;color:var(--quiet);padding-bottom:.3rem}"
	"th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--grid);"
	"white-space:nowrap}th:first-child,td:first-child{text-align:left}th{font-weight:600}"
	"th.words,td.words{text-align:left}.good{color:var(--good);font-weight:600}"
	".bad{color:var(--bad);font-weight:600}\n"
	".grid{stroke:var(--grid)}.grid.strong{stroke:var(--strong)}"
	".frame{fill:none;stroke:var(--strong)}text{font:13px system-ui,sans-serif;fill:var(--ink)}"
	"text.tick{fill:var(--quiet)}text.axis{font-size:14px}text.name{font-weight:600}\n"
	".line polyline{fill:none;stroke:var(--c);stroke-width:1.6}"
	".line.link polyline{stroke-width:2.8}.line circle,.line path{fill:var(--c);"
	"stroke:var(--card);stroke-width:.6}.leader{fill:none;stroke:var(--c);stroke-width:.7;"
	"opacity:.6}text.name{fill:var(--c)}"
	".self{--c:var(--self)}"
	".shm{--c:var(--shm)}"
	".udp{--c:var(--udp)}"
	".tcp-socket{--c:var(--tcp-socket)}"
	".tcp-polled{--c:var(--tcp-polled)}"
	".udp-polled{--c:var(--udp-polled)}"
	".memory{--c:var(--memory)}"
	".ucx-posix{--c:var(--ucx-posix)}"
	".ucx-tcp{--c:var(--ucx-tcp)}"
	".libfabric-shm{--c:var(--libfabric-shm)}"
	".libfabric-tcp{--c:var(--libfabric-tcp)}"
	".memory polyline{stroke-dasharray:2 4}.tcp-polled polyline,.ucx-tcp polyline,"
	".libfabric-tcp polyline{stroke-dasharray:7 4}\n";

/* --- plots with their tables --- */

typedef double (*value_of)(const struct cell *cell);

static double latency_us(const struct cell *cell)
{
	return cell_latency(cell) / 1000;
}

struct subject {
	enum work work;
	enum operation operation;
	const char *unit, *axis;
	value_of value;
};

static double value_at(const struct results *results, const struct subject *subject,
		       size_t contender, uint64_t size)
{
	const struct cell *cell = results_find(results, &contenders[contender], subject->work,
					       subject->operation, size);

	return cell ? subject->value(cell) : NAN;
}

static enum plot_marker marker_of(const struct contender *contender)
{
	if (contender->kind == CONTENDER_UCX)
		return MARKER_TRIANGLE;
	if (contender->kind == CONTENDER_LIBFABRIC)
		return MARKER_DIAMOND;
	return contender_is_link(contender) ? MARKER_CIRCLE : MARKER_SQUARE;
}

/* "shm link": classes of the style sheet. */
static const char *class_of(size_t contender, char text[static 48])
{
	snprintf(text, 48, "%.30s%s", contenders[contender].id,
		 contender_is_link(&contenders[contender]) ? " link" : "");
	return text;
}

static void gather(const struct plan *plan, const struct results *results,
		   const struct subject *subject, struct plot *plot,
		   char classes[CONTENDERS_MAX][48])
{
	for (size_t i = 0; i < contender_count; i++) {
		struct plot_line *line = &plot->lines[plot->line_count];

		*line = (struct plot_line){.label = contenders[i].title,
					   .class_name = class_of(i, classes[i]),
					   .marker = marker_of(&contenders[i])};
		for (size_t s = 0; s < plan->size_count && s < PLOT_POINTS_MAX; s++) {
			double value = value_at(results, subject, i, plan->sizes[s]);

			if (value > 0)
				line->points[line->point_count++] =
					(struct plot_point){plan->sizes[s], value};
		}
		if (line->point_count)
			plot->line_count++;
	}
}

static void write_heads(FILE *out, const struct plot *plot)
{
	fputs("<thead><tr><th scope=\"col\">size</th>", out);
	for (size_t i = 0; i < plot->line_count; i++) {
		fputs("<th scope=\"col\">", out);
		html_put_text(out, plot->lines[i].label);
		fputs("</th>", out);
	}
	fputs("</tr></thead>\n<tbody>\n", out);
}

static double point_of(const struct plot_line *line, uint64_t size)
{
	for (size_t i = 0; i < line->point_count; i++)
		if (line->points[i].size == size)
			return line->points[i].value;
	return NAN;
}

static void write_figures(FILE *out, const struct plan *plan, const struct plot *plot)
{
	char text[16];

	fputs("<div class=\"scroll\" tabindex=\"0\"><table><caption>", out);
	html_put_text(out, plot->axis);
	fputs("</caption>\n", out);
	write_heads(out, plot);
	for (size_t s = 0; s < plan->size_count; s++) {
		fprintf(out, "<tr><th scope=\"row\">%s</th>", size_text(plan->sizes[s], text));
		for (size_t i = 0; i < plot->line_count; i++)
			fprintf(out, "<td>%s</td>",
				number_text(point_of(&plot->lines[i], plan->sizes[s]), text));
		fputs("</tr>\n", out);
	}
	fputs("</tbody></table></div>\n", out);
}

static void write_subject(FILE *out, const struct plan *plan, const struct results *results,
			  const struct subject *subject)
{
	char classes[CONTENDERS_MAX][48], id[48], title[80];
	struct plot plot = {.id = id, .title = title, .unit = subject->unit, .axis = subject->axis};

	snprintf(id, sizeof(id), "plot-%d-%s", (int)subject->work,
		 operation_id(subject->operation));
	snprintf(title, sizeof(title), "%s of %s",
		 subject->work == WORK_LATENCY ? "Latency" : "Throughput",
		 operation_title(subject->operation));
	gather(plan, results, subject, &plot, classes);
	if (!plot.line_count)
		return;
	fputs("<h3>", out);
	html_put_text(out, title);
	fputs("</h3>\n<section class=\"pair\"><figure>\n", out);
	plot_write(out, &plot);
	fputs("</figure>\n", out);
	write_figures(out, plan, &plot);
	fputs("</section>\n", out);
}

/* --- sections --- */

static void write_requirements(FILE *out, const struct plan *plan, const struct results *results)
{
	struct requirement found[REQUIREMENTS_MAX];
	size_t count = requirements_find(results, found);
	char ratio[16];

	if (!count || plan->is_quick)
		return;
	fputs("<h2 id=\"required\">What is required</h2>\n<p class=\"quiet\">Ratios of medians of rounds in "
	      "which both sides took turns.</p>\n"
	      "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">figure</th><th scope=\"col\">ratio</th>"
	      "<th scope=\"col\">required</th><th scope=\"col\">verdict</th></tr></thead><tbody>\n",
	      out);
	for (size_t i = 0; i < count; i++) {
		bool holds = requirement_holds(&found[i]);

		fputs("<tr><td>", out);
		html_put_text(out, found[i].text);
		fprintf(out, "</td><td>%s</td><td>%s %.3g</td><td class=\"%s\">%s</td></tr>\n",
			number_text(found[i].ratio, ratio),
			found[i].is_at_least ? "at least" : "at most", found[i].bound,
			holds ? "good" : "bad", holds ? "holds" : "missed");
	}
	fputs("</tbody></table></div>\n", out);
}

static void write_latency(FILE *out, const struct plan *plan, const struct results *results)
{
	if (!plan->latency)
		return;
	fputs("<h2 id=\"latency\">Latency</h2>\n<p class=\"quiet\">Medians. WRITE and SEND: one way, half of a "
	      "ping-pong. READ: from the request to its completion. libfabric tells means.</p>\n",
	      out);
	for (enum operation o = 0; o < OPERATION_COUNT; o++) {
		bool is_whole = o == OPERATION_READ;
		struct subject subject = {
			WORK_LATENCY, o, "us",
			is_whole ? "latency to and fro, us" : "latency one way, us", latency_us};

		if (!operation_is_atomic(o))
			write_subject(out, plan, results, &subject);
	}
}

/* Of operations that have no plot of their own, and of small ones. */
static uint64_t rate_size(const struct plan *plan, enum operation operation)
{
	if (operation_is_atomic(operation))
		return sizeof(uint64_t);
	return operation == OPERATION_MIX ? SMALL_SIZE : plan->sizes[0];
}

static void write_rate_row(FILE *out, const struct plan *plan, const struct results *results,
			   size_t contender)
{
	char text[16];

	fprintf(out, "<tr><td>%s</td>", contenders[contender].title);
	for (enum operation o = 0; o < OPERATION_COUNT; o++) {
		const struct cell *cell = results_find(results, &contenders[contender],
						       WORK_THROUGHPUT, o, rate_size(plan, o));

		fprintf(out, "<td>%s</td>",
			number_text(cell ? cell_figure(cell, FIGURE_RATE) / 1e6 : NAN, text));
	}
	fputs("</tr>\n", out);
}

static bool has_throughput(const struct results *results, size_t contender)
{
	for (size_t i = 0; i < results->cell_count; i++)
		if (results->cells[i].contender == &contenders[contender] &&
		    results->cells[i].figures[FIGURE_RATE].count &&
		    results->cells[i].work == WORK_THROUGHPUT)
			return true;
	return false;
}

static void write_rates(FILE *out, const struct plan *plan, const struct results *results)
{
	char text[16];

	fputs("<h3>Small operations, millions a second</h3>\n<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>"
	      "<th scope=\"col\">by</th>",
	      out);
	for (enum operation o = 0; o < OPERATION_COUNT; o++)
		fprintf(out, "<th scope=\"col\">%s, %s</th>", operation_title(o),
			size_text(rate_size(plan, o), text));
	fputs("</tr></thead><tbody>\n", out);
	for (size_t i = 0; i < contender_count; i++)
		if (has_throughput(results, i))
			write_rate_row(out, plan, results, i);
	fputs("</tbody></table></div>\n", out);
}

static void write_throughput(FILE *out, const struct plan *plan, const struct results *results)
{
	if (!plan->throughput)
		return;
	fputs("<h2 id=\"throughput\">Throughput</h2>\n<p class=\"quiet\">64 requests at a time; MB are "
	      "10<sup>6</sup> bytes.</p>\n",
	      out);
	for (enum operation o = 0; o < OPERATION_COUNT; o++) {
		struct subject subject = {WORK_THROUGHPUT, o, "MB/s", "throughput, MB/s",
					  cell_megabytes};

		if (!operation_is_atomic(o) && o != OPERATION_MIX)
			write_subject(out, plan, results, &subject);
	}
	write_rates(out, plan, results);
}

static void write_qps(FILE *out, const struct plan *plan, const struct results *results)
{
	char median[16], p99[16], poll[16];

	if (!plan->qps)
		return;
	fputs("<h2 id=\"qps\">Queue pairs</h2>\n<div class=\"scroll\" tabindex=\"0\"><table><caption>Creating one and bringing it "
	      "to RTS; a poll that finds nothing while all are idle</caption><thead><tr>"
	      "<th scope=\"col\">link</th><th scope=\"col\">queue pairs</th><th scope=\"col\">median, us</th>"
	      "<th scope=\"col\">p99, us</th><th scope=\"col\">poll, ns</th></tr></thead><tbody>\n",
	      out);
	for (size_t k = 0; k < 3; k++)
		for (size_t i = 0; i < contender_count; i++) {
			const struct cell *cell = results_find(results, &contenders[i], WORK_QPS,
							       OPERATION_WRITE, plan->qp_counts[k]);
			struct summary summary;

			if (!cell || !cell->sample_count)
				continue;
			summary = cell_summary(cell);
			fprintf(out,
				"<tr><td>%s</td><td>%u</td><td>%s</td><td>%s</td><td>%s</td></tr>\n",
				contenders[i].title, plan->qp_counts[k],
				microseconds_text(summary.median, median),
				microseconds_text(summary.p99, p99),
				number_text(cell_figure(cell, FIGURE_POLL), poll));
		}
	fputs("</tbody></table></div>\n", out);
}

static void write_statistics(FILE *out, const struct cell *cell)
{
	struct summary summary = cell_summary(cell);
	const double values[] = {summary.median, summary.p99, summary.p999, summary.mean,
				 summary.deviation};
	char text[16];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		fprintf(out, "<td>%s</td>", microseconds_text(values[i], text));
}

static void write_pages(FILE *out, const struct plan *plan, const struct results *results)
{
	if (!plan->pages)
		return;
	fputs("<h2 id=\"pages\">Pages</h2>\n<p class=\"quiet\">Of memory that is registered so that peers have "
	      "it too, 4 MiB at a time; the time of one page.</p>\n<div class=\"scroll\" tabindex=\"0\"><table>"
	      "<thead><tr><th scope=\"col\">link</th><th scope=\"col\">what</th>"
	      "<th scope=\"col\">median, us</th><th scope=\"col\">p99</th><th scope=\"col\">p99.9</th>"
	      "<th scope=\"col\">mean</th><th scope=\"col\">deviation</th></tr></thead><tbody>\n",
	      out);
	for (size_t i = 0; i < contender_count; i++)
		for (enum operation o = OPERATION_TOUCH; o <= OPERATION_MOVE_BACK; o++) {
			const struct cell *cell =
				results_find(results, &contenders[i], WORK_PAGES, o, PAGES_SIZE);

			if (!cell || !cell->sample_count)
				continue;
			fprintf(out, "<tr><td>%s</td><td class=\"words\">%s</td>",
				contenders[i].title, operation_title(o));
			write_statistics(out, cell);
			fputs("</tr>\n", out);
		}
	fputs("</tbody></table></div>\n", out);
}

static void write_market(FILE *out, const struct plan *plan, const struct results *results)
{
	char rate[16];

	if (!plan->market)
		return;
	fputs("<h2 id=\"market\">Market data</h2>\n<p class=\"quiet\">Snapshots of 4 KiB into a pool of 1024 "
	      "buffers over 64 queue pairs, in batches of 8: from the write to its visibility at the "
	      "receiver.</p>\n<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">by</th>"
	      "<th scope=\"col\">median, us</th><th scope=\"col\">p99</th><th scope=\"col\">p99.9</th>"
	      "<th scope=\"col\">mean</th><th scope=\"col\">deviation</th><th scope=\"col\">1000 a second</th>"
	      "<th scope=\"col\">CPU publisher</th><th scope=\"col\">CPU receiver</th></tr></thead><tbody>\n",
	      out);
	for (size_t i = 0; i < contender_count; i++) {
		const struct cell *cell =
			results_find(results, &contenders[i], WORK_MARKET, OPERATION_WRITE, 4096);

		if (!cell || !cell->sample_count)
			continue;
		fprintf(out, "<tr><td>%s</td>", contenders[i].title);
		write_statistics(out, cell);
		fprintf(out, "<td>%s</td><td>%.0f %%</td><td>%.0f %%</td></tr>\n",
			number_text(cell_figure(cell, FIGURE_RATE) / 1000, rate),
			cell_figure(cell, FIGURE_CPU_ACTIVE) * 100,
			cell_figure(cell, FIGURE_CPU_PASSIVE) * 100);
	}
	fputs("<tr><td>hardware, published</td><td>-</td><td>-</td><td>-</td><td>1.80</td><td>0.500</td>"
	      "<td>-</td><td colspan=\"2\">15 %</td></tr>\n</tbody></table></div>\n",
	      out);
}

static void write_all_latencies(FILE *out, const struct plan *plan, const struct results *results)
{
	char text[16];

	if (!plan->latency)
		return;
	fputs("<h2 id=\"all\">All latencies</h2>\n<details><summary>Median, p99, p99.9, mean and deviation of "
	      "every operation and size</summary>\n<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>"
	      "<th scope=\"col\">by</th><th scope=\"col\" class=\"words\">operation</th><th scope=\"col\">size</th>"
	      "<th scope=\"col\">median, us</th><th scope=\"col\">p99</th><th scope=\"col\">p99.9</th>"
	      "<th scope=\"col\">mean</th><th scope=\"col\">deviation</th><th scope=\"col\">samples</th></tr></thead>"
	      "<tbody>\n",
	      out);
	for (size_t i = 0; i < results->cell_count; i++) {
		const struct cell *cell = &results->cells[i];

		if (cell->work != WORK_LATENCY || !cell->sample_count)
			continue;
		fprintf(out, "<tr><td>%s</td><td class=\"words\">%s</td><td>%s</td>",
			cell->contender->title, operation_title(cell->operation),
			size_text(cell->size, text));
		write_statistics(out, cell);
		fprintf(out, "<td>%zu</td></tr>\n", cell->sample_count);
	}
	fputs("</tbody></table></div></details>\n", out);
}

static void write_remarks(FILE *out, const struct plan *plan, const struct results *results)
{
	(void)plan;
	if (!results->remark_count && !results->is_interrupted && results->others <= 0.5)
		return;
	fputs("<h2 id=\"remarks\">Remarks</h2>\n<ul>\n", out);
	for (size_t i = 0; i < results->remark_count; i++) {
		fputs("<li>", out);
		html_put_text(out, results->remarks[i].text);
		fputs("</li>\n", out);
	}
	if (results->others > 0.5)
		fprintf(out,
			"<li>%.1f other processes wanted a processor meanwhile: the figures "
			"mean little.</li>\n",
			results->others);
	if (results->is_interrupted)
		fputs("<li>Interrupted before its end.</li>\n", out);
	fputs("</ul>\n", out);
}

/* --- the page --- */

static void write_head(FILE *out, const struct plan *plan, const struct results *results)
{
	struct utsname machine = {0};
	time_t now = time(NULL);
	struct tm day;
	char date[32] = "";

	if (gmtime_r(&now, &day))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &day);
	uname(&machine);
	fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
	      "<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width\"/>\n"
	      "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>verbena bench</title>\n<style>\n",
	      out);
	fputs(style, out);
	fputs("</style>\n</head>\n<body>\n<header><h1>verbena bench</h1>\n<p class=\"quiet\">Verbena " VERBENA_VERSION
	      ", Linux ",
	      out);
	html_put_text(out, machine.release);
	fprintf(out, " %s, %s: %u round%s in %.0f s, alternating%s.</p></header>\n",
		machine.machine, date, results->rounds, results->rounds == 1 ? "" : "s",
		results->seconds, plan->is_quick ? "; a quick run whose figures mean nothing" : "");
}

/* A further kind of figure is a further section. */
void report_write(FILE *out, const struct plan *plan, const struct results *results)
{
	static void (*const sections[])(FILE *, const struct plan *, const struct results *) = {
		write_head,  write_requirements, write_latency,	      write_throughput, write_qps,
		write_pages, write_market,	 write_all_latencies, write_remarks,
	};

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		sections[i](out, plan, results);
	fputs("</body>\n</html>\n", out);
}
