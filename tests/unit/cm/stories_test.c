/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stories of two hosts: what is lost or who vanishes, and all that both say and tell until nothing
 * happens any more. A is the one that connects. A line is the time in milliseconds, the
 * host, and what it sends (a kind of message) or tells its program (an event and its reason).
 * A datagram takes one millisecond; programs answer at once where a story says nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/cm_world.h"

#define A 0
#define B 1
#define FLIGHT (VBN_MILLISECOND)
#define ALWAYS UINT32_MAX

/* How most stories begin. */
#define IS_CONNECTED \
	"0 A REQ\n" \
	"1 B REQUEST\n" \
	"1 B REP\n" \
	"2 A RESPONSE\n" \
	"2 A RTU\n" \
	"2 A ESTABLISHED\n" \
	"3 B ESTABLISHED\n"
#define RTU_IS_LOST \
	"0 A REQ\n" \
	"1 B REQUEST\n" \
	"1 B REP\n" \
	"2 A RESPONSE\n" \
	"2 A RTU, lost\n" \
	"2 A ESTABLISHED\n"

struct loss {
	uint32_t from;
	enum cm_kind kind;
	uint32_t count; /* so many of the next ones */
};

struct story {
	struct cm_world world;
	struct loss losses[4];
	bool is_cut[CM_WORLD_SIDES]; /* nothing of this host arrives any more */
	bool does_not_listen, waits; /* B's program: has no listener; decides nothing by itself */
	bool hesitates;		     /* A's program does not confirm by itself */
	uint32_t ids;
	struct cm_slot *slots[CM_WORLD_SIDES];
	char *text;
	size_t length;
	FILE *stream;
};

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
			loss->count -= loss->count != ALWAYS;
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

static void accept_it(struct story *story)
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

static void confirm_it(struct story *story)
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
		accept_it(story);
	if (event->kind == CM_EVENT_SIDR_REQUEST && !story->waits)
		answer_it(story);
	if (event->kind == CM_EVENT_RESPONSE && !story->hesitates)
		confirm_it(story);
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

static void begin(struct story *story)
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

static void lose(struct story *story, uint32_t from, enum cm_kind kind, uint32_t count)
{
	size_t i = 0;

	while (story->losses[i].count)
		i++;
	story->losses[i] = (struct loss){from, kind, count};
}

static void run_until(struct story *story, vbn_time until)
{
	while (cm_world_next(&story->world) <= until && !story->world.has_failed)
		cm_world_step(&story->world);
	if (story->world.has_failed)
		fail_msg("%s", story->world.failure);
	if (until != VBN_TIME_NEVER - 1)
		story->world.now = until;
}

static void run(struct story *story)
{
	run_until(story, VBN_TIME_NEVER - 1);
}

static void connect_with(struct story *story, uint32_t qpn)
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

static void connect_it(struct story *story)
{
	connect_with(story, 0xa0);
}

static void begin_connected(struct story *story)
{
	begin(story);
	connect_it(story);
	run(story);
}

static void disconnect_it(struct story *story, uint32_t side)
{
	assert_int_equal(cm_disconnect(&story->world.sides[side].agent,
				       &story->slots[side]->connection, NULL, story->world.now,
				       &story->world.out),
			 0);
	cm_world_carry_out(&story->world, side);
}

static void release_it(struct story *story, uint32_t side)
{
	cm_release(&story->world.sides[side].agent, &story->slots[side]->connection,
		   story->world.now, &story->world.out);
	cm_world_carry_out(&story->world, side);
}

/* The host is killed, and maybe a new process is there that knows nothing. */
static void forget_all(struct story *story, uint32_t side)
{
	cm_world_start(&story->world, side, &linux_like, 0xcccc + side);
	story->ids += 0x100;
}

static void told(struct story *story, const char *expected)
{
	fclose(story->stream);
	assert_string_equal(story->text, expected);
	free(story->text);
}

/* --- connecting and parting --- */

static void nothing_is_lost(void **state)
{
	struct story story;

	(void)state;
	begin_connected(&story);
	disconnect_it(&story, A);
	run(&story);
	told(&story, IS_CONNECTED "3 A DREQ\n"
				  "4 B DREP\n"
				  "4 B DISCONNECTED\n"
				  "5 A DISCONNECTED\n"
				  "2151 B TIMEWAIT_EXIT\n"
				  "2152 A TIMEWAIT_EXIT\n");
}

static void request_lost(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	lose(&story, A, CM_REQ, 1);
	connect_it(&story);
	run(&story);
	told(&story, "0 A REQ, lost\n"
		     "6442 A REQ\n"
		     "6443 B REQUEST\n"
		     "6443 B REP\n"
		     "6444 A RESPONSE\n"
		     "6444 A RTU\n"
		     "6444 A ESTABLISHED\n"
		     "6445 B ESTABLISHED\n");
}

/* Both sides repeat at once, and everything that comes twice is answered twice. */
static void reply_lost(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	lose(&story, B, CM_REP, 1);
	connect_it(&story);
	run(&story);
	told(&story, "0 A REQ\n"
		     "1 B REQUEST\n"
		     "1 B REP, lost\n"
		     "6442 A REQ\n"
		     "6443 B REP\n"
		     "6443 B REP\n"
		     "6444 A RESPONSE\n"
		     "6444 A RTU\n"
		     "6444 A ESTABLISHED\n"
		     "6444 A RTU\n"
		     "6445 B ESTABLISHED\n");
}

static void ready_message_lost(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	lose(&story, A, CM_RTU, 1);
	connect_it(&story);
	run(&story);
	told(&story, RTU_IS_LOST "6443 B REP\n"
				 "6444 A RTU\n"
				 "6445 B ESTABLISHED\n");
}

static void ready_message_lost_and_data_come(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	lose(&story, A, CM_RTU, ALWAYS);
	connect_it(&story);
	run_until(&story, 100 * VBN_MILLISECOND);
	cm_establish(&story.world.sides[B].agent, &story.slots[B]->connection, story.world.now,
		     &story.world.out);
	cm_world_carry_out(&story.world, B);
	run(&story);
	told(&story, RTU_IS_LOST "100 B ESTABLISHED\n");
}

/* The farewell proves what the RTU would have told. */
static void ready_message_lost_and_farewell_comes(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	lose(&story, A, CM_RTU, ALWAYS);
	connect_it(&story);
	run_until(&story, 100 * VBN_MILLISECOND);
	disconnect_it(&story, A);
	run(&story);
	told(&story, RTU_IS_LOST "100 A DREQ\n"
				 "101 B DREP\n"
				 "101 B ESTABLISHED\n"
				 "101 B DISCONNECTED\n"
				 "102 A DISCONNECTED\n"
				 "2248 B TIMEWAIT_EXIT\n"
				 "2249 A TIMEWAIT_EXIT\n");
}

static void farewells_cross(void **state)
{
	struct story story;

	(void)state;
	begin_connected(&story);
	disconnect_it(&story, A);
	disconnect_it(&story, B);
	run(&story);
	told(&story, IS_CONNECTED "3 A DREQ\n"
				  "3 B DREQ\n"
				  "4 B DREP\n"
				  "4 B DISCONNECTED\n"
				  "4 A DREP\n"
				  "4 A DISCONNECTED\n"
				  "2151 A TIMEWAIT_EXIT\n"
				  "2151 B TIMEWAIT_EXIT\n");
}

static void farewell_lost(void **state)
{
	struct story story;

	(void)state;
	begin_connected(&story);
	lose(&story, A, CM_DREQ, 1);
	lose(&story, B, CM_DREP, 1);
	disconnect_it(&story, A);
	run(&story);
	/* The second DREQ's answer is lost too; the third finds B in nobody's memory. */
	told(&story, IS_CONNECTED "3 A DREQ, lost\n"
				  "6445 A DREQ\n"
				  "6446 B DREP, lost\n"
				  "6446 B DISCONNECTED\n"
				  "8593 B TIMEWAIT_EXIT\n"
				  "12887 A DREQ\n"
				  "12888 B DREP\n"
				  "12889 A DISCONNECTED\n"
				  "15037 A TIMEWAIT_EXIT\n");
}

/* --- refusals --- */

static void nobody_listens(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	story.does_not_listen = true;
	connect_it(&story);
	run(&story);
	told(&story, "0 A REQ\n"
		     "1 B REJ 8\n"
		     "2 A REJECTED 8\n");
}

static void refusal_lost(void **state)
{
	struct cm_message rej = {.kind = CM_REJ, .rej.reason = CM_REJECT_CONSUMER};
	struct story story;

	(void)state;
	begin(&story);
	story.waits = true;
	connect_it(&story);
	run_until(&story, 100 * VBN_MILLISECOND);
	lose(&story, B, CM_REJ, 1);
	cm_reject(&story.world.sides[B].agent, &story.slots[B]->connection, &rej, story.world.now,
		  &story.world.out);
	cm_world_carry_out(&story.world, B);
	release_it(&story, B);
	run(&story);
	told(&story, "0 A REQ\n"
		     "1 B REQUEST\n"
		     "100 B REJ 28, lost\n"
		     "6442 A REQ\n"
		     "6443 B REJ 28\n"
		     "6444 A REJECTED 28\n"
		     "19328 B GONE\n");
}

static void reply_refused(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	story.hesitates = true;
	connect_it(&story);
	run_until(&story, 100 * VBN_MILLISECOND);
	release_it(&story, A);
	run(&story);
	told(&story, "0 A REQ\n"
		     "1 B REQUEST\n"
		     "1 B REP\n"
		     "2 A RESPONSE\n"
		     "100 A REJ 28\n"
		     "101 B REJECTED 28\n"
		     "2247 A GONE\n"
		     "2248 B TIMEWAIT_EXIT\n");
}

/* --- slow programs --- */

static void listener_takes_its_time(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	story.waits = true;
	connect_it(&story);
	run_until(&story, 15 * VBN_SECOND);
	accept_it(&story);
	run(&story);
	told(&story, "0 A REQ\n"
		     "1 B REQUEST\n"
		     "6442 A REQ\n"
		     "6443 B MRA\n"
		     "12884 A REQ\n"
		     "12885 B MRA\n"
		     "15000 B REP\n"
		     "15001 A RESPONSE\n"
		     "15001 A RTU\n"
		     "15001 A ESTABLISHED\n"
		     "15002 B ESTABLISHED\n");
}

static void connector_takes_its_time(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	story.hesitates = true;
	connect_it(&story);
	run_until(&story, 8 * VBN_SECOND);
	confirm_it(&story);
	run(&story);
	told(&story, "0 A REQ\n"
		     "1 B REQUEST\n"
		     "1 B REP\n"
		     "2 A RESPONSE\n"
		     "6443 B REP\n"
		     "6444 A MRA\n"
		     "8000 A RTU\n"
		     "8000 A ESTABLISHED\n"
		     "8001 B ESTABLISHED\n");
}

/* --- somebody vanishes --- */

/* Nothing of B ever comes; sixteen times A tries, and then says so. */
static void host_without_answer(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	story.is_cut[A] = true;
	connect_it(&story);
	run_until(&story, 96637 * VBN_MILLISECOND);
	fflush(story.stream);
	assert_memory_equal(story.text, "0 A REQ, lost\n6442 A REQ, lost\n12884 A REQ, lost\n", 49);
	assert_null(strstr(story.text, "UNREACHABLE"));
	run(&story);
	fflush(story.stream);
	assert_non_null(strstr(story.text, "96636 A REQ, lost\n"
					   "103079 A REJ 4, lost\n"
					   "103079 A UNREACHABLE\n"));
	fclose(story.stream);
	free(story.text);
}

/* Killed after its REQ: another process of that host, or its successor, says there is nobody. */
static void connector_killed_after_its_request(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	connect_it(&story);
	forget_all(&story, A);
	run(&story);
	told(&story, "0 A REQ\n"
		     "1 B REQUEST\n"
		     "1 B REP\n"
		     "2 A REJ 6\n"
		     "3 B REJECTED 6\n"
		     "2150 B TIMEWAIT_EXIT\n");
}

static void connector_killed_before_it_is_ready(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	story.hesitates = true;
	connect_it(&story);
	run_until(&story, 100 * VBN_MILLISECOND);
	forget_all(&story, A);
	run(&story);
	told(&story, "0 A REQ\n"
		     "1 B REQUEST\n"
		     "1 B REP\n"
		     "2 A RESPONSE\n"
		     "6443 B REP\n"
		     "6444 A REJ 6\n"
		     "6445 B REJECTED 6\n"
		     "8592 B TIMEWAIT_EXIT\n");
}

/* Its successor listens, or does not. */
static void listener_killed_before_it_decides(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	story.waits = true;
	connect_it(&story);
	run_until(&story, 100 * VBN_MILLISECOND);
	forget_all(&story, B);
	story.does_not_listen = true;
	run(&story);
	told(&story, "0 A REQ\n"
		     "1 B REQUEST\n"
		     "6442 A REQ\n"
		     "6443 B REJ 8\n"
		     "6444 A REJECTED 8\n");
}

static void listener_killed_after_it_asked_for_patience(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	story.waits = true;
	connect_it(&story);
	run_until(&story, 8 * VBN_SECOND);
	forget_all(&story, B);
	story.does_not_listen = true;
	run(&story);
	told(&story, "0 A REQ\n"
		     "1 B REQUEST\n"
		     "6442 A REQ\n"
		     "6443 B MRA\n"
		     "12884 A REQ\n"
		     "12885 B REJ 8\n"
		     "12886 A REJECTED 8\n");
}

static void listener_killed_after_its_reply(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	lose(&story, B, CM_REP, 1);
	connect_it(&story);
	run_until(&story, 100 * VBN_MILLISECOND);
	forget_all(&story, B);
	run(&story);
	/* Its successor takes the repeated REQ for a new one, which it is to it. */
	told(&story, "0 A REQ\n"
		     "1 B REQUEST\n"
		     "1 B REP, lost\n"
		     "6442 A REQ\n"
		     "6443 B REQUEST\n"
		     "6443 B REP\n"
		     "6444 A RESPONSE\n"
		     "6444 A RTU\n"
		     "6444 A ESTABLISHED\n"
		     "6445 B ESTABLISHED\n");
}

/* The RTU of a connection that nobody knows says nothing to anybody; parting works all the same. */
static void listener_killed_when_connected(void **state)
{
	struct story story;

	(void)state;
	begin_connected(&story);
	forget_all(&story, B);
	disconnect_it(&story, A);
	run(&story);
	told(&story, IS_CONNECTED "3 A DREQ\n"
				  "4 B DREP\n"
				  "5 A DISCONNECTED\n"
				  "2152 A TIMEWAIT_EXIT\n");
}

/* With the same QP number: B learns of the death by that, refuses once, and then serves. */
static void connector_comes_again_with_its_qp(void **state)
{
	struct story story;

	(void)state;
	begin_connected(&story);
	forget_all(&story, A);
	connect_it(&story);
	run_until(&story, 10 * VBN_SECOND);
	connect_it(&story);
	run(&story);
	told(&story, IS_CONNECTED "3 A REQ\n"
				  "4 B REJ 10\n"
				  "4 B DREQ\n"
				  "4 B DISCONNECTED 10\n"
				  "5 A REJECTED 10\n"
				  "5 A DREP\n"
				  "2152 A TIMEWAIT_EXIT\n"
				  "2153 B TIMEWAIT_EXIT\n"
				  "10000 A REQ\n"
				  "10001 B REQUEST\n"
				  "10001 B REP\n"
				  "10002 A RESPONSE\n"
				  "10002 A RTU\n"
				  "10002 A ESTABLISHED\n"
				  "10003 B ESTABLISHED\n");
}

/* With another one it is served at once. */
static void connector_comes_again_at_once(void **state)
{
	struct story story;

	(void)state;
	begin_connected(&story);
	forget_all(&story, A);
	connect_with(&story, 0xa1);
	run(&story);
	told(&story, IS_CONNECTED "3 A REQ\n"
				  "4 B REQUEST\n"
				  "4 B REP\n"
				  "5 A RESPONSE\n"
				  "5 A RTU\n"
				  "5 A ESTABLISHED\n"
				  "6 B ESTABLISHED\n");
}

static void peer_silent_when_parting(void **state)
{
	struct story story;

	(void)state;
	begin_connected(&story);
	story.is_cut[B] = true;
	disconnect_it(&story, A);
	run(&story);
	fflush(story.stream);
	assert_non_null(strstr(story.text, "4 B DISCONNECTED\n"));
	assert_non_null(strstr(story.text, "103082 A DISCONNECTED 4\n"
					   "105229 A TIMEWAIT_EXIT\n"));
	fclose(story.stream);
	free(story.text);
}

static void connector_silent_after_the_reply(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	connect_it(&story);
	story.is_cut[A] = true;
	run(&story);
	fflush(story.stream);
	assert_non_null(strstr(story.text, "103080 B REJ 4\n"
					   "103080 B CONNECT_ERROR\n"
					   "103081 A DISCONNECTED 4\n"));
	fclose(story.stream);
	free(story.text);
}

/* --- datagram services --- */

static void ask(struct story *story)
{
	struct cm_message req = {.kind = CM_SIDR_REQ, .sidr_req.service_id = 7};

	story->slots[A] = cm_world_slot(&story->world, A, ++story->ids);
	cm_sidr_query(&story->world.sides[A].agent, &story->slots[A]->connection,
		      &story->world.sides[A].path, &req, story->world.now, &story->world.out);
	cm_world_carry_out(&story->world, A);
}

static void service_is_resolved(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	lose(&story, A, CM_SIDR_REQ, 1);
	lose(&story, B, CM_SIDR_REP, 1);
	ask(&story);
	run_until(&story, 20 * VBN_SECOND);
	release_it(&story, A);
	release_it(&story, B);
	run(&story);
	told(&story, "0 A SIDR_REQ, lost\n"
		     "6442 A SIDR_REQ\n"
		     "6443 B SIDR_REQUEST\n"
		     "6443 B SIDR_REP, lost\n"
		     "12884 A SIDR_REQ\n"
		     "12885 B SIDR_REP\n"
		     "12886 A SIDR_RESPONSE\n"
		     "20000 A GONE\n"
		     "25770 B GONE\n");
}

static void service_is_unknown(void **state)
{
	struct story story;

	(void)state;
	begin(&story);
	story.does_not_listen = true;
	ask(&story);
	run(&story);
	told(&story, "0 A SIDR_REQ\n"
		     "1 B SIDR_REP\n"
		     "2 A SIDR_RESPONSE 1\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_lost),
		cmocka_unit_test(request_lost),
		cmocka_unit_test(reply_lost),
		cmocka_unit_test(ready_message_lost),
		cmocka_unit_test(ready_message_lost_and_data_come),
		cmocka_unit_test(ready_message_lost_and_farewell_comes),
		cmocka_unit_test(farewells_cross),
		cmocka_unit_test(farewell_lost),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(refusal_lost),
		cmocka_unit_test(reply_refused),
		cmocka_unit_test(listener_takes_its_time),
		cmocka_unit_test(connector_takes_its_time),
		cmocka_unit_test(host_without_answer),
		cmocka_unit_test(connector_killed_after_its_request),
		cmocka_unit_test(connector_killed_before_it_is_ready),
		cmocka_unit_test(listener_killed_before_it_decides),
		cmocka_unit_test(listener_killed_after_it_asked_for_patience),
		cmocka_unit_test(listener_killed_after_its_reply),
		cmocka_unit_test(listener_killed_when_connected),
		cmocka_unit_test(connector_comes_again_with_its_qp),
		cmocka_unit_test(connector_comes_again_at_once),
		cmocka_unit_test(peer_silent_when_parting),
		cmocka_unit_test(connector_silent_after_the_reply),
		cmocka_unit_test(service_is_resolved),
		cmocka_unit_test(service_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
