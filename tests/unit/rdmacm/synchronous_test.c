/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints without a channel, whose calls wait: the style of rdma_client and rdma_server.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>

#include <cmocka.h>

#include <rdma/rdma_verbs.h>

#include "unit/rdmacm/fixture.h"

static const struct ibv_qp_init_attr qp_attr = {
	.cap = {.max_send_wr = 4,
		.max_recv_wr = 4,
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.max_inline_data = 64},
	.sq_sig_all = 1,
};

static struct rdma_addrinfo *look_up(uint16_t port, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *result;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	assert_int_equal(rdma_getaddrinfo(getenv("VERBENA_ADDRESS"), service, &hints, &result), 0);
	return result;
}

static struct rdma_cm_id *listen_at_any_port(void)
{
	struct rdma_addrinfo *address = look_up(0, RAI_PASSIVE);
	struct ibv_qp_init_attr attr = qp_attr;
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_ep(&id, address, NULL, &attr), 0);
	rdma_freeaddrinfo(address);
	assert_int_equal(rdma_listen(id, 0), 0);
	return id;
}

static struct rdma_cm_id *prepare(uint16_t port)
{
	struct rdma_addrinfo *address = look_up(port, 0);
	struct ibv_qp_init_attr attr = qp_attr;
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_ep(&id, address, NULL, &attr), 0);
	rdma_freeaddrinfo(address);
	assert_non_null(id->qp);
	assert_non_null(id->event);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

/* Answers one message by the same, and waits for the end. */
static void *serve(void *argument)
{
	struct rdma_cm_id *listener = argument, *id;
	static char message[32];
	struct ibv_mr *mr;
	struct ibv_wc wc;

	assert_int_equal(rdma_get_request(listener, &id), 0);
	assert_non_null(id->qp);
	mr = rdma_reg_msgs(id, message, sizeof(message));
	assert_non_null(mr);
	assert_int_equal(rdma_post_recv(id, NULL, message, sizeof(message), mr), 0);
	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_post_send(id, NULL, message, sizeof(message), mr, IBV_SEND_INLINE),
			 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	rdma_destroy_ep(id);
	return NULL;
}

static void one_message_there_and_back(void **state)
{
	static char sent[32] = "to be returned", received[32];
	struct rdma_cm_id *listener = listen_at_any_port(), *id;
	struct ibv_mr *mr;
	pthread_t thread;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, serve, listener), 0);
	id = prepare(ntohs(rdma_get_src_port(listener)));
	mr = rdma_reg_msgs(id, received, sizeof(received));
	assert_non_null(mr);
	assert_int_equal(rdma_post_recv(id, NULL, received, sizeof(received), mr), 0);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_post_send(id, NULL, sent, sizeof(sent), NULL, IBV_SEND_INLINE), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_string_equal(received, sent);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

#define MESSAGES 10000
/* All of them: a reply that waits for a timer instead of an event would take many times that. */
#define MESSAGES_SECONDS 20

/* Receives, then sends, message by message, sleeping for each completion. */
static void *echo_many(void *argument)
{
	struct rdma_cm_id *listener = argument, *id;
	static char message[32];
	struct ibv_mr *mr;
	struct ibv_wc wc;

	assert_int_equal(rdma_get_request(listener, &id), 0);
	mr = rdma_reg_msgs(id, message, sizeof(message));
	assert_non_null(mr);
	assert_int_equal(rdma_post_recv(id, NULL, message, sizeof(message), mr), 0);
	assert_int_equal(rdma_accept(id, NULL), 0);
	for (int i = 0; i < MESSAGES; i++) {
		assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(rdma_post_recv(id, NULL, message, sizeof(message), mr), 0);
		assert_int_equal(rdma_post_send(id, NULL, message, sizeof(message), mr, 0), 0);
		assert_int_equal(rdma_get_send_comp(id, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	rdma_destroy_ep(id);
	return NULL;
}

/* Of each message sent one completion, and of each answer; never EAGAIN, and none comes late. */
static void completions_come_one_by_one(void **state)
{
	struct rdma_cm_id *listener = listen_at_any_port(), *id;
	static char message[32];
	struct timespec began, ended;
	struct ibv_mr *mr;
	pthread_t thread;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, echo_many, listener), 0);
	id = prepare(ntohs(rdma_get_src_port(listener)));
	mr = rdma_reg_msgs(id, message, sizeof(message));
	assert_non_null(mr);
	assert_int_equal(rdma_connect(id, NULL), 0);
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (int i = 0; i < MESSAGES; i++) {
		assert_int_equal(rdma_post_recv(id, NULL, message, sizeof(message), mr), 0);
		assert_int_equal(rdma_post_send(id, NULL, message, sizeof(message), mr, 0), 0);
		assert_int_equal(rdma_get_send_comp(id, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	assert_in_range(ended.tv_sec - began.tv_sec, 0, MESSAGES_SECONDS);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

static void refusal_is_an_errno(void **state)
{
	struct rdma_cm_id *listener = listen_at_any_port();
	uint16_t port = ntohs(rdma_get_src_port(listener));
	struct rdma_cm_id *id;

	(void)state;
	rdma_destroy_ep(listener);
	id = prepare(port);
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(id);
}

static void *refuse(void *argument)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_get_request(argument, &id), 0);
	assert_int_equal(rdma_reject(id, "no", 3), 0);
	rdma_destroy_ep(id);
	return NULL;
}

static void listener_refuses(void **state)
{
	struct rdma_cm_id *listener = listen_at_any_port(), *id;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, refuse, listener), 0);
	id = prepare(ntohs(rdma_get_src_port(listener)));
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_string_equal(id->event->param.conn.private_data, "no");
	assert_int_equal(pthread_join(thread, NULL), 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

static void is_set_apart(const struct rdma_cm_id *id)
{
	assert_in_range(id->channel->fd, FD_SETSIZE / 2, FD_SETSIZE - 1);
}

static void *refuse_apart(void *argument)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_get_request(argument, &id), 0);
	is_set_apart(id);
	assert_int_equal(rdma_reject(id, NULL, 0), 0);
	rdma_destroy_ep(id);
	return NULL;
}

/*
 * An rsocket is known by the number of its channel. Those that the program sees otherwise are below,
 * also where it gets one for that socket later, as by accept() on top of librspreload.
 */
static void own_channels_are_set_apart(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = listen_at_any_port(), *id;
	pthread_t thread;

	(void)state;
	assert_true(channel->fd < FD_SETSIZE / 2);
	is_set_apart(listener);
	id = prepare(ntohs(rdma_get_src_port(listener)));
	is_set_apart(id);
	assert_int_equal(pthread_create(&thread, NULL, refuse_apart, listener), 0);
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* So is the one that it gets when it leaves the program's. */
	assert_int_equal(rdma_migrate_id(id, channel), 0);
	assert_ptr_equal(id->channel, channel);
	assert_int_equal(rdma_migrate_id(id, NULL), 0);
	is_set_apart(id);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_destroy_event_channel(channel);
}

static void address_of_others_makes_no_endpoint(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE | RAI_NUMERICHOST,
				      .ai_port_space = RDMA_PS_TCP},
			     *address;
	struct rdma_cm_id *id = NULL;

	(void)state;
	assert_int_equal(rdma_getaddrinfo("198.51.100.7", "7", &hints, &address), 0);
	assert_int_equal(rdma_create_ep(&id, address, NULL, NULL), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	assert_null(id);
	rdma_freeaddrinfo(address);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_message_there_and_back),
		cmocka_unit_test(completions_come_one_by_one),
		cmocka_unit_test(refusal_is_an_errno),
		cmocka_unit_test(listener_refuses),
		cmocka_unit_test(own_channels_are_set_apart),
		cmocka_unit_test(address_of_others_makes_no_endpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
