/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/bench/programs.h"

#define DEPTH 64u
#define PATIENCE_NS UINT64_C(20000000000)
#define QPS_PATIENCE_NS UINT64_C(60000000000)
#define LOSSES_MAX 3 /* of a pair, before it is left out */

/* A step of a round; steps are counted first, for the progress line. */
struct step {
	size_t contender;
	enum work work;
	enum operation operation;
	uint64_t size; /* or number of QPs */
	bool is_outside;
};

typedef void (*visitor)(struct bench *bench, const struct step *step);

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double bench_seconds(const struct bench *bench)
{
	return now_seconds() - bench->started;
}

void bench_lose(struct bench *bench, size_t contender, const char *format, ...)
{
	char why[300];
	va_list words;

	va_start(words, format);
	vsnprintf(why, sizeof(why), format, words);
	va_end(words);
	bench->is_lost[contender] = true;
	if (!interrupt_came())
		results_remark(bench->results, "%s is left out: %s.", contenders[contender].title,
			       why);
}

/* --- pairs --- */

/* Another pair in place of one that broke, as long as that is worth it. */
static void replace_pair(struct bench *bench, size_t index, const char *during)
{
	struct pair *pair = &bench->pairs[index];
	const struct contender *contender = &contenders[index];

	if (interrupt_came())
		return;
	results_remark(bench->results, "%s failed at %s: %s.", contender->title, during,
		       pair->problem);
	if (++bench->losses[index] >= LOSSES_MAX)
		bench_lose(bench, index, "it failed %d times", LOSSES_MAX);
	else if (!pair_begin(pair, contender, &bench->place))
		bench_lose(bench, index, "%s", pair->problem);
}

static void obey(struct bench *bench, size_t index, const struct order *order, struct cell *cell)
{
	struct reply replies[2];
	const struct report *report = &replies[PAIR_ACTIVE].report;
	char during[64], size[16];

	if (!pair_order(&bench->pairs[index], order, replies)) {
		snprintf(during, sizeof(during), "%s of %s",
			 operation_title((enum operation)order->operation),
			 size_text(order->size, size));
		replace_pair(bench, index, order->work == WORK_QPS ? "creating QPs" : during);
		return;
	}
	cell_add_samples(cell, replies[PAIR_ACTIVE].samples, report->sample_count);
	if (order->work == WORK_THROUGHPUT)
		cell_add_figure(cell, FIGURE_RATE,
				(double)report->messages * 1e9 / report->elapsed_ns);
	if (order->work == WORK_QPS)
		cell_add_figure(cell, FIGURE_POLL, report->poll_ns);
	cell->lost += report->lost;
	reply_free(replies);
}

void measure_cell(struct bench *bench, size_t contender, enum work work, enum operation operation,
		  uint64_t size)
{
	const struct plan *plan = bench->plan;
	struct order order = {
		.work = work,
		.operation = operation,
		.size = size,
		.duration_ns = plan->duration_ns,
		.patience_ns = PATIENCE_NS,
		.count_max = work == WORK_LATENCY || plan->is_quick ? plan->samples_max
								    : ORDER_SAMPLES_MAX,
		.depth = DEPTH,
	};

	obey(bench, contender, &order,
	     results_cell(bench->results, &contenders[contender], work, operation, size));
}

void measure_qps(struct bench *bench, size_t contender, uint32_t count)
{
	struct order order = {.work = WORK_QPS, .patience_ns = QPS_PATIENCE_NS, .count_max = count};

	obey(bench, contender, &order,
	     results_cell(bench->results, &contenders[contender], WORK_QPS, OPERATION_WRITE,
			  count));
}

void measure_pages(struct bench *bench, size_t contender, enum operation step)
{
	struct order order = {
		.work = WORK_PAGES,
		.operation = step,
		.size = PAGES_SIZE,
		.duration_ns = bench->plan->duration_ns,
		.patience_ns = PATIENCE_NS,
		.count_max = bench->plan->samples_max,
	};
	struct cell *cell =
		results_cell(bench->results, &contenders[contender], WORK_PAGES, step, PAGES_SIZE);
	size_t before = cell->sample_count;

	obey(bench, contender, &order, cell);
	if (cell->sample_count == before && !interrupt_came())
		results_remark(bench->results,
			       "%s: registered memory was not adopted, so that has no price.",
			       contenders[contender].title);
}

/* --- one round --- */

static bool is_in(const struct bench *bench, size_t contender)
{
	return bench->plan->is_wanted[contender] && !bench->is_lost[contender];
}

/* All contenders, one after the other, so that they alternate as closely as can be. */
static void visit_contenders(struct bench *bench, visitor visit, enum work work,
			     enum operation operation, uint64_t size)
{
	for (size_t i = 0; i < contender_count; i++) {
		struct step step = {i, work, operation, size, false};

		if (is_in(bench, i) && contenders[i].kind == CONTENDER_PAIR &&
		    contender_does(&contenders[i], work, operation, size))
			visit(bench, &step);
	}
}

static void visit_sizes(struct bench *bench, visitor visit, enum work work,
			enum operation operation)
{
	const struct plan *plan = bench->plan;

	if (operation_is_atomic(operation))
		visit_contenders(bench, visit, work, operation, sizeof(uint64_t));
	else if (operation == OPERATION_MIX)
		visit_contenders(bench, visit, work, operation, SMALL_SIZE);
	else
		for (size_t i = 0; i < plan->size_count; i++)
			visit_contenders(bench, visit, work, operation, plan->sizes[i]);
}

static void visit_outside(struct bench *bench, visitor visit)
{
	for (size_t i = 0; i < contender_count; i++) {
		struct step step = {.contender = i, .is_outside = true};

		if (is_in(bench, i) && contenders[i].kind != CONTENDER_PAIR)
			visit(bench, &step);
	}
}

/* Very many QPs are made in the first rounds only: they take long, and vary little. */
static void visit_qps(struct bench *bench, visitor visit)
{
	const struct plan *plan = bench->plan;
	size_t kinds = bench->results->rounds < 3 ? 3 : 2;

	for (size_t k = 0; k < kinds; k++)
		for (size_t i = 0; i < contender_count; i++) {
			struct step step = {i, WORK_QPS, OPERATION_WRITE, plan->qp_counts[k],
					    false};

			if (is_in(bench, i) && contender_is_link(&contenders[i]))
				visit(bench, &step);
		}
}

/* Two processes need a link between them. The bare line is our own end's. */
static void visit_market(struct bench *bench, visitor visit)
{
	for (size_t i = 0; i < contender_count; i++) {
		const struct contender *contender = &contenders[i];
		struct step step = {i, WORK_MARKET, OPERATION_WRITE, 4096, false};
		bool is_bare = contender->transport && strcmp(contender->transport, "memory") == 0;

		if (is_in(bench, i) &&
		    ((contender_is_link(contender) && !contender->is_in_one_process) || is_bare))
			visit(bench, &step);
	}
}

static void visit_pages(struct bench *bench, visitor visit)
{
	for (enum operation o = OPERATION_TOUCH; o <= OPERATION_MOVE_BACK; o++)
		for (size_t i = 0; i < contender_count; i++) {
			struct step step = {i, WORK_PAGES, o, PAGES_SIZE, false};

			if (is_in(bench, i) && contenders[i].shares_pages)
				visit(bench, &step);
		}
}

static void visit_round(struct bench *bench, visitor visit)
{
	const struct plan *plan = bench->plan;

	for (enum operation o = 0; o < OPERATION_COUNT; o++) {
		if (plan->latency)
			visit_sizes(bench, visit, WORK_LATENCY, o);
		if (plan->throughput)
			visit_sizes(bench, visit, WORK_THROUGHPUT, o);
	}
	if (plan->latency || plan->throughput)
		visit_outside(bench, visit);
	if (plan->qps)
		visit_qps(bench, visit);
	if (plan->pages)
		visit_pages(bench, visit);
	if (plan->market)
		visit_market(bench, visit);
}

static void count(struct bench *bench, const struct step *step)
{
	(void)step;
	bench->todo++;
}

static const char *work_words(const struct step *step)
{
	if (step->is_outside)
		return "";
	switch (step->work) {
	case WORK_LATENCY:
		return ", latency of ";
	case WORK_THROUGHPUT:
		return ", throughput of ";
	case WORK_QPS:
		return ", many QPs";
	case WORK_MARKET:
		return ", market data";
	case WORK_PAGES:
		return ", pages";
	}
	return "";
}

static void show(const struct bench *bench, const struct step *step)
{
	bool has_operation = !step->is_outside &&
			     (step->work == WORK_LATENCY || step->work == WORK_THROUGHPUT);
	char size[16];

	progress_show(bench, "%s%s%s%s%s", contenders[step->contender].title, work_words(step),
		      has_operation ? operation_title(step->operation) : "",
		      has_operation ? ", " : "", has_operation ? size_text(step->size, size) : "");
}

/* At this moment nothing is measured, so whoever runs is a stranger. */
static void count_others(struct bench *bench)
{
	FILE *file = fopen("/proc/loadavg", "re");
	unsigned running;

	if (file && fscanf(file, "%*f %*f %*f %u/", &running) == 1) {
		bench->others_sum += running - 1;
		bench->others_count++;
	}
	if (file)
		fclose(file);
}

static void carry_out(struct bench *bench, const struct step *step)
{
	/* A contender may have been lost since the round began. */
	if (interrupt_came() || !is_in(bench, step->contender))
		return;
	show(bench, step);
	count_others(bench);
	if (step->is_outside)
		measure_outside(bench, step->contender);
	else if (step->work == WORK_QPS)
		measure_qps(bench, step->contender, (uint32_t)step->size);
	else if (step->work == WORK_MARKET)
		measure_market(bench, step->contender);
	else if (step->work == WORK_PAGES)
		measure_pages(bench, step->contender, step->operation);
	else
		measure_cell(bench, step->contender, step->work, step->operation, step->size);
	bench->done++;
}

/* --- all rounds --- */

static void begin_contender(struct bench *bench, size_t index)
{
	const struct contender *contender = &contenders[index];

	if (contender->kind == CONTENDER_PAIR) {
		if (!pair_begin(&bench->pairs[index], contender, &bench->place))
			bench_lose(bench, index, "%s", bench->pairs[index].problem);
		return;
	}
	if (!programs_has(contender->program))
		bench_lose(bench, index, "there is no %s; the package %s has it",
			   contender->program, contender->package);
}

static bool begin_all(struct bench *bench)
{
	bool has_any = false;

	for (size_t i = 0; i < contender_count; i++) {
		bench->pairs[i].controls[0] = bench->pairs[i].controls[1] = -1;
		if (!bench->plan->is_wanted[i] || interrupt_came())
			continue;
		progress_show(bench, "starting %s", contenders[i].title);
		begin_contender(bench, i);
		has_any = has_any || !bench->is_lost[i];
	}
	return has_any;
}

/* Whether one more round like those before fits the time. */
static bool has_time(const struct bench *bench)
{
	unsigned rounds = bench->results->rounds;
	double used = bench_seconds(bench);

	return rounds == 0 || used + used / rounds <= bench->plan->seconds_max;
}

static void run_rounds(struct bench *bench)
{
	struct results *results = bench->results;

	while (results->rounds < bench->plan->rounds && has_time(bench)) {
		bench->done = bench->todo = 0;
		visit_round(bench, count);
		visit_round(bench, carry_out);
		if (interrupt_came())
			break;
		results->rounds++;
	}
	if (results->rounds < bench->plan->rounds && !interrupt_came())
		results_remark(results,
			       "%u of %u rounds were measured: more do not fit %.0f seconds.",
			       results->rounds, bench->plan->rounds, bench->plan->seconds_max);
}

/* A setting that is not understood, say: what the library told its user goes to ours. */
static void end_pair(struct bench *bench, size_t index)
{
	struct pair *pair = &bench->pairs[index];
	char said[200];

	if (!pair_is_there(pair))
		return;
	child_last_line(&pair->children[PAIR_ACTIVE], said, sizeof(said));
	if (*said && contender_is_link(&contenders[index]))
		results_remark(bench->results, "%s said: %s", contenders[index].title, said);
	pair_end(pair);
}

bool bench_measure(const struct plan *plan, struct results *results)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	bool has_any = false;

	if (!bench)
		return false;
	bench->plan = plan;
	bench->results = results;
	bench->started = now_seconds();
	interrupt_watch();
	if (place_find(&bench->place)) {
		if (bench->place.cpus[0] < 0)
			results_remark(results, "There is one processor: both ends share it, and "
						"yield to each other.");
		has_any = begin_all(bench);
		if (has_any)
			run_rounds(bench);
	}
	for (size_t i = 0; i < contender_count; i++)
		end_pair(bench, i);
	progress_clear();
	results->is_interrupted = interrupt_came();
	results->seconds = bench_seconds(bench);
	if (bench->others_count)
		results->others = bench->others_sum / bench->others_count;
	free(bench);
	return has_any;
}
