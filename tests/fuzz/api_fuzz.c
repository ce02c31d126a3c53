/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random verbs calls, right and wrong, against a small model of what they must answer.
 *
 * Usage: api_fuzz [--seed N] [--runs N] [--steps N] [--threads N] [--seconds N]
 *
 * A run is a seed: so many steps by each thread, then everything is destroyed. Several
 * threads have objects of their own and, besides, use some together. Runs go on
 * with the next seed until their count or the seconds are over. With one thread a seed is
 * the same calls each time; what the engine's helper does in between is not.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "fuzz/api_shared.h"
#include "fuzz/api_world.h"
#include "tools/fail.h"

#define THREADS_MAX 16

struct plan {
	uint64_t seed, runs, steps;
	unsigned int threads, seconds;
	char repeat[128];
};

struct worker {
	const struct plan *plan;
	uint64_t seed;
	uint64_t completions;
	pthread_t thread;
};

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct world *world = calloc(1, sizeof(*world));

	need_object(world, "calloc");
	world_open(world, worker->seed, worker->plan->repeat);
	for (uint64_t i = 0; i < worker->plan->steps; i++) {
		world_step(world);
		if (worker->plan->threads > 1)
			step_shared(world);
	}
	world_close(world);
	worker->completions = world->completions;
	free(world);
	return NULL;
}

static uint64_t run(const struct plan *plan, uint64_t seed)
{
	struct worker workers[THREADS_MAX];
	uint64_t completions = 0;

	for (int i = 0; i < SHARED_NUMBERS; i++)
		shared_numbers[i] = 0;
	if (plan->threads > 1)
		shared_open();
	for (unsigned int i = 0; i < plan->threads; i++) {
		/* Threads of one run differ, and one thread is its seed. */
		workers[i] = (struct worker){.plan = plan, .seed = seed + ((uint64_t)i << 48)};
		need_zero(pthread_create(&workers[i].thread, NULL, work, &workers[i]),
			  "pthread_create");
	}
	for (unsigned int i = 0; i < plan->threads; i++) {
		pthread_join(workers[i].thread, NULL);
		completions += workers[i].completions;
	}
	if (plan->threads > 1)
		shared_close();
	return completions;
}

static void read_plan(int argc, char **argv, struct plan *plan)
{
	static const struct option options[] = {
		{"seed", 1, NULL, 's'},	   {"runs", 1, NULL, 'r'},    {"steps", 1, NULL, 'n'},
		{"threads", 1, NULL, 't'}, {"seconds", 1, NULL, 'd'}, {NULL, 0, NULL, 0}};
	bool has_seed = false;
	int option;

	*plan = (struct plan){.runs = UINT64_MAX, .steps = 10000, .threads = 1};
	if (getrandom(&plan->seed, 4, 0) != 4)
		fail_errno("getrandom");
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 0) : 0;

		switch (option) {
		case 's':
			plan->seed = value;
			has_seed = true;
			break;
		case 'r':
			plan->runs = value;
			break;
		case 'n':
			plan->steps = value;
			break;
		case 't':
			plan->threads = (unsigned int)value;
			break;
		case 'd':
			plan->seconds = (unsigned int)value;
			break;
		default:
			give_up("unknown option; see the first lines of the source");
		}
	}
	if (plan->runs == UINT64_MAX && !plan->seconds)
		plan->runs = has_seed ? 1 : 10;
	if (!plan->threads || plan->threads > THREADS_MAX)
		give_up("1 to %d threads", THREADS_MAX);
	snprintf(plan->repeat, sizeof(plan->repeat), "%s --threads %u --steps %llu", argv[0],
		 plan->threads, (unsigned long long)plan->steps);
}

static time_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

int main(int argc, char **argv)
{
	time_t started = seconds_now();
	uint64_t runs = 0, completions = 0;
	struct plan plan;

	read_plan(argc, argv, &plan);
	do {
		completions += run(&plan, plan.seed + runs++);
	} while (runs < plan.runs &&
		 (!plan.seconds || seconds_now() - started < (time_t)plan.seconds));
	printf("%llu runs from seed %llu on, %llu steps each by %u threads, %llu requests succeeded\n",
	       (unsigned long long)runs, (unsigned long long)plan.seed,
	       (unsigned long long)plan.steps, plan.threads, (unsigned long long)completions);
	/* A run that completes nothing has tested little. */
	return completions ? 0 : 1;
}
