/* SPDX-License-Identifier: BSD-2-Clause */
/* The link inside a process: everything arrives, in order, and is told when it waits. */
#include "unit/link/link_fixture.h"

#include <pthread.h>

static struct keeper keeper;
static struct send_batch batch;

static struct link *open_self(struct link_route *route)
{
	struct link_path path = {.source = address_of("127.66.11.1"),
				 .destination = address_of("127.66.11.2"),
				 .traffic_class = 5};
	struct link *link;

	assert_int_equal(link_self_open(&link), 0);
	assert_int_equal(link->ops->open_route(link, &path, route), 0);
	keeper_reset(&keeper);
	batch.message_count = batch.bytes_used = 0;
	return link;
}

static void says_what_it_is(void **state)
{
	struct link_route route;
	struct link *link = open_self(&route);

	(void)state;
	assert_string_equal(link->properties.name, "self");
	assert_true(link->properties.is_lossless && link->properties.is_internal);
	assert_int_equal(link->properties.payload_max, PACKET_MTU_MAX);
	assert_int_equal(link->ops->descriptor(link, 0), -1);
	link->ops->close(link);
}

static void all_arrives_in_order(void **state)
{
	struct link_route route;
	struct link *link = open_self(&route);
	uint32_t taken;

	(void)state;
	assert_true(link->ops->next_deadline(link) == VBN_TIME_NEVER);
	for (uint32_t i = 0; i < 50; i++)
		add_message(&batch, i, i * 16);
	link->ops->send(link, &route, &batch, 1);
	batch.message_count = batch.bytes_used = 0;
	add_message(&batch, 50, 4096);
	link->ops->send(link, &route, &batch, 1);
	assert_true(link->ops->next_deadline(link) == 0);
	taken = link->ops->receive(link, &keeper.sink, 20, 1);
	assert_int_equal(taken, 20);
	assert_true(link->ops->next_deadline(link) == 0);
	taken = link->ops->receive(link, &keeper.sink, 1000, 1);
	assert_int_equal(taken, 31);
	assert_true(link->ops->next_deadline(link) == VBN_TIME_NEVER);
	for (uint32_t i = 0; i < 51; i++) {
		assert_is_message(&keeper.kept[i].packet, i, i < 50 ? i * 16 : 4096);
		assert_memory_equal(&keeper.kept[i].packet.source, &route.path.source,
				    sizeof(route.path.source));
		assert_int_equal(keeper.kept[i].packet.traffic_class, 5);
	}
	link->ops->close(link);
}

/* There is no ICRC to find the damage that fault injection asks for. */
static void damage_is_dropped(void **state)
{
	struct link_route route;
	struct link *link = open_self(&route);

	(void)state;
	add_message(&batch, 1, 16);
	add_message(&batch, 2, 16);
	batch.messages[0].damaged_bit = 9;
	link->ops->send(link, &route, &batch, 1);
	assert_int_equal(link->ops->receive(link, &keeper.sink, 10, 1), 2);
	assert_int_equal(keeper.count, 1);
	assert_int_equal(number_of(&keeper.kept[0].packet), 2);
	assert_int_equal(keeper.drops[REASON_DROP_ICRC], 1);
	link->ops->close(link);
}

static void what_is_queued_is_freed(void **state)
{
	struct link_route route;
	struct link *link = open_self(&route);

	(void)state;
	add_message(&batch, 1, 16);
	link->ops->send(link, &route, &batch, 1);
	link->ops->close(link);
}

#define SENDERS 3
#define SENT 1000

struct sender {
	struct link *link;
	const struct link_route *route;
	uint32_t first;
	struct send_batch batch;
	pthread_t thread;
};

static void *send_many(void *argument)
{
	struct sender *sender = argument;

	for (uint32_t i = 0; i < SENT; i++) {
		sender->batch.message_count = sender->batch.bytes_used = 0;
		add_message(&sender->batch, sender->first + i, 32);
		sender->link->ops->send(sender->link, sender->route, &sender->batch, 1);
	}
	return NULL;
}

/* Any number of threads send while one receives; each one's packets stay in order. */
static void threads_send_at_once(void **state)
{
	static struct sender senders[SENDERS];
	uint32_t next[SENDERS] = {0};
	struct link_route route;
	struct link *link = open_self(&route);

	(void)state;
	for (uint32_t i = 0; i < SENDERS; i++) {
		senders[i].link = link;
		senders[i].route = &route;
		senders[i].first = i << 16;
		assert_int_equal(pthread_create(&senders[i].thread, NULL, send_many, &senders[i]),
				 0);
	}
	receive_until(link, &keeper, SENDERS * SENT);
	for (uint32_t i = 0; i < SENDERS; i++)
		pthread_join(senders[i].thread, NULL);
	for (uint32_t i = 0; i < keeper.count; i++) {
		uint32_t number = number_of(&keeper.kept[i].packet);

		assert_true(number >> 16 < SENDERS);
		assert_int_equal(number & 0xffff, next[number >> 16]++);
	}
	link->ops->close(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_what_it_is),	cmocka_unit_test(all_arrives_in_order),
		cmocka_unit_test(damage_is_dropped),	cmocka_unit_test(what_is_queued_is_freed),
		cmocka_unit_test(threads_send_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
