/* SPDX-License-Identifier: BSD-2-Clause */
/* The exact lines that users see, and silence where none was asked for. */
#include "unit/engine/stderr_capture.h"

#include <errno.h>
#include <string.h>

#include "engine/explain.h"

static struct stderr_capture capture;

static int begin(void **state)
{
	(void)state;
	explain_set_level(LOG_ERROR);
	stderr_capture_begin(&capture);
	return 0;
}

static int end(void **state)
{
	(void)state;
	explain_set_level(LOG_NONE);
	return 0;
}

static void assert_said(const char *expected)
{
	assert_string_equal(stderr_capture_end(&capture), expected);
}

static void a_call_gives_one_line(void **state)
{
	int error = explain_call(-EINVAL, "ibv_reg_mr", "%d is %s", 5, "odd");

	(void)state;
	assert_said("verbena: ibv_reg_mr: 5 is odd\n");
	assert_int_equal(error, -EINVAL);
}

static void a_completion_names_request_cause_and_cure(void **state)
{
	const struct complaint complaint = {.reason = REASON_KEY_NO_REMOTE_WRITE,
					    .key = 0x1234,
					    .address = 0x7000,
					    .length = 64};

	(void)state;
	explain_completion(0xabc, 0x11, IBV_WC_REM_ACCESS_ERR, &complaint);
	assert_said("verbena: QP 0x000abc: work request 0x11 failed (IBV_WC_REM_ACCESS_ERR): the "
		    "memory region does not allow remote write (key 0x1234, address 0x7000, 64 "
		    "bytes); register it with IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE\n");
}

static void facts_that_say_nothing_are_left_out(void **state)
{
	const struct complaint complaint = {.reason = REASON_NAK_SEQUENCE};

	(void)state;
	explain_event(1, IBV_EVENT_QP_FATAL, &complaint);
	assert_said("verbena: QP 0x000001: IBV_EVENT_QP_FATAL: the peer missed a packet\n");
}

static void flushes_are_counted(void **state)
{
	(void)state;
	explain_flushes(0x10, 0);
	explain_flushes(0x10, 31);
	assert_said("verbena: QP 0x000010: 31 more work requests were flushed\n");
}

static void long_lines_are_cut_and_end(void **state)
{
	char text[2000];
	const char *said;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	explain_note(LOG_ERROR, "%s", text);
	said = stderr_capture_end(&capture);
	assert_int_equal(strlen(said), 511);
	assert_int_equal(said[510], '\n');
	assert_memory_equal(said, "verbena: xxx", 12);
}

static void levels_are_kept(void **state)
{
	const struct complaint complaint = {.reason = REASON_NAK_SEQUENCE};

	(void)state;
	assert_true(explain_is_on(LOG_ERROR));
	assert_false(explain_is_on(LOG_INFO));
	explain_note(LOG_INFO, "not said");
	explain_set_level(LOG_DEBUG);
	explain_note(LOG_INFO, "said");
	explain_set_level(LOG_NONE);
	assert_int_equal(explain_call(-EIO, "ibv_poll_cq", "not said"), -EIO);
	explain_completion(1, 1, IBV_WC_RETRY_EXC_ERR, &complaint);
	explain_event(1, IBV_EVENT_QP_FATAL, &complaint);
	explain_flushes(1, 1);
	assert_said("verbena: said\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_call_gives_one_line, begin, end),
		cmocka_unit_test_setup_teardown(a_completion_names_request_cause_and_cure, begin,
						end),
		cmocka_unit_test_setup_teardown(facts_that_say_nothing_are_left_out, begin, end),
		cmocka_unit_test_setup_teardown(flushes_are_counted, begin, end),
		cmocka_unit_test_setup_teardown(long_lines_are_cut_and_end, begin, end),
		cmocka_unit_test_setup_teardown(levels_are_kept, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
