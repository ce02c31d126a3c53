/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs that cannot be made, and steps between states that are missing something. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cases/loop.h"
#include "cases/said.h"

static struct ibv_qp_init_attr usual_attr(const struct loop *loop)
{
	return (struct ibv_qp_init_attr){
		.send_cq = loop->near.send_cq,
		.recv_cq = loop->near.recv_cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
}

static void expect_no_qp(const struct loop *loop, struct ibv_qp_init_attr *attr, int error)
{
	errno = 0;
	assert_null(ibv_create_qp(loop->nic.pd, attr));
	assert_int_equal(errno, error);
	expect_said_once("ibv_create_qp");
}

static void qp_without_a_completion_queue(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_init_attr attr = usual_attr(loop);

	attr.recv_cq = NULL;
	expect_no_qp(loop, &attr, EINVAL);
	attr = usual_attr(loop);
	attr.send_cq = NULL;
	expect_no_qp(loop, &attr, EINVAL);
}

static void extended_qp_without_a_completion_queue(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = loop->near.send_cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		/* With the PD alone the header calls ibv_create_qp(). */
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = loop->nic.pd,
	};

	for (int i = 0; i < 2; i++) {
		errno = 0;
		assert_null(ibv_create_qp_ex(loop->nic.context, &attr));
		assert_int_equal(errno, EINVAL);
		expect_said_once("ibv_create_qp_ex");
		attr.recv_cq = attr.send_cq;
		attr.send_cq = NULL;
	}
}

/* A copy of the struct is the PD too; one with a wrong handle is none, and not a crash. */
static void qp_of_a_copied_protection_domain(void **state)
{
	struct loop *loop = *state;
	struct ibv_pd copy = *loop->nic.pd;
	struct ibv_qp_init_attr attr = usual_attr(loop);
	struct ibv_qp *qp = ibv_create_qp(&copy, &attr);

	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	copy.handle = 0x7fffffff;
	errno = 0;
	assert_null(ibv_create_qp(&copy, &attr));
	assert_int_equal(errno, EINVAL);
	expect_said_once("ibv_create_qp");
}

static void qp_larger_than_the_device(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_init_attr attr;
	struct ibv_device_attr limits;

	assert_int_equal(ibv_query_device(loop->nic.context, &limits), 0);
	attr = usual_attr(loop);
	attr.cap.max_send_wr = (uint32_t)limits.max_qp_wr + 1;
	expect_no_qp(loop, &attr, EINVAL);
	attr = usual_attr(loop);
	attr.cap.max_recv_sge = (uint32_t)limits.max_sge + 1;
	expect_no_qp(loop, &attr, EINVAL);
	attr = usual_attr(loop);
	attr.cap.max_inline_data = 1u << 20;
	expect_no_qp(loop, &attr, EINVAL);
}

static void qp_of_another_type(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_DRIVER, IBV_QPT_RAW_PACKET};
	struct loop *loop = *state;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ibv_qp_init_attr attr = usual_attr(loop);

		attr.qp_type = types[i];
		expect_no_qp(loop, &attr, EOPNOTSUPP);
	}
}

/* --- states --- */

#define TO_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define TO_RTR \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define TO_RTS \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
	 IBV_QP_MAX_QP_RD_ATOMIC)

/* Values that are right for every step. */
static struct ibv_qp_attr right_attr(const struct loop *loop, enum ibv_qp_state state)
{
	return (struct ibv_qp_attr){
		.qp_state = state,
		.port_num = 1,
		.path_mtu = loop->nic.mtu,
		.dest_qp_num = loop->far.qp->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = loop->nic.gid,
				    .sgid_index = (uint8_t)loop->nic.gid_index,
				    .hop_limit = 1}},
	};
}

static void must_move(const struct loop *loop, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = right_attr(loop, state);

	assert_int_equal(ibv_modify_qp(loop->near.qp, &attr, mask), 0);
}

/* The call fails, says what was wrong, and the QP is as it was. */
static void expect_no_move(const struct loop *loop, struct ibv_qp_attr *attr, int mask,
			   const char *said)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr before;

	assert_int_equal(ibv_query_qp(loop->near.qp, &before, IBV_QP_STATE, &init), 0);
	assert_int_equal(ibv_modify_qp(loop->near.qp, attr, mask), EINVAL);
	expect_said_once(said);
	expect_state(loop->near.qp, before.qp_state);
}

/* Each attribute that a step needs, left out once. */
static void expect_each_is_needed(const struct loop *loop, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = right_attr(loop, state);

	for (int bit = 0; bit < 31; bit++)
		if (mask & ~IBV_QP_STATE & 1 << bit)
			expect_no_move(loop, &attr, mask & ~(1 << bit), "IBV_QP_");
}

static void attribute_that_is_missing(void **state)
{
	struct loop *loop = *state;

	expect_each_is_needed(loop, IBV_QPS_INIT, TO_INIT);
	must_move(loop, IBV_QPS_INIT, TO_INIT);
	expect_each_is_needed(loop, IBV_QPS_RTR, TO_RTR);
	must_move(loop, IBV_QPS_RTR, TO_RTR);
	expect_each_is_needed(loop, IBV_QPS_RTS, TO_RTS);
	must_move(loop, IBV_QPS_RTS, TO_RTS);
}

static void attribute_that_does_not_belong(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_attr attr = right_attr(loop, IBV_QPS_INIT);

	expect_no_move(loop, &attr, TO_INIT | IBV_QP_TIMEOUT, "IBV_QP_TIMEOUT");
	expect_no_move(loop, &attr, TO_INIT | 1 << 30, "ibv_modify_qp");
}

static void steps_that_do_not_exist(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_attr attr = right_attr(loop, IBV_QPS_RTS);

	expect_no_move(loop, &attr, TO_RTS, "ibv_modify_qp");
	attr.qp_state = IBV_QPS_RTR;
	expect_no_move(loop, &attr, TO_RTR, "ibv_modify_qp");
	attr.qp_state = (enum ibv_qp_state)42;
	expect_no_move(loop, &attr, IBV_QP_STATE, "ibv_modify_qp");
}

static void current_state_that_is_not(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_attr attr = right_attr(loop, IBV_QPS_RTR);

	must_move(loop, IBV_QPS_INIT, TO_INIT);
	must_move(loop, IBV_QPS_RTR, TO_RTR);
	attr.qp_state = IBV_QPS_RTS;
	attr.cur_qp_state = IBV_QPS_SQD;
	expect_no_move(loop, &attr, TO_RTS | IBV_QP_CUR_STATE, "ibv_modify_qp");
}

static void port_that_does_not_exist(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_attr attr = right_attr(loop, IBV_QPS_INIT);

	attr.port_num = 2;
	expect_no_move(loop, &attr, TO_INIT, "port");
	attr.port_num = 0;
	expect_no_move(loop, &attr, TO_INIT, "port");
}

static void pkey_that_does_not_exist(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_attr attr = right_attr(loop, IBV_QPS_INIT);

	attr.pkey_index = 1;
	expect_no_move(loop, &attr, TO_INIT, "pkey");
}

/* The usual cause of "it works on the other machine". */
static void gid_index_that_is_empty(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_attr attr = right_attr(loop, IBV_QPS_RTR);

	must_move(loop, IBV_QPS_INIT, TO_INIT);
	attr.ah_attr.grh.sgid_index = 15;
	expect_no_move(loop, &attr, TO_RTR, "GID index");
}

static void address_without_a_gid(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_attr attr = right_attr(loop, IBV_QPS_RTR);

	must_move(loop, IBV_QPS_INIT, TO_INIT);
	attr.ah_attr.is_global = 0;
	expect_no_move(loop, &attr, TO_RTR, "is_global");
}

static void address_of_another_family(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_attr attr = right_attr(loop, IBV_QPS_RTR);

	must_move(loop, IBV_QPS_INIT, TO_INIT);
	memset(&attr.ah_attr.grh.dgid, 0, 16);
	attr.ah_attr.grh.dgid.raw[15] = 1;
	expect_no_move(loop, &attr, TO_RTR, "IPv4");
}

static void mtu_that_does_not_exist(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_attr attr = right_attr(loop, IBV_QPS_RTR);

	must_move(loop, IBV_QPS_INIT, TO_INIT);
	attr.path_mtu = (enum ibv_mtu)0;
	expect_no_move(loop, &attr, TO_RTR, "path_mtu");
	attr.path_mtu = (enum ibv_mtu)6;
	expect_no_move(loop, &attr, TO_RTR, "path_mtu");
}

static void timers_and_counts_out_of_range(void **state)
{
	struct loop *loop = *state;
	struct ibv_qp_attr attr = right_attr(loop, IBV_QPS_RTR);

	must_move(loop, IBV_QPS_INIT, TO_INIT);
	attr.min_rnr_timer = 32;
	expect_no_move(loop, &attr, TO_RTR, "min_rnr_timer");
	attr = right_attr(loop, IBV_QPS_RTR);
	attr.max_dest_rd_atomic = 200;
	expect_no_move(loop, &attr, TO_RTR, "max_dest_rd_atomic");
	must_move(loop, IBV_QPS_RTR, TO_RTR);
	attr = right_attr(loop, IBV_QPS_RTS);
	attr.timeout = 32;
	expect_no_move(loop, &attr, TO_RTS, "timeout");
	attr = right_attr(loop, IBV_QPS_RTS);
	attr.retry_cnt = 8;
	expect_no_move(loop, &attr, TO_RTS, "retry_cnt");
	attr = right_attr(loop, IBV_QPS_RTS);
	attr.rnr_retry = 8;
	expect_no_move(loop, &attr, TO_RTS, "rnr_retry");
	attr = right_attr(loop, IBV_QPS_RTS);
	attr.max_rd_atomic = 200;
	expect_no_move(loop, &attr, TO_RTS, "max_rd_atomic");
	must_move(loop, IBV_QPS_RTS, TO_RTS);
}

/* --- the device --- */

static void guids_are_not_zero(void **state)
{
	struct loop *loop = *state;
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(loop->nic.context, &attr), 0);
	assert_int_not_equal(attr.node_guid, 0);
	assert_int_not_equal(attr.sys_image_guid, 0);
	assert_true(attr.node_guid == ibv_get_device_guid(loop->nic.context->device));
}

static void every_gid_of_the_table_answers(void **state)
{
	struct loop *loop = *state;
	struct ibv_port_attr port;
	union ibv_gid gid;

	assert_int_equal(ibv_query_port(loop->nic.context, 1, &port), 0);
	assert_true(port.gid_tbl_len > 0);
	for (int i = 0; i < port.gid_tbl_len; i++)
		assert_int_equal(ibv_query_gid(loop->nic.context, 1, i, &gid), 0);
	expect_silence();
	assert_int_not_equal(ibv_query_gid(loop->nic.context, 1, port.gid_tbl_len, &gid), 0);
	expect_said_once("GID index");
	assert_int_not_equal(ibv_query_port(loop->nic.context, 2, &port), 0);
	expect_said_once("port 2");
}

#define IN_RESET(test) \
	cmocka_unit_test_setup_teardown(test, loop_set_up_unconnected, loop_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RESET(qp_without_a_completion_queue),
		IN_RESET(extended_qp_without_a_completion_queue),
		IN_RESET(qp_of_a_copied_protection_domain),
		IN_RESET(qp_larger_than_the_device),
		IN_RESET(qp_of_another_type),
		IN_RESET(attribute_that_is_missing),
		IN_RESET(attribute_that_does_not_belong),
		IN_RESET(steps_that_do_not_exist),
		IN_RESET(current_state_that_is_not),
		IN_RESET(port_that_does_not_exist),
		IN_RESET(pkey_that_does_not_exist),
		IN_RESET(gid_index_that_is_empty),
		IN_RESET(address_without_a_gid),
		IN_RESET(address_of_another_family),
		IN_RESET(mtu_that_does_not_exist),
		IN_RESET(timers_and_counts_out_of_range),
		IN_RESET(guids_are_not_zero),
		IN_RESET(every_gid_of_the_table_answers),
	};

	loop_program_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
