/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A story: two hosts, a and b, with one connected QP each, a link that does what the
 * story says, and the trace that must come out. README.md tells how one is written.
 */
#ifndef VBN_TESTS_SIM_SCENARIOS_STORY_H
#define VBN_TESTS_SIM_SCENARIOS_STORY_H

#include "sim/check_retry.h"
#include "sim/decisions.h"

#define STORY_ACTIONS_MAX 64
#define STORY_WORDS_MAX 24
/* Every host has three regions of this size: own, open (to the peer) and inbox. */
#define STORY_REGION_BYTES 131072
#define STORY_REGIONS 3

struct story_action {
	struct story *story;
	uint32_t line; /* of the file, for complaints */
	vbn_time time;
	uint32_t host;
	const char *words[STORY_WORDS_MAX + 1]; /* ends with NULL */
};

struct story {
	const char *path;
	/* What the settings say; both ends alike. */
	struct connection_terms terms;
	uint64_t latency_ns;
	uint32_t queue; /* requests that a send or receive queue takes */
	int64_t window_bytes;

	struct story_action actions[STORY_ACTIONS_MAX];
	uint32_t action_count;

	struct world world;
	struct host_qp *qps[2];
	struct region *regions[2][STORY_REGIONS];
	uint32_t inbox_used[2];
	struct check_retry check_retry;
	struct decisions decisions;
};

/* Ends the program with @line of the story and a sentence. */
__attribute__((format(printf, 3, 4), noreturn)) void
story_complain(const struct story *story, uint32_t line, const char *format, ...);

/* story_script.c: reads settings and actions from @text, which it cuts into words. */
void story_read(struct story *story, char *text);
uint64_t story_number(const struct story *story, uint32_t line, const char *word);
uint64_t story_time(const struct story *story, uint32_t line, const char *word);

/* story_action.c: does what an action says; its words are part of the trace. */
void story_act(struct world *world, void *subject, uint64_t argument);

#endif
