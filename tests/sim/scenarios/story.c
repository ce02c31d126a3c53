/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Usage: story [--update] FILE
 *
 * Plays the story in FILE and compares the trace with the text behind its line "expect".
 * A difference prints both texts and is a failure; with --update the file gets the trace
 * instead, for somebody to read before it is committed.
 */
#include "sim/scenarios/story.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/check_bounds.h"
#include "sim/check_deadline.h"

/* No story lasts longer; what is still waiting then is said at its end. */
#define STORY_END (100 * VBN_SECOND)
#define EXPECT "expect\n"
#define STORY_FILE_BYTES_MAX (1u << 20)

void story_complain(const struct story *story, uint32_t line, const char *format, ...)
{
	va_list list;

	fprintf(stderr, "%s:%u: ", story->path, line);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(1);
}

/* --- the world --- */

static void defaults(struct story *story, const char *path)
{
	*story = (struct story){
		.path = path,
		.terms = {.mtu = IBV_MTU_1024,
			  .access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				    IBV_ACCESS_REMOTE_ATOMIC,
			  .rd_atomic = 16,
			  .dest_rd_atomic = 16,
			  .timeout = 14,
			  .retry_cnt = 7,
			  .rnr_retry = 7,
			  .min_rnr_timer = 12},
		.latency_ns = 10 * VBN_MICROSECOND,
		.queue = 16,
		.window_bytes = 1 << 20,
	};
}

/* Every packet is taken in by itself, at the moment it arrives. */
static void build_host(struct story *story, uint32_t index)
{
	const struct host_limits limits = {
		.arena_bytes = STORY_REGIONS * (STORY_REGION_BYTES + 4 * HOST_GUARD_BYTES),
		.receive_batch = 1,
		.hold_free = 64,
		.flow_bytes_max = story->window_bytes,
	};
	struct host *host = host_create(&story->world, &limits);
	const struct host_qp_plan plan = {
		.type = IBV_QPT_RC,
		.cap = {.max_send_wr = story->queue,
			.max_recv_wr = story->queue,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.pd = 1,
		.send_cq = host_add_cq(host, story->queue),
		.recv_cq = host_add_cq(host, story->queue),
	};

	for (uint32_t i = 0; i < STORY_REGIONS; i++)
		story->regions[index][i] = host_add_region(
			host, STORY_REGION_BYTES, 1,
			IBV_ACCESS_LOCAL_WRITE |
				(i == 1 ? IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						  IBV_ACCESS_REMOTE_ATOMIC
					: 0));
	story->qps[index] = host_add_qp(host, &plan);
}

static void build(struct story *story, FILE *trace)
{
	world_init(&story->world, 1, trace);
	for (uint32_t i = 0; i < 2; i++) {
		build_host(story, i);
		link_init(&story->world.links[i][1 - i], story->latency_ns);
	}
	for (uint32_t i = 0; i < 2; i++)
		host_qp_connect(story->qps[i], story->qps[1 - i], &story->terms);
	check_bounds_attach(&story->world);
	check_deadline_attach(&story->world);
	check_retry_attach(&story->check_retry, &story->world);
	decisions_attach(&story->decisions, &story->world);
	for (uint32_t i = 0; i < story->action_count; i++)
		world_schedule(&story->world, story->actions[i].time, story_act, &story->actions[i],
			       0);
}

/* Returns the trace, to be freed. */
static char *play(struct story *story)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *trace = open_memstream(&text, &bytes);

	if (!trace)
		story_complain(story, 0, "no memory for the trace");
	build(story, trace);
	world_run(&story->world, STORY_END);
	if (story->world.event_count && !story->world.has_failed)
		fprintf(trace, "... and so on\n");
	world_fini(&story->world);
	fclose(trace);
	return text;
}

/* --- the file --- */

/* To be freed. */
static char *read_file(const struct story *story)
{
	FILE *file = fopen(story->path, "r");
	char *text = calloc(1, STORY_FILE_BYTES_MAX + 1);
	size_t bytes;

	if (!file || !text)
		story_complain(story, 0, "cannot be read");
	bytes = fread(text, 1, STORY_FILE_BYTES_MAX, file);
	if (bytes == 0 || bytes == STORY_FILE_BYTES_MAX)
		story_complain(story, 0, "is empty or too long");
	fclose(file);
	return text;
}

/* Where the expected trace begins; what lies before it is the script. */
static const char *find_expected(const struct story *story, const char *text)
{
	const char *found = strstr(text, "\n" EXPECT);

	if (!found)
		story_complain(story, 0, "there is no line 'expect'");
	return found + 1 + strlen(EXPECT);
}

static void rewrite(const struct story *story, const char *script, size_t bytes, const char *trace)
{
	FILE *file = fopen(story->path, "w");
	bool is_written = file && fwrite(script, 1, bytes, file) == bytes &&
			  fputs(trace, file) >= 0 && fclose(file) == 0;

	if (!is_written)
		story_complain(story, 0, "cannot be written");
}

static int first_different_line(const char *left, const char *right)
{
	int line = 1;

	for (; *left && *left == *right; left++, right++)
		line += *left == '\n';
	return line;
}

static int compare(const struct story *story, const char *expected, const char *trace)
{
	if (strcmp(expected, trace) == 0)
		return 0;
	printf("%s: another story than expected, from line %d on\n\n--- expected\n%s\n--- came out\n%s",
	       story->path, first_different_line(expected, trace), expected, trace);
	return 1;
}

int main(int argc, char **argv)
{
	static struct story story;
	bool is_update = argc == 3 && strcmp(argv[1], "--update") == 0;
	char *script, *script_copy, *trace;
	const char *expected;
	int result = 0;

	if (argc != 2 && !is_update) {
		fprintf(stderr, "usage: story [--update] FILE\n");
		return 2;
	}
	defaults(&story, argv[argc - 1]);
	script = read_file(&story);
	expected = find_expected(&story, script);
	script_copy = strndup(script, (size_t)(expected - script) - strlen(EXPECT));
	story_read(&story, script_copy);
	trace = play(&story);
	if (story.world.has_failed || !is_update)
		result = compare(&story, expected, trace);
	else
		rewrite(&story, script, (size_t)(expected - script), trace);
	free(trace);
	free(script_copy);
	free(script);
	return result;
}
