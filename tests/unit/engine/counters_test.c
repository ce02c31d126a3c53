/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters as they are written for VERBENA_COUNTERS. */
#include "engine/counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void counters_that_were_met_are_appended(void **state)
{
	static struct stats_process counters;
	char name[] = "/tmp/verbena-counters-XXXXXX", text[256];
	int fd = mkstemp(name);
	ssize_t length;

	(void)state;
	assert_true(fd >= 0);
	counters_add(&counters.sent, 7);
	counters_add(&counters.received[REASON_NONE], 5);
	counters_add(&counters.received[REASON_DROP_ICRC], 2);
	counters_add(&counters.received[REASON_DROP_ICRC], 1);
	counters_write(&counters, name);
	counters_write(&counters, name);
	length = read(fd, text, sizeof(text) - 1);
	assert_true(length > 0);
	text[length] = '\0';
	assert_string_equal(text, "packets_sent 7\npackets_taken 5\ndrop_icrc 3\n"
				  "packets_sent 7\npackets_taken 5\ndrop_icrc 3\n");
	unlink(name);
	close(fd);
}

static void a_file_that_cannot_be_written_is_no_end(void **state)
{
	static struct stats_process counters;

	(void)state;
	counters_write(&counters, "/nowhere/at/all");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_that_were_met_are_appended),
		cmocka_unit_test(a_file_that_cannot_be_written_is_no_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
