/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/cm/story.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FLIGHT (VBN_MILLISECOND)

static void line(struct story *story, uint32_t side, const char *what, uint16_t reason,
		 const char *how)
{
	fprintf(story->stream, "%llu %c %s",
		(unsigned long long)(story->world.now / VBN_MILLISECOND), 'A' + (int)side, what);
	if (reason)
		fprintf(story->stream, " %u", reason);
	fprintf(story->stream, "%s\n", how);
}

static bool is_lost(struct story *story, uint32_t from, enum cm_kind kind)
{
	for (size_t i = 0; i < sizeof(story->losses) / sizeof(story->losses[0]); i++) {
		struct loss *loss = &story->losses[i];

		if (loss->from == from && loss->kind == kind && loss->count) {
			loss->count -= loss->count != STORY_ALWAYS;
			return true;
		}
	}
	return story->is_cut[from];
}

static struct cm_fate fate(struct cm_world *world, uint32_t from, uint8_t bytes[MAD_BYTES])
{
	struct story *story = world->user.context;
	struct cm_fate fate = {.copies = 1, .delays = {FLIGHT}};
	struct cm_message message;

	assert_int_equal(cm_message_parse(bytes, &message), REASON_NONE);
	if (is_lost(story, from, message.kind))
		fate.copies = 0;
	line(story, from, cm_kind_name(message.kind),
	     message.kind == CM_REJ ? message.rej.reason : 0, fate.copies ? "" : ", lost");
	return fate;
}

void story_accept(struct story *story)
{
	struct cm_message rep = {.kind = CM_REP, .rep = {.qpn = 0xb0, .ca_guid = 0xb}};

	assert_int_equal(cm_accept(&story->world.sides[B].agent, &story->slots[B]->connection, &rep,
				   story->world.now, &story->world.out),
			 0);
	cm_world_carry_out(&story->world, B);
}

static void answer_it(struct story *story)
{
	struct cm_message rep = {.kind = CM_SIDR_REP, .sidr_rep = {.qpn = 0xb0, .qkey = 1}};

	assert_int_equal(cm_sidr_answer(&story->world.sides[B].agent, &story->slots[B]->connection,
					&rep, story->world.now, &story->world.out),
			 0);
	cm_world_carry_out(&story->world, B);
}

void story_confirm(struct story *story)
{
	assert_int_equal(cm_confirm(&story->world.sides[A].agent, &story->slots[A]->connection,
				    NULL, story->world.now, &story->world.out),
			 0);
	cm_world_carry_out(&story->world, A);
}

static void hear_event(struct cm_world *world, struct cm_slot *slot, const struct cm_event *event)
{
	struct story *story = world->user.context;

	line(story, slot->side, cm_event_name(event->kind), event->reason, "");
	story->slots[slot->side] = slot;
	if (event->kind == CM_EVENT_REQUEST && !story->waits)
		story_accept(story);
	if (event->kind == CM_EVENT_SIDR_REQUEST && !story->waits)
		answer_it(story);
	if (event->kind == CM_EVENT_RESPONSE && !story->hesitates)
		story_confirm(story);
}

static uint32_t serve(struct cm_world *world, uint32_t side, const struct cm_message *request,
		      uint16_t *refusal)
{
	struct story *story = world->user.context;

	if (side == B && !story->does_not_listen)
		return ++story->ids;
	*refusal = request->kind == CM_REQ ? CM_REJECT_SERVICE_ID : CM_SIDR_UNSUPPORTED;
	return 0;
}

static const struct cm_timing linux_like = CM_TIMING_LINUX;

void story_begin(struct story *story)
{
	struct cm_world_user user = {
		.context = story,
		.fate = fate,
		.event = hear_event,
		.serves = serve,
	};

	memset(story, 0, sizeof(*story));
	cm_world_init(&story->world, &user, NULL);
	cm_world_start(&story->world, A, &linux_like, 0xaaaa);
	cm_world_start(&story->world, B, &linux_like, 0xbbbb);
	story->ids = 0x100;
	story->stream = open_memstream(&story->text, &story->length);
	assert_non_null(story->stream);
}

void story_lose(struct story *story, uint32_t from, enum cm_kind kind, uint32_t count)
{
	size_t i = 0;

	while (story->losses[i].count)
		i++;
	story->losses[i] = (struct loss){from, kind, count};
}

void story_run_until(struct story *story, vbn_time until)
{
	while (cm_world_next(&story->world) <= until && !story->world.has_failed)
		cm_world_step(&story->world);
	if (story->world.has_failed)
		fail_msg("%s", story->world.failure);
	if (until != VBN_TIME_NEVER - 1)
		story->world.now = until;
}

void story_run(struct story *story)
{
	story_run_until(story, VBN_TIME_NEVER - 1);
}

void story_connect_with(struct story *story, uint32_t qpn)
{
	struct cm_message req = {
		.kind = CM_REQ,
		.req = {.service_id = 7, .ca_guid = 0xa, .qpn = qpn, .starting_psn = qpn},
	};

	story->slots[A] = cm_world_slot(&story->world, A, ++story->ids);
	assert_non_null(story->slots[A]);
	assert_int_equal(cm_connect(&story->world.sides[A].agent, &story->slots[A]->connection,
				    &story->world.sides[A].path, &req, story->world.now,
				    &story->world.out),
			 0);
	cm_world_carry_out(&story->world, A);
}

void story_connect(struct story *story)
{
	story_connect_with(story, 0xa0);
}

void story_begin_connected(struct story *story)
{
	story_begin(story);
	story_connect(story);
	story_run(story);
}

void story_disconnect(struct story *story, uint32_t side)
{
	assert_int_equal(cm_disconnect(&story->world.sides[side].agent,
				       &story->slots[side]->connection, NULL, story->world.now,
				       &story->world.out),
			 0);
	cm_world_carry_out(&story->world, side);
}

void story_release(struct story *story, uint32_t side)
{
	cm_release(&story->world.sides[side].agent, &story->slots[side]->connection,
		   story->world.now, &story->world.out);
	cm_world_carry_out(&story->world, side);
}

void story_forget(struct story *story, uint32_t side)
{
	cm_world_start(&story->world, side, &linux_like, 0xcccc + side);
	story->ids += 0x100;
}

bool story_says(struct story *story, const char *part)
{
	fflush(story->stream);
	return strstr(story->text, part) != NULL;
}

void story_end(struct story *story)
{
	fclose(story->stream);
	free(story->text);
}

void story_expect(struct story *story, const char *expected)
{
	fflush(story->stream);
	assert_string_equal(story->text, expected);
	story_end(story);
}

void story_ask(struct story *story)
{
	struct cm_message req = {.kind = CM_SIDR_REQ, .sidr_req.service_id = 7};

	story->slots[A] = cm_world_slot(&story->world, A, ++story->ids);
	cm_sidr_query(&story->world.sides[A].agent, &story->slots[A]->connection,
		      &story->world.sides[A].path, &req, story->world.now, &story->world.out);
	cm_world_carry_out(&story->world, A);
}
