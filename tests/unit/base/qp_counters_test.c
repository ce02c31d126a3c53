/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/qp_counters.h"

static void every_counter_has_its_own_name_and_a_text(void **state)
{
	(void)state;
	for (unsigned a = 0; a < QP_COUNTER_COUNT; a++) {
		const char *name = qp_counter_name((enum qp_counter)a);

		assert_true(name[0] != '\0' && strlen(name) < 32);
		assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
		assert_true(qp_counter_text((enum qp_counter)a)[0] != '\0');
		for (unsigned b = 0; b < a; b++)
			assert_string_not_equal(name, qp_counter_name((enum qp_counter)b));
	}
}

/* What every packet raises lies in one cache line. */
static void counters_of_every_packet_are_together(void **state)
{
	(void)state;
	assert_true(QP_RX_ATOMIC_REQUESTS < 64 / sizeof(uint64_t));
}

static void counting(void **state)
{
	struct qp_counters counters = {0};

	(void)state;
	qp_counters_add(&counters, QP_SENT_BYTES, 1000);
	qp_counters_add(&counters, QP_SENT_BYTES, 24);
	assert_int_equal(qp_counters_get(&counters, QP_SENT_BYTES), 1024);
	assert_int_equal(qp_counters_get(&counters, QP_SENT_PKTS), 0);
	assert_string_equal(qp_counter_name(QP_SENT_BYTES), "sent_bytes");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_counter_has_its_own_name_and_a_text),
		cmocka_unit_test(counters_of_every_packet_are_together),
		cmocka_unit_test(counting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
