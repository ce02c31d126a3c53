/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote access that the target must refuse. The requester gets a completion in error;
 * the target an asynchronous event, or the completion of the receive that a WRITE with
 * immediate had taken. Nothing of the target's memory changes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cases/loop.h"
#include "cases/said.h"

#define UNTOUCHED 0x5a

struct refused {
	enum ibv_wr_opcode opcode;
	uint32_t length;
	uint64_t address;
	uint32_t rkey;
	enum ibv_wc_status status;
	enum ibv_event_type event;
	const char *said;
};

static void expect_untouched(const struct loop *loop)
{
	for (size_t i = 0; i < LOOP_BLOCK_BYTES; i++)
		if (loop->far.block[i] != UNTOUCHED)
			fail_msg("byte %zu of the target was changed", i);
}

static void expect_refused(struct loop *loop, const struct refused *refused)
{
	struct ibv_sge sge = loop_piece(&loop->near, 0, refused->length);
	struct ibv_send_wr request = loop_request(loop, refused->opcode, &sge);

	if (refused->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		request.wr.atomic.remote_addr = refused->address;
		request.wr.atomic.rkey = refused->rkey;
		request.wr.atomic.compare_add = 1;
	} else {
		request.wr.rdma.remote_addr = refused->address;
		request.wr.rdma.rkey = refused->rkey;
	}
	memset(loop->near.block, 0xee, LOOP_BLOCK_BYTES);
	memset(loop->far.block, UNTOUCHED, LOOP_BLOCK_BYTES);
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, refused->status);
	expect_event(loop, refused->event, loop->far.qp);
	expect_said(refused->said);
	expect_state(loop->near.qp, IBV_QPS_ERR);
	expect_state(loop->far.qp, IBV_QPS_ERR);
	expect_untouched(loop);
}

/* Access that the peer refuses, by what it may not do: REM_ACCESS_ERR. */
static void expect_access_refused(struct loop *loop, enum ibv_wr_opcode opcode, uint32_t length,
				  uint64_t address, uint32_t rkey, const char *said)
{
	struct refused refused = {
		.opcode = opcode,
		.length = length,
		.address = address,
		.rkey = rkey,
		.status = IBV_WC_REM_ACCESS_ERR,
		.event = IBV_EVENT_QP_ACCESS_ERR,
		.said = said,
	};

	expect_refused(loop, &refused);
}

static uint64_t far_address(const struct loop *loop, uint32_t offset)
{
	return (uintptr_t)loop->far.block + offset;
}

static void write_with_a_key_of_nothing(void **state)
{
	struct loop *loop = *state;

	expect_access_refused(loop, IBV_WR_RDMA_WRITE, 8, far_address(loop, 0), 0xdeadbeef,
			      "belongs to no registered memory region");
}

static void read_with_a_key_of_nothing(void **state)
{
	struct loop *loop = *state;

	expect_access_refused(loop, IBV_WR_RDMA_READ, 8, far_address(loop, 0), 0xdeadbeef,
			      "belongs to no registered memory region");
	/* What a refused READ was to fill is as it was. */
	assert_int_equal(loop->near.block[0], 0xee);
}

static void atomic_with_a_key_of_nothing(void **state)
{
	struct loop *loop = *state;

	expect_access_refused(loop, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, far_address(loop, 0),
			      0xdeadbeef, "belongs to no registered memory region");
}

/* The program that deregisters first and tells its peer afterwards. */
static void write_to_a_deregistered_region(void **state)
{
	struct loop *loop = *state;
	struct ibv_mr *mr = ibv_reg_mr(loop->nic.pd, loop->far.block, 64, NIC_ALL_RIGHTS);
	uint32_t rkey = mr->rkey;

	assert_int_equal(ibv_dereg_mr(mr), 0);
	expect_access_refused(loop, IBV_WR_RDMA_WRITE, 8, far_address(loop, 0), rkey,
			      "belongs to no registered memory region");
}

static void write_that_runs_one_byte_too_far(void **state)
{
	struct loop *loop = *state;

	expect_access_refused(loop, IBV_WR_RDMA_WRITE, 9, far_address(loop, LOOP_BLOCK_BYTES - 8),
			      loop->far.mr->rkey, "past the bounds");
}

/* Many packets: already the first one is refused, since it names the whole range. */
static void long_write_that_runs_one_byte_too_far(void **state)
{
	struct loop *loop = *state;

	expect_access_refused(loop, IBV_WR_RDMA_WRITE, LOOP_BLOCK_BYTES, far_address(loop, 1),
			      loop->far.mr->rkey, "past the bounds");
}

static void write_before_the_region(void **state)
{
	struct loop *loop = *state;

	expect_access_refused(loop, IBV_WR_RDMA_WRITE, 8, far_address(loop, 0) - 1,
			      loop->far.mr->rkey, "past the bounds");
}

/* Address and length together pass the end of all addresses. */
static void write_around_the_end_of_all_addresses(void **state)
{
	struct loop *loop = *state;

	expect_access_refused(loop, IBV_WR_RDMA_WRITE, 64, UINT64_MAX - 8, loop->far.mr->rkey,
			      "past the bounds");
}

static void with_region_rights(struct loop *loop, int rights, enum ibv_wr_opcode opcode,
			       const char *said)
{
	struct ibv_mr *mr = ibv_reg_mr(loop->nic.pd, loop->far.block, LOOP_BLOCK_BYTES, rights);

	assert_non_null(mr);
	expect_access_refused(loop, opcode, 8, far_address(loop, 0), mr->rkey, said);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void write_to_a_region_without_remote_write(void **state)
{
	with_region_rights(*state, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
			   IBV_WR_RDMA_WRITE, "does not allow remote write");
}

static void read_from_a_region_without_remote_read(void **state)
{
	with_region_rights(*state, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
			   IBV_WR_RDMA_READ, "does not allow remote read");
}

static void atomic_on_a_region_without_remote_atomic(void **state)
{
	with_region_rights(*state, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
			   IBV_WR_ATOMIC_FETCH_AND_ADD, "does not allow remote atomics");
}

static void write_to_another_protection_domain(void **state)
{
	struct loop *loop = *state;
	struct ibv_pd *pd = ibv_alloc_pd(loop->nic.context);
	struct ibv_mr *mr = ibv_reg_mr(pd, loop->far.block, LOOP_BLOCK_BYTES, NIC_ALL_RIGHTS);

	expect_access_refused(loop, IBV_WR_RDMA_WRITE, 8, far_address(loop, 0), mr->rkey,
			      "another protection domain");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* The other place where rights are asked for, and the one that is forgotten. */
static void with_qp_rights(struct loop *loop, unsigned int rights, enum ibv_wr_opcode opcode,
			   const char *said)
{
	struct ibv_qp_attr attr = {.qp_access_flags = rights};

	assert_int_equal(ibv_modify_qp(loop->far.qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	expect_access_refused(loop, opcode, 8, far_address(loop, 0), loop->far.mr->rkey, said);
}

static void write_to_a_qp_without_remote_write(void **state)
{
	with_qp_rights(*state, IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_WRITE,
		       "QP does not allow remote write");
}

static void read_from_a_qp_without_remote_read(void **state)
{
	with_qp_rights(*state, IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_READ,
		       "QP does not allow remote read");
}

static void atomic_on_a_qp_without_remote_atomic(void **state)
{
	with_qp_rights(*state, IBV_ACCESS_REMOTE_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD,
		       "QP does not allow remote atomics");
}

static void atomic_at_an_odd_address(void **state)
{
	struct loop *loop = *state;
	struct refused refused = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.length = 8,
		.address = far_address(loop, 4),
		.rkey = loop->far.mr->rkey,
		.status = IBV_WC_REM_INV_REQ_ERR,
		.event = IBV_EVENT_QP_REQ_ERR,
		.said = "not a multiple of 8",
	};

	expect_refused(loop, &refused);
}

/* The receive that the immediate would have completed says it, so no event does. */
static void write_with_immediate_and_a_key_of_nothing(void **state)
{
	struct loop *loop = *state;
	struct ibv_sge sge = loop_piece(&loop->near, 0, 8);
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE_WITH_IMM, &sge);

	memset(loop->far.block, UNTOUCHED, LOOP_BLOCK_BYTES);
	request.wr.rdma.rkey = 0xdeadbeef;
	loop_must_post_receive(&loop->far, 2, NULL);
	loop_must_post(&loop->near, &request);
	expect_completion(loop->near.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	expect_completion(loop->far.recv_cq, 2, IBV_WC_LOC_ACCESS_ERR);
	expect_said("belongs to no registered memory region");
	expect_state(loop->far.qp, IBV_QPS_ERR);
	expect_no_event(loop);
	expect_untouched(loop);
}

#define CONNECTED(test) cmocka_unit_test_setup_teardown(test, loop_set_up, loop_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONNECTED(write_with_a_key_of_nothing),
		CONNECTED(read_with_a_key_of_nothing),
		CONNECTED(atomic_with_a_key_of_nothing),
		CONNECTED(write_to_a_deregistered_region),
		CONNECTED(write_that_runs_one_byte_too_far),
		CONNECTED(long_write_that_runs_one_byte_too_far),
		CONNECTED(write_before_the_region),
		CONNECTED(write_around_the_end_of_all_addresses),
		CONNECTED(write_to_a_region_without_remote_write),
		CONNECTED(read_from_a_region_without_remote_read),
		CONNECTED(atomic_on_a_region_without_remote_atomic),
		CONNECTED(write_to_another_protection_domain),
		CONNECTED(write_to_a_qp_without_remote_write),
		CONNECTED(read_from_a_qp_without_remote_read),
		CONNECTED(atomic_on_a_qp_without_remote_atomic),
		CONNECTED(atomic_at_an_odd_address),
		CONNECTED(write_with_immediate_and_a_key_of_nothing),
	};

	loop_program_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
