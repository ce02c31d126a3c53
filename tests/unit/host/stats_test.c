/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rooms of statistics: what an owner writes is what readers find, and nothing else that may
 * stand there leads a reader astray.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "host/stats.h"

#define SLOT 5u
#define GENERATION 6u
#define CHANGES 20000u

struct place {
	struct registry registry;
	struct stats_room *room;
	const struct stats_room *view;
};

static int make_place(void **state)
{
	static struct place place;

	assert_int_equal(registry_create(&place.registry), 0);
	place.room = stats_room_open(place.registry.fd, SLOT, GENERATION);
	place.view = stats_room_look(place.registry.fd, SLOT);
	assert_non_null(place.room);
	assert_non_null(place.view);
	*state = &place;
	return 0;
}

static int free_place(void **state)
{
	struct place *place = *state;

	stats_room_close(place->room);
	stats_room_look_away(place->view);
	registry_unmap(&place->registry);
	close(place->registry.fd);
	return 0;
}

/* All fields follow from one number, so that a mixture of two shows. */
static struct stats_qp_facts facts_of(uint32_t number)
{
	struct stats_qp_facts facts = {.number = number & 0xffffff,
				       .dest_number = number & 0xffffff,
				       .type = (uint8_t)number,
				       .state = (uint8_t)number,
				       .link = "udp"};

	memset(facts.local, (int)(number & 0xff), sizeof(facts.local));
	memset(facts.remote, (int)(number & 0xff), sizeof(facts.remote));
	return facts;
}

static void assert_facts(const struct stats_qp_facts *facts, uint32_t number)
{
	struct stats_qp_facts expected = facts_of(number);

	/* Not as one piece of memory: there may be padding between them. */
	assert_int_equal(facts->number, expected.number);
	assert_int_equal(facts->dest_number, expected.dest_number);
	assert_int_equal(facts->type, expected.type);
	assert_int_equal(facts->state, expected.state);
	assert_memory_equal(facts->local, expected.local, sizeof(expected.local));
	assert_memory_equal(facts->remote, expected.remote, sizeof(expected.remote));
	assert_string_equal(facts->link, expected.link);
}

static void rooms_of_slots_do_not_touch(void **state)
{
	struct place *place = *state;
	struct stats_room *next = stats_room_open(place->registry.fd, SLOT + 1, GENERATION);
	struct stats_process_values values;

	assert_non_null(next);
	memset(next, 0xff, REGISTRY_STATS_BYTES);
	assert_int_equal(stats_read_process(place->view, GENERATION, &values), STATS_READ);
	assert_int_equal(values.sent, 0);
	memset(place->room, 0, REGISTRY_STATS_BYTES);
	assert_int_equal(((uint8_t *)next)[0], 0xff);
	stats_room_close(next);
	assert_null(stats_room_look(place->registry.fd, HOST_SLOTS));
}

static void a_process_is_shown_as_it_counts(void **state)
{
	struct place *place = *state;
	struct stats_head *head = &place->room->head;
	struct stats_process_values values;

	atomic_store(&head->process.sent, 7);
	atomic_store(&head->process.received[REASON_DROP_ICRC], 3);
	atomic_store(&head->qp_count, 2);
	atomic_store(&head->entry_count, 4);
	assert_int_equal(stats_read_process(place->view, GENERATION, &values), STATS_READ);
	assert_int_equal(values.sent, 7);
	assert_int_equal(values.received[REASON_DROP_ICRC], 3);
	assert_int_equal(values.received[REASON_NONE], 0);
	assert_int_equal(values.qp_count, 2);
	assert_int_equal(values.entry_count, 4);
}

static void a_qp_is_shown_from_its_begin_to_its_end(void **state)
{
	struct place *place = *state;
	struct stats_qp *entry = &place->room->qps[STATS_QPS - 1];
	struct stats_qp_facts facts = facts_of(0x123456);
	struct stats_qp_values values;

	assert_int_equal(stats_read_qp(place->view, STATS_QPS - 1, &values), STATS_EMPTY);
	qp_counters_add(&entry->counters, QP_SENT_PKTS, 99);
	stats_qp_begin(entry, &facts);
	qp_counters_add(&entry->counters, QP_SENT_BYTES, 11);
	assert_int_equal(stats_read_qp(place->view, STATS_QPS - 1, &values), STATS_READ);
	assert_facts(&values.facts, 0x123456);
	assert_int_equal(values.counters[QP_SENT_PKTS], 0);
	assert_int_equal(values.counters[QP_SENT_BYTES], 11);

	facts = facts_of(0x654321);
	stats_qp_change(entry, &facts);
	stats_qp_set_state(entry, 6);
	assert_int_equal(stats_read_qp(place->view, STATS_QPS - 1, &values), STATS_READ);
	assert_int_equal(values.facts.number, 0x654321);
	assert_int_equal(values.facts.state, 6);
	assert_int_equal(values.counters[QP_SENT_BYTES], 11);

	stats_qp_end(entry);
	assert_int_equal(stats_read_qp(place->view, STATS_QPS - 1, &values), STATS_EMPTY);
	assert_int_equal(stats_read_qp(place->view, STATS_QPS, &values), STATS_EMPTY);
}

/* What a dead member left is nobody's, until the next one has taken the room over. */
static void only_the_owner_of_now_is_shown(void **state)
{
	struct place *place = *state;
	struct stats_process_values values;
	struct stats_room *room;

	atomic_store(&place->room->head.process.sent, 1000);
	atomic_store(&place->room->head.entry_count, 10);
	assert_int_equal(stats_read_process(place->view, GENERATION + 4, &values), STATS_EMPTY);
	room = stats_room_open(place->registry.fd, SLOT, GENERATION + 4);
	assert_int_equal(stats_read_process(place->view, GENERATION, &values), STATS_EMPTY);
	assert_int_equal(stats_read_process(place->view, GENERATION + 4, &values), STATS_READ);
	assert_int_equal(values.sent, 0);
	assert_int_equal(values.entry_count, 0);
	stats_room_close(room);
}

static void another_format_is_told_apart(void **state)
{
	struct place *place = *state;
	struct stats_process_values values;

	atomic_fetch_add(&place->room->head.format, 2);
	assert_int_equal(stats_read_process(place->view, GENERATION, &values), STATS_DIFFERENT);
}

/* Whatever bytes stand there, numbers stay in their limits and texts end. */
static void garbage_is_harmless(void **state)
{
	struct place *place = *state;
	uint32_t format = atomic_load(&place->room->head.format);
	struct stats_process_values process;
	struct stats_qp_values values;

	for (unsigned fill = 0; fill < 256; fill += 5) {
		memset(place->room, (int)fill, REGISTRY_STATS_BYTES);
		atomic_store(&place->room->head.format, format);
		atomic_store(&place->room->head.owner, GENERATION);
		assert_int_equal(stats_read_process(place->view, GENERATION, &process), STATS_READ);
		assert_true(process.entry_count <= STATS_QPS);
		for (uint32_t i = 0; i < process.entry_count; i++) {
			if (stats_read_qp(place->view, i, &values) != STATS_READ)
				continue;
			assert_true(values.facts.number <= 0xffffff);
			assert_true(values.facts.dest_number <= 0xffffff);
			assert_true(strlen(values.facts.link) < STATS_LINK_BYTES);
		}
	}
}

static void *change_often(void *context)
{
	struct stats_qp *entry = context;

	for (uint32_t i = 1; i <= CHANGES; i++) {
		struct stats_qp_facts facts = facts_of(i);

		stats_qp_change(entry, &facts);
	}
	return NULL;
}

/* Of a QP that changes all the time a reader gets whole facts, or none. */
static void facts_are_never_mixed(void **state)
{
	struct place *place = *state;
	struct stats_qp *entry = &place->room->qps[0];
	struct stats_qp_facts facts = facts_of(1);
	struct stats_qp_values values = {.facts.number = 0};
	pthread_t writer;

	stats_qp_begin(entry, &facts);
	assert_int_equal(pthread_create(&writer, NULL, change_often, entry), 0);
	while (values.facts.number != CHANGES)
		if (stats_read_qp(place->view, 0, &values) == STATS_READ)
			assert_facts(&values.facts, values.facts.number);
	pthread_join(writer, NULL);
}

static void private_memory_serves_as_well(void **state)
{
	struct stats_room *room = stats_room_private();
	struct stats_qp_facts facts = facts_of(9);
	struct stats_qp_values values;

	(void)state;
	assert_non_null(room);
	stats_qp_begin(&room->qps[STATS_QPS - 1], &facts);
	assert_int_equal(stats_read_qp(room, STATS_QPS - 1, &values), STATS_READ);
	assert_facts(&values.facts, 9);
	stats_room_close(room);
}

/* As a forked child does: it goes on counting, and the parent's numbers do not move. */
static void a_detached_room_is_ones_own(void **state)
{
	struct place *place = *state;
	struct stats_process_values values;

	atomic_store(&place->room->head.process.sent, 5);
	stats_room_detach(place->room);
	atomic_store(&place->room->head.process.sent, 6);
	assert_int_equal(stats_read_process(place->view, GENERATION, &values), STATS_READ);
	assert_int_equal(values.sent, 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, free_place)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rooms_of_slots_do_not_touch),
		TEST(a_process_is_shown_as_it_counts),
		TEST(a_qp_is_shown_from_its_begin_to_its_end),
		TEST(only_the_owner_of_now_is_shown),
		TEST(another_format_is_told_apart),
		TEST(garbage_is_harmless),
		TEST(facts_are_never_mixed),
		cmocka_unit_test(private_memory_serves_as_well),
		TEST(a_detached_room_is_ones_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
