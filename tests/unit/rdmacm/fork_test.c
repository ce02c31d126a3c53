/* SPDX-License-Identifier: BSD-2-Clause */
/* A child of a program that uses rdma_cm, without exec. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/rdmacm/fixture.h"

/* In the child: no assertion of the framework, whose report is the parent's. */
static void demand(bool is_true)
{
	if (!is_true)
		_exit(3);
}

/* What a child inherited is dead; what it makes itself lives. */
static void inherited_endpoints_are_dead(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *id = create_id(channel, RDMA_PS_TCP);
	struct sockaddr_in address = own_address(0);
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		struct rdma_event_channel *own;
		struct rdma_cm_event *event;
		struct rdma_cm_id *fresh;

		demand(rdma_bind_addr(id, (struct sockaddr *)&address) == -1 && errno == EIO);
		demand(rdma_get_cm_event(channel, &event) == -1 && errno == EIO);
		demand(rdma_create_id(channel, &fresh, NULL, RDMA_PS_TCP) == -1 && errno == EIO);
		own = rdma_create_event_channel();
		demand(own && rdma_create_id(own, &fresh, NULL, RDMA_PS_TCP) == 0);
		demand(rdma_bind_addr(fresh, (struct sockaddr *)&address) == 0);
		demand(rdma_destroy_id(fresh) == 0);
		demand(rdma_destroy_id(id) == 0);
		rdma_destroy_event_channel(own);
		rdma_destroy_event_channel(channel);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inherited_endpoints_are_dead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
