/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of many_posters: a QP, the threads that post to it, and those that poll its CQ.
 * Whatever is wrong ends the program.
 */
#ifndef VBN_TESTS_TOOLS_POSTERS_H
#define VBN_TESTS_TOOLS_POSTERS_H

#include <stdint.h>

#include "tools/nic.h"

#define POSTERS 8
#define POLLERS 2

struct posters_plan {
	enum ibv_qp_type type;
	uint32_t message_count; /* of each thread */
};

struct posters;

struct posters *posters_open(const struct posters_plan *plan, uint64_t seed);
struct endpoint posters_describe(const struct posters *posters);
/* Receives are posted when it returns; those of a service without repeats all at once. */
void posters_connect(struct posters *posters, struct endpoint peer);
/* Starts the threads. */
void posters_start(struct posters *posters);
/* Waits until all have come and all have completed; checks. */
void posters_finish(struct posters *posters);
void posters_close(struct posters *posters);

#endif
