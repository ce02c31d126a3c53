/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors in a program that is not ours: which numbers they have, and whose they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
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

/* So many descriptors and no more; returns what it was. */
static struct rlimit limit_to(rlim_t count)
{
	struct rlimit before, limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	limit.rlim_cur = count;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return before;
}

static void set_apart_it_is_above_and_selectable(void **state)
{
	int low = make(), apart = descriptor_set_apart(low), next = make();

	(void)state;
	assert_int_equal(next, low);
	assert_in_range(apart, FD_SETSIZE / 2, FD_SETSIZE - 1);
	assert_int_equal(fcntl(apart, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	close(apart);
	close(next);
}

static void set_apart_it_stays_where_nothing_is_free(void **state)
{
	struct rlimit before;
	int low = make();

	(void)state;
	before = limit_to(FD_SETSIZE / 4);
	errno = 0;
	assert_int_equal(descriptor_set_apart(low), low);
	assert_int_equal(errno, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(is_open(low));
	errno = EMFILE;
	assert_int_equal(descriptor_set_apart(-1), -1);
	assert_int_equal(errno, EMFILE);
	close(low);
}

/* Beyond what select() can hold it would be worse than below. */
static void set_apart_it_stays_selectable(void **state)
{
	struct rlimit before = limit_to(FD_SETSIZE + 16);
	int low = make(), next;

	(void)state;
	for (int fd = FD_SETSIZE / 2; fd < FD_SETSIZE; fd++)
		assert_int_equal(dup2(low, fd), fd);
	assert_int_equal(descriptor_set_apart(low), low);
	assert_true(is_open(low));
	assert_false(is_open(FD_SETSIZE));
	next = make();
	for (int fd = FD_SETSIZE / 2; fd < FD_SETSIZE; fd++)
		close(fd);
	close(low);
	close(next);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
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
		cmocka_unit_test(set_apart_it_is_above_and_selectable),
		cmocka_unit_test(set_apart_it_stays_where_nothing_is_free),
		cmocka_unit_test(set_apart_it_stays_selectable),
		cmocka_unit_test(sets_tell_what_is_readable),
		cmocka_unit_test(adopted_ones_are_known_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
