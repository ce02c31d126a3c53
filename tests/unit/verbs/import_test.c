/* SPDX-License-Identifier: BSD-2-Clause */
/* A device, a PD and a region that are used once more through a duplicated descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

static void not_imported(int fd, int error)
{
	errno = 0;
	assert_null(ibv_import_device(fd));
	assert_int_equal(errno, error);
}

static void descriptors_that_are_none(void **state)
{
	struct ibv_context *context = open_first();
	int other = eventfd(0, EFD_CLOEXEC), file = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int closed;

	(void)state;
	not_imported(-1, EINVAL);
	not_imported(100000, EINVAL);
	not_imported(other, EOPNOTSUPP);
	not_imported(file, EINVAL);
	closed = dup(context->cmd_fd);
	assert_int_equal(ibv_close_device(context), 0);
	/* The device is not open any more. */
	not_imported(closed, EOPNOTSUPP);
	close(closed);
	close(other);
	close(file);
}

static void the_descriptor_goes_with_the_context(void **state)
{
	struct ibv_context *context = open_first();
	int fd = dup(context->cmd_fd);
	struct ibv_context *imported = ibv_import_device(fd);

	(void)state;
	assert_non_null(imported);
	assert_ptr_not_equal(imported, context);
	assert_ptr_equal(imported->device, context->device);
	assert_int_equal(imported->cmd_fd, fd);
	assert_int_not_equal(imported->async_fd, context->async_fd);
	assert_int_equal(ibv_close_device(imported), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(ibv_close_device(context), 0);
}

/* The imported side writes from its view of a region into the plain one's. */
static void traffic_of_imported_objects(void **state)
{
	struct pair *pair = pair_create(false);
	struct ibv_context *context = ibv_import_device(dup(pair->context->cmd_fd));
	struct ibv_pd *pd = ibv_import_pd(context, pair->pd->handle);
	struct ibv_mr *mr = ibv_import_mr(pd, pair->mr[0]->handle);
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr left_attr = plain_qp(cq), right_attr = plain_qp(pair->cq[1]);
	struct ibv_qp *left = ibv_create_qp(pd, &left_attr);
	struct ibv_qp *right = ibv_create_qp(pair->pd, &right_attr);
	struct ibv_sge sge = {(uintptr_t)pair->bytes[0], 5000, pair->mr[0]->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)pair->bytes[1], .rkey = pair->mr[1]->rkey},
	};
	struct ibv_send_wr *bad;

	(void)state;
	assert_int_equal(mr->lkey, pair->mr[0]->lkey);
	assert_int_equal(mr->rkey, pair->mr[0]->rkey);
	assert_int_equal(mr->length, BUFFER_BYTES);
	assert_null(mr->addr);
	connect_to(left, right->qp_num);
	connect_to(right, left->qp_num);
	fill_pattern(pair, 0, 9);
	assert_int_equal(ibv_post_send(left, &wr, &bad), 0);
	next_success(cq);
	assert_memory_equal(pair->bytes[1], pair->bytes[0], 5000);
	ibv_unimport_mr(mr);
	assert_int_equal(ibv_dealloc_pd(pair->pd), EBUSY);
	/* What was made in it goes on. */
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_post_send(left, &wr, &bad), 0);
	next_success(cq);
	assert_int_equal(ibv_destroy_qp(left), 0);
	assert_int_equal(ibv_destroy_qp(right), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_close_device(context), 0);
	pair_destroy(pair);
}

static void handles_that_are_none(void **state)
{
	struct pair *pair = pair_create(false);
	struct ibv_context *context = ibv_import_device(dup(pair->context->cmd_fd));
	struct ibv_pd *pd = ibv_import_pd(context, pair->pd->handle),
		      *other = ibv_alloc_pd(context);

	(void)state;
	assert_null(ibv_import_pd(context, 12345));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_import_pd(context, UINT32_MAX));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_import_mr(pd, pair->mr[0]->handle + 1));
	assert_int_equal(errno, EINVAL);
	/* A region of another PD. */
	assert_null(ibv_import_mr(other, pair->mr[0]->handle));
	assert_int_equal(errno, EINVAL);
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(ibv_close_device(context), 0);
	pair_destroy(pair);
}

/* What was imported is given back, what was made is destroyed; the wrong call changes nothing. */
static void the_wrong_end(void **state)
{
	struct pair *pair = pair_create(false);
	struct ibv_context *context = ibv_import_device(dup(pair->context->cmd_fd));
	struct ibv_pd *pd = ibv_import_pd(context, pair->pd->handle);
	struct ibv_mr *mr = ibv_import_mr(pd, pair->mr[0]->handle);

	(void)state;
	assert_int_equal(ibv_dereg_mr(mr), EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), EINVAL);
	ibv_unimport_pd(pair->pd);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	ibv_unimport_mr(pair->mr[0]);
	assert_int_equal(pair->mr[0]->length, BUFFER_BYTES);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(context), 0);
	pair_destroy(pair);
}

/* In a child of fork the device belongs to the parent. */
static void not_across_fork(void **state)
{
	struct ibv_context *context = open_first();
	int status = -1;
	pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(ibv_import_device(dup(context->cmd_fd)) ? 1 : errno == EOPNOTSUPP ? 0 : 2);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptors_that_are_none),
		cmocka_unit_test(the_descriptor_goes_with_the_context),
		cmocka_unit_test(traffic_of_imported_objects),
		cmocka_unit_test(handles_that_are_none),
		cmocka_unit_test(the_wrong_end),
		cmocka_unit_test(not_across_fork),
	};

	return cmocka_run_group_tests_name("import", tests, NULL, NULL);
}
