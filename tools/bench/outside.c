/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The programs of others, once a round for all that they are compared in: ucx_perftest by a batch
 * file, fi_pingpong by its list of sizes. Each gets about as long for a size as one of our
 * own measurements takes, by a rough guess at its speed.
 */
#include "tools/bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/bench/programs.h"
#include "tools/bench/readings.h"

#define PATIENCE_MS 40000
#define TESTS_MAX 256
#define LIBFABRIC_ROWS_MAX 64
#define LIBFABRIC_COUNT 50
#define QUICK_COUNT 10
/* ucx_perftest measures in whole microseconds: fewer small messages take none. */
#define QUICK_COUNT_SMALL 1000
#define QUICK_SMALL_BYTES 4096u
#define ITERATIONS_MIN 10u
#define ITERATIONS_MAX 200000u
#define LOOPBACK "127.0.0.1"

struct test {
	enum work work;
	enum operation operation;
	uint64_t size;
};

struct tests {
	struct test list[TESTS_MAX];
	size_t count;
};

static void list_tests(const struct plan *plan, const struct contender *contender,
		       struct tests *tests)
{
	static const enum work works[] = {WORK_LATENCY, WORK_THROUGHPUT};

	tests->count = 0;
	for (size_t w = 0; w < 2; w++) {
		if (!(works[w] == WORK_LATENCY ? plan->latency : plan->throughput))
			continue;
		for (enum operation o = 0; o < OPERATION_COUNT; o++)
			for (size_t s = 0; s < plan->size_count && tests->count < TESTS_MAX; s++)
				if (contender_does(contender, works[w], o, plan->sizes[s]))
					tests->list[tests->count++] =
						(struct test){works[w], o, plan->sizes[s]};
	}
}

size_t outside_cell_count(const struct plan *plan, const struct contender *contender)
{
	struct tests tests;

	list_tests(plan, contender, &tests);
	return tests.count;
}

static struct cell *cell_of(struct bench *bench, size_t contender, const struct test *test)
{
	return results_cell(bench->results, &contenders[contender], test->work, test->operation,
			    test->size);
}

/* --- UCX --- */

static const char *ucx_test_name(const struct test *test)
{
	bool is_put = test->operation == OPERATION_WRITE;

	if (test->work == WORK_LATENCY)
		return is_put ? "ucp_put_lat" : "tag_lat";
	return is_put ? "ucp_put_bw" : "tag_bw";
}

static unsigned iterations(const struct plan *plan, const struct contender *contender,
			   const struct test *test)
{
	bool is_tcp = strcmp(contender->setting, "tcp") == 0;
	double message_ns = is_tcp ? 1000 : 100, byte_ns = is_tcp ? 3.0 : 0.1, wanted;

	if (plan->is_quick)
		return test->size <= QUICK_SMALL_BYTES ? QUICK_COUNT_SMALL : QUICK_COUNT;
	if (test->work == WORK_LATENCY)
		message_ns *= is_tcp ? 20 : 3;
	wanted = (double)plan->duration_ns / (message_ns + byte_ns * (double)test->size);
	return (unsigned)fmin(fmax(wanted, ITERATIONS_MIN), ITERATIONS_MAX);
}

/* A file in memory with a line for each test, named by its index. -1: there is no room. */
static int write_batch(const struct bench *bench, const struct contender *contender,
		       const struct tests *tests)
{
	int fd = memfd_create("bench batch", MFD_CLOEXEC);

	for (size_t i = 0; fd >= 0 && i < tests->count; i++) {
		const struct test *test = &tests->list[i];
		unsigned count = iterations(bench->plan, contender, test);

		dprintf(fd, "%zu -t %s -s %llu -n %u -w %u\n", i, ucx_test_name(test),
			(unsigned long long)test->size, count, count / 4 + 1);
	}
	return fd;
}

static bool take_ucx(struct bench *bench, size_t contender, const struct tests *tests,
		     const char *text)
{
	struct ucx_reading readings[TESTS_MAX];
	int count = readings_of_ucx(text, readings, TESTS_MAX);

	if (count != (int)tests->count)
		return false;
	for (int i = 0; i < count; i++) {
		size_t index = strtoul(readings[i].name, NULL, 10);
		struct cell *cell;

		if (index >= tests->count)
			return false;
		cell = cell_of(bench, contender, &tests->list[index]);
		if (tests->list[index].work == WORK_THROUGHPUT) {
			cell_add_figure(cell, FIGURE_RATE, readings[i].messages_per_second);
			continue;
		}
		cell_add_figure(cell, FIGURE_MEDIAN, readings[i].median_us * 1000);
		cell_add_figure(cell, FIGURE_MEAN, readings[i].mean_us * 1000);
	}
	return true;
}

/* The words of both ends; the client's end with the server's address. */
static struct programs_outcome *run_both(const struct bench *bench, const char *const *words,
					 const struct child_start *common, uint16_t port)
{
	struct child_start server = *common, client = *common;
	const char *longer[24];
	size_t count = 0;

	for (; words[count]; count++)
		longer[count] = words[count];
	longer[count] = LOOPBACK;
	longer[count + 1] = NULL;
	server.words = words;
	client.words = longer;
	server.cpu = bench->place.cpus[PAIR_PASSIVE];
	client.cpu = bench->place.cpus[PAIR_ACTIVE];
	return programs_run(&server, &client, port, PATIENCE_MS);
}

static void measure_ucx(struct bench *bench, size_t index)
{
	const struct contender *contender = &contenders[index];
	struct tests tests;
	uint16_t port = programs_free_port();
	char port_word[16], file_word[48];
	const char *words[] = {contender->program, "-p", port_word, "-b",
			       file_word,	   "-v", "-f",	    NULL};
	struct child_start common = {
		.settings = {"UCX_TLS", contender->setting, "UCX_LOG_LEVEL", "error"}};
	struct programs_outcome *outcome;
	int inherited[] = {-1, -1};

	list_tests(bench->plan, contender, &tests);
	inherited[0] = write_batch(bench, contender, &tests);
	common.inherited = inherited;
	snprintf(port_word, sizeof(port_word), "%u", port);
	snprintf(file_word, sizeof(file_word), "/proc/self/fd/%d", inherited[0]);
	outcome = run_both(bench, words, &common, port);
	if (!outcome->is_good)
		bench_lose(bench, index, "%s", outcome->problem);
	else if (!take_ucx(bench, index, &tests, outcome->client))
		bench_lose(bench, index, "what %s printed cannot be understood",
			   contender->program);
	free(outcome);
	close(inherited[0]);
}

/* --- libfabric --- */

static bool take_libfabric(struct bench *bench, size_t contender, const struct tests *tests,
			   const char *text)
{
	struct libfabric_reading readings[LIBFABRIC_ROWS_MAX];
	int count = readings_of_libfabric(text, readings, LIBFABRIC_ROWS_MAX);

	for (int i = 0; i < count; i++)
		for (size_t t = 0; t < tests->count; t++)
			if (tests->list[t].size == readings[i].bytes)
				cell_add_figure(cell_of(bench, contender, &tests->list[t]),
						FIGURE_MEAN, readings[i].mean_us * 1000);
	return count > 0;
}

static void measure_libfabric(struct bench *bench, size_t index)
{
	const struct contender *contender = &contenders[index];
	bool is_shm = strcmp(contender->setting, "shm") == 0;
	uint16_t port = programs_free_port();
	struct tests tests;
	char port_word[16], count_word[16];
	const char *words[] = {contender->program,
			       "-p",
			       contender->setting,
			       "-e",
			       is_shm ? "rdm" : "msg",
			       "-S",
			       "all",
			       "-I",
			       count_word,
			       "-B",
			       port_word,
			       "-P",
			       port_word,
			       NULL};
	/* The source of the client's own control connection is the kernel's choice. */
	const char *asking[] = {contender->program,
				"-p",
				contender->setting,
				"-e",
				is_shm ? "rdm" : "msg",
				"-S",
				"all",
				"-I",
				count_word,
				"-P",
				port_word,
				LOOPBACK,
				NULL};
	struct child_start server = {.words = words, .cpu = bench->place.cpus[PAIR_PASSIVE]};
	struct child_start client = {.words = asking, .cpu = bench->place.cpus[PAIR_ACTIVE]};
	struct programs_outcome *outcome;

	list_tests(bench->plan, contender, &tests);
	snprintf(port_word, sizeof(port_word), "%u", port);
	snprintf(count_word, sizeof(count_word), "%d",
		 bench->plan->is_quick ? QUICK_COUNT : LIBFABRIC_COUNT);
	outcome = programs_run(&server, &client, port, PATIENCE_MS);
	if (!outcome->is_good)
		bench_lose(bench, index, "%s", outcome->problem);
	else if (!take_libfabric(bench, index, &tests, outcome->client))
		bench_lose(bench, index, "what %s printed cannot be understood",
			   contender->program);
	free(outcome);
}

void measure_outside(struct bench *bench, size_t contender)
{
	if (outside_cell_count(bench->plan, &contenders[contender]) == 0)
		return;
	if (contenders[contender].kind == CONTENDER_UCX)
		measure_ucx(bench, contender);
	else
		measure_libfabric(bench, contender);
}
