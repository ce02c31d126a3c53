/* SPDX-License-Identifier: BSD-2-Clause */
/* A file names a domain of each device: what two devices make of one file is apart. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

#define SKIPPED 77

static void two_devices_have_two_domains(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *first = ibv_open_device(list[0]), *second = ibv_open_device(list[1]);
	char path[] = "/tmp/verbena-xrc-XXXXXX";
	int fd = mkstemp(path);
	struct ibv_xrcd *domains[2];

	(void)state;
	assert_true(fd >= 0);
	unlink(path);
	ibv_free_device_list(list);
	assert_non_null(first);
	assert_non_null(second);
	domains[0] = open_domain(first, fd, O_CREAT | O_EXCL);
	assert_non_null(domains[0]);
	assert_null(open_domain(second, fd, 0));
	assert_int_equal(errno, EAGAIN);
	domains[1] = open_domain(second, fd, O_CREAT | O_EXCL);
	assert_non_null(domains[1]);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_close_xrcd(domains[i]), 0);
	assert_int_equal(ibv_close_device(first), 0);
	assert_int_equal(ibv_close_device(second), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(two_devices_have_two_domains)};
	struct ibv_device **list;
	int count = 0;

	unsetenv("VERBENA_ADDRESS"); /* which leaves one device */
	list = ibv_get_device_list(&count);
	if (list)
		ibv_free_device_list(list);
	if (count < 2) {
		printf("skipped: there is no interface with an address besides loopback\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
