/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QPs, SRQs and completion queues of endpoints that are not connected yet.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rdma/rdma_verbs.h>

#include "unit/rdmacm/fixture.h"

static void qp_of_a_connection_waits_in_init(void **state)
{
	struct rdma_cm_id *id = create_bound(RDMA_PS_TCP);
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}};

	(void)state;
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_int_equal(state_of(id->qp), IBV_QPS_INIT);
	/* What the program left out was made, and is told. */
	assert_ptr_equal(attr.send_cq, id->send_cq);
	assert_ptr_equal(attr.recv_cq, id->recv_cq);
	assert_non_null(id->send_cq_channel);
	assert_non_null(id->recv_cq_channel);
	assert_ptr_equal(id->qp->pd, id->pd);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), -1);
	assert_int_equal(errno, EINVAL);
	rdma_destroy_qp(id);
	assert_null(id->qp);
	assert_null(id->send_cq);
	assert_null(id->recv_cq_channel);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void qp_for_datagrams_can_send_at_once(void **state)
{
	struct rdma_cm_id *id = create_bound(RDMA_PS_UDP);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)state;
	create_qp(id);
	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_STATE | IBV_QP_QKEY, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.qkey, RDMA_UDP_QKEY);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void own_parts_are_used(void **state)
{
	struct rdma_cm_id *id = create_bound(RDMA_PS_TCP), *other = create_bound(RDMA_PS_TCP);
	struct ibv_context *context = ibv_open_device(id->verbs->device);
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs), *foreign;
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}, .send_cq = cq, .recv_cq = cq};

	(void)state;
	assert_non_null(context);
	foreign = ibv_alloc_pd(context);
	assert_int_equal(rdma_create_qp(id, foreign, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_create_qp(id, pd, &attr), 0);
	assert_ptr_equal(id->qp->pd, pd);
	assert_ptr_equal(id->pd, pd);
	assert_ptr_equal(id->qp->send_cq, cq);
	assert_null(id->send_cq);
	rdma_destroy_qp(id);
	attr.cap.max_send_wr = UINT32_MAX;
	assert_int_equal(rdma_create_qp(other, NULL, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_null(other->qp);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_dealloc_pd(foreign), 0);
	assert_int_equal(ibv_close_device(context), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(other), 0);
}

static void receives_may_be_shared(void **state)
{
	struct rdma_cm_id *id = create_bound(RDMA_PS_TCP);
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq_init_attr_ex extended = {.attr = {.max_wr = 8, .max_sge = 1}};

	(void)state;
	assert_int_equal(rdma_create_srq_ex(id, &extended), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_create_srq(id, NULL, &attr), 0);
	assert_non_null(id->srq);
	assert_ptr_equal(id->srq->pd, id->pd);
	create_qp(id);
	assert_ptr_equal(id->qp->srq, id->srq);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	assert_null(id->srq);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* Domain, completion queue and channel come along. */
static void extended_shared_receives_bring_their_parts(void **state)
{
	struct rdma_cm_id *id = create_bound(RDMA_PS_TCP);
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 8, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = IBV_SRQT_XRC,
	};

	(void)state;
	assert_int_equal(rdma_create_srq_ex(id, &attr), 0);
	assert_non_null(attr.xrcd);
	assert_ptr_equal(attr.cq, id->recv_cq);
	rdma_destroy_srq(id);
	assert_null(id->recv_cq);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void attributes_before_a_connection(void **state)
{
	struct rdma_cm_id *id = create_bound(RDMA_PS_TCP), *datagram = create_bound(RDMA_PS_UDP);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	(void)state;
	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(mask,
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.qp_access_flags, 0);
	assert_int_equal(rdma_init_qp_attr(datagram, &attr, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	assert_int_equal(attr.qkey, RDMA_UDP_QKEY);
	attr.qp_state = (enum ibv_qp_state)77;
	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(datagram), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qp_of_a_connection_waits_in_init),
		cmocka_unit_test(qp_for_datagrams_can_send_at_once),
		cmocka_unit_test(own_parts_are_used),
		cmocka_unit_test(receives_may_be_shared),
		cmocka_unit_test(extended_shared_receives_bring_their_parts),
		cmocka_unit_test(attributes_before_a_connection),
	};

	return cmocka_run_group_tests(tests, open_channel, close_channel);
}
