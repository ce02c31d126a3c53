/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What creation refuses, and with which error. Programs probe limits by trying.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tools/map_apart.h"
#include "unit/verbs/fixture.h"

struct room {
	struct ibv_context *context, *other;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_device_attr limits;
};

static int set_up(void **state)
{
	struct room *room = calloc(1, sizeof(*room));

	room->context = open_first();
	room->other = open_first();
	room->pd = ibv_alloc_pd(room->context);
	room->cq = ibv_create_cq(room->context, 8, NULL, NULL, 0);
	ibv_query_device(room->context, &room->limits);
	*state = room;
	return 0;
}

static int tear_down(void **state)
{
	struct room *room = *state;

	ibv_destroy_cq(room->cq);
	ibv_dealloc_pd(room->pd);
	ibv_close_device(room->other);
	ibv_close_device(room->context);
	free(room);
	return 0;
}

static void refused(const struct room *room, const struct ibv_qp_init_attr *attr, int error)
{
	struct ibv_qp_init_attr copy = *attr;

	errno = 0;
	assert_null(ibv_create_qp(room->pd, &copy));
	assert_int_equal(errno, error);
}

static void qp_within_the_limits(void **state)
{
	const struct room *room = *state;
	struct ibv_qp_init_attr attr = plain_qp(room->cq);
	struct ibv_qp *qp = ibv_create_qp(room->pd, &attr);

	assert_non_null(qp);
	assert_true(attr.cap.max_send_wr >= 16 && attr.cap.max_recv_wr >= 16);
	assert_true(attr.cap.max_send_sge >= 4 && attr.cap.max_recv_sge >= 4);
	assert_true(attr.cap.max_inline_data >= 64);
	assert_null(ibv_qp_to_qp_ex(qp));
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void qp_beyond_each_limit(void **state)
{
	const struct room *room = *state;
	struct ibv_qp_init_attr attr = plain_qp(room->cq);

	attr.cap.max_send_wr = (uint32_t)room->limits.max_qp_wr + 1;
	refused(room, &attr, EINVAL);
	attr = plain_qp(room->cq);
	attr.cap.max_recv_wr = UINT32_MAX;
	refused(room, &attr, EINVAL);
	attr = plain_qp(room->cq);
	attr.cap.max_send_sge = (uint32_t)room->limits.max_sge + 1;
	refused(room, &attr, EINVAL);
	attr = plain_qp(room->cq);
	attr.cap.max_recv_sge = (uint32_t)room->limits.max_sge + 1;
	refused(room, &attr, EINVAL);
}

/* libfabric doubles the inline size until it is refused. */
static void inline_size_has_an_end(void **state)
{
	const struct room *room = *state;
	uint32_t size = 64;
	struct ibv_qp *qp;

	do {
		struct ibv_qp_init_attr attr = plain_qp(room->cq);

		attr.cap.max_inline_data = size;
		errno = 0;
		qp = ibv_create_qp(room->pd, &attr);
		if (qp) {
			assert_true(attr.cap.max_inline_data >= size);
			assert_int_equal(ibv_destroy_qp(qp), 0);
		}
		size *= 2;
	} while (qp && size < 1u << 20);
	assert_null(qp);
	assert_int_equal(errno, EINVAL);
}

/* Some bytes are there without being asked for, as programs take for granted. */
static void inline_size_has_a_beginning(void **state)
{
	const struct room *room = *state;
	struct ibv_qp_init_attr attr = plain_qp(room->cq);
	struct ibv_qp *qp;

	attr.cap.max_send_sge = 1;
	attr.cap.max_inline_data = 0;
	qp = ibv_create_qp(room->pd, &attr);
	assert_non_null(qp);
	assert_int_equal(attr.cap.max_inline_data, sizeof(struct ibv_sge));
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void qp_of_other_kinds(void **state)
{
	const struct room *room = *state;
	static const enum ibv_qp_type kinds[] = {IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER};
	struct ibv_qp_init_attr attr;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		attr = plain_qp(room->cq);
		attr.qp_type = kinds[i];
		refused(room, &attr, EOPNOTSUPP);
	}
	attr = plain_qp(room->cq);
	attr.send_cq = NULL;
	refused(room, &attr, EINVAL);
}

static void qp_with_a_foreign_cq(void **state)
{
	const struct room *room = *state;
	struct ibv_cq *foreign = ibv_create_cq(room->other, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = plain_qp(foreign);

	refused(room, &attr, EINVAL);
	assert_int_equal(ibv_destroy_cq(foreign), 0);
}

static void extended_qp_with_more_than_there_is(void **state)
{
	const struct room *room = *state;
	struct ibv_qp_init_attr plain = plain_qp(room->cq);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = plain.send_cq,
		.recv_cq = plain.recv_cq,
		.cap = plain.cap,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = room->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO,
	};

	assert_null(ibv_create_qp_ex(room->context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	assert_null(ibv_create_qp_ex(room->context, &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	assert_null(ibv_create_qp_ex(room->context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void cq_sizes(void **state)
{
	const struct room *room = *state;

	assert_null(ibv_create_cq(room->context, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(room->context, -1, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(room->context, room->limits.max_cqe + 1, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(room->context, 8, NULL, NULL, room->context->num_comp_vectors));
	assert_int_equal(errno, EINVAL);
	assert_true(room->cq->cqe >= 8);
	assert_int_equal(ibv_resize_cq(room->cq, 100), 0);
	assert_true(room->cq->cqe >= 100);
	assert_int_equal(ibv_resize_cq(room->cq, 0), EINVAL);
}

static void register_refused(struct ibv_pd *pd, void *address, size_t length, int access, int error)
{
	errno = 0;
	assert_null(ibv_reg_mr(pd, address, length, access));
	assert_int_equal(errno, error);
}

static void rights_that_do_not_fit(void **state)
{
	const struct room *room = *state;
	static uint8_t bytes[8192];

	register_refused(room->pd, bytes, 64, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	register_refused(room->pd, bytes, 64, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
	register_refused(room->pd, bytes, 64, 1 << 19, EINVAL);
	register_refused(room->pd, bytes, SIZE_MAX, IBV_ACCESS_ON_DEMAND, EINVAL);
	register_refused(room->pd, bytes, 0, IBV_ACCESS_LOCAL_WRITE, EINVAL);
	register_refused(room->pd, bytes, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE, EINVAL);
	assert_null(ibv_reg_dmabuf_mr(room->pd, 0, 64, 0, 0, 0));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void memory_that_is_not_there(void **state)
{
	const struct room *room = *state;
	void *page = map_apart(4096, PROT_READ);
	struct ibv_mr *mr;

	assert_ptr_not_equal(page, MAP_FAILED);
	register_refused(room->pd, page, 4096, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	mr = ibv_reg_mr(room->pd, page, 4096, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(page, 4096);
	register_refused(room->pd, page, 4096, IBV_ACCESS_REMOTE_READ, EFAULT);
}

static void optional_rights_are_taken(void **state)
{
	const struct room *room = *state;
	static uint8_t bytes[64];
	unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING |
			      IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_HUGETLB | IBV_ACCESS_MW_BIND;
	struct ibv_mr *mr = ibv_reg_mr(room->pd, bytes, sizeof(bytes), access);

	assert_non_null(mr);
	assert_ptr_equal(mr->addr, bytes);
	assert_int_equal(mr->length, sizeof(bytes));
	assert_int_equal(mr->lkey, mr->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void reregistration(void **state)
{
	const struct room *room = *state;
	static uint8_t bytes[8192];
	struct ibv_mr *mr = ibv_reg_mr(room->pd, bytes, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_pd *pd = ibv_alloc_pd(room->context), *foreign = ibv_alloc_pd(room->other);
	uint32_t key = mr->lkey;

	assert_int_equal(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, 8, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, bytes, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, foreign, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD,
				      pd, bytes + 4096, 100, 0),
			 0);
	assert_ptr_equal(mr->addr, bytes + 4096);
	assert_int_equal(mr->length, 100);
	assert_ptr_equal(mr->pd, pd);
	assert_int_equal(mr->lkey, key);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_dealloc_pd(foreign), 0);
}

static void what_the_device_does_not_have(void **state)
{
	const struct room *room = *state;

	assert_null(ibv_alloc_mw(room->pd, 3));
	assert_int_equal(errno, EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qp_within_the_limits),
		cmocka_unit_test(qp_beyond_each_limit),
		cmocka_unit_test(inline_size_has_an_end),
		cmocka_unit_test(inline_size_has_a_beginning),
		cmocka_unit_test(qp_of_other_kinds),
		cmocka_unit_test(qp_with_a_foreign_cq),
		cmocka_unit_test(extended_qp_with_more_than_there_is),
		cmocka_unit_test(cq_sizes),
		cmocka_unit_test(rights_that_do_not_fit),
		cmocka_unit_test(memory_that_is_not_there),
		cmocka_unit_test(optional_rights_are_taken),
		cmocka_unit_test(reregistration),
		cmocka_unit_test(what_the_device_does_not_have),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
