/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/verbs/fixture.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define PATIENCE_SECONDS 10
#define ALL_OPERATIONS \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
	 IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV)

struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	assert_non_null(list);
	assert_non_null(list[0]);
	context = ibv_open_device(list[0]);
	assert_non_null(context);
	ibv_free_device_list(list);
	return context;
}

struct ibv_qp_init_attr plain_qp(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 4,
			.max_recv_sge = 4,
			.max_inline_data = 64},
		.qp_type = IBV_QPT_RC,
	};
}

void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};

	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS),
			 0);
}

static void to_rtr(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.rq_psn = 100,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
	};

	assert_int_equal(ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
}

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 100,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};

	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

void connect_to(struct ibv_qp *qp, uint32_t peer)
{
	to_init(qp);
	to_rtr(qp, peer);
	to_rts(qp);
}

static struct ibv_qp *create_extended(struct pair *pair, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr plain = plain_qp(cq);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = plain.send_cq,
		.recv_cq = plain.recv_cq,
		.cap = plain.cap,
		.qp_type = plain.qp_type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pair->pd,
		.send_ops_flags = ALL_OPERATIONS,
	};

	return ibv_create_qp_ex(pair->context, &attr);
}

static void create_side(struct pair *pair, int side, bool extended)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_init_attr attr;

	pair->cq[side] = ibv_create_cq(pair->context, 64, pair, side ? pair->channel : NULL, 0);
	assert_non_null(pair->cq[side]);
	attr = plain_qp(pair->cq[side]);
	pair->qp[side] = extended ? create_extended(pair, pair->cq[side])
				  : ibv_create_qp(pair->pd, &attr);
	assert_non_null(pair->qp[side]);
	pair->bytes[side] = aligned_alloc(4096, BUFFER_BYTES);
	assert_non_null(pair->bytes[side]);
	memset(pair->bytes[side], 0, BUFFER_BYTES);
	pair->mr[side] = ibv_reg_mr(pair->pd, pair->bytes[side], BUFFER_BYTES, access);
	assert_non_null(pair->mr[side]);
}

struct pair *pair_create(bool extended)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	assert_non_null(pair);
	pair->context = open_first();
	pair->channel = ibv_create_comp_channel(pair->context);
	assert_non_null(pair->channel);
	pair->pd = ibv_alloc_pd(pair->context);
	assert_non_null(pair->pd);
	create_side(pair, 0, extended);
	create_side(pair, 1, false);
	connect_to(pair->qp[0], pair->qp[1]->qp_num);
	connect_to(pair->qp[1], pair->qp[0]->qp_num);
	return pair;
}

void pair_destroy(struct pair *pair)
{
	for (int side = 0; side < 2; side++) {
		assert_int_equal(ibv_destroy_qp(pair->qp[side]), 0);
		assert_int_equal(ibv_destroy_cq(pair->cq[side]), 0);
		assert_int_equal(ibv_dereg_mr(pair->mr[side]), 0);
		free(pair->bytes[side]);
	}
	assert_int_equal(ibv_dealloc_pd(pair->pd), 0);
	assert_int_equal(ibv_destroy_comp_channel(pair->channel), 0);
	assert_int_equal(ibv_close_device(pair->context), 0);
	free(pair);
}

struct ibv_sge sge_of(const struct pair *pair, int side, uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)pair->bytes[side] + offset,
		.length = length,
		.lkey = pair->mr[side]->lkey,
	};
}

void fill_pattern(const struct pair *pair, int side, uint8_t seed)
{
	for (uint32_t i = 0; i < BUFFER_BYTES; i++)
		pair->bytes[side][i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

struct ibv_xrcd *open_domain(struct ibv_context *context, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
						       IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = fd,
					  .oflags = oflags};

	return ibv_open_xrcd(context, &attr);
}

struct ibv_srq *create_xrc_srq(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 8, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};

	return ibv_create_srq_ex(pd->context, &attr);
}

struct ibv_qp *create_xrc_receiver(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	return ibv_create_qp_ex(xrcd->context, &attr);
}

struct ibv_qp *create_xrc_sender(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = plain_qp(cq);

	attr.qp_type = IBV_QPT_XRC_SEND;
	attr.recv_cq = NULL;
	return ibv_create_qp(pd, &attr);
}

static time_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

struct ibv_wc next_completion(struct ibv_cq *cq)
{
	time_t give_up = seconds_now() + PATIENCE_SECONDS;
	struct ibv_wc wc;
	int found;

	do {
		found = ibv_poll_cq(cq, 1, &wc);
	} while (found == 0 && seconds_now() < give_up);
	assert_int_equal(found, 1);
	return wc;
}

struct ibv_wc next_success(struct ibv_cq *cq)
{
	struct ibv_wc wc = next_completion(cq);

	assert_string_equal(ibv_wc_status_str(wc.status), "success");
	return wc;
}

struct ibv_async_event next_event(struct ibv_context *context)
{
	struct pollfd ready = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	assert_int_equal(poll(&ready, 1, PATIENCE_SECONDS * 1000), 1);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	return event;
}
