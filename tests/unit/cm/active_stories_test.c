/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stories of the side that connects, or asks for a service: its request is lost, refused, never answered;
 * it hesitates, or is killed and comes again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cm/story.h"

static void request_lost(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story_lose(&story, A, CM_REQ, 1);
	story_connect(&story);
	story_run(&story);
	story_expect(&story, "0 A REQ, lost\n"
			     "6442 A REQ\n"
			     "6443 B REQUEST\n"
			     "6443 B REP\n"
			     "6444 A RESPONSE\n"
			     "6444 A RTU\n"
			     "6444 A ESTABLISHED\n"
			     "6445 B ESTABLISHED\n");
}

static void nobody_listens(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story.does_not_listen = true;
	story_connect(&story);
	story_run(&story);
	story_expect(&story, "0 A REQ\n"
			     "1 B REJ 8\n"
			     "2 A REJECTED 8\n");
}

static void reply_refused(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story.hesitates = true;
	story_connect(&story);
	story_run_until(&story, 100 * VBN_MILLISECOND);
	story_release(&story, A);
	story_run(&story);
	story_expect(&story, "0 A REQ\n"
			     "1 B REQUEST\n"
			     "1 B REP\n"
			     "2 A RESPONSE\n"
			     "100 A REJ 28\n"
			     "101 B REJECTED 28\n"
			     "2247 A GONE\n"
			     "2248 B TIMEWAIT_EXIT\n");
}

static void connector_takes_its_time(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story.hesitates = true;
	story_connect(&story);
	story_run_until(&story, 8 * VBN_SECOND);
	story_confirm(&story);
	story_run(&story);
	story_expect(&story, "0 A REQ\n"
			     "1 B REQUEST\n"
			     "1 B REP\n"
			     "2 A RESPONSE\n"
			     "6443 B REP\n"
			     "6444 A MRA\n"
			     "8000 A RTU\n"
			     "8000 A ESTABLISHED\n"
			     "8001 B ESTABLISHED\n");
}

/* Nothing of B ever comes; sixteen times A tries, and then says so. */
static void host_without_answer(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story.is_cut[A] = true;
	story_connect(&story);
	story_run_until(&story, 96637 * VBN_MILLISECOND);
	assert_true(story_says(&story, "0 A REQ, lost\n6442 A REQ, lost\n12884 A REQ, lost\n"));
	assert_false(story_says(&story, "UNREACHABLE"));
	story_run(&story);
	assert_true(story_says(&story, "96636 A REQ, lost\n"
				       "103079 A REJ 4, lost\n"
				       "103079 A UNREACHABLE\n"));
	story_end(&story);
}

/* Killed after its REQ: another process of that host, or its successor, says there is nobody. */
static void connector_killed_after_its_request(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story_connect(&story);
	story_forget(&story, A);
	story_run(&story);
	story_expect(&story, "0 A REQ\n"
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
	story_begin(&story);
	story.hesitates = true;
	story_connect(&story);
	story_run_until(&story, 100 * VBN_MILLISECOND);
	story_forget(&story, A);
	story_run(&story);
	story_expect(&story, "0 A REQ\n"
			     "1 B REQUEST\n"
			     "1 B REP\n"
			     "2 A RESPONSE\n"
			     "6443 B REP\n"
			     "6444 A REJ 6\n"
			     "6445 B REJECTED 6\n"
			     "8592 B TIMEWAIT_EXIT\n");
}

/* With the same QP number: B learns of the death by that, refuses once, and then serves. */
static void connector_comes_again_with_its_qp(void **state)
{
	struct story story;

	(void)state;
	story_begin_connected(&story);
	story_forget(&story, A);
	story_connect(&story);
	story_run_until(&story, 10 * VBN_SECOND);
	story_connect(&story);
	story_run(&story);
	story_expect(&story, IS_CONNECTED "3 A REQ\n"
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
	story_begin_connected(&story);
	story_forget(&story, A);
	story_connect_with(&story, 0xa1);
	story_run(&story);
	story_expect(&story, IS_CONNECTED "3 A REQ\n"
					  "4 B REQUEST\n"
					  "4 B REP\n"
					  "5 A RESPONSE\n"
					  "5 A RTU\n"
					  "5 A ESTABLISHED\n"
					  "6 B ESTABLISHED\n");
}

static void service_is_resolved(void **state)
{
	struct story story;

	(void)state;
	story_begin(&story);
	story_lose(&story, A, CM_SIDR_REQ, 1);
	story_lose(&story, B, CM_SIDR_REP, 1);
	story_ask(&story);
	story_run_until(&story, 20 * VBN_SECOND);
	story_release(&story, A);
	story_release(&story, B);
	story_run(&story);
	story_expect(&story, "0 A SIDR_REQ, lost\n"
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
	story_begin(&story);
	story.does_not_listen = true;
	story_ask(&story);
	story_run(&story);
	story_expect(&story, "0 A SIDR_REQ\n"
			     "1 B SIDR_REP\n"
			     "2 A SIDR_RESPONSE 1\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_lost),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(reply_refused),
		cmocka_unit_test(connector_takes_its_time),
		cmocka_unit_test(host_without_answer),
		cmocka_unit_test(connector_killed_after_its_request),
		cmocka_unit_test(connector_killed_before_it_is_ready),
		cmocka_unit_test(connector_comes_again_with_its_qp),
		cmocka_unit_test(connector_comes_again_at_once),
		cmocka_unit_test(service_is_resolved),
		cmocka_unit_test(service_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
