/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/syndrome.h"

static void kinds(void **state)
{
	(void)state;
	for (unsigned low = 0; low < 32; low++) {
		assert_int_equal(syndrome_kind((uint8_t)low), SYNDROME_ACK);
		assert_int_equal(syndrome_kind((uint8_t)(SYNDROME_RNR_BASE + low)), SYNDROME_RNR);
		assert_int_equal(syndrome_kind((uint8_t)(0x40 + low)), SYNDROME_RESERVED);
		assert_int_equal(syndrome_kind((uint8_t)(0x60 + low)), SYNDROME_NAK);
		/* The uppermost bit is reserved and does not count. */
		assert_int_equal(syndrome_kind((uint8_t)(0x80 + low)), SYNDROME_ACK);
	}
	assert_int_equal(syndrome_kind(SYNDROME_ACK_UNLIMITED), SYNDROME_ACK);
	assert_int_equal(syndrome_kind(SYNDROME_NAK_SEQUENCE), SYNDROME_NAK);
	assert_int_equal(syndrome_kind(SYNDROME_NAK_REMOTE_OPERATION), SYNDROME_NAK);
}

static void rnr_timers(void **state)
{
	(void)state;
	assert_int_equal(rnr_timer_ns(0), 655360 * VBN_MICROSECOND);
	assert_int_equal(rnr_timer_ns(1), 10 * VBN_MICROSECOND);
	assert_int_equal(rnr_timer_ns(5), 60 * VBN_MICROSECOND);
	assert_int_equal(rnr_timer_ns(12), 640 * VBN_MICROSECOND);
	assert_int_equal(rnr_timer_ns(14), 1280 * VBN_MICROSECOND);
	assert_int_equal(rnr_timer_ns(23), 30720 * VBN_MICROSECOND);
	assert_int_equal(rnr_timer_ns(31), 491520 * VBN_MICROSECOND);
	/* Longer with each code, doubling every two from code 4 on. */
	for (uint8_t code = 2; code < 32; code++)
		assert_true(rnr_timer_ns(code) > rnr_timer_ns(code - 1));
	for (uint8_t code = 4; code < 32; code++)
		assert_int_equal(rnr_timer_ns(code), 2 * rnr_timer_ns(code - 2));
	assert_true(rnr_timer_ns(0) > rnr_timer_ns(31));
	/* A syndrome may be given as it is. */
	assert_int_equal(rnr_timer_ns(SYNDROME_RNR_BASE + 14), rnr_timer_ns(14));
}

static void ack_timeouts(void **state)
{
	(void)state;
	assert_int_equal(ack_timeout_ns(0), 0);
	assert_int_equal(ack_timeout_ns(1), 8192);
	assert_int_equal(ack_timeout_ns(14), 67108864);
	assert_int_equal(ack_timeout_ns(31), 8796093022208);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds),
		cmocka_unit_test(rnr_timers),
		cmocka_unit_test(ack_timeouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
