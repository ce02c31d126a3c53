/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD QPs and address handles as a program has them: a question, and an answer to whoever asked,
 * by what the completion and the 40 bytes say.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/verbs/fixture.h"

#define QKEY 0x11111111u
#define AREA sizeof(struct ibv_grh)

struct scene {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2]; /* the first one has send operations */
	struct ibv_mr *mr;
	struct ibv_ah *ah; /* to the device itself */
	uint8_t bytes[8192];
};

static void make_ready(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_QKEY),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 5;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static struct ibv_ah_attr usual_attr(const struct scene *scene)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 9}};

	assert_int_equal(ibv_query_gid(scene->context, 1, 0, &attr.grh.dgid), 0);
	return attr;
}

static struct ibv_qp_init_attr_ex extended(const struct scene *scene, uint64_t operations)
{
	struct ibv_qp_init_attr plain = plain_qp(scene->cq[0]);

	return (struct ibv_qp_init_attr_ex){
		.send_cq = plain.send_cq,
		.recv_cq = plain.recv_cq,
		.cap = plain.cap,
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = scene->pd,
		.send_ops_flags = operations,
	};
}

static int create(void **state)
{
	struct scene *scene = calloc(1, sizeof(*scene));
	struct ibv_qp_init_attr_ex first;
	struct ibv_qp_init_attr second;
	struct ibv_ah_attr attr;

	scene->context = open_first();
	scene->pd = ibv_alloc_pd(scene->context);
	for (int side = 0; side < 2; side++)
		scene->cq[side] = ibv_create_cq(scene->context, 64, NULL, NULL, 0);
	first = extended(scene, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
	scene->qp[0] = ibv_create_qp_ex(scene->context, &first);
	assert_non_null(scene->qp[0]);
	second = plain_qp(scene->cq[1]);
	second.qp_type = IBV_QPT_UD;
	scene->qp[1] = ibv_create_qp(scene->pd, &second);
	assert_non_null(scene->qp[1]);
	scene->mr =
		ibv_reg_mr(scene->pd, scene->bytes, sizeof(scene->bytes), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(scene->mr);
	attr = usual_attr(scene);
	scene->ah = ibv_create_ah(scene->pd, &attr);
	assert_non_null(scene->ah);
	make_ready(scene->qp[0]);
	make_ready(scene->qp[1]);
	*state = scene;
	return 0;
}

static int destroy(void **state)
{
	struct scene *scene = *state;

	if (scene->ah)
		assert_int_equal(ibv_destroy_ah(scene->ah), 0);
	for (int side = 0; side < 2; side++) {
		assert_int_equal(ibv_destroy_qp(scene->qp[side]), 0);
		assert_int_equal(ibv_destroy_cq(scene->cq[side]), 0);
	}
	assert_int_equal(ibv_dereg_mr(scene->mr), 0);
	assert_int_equal(ibv_dealloc_pd(scene->pd), 0);
	assert_int_equal(ibv_close_device(scene->context), 0);
	free(scene);
	return 0;
}

static void post_receive(struct scene *scene, int side, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)scene->bytes + offset, length, scene->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = offset, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(scene->qp[side], &wr, &bad), 0);
}

static void post_send(struct scene *scene, int side, struct ibv_ah *ah, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)scene->bytes, length, scene->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = scene->qp[1 - side]->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	assert_int_equal(ibv_post_send(scene->qp[side], &wr, &bad), 0);
}

static void answer_goes_to_who_asked(void **state)
{
	struct scene *scene = *state;
	struct ibv_ah_attr attr, there = usual_attr(scene);
	struct ibv_ah *back;
	struct ibv_wc wc;

	memset(scene->bytes, 0xab, 100);
	memset(scene->bytes + 1000, 0xee, 1000);
	post_receive(scene, 0, 3000, 1000);
	post_receive(scene, 1, 1000, 1000);
	post_send(scene, 0, scene->ah, 100);
	next_success(scene->cq[0]);
	wc = next_success(scene->cq[1]);
	assert_int_equal(wc.byte_len, AREA + 100);
	assert_int_equal(wc.src_qp, scene->qp[0]->qp_num);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH);
	assert_memory_equal(scene->bytes + 1000 + AREA, scene->bytes, 100);

	assert_int_equal(ibv_init_ah_from_wc(scene->context, 1, &wc, (void *)(scene->bytes + 1000),
					     &attr),
			 0);
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.grh.sgid_index, 0);
	assert_int_equal(attr.grh.hop_limit, 9);
	assert_memory_equal(&attr.grh.dgid, &there.grh.dgid, 16);
	back = ibv_create_ah_from_wc(scene->pd, &wc, (void *)(scene->bytes + 1000), 1);
	assert_non_null(back);
	assert_ptr_equal(back->pd, scene->pd);
	assert_ptr_equal(back->context, scene->context);
	post_send(scene, 1, back, 50);
	assert_int_equal(ibv_destroy_ah(back), 0);
	next_success(scene->cq[1]);
	wc = next_success(scene->cq[0]);
	assert_int_equal(wc.wr_id, 3000);
	assert_int_equal(wc.src_qp, scene->qp[1]->qp_num);
}

static void handle_from_what_is_no_header(void **state)
{
	struct scene *scene = *state;
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_ah_attr attr;
	struct ibv_grh grh;

	memset(&grh, 0, sizeof(grh));
	assert_int_equal(ibv_init_ah_from_wc(scene->context, 1, &wc, &grh, &attr), -1);
	assert_int_equal(errno, EPROTONOSUPPORT);
	assert_int_equal(ibv_init_ah_from_wc(scene->context, 1, &wc, NULL, &attr), -1);
	/* IPv6, but sent to an address that is not ours. */
	((uint8_t *)&grh)[0] = 0x60;
	assert_int_equal(ibv_init_ah_from_wc(scene->context, 1, &wc, &grh, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_ah_from_wc(scene->pd, &wc, &grh, 1));
	/* Without a header the LIDs count, which RoCE does not have. */
	wc.wc_flags = 0;
	assert_null(ibv_create_ah_from_wc(scene->pd, &wc, NULL, 1));
	assert_int_equal(errno, EINVAL);
}

static void handles_that_are_refused(void **state)
{
	struct scene *scene = *state;
	struct ibv_ah_attr attr = usual_attr(scene);

	attr.port_num = 0;
	assert_null(ibv_create_ah(scene->pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr = usual_attr(scene);
	attr.is_global = 0;
	assert_null(ibv_create_ah(scene->pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr = usual_attr(scene);
	attr.grh.sgid_index = 200;
	assert_null(ibv_create_ah(scene->pd, &attr));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_ah(NULL, &attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_pd(scene->pd), EBUSY);
}

static void extended_sends(void **state)
{
	struct scene *scene = *state;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(scene->qp[0]);
	char text[] = "inline";
	struct ibv_wc wc;

	post_receive(scene, 1, 1000, 1000);
	post_receive(scene, 1, 2000, 1000);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = 0;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, scene->ah, scene->qp[1]->qp_num, QKEY);
	ibv_wr_set_sge(ex, scene->mr->lkey, (uintptr_t)scene->bytes, 10);
	ex->wr_id = 2;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, 77);
	ibv_wr_set_ud_addr(ex, scene->ah, scene->qp[1]->qp_num, QKEY);
	ibv_wr_set_inline_data(ex, text, sizeof(text));
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(next_success(scene->cq[0]).wr_id, 2);
	assert_int_equal(next_success(scene->cq[1]).byte_len, AREA + 10);
	wc = next_success(scene->cq[1]);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 77);
	assert_string_equal((char *)scene->bytes + 2000 + AREA, "inline");
	assert_null(ibv_qp_to_qp_ex(scene->qp[1]));
}

static void extended_send_without_address(void **state)
{
	struct scene *scene = *state;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(scene->qp[0]);
	struct ibv_qp_init_attr_ex attr = extended(scene, IBV_QP_EX_WITH_RDMA_WRITE);
	struct ibv_wc wc;

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, scene->mr->lkey, (uintptr_t)scene->bytes, 10);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_set_ud_addr(ex, scene->ah, 1, QKEY);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(ibv_poll_cq(scene->cq[0], 1, &wc), 0);
	assert_null(ibv_create_qp_ex(scene->context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void a_group_reaches_who_is_attached(void **state)
{
	struct scene *scene = *state;
	struct ibv_ah_attr attr = usual_attr(scene);
	union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, 81, 6, 1}};
	struct ibv_sge sge = {(uintptr_t)scene->bytes, 20, scene->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = 5};
	struct ibv_send_wr *bad;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	attr.grh.dgid = group;
	ah = ibv_create_ah(scene->pd, &attr);
	assert_non_null(ah);
	assert_int_equal(ibv_attach_mcast(scene->qp[1], &group, 0), 0);
	assert_int_equal(ibv_destroy_qp(scene->qp[1]), EBUSY);
	post_receive(scene, 0, 3000, 1000);
	post_receive(scene, 1, 1000, 1000);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = QKEY;
	assert_int_equal(ibv_post_send(scene->qp[0], &wr, &bad), 0);
	next_success(scene->cq[0]);
	wc = next_success(scene->cq[1]);
	assert_int_equal(wc.wr_id, 1000);
	assert_int_equal(wc.imm_data, 5);
	assert_int_equal(ibv_poll_cq(scene->cq[0], 1, &wc), 0);
	assert_int_equal(ibv_detach_mcast(scene->qp[1], &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(scene->qp[1], &group, 0), EINVAL);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void query_tells_what_was_set(void **state)
{
	struct scene *scene = *state;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(scene->qp[1], &attr, IBV_QP_QKEY, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.qkey, QKEY);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.sq_psn, 5);
	assert_int_equal(init.qp_type, IBV_QPT_UD);
	assert_int_equal(init.cap.max_send_wr, 16);
}

static void attributes_of_connections_are_refused(void **state)
{
	struct scene *scene = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET, .port_num = 1, .qkey = QKEY};
	struct ibv_qp *qp = scene->qp[1];

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT),
			 EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS),
			 EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_QKEY),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	attr.dest_qp_num = 3;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	/* Its Q_Key may change under way. */
	attr.qkey = 5;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_QKEY), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(answer_goes_to_who_asked, create, destroy),
		cmocka_unit_test_setup_teardown(handle_from_what_is_no_header, create, destroy),
		cmocka_unit_test_setup_teardown(handles_that_are_refused, create, destroy),
		cmocka_unit_test_setup_teardown(extended_sends, create, destroy),
		cmocka_unit_test_setup_teardown(extended_send_without_address, create, destroy),
		cmocka_unit_test_setup_teardown(a_group_reaches_who_is_attached, create, destroy),
		cmocka_unit_test_setup_teardown(query_tells_what_was_set, create, destroy),
		cmocka_unit_test_setup_teardown(attributes_of_connections_are_refused, create,
						destroy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
