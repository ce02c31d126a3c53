/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram services: who asks for one learns where to send.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/rdma_verbs.h>

#include "unit/rdmacm/fixture.h"

#define UNSUPPORTED 1
#define REJECTED 2
#define GRH_BYTES 40

struct query {
	struct rdma_event_channel *passive_channel, *active_channel;
	struct rdma_cm_id *listener, *passive, *active;
};

static void ask(struct query *query)
{
	struct rdma_conn_param param = {.private_data = "who", .private_data_len = 4};
	struct rdma_cm_event *event;

	query->passive_channel = create_channel();
	query->active_channel = create_channel();
	query->listener = create_listener(query->passive_channel, RDMA_PS_UDP, 4);
	query->active = create_resolved(query->active_channel, RDMA_PS_UDP, query->listener);
	create_qp(query->active);
	assert_int_equal(rdma_connect(query->active, &param), 0);
	event = expect(query->passive_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	query->passive = event->id;
	assert_int_equal(event->param.ud.private_data_len, 180);
	assert_string_equal(event->param.ud.private_data, "who");
	assert_int_equal(query->passive->qp_type, IBV_QPT_UD);
	assert_int_equal(rdma_get_dst_port(query->passive), rdma_get_src_port(query->active));
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void end(struct query *query)
{
	if (query->passive->qp)
		rdma_destroy_qp(query->passive);
	rdma_destroy_qp(query->active);
	assert_int_equal(rdma_destroy_id(query->active), 0);
	assert_int_equal(rdma_destroy_id(query->passive), 0);
	assert_int_equal(rdma_destroy_id(query->listener), 0);
	rdma_destroy_event_channel(query->active_channel);
	rdma_destroy_event_channel(query->passive_channel);
}

/* The answer is all that a datagram needs. */
static void answer_tells_where_to_send(void **state)
{
	static char sent[32] = "a datagram", received[GRH_BYTES + 32];
	struct rdma_conn_param param = {.private_data = "me", .private_data_len = 3};
	struct rdma_cm_event *event;
	struct query query;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	(void)state;
	ask(&query);
	create_qp(query.passive);
	mr = rdma_reg_msgs(query.passive, received, sizeof(received));
	assert_non_null(mr);
	assert_int_equal(rdma_post_recv(query.passive, NULL, received, sizeof(received), mr), 0);
	param.qp_num = query.passive->qp->qp_num;
	assert_int_equal(rdma_accept(query.passive, &param), 0);
	event = expect(query.active_channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->param.ud.private_data_len, 136);
	assert_string_equal(event->param.ud.private_data, "me");
	assert_int_equal(event->param.ud.qp_num, query.passive->qp->qp_num);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	ah = ibv_create_ah(query.active->pd, &event->param.ud.ah_attr);
	assert_non_null(ah);
	assert_int_equal(rdma_post_ud_send(query.active, NULL, sent, sizeof(sent), NULL,
					   IBV_SEND_INLINE | IBV_SEND_SIGNALED, ah,
					   event->param.ud.qp_num),
			 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	await_completion(query.active->send_cq, &wc);
	await_completion(query.passive->recv_cq, &wc);
	assert_int_equal(wc.src_qp, query.active->qp->qp_num);
	assert_string_equal(received + GRH_BYTES, sent);
	assert_false(has_event(query.passive_channel, 0));
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	end(&query);
}

static void refused_service_is_unreachable(void **state)
{
	struct rdma_cm_event *event;
	struct query query;

	(void)state;
	ask(&query);
	assert_int_equal(rdma_reject(query.passive, "busy", 5), 0);
	event = expect_status(query.active_channel, RDMA_CM_EVENT_UNREACHABLE, REJECTED);
	assert_int_equal(event->param.ud.private_data_len, 136);
	assert_string_equal(event->param.ud.private_data, "busy");
	assert_int_equal(rdma_ack_cm_event(event), 0);
	end(&query);
}

static void nobody_serves(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *listener = create_listener(channel, RDMA_PS_UDP, 4);
	struct rdma_cm_id *id = create_resolved(channel, RDMA_PS_UDP, listener);
	struct rdma_conn_param param = {0};

	(void)state;
	assert_int_equal(rdma_destroy_id(listener), 0);
	create_qp(id);
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(
		rdma_ack_cm_event(expect_status(channel, RDMA_CM_EVENT_UNREACHABLE, UNSUPPORTED)),
		0);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* A service of datagrams and one of connections do not mix. */
static void services_keep_apart(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *listener = create_listener(channel, RDMA_PS_UDP, 4);
	struct rdma_cm_id *id = create_resolved(channel, RDMA_PS_TCP, listener);
	struct rdma_conn_param param = {0};

	(void)state;
	create_qp(id);
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(rdma_ack_cm_event(expect_status(channel, RDMA_CM_EVENT_REJECTED, 8)), 0);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answer_tells_where_to_send),
		cmocka_unit_test(refused_service_is_unreachable),
		cmocka_unit_test(nobody_serves),
		cmocka_unit_test(services_keep_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
