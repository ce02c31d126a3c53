/* SPDX-License-Identifier: BSD-2-Clause */
/* Two ends that wait for orders, as long as the bench runs. */
#ifndef VBN_TOOLS_BENCH_PAIR_H
#define VBN_TOOLS_BENCH_PAIR_H

#include "tools/bench/child.h"
#include "tools/bench/contender.h"

#define PAIR_ACTIVE 0
#define PAIR_PASSIVE 1

struct pair {
	const struct contender *contender;
	struct child children[2]; /* the second stays empty where both ends are in one process */
	int controls[2];	  /* -1: not started, or broken */
	char problem[320];	  /* why it is not there, a clause */
};

struct reply {
	struct report report;
	double *samples; /* to be freed */
};

/* Where things run. */
struct place {
	int cpus[2];	       /* -1: there is only one */
	char addresses[2][16]; /* of loopback, ours alone */
	char end_program[4096];
	char market_program[4096];
};

/* False after a sentence. */
bool place_find(struct place *place);

/* False: pair->problem says why. */
bool pair_begin(struct pair *pair, const struct contender *contender, const struct place *place);
bool pair_is_there(const struct pair *pair);
/* Replies of both ends; false: the pair is gone, pair->problem says why. */
bool pair_order(struct pair *pair, const struct order *order, struct reply replies[2]);
void reply_free(struct reply replies[2]);
void pair_end(struct pair *pair);

#endif
