/* SPDX-License-Identifier: BSD-2-Clause */
/* Registering memory, and local keys that do not fit what is done with them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "cases/loop.h"
#include "cases/said.h"

#define LOW_ADDRESS ((void *)(uintptr_t)0x10000)

static void expect_refused(struct ibv_pd *pd, void *address, size_t length, int access, int error)
{
	errno = 0;
	assert_null(ibv_reg_mr(pd, address, length, access));
	assert_int_equal(errno, error);
	expect_said_once("ibv_reg_mr");
}

static void read_only_mapping_of_a_file(void **state)
{
	struct loop *loop = *state;
	FILE *file = tmpfile();
	struct ibv_mr *mr;
	void *page;

	assert_non_null(file);
	assert_int_equal(fwrite("from a file", 1, 12, file), 12);
	assert_int_equal(fflush(file), 0);
	page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fileno(file), 0);
	assert_ptr_not_equal(page, MAP_FAILED);

	expect_refused(loop->nic.pd, page, 12, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	mr = ibv_reg_mr(loop->nic.pd, page, 12, 0);
	assert_non_null(mr);
	struct ibv_sge source = {(uintptr_t)page, 12, mr->lkey};
	struct ibv_sge target = loop_piece(&loop->far, 0, 100);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, &source);

	loop_must_post_receive(&loop->far, 2, &target);
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
	expect_completion(loop->far.recv_cq, 2, IBV_WC_SUCCESS);
	assert_string_equal((char *)loop->far.block, "from a file");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(page, 4096);
	fclose(file);
	expect_silence();
}

static void memory_that_is_not_mapped(void **state)
{
	struct loop *loop = *state;

	/*
	 * What was just unmapped another thread may have by now; nobody is given so low an address.
	 */
	expect_refused(loop->nic.pd, LOW_ADDRESS, 4096, IBV_ACCESS_LOCAL_WRITE, EFAULT);
}

static void region_that_runs_past_the_end_of_all_addresses(void **state)
{
	struct loop *loop = *state;

	expect_refused(loop->nic.pd, loop->near.block, SIZE_MAX - 16, 0, EINVAL);
}

static void remote_write_without_local_write(void **state)
{
	struct loop *loop = *state;

	expect_refused(loop->nic.pd, loop->near.block, 64, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	expect_refused(loop->nic.pd, loop->near.block, 64, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
}

static void region_of_no_bytes(void **state)
{
	struct loop *loop = *state;

	for (int i = 0; i < 3; i++)
		expect_refused(loop->nic.pd, loop->near.block, 0, IBV_ACCESS_LOCAL_WRITE, EINVAL);
}

/* An optional right is one that a device may leave unused. */
static void relaxed_ordering_is_accepted(void **state)
{
	struct loop *loop = *state;
	struct ibv_mr *mr = ibv_reg_mr(loop->nic.pd, loop->near.block, 64,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);

	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	expect_silence();
}

static void everything_on_demand(void **state)
{
	struct loop *loop = *state;
	struct ibv_mr *mr = ibv_reg_mr(loop->nic.pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = loop_piece(&loop->near, 0, 64);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &sge);
	struct ibv_device_attr_ex limits;

	/* Who offers it says so. */
	assert_int_equal(ibv_query_device_ex(loop->nic.context, NULL, &limits), 0);
	assert_true(limits.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT);
	assert_non_null(mr);
	sge.lkey = mr->lkey;
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	expect_silence();
}

/* --- local keys --- */

static void expect_send_fails(struct loop *loop, struct ibv_sge *sge, const char *said)
{
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, sge);

	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_LOC_PROT_ERR);
	expect_said(said);
	expect_state(loop->near.qp, IBV_QPS_ERR);
}

static void send_with_a_key_of_nothing(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = {(uintptr_t)loop->near.block, 8, 0xdeadbeef};

	expect_send_fails(loop, &sge, "belongs to no registered memory region");
}

static void send_from_a_deregistered_region(void **state)
{
	struct loop *loop = *state;
	struct ibv_mr *mr = ibv_reg_mr(loop->nic.pd, loop->near.block, 64, 0);
	struct ibv_sge sge = {(uintptr_t)loop->near.block, 8, mr->lkey};

	assert_int_equal(ibv_dereg_mr(mr), 0);
	expect_send_fails(loop, &sge, "belongs to no registered memory region");
}

static void send_one_byte_too_many(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 1, LOOP_BLOCK_BYTES);

	expect_send_fails(loop, &sge, "past the bounds");
}

static void send_from_before_the_region(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 0, 8);

	sge.addr--;
	expect_send_fails(loop, &sge, "past the bounds");
}

static void send_from_another_protection_domain(void **state)
{
	struct loop *loop = *state;
	struct ibv_pd *pd = ibv_alloc_pd(loop->nic.context);
	struct ibv_mr *mr = ibv_reg_mr(pd, loop->near.block, 64, 0);
	struct ibv_sge sge = {(uintptr_t)loop->near.block, 8, mr->lkey};

	expect_send_fails(loop, &sge, "another protection domain");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void read_into_a_region_without_local_write(void **state)
{
	struct loop *loop = *state;
	struct ibv_mr *mr = ibv_reg_mr(loop->nic.pd, loop->near.block, 64, 0);
	struct ibv_sge sge = {(uintptr_t)loop->near.block, 8, mr->lkey};
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_READ, &sge);

	memset(loop->far.block, 7, 8);
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_LOC_PROT_ERR);
	expect_said("does not allow local write");
	assert_int_equal(loop->near.block[0], 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void expect_receive_fails(struct loop *loop, struct ibv_sge *target, const char *said)
{
	struct ibv_sge source = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, &source);

	memset(loop->near.block, 7, 8);
	loop_must_post_receive(&loop->far, 2, target);
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_REM_OP_ERR);
	expect_completion(loop->far.recv_cq, 2, IBV_WC_LOC_PROT_ERR);
	expect_said(said);
	expect_state(loop->near.qp, IBV_QPS_ERR);
	expect_state(loop->far.qp, IBV_QPS_ERR);
	assert_int_equal(loop->far.block[0], 0);
}

static void receive_into_a_region_without_local_write(void **state)
{
	struct loop *loop = *state;
	struct ibv_mr *mr = ibv_reg_mr(loop->nic.pd, loop->far.block, 64, 0);
	struct ibv_sge target = {(uintptr_t)loop->far.block, 8, mr->lkey};

	expect_receive_fails(loop, &target, "does not allow local write");
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void receive_with_a_key_of_nothing(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge target = {(uintptr_t)loop->far.block, 8, 0xdeadbeef};

	expect_receive_fails(loop, &target, "belongs to no registered memory region");
}

static void reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

/*
 * The region moves while receives are posted into it. The first one is at fault, the others
 * are flushed; when it has moved back, the same QPs and CQs serve without a trace of that.
 */
static void receive_into_a_region_that_moved_to_another_domain(void **state)
{
	struct loop *loop = *state;
	struct ibv_pd *pd = ibv_alloc_pd(loop->nic.context);
	struct ibv_sge target = loop_piece(&loop->far, 0, 64),
		       source = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, &source);

	for (uint64_t i = 2; i < 5; i++)
		loop_must_post_receive(&loop->far, i, &target);
	assert_int_equal(ibv_rereg_mr(loop->far.mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_REM_OP_ERR);
	expect_completion(loop->far.recv_cq, 2, IBV_WC_LOC_PROT_ERR);
	expect_completion(loop->far.recv_cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_completion(loop->far.recv_cq, 4, IBV_WC_WR_FLUSH_ERR);
	expect_said("another protection domain");
	assert_int_equal(
		ibv_rereg_mr(loop->far.mr, IBV_REREG_MR_CHANGE_PD, loop->nic.pd, NULL, 0, 0), 0);
	reset(loop->near.qp);
	reset(loop->far.qp);
	nic_connect_pair(&loop->nic, loop->near.qp, loop->far.qp);
	loop_settle(loop);
	expect_no_completion(loop->near.send_cq);
	expect_no_completion(loop->far.recv_cq);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void message_longer_than_the_receive(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge source = loop_piece(&loop->near, 0, 9),
		       target = loop_piece(&loop->far, 0, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_SEND, &source);

	memset(loop->far.block, 3, 64);
	loop_must_post_receive(&loop->far, 2, &target);
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_completion(loop->far.recv_cq, 2, IBV_WC_LOC_LEN_ERR);
	expect_said("longer than the posted receive buffer");
	/* The byte behind the buffer is as it was. */
	assert_int_equal(loop->far.block[8], 3);
}

/* A copy of the struct is the PD too; one with a wrong handle is none, and not a crash. */
static void a_copied_protection_domain(void **state)
{
	struct loop *loop = *state;
	struct ibv_pd copy = *loop->nic.pd;
	struct ibv_mr *mr = ibv_reg_mr(&copy, loop->near.block, 64, 0);

	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	copy.handle = 0x7fffffff;
	errno = 0;
	assert_null(ibv_reg_mr(&copy, loop->near.block, 64, 0));
	assert_int_equal(errno, EINVAL);
	expect_said_once("ibv_reg_mr");
	assert_int_equal(ibv_dealloc_pd(&copy), EINVAL);
	expect_said_once("ibv_dealloc_pd");
}

/* Objects in use do not go, and say who uses them. */
static void objects_in_use_stay(void **state)
{
	struct loop *loop = *state;

	assert_int_equal(ibv_dealloc_pd(loop->nic.pd), EBUSY);
	expect_said_once("ibv_dealloc_pd");
	assert_int_equal(ibv_destroy_cq(loop->near.send_cq), EBUSY);
	expect_said_once("ibv_destroy_cq");
	loop_settle(loop);
}

#define CONNECTED(test) cmocka_unit_test_setup_teardown(test, loop_set_up, loop_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONNECTED(read_only_mapping_of_a_file),
		CONNECTED(memory_that_is_not_mapped),
		CONNECTED(region_that_runs_past_the_end_of_all_addresses),
		CONNECTED(remote_write_without_local_write),
		CONNECTED(region_of_no_bytes),
		CONNECTED(relaxed_ordering_is_accepted),
		CONNECTED(everything_on_demand),
		CONNECTED(send_with_a_key_of_nothing),
		CONNECTED(send_from_a_deregistered_region),
		CONNECTED(send_one_byte_too_many),
		CONNECTED(send_from_before_the_region),
		CONNECTED(send_from_another_protection_domain),
		CONNECTED(read_into_a_region_without_local_write),
		CONNECTED(receive_into_a_region_without_local_write),
		CONNECTED(receive_with_a_key_of_nothing),
		CONNECTED(receive_into_a_region_that_moved_to_another_domain),
		CONNECTED(message_longer_than_the_receive),
		CONNECTED(a_copied_protection_domain),
		CONNECTED(objects_in_use_stay),
	};

	loop_program_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
