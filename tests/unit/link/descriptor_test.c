/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors in a program that is not ours: which numbers they have, and whose they are.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/descriptor.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int make(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void sets_tell_what_is_readable(void **state)
{
	int set = descriptor_epoll_create(), fd = make();
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 79}, seen;
	uint64_t one = 1;

	(void)state;
	assert_int_equal(fcntl(set, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(descriptor_epoll_change(set, EPOLL_CTL_ADD, fd, &event), 0);
	assert_int_equal(descriptor_epoll_look(set, &seen, 1), 0);
	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
	assert_int_equal(descriptor_epoll_look(set, &seen, 1), 1);
	assert_int_equal(seen.data.u64, 79);
	assert_int_equal(descriptor_epoll_change(set, EPOLL_CTL_DEL, fd, NULL), 0);
	assert_int_equal(descriptor_epoll_look(set, &seen, 1), 0);
	close(fd);
	close(set);
}

static void adopted_ones_are_known_again(void **state)
{
	int low = make();
	struct descriptor descriptor = descriptor_adopt(low);

	(void)state;
	assert_false(is_open(low));
	assert_true(descriptor.fd > low);
	assert_true(descriptor_is_ours(&descriptor));
	/* The program closed it, and opened something else there. */
	assert_true(open("/dev/null", O_RDONLY) == low);
	assert_int_equal(dup2(low, descriptor.fd), descriptor.fd);
	assert_false(descriptor_is_ours(&descriptor));
	descriptor_close(&descriptor);
	assert_int_equal(descriptor.fd, -1);
	close(low);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_tell_what_is_readable),
		cmocka_unit_test(adopted_ones_are_known_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
