/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channels, endpoints and their options, without a connection.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unit/rdmacm/fixture.h"

static void channel_without_events_does_not_wait(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_event *event = (struct rdma_cm_event *)channel;

	(void)state;
	assert_false(has_event(channel, 0));
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
	/* Of a failure nothing is left in the program's variable. */
	assert_ptr_equal(event, channel);
	assert_int_equal(rdma_get_cm_event(channel, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_ack_cm_event(NULL), -1);
	assert_int_equal(errno, EINVAL);
	rdma_destroy_event_channel(channel);
}

static void fresh_endpoint_knows_what_it_was_given(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *id = create_id(channel, RDMA_PS_TCP);

	(void)state;
	assert_ptr_equal(id->channel, channel);
	assert_ptr_equal(id->context, channel);
	assert_int_equal(id->ps, RDMA_PS_TCP);
	assert_int_equal(id->qp_type, IBV_QPT_RC);
	assert_null(id->verbs);
	assert_null(id->pd);
	assert_null(id->qp);
	assert_int_equal(rdma_get_src_port(id), 0);
	assert_int_equal(rdma_get_dst_port(id), 0);
	/* What the distribution's rsockets look at behind it: a device that is none, synchronous. */
	assert_null(*(void **)((char *)id + 416));
	assert_int_equal(*(int *)((char *)id + 448), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = create_id(NULL, RDMA_PS_UDP);
	assert_int_equal(id->qp_type, IBV_QPT_UD);
	assert_non_null(id->channel);
	assert_int_equal(*(int *)((char *)id + 448), 1);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void unknown_port_space_is_refused(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(channel, &id, NULL, (enum rdma_port_space)7), -1);
	assert_int_equal(errno, EINVAL);
	rdma_destroy_event_channel(channel);
}

struct option_case {
	int level, name;
	size_t length;
	int error; /* 0: taken */
};

static void options_are_checked(void **state)
{
	static const struct option_case cases[] = {
		{RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1, 0},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4, EINVAL},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4, 0},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1, EINVAL},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4, 0},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 8, EINVAL},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1, 0},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 2, EINVAL},
		{RDMA_OPTION_ID, 99, 4, ENOSYS},
		{RDMA_OPTION_IB, 99, 4, ENOSYS},
		{RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 8, EINVAL}, /* too early as well */
		{99, 0, 4, ENOSYS},
	};
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *id = create_id(channel, RDMA_PS_TCP);
	uint64_t value = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int result =
			rdma_set_option(id, cases[i].level, cases[i].name, &value, cases[i].length);

		assert_int_equal(result, cases[i].error ? -1 : 0);
		if (cases[i].error)
			assert_int_equal(errno, cases[i].error);
	}
	assert_int_equal(rdma_destroy_id(id), 0);
	id = create_id(channel, RDMA_PS_UDP);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value, 1),
			 -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* A fresh endpoint is good for nothing that needs an address or a peer. */
static void calls_out_of_turn_are_refused(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *id = create_id(channel, RDMA_PS_TCP);
	struct rdma_conn_param param = parameters(NULL, 0);
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct ibv_qp_attr qp_attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	(void)state;
	assert_int_equal(rdma_resolve_route(id, 1000), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_connect(id, &param), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_accept(id, &param), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_reject(id, NULL, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_reject_ece(id, NULL, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_disconnect(id), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_notify(id, IBV_EVENT_COMM_EST), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_init_qp_attr(id, &qp_attr, &mask), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_get_request(id, &id), -1);
	assert_int_equal(errno, EINVAL);
	assert_false(has_event(channel, 0));
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void events_follow_to_another_channel(void **state)
{
	struct rdma_event_channel *first = create_channel(), *second = create_channel();
	struct rdma_cm_id *id = create_id(first, RDMA_PS_TCP);
	struct sockaddr_in address = own_address(7471);

	(void)state;
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
	assert_true(has_event(first, 0));
	assert_int_equal(rdma_migrate_id(id, second), 0);
	assert_ptr_equal(id->channel, second);
	assert_false(has_event(first, 0));
	pass_event(second, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	pass_event(second, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(first);
	rdma_destroy_event_channel(second);
}

static void endpoint_becomes_synchronous_and_back(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *id = create_id(channel, RDMA_PS_TCP);
	struct sockaddr_in address = own_address(7471);

	(void)state;
	assert_int_equal(rdma_migrate_id(id, NULL), 0);
	assert_ptr_not_equal(id->channel, channel);
	assert_int_equal(rdma_migrate_id(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
	assert_non_null(id->event);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_migrate_id(id, channel), 0);
	assert_null(id->event);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	pass_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* Unread events of an endpoint vanish with it; its neighbour's stay. */
static void unread_events_vanish(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *gone = create_id(channel, RDMA_PS_TCP);
	struct rdma_cm_id *stays = create_id(channel, RDMA_PS_TCP);
	struct sockaddr_in address = own_address(7471);
	struct rdma_cm_event *event;

	(void)state;
	assert_int_equal(rdma_resolve_addr(gone, NULL, (struct sockaddr *)&address, 1000), 0);
	assert_int_equal(rdma_resolve_addr(stays, NULL, (struct sockaddr *)&address, 1000), 0);
	assert_int_equal(rdma_destroy_id(gone), 0);
	event = expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_ptr_equal(event->id, stays);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_false(has_event(channel, 0));
	assert_int_equal(rdma_destroy_id(stays), 0);
	rdma_destroy_event_channel(channel);
}

static void *destroy_in_thread(void *argument)
{
	return (void *)(intptr_t)rdma_destroy_id(argument);
}

static void destroying_waits_for_acknowledgement(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *id = create_id(channel, RDMA_PS_TCP);
	struct sockaddr_in address = own_address(7471);
	struct rdma_cm_event *event;
	struct timespec soon;
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
	event = expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(pthread_create(&thread, NULL, destroy_in_thread, id), 0);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 100000000;
	soon.tv_sec += soon.tv_nsec / 1000000000;
	soon.tv_nsec %= 1000000000;
	assert_int_equal(pthread_timedjoin_np(thread, &result, &soon), ETIMEDOUT);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_int_equal((intptr_t)result, 0);
	rdma_destroy_event_channel(channel);
}

/* One thread destroys what another is about to hear of: no crash, and all comes to an end. */
struct race {
	struct rdma_event_channel *channel;
	int got;
};

static void *hear_everything(void *argument)
{
	struct race *race = argument;
	struct rdma_cm_event *event;

	while (has_event(race->channel, 200))
		if (rdma_get_cm_event(race->channel, &event) == 0) {
			race->got++;
			assert_int_equal(rdma_ack_cm_event(event), 0);
		}
	return NULL;
}

static void hearing_races_with_destroying(void **state)
{
	struct race race = {.channel = create_channel()};
	struct sockaddr_in address = own_address(7471);
	pthread_t thread;

	(void)state;
	assert_int_equal(fcntl(race.channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(pthread_create(&thread, NULL, hear_everything, &race), 0);
	for (int i = 0; i < 500; i++) {
		struct rdma_cm_id *id = create_id(race.channel, RDMA_PS_TCP);

		assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_in_range(race.got, 0, 500);
	rdma_destroy_event_channel(race.channel);
}

static void events_have_names(void **state)
{
	(void)state;
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED),
			    "RDMA_CM_EVENT_ADDR_RESOLVED");
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT),
			    "RDMA_CM_EVENT_TIMEWAIT_EXIT");
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)99), "UNKNOWN EVENT");
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type) - 1), "UNKNOWN EVENT");
}

static void abilities_are_for_external_qps(void **state)
{
	struct rdma_event_channel *channel = create_channel();
	struct rdma_cm_id *id = create_id(channel, RDMA_PS_TCP);
	struct ibv_ece ece = {.vendor_id = 5, .options = 6};

	(void)state;
	assert_int_equal(rdma_set_local_ece(NULL, &ece), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_set_local_ece(id, NULL), -1);
	assert_int_equal(rdma_get_remote_ece(id, NULL), -1);
	assert_int_equal(rdma_set_local_ece(id, &ece), 0);
	ece.comp_mask = 1;
	assert_int_equal(rdma_set_local_ece(id, &ece), -1);
	ece = (struct ibv_ece){.options = 6};
	assert_int_equal(rdma_set_local_ece(id, &ece), -1);
	assert_int_equal(rdma_get_remote_ece(id, &ece), 0);
	assert_int_equal(ece.vendor_id, 0);
	assert_int_equal(ece.options, 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(channel_without_events_does_not_wait),
		cmocka_unit_test(fresh_endpoint_knows_what_it_was_given),
		cmocka_unit_test(unknown_port_space_is_refused),
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(calls_out_of_turn_are_refused),
		cmocka_unit_test(events_follow_to_another_channel),
		cmocka_unit_test(endpoint_becomes_synchronous_and_back),
		cmocka_unit_test(unread_events_vanish),
		cmocka_unit_test(destroying_waits_for_acknowledgement),
		cmocka_unit_test(hearing_races_with_destroying),
		cmocka_unit_test(events_have_names),
		cmocka_unit_test(abilities_are_for_external_qps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
