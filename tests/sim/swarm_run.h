/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VBN_TESTS_SIM_SWARM_RUN_H
#define VBN_TESTS_SIM_SWARM_RUN_H

#include "sim/swarm_plan.h"

struct swarm_result {
	bool has_failed;
	char failure[512];
	uint64_t trace_hash;
	uint64_t events, packets;
	uint64_t counted; /* see below */
	vbn_time ended;
};

/* What a run counts besides, in words: what the tests must have seen. NULL: nothing. */
extern const char *const swarm_counts;

/* From now on packets go through rings in memory (rings.h). False: there is no such thing here. */
bool swarm_use_rings(void);

/* Draws, runs and judges one seed. @trace_text: where its trace goes, or NULL. */
struct swarm_result swarm_run(uint64_t seed, FILE *trace_text);

/* The plan of a seed, in words. */
void swarm_describe(uint64_t seed, FILE *out);

#endif
