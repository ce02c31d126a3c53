/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that come about, within one process: what each side is told, in which order, and
 * what its QP can do.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/rdma_verbs.h>

#include "unit/rdmacm/fixture.h"

static void assert_zero(const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_int_equal(bytes[i], 0);
}

/* All of the fixed area is shown, also what the peer did not fill. */
static void assert_private_data(const struct rdma_conn_param *conn, const char *text, size_t length,
				size_t area)
{
	assert_int_equal(conn->private_data_len, area);
	assert_memory_equal(conn->private_data, text, length);
	assert_zero((const uint8_t *)conn->private_data + length, area - length);
}

static void request_and_answer_tell_everything(void **state)
{
	struct rdma_conn_param param = parameters("hello", 6);
	struct meeting meeting = {.passive_channel = create_channel(),
				  .active_channel = create_channel()};
	struct rdma_cm_event *event;

	(void)state;
	meeting.listener = create_listener(meeting.passive_channel, RDMA_PS_TCP, 8);
	meeting.active = create_resolved(meeting.active_channel, RDMA_PS_TCP, meeting.listener);
	create_qp(meeting.active);
	param.flow_control = 1;
	assert_int_equal(rdma_connect(meeting.active, &param), 0);
	event = expect(meeting.passive_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	meeting.passive = event->id;
	assert_ptr_equal(event->listen_id, meeting.listener);
	assert_ptr_equal(meeting.passive->context, meeting.listener->context);
	assert_ptr_equal(meeting.passive->channel, meeting.passive_channel);
	assert_ptr_equal(meeting.passive->verbs, meeting.active->verbs);
	assert_int_equal(meeting.passive->port_num, 1);
	assert_int_equal(rdma_get_src_port(meeting.passive), rdma_get_src_port(meeting.listener));
	assert_int_equal(rdma_get_dst_port(meeting.passive), rdma_get_src_port(meeting.active));
	assert_int_equal(meeting.passive->route.num_paths, 1);
	assert_private_data(&event->param.conn, "hello", 6, 56);
	/* As seen from this side: what the peer serves is what we may ask. */
	assert_int_equal(event->param.conn.responder_resources, param.initiator_depth);
	assert_int_equal(event->param.conn.initiator_depth, param.responder_resources);
	assert_int_equal(event->param.conn.flow_control, 1);
	assert_int_equal(event->param.conn.retry_count, 7);
	assert_int_equal(event->param.conn.rnr_retry_count, 6);
	assert_int_equal(event->param.conn.qp_num, meeting.active->qp->qp_num);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	create_qp(meeting.passive);
	param = parameters("welcome", 8);
	assert_int_equal(rdma_accept(meeting.passive, &param), 0);
	event = expect(meeting.active_channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_private_data(&event->param.conn, "welcome", 8, 196);
	assert_int_equal(event->param.conn.qp_num, meeting.passive->qp->qp_num);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	pass_event(meeting.passive_channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(state_of(meeting.active->qp), IBV_QPS_RTS);
	assert_int_equal(state_of(meeting.passive->qp), IBV_QPS_RTS);
	part(&meeting);
}

static void data_flow_both_ways(void **state)
{
	static char sent[64] = "over the connection", received[64];
	struct meeting meeting;
	struct ibv_mr *out, *in;

	(void)state;
	meet(&meeting);
	out = rdma_reg_msgs(meeting.active, sent, sizeof(sent));
	in = rdma_reg_msgs(meeting.passive, received, sizeof(received));
	assert_non_null(out);
	assert_non_null(in);
	assert_int_equal(rdma_post_recv(meeting.passive, NULL, received, sizeof(received), in), 0);
	establish(&meeting);
	assert_int_equal(rdma_post_send(meeting.active, NULL, sent, sizeof(sent), out, 0), 0);
	await_completion(meeting.active->send_cq, NULL);
	await_completion(meeting.passive->recv_cq, NULL);
	assert_string_equal(received, sent);
	assert_int_equal(rdma_post_recv(meeting.active, NULL, sent, sizeof(sent), out), 0);
	snprintf(received, sizeof(received), "and back");
	assert_int_equal(rdma_post_send(meeting.passive, NULL, received, sizeof(received), in, 0),
			 0);
	await_completion(meeting.passive->send_cq, NULL);
	await_completion(meeting.active->recv_cq, NULL);
	assert_string_equal(sent, "and back");
	assert_int_equal(rdma_dereg_mr(out), 0);
	assert_int_equal(rdma_dereg_mr(in), 0);
	part(&meeting);
}

/* Each side hears it once, and later that the QP may be used again. */
static void disconnecting_is_told_to_both(void **state)
{
	struct meeting meeting;

	(void)state;
	meet(&meeting);
	establish(&meeting);
	assert_int_equal(rdma_disconnect(meeting.active), 0);
	pass_event(meeting.passive_channel, RDMA_CM_EVENT_DISCONNECTED);
	pass_event(meeting.active_channel, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(state_of(meeting.active->qp), IBV_QPS_ERR);
	assert_int_equal(rdma_disconnect(meeting.passive), 0);
	assert_int_equal(rdma_disconnect(meeting.active), 0);
	pass_event(meeting.passive_channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	pass_event(meeting.active_channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	assert_false(has_event(meeting.passive_channel, 0));
	assert_false(has_event(meeting.active_channel, 0));
	part(&meeting);
}

static void disconnects_may_cross(void **state)
{
	struct meeting meeting;

	(void)state;
	meet(&meeting);
	establish(&meeting);
	assert_int_equal(rdma_disconnect(meeting.active), 0);
	assert_int_equal(rdma_disconnect(meeting.passive), 0);
	pass_event(meeting.passive_channel, RDMA_CM_EVENT_DISCONNECTED);
	pass_event(meeting.active_channel, RDMA_CM_EVENT_DISCONNECTED);
	part(&meeting);
}

static void destroying_takes_the_connection_down(void **state)
{
	struct meeting meeting;

	(void)state;
	meet(&meeting);
	establish(&meeting);
	rdma_destroy_qp(meeting.active);
	assert_int_equal(rdma_destroy_id(meeting.active), 0);
	meeting.active = NULL;
	pass_event(meeting.passive_channel, RDMA_CM_EVENT_DISCONNECTED);
	part(&meeting);
}

static void established_once(void **state)
{
	struct meeting meeting;

	(void)state;
	meet(&meeting);
	assert_int_equal(rdma_notify(meeting.passive, IBV_EVENT_COMM_EST), -1);
	assert_int_equal(errno, EINVAL);
	establish(&meeting);
	assert_int_equal(rdma_notify(meeting.passive, IBV_EVENT_COMM_EST), -1);
	assert_int_equal(errno, EISCONN);
	assert_int_equal(rdma_notify(meeting.passive, IBV_EVENT_PATH_MIG), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_establish(meeting.active), -1);
	assert_int_equal(errno, EINVAL);
	assert_false(has_event(meeting.passive_channel, 0));
	part(&meeting);
}

/* Data prove what the message would have said. */
static void data_establish_where_the_message_is_late(void **state)
{
	struct rdma_conn_param param = parameters(NULL, 0);
	struct meeting meeting;

	(void)state;
	meet(&meeting);
	assert_int_equal(rdma_accept(meeting.passive, &param), 0);
	/* The active side did not fetch the answer yet, so nothing was sent back. */
	assert_true(has_event(meeting.active_channel, PATIENCE_MS));
	assert_int_equal(rdma_notify(meeting.passive, IBV_EVENT_COMM_EST), 0);
	pass_event(meeting.passive_channel, RDMA_CM_EVENT_ESTABLISHED);
	pass_event(meeting.active_channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_false(has_event(meeting.passive_channel, 0));
	part(&meeting);
}

/* The program brings its own QP and says what the connection needs of it. */
static void external_qps_are_established_by_the_program(void **state)
{
	const int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT;
	struct meeting meeting = {.passive_channel = create_channel(),
				  .active_channel = create_channel()};
	struct rdma_conn_param param = parameters(NULL, 0);
	struct ibv_ece ece = {.vendor_id = 0x1234, .options = 0x55}, heard = {0};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT}, reverse;
	struct rdma_cm_event *event;
	int mask;

	(void)state;
	meeting.listener = create_listener(meeting.passive_channel, RDMA_PS_TCP, 8);
	meeting.active = create_resolved(meeting.active_channel, RDMA_PS_TCP, meeting.listener);
	param.qp_num = 0x123456;
	assert_int_equal(rdma_set_local_ece(meeting.active, &ece), 0);
	assert_int_equal(rdma_connect(meeting.active, &param), 0);
	event = expect(meeting.passive_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	meeting.passive = event->id;
	assert_int_equal(event->param.conn.qp_num, 0x123456);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_get_remote_ece(meeting.passive, &heard), 0);
	assert_int_equal(heard.vendor_id, ece.vendor_id);
	assert_int_equal(heard.options, ece.options);
	assert_int_equal(rdma_init_qp_attr(meeting.passive, &attr, &mask), 0);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(rdma_init_qp_attr(meeting.passive, &attr, &mask), 0);
	assert_int_equal(mask, rtr_mask);
	assert_int_equal(attr.dest_qp_num, 0x123456);
	assert_int_equal(attr.max_dest_rd_atomic, 3);
	assert_int_equal(attr.ah_attr.is_global, 1);
	ece.options = 0x11;
	assert_int_equal(rdma_set_local_ece(meeting.passive, &ece), 0);
	param.qp_num = 0x654321;
	assert_int_equal(rdma_accept(meeting.passive, &param), 0);
	event = expect(meeting.active_channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event->param.conn.qp_num, 0x654321);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_get_remote_ece(meeting.active, &heard), 0);
	assert_int_equal(heard.options, 0x11);
	/* Each side begins where the other expects it. */
	reverse = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
	assert_int_equal(rdma_init_qp_attr(meeting.active, &reverse, &mask), 0);
	assert_int_equal(mask, rts_mask);
	assert_int_equal(reverse.sq_psn, attr.rq_psn);
	assert_int_equal(reverse.max_rd_atomic, 4);
	assert_int_equal(reverse.timeout, 19);
	assert_false(has_event(meeting.passive_channel, 0));
	assert_int_equal(rdma_establish(meeting.active), 0);
	pass_event(meeting.passive_channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_false(has_event(meeting.active_channel, 0));
	assert_int_equal(rdma_disconnect(meeting.passive), 0);
	pass_event(meeting.active_channel, RDMA_CM_EVENT_DISCONNECTED);
	part(&meeting);
}

static void ack_timeout_is_what_was_asked_for(void **state)
{
	struct rdma_conn_param param = parameters(NULL, 0);
	struct meeting meeting;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint8_t timeout = 14;

	(void)state;
	meet(&meeting);
	assert_int_equal(rdma_set_option(meeting.passive, RDMA_OPTION_ID,
					 RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1),
			 0);
	assert_int_equal(rdma_accept(meeting.passive, &param), 0);
	assert_int_equal(ibv_query_qp(meeting.passive->qp, &attr,
				      IBV_QP_TIMEOUT | IBV_QP_MAX_QP_RD_ATOMIC |
					      IBV_QP_MAX_DEST_RD_ATOMIC,
				      &init),
			 0);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.max_rd_atomic, param.initiator_depth);
	assert_int_equal(attr.max_dest_rd_atomic, param.responder_resources);
	part(&meeting);
}

/* Many at once, all on one channel. */
static void many_connections_come_about(void **state)
{
	enum { COUNT = 200 };
	struct rdma_event_channel *passive = create_channel(), *active = create_channel();
	struct rdma_cm_id *listener = create_listener(passive, RDMA_PS_TCP, COUNT);
	struct rdma_cm_id *clients[COUNT], *servers[COUNT];
	struct rdma_conn_param param = parameters(NULL, 0);

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		clients[i] = create_resolved(active, RDMA_PS_TCP, listener);
		create_qp(clients[i]);
	}
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(rdma_connect(clients[i], &param), 0);
	for (int i = 0; i < COUNT; i++) {
		struct rdma_cm_event *event = expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST);

		servers[i] = event->id;
		assert_int_equal(rdma_ack_cm_event(event), 0);
		create_qp(servers[i]);
	}
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(rdma_accept(servers[i], &param), 0);
	for (int i = 0; i < COUNT; i++)
		pass_event(active, RDMA_CM_EVENT_ESTABLISHED);
	for (int i = 0; i < COUNT; i++)
		pass_event(passive, RDMA_CM_EVENT_ESTABLISHED);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(rdma_disconnect(clients[i]), 0);
	for (int i = 0; i < COUNT; i++) {
		pass_event(active, RDMA_CM_EVENT_DISCONNECTED);
		pass_event(passive, RDMA_CM_EVENT_DISCONNECTED);
	}
	for (int i = 0; i < COUNT; i++) {
		rdma_destroy_qp(clients[i]);
		rdma_destroy_qp(servers[i]);
		assert_int_equal(rdma_destroy_id(clients[i]), 0);
		assert_int_equal(rdma_destroy_id(servers[i]), 0);
	}
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(passive);
	rdma_destroy_event_channel(active);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_and_answer_tell_everything),
		cmocka_unit_test(data_flow_both_ways),
		cmocka_unit_test(disconnecting_is_told_to_both),
		cmocka_unit_test(disconnects_may_cross),
		cmocka_unit_test(destroying_takes_the_connection_down),
		cmocka_unit_test(established_once),
		cmocka_unit_test(data_establish_where_the_message_is_late),
		cmocka_unit_test(external_qps_are_established_by_the_program),
		cmocka_unit_test(ack_timeout_is_what_was_asked_for),
		cmocka_unit_test(many_connections_come_about),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
