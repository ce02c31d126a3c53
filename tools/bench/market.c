/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Market data: of a link by examples/market_data.c, two processes of it a round, and as the bare
 * line by our own ends. Batches and pauses are the same for all.
 */
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/bench/programs.h"
#include "tools/bench/readings.h"

#define BATCH 8
#define INTERVAL_NS 25000
#define PATIENCE_MS 30000

struct effort {
	double rate, cpu; /* messages a second; processor seconds a second */
};

static void keep(struct bench *bench, size_t contender, const double *samples, size_t count,
		 const struct effort efforts[2])
{
	struct cell *cell = results_cell(bench->results, &contenders[contender], WORK_MARKET,
					 OPERATION_WRITE, 4096);

	cell_add_samples(cell, samples, count);
	cell_add_figure(cell, FIGURE_RATE, efforts[PAIR_ACTIVE].rate);
	cell_add_figure(cell, FIGURE_CPU_ACTIVE, efforts[PAIR_ACTIVE].cpu);
	cell_add_figure(cell, FIGURE_CPU_PASSIVE, efforts[PAIR_PASSIVE].cpu);
}

/* --- the bare line --- */

static struct effort effort_of(const struct report *report, double messages)
{
	return (struct effort){.rate = messages * 1e9 / report->elapsed_ns,
			       .cpu = report->cpu_ns / report->elapsed_ns};
}

static void measure_bare(struct bench *bench, size_t contender)
{
	struct order order = {.work = WORK_MARKET,
			      .size = 4096,
			      .patience_ns = (uint64_t)PATIENCE_MS * 1000000,
			      .count_max = bench->plan->snapshots,
			      .batch = BATCH,
			      .interval_ns = INTERVAL_NS};
	double count = bench->plan->snapshots;
	struct pair *pair = &bench->pairs[contender];
	struct reply replies[2];
	struct effort efforts[2];

	if (!pair_is_there(pair))
		return;
	if (!pair_order(pair, &order, replies)) {
		bench_lose(bench, contender, "%s", pair->problem);
		return;
	}
	for (int i = 0; i < 2; i++)
		efforts[i] = effort_of(&replies[i].report, count);
	keep(bench, contender, replies[PAIR_PASSIVE].samples,
	     replies[PAIR_PASSIVE].report.sample_count, efforts);
	reply_free(replies);
}

/* --- a link --- */

/* One number in each line; how many there are. To be freed. */
static size_t read_samples(int fd, double **samples, size_t count_max)
{
	FILE *file = fdopen(dup(fd), "r");
	size_t count = 0;

	*samples = calloc(count_max, sizeof(**samples));
	if (!file || !*samples) {
		if (file)
			fclose(file);
		return 0;
	}
	rewind(file);
	while (count < count_max && fscanf(file, "%lf", &(*samples)[count]) == 1)
		count++;
	fclose(file);
	return count;
}

static bool read_effort(const char *text, struct effort *effort)
{
	bool is_good = reading_labelled(text, "messages per second", &effort->rate) &&
		       reading_labelled(text, "CPU use", &effort->cpu);

	effort->cpu /= 100; /* percent */
	return is_good;
}

static void take_outcome(struct bench *bench, size_t contender,
			 const struct programs_outcome *outcome, int samples_file)
{
	struct effort efforts[2];
	double *samples;
	size_t count = read_samples(samples_file, &samples, bench->plan->snapshots);

	if (!outcome->is_good)
		bench_lose(bench, contender, "market data: %s", outcome->problem);
	else if (count != bench->plan->snapshots ||
		 !read_effort(outcome->client, &efforts[PAIR_ACTIVE]) ||
		 !read_effort(outcome->server, &efforts[PAIR_PASSIVE]))
		bench_lose(bench, contender,
			   "what the program for market data printed cannot be "
			   "understood");
	else
		keep(bench, contender, samples, count, efforts);
	free(samples);
}

struct words {
	char port[16], count[16], batch[16], interval[16], samples[48], cpus[2][16];
};

static void write_words(const struct bench *bench, uint16_t port, int samples_file,
			struct words *words)
{
	snprintf(words->port, sizeof(words->port), "%u", port);
	snprintf(words->count, sizeof(words->count), "%u", bench->plan->snapshots);
	snprintf(words->batch, sizeof(words->batch), "%d", BATCH);
	snprintf(words->interval, sizeof(words->interval), "%d", INTERVAL_NS);
	snprintf(words->samples, sizeof(words->samples), "/proc/self/fd/%d", samples_file);
	for (int i = 0; i < 2; i++)
		snprintf(words->cpus[i], sizeof(words->cpus[i]), "%d", bench->place.cpus[i]);
}

static struct child_start start_of(const struct contender *contender, const char *address,
				   const char *const *words)
{
	return (struct child_start){.words = words,
				    .settings = {"VERBENA_LINK", contender->link, "VERBENA_ADDRESS",
						 address, "VERBENA_SHARE", "1"},
				    .uses_our_library = true,
				    .cpu = -1};
}

static void measure_link(struct bench *bench, size_t index)
{
	const struct contender *contender = &contenders[index];
	const char *publisher_address = bench->place.addresses[0];
	const char *receiver_address = bench->place.addresses[contender->has_two_addresses ? 1 : 0];
	uint16_t port = programs_free_port();
	int samples_file = memfd_create("bench samples", MFD_CLOEXEC);
	const int inherited[] = {samples_file, -1};
	struct words words;
	/* Processors stand at the end, where one that is not pinned leaves them away. */
	const char *receiver[] = {bench->place.market_program,
				  "--port",
				  words.port,
				  "--snapshots",
				  words.count,
				  "--batch",
				  words.batch,
				  "--samples",
				  words.samples,
				  "--cpu",
				  words.cpus[PAIR_PASSIVE],
				  NULL};
	const char *publisher[] = {bench->place.market_program,
				   "--port",
				   words.port,
				   "--snapshots",
				   words.count,
				   "--batch",
				   words.batch,
				   "--interval",
				   words.interval,
				   receiver_address,
				   "--cpu",
				   words.cpus[PAIR_ACTIVE],
				   NULL};
	struct child_start server = start_of(contender, receiver_address, receiver);
	struct child_start client = start_of(contender, publisher_address, publisher);
	struct programs_outcome *outcome;

	write_words(bench, port, samples_file, &words);
	if (bench->place.cpus[0] < 0)
		receiver[9] = publisher[10] = NULL;
	server.inherited = inherited;
	outcome = programs_run(&server, &client, port, PATIENCE_MS);
	take_outcome(bench, index, outcome, samples_file);
	free(outcome);
	close(samples_file);
}

void measure_market(struct bench *bench, size_t contender)
{
	if (contender_is_link(&contenders[contender]))
		measure_link(bench, contender);
	else
		measure_bare(bench, contender);
}
