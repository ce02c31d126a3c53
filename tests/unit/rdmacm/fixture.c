/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/rdmacm/fixture.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct sockaddr_in any_address(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
}

struct sockaddr_in own_address(uint16_t port)
{
	struct sockaddr_in address = any_address(port);
	const char *text = getenv("VERBENA_ADDRESS");

	assert_non_null(text);
	assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
	return address;
}

struct rdma_event_channel *create_channel(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	assert_non_null(channel);
	return channel;
}

struct rdma_event_channel *shared_channel;

int open_channel(void **state)
{
	(void)state;
	shared_channel = create_channel();
	return 0;
}

int close_channel(void **state)
{
	(void)state;
	rdma_destroy_event_channel(shared_channel);
	return 0;
}

struct rdma_cm_id *create_bound(enum rdma_port_space port_space)
{
	struct rdma_cm_id *id = create_id(shared_channel, port_space);
	struct sockaddr_in own = own_address(0);

	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&own), 0);
	return id;
}

struct rdma_cm_id *create_id(struct rdma_event_channel *channel, enum rdma_port_space port_space)
{
	struct rdma_cm_id *id = NULL;

	assert_int_equal(rdma_create_id(channel, &id, channel, port_space), 0);
	assert_non_null(id);
	return id;
}

bool has_event(struct rdma_event_channel *channel, int timeout_ms)
{
	struct pollfd entry = {.fd = channel->fd, .events = POLLIN};

	return poll(&entry, 1, timeout_ms) == 1;
}

struct rdma_cm_event *expect_status(struct rdma_event_channel *channel,
				    enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event = NULL;

	assert_true(has_event(channel, PATIENCE_MS));
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_non_null(event);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	assert_int_equal(event->status, status);
	return event;
}

struct rdma_cm_event *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	return expect_status(channel, type, 0);
}

void pass_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	assert_int_equal(rdma_ack_cm_event(expect(channel, type)), 0);
}

struct rdma_cm_id *create_listener(struct rdma_event_channel *channel,
				   enum rdma_port_space port_space, int backlog)
{
	struct rdma_cm_id *id = create_id(channel, port_space);
	struct sockaddr_in address = own_address(0);

	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(id, backlog), 0);
	assert_int_not_equal(rdma_get_src_port(id), 0);
	return id;
}

struct rdma_cm_id *create_resolved(struct rdma_event_channel *channel,
				   enum rdma_port_space port_space,
				   const struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id = create_id(channel, port_space);
	struct sockaddr_in address = listener->route.addr.src_sin;

	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000), 0);
	pass_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	pass_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = id->qp_type,
		.sq_sig_all = 1,
	};

	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_non_null(id->qp);
}

enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

void await_completion(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct ibv_wc own = {0};
	int count = 0;

	for (long turns = 0; !count && turns < 2000000000; turns++)
		count = ibv_poll_cq(cq, 1, &own);
	assert_int_equal(count, 1);
	assert_int_equal(own.status, IBV_WC_SUCCESS);
	if (wc)
		*wc = own;
}

struct rdma_conn_param parameters(const void *private_data, uint8_t length)
{
	return (struct rdma_conn_param){
		.private_data = private_data,
		.private_data_len = length,
		.responder_resources = 4,
		.initiator_depth = 3,
		.retry_count = 7,
		.rnr_retry_count = 6,
	};
}

void meet(struct meeting *meeting)
{
	struct rdma_conn_param param = parameters("hello", 6);
	struct rdma_cm_event *event;

	meeting->passive_channel = create_channel();
	meeting->active_channel = create_channel();
	meeting->listener = create_listener(meeting->passive_channel, RDMA_PS_TCP, 8);
	meeting->active = create_resolved(meeting->active_channel, RDMA_PS_TCP, meeting->listener);
	create_qp(meeting->active);
	assert_int_equal(rdma_connect(meeting->active, &param), 0);
	event = expect(meeting->passive_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, meeting->listener);
	meeting->passive = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	create_qp(meeting->passive);
}

void establish(struct meeting *meeting)
{
	struct rdma_conn_param param = parameters("welcome", 8);

	assert_int_equal(rdma_accept(meeting->passive, &param), 0);
	pass_event(meeting->active_channel, RDMA_CM_EVENT_ESTABLISHED);
	pass_event(meeting->passive_channel, RDMA_CM_EVENT_ESTABLISHED);
}

static void destroy(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

void part(struct meeting *meeting)
{
	destroy(meeting->active);
	destroy(meeting->passive);
	destroy(meeting->listener);
	rdma_destroy_event_channel(meeting->active_channel);
	rdma_destroy_event_channel(meeting->passive_channel);
}
