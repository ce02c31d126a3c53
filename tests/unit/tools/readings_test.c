/* SPDX-License-Identifier: BSD-2-Clause */
/* On what the programs of UCX 1.13 and libfabric 1.17 really printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/bench/readings.h"

#define EXACT 1e-9

#define UCX_HEADER \
	"batch,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr," \
	"overall_mr\n"
#define LIBFABRIC_HEADER \
	"bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n"

static const char ucx_text[] =
	"[1764518400.123456] [host:123  :0]     ucp_context.c:1 UCX  WARN  something is odd\n" UCX_HEADER
	"0,1000,0.234,0.226,0.226,4.22,4.22,4426706,4426706\n"
	"12,  50,21.810,184.410,22.240,5422.71,44964.67,5423,44965\n";

static void test_ucx(void **state)
{
	struct ucx_reading readings[4];

	(void)state;
	assert_int_equal(readings_of_ucx(ucx_text, readings, 4), 2);
	assert_string_equal(readings[0].name, "0");
	assert_int_equal(readings[0].iterations, 1000);
	assert_float_equal(readings[0].median_us, 0.234, EXACT);
	assert_float_equal(readings[0].mean_us, 0.226, EXACT);
	assert_float_equal(readings[0].messages_per_second, 4426706, EXACT);
	assert_string_equal(readings[1].name, "12");
	assert_int_equal(readings[1].iterations, 50);
	assert_float_equal(readings[1].mean_us, 22.24, EXACT);
	assert_float_equal(readings[1].messages_per_second, 44965, EXACT);
}

static void ucx_refuses(const char *text)
{
	struct ucx_reading readings[1];

	assert_int_equal(readings_of_ucx(text, readings, 1), -1);
}

static void test_ucx_refused(void **state)
{
	(void)state;
	ucx_refuses("");
	ucx_refuses("0,1000,0.234,0.226,0.226,4.22,4.22,4426706,4426706\n");
	ucx_refuses("batch,iterations,avg_lat\n0,1000,0.234\n");
	ucx_refuses(UCX_HEADER "0,1000,0.234,0.226,0.226,4.22,4.22,4426706\n");
	ucx_refuses(UCX_HEADER "0,1000,0.234,0.226,0.226,4.22,4.22,4426706,4426706,7\n");
	ucx_refuses(UCX_HEADER "0,1000,0.234,0.226,0.226,4.22,4.22,4426706,fast\n");
	ucx_refuses(UCX_HEADER "6,10,0.020,0.000,0.000,inf,inf,inf,inf\n");
	ucx_refuses(UCX_HEADER "0,1000,0.234,nan,0.226,4.22,4.22,4426706,4426706\n");
	ucx_refuses(UCX_HEADER "0,0,0.234,0.226,0.226,4.22,4.22,4426706,4426706\n");
	ucx_refuses(UCX_HEADER "0,1000,-0.234,0.226,0.226,4.22,4.22,4426706,4426706\n");
	ucx_refuses(UCX_HEADER ",1000,0.234,0.226,0.226,4.22,4.22,4426706,4426706\n");
	ucx_refuses(UCX_HEADER "error\n");
	/* More lines than were asked for. */
	ucx_refuses(UCX_HEADER "0,1,1,1,1,1,1,1,1\n1,1,1,1,1,1,1,1,1\n");
}

/* A header alone is what a batch without a test prints. */
static void test_ucx_without_lines(void **state)
{
	struct ucx_reading readings[1];

	(void)state;
	assert_int_equal(readings_of_ucx(UCX_HEADER, readings, 1), 0);
}

static const char libfabric_text[] = LIBFABRIC_HEADER
	"16      1k      =1k      31k         0.05s      0.65      24.58       0.04\n"
	"1.5k    10      =10      30k         0.00s   3840.00       0.40       2.50\n"
	"4m      10      =10      80m         0.00s  11339.02     369.90       0.00\n";

static void test_libfabric(void **state)
{
	static const struct libfabric_reading wanted[] = {
		{16, 24.58}, {1536, 0.40}, {4194304, 369.90}};
	struct libfabric_reading readings[4];

	(void)state;
	assert_int_equal(readings_of_libfabric(libfabric_text, readings, 4), 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(readings[i].bytes, wanted[i].bytes);
		assert_float_equal(readings[i].mean_us, wanted[i].mean_us, EXACT);
	}
}

static void libfabric_refuses(const char *text)
{
	struct libfabric_reading readings[1];

	assert_int_equal(readings_of_libfabric(text, readings, 1), -1);
}

static void test_libfabric_refused(void **state)
{
	(void)state;
	libfabric_refuses("");
	libfabric_refuses("fi_getinfo(): util/pingpong.c:1485, ret=-61 (No data available)\n");
	libfabric_refuses("bytes   #sent   #ack\n16 1k =1k\n");
	libfabric_refuses(LIBFABRIC_HEADER "16 1k =1k 31k 0.05s 0.65 24.58\n");
	libfabric_refuses(LIBFABRIC_HEADER "16q 1k =1k 31k 0.05s 0.65 24.58 0.04\n");
	libfabric_refuses(LIBFABRIC_HEADER "16 1k =1k 31k 0.05s 0.65 soon 0.04\n");
	libfabric_refuses(LIBFABRIC_HEADER "16 1k =1k 31k 0.05s 0.65 0 0.04\n");
}

static void test_labelled(void **state)
{
	double value = 0;

	(void)state;
	assert_true(reading_labelled("a line\nCPU use: 18.9 %\n", "CPU use", &value));
	assert_float_equal(value, 18.9, EXACT);
	assert_true(reading_labelled("messages per second: 13798", "messages per second", &value));
	assert_float_equal(value, 13798, EXACT);
	assert_false(reading_labelled("CPU use: much\n", "CPU use", &value));
	assert_false(reading_labelled("CPU use\n", "CPU use", &value));
	assert_false(reading_labelled("our CPU use: 1 %\n", "CPU use", &value));
	assert_false(reading_labelled("", "CPU use", &value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ucx),
		cmocka_unit_test(test_ucx_refused),
		cmocka_unit_test(test_ucx_without_lines),
		cmocka_unit_test(test_libfabric),
		cmocka_unit_test(test_libfabric_refused),
		cmocka_unit_test(test_labelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
