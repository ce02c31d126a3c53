/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread domains, and parent domains with and without an allocator of the program's.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

/* What the allocator was asked for, and how it answers. */
struct stock {
	struct ibv_pd *pd; /* that must be named */
	int taken, returned;
	uint64_t last_type;
	enum { STOCK_GIVES, STOCK_IS_EMPTY, STOCK_LEAVES_IT, STOCK_IS_CROOKED } mood;
};

static void *stock_alloc(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
			 uint64_t type)
{
	struct stock *stock = context;
	uint8_t *bytes;

	assert_ptr_equal(pd, stock->pd);
	stock->last_type = type;
	switch (stock->mood) {
	case STOCK_IS_EMPTY:
		return NULL;
	case STOCK_LEAVES_IT:
		return IBV_ALLOCATOR_USE_DEFAULT;
	case STOCK_GIVES:
	case STOCK_IS_CROOKED:
		break;
	}
	stock->taken++;
	bytes = aligned_alloc(alignment, (size + 2 * alignment - 1) / alignment * alignment);
	assert_non_null(bytes);
	memset(bytes, 0xa5, size);
	return stock->mood == STOCK_IS_CROOKED ? bytes + 1 : bytes;
}

static void stock_free(struct ibv_pd *pd, void *context, void *bytes, uint64_t type)
{
	struct stock *stock = context;

	assert_ptr_equal(pd, stock->pd);
	(void)type;
	stock->returned++;
	free(stock->mood == STOCK_IS_CROOKED ? (uint8_t *)bytes - 1 : bytes);
}

static struct ibv_pd *with_stock(struct ibv_pd *pd, struct ibv_td *td, struct stock *stock)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = pd,
		.td = td,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = stock_alloc,
		.free = stock_free,
		.pd_context = stock,
	};

	stock->pd = ibv_alloc_parent_domain(pd->context, &attr);
	assert_non_null(stock->pd);
	return stock->pd;
}

static struct ibv_cq_ex *cq_in(struct ibv_pd *domain)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = domain};

	errno = 0;
	return ibv_create_cq_ex(domain->context, &attr);
}

static void thread_domains(void **state)
{
	struct ibv_context *context = open_first();
	struct ibv_td_init_attr wrong = {.comp_mask = 1}, right = {0};
	struct ibv_parent_domain_init_attr attr = {.pd = ibv_alloc_pd(context)};
	struct ibv_pd *domain;

	(void)state;
	assert_null(ibv_alloc_td(context, &wrong));
	assert_int_equal(errno, EINVAL);
	attr.td = ibv_alloc_td(context, &right);
	assert_non_null(attr.td);
	assert_ptr_equal(attr.td->context, context);
	domain = ibv_alloc_parent_domain(context, &attr);
	assert_non_null(domain);
	assert_int_equal(ibv_dealloc_td(attr.td), EBUSY);
	assert_int_equal(ibv_dealloc_pd(attr.pd), EBUSY);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	assert_int_equal(ibv_dealloc_td(attr.td), 0);
	assert_int_equal(ibv_dealloc_pd(attr.pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

static void refused(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	errno = 0;
	assert_null(ibv_alloc_parent_domain(context, attr));
	assert_int_equal(errno, EINVAL);
}

static void what_is_refused(void **state)
{
	struct ibv_context *context = open_first(), *other = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context), *foreign = ibv_alloc_pd(other);
	struct ibv_td_init_attr none = {0};
	struct ibv_td *foreign_td = ibv_alloc_td(other, &none);
	struct ibv_pd gone = *pd;
	struct ibv_parent_domain_init_attr attr = {0};

	(void)state;
	refused(context, &attr);
	attr.pd = foreign;
	refused(context, &attr);
	attr = (struct ibv_parent_domain_init_attr){.pd = pd, .td = foreign_td};
	refused(context, &attr);
	attr = (struct ibv_parent_domain_init_attr){.pd = pd, .comp_mask = 1u << 9};
	refused(context, &attr);
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	attr.alloc = stock_alloc;
	refused(context, &attr);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	attr = (struct ibv_parent_domain_init_attr){.pd = &gone};
	refused(context, &attr);
	assert_int_equal(ibv_dealloc_td(foreign_td), 0);
	assert_int_equal(ibv_dealloc_pd(foreign), 0);
	assert_int_equal(ibv_close_device(other), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

/* A QP of the domain on the left, with a CQ of the domain, reaches a plain one's memory. */
static void traffic(struct pair *pair, struct ibv_pd *domain, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr left_attr = plain_qp(cq), right_attr = plain_qp(pair->cq[1]);
	struct ibv_qp *left = ibv_create_qp(domain, &left_attr);
	struct ibv_qp *right = ibv_create_qp(pair->pd, &right_attr);
	/* Registered in the PD, used with a QP of the parent domain. */
	struct ibv_sge sge = sge_of(pair, 0, 0, 3000);
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)pair->bytes[1], .rkey = pair->mr[1]->rkey},
	};
	struct ibv_send_wr *bad;

	assert_non_null(left);
	assert_ptr_equal(left->pd, domain);
	assert_int_equal(ibv_dealloc_pd(domain), EBUSY);
	connect_to(left, right->qp_num);
	connect_to(right, left->qp_num);
	fill_pattern(pair, 0, 3);
	assert_int_equal(ibv_post_send(left, &wr, &bad), 0);
	assert_int_equal(next_success(cq).wr_id, 1);
	assert_memory_equal(pair->bytes[1], pair->bytes[0], 3000);
	assert_int_equal(ibv_destroy_qp(left), 0);
	assert_int_equal(ibv_destroy_qp(right), 0);
}

static void stands_for_its_pd(void **state)
{
	struct pair *pair = pair_create(false);
	struct ibv_parent_domain_init_attr attr = {.pd = pair->pd};
	struct ibv_pd *domain = ibv_alloc_parent_domain(pair->context, &attr);
	struct ibv_cq_ex *cq = cq_in(domain);
	struct ibv_mr *mr;

	(void)state;
	assert_non_null(cq);
	traffic(pair, domain, ibv_cq_ex_to_cq(cq));
	mr = ibv_reg_mr(domain, pair->bytes[0], 64, 0);
	assert_non_null(mr);
	assert_ptr_equal(mr->pd, domain);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(ibv_dealloc_pd(domain), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	pair_destroy(pair);
}

static void queues_lie_where_the_program_says(void **state)
{
	struct pair *pair = pair_create(false);
	struct stock stock = {.mood = STOCK_GIVES};
	struct ibv_pd *domain = with_stock(pair->pd, NULL, &stock);
	struct ibv_cq_ex *cq = cq_in(domain);
	uint64_t cq_type;

	(void)state;
	assert_non_null(cq);
	assert_int_equal(stock.taken, 1);
	cq_type = stock.last_type;
	assert_int_equal(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 16), 0);
	assert_int_equal(stock.taken, 2);
	assert_int_equal(stock.returned, 1);
	traffic(pair, domain, ibv_cq_ex_to_cq(cq));
	assert_int_equal(stock.taken, 3);
	assert_int_equal(stock.returned, 2);
	assert_true(stock.last_type != cq_type);
	assert_int_equal(ibv_dealloc_pd(domain), EBUSY);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(stock.returned, 3);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	pair_destroy(pair);
}

static void an_allocator_may_leave_it_to_us(void **state)
{
	struct pair *pair = pair_create(false);
	struct stock stock = {.mood = STOCK_LEAVES_IT};
	struct ibv_pd *domain = with_stock(pair->pd, NULL, &stock);
	struct ibv_cq_ex *cq = cq_in(domain);

	(void)state;
	assert_non_null(cq);
	traffic(pair, domain, ibv_cq_ex_to_cq(cq));
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(stock.returned, 0);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	pair_destroy(pair);
}

static void an_allocator_that_fails(void **state)
{
	struct pair *pair = pair_create(false);
	struct ibv_qp_init_attr attr = plain_qp(pair->cq[0]);
	struct stock stock = {.mood = STOCK_IS_EMPTY};
	struct ibv_pd *domain = with_stock(pair->pd, NULL, &stock);

	(void)state;
	assert_null(cq_in(domain));
	assert_int_equal(errno, ENOMEM);
	assert_null(ibv_create_qp(domain, &attr));
	assert_int_equal(errno, ENOMEM);
	stock.mood = STOCK_IS_CROOKED;
	assert_null(cq_in(domain));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_qp(domain, &attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(stock.returned, 2);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	pair_destroy(pair);
}

static void a_parent_of_a_parent(void **state)
{
	struct pair *pair = pair_create(false);
	struct ibv_td_init_attr none = {0};
	struct ibv_td *td = ibv_alloc_td(pair->context, &none);
	struct stock stock = {.mood = STOCK_GIVES};
	struct ibv_pd *middle = with_stock(pair->pd, td, &stock);
	struct ibv_parent_domain_init_attr attr = {.pd = middle};
	struct ibv_pd *upper = ibv_alloc_parent_domain(pair->context, &attr);
	struct ibv_cq_ex *cq = cq_in(middle);
	struct ibv_poll_cq_attr poll_attr = {0};

	(void)state;
	assert_non_null(upper);
	traffic(pair, upper, ibv_cq_ex_to_cq(cq));
	assert_int_equal(ibv_start_poll(cq, &poll_attr), ENOENT);
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(ibv_dealloc_pd(middle), EBUSY);
	assert_int_equal(ibv_dealloc_pd(upper), 0);
	assert_int_equal(ibv_dealloc_pd(middle), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
	pair_destroy(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_domains),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(stands_for_its_pd),
		cmocka_unit_test(queues_lie_where_the_program_says),
		cmocka_unit_test(an_allocator_may_leave_it_to_us),
		cmocka_unit_test(an_allocator_that_fails),
		cmocka_unit_test(a_parent_of_a_parent),
	};

	return cmocka_run_group_tests_name("parent_domain", tests, NULL, NULL);
}
