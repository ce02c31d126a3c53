/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stories of the side that is asked: its reply or refusal is lost, or what it waits for after its
 * reply; it takes its time, or is killed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cm/story.h"

/* Both sides repeat at once, and everything that comes twice is answered twice. */
static void reply_lost(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story_lose(&story, B, CM_REP, 1);
	story_connect(&story);
	story_run(&story);
	story_expect(&story, "0 A REQ\n"
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
	story_begin(&story);
	story_lose(&story, A, CM_RTU, 1);
	story_connect(&story);
	story_run(&story);
	story_expect(&story, RTU_IS_LOST "6443 B REP\n"
					 "6444 A RTU\n"
					 "6445 B ESTABLISHED\n");
}

static void ready_message_lost_and_data_come(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story_lose(&story, A, CM_RTU, STORY_ALWAYS);
	story_connect(&story);
	story_run_until(&story, 100 * VBN_MILLISECOND);
	cm_establish(&story.world.sides[B].agent, &story.slots[B]->connection, story.world.now,
		     &story.world.out);
	cm_world_carry_out(&story.world, B);
	story_run(&story);
	story_expect(&story, RTU_IS_LOST "100 B ESTABLISHED\n");
}

static void refusal_lost(void **state)
{
	struct cm_message rej = {.kind = CM_REJ, .rej.reason = CM_REJECT_CONSUMER};
	struct story story;

	(void)state;
	story_begin(&story);
	story.waits = true;
	story_connect(&story);
	story_run_until(&story, 100 * VBN_MILLISECOND);
	story_lose(&story, B, CM_REJ, 1);
	cm_reject(&story.world.sides[B].agent, &story.slots[B]->connection, &rej, story.world.now,
		  &story.world.out);
	cm_world_carry_out(&story.world, B);
	story_release(&story, B);
	story_run(&story);
	story_expect(&story, "0 A REQ\n"
			     "1 B REQUEST\n"
			     "100 B REJ 28, lost\n"
			     "6442 A REQ\n"
			     "6443 B REJ 28\n"
			     "6444 A REJECTED 28\n"
			     "19328 B GONE\n");
}

static void listener_takes_its_time(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story.waits = true;
	story_connect(&story);
	story_run_until(&story, 15 * VBN_SECOND);
	story_accept(&story);
	story_run(&story);
	story_expect(&story, "0 A REQ\n"
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

/* Its successor listens, or does not. */
static void listener_killed_before_it_decides(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story.waits = true;
	story_connect(&story);
	story_run_until(&story, 100 * VBN_MILLISECOND);
	story_forget(&story, B);
	story.does_not_listen = true;
	story_run(&story);
	story_expect(&story, "0 A REQ\n"
			     "1 B REQUEST\n"
			     "6442 A REQ\n"
			     "6443 B REJ 8\n"
			     "6444 A REJECTED 8\n");
}

static void listener_killed_after_it_asked_for_patience(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story.waits = true;
	story_connect(&story);
	story_run_until(&story, 8 * VBN_SECOND);
	story_forget(&story, B);
	story.does_not_listen = true;
	story_run(&story);
	story_expect(&story, "0 A REQ\n"
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
	story_begin(&story);
	story_lose(&story, B, CM_REP, 1);
	story_connect(&story);
	story_run_until(&story, 100 * VBN_MILLISECOND);
	story_forget(&story, B);
	story_run(&story);
	/* Its successor takes the repeated REQ for a new one, which it is to it. */
	story_expect(&story, "0 A REQ\n"
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

static void connector_silent_after_the_reply(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story_connect(&story);
	story.is_cut[A] = true;
	story_run(&story);
	assert_true(story_says(&story, "103080 B REJ 4\n"
				       "103080 B CONNECT_ERROR\n"
				       "103081 A DISCONNECTED 4\n"));
	story_end(&story);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reply_lost),
		cmocka_unit_test(ready_message_lost),
		cmocka_unit_test(ready_message_lost_and_data_come),
		cmocka_unit_test(refusal_lost),
		cmocka_unit_test(listener_takes_its_time),
		cmocka_unit_test(listener_killed_before_it_decides),
		cmocka_unit_test(listener_killed_after_it_asked_for_patience),
		cmocka_unit_test(listener_killed_after_its_reply),
		cmocka_unit_test(connector_silent_after_the_reply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
