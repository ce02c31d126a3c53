/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is required of Verbena, each a ratio of two things measured in one run, by the medians of
 * their rounds.
 */
#ifndef VBN_TOOLS_BENCH_REQUIREMENTS_H
#define VBN_TOOLS_BENCH_REQUIREMENTS_H

#include "tools/bench/results.h"

struct requirement {
	char text[96];
	double ours, other; /* in one unit; what it is, the text says */
	double ratio, bound;
	bool is_at_least; /* else at most */
};

#define REQUIREMENTS_MAX 32

/* Those for which both sides were measured; how many. */
size_t requirements_find(const struct results *results,
			 struct requirement found[static REQUIREMENTS_MAX]);
bool requirement_holds(const struct requirement *requirement);

#endif
