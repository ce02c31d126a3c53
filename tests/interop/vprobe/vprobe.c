/* SPDX-License-Identifier: BSD-2-Clause */
#include "interop/vprobe/probe.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/fail.h"

#define RC IBV_QPT_RC
#define UC IBV_QPT_UC
#define UD IBV_QPT_UD
#define FLIP 0x5a
#define NO_WRITE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
#define NO_READ (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define NEAR_END (PROBE_BUFFER_BYTES - 8)

#define TEST(NAME, TYPE, RUN, OPCODE, ...) \
	{ \
		.name = (NAME), .type = (TYPE), .run = (RUN), .opcode = (OPCODE), __VA_ARGS__ \
	}

/* clang-format off */
static const struct probe_test tests[] = {
	TEST("rc-send", RC, traffic_send, IBV_WR_SEND),
	TEST("rc-send-imm", RC, traffic_send, IBV_WR_SEND_WITH_IMM),
	TEST("rc-write", RC, traffic_write, IBV_WR_RDMA_WRITE),
	TEST("rc-write-imm", RC, traffic_write, IBV_WR_RDMA_WRITE_WITH_IMM),
	TEST("rc-read", RC, traffic_read, IBV_WR_RDMA_READ),
	TEST("rc-atomic", RC, traffic_atomic, IBV_WR_ATOMIC_FETCH_AND_ADD),
	TEST("rc-mix", RC, traffic_mix, IBV_WR_SEND),
	TEST("rc-inv", RC, refused_invalidate, IBV_WR_SEND_WITH_INV, .has_window = true),
	TEST("rc-flow-send", RC, flow_run, IBV_WR_SEND),
	TEST("rc-flow-write", RC, flow_run, IBV_WR_RDMA_WRITE),
	TEST("rc-flow-read", RC, flow_run, IBV_WR_RDMA_READ),
	TEST("rc-flow-atomic", RC, flow_run, IBV_WR_ATOMIC_FETCH_AND_ADD),
	TEST("rc-storm", RC, flow_storm, IBV_WR_SEND),
	TEST("rc-rnr", RC, refused_rnr, IBV_WR_SEND),
	TEST("rc-rnr-exceed", RC, refused_rnr_exceed, IBV_WR_SEND, .rnr_retry = 2),
	TEST("rc-rkey-write", RC, refused_request, IBV_WR_RDMA_WRITE, .rkey_flip = FLIP),
	TEST("rc-rkey-read", RC, refused_request, IBV_WR_RDMA_READ, .rkey_flip = FLIP),
	TEST("rc-rkey-atomic", RC, refused_request, IBV_WR_ATOMIC_FETCH_AND_ADD, .rkey_flip = FLIP),
	TEST("rc-range-write", RC, refused_request, IBV_WR_RDMA_WRITE, .offset = NEAR_END),
	TEST("rc-range-read", RC, refused_request, IBV_WR_RDMA_READ, .offset = NEAR_END),
	TEST("rc-noperm-write", RC, refused_request, IBV_WR_RDMA_WRITE, .rights = NO_WRITE),
	TEST("rc-noperm-read", RC, refused_request, IBV_WR_RDMA_READ, .rights = NO_READ),
	TEST("rc-noperm-atomic", RC, refused_request, IBV_WR_ATOMIC_FETCH_AND_ADD, .rights = NO_READ),
	TEST("rc-unaligned", RC, refused_request, IBV_WR_ATOMIC_FETCH_AND_ADD, .offset = 4),
	TEST("rc-long", RC, refused_request, IBV_WR_SEND, .receive_bytes = 100),
	TEST("rc-killed", RC, refused_killed, IBV_WR_RDMA_WRITE, .retry_count = 6),
	TEST("uc-send", UC, traffic_send, IBV_WR_SEND),
	TEST("uc-send-imm", UC, traffic_send, IBV_WR_SEND_WITH_IMM),
	TEST("uc-write", UC, traffic_write, IBV_WR_RDMA_WRITE),
	TEST("uc-write-imm", UC, traffic_write, IBV_WR_RDMA_WRITE_WITH_IMM),
	TEST("ud-send", UD, traffic_send, IBV_WR_SEND),
	TEST("ud-send-imm", UD, traffic_send, IBV_WR_SEND_WITH_IMM),
};
/* clang-format on */

#define TEST_COUNT (sizeof(tests) / sizeof(tests[0]))

static _Noreturn void show_usage(void)
{
	fprintf(stderr,
		"usage: vprobe [OPTIONS] TEST             serves\n"
		"       vprobe [OPTIONS] -c ADDRESS TEST  drives; ADDRESS is the server's for TCP\n"
		"  -d NAME   device       -6        IPv6        -m BYTES  path MTU\n"
		"  -f LABEL  flow label   -q CLASS  traffic class\n"
		"  -p PSN    first PSN    -r CODE   RNR timer   -t CODE   ACK timeout\n"
		"  -n COUNT  rounds of rc-storm\n"
		"tests:");
	for (size_t i = 0; i < TEST_COUNT; i++)
		fprintf(stderr, " %s", tests[i].name);
	fputc('\n', stderr);
	exit(2);
}

static void set_option(struct probe_options *options, int letter, const char *text)
{
	unsigned long number = text ? strtoul(text, NULL, 0) : 0;

	switch (letter) {
	case '6':
		options->is_ipv6 = true;
		break;
	case 'c':
		options->address = text;
		break;
	case 'd':
		options->device = text;
		break;
	case 'm':
		options->mtu = (unsigned int)number;
		break;
	case 'f':
		options->flow_label = (uint32_t)number;
		break;
	case 'q':
		options->traffic_class = (uint8_t)number;
		break;
	case 'p':
		options->psn = (uint32_t)number;
		break;
	case 'r':
		options->min_rnr_timer = (uint8_t)number;
		break;
	case 't':
		options->timeout = (uint8_t)number;
		break;
	case 'n':
		options->count = (unsigned int)number;
		break;
	default:
		show_usage();
	}
}

static struct probe_options read_options(int argc, char **argv)
{
	struct probe_options options = {
		.min_rnr_timer = 14, .timeout = 14, .rnr_retry = 7, .retry_count = 7, .count = 20};
	int letter;

	while ((letter = getopt(argc, argv, "6c:d:m:f:q:p:r:t:n:")) != -1)
		set_option(&options, letter, optarg);
	if (optind + 1 != argc)
		show_usage();
	if (options.mtu &&
	    (options.mtu < 256 || options.mtu > 4096 || (options.mtu & (options.mtu - 1)) != 0))
		give_up("the path MTU is 256, 512, 1024, 2048 or 4096");
	if (options.psn == 0)
		options.psn = options.address ? PROBE_CLIENT_PSN : PROBE_SERVER_PSN;
	return options;
}

static const struct probe_test *find_test(const char *name)
{
	for (size_t i = 0; i < TEST_COUNT; i++)
		if (strcmp(tests[i].name, name) == 0)
			return &tests[i];
	show_usage();
}

int main(int argc, char **argv)
{
	struct probe probe = {.options = read_options(argc, argv)};
	const struct probe_test *test = find_test(argv[optind]);

	probe.is_client = probe.options.address != NULL;
	if (test->rnr_retry)
		probe.options.rnr_retry = test->rnr_retry;
	if (test->retry_count)
		probe.options.retry_count = test->retry_count;
	probe_open(&probe, test);
	meeting_open(&probe);
	meeting_introduce(&probe);
	probe_connect(&probe);
	if (test->run != refused_killed)
		meeting_point(&probe, "up");
	test->run(&probe, test);
	if (test->run != refused_killed)
		meeting_point(&probe, "end");
	probe_close(&probe);
	printf("ok %s %s, mtu %u\n", probe.is_client ? "client" : "server", test->name, probe.mtu);
	return 0;
}
