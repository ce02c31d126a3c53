/* SPDX-License-Identifier: BSD-2-Clause */
/* Stories of parting: farewells that arrive, cross, are lost, come too early or to nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cm/story.h"

static void nothing_is_lost(void **state)
{
	struct story story;

	(void)state;
	story_begin_connected(&story);
	story_disconnect(&story, A);
	story_run(&story);
	story_expect(&story, IS_CONNECTED "3 A DREQ\n"
					  "4 B DREP\n"
					  "4 B DISCONNECTED\n"
					  "5 A DISCONNECTED\n"
					  "2151 B TIMEWAIT_EXIT\n"
					  "2152 A TIMEWAIT_EXIT\n");
}

/* The farewell proves what the RTU would have told. */
static void ready_message_lost_and_farewell_comes(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story_lose(&story, A, CM_RTU, STORY_ALWAYS);
	story_connect(&story);
	story_run_until(&story, 100 * VBN_MILLISECOND);
	story_disconnect(&story, A);
	story_run(&story);
	story_expect(&story, RTU_IS_LOST "100 A DREQ\n"
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
	story_begin_connected(&story);
	story_disconnect(&story, A);
	story_disconnect(&story, B);
	story_run(&story);
	story_expect(&story, IS_CONNECTED "3 A DREQ\n"
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
	story_begin_connected(&story);
	story_lose(&story, A, CM_DREQ, 1);
	story_lose(&story, B, CM_DREP, 1);
	story_disconnect(&story, A);
	story_run(&story);
	/* The second DREQ's answer is lost too; the third finds B in nobody's memory. */
	story_expect(&story, IS_CONNECTED "3 A DREQ, lost\n"
					  "6445 A DREQ\n"
					  "6446 B DREP, lost\n"
					  "6446 B DISCONNECTED\n"
					  "8593 B TIMEWAIT_EXIT\n"
					  "12887 A DREQ\n"
					  "12888 B DREP\n"
					  "12889 A DISCONNECTED\n"
					  "15037 A TIMEWAIT_EXIT\n");
}

/* The RTU of a connection that nobody knows says nothing to anybody; parting works all the same. */
static void listener_killed_when_connected(void **state)
{
	struct story story;

	(void)state;
	story_begin_connected(&story);
	story_forget(&story, B);
	story_disconnect(&story, A);
	story_run(&story);
	story_expect(&story, IS_CONNECTED "3 A DREQ\n"
					  "4 B DREP\n"
					  "5 A DISCONNECTED\n"
					  "2152 A TIMEWAIT_EXIT\n");
}

static void peer_silent_when_parting(void **state)
{
	struct story story;

	(void)state;
	story_begin_connected(&story);
	story.is_cut[B] = true;
	story_disconnect(&story, A);
	story_run(&story);
	assert_true(story_says(&story, "4 B DISCONNECTED\n"));
	assert_true(story_says(&story, "103082 A DISCONNECTED 4\n"
				       "105229 A TIMEWAIT_EXIT\n"));
	story_end(&story);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_lost),
		cmocka_unit_test(ready_message_lost_and_farewell_comes),
		cmocka_unit_test(farewells_cross),
		cmocka_unit_test(farewell_lost),
		cmocka_unit_test(listener_killed_when_connected),
		cmocka_unit_test(peer_silent_when_parting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
