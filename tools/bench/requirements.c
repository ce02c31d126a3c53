/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/bench/requirements.h"

#include <math.h>
#include <stdio.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)

/* A figure of a cell. */
struct side {
	const char *contender;
	enum work work;
	enum operation operation;
	uint64_t size;
	enum figure figure;
};

struct rule {
	const char *text;
	struct side ours, other;
	bool is_at_least, is_inverse; /* inverse: the other's divided by ours */
	double bound;
};

#define LATENCY(who, what, size) \
	{ \
		who, WORK_LATENCY, OPERATION_##what, size, FIGURE_MEDIAN \
	}
#define RATE(who, what, size) \
	{ \
		who, WORK_THROUGHPUT, OPERATION_##what, size, FIGURE_RATE \
	}
#define MARKET(who, figure) \
	{ \
		who, WORK_MARKET, OPERATION_WRITE, 4096, figure \
	}

#define PAGES(what) \
	{ \
		"shm", WORK_PAGES, OPERATION_##what, 4 * MIB, FIGURE_MEDIAN \
	}

static const struct rule rules[] = {
	{"WRITE of 16 B, latency, of UCX posix put", LATENCY("shm", WRITE, 16),
	 LATENCY("ucx-posix", WRITE, 16), false, false, 1.5},
	{"WRITE of 16 B, times better than TCP", LATENCY("shm", WRITE, 16),
	 LATENCY("tcp-socket", SEND, 16), true, true, 10},
	{"SEND of 16 B, latency, of UCX posix tag", LATENCY("shm", SEND, 16),
	 LATENCY("ucx-posix", SEND, 16), false, false, 1},
	{"WRITE of 64 KiB, throughput, of UCX posix put", RATE("shm", WRITE, 64 * KIB),
	 RATE("ucx-posix", WRITE, 64 * KIB), true, false, 0.9},
	{"WRITE of 256 KiB, throughput, of UCX posix put", RATE("shm", WRITE, 256 * KIB),
	 RATE("ucx-posix", WRITE, 256 * KIB), true, false, 0.9},
	{"WRITE of 1 MiB, throughput, of UCX posix put", RATE("shm", WRITE, MIB),
	 RATE("ucx-posix", WRITE, MIB), true, false, 0.9},
	{"READ of 64 KiB, throughput, of UCX posix put", RATE("shm", READ, 64 * KIB),
	 RATE("ucx-posix", WRITE, 64 * KIB), true, false, 0.9},
	{"READ of 256 KiB, throughput, of UCX posix put", RATE("shm", READ, 256 * KIB),
	 RATE("ucx-posix", WRITE, 256 * KIB), true, false, 0.9},
	{"READ of 1 MiB, throughput, of UCX posix put", RATE("shm", READ, MIB),
	 RATE("ucx-posix", WRITE, MIB), true, false, 0.9},
	{"WRITE of 8 B inline, rate, of UCX posix tag", RATE("shm", WRITE, 8),
	 RATE("ucx-posix", SEND, 8), true, false, 2},
	{"SEND of 1 MiB, throughput, of UCX posix tag", RATE("shm", SEND, MIB),
	 RATE("ucx-posix", SEND, MIB), true, false, 1},
	{"self: WRITE and SEND in turns, rate, of SEND alone", RATE("self", MIX, 16),
	 RATE("self", SEND, 16), true, false, 0.7},
	{"shm: WRITE and SEND in turns, rate, of SEND alone", RATE("shm", MIX, 16),
	 RATE("shm", SEND, 16), true, false, 0.7},
	{"udp: WRITE and SEND in turns, rate, of SEND alone", RATE("udp", MIX, 16),
	 RATE("udp", SEND, 16), true, false, 0.7},
	{"adopting a page, of the first touch of a fresh one", PAGES(ADOPT), PAGES(TOUCH), false,
	 false, 1.2},
	{"moving a page back, of the first touch of a fresh one", PAGES(MOVE_BACK), PAGES(TOUCH),
	 false, false, 1.2},
	{"market data, mean, of the bare line", MARKET("shm", FIGURE_MEAN),
	 MARKET("memory", FIGURE_MEAN), false, false, 1.8},
	{"market data, p99, of the bare line", MARKET("shm", FIGURE_P99),
	 MARKET("memory", FIGURE_P99), false, false, 3},
};

_Static_assert(sizeof(rules) / sizeof(rules[0]) <= REQUIREMENTS_MAX, "there is room for all");

static double value_of(const struct results *results, const struct side *side)
{
	return cell_figure(results_find(results, contender_named(side->contender), side->work,
					side->operation, side->size),
			   side->figure);
}

size_t requirements_find(const struct results *results,
			 struct requirement found[static REQUIREMENTS_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		const struct rule *rule = &rules[i];
		struct requirement requirement = {.ours = value_of(results, &rule->ours),
						  .other = value_of(results, &rule->other),
						  .bound = rule->bound,
						  .is_at_least = rule->is_at_least};

		if (isnan(requirement.ours) || isnan(requirement.other))
			continue;
		requirement.ratio = rule->is_inverse ? requirement.other / requirement.ours
						     : requirement.ours / requirement.other;
		snprintf(requirement.text, sizeof(requirement.text), "%s", rule->text);
		found[count++] = requirement;
	}
	return count;
}

bool requirement_holds(const struct requirement *requirement)
{
	return requirement->is_at_least ? requirement->ratio >= requirement->bound
					: requirement->ratio <= requirement->bound;
}
