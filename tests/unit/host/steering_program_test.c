/* SPDX-License-Identifier: BSD-2-Clause */
/* What steering programs say of datagrams for QP 1, by an interpreter. */
#include "unit/host/management_packets.h"
#include "unit/host/members.h"

#include "base/byte_order.h"
#include "base/random.h"

static struct steering_plan plan;
static struct sock_filter program[STEERING_PROGRAM_MAX];
static uint32_t program_length;

static uint32_t answer_to(const uint8_t *packet, uint32_t bytes)
{
	return run_program(program, program_length, packet, bytes);
}

static uint32_t expected_of(uint32_t slot)
{
	return slot < HOST_SLOTS && host_slot_set_has(&plan.members, slot) ? slot : plan.manager;
}

static uint32_t listener_of(uint64_t service_id)
{
	for (uint32_t i = 0; i < plan.listener_count; i++)
		if (plan.listeners[i].service_id == service_id)
			return plan.listeners[i].slot;
	return plan.manager;
}

/* @per_slot listeners at each member, of service ids that differ. */
static void make_plan(struct random_stream *numbers, uint32_t per_slot)
{
	plan.members =
		(struct host_slot_set){{random_next(numbers) | 1ull << 9, random_next(numbers)}};
	do {
		plan.manager = (uint32_t)random_below(numbers, HOST_SLOTS);
	} while (!host_slot_set_has(&plan.members, plan.manager));
	plan.listener_count = 0;
	for (uint32_t slot = 0; slot < HOST_SLOTS; slot++)
		for (uint32_t i = 0; host_slot_set_has(&plan.members, slot) && i < per_slot &&
				     plan.listener_count < STEERING_PROGRAM_MAX;
		     i++) {
			uint32_t n = plan.listener_count++;

			plan.listeners[n] = (struct steering_listener){
				slot, (uint32_t)host_service_id(HOST_PORT_SPACE_TCP,
								(uint16_t)(1000 + n))};
		}
	program_length = steering_program(&plan, program, STEERING_PROGRAM_MAX);
	assert_true(program_length <= STEERING_PROGRAM_MAX);
}

static void check_messages(struct random_stream *numbers)
{
	uint8_t packet[DATAGRAM_BYTES];

	for (uint32_t attribute = 0; attribute < 0x20; attribute++) {
		uint32_t slot = (uint32_t)random_below(numbers, HOST_SLOTS);
		uint32_t other = (uint32_t)random_below(numbers, HOST_SLOTS);
		bool is_message = attribute >= MRA && attribute <= APR && attribute != SIDR_REQ;

		fill_message(packet, (enum attribute)attribute, slot, other);
		if (attribute == REQ || attribute == SIDR_REQ)
			continue;
		assert_int_equal(answer_to(packet, DATAGRAM_BYTES),
				 is_message ? expected_of(slot) : plan.manager);
		/* Another class, another opcode: these bytes mean nothing. */
		packet[21] = 4;
		assert_int_equal(answer_to(packet, DATAGRAM_BYTES), plan.manager);
		packet[21] = 7;
		packet[0] = 0x65;
		assert_int_equal(answer_to(packet, DATAGRAM_BYTES), plan.manager);
	}
}

static void check_answers(struct random_stream *numbers)
{
	uint8_t packet[DATAGRAM_BYTES];

	for (int i = 0; i < 20; i++) {
		uint32_t slot = (uint32_t)random_below(numbers, HOST_SLOTS);

		fill_management(packet, (uint8_t)random_next(numbers),
				(uint8_t)(0x80 | random_next(numbers)),
				(uint16_t)random_next(numbers));
		store_be64(packet + 28, host_transaction_id(slot, random_next(numbers)));
		assert_int_equal(answer_to(packet, DATAGRAM_BYTES), expected_of(slot));
		assert_int_equal(answer_to(packet, PACKET_BYTES - 1), plan.manager);
	}
}

static void check_requests(struct random_stream *numbers, uint32_t reachable)
{
	uint8_t packet[DATAGRAM_BYTES];

	for (uint32_t i = 0; i < reachable; i++) {
		uint64_t service_id = plan.listeners[i].service_id;

		fill_request(packet, i % 2 ? REQ : SIDR_REQ, service_id);
		assert_int_equal(answer_to(packet, DATAGRAM_BYTES), listener_of(service_id));
		store_be64(packet + 52, service_id | 1ull << (32 + random_below(numbers, 32)));
		assert_int_equal(answer_to(packet, DATAGRAM_BYTES), plan.manager);
		store_be64(packet + 52, service_id ^ 0x10000);
		assert_int_equal(answer_to(packet, DATAGRAM_BYTES), plan.manager);
	}
}

static void the_program_says_what_the_content_says(void **state)
{
	struct random_stream numbers = {.state = 3};

	(void)state;
	for (int round = 0; round < 200; round++) {
		make_plan(&numbers, (uint32_t)random_below(&numbers, 8));
		check_messages(&numbers);
		check_answers(&numbers);
		check_requests(&numbers, plan.listener_count);
	}
}

/* Runs longer than a conditional jump reaches, and programs that are full. */
static void the_program_holds_many_listeners(void **state)
{
	struct random_stream numbers = {.state = 4};
	uint8_t packet[DATAGRAM_BYTES];
	uint32_t most = 0;

	(void)state;
	for (uint32_t per_slot = 240; per_slot <= 520; per_slot += 20) {
		make_plan(&numbers, per_slot);
		/* All that fit, which are nearly as many as there are instructions. */
		while (most < plan.listener_count) {
			fill_request(packet, REQ, plan.listeners[most].service_id);
			if (answer_to(packet, DATAGRAM_BYTES) != plan.listeners[most].slot)
				break;
			most++;
		}
		assert_true(most > STEERING_PROGRAM_MAX - 200);
		for (uint32_t i = most; i < plan.listener_count; i++) {
			fill_request(packet, REQ, plan.listeners[i].service_id);
			assert_int_equal(answer_to(packet, DATAGRAM_BYTES), plan.manager);
		}
		check_messages(&numbers);
		most = 0;
	}
	/* Whatever room there is, it is kept, and something sound comes out. */
	for (uint32_t room = 100; room < 700; room += 7) {
		uint32_t length = steering_program(&plan, program, room);

		assert_in_range(length, room - 3, room);
		program_length = length;
		check_requests(&numbers, room > 105 ? 1 : 0);
		check_messages(&numbers);
	}
}

static void any_bytes_go_to_somebody_who_lives(void **state)
{
	struct random_stream numbers = {.state = 5};
	uint8_t packet[DATAGRAM_BYTES];

	(void)state;
	make_plan(&numbers, 3);
	for (int i = 0; i < 100000; i++) {
		uint32_t bytes = (uint32_t)random_below(&numbers, DATAGRAM_BYTES + 1);

		for (size_t at = 0; at + 4 <= DATAGRAM_BYTES; at += 4)
			store_be32(packet + at, (uint32_t)random_next(&numbers));
		if (i % 2)
			fill_management(packet, 7, (uint8_t)random_next(&numbers),
					(uint16_t)(random_next(&numbers) & 0x1f));
		packet[5] = packet[6] = 0;
		packet[7] = 1;
		assert_true(host_slot_set_has(&plan.members, answer_to(packet, bytes)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_says_what_the_content_says),
		cmocka_unit_test(the_program_holds_many_listeners),
		cmocka_unit_test(any_bytes_go_to_somebody_who_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
