/* SPDX-License-Identifier: BSD-2-Clause */
/* What can happen in a story: posting, polling, changes of state, a link that misbehaves. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenarios/story.h"

__attribute__((format(printf, 2, 3))) static void note(const struct story_action *action,
						       const char *format, ...)
{
	struct world *world = &action->story->world;
	struct trace_place place = {world->now, action->host, 0};
	char words[128];
	va_list list;

	va_start(list, format);
	vsnprintf(words, sizeof(words), format, list);
	va_end(list);
	trace_note(&world->trace, &place, "%s", words);
}

/* --- words --- */

static bool has_word(const struct story_action *action, const char *name)
{
	for (uint32_t i = 0; action->words[i]; i++)
		if (strcmp(action->words[i], name) == 0)
			return true;
	return false;
}

/* The number behind the word @name, or @otherwise. */
static uint64_t number_after(const struct story_action *action, const char *name,
			     uint64_t otherwise)
{
	for (uint32_t i = 0; action->words[i]; i++)
		if (strcmp(action->words[i], name) == 0)
			return story_number(action->story, action->line, action->words[i + 1]);
	return otherwise;
}

static struct region *region_of(const struct story_action *action, uint32_t host, const char *name)
{
	static const char *const names[STORY_REGIONS] = {"own", "open", "inbox"};

	for (uint32_t i = 0; name && i < STORY_REGIONS; i++)
		if (strcmp(name, names[i]) == 0)
			return action->story->regions[host][i];
	story_complain(action->story, action->line, "a region is own, open or inbox");
}

static uint8_t *bytes_of(const struct story_action *action, uint32_t host,
			 const struct region *region, uint64_t offset, uint64_t length)
{
	if (offset + length > region->length)
		story_complain(action->story, action->line, "outside of the region");
	return host_bytes(action->story->world.hosts[host], region, region->iova + offset);
}

/* The words of an action behind its verb, as they stand in the story. */
static void join_words(const struct story_action *action, char *text, size_t room)
{
	size_t length = 0;

	text[0] = 0;
	for (uint32_t i = 1; action->words[i] && length < room; i++)
		length += (size_t)snprintf(text + length, room - length, "%s%s", i > 1 ? " " : "",
					   action->words[i]);
}

/* --- posting --- */

static const char *error_name(int error)
{
	switch (error) {
	case 0:
		return "";
	case EINVAL:
		return ": EINVAL";
	case ENOMEM:
		return ": ENOMEM, the queue is full";
	case EOPNOTSUPP:
		return ": EOPNOTSUPP";
	default:
		return ": an error without a name here";
	}
}

/* What is posted, and under it what the QP does at once. */
static void note_post(const struct story_action *action, int error)
{
	char text[100];

	join_words(action, text, sizeof(text));
	note(action, "post     %s%s", text, error_name(error));
}

static void post_receive(const struct story_action *action)
{
	struct story *story = action->story;
	struct region *inbox = story->regions[action->host][2];
	struct ibv_sge sge = {.length = (uint32_t)number_after(action, "length", 0),
			      .lkey = inbox->key,
			      .addr = inbox->iova + story->inbox_used[action->host]};
	struct ibv_recv_wr wr = {.wr_id = story_number(story, action->line, action->words[2]),
				 .sg_list = &sge,
				 .num_sge = 1};
	int error;

	story->inbox_used[action->host] += sge.length;
	if (story->inbox_used[action->host] > inbox->length)
		story_complain(story, action->line, "the inbox is full");
	error = qp_post_recv(story->qps[action->host]->qp, &wr, NULL);
	note_post(action, error);
	host_qp_output(story->qps[action->host]);
}

static enum ibv_wr_opcode opcode_of(const struct story_action *action)
{
	bool has_immediate = has_word(action, "immediate");
	const char *name = action->words[1];

	if (strcmp(name, "send") == 0)
		return has_immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	if (strcmp(name, "write") == 0)
		return has_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	if (strcmp(name, "read") == 0)
		return IBV_WR_RDMA_READ;
	if (strcmp(name, "add") == 0)
		return IBV_WR_ATOMIC_FETCH_AND_ADD;
	if (strcmp(name, "swap") == 0)
		return IBV_WR_ATOMIC_CMP_AND_SWP;
	story_complain(action->story, action->line, "cannot post '%s'", name);
}

static unsigned flags_of(const struct story_action *action)
{
	return (has_word(action, "unsignalled") ? 0 : IBV_SEND_SIGNALED) |
	       (has_word(action, "fence") ? IBV_SEND_FENCE : 0) |
	       (has_word(action, "solicited") ? IBV_SEND_SOLICITED : 0);
}

/* Where the request goes to in the peer's open region. */
static void set_remote(const struct story_action *action, struct ibv_send_wr *wr)
{
	const struct region *open = action->story->regions[1 - action->host][1];
	uint64_t address = open->iova + number_after(action, "remote", 0);
	uint32_t rkey = has_word(action, "wrong_rkey") ? ~open->key : open->key;

	if (wr->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD && wr->opcode != IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr->wr.rdma.remote_addr = address;
		wr->wr.rdma.rkey = rkey;
		return;
	}
	wr->wr.atomic.remote_addr = address;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.compare_add = number_after(
		action, wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? "compare" : "value", 0);
	wr->wr.atomic.swap = number_after(action, "value", 0);
}

static void post_send(const struct story_action *action)
{
	struct story *story = action->story;
	const struct region *own = story->regions[action->host][0];
	struct ibv_sge sge = {.lkey = own->key,
			      .length = (uint32_t)number_after(action, "length", 8),
			      .addr = own->iova + number_after(action, "local", 0)};
	struct ibv_send_wr wr = {.wr_id = story_number(story, action->line, action->words[2]),
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode_of(action),
				 .send_flags = flags_of(action),
				 .imm_data = htonl((uint32_t)number_after(action, "immediate", 0))};

	set_remote(action, &wr);
	note_post(action, host_post_send_quietly(story->qps[action->host], &wr));
}

/* With the word "more" another request follows in the same call; packets leave with the last. */
static void act_post(const struct story_action *action)
{
	if (!action->words[1] || !action->words[2])
		story_complain(action->story, action->line, "post what, with which wr_id?");
	if (strcmp(action->words[1], "receive") == 0) {
		post_receive(action);
		return;
	}
	post_send(action);
	if (!has_word(action, "more"))
		host_qp_output(action->story->qps[action->host]);
}

/* --- the program --- */

static void act_poll(const struct story_action *action)
{
	struct host_qp *qp = action->story->qps[action->host], *of;
	struct completion completion;
	char ids[80] = "";
	size_t length = 0;

	while (length < sizeof(ids) && (host_poll(qp->send_cq, &completion, &of) ||
					host_poll(qp->recv_cq, &completion, &of)))
		length += (size_t)snprintf(ids + length, sizeof(ids) - length, " wr %llu",
					   (unsigned long long)completion.wr_id);
	note(action, "poll    %s", length ? ids : " nothing");
}

static void act_state(const struct story_action *action)
{
	static const struct {
		const char *name;
		enum ibv_qp_state state;
	} states[] = {{"SQD", IBV_QPS_SQD},
		      {"RTS", IBV_QPS_RTS},
		      {"ERR", IBV_QPS_ERR},
		      {"RESET", IBV_QPS_RESET}};

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (!action->words[1] || strcmp(action->words[1], states[i].name) != 0)
			continue;
		note(action, "state    %s", states[i].name);
		host_qp_set_state(action->story->qps[action->host], states[i].state,
				  states[i].state == IBV_QPS_SQD);
		return;
	}
	story_complain(action->story, action->line, "a state is SQD, RTS, ERR or RESET");
}

static void act_put(const struct story_action *action)
{
	uint64_t value = story_number(action->story, action->line, action->words[3]);
	const struct region *region = region_of(action, action->host, action->words[1]);
	uint64_t offset = story_number(action->story, action->line, action->words[2]);

	memcpy(bytes_of(action, action->host, region, offset, 8), &value, 8);
	note(action, "memory   %s at %llu is set to %llu", action->words[1],
	     (unsigned long long)offset, (unsigned long long)value);
}

static void act_show(const struct story_action *action)
{
	const struct region *region = region_of(action, action->host, action->words[1]);
	uint64_t offset = story_number(action->story, action->line, action->words[2]);
	uint64_t value;

	memcpy(&value, bytes_of(action, action->host, region, offset, 8), 8);
	note(action, "memory   %s at %llu is %llu", action->words[1], (unsigned long long)offset,
	     (unsigned long long)value);
}

/* "compare open 0 own 0 length 4096": this host's first against the peer's second. */
static void act_compare(const struct story_action *action)
{
	const struct story *story = action->story;
	uint32_t peer = 1 - action->host, same = 0;
	const struct region *mine = region_of(action, action->host, action->words[1]);
	const struct region *theirs;
	uint64_t length = number_after(action, "length", 0);
	const uint8_t *left, *right;

	left = bytes_of(action, action->host, mine,
			story_number(story, action->line, action->words[2]), length);
	theirs = region_of(action, peer, action->words[3]);
	right = bytes_of(action, peer, theirs, story_number(story, action->line, action->words[4]),
			 length);
	while (same < length && left[same] == right[same])
		same++;
	if (same == length)
		note(action, "memory   %s at %s is the peer's %s at %s, all %u bytes",
		     action->words[1], action->words[2], action->words[3], action->words[4], same);
	else
		note(action, "memory   %s at %s is not the peer's %s at %s, from byte %u on",
		     action->words[1], action->words[2], action->words[3], action->words[4], same);
}

/* --- the link away from this host --- */

static struct link *link_of(const struct story_action *action)
{
	return &action->story->world.links[action->host][1 - action->host];
}

static void act_lose(const struct story_action *action)
{
	struct link *link = link_of(action);

	for (uint32_t i = 1; action->words[i]; i++) {
		uint64_t number = story_number(action->story, action->line, action->words[i]);

		if (number <= link->packets_ever || number > 63)
			story_complain(action->story, action->line,
				       "packet %s was sent already, or is beyond 63",
				       action->words[i]);
		link->lose_mask |= 1ull << number;
	}
}

static void act_cut(const struct story_action *action)
{
	note(action, "link     is cut");
	link_of(action)->is_cut = true;
}

static void act_mend(const struct story_action *action)
{
	note(action, "link     is whole again");
	link_of(action)->is_cut = false;
}

static void act_latency(const struct story_action *action)
{
	note(action, "link     takes %s now", action->words[1] ? action->words[1] : "?");
	link_of(action)->latency_ns = story_time(action->story, action->line, action->words[1]);
}

void story_act(struct world *world, void *subject, uint64_t argument)
{
	static const struct {
		const char *name;
		void (*act)(const struct story_action *action);
	} verbs[] = {
		{"post", act_post},	  {"poll", act_poll}, {"state", act_state},
		{"put", act_put},	  {"show", act_show}, {"compare", act_compare},
		{"lose", act_lose},	  {"cut", act_cut},   {"mend", act_mend},
		{"latency", act_latency},
	};
	const struct story_action *action = subject;

	(void)world, (void)argument;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(action->words[0], verbs[i].name) == 0) {
			verbs[i].act(action);
			return;
		}
	}
	story_complain(action->story, action->line, "a host cannot '%s'", action->words[0]);
}
