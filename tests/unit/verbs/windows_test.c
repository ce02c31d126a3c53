/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows, null regions and on-demand regions as a program uses them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/map_apart.h"
#include "unit/verbs/fixture.h"

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static int create_extended(void **state)
{
	struct pair *pair = pair_create(true);

	/* The right side's region lets windows in. */
	*state = pair;
	return ibv_rereg_mr(pair->mr[1], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
}

static int destroy(void **state)
{
	pair_destroy(*state);
	return 0;
}

static struct ibv_mw *alloc(struct pair *pair, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(pair->pd, type);

	assert_non_null(mw);
	assert_ptr_equal(mw->pd, pair->pd);
	assert_ptr_equal(mw->context, pair->context);
	assert_int_equal(mw->type, type);
	return mw;
}

static struct ibv_mw_bind_info part(struct pair *pair, uint32_t offset, uint32_t length)
{
	return (struct ibv_mw_bind_info){.mr = pair->mr[1],
					 .addr = (uintptr_t)pair->bytes[1] + offset,
					 .length = length,
					 .mw_access_flags = REMOTE};
}

static enum ibv_wc_status write_to(struct pair *pair, uint64_t address, uint32_t rkey)
{
	struct ibv_sge sge = sge_of(pair, 0, 0, 64);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {address, rkey}};
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	return next_completion(pair->cq[0]).status;
}

static void type_1_by_its_own_call(void **state)
{
	struct pair *pair = *state;
	struct ibv_mw *mw = alloc(pair, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.wr_id = 5, .send_flags = IBV_SEND_SIGNALED};
	uint32_t before = mw->rkey;
	struct ibv_wc wc;

	fill_pattern(pair, 0, 9);
	bind.bind_info = part(pair, 128, 64);
	assert_int_equal(ibv_bind_mw(pair->qp[1], mw, &bind), 0);
	assert_int_not_equal(mw->rkey, before);
	assert_int_equal(mw->rkey >> 8, before >> 8);
	wc = next_success(pair->cq[1]);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
	assert_int_equal(write_to(pair, bind.bind_info.addr, mw->rkey), IBV_WC_SUCCESS);
	assert_memory_equal(pair->bytes[1] + 128, pair->bytes[0], 64);
	/* Elsewhere, by offsets; the region may not go before the window. */
	bind.bind_info = part(pair, 4096, 64);
	bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	assert_int_equal(ibv_bind_mw(pair->qp[1], mw, &bind), 0);
	next_success(pair->cq[1]);
	assert_int_equal(write_to(pair, 0, mw->rkey), IBV_WC_SUCCESS);
	assert_memory_equal(pair->bytes[1] + 4096, pair->bytes[0], 64);
	assert_int_equal(ibv_dereg_mr(pair->mr[1]), EBUSY);
	bind.bind_info = (struct ibv_mw_bind_info){.mr = NULL};
	assert_int_equal(ibv_bind_mw(pair->qp[1], mw, &bind), 0);
	next_success(pair->cq[1]);
	assert_int_equal(write_to(pair, 0, mw->rkey), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void calls_that_cannot_be(void **state)
{
	struct pair *pair = *state;
	struct ibv_pd *other = ibv_alloc_pd(pair->context);
	struct ibv_mw *mw = alloc(pair, IBV_MW_TYPE_1), *type_2 = alloc(pair, IBV_MW_TYPE_2);
	struct ibv_mw *foreign = ibv_alloc_mw(other, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.bind_info = part(pair, 0, 64)};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .bind_mw = {.mw = mw}}, *bad;

	assert_non_null(foreign);
	assert_int_equal(ibv_bind_mw(pair->qp[1], type_2, &bind), EINVAL);
	assert_int_equal(ibv_bind_mw(pair->qp[1], foreign, &bind), EPERM);
	bind.bind_info = (struct ibv_mw_bind_info){.mr = NULL};
	assert_int_equal(ibv_bind_mw(pair->qp[1], foreign, &bind), EPERM);
	bind.bind_info = part(pair, 0, 64);
	bind.bind_info.mw_access_flags = 1 << 15;
	assert_int_equal(ibv_bind_mw(pair->qp[1], mw, &bind), EINVAL);
	bind.bind_info = part(pair, 0, 64);
	bind.send_flags = IBV_SEND_INLINE;
	assert_int_equal(ibv_bind_mw(pair->qp[1], mw, &bind), EINVAL);
	wr.bind_mw.bind_info = part(pair, 0, 64);
	assert_int_equal(ibv_post_send(pair->qp[1], &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_dealloc_pd(other), EBUSY);
	assert_int_equal(ibv_dealloc_mw(foreign), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dealloc_mw(type_2), 0);
}

/* The left QP, whose region gets the right to it, builds: bind, send, invalidate. */
static void by_the_builder(void **state)
{
	struct pair *pair = *state;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(pair->qp[0]);
	struct ibv_mw *mw = alloc(pair, IBV_MW_TYPE_2), *theirs = alloc(pair, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info mine = {.addr = (uintptr_t)pair->bytes[0], .length = 64};
	struct ibv_recv_wr receive = {.wr_id = 9}, *bad_receive;
	struct ibv_send_wr bind = {.opcode = IBV_WR_BIND_MW,
				   .send_flags = IBV_SEND_SIGNALED,
				   .bind_mw = {theirs, ibv_inc_rkey(theirs->rkey),
					       part(pair, 0, 64)}};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	assert_int_equal(ibv_rereg_mr(pair->mr[0], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_MW_BIND),
			 0);
	assert_int_equal(ibv_post_recv(pair->qp[1], &receive, &bad_receive), 0);
	assert_int_equal(ibv_post_send(pair->qp[1], &bind, &bad), 0);
	next_success(pair->cq[1]);
	mine.mr = pair->mr[0];
	mine.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, mw, ibv_inc_rkey(mw->rkey), &mine);
	ibv_wr_send_inv(ex, bind.bind_mw.rkey);
	ibv_wr_local_inv(ex, ibv_inc_rkey(mw->rkey));
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(next_success(pair->cq[0]).opcode, IBV_WC_BIND_MW);
	assert_int_equal(next_success(pair->cq[0]).opcode, IBV_WC_SEND);
	assert_int_equal(next_success(pair->cq[0]).opcode, IBV_WC_LOCAL_INV);
	wc = next_success(pair->cq[1]);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, bind.bind_mw.rkey);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dealloc_mw(theirs), 0);
}

static void a_bind_that_the_region_forbids(void **state)
{
	struct pair *pair = *state;
	struct ibv_mw *mw = alloc(pair, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .bind_mw = {.mw = mw}}, *bad;

	wr.bind_mw.bind_info = part(pair, 0, 64);
	wr.bind_mw.bind_info.mr = pair->mr[0];
	wr.bind_mw.rkey = mw->rkey;
	assert_int_equal(ibv_post_send(pair->qp[1], &wr, &bad), 0);
	assert_int_equal(next_completion(pair->cq[1]).status, IBV_WC_MW_BIND_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* --- null regions --- */

static void a_null_region_in_a_list(void **state)
{
	struct pair *pair = *state;
	struct ibv_mr *null = ibv_alloc_null_mr(pair->pd);
	struct ibv_sge receive_list[2], list[2];
	struct ibv_recv_wr receive = {.sg_list = receive_list, .num_sge = 2}, *bad_receive;
	struct ibv_send_wr wr = {.sg_list = list,
				 .num_sge = 2,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	assert_non_null(null);
	assert_int_equal(null->rkey, 0);
	fill_pattern(pair, 0, 1);
	fill_pattern(pair, 1, 2);
	/* 32 bytes swallowed, then 64 kept: of those 32 of the pattern and 32 zeros. */
	receive_list[0] = (struct ibv_sge){.addr = 0x1234, .length = 32, .lkey = null->lkey};
	receive_list[1] = sge_of(pair, 1, 256, 64);
	list[0] = sge_of(pair, 0, 0, 64);
	list[1] = (struct ibv_sge){.addr = 0, .length = 32, .lkey = null->lkey};
	assert_int_equal(ibv_post_recv(pair->qp[1], &receive, &bad_receive), 0);
	assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	next_success(pair->cq[0]);
	assert_int_equal(next_success(pair->cq[1]).byte_len, 96);
	assert_memory_equal(pair->bytes[1] + 256, pair->bytes[0] + 32, 32);
	for (int i = 0; i < 32; i++)
		assert_int_equal(pair->bytes[1][288 + i], 0);
	assert_int_equal(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(write_to(pair, 0, null->lkey), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(null), 0);
}

/* --- on demand --- */

static void on_demand_is_what_the_device_says(void **state)
{
	struct pair *pair = *state;
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(pair->context, NULL, &attr), 0);
	assert_int_equal(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	assert_true(attr.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC);
	assert_true(attr.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	assert_false(attr.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A);
	assert_true(attr.orig_attr.max_mw > 0);
}

/* Registered before it is mapped, used, unmapped and used again. */
static void memory_may_come_and_go(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct pair *pair = *state;
	uint8_t *area = map_apart(page, PROT_NONE);
	struct ibv_mr *mr;

	assert_ptr_not_equal(area, MAP_FAILED);
	mr = ibv_reg_mr(pair->pd, area, page,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	assert_int_equal(mprotect(area, page, PROT_READ | PROT_WRITE), 0);
	fill_pattern(pair, 0, 3);
	assert_int_equal(write_to(pair, (uintptr_t)area, mr->rkey), IBV_WC_SUCCESS);
	assert_memory_equal(area, pair->bytes[0], 64);
	munmap(area, page);
	assert_int_equal(write_to(pair, (uintptr_t)area, mr->rkey), IBV_WC_REM_OP_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void the_whole_address_space(void **state)
{
	struct pair *pair = *state;
	struct ibv_mr *mr =
		ibv_reg_mr(pair->pd, NULL, SIZE_MAX,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND);

	assert_non_null(mr);
	fill_pattern(pair, 0, 4);
	assert_int_equal(write_to(pair, (uintptr_t)pair->bytes[1] + 512, mr->rkey), IBV_WC_SUCCESS);
	assert_memory_equal(pair->bytes[1] + 512, pair->bytes[0], 64);
	/* Nothing is there: an error, no signal. */
	assert_int_equal(write_to(pair, 0, mr->rkey), IBV_WC_REM_OP_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void the_end_of_the_address_space(void **state)
{
	struct pair *pair = *state;
	struct ibv_mr *mr =
		ibv_reg_mr(pair->pd, NULL, SIZE_MAX,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND);

	assert_non_null(mr);
	assert_int_equal(write_to(pair, UINT64_MAX - 64, mr->rkey), IBV_WC_REM_OP_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void advice(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct pair *pair = *state;
	struct ibv_pd *other = ibv_alloc_pd(pair->context);
	uint8_t *area =
		mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, area, 4 * page, IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *writable =
		ibv_reg_mr(pair->pd, area, 4 * page, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = {(uintptr_t)area + 10, (uint32_t)(2 * page), mr->lkey};
	const uint32_t now = IBV_ADVISE_MR_FLAG_FLUSH;

	assert_non_null(mr);
	assert_non_null(writable);
#define ADVISE(pd, advice, flags) ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_##advice, flags, &sge, 1)
	assert_int_equal(ADVISE(pair->pd, PREFETCH, now), 0);
	assert_int_equal(ADVISE(pair->pd, PREFETCH, 0), 0);
	assert_int_equal(ADVISE(pair->pd, PREFETCH_NO_FAULT, now), 0);
	assert_int_equal(ADVISE(pair->pd, PREFETCH_WRITE, now), EPERM);
	assert_int_equal(ADVISE(other, PREFETCH, now), EPERM);
	assert_int_equal(ADVISE(pair->pd, PREFETCH, 2), EINVAL);
	assert_int_equal(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0),
			 EINVAL);
	sge.lkey = writable->lkey;
	assert_int_equal(ADVISE(pair->pd, PREFETCH_WRITE, now), 0);
	sge.length = (uint32_t)(4 * page);
	assert_int_equal(ADVISE(pair->pd, PREFETCH, now), EFAULT);
	sge = sge_of(pair, 0, 0, 64);
	assert_int_equal(ADVISE(pair->pd, PREFETCH, now), ENOENT);
	sge.lkey = 0xdeadbeef;
	assert_int_equal(ADVISE(pair->pd, PREFETCH, now), ENOENT);
#undef ADVISE
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(writable), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	munmap(area, 4 * page);
}

static void windows_are_counted(void **state)
{
	struct pair *pair = *state;
	struct ibv_device_attr attr;
	struct ibv_mw **all;
	int count = 0;

	assert_int_equal(ibv_query_device(pair->context, &attr), 0);
	all = test_calloc((size_t)attr.max_mw + 1, sizeof(*all));
	while (count <= attr.max_mw && (all[count] = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2)))
		count++;
	assert_int_equal(count, attr.max_mw);
	assert_int_equal(errno, ENOMEM);
	while (count--)
		assert_int_equal(ibv_dealloc_mw(all[count]), 0);
	test_free(all);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create_extended, destroy)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(type_1_by_its_own_call),
		TEST(calls_that_cannot_be),
		TEST(by_the_builder),
		TEST(a_bind_that_the_region_forbids),
		TEST(a_null_region_in_a_list),
		TEST(on_demand_is_what_the_device_says),
		TEST(memory_may_come_and_go),
		TEST(the_whole_address_space),
		TEST(the_end_of_the_address_space),
		TEST(advice),
		TEST(windows_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
