/* SPDX-License-Identifier: BSD-2-Clause */
/* The upper half of a story's file: comments, settings, actions. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenarios/story.h"

uint64_t story_number(const struct story *story, uint32_t line, const char *word)
{
	char *end;
	uint64_t value;

	if (!word)
		story_complain(story, line, "a number is missing");
	errno = 0;
	value = strtoull(word, &end, 0);
	if (errno || end == word || *end)
		story_complain(story, line, "'%s' is not a number", word);
	return value;
}

uint64_t story_time(const struct story *story, uint32_t line, const char *word)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"us", VBN_MICROSECOND}, {"ms", VBN_MILLISECOND}, {"s", VBN_SECOND}};
	char *end;
	uint64_t value;

	if (!word)
		story_complain(story, line, "a time is missing");
	value = strtoull(word, &end, 10);
	for (size_t i = 0; end != word && i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i].name) == 0)
			return value * units[i].ns;
	story_complain(story, line, "'%s' is not a time in us, ms or s", word);
}

static enum ibv_mtu mtu_of(const struct story *story, uint32_t line, uint64_t bytes)
{
	for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
		if (bytes == 128u << mtu)
			return mtu;
	story_complain(story, line, "%llu is no path MTU", (unsigned long long)bytes);
}

static void set(struct story *story, uint32_t line, const char *name, const char *value)
{
	struct connection_terms *terms = &story->terms;

	if (strcmp(name, "latency") == 0)
		story->latency_ns = story_time(story, line, value);
	else if (strcmp(name, "mtu") == 0)
		terms->mtu = mtu_of(story, line, story_number(story, line, value));
	else if (strcmp(name, "psn") == 0)
		terms->sq_psn = terms->rq_psn = (uint32_t)story_number(story, line, value);
	else if (strcmp(name, "timeout") == 0)
		terms->timeout = (uint8_t)story_number(story, line, value);
	else if (strcmp(name, "retry_cnt") == 0)
		terms->retry_cnt = (uint8_t)story_number(story, line, value);
	else if (strcmp(name, "rnr_retry") == 0)
		terms->rnr_retry = (uint8_t)story_number(story, line, value);
	else if (strcmp(name, "min_rnr_timer") == 0)
		terms->min_rnr_timer = (uint8_t)story_number(story, line, value);
	else if (strcmp(name, "read_depth") == 0)
		terms->rd_atomic = terms->dest_rd_atomic =
			(uint8_t)story_number(story, line, value);
	else if (strcmp(name, "queue") == 0)
		story->queue = (uint32_t)story_number(story, line, value);
	else if (strcmp(name, "window") == 0)
		story->window_bytes = (int64_t)story_number(story, line, value);
	else
		story_complain(story, line, "there is no setting '%s'", name);
}

static uint32_t host_of(const struct story *story, uint32_t line, const char *word)
{
	if (!word || (strcmp(word, "a") != 0 && strcmp(word, "b") != 0))
		story_complain(story, line, "behind the time comes a host, a or b");
	return (uint32_t)(word[0] - 'a');
}

/* "10us a post send 1 length 100" */
static void read_action(struct story *story, uint32_t line, const char **words, uint32_t count)
{
	struct story_action *action = &story->actions[story->action_count];

	if (story->action_count == STORY_ACTIONS_MAX)
		story_complain(story, line, "more than %d actions", STORY_ACTIONS_MAX);
	if (count < 3)
		story_complain(story, line, "an action is a time, a host and what it does");
	story->action_count++;
	action->story = story;
	action->line = line;
	action->time = story_time(story, line, words[0]);
	action->host = host_of(story, line, words[1]);
	memcpy(action->words, words + 2, (count - 2) * sizeof(*words));
	action->words[count - 2] = NULL;
}

static void read_line(struct story *story, uint32_t line, char *text)
{
	const char *words[STORY_WORDS_MAX];
	uint32_t count = 0;
	char *rest = text, *word;

	while ((word = strsep(&rest, " \t"))) {
		if (!*word)
			continue;
		if (count == STORY_WORDS_MAX)
			story_complain(story, line, "more than %d words", STORY_WORDS_MAX);
		words[count++] = word;
	}
	if (count == 0 || words[0][0] == '#')
		return;
	if (isdigit((unsigned char)words[0][0])) {
		read_action(story, line, words, count);
		return;
	}
	for (uint32_t i = 0; i < count; i += 2)
		set(story, line, words[i], i + 1 < count ? words[i + 1] : NULL);
}

void story_read(struct story *story, char *text)
{
	uint32_t line = 0;
	char *rest = text, *next;

	while ((next = strsep(&rest, "\n")))
		read_line(story, ++line, next);
}
