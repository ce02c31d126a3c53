/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP link where the kernel knows neither GSO nor GRO: a system call filter refuses
 * both options the way such a kernel does.
 */
#include "unit/link/udp_fixture.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ARGUMENT(number) ((uint32_t)offsetof(struct seccomp_data, args[number]))

#define SENDER "127.66.12.1"
#define RECEIVER "127.66.12.2"

/* Little endian: the low half of an argument comes first. */
static bool refuse_run_options(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 6),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(1)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UDP_SEGMENT, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UDP_GRO, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(steps) / sizeof(steps[0]), steps};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void the_options_are_refused(void **state)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), value = 0;

	(void)state;
	assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &value, sizeof(value)), -1);
	assert_int_equal(errno, ENOPROTOOPT);
	assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_GRO, &value, sizeof(value)), -1);
	assert_int_equal(errno, ENOPROTOOPT);
	assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &value, sizeof(value)), 0);
	close(fd);
}

/* More than one call of receive takes, of equal length, which elsewhere leaves as runs. */
static void all_arrives_one_by_one(void **state)
{
	static const struct link_udp_options options = {.gso = LINK_GSO_ON};
	struct ends ends = open_ends_with(SENDER, RECEIVER, &options);

	(void)state;
	assert_false(udp_gso_may_be_used((struct udp_link *)ends.a, &ends.route));
	for (uint32_t i = 0; i < 60; i++)
		add_message(&batch, i, 1024);
	send_batch(&ends);
	receive_until(ends.b, &keeper, 60);
	assert_int_equal(keeper.count, 60);
	for (uint32_t i = 0; i < 60; i++) {
		assert_is_message(&keeper.kept[i].packet, i, 1024);
		assert_int_equal(keeper.kept[i].packet.identification, 0);
	}
	close_ends(&ends);
}

static void the_longest_packet_fits_and_more_is_too_long(void **state)
{
	static uint8_t bytes[UDP_DATAGRAM_BYTES + 1];
	struct ends ends = open_ends(SENDER, RECEIVER);
	struct udp_link *udp = (struct udp_link *)ends.a;
	const struct sockaddr *to = (const struct sockaddr *)&ends.route.to.in;
	int fd = udp->senders[0].socket.fd;

	(void)state;
	add_message(&batch, 7, 4096);
	send_batch(&ends);
	assert_int_equal(sendto(fd, bytes, sizeof(bytes), 0, to, sizeof(ends.route.to.in)),
			 sizeof(bytes));
	assert_int_equal(sendto(fd, bytes, sizeof(bytes) - 1, 0, to, sizeof(ends.route.to.in)),
			 sizeof(bytes) - 1);
	receive_until(ends.b, &keeper, 3);
	assert_int_equal(keeper.count, 1);
	assert_is_message(&keeper.kept[0].packet, 7, 4096);
	assert_int_equal(keeper.drops[REASON_DROP_TOO_LONG], 1);
	assert_int_equal(keeper.drops[REASON_DROP_ICRC], 1);
	close_ends(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_options_are_refused),
		cmocka_unit_test(all_arrives_one_by_one),
		cmocka_unit_test(the_longest_packet_fits_and_more_is_too_long),
	};

	if (!refuse_run_options()) {
		puts("no filter of system calls may be set here");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
