/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that do not come about: refused by the program or by nobody being there, requests
 * that nobody fetched, parameters that do not fit.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unit/rdmacm/fixture.h"

/* Reasons of the message REJ. */
#define NO_SUCH_SERVICE 8
#define BY_CONSUMER 28
#define VENDOR_OPTION 35

static void expect_rejected(struct rdma_event_channel *channel, int reason, const char *text,
			    size_t length)
{
	struct rdma_cm_event *event = expect_status(channel, RDMA_CM_EVENT_REJECTED, reason);

	assert_int_equal(event->param.conn.private_data_len, 148);
	if (length)
		assert_memory_equal(event->param.conn.private_data, text, length);
	assert_int_equal(((const uint8_t *)event->param.conn.private_data)[length], 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void program_refuses_with_a_word(void **state)
{
	struct meeting meeting;

	(void)state;
	meet(&meeting);
	assert_int_equal(rdma_reject(meeting.passive, "too busy", 9), 0);
	expect_rejected(meeting.active_channel, BY_CONSUMER, "too busy", 9);
	assert_int_equal(state_of(meeting.active->qp), IBV_QPS_ERR);
	assert_int_equal(rdma_reject(meeting.passive, NULL, 0), -1);
	assert_int_equal(errno, EINVAL);
	part(&meeting);
}

static void abilities_may_be_the_reason(void **state)
{
	struct meeting meeting;

	(void)state;
	meet(&meeting);
	assert_int_equal(rdma_reject_ece(meeting.passive, NULL, 0), 0);
	expect_rejected(meeting.active_channel, VENDOR_OPTION, NULL, 0);
	part(&meeting);
}

static void nobody_listens(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *listener = create_listener(channel, RDMA_PS_TCP, 1);
	struct rdma_cm_id *id = create_resolved(channel, RDMA_PS_TCP, listener);
	struct rdma_conn_param param = parameters(NULL, 0);

	(void)state;
	assert_int_equal(rdma_destroy_id(listener), 0);
	create_qp(id);
	assert_int_equal(rdma_connect(id, &param), 0);
	expect_rejected(channel, NO_SUCH_SERVICE, NULL, 0);
	/* It is of no more use. */
	assert_int_equal(rdma_connect(id, &param), -1);
	assert_int_equal(errno, EINVAL);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/*
 * A question that comes before its listener. True: the listener hears of it. A machine that is busy
 * may let the listener come too late; then it is refused, rightly.
 */
static bool reaches_late_listener(enum rdma_port_space port_space)
{
	struct rdma_event_channel *passive = create_channel(), *active = create_channel();
	struct rdma_cm_id *listener = create_listener(passive, port_space, 8);
	struct rdma_cm_id *id = create_resolved(active, port_space, listener);
	struct sockaddr_in address = listener->route.addr.src_sin;
	struct rdma_conn_param param = parameters(NULL, 0);
	struct rdma_cm_event *event;
	struct rdma_cm_id *request;
	bool is_reached;

	assert_int_equal(rdma_destroy_id(listener), 0);
	create_qp(id);
	assert_int_equal(rdma_connect(id, &param), 0);
	listener = create_id(passive, port_space);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(listener, 8), 0);
	is_reached = has_event(passive, 1000);
	if (is_reached) {
		event = expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
		request = event->id;
		assert_int_equal(rdma_ack_cm_event(event), 0);
		assert_int_equal(rdma_destroy_id(request), 0);
	}
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(passive);
	rdma_destroy_event_channel(active);
	return is_reached;
}

/* perftest and qperf say that they listen before they do. */
static void listener_may_be_late(void **state)
{
	int tries = 20;

	(void)state;
	while (!reaches_late_listener(RDMA_PS_TCP))
		assert_true(tries-- > 0);
	while (!reaches_late_listener(RDMA_PS_UDP))
		assert_true(tries-- > 0);
}

/* Of more requests than the program is prepared for those that come last are refused. */
static void backlog_is_limited(void **state)
{
	struct rdma_event_channel *passive = create_channel(), *active = create_channel();
	struct rdma_cm_id *listener = create_listener(passive, RDMA_PS_TCP, 2);
	struct rdma_conn_param param = parameters(NULL, 0);
	struct rdma_cm_id *clients[4], *request;
	struct rdma_cm_event *event;

	(void)state;
	for (int i = 0; i < 3; i++) {
		clients[i] = create_resolved(active, RDMA_PS_TCP, listener);
		create_qp(clients[i]);
		assert_int_equal(rdma_connect(clients[i], &param), 0);
	}
	event = expect_status(active, RDMA_CM_EVENT_REJECTED, BY_CONSUMER);
	assert_ptr_equal(event->id, clients[2]);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	/* What is fetched leaves room. */
	event = expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	request = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	clients[3] = create_resolved(active, RDMA_PS_TCP, listener);
	create_qp(clients[3]);
	assert_int_equal(rdma_connect(clients[3], &param), 0);
	assert_false(has_event(active, 100));
	assert_int_equal(rdma_destroy_id(request), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	for (int i = 0; i < 4; i++) {
		rdma_destroy_qp(clients[i]);
		assert_int_equal(rdma_destroy_id(clients[i]), 0);
	}
	rdma_destroy_event_channel(passive);
	rdma_destroy_event_channel(active);
}

/* Requests that wait when the listener goes are refused; one that was fetched lives on. */
static void listener_goes(void **state)
{
	struct rdma_event_channel *passive = create_channel(), *active = create_channel();
	struct rdma_cm_id *listener = create_listener(passive, RDMA_PS_TCP, 8);
	struct rdma_conn_param param = parameters(NULL, 0);
	struct rdma_cm_id *fetched, *first, *second;
	struct rdma_cm_event *event;

	(void)state;
	first = create_resolved(active, RDMA_PS_TCP, listener);
	second = create_resolved(active, RDMA_PS_TCP, listener);
	create_qp(first);
	create_qp(second);
	assert_int_equal(rdma_connect(first, &param), 0);
	event = expect(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	fetched = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_connect(second, &param), 0);
	assert_true(has_event(passive, PATIENCE_MS));
	assert_int_equal(rdma_destroy_id(listener), 0);
	assert_false(has_event(passive, 0));
	event = expect_status(active, RDMA_CM_EVENT_REJECTED, BY_CONSUMER);
	assert_ptr_equal(event->id, second);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	create_qp(fetched);
	assert_int_equal(rdma_accept(fetched, &param), 0);
	pass_event(active, RDMA_CM_EVENT_ESTABLISHED);
	pass_event(passive, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_qp(fetched);
	rdma_destroy_qp(first);
	rdma_destroy_qp(second);
	assert_int_equal(rdma_destroy_id(fetched), 0);
	assert_int_equal(rdma_destroy_id(first), 0);
	assert_int_equal(rdma_destroy_id(second), 0);
	rdma_destroy_event_channel(passive);
	rdma_destroy_event_channel(active);
}

/* An endpoint that was not accepted yet hears nothing; accepting fails then. */
static void peer_gives_up_before_it_is_accepted(void **state)
{
	struct rdma_conn_param param = parameters(NULL, 0);
	struct meeting meeting;

	(void)state;
	meet(&meeting);
	rdma_destroy_qp(meeting.active);
	assert_int_equal(rdma_destroy_id(meeting.active), 0);
	meeting.active = NULL;
	assert_false(has_event(meeting.passive_channel, 100));
	assert_int_equal(rdma_accept(meeting.passive, &param), -1);
	assert_int_equal(errno, EINVAL);
	part(&meeting);
}

static void request_is_destroyed(void **state)
{
	struct meeting meeting;

	(void)state;
	meet(&meeting);
	rdma_destroy_qp(meeting.passive);
	assert_int_equal(rdma_destroy_id(meeting.passive), 0);
	meeting.passive = NULL;
	expect_rejected(meeting.active_channel, BY_CONSUMER, NULL, 0);
	part(&meeting);
}

static void private_data_must_fit(void **state)
{
	static const uint8_t bytes[255] = {1};
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *listener = create_listener(channel, RDMA_PS_TCP, 8);
	struct rdma_cm_id *id = create_resolved(channel, RDMA_PS_TCP, listener), *request;
	struct rdma_conn_param param = parameters(bytes, 57);
	struct rdma_cm_event *event;

	(void)state;
	create_qp(id);
	assert_int_equal(rdma_connect(id, &param), -1);
	assert_int_equal(errno, EINVAL);
	param.private_data_len = 56;
	assert_int_equal(rdma_connect(id, &param), 0);
	event = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_memory_equal(event->param.conn.private_data, bytes, 56);
	request = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_reject(request, bytes, 149), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_reject(request, bytes, 148), 0);
	event = expect_status(channel, RDMA_CM_EVENT_REJECTED, BY_CONSUMER);
	assert_memory_equal(event->param.conn.private_data, bytes, 148);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(request), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

static void depths_must_be_the_devices(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *listener = create_listener(channel, RDMA_PS_TCP, 8);
	struct rdma_cm_id *id = create_resolved(channel, RDMA_PS_TCP, listener);
	struct rdma_conn_param param = parameters(NULL, 0);

	(void)state;
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	create_qp(id);
	param.responder_resources = 0xfe;
	assert_int_equal(rdma_connect(id, &param), -1);
	assert_int_equal(errno, EINVAL);
	param = parameters(NULL, 0);
	param.initiator_depth = 0xfe;
	assert_int_equal(rdma_connect(id, &param), -1);
	assert_int_equal(errno, EINVAL);
	/* "As many as there are", and everything left to the library. */
	assert_int_equal(rdma_connect(id, NULL), 0);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(program_refuses_with_a_word),
		cmocka_unit_test(abilities_may_be_the_reason),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(listener_may_be_late),
		cmocka_unit_test(backlog_is_limited),
		cmocka_unit_test(listener_goes),
		cmocka_unit_test(peer_gives_up_before_it_is_accepted),
		cmocka_unit_test(request_is_destroyed),
		cmocka_unit_test(private_data_must_fit),
		cmocka_unit_test(depths_must_be_the_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
