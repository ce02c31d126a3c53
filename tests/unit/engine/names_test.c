/* SPDX-License-Identifier: BSD-2-Clause */
/* Every constant of the verbs header has its own name; what is none has "unknown". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/names.h"

static void statuses_are_named(void **state)
{
	(void)state;
	assert_string_equal(name_of_status(IBV_WC_SUCCESS), "IBV_WC_SUCCESS");
	assert_string_equal(name_of_status(IBV_WC_RETRY_EXC_ERR), "IBV_WC_RETRY_EXC_ERR");
	for (int i = IBV_WC_SUCCESS; i <= IBV_WC_GENERAL_ERR; i++)
		assert_memory_equal(name_of_status((enum ibv_wc_status)i), "IBV_WC_", 7);
	assert_string_equal(name_of_status((enum ibv_wc_status)1000), "unknown");
	assert_string_equal(name_of_status((enum ibv_wc_status) - 1), "unknown");
}

static void events_are_named(void **state)
{
	(void)state;
	assert_string_equal(name_of_event(IBV_EVENT_CQ_ERR), "IBV_EVENT_CQ_ERR");
	for (int i = IBV_EVENT_CQ_ERR; i <= IBV_EVENT_WQ_FATAL; i++)
		assert_memory_equal(name_of_event((enum ibv_event_type)i), "IBV_EVENT_", 10);
	assert_string_equal(name_of_event((enum ibv_event_type)1000), "unknown");
}

static void states_are_named(void **state)
{
	(void)state;
	assert_string_equal(name_of_state(IBV_QPS_RTS), "IBV_QPS_RTS");
	for (int i = IBV_QPS_RESET; i <= IBV_QPS_ERR; i++)
		assert_memory_equal(name_of_state((enum ibv_qp_state)i), "IBV_QPS_", 8);
	assert_string_equal(name_of_state(IBV_QPS_UNKNOWN), "unknown");
	assert_string_equal(name_of_state((enum ibv_qp_state) - 5), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(statuses_are_named),
		cmocka_unit_test(events_are_named),
		cmocka_unit_test(states_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
