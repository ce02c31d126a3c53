/* SPDX-License-Identifier: BSD-2-Clause */
/* Fault injection around a real link, under a time of our own. */
#include "unit/link/link_fixture.h"

#include <errno.h>

#include "wire/mad.h"
#include "wire/opcode.h"
#include "wire/packet.h"

#define PACKETS 1000
#define MS VBN_MILLISECOND

static struct keeper keeper;
static struct send_batch batch;

static struct link *open_fault(const char *spec, struct link_route *route)
{
	struct link_path path = {.source = address_of("127.66.12.1"),
				 .destination = address_of("127.66.12.2")};
	struct link *inner, *link;

	assert_int_equal(link_self_open(&inner), 0);
	assert_int_equal(link_fault_open(inner, spec, &link), 0);
	assert_int_equal(link->ops->open_route(link, &path, route), 0);
	keeper_reset(&keeper);
	return link;
}

static void send_packets(struct link *link, const struct link_route *route, uint32_t first,
			 uint32_t count, vbn_time now)
{
	for (uint32_t i = 0; i < count; i++) {
		batch.message_count = batch.bytes_used = 0;
		add_message(&batch, first + i, 32);
		link->ops->send(link, route, &batch, now);
	}
}

static void receive_all(struct link *link, vbn_time now)
{
	while (link->ops->receive(link, &keeper.sink, 64, now))
		;
}

static void without_faults_nothing_changes(void **state)
{
	struct link_route route;
	struct link *link = open_fault("", &route);

	(void)state;
	assert_false(link->properties.is_lossless);
	assert_true(link->ops->next_deadline(link) == VBN_TIME_NEVER);
	send_packets(link, &route, 0, PACKETS, MS);
	receive_all(link, MS);
	assert_int_equal(keeper.count, PACKETS);
	for (uint32_t i = 0; i < PACKETS; i++)
		assert_is_message(&keeper.kept[i].packet, i, 32);
	link->ops->close(link);
}

static void losses_repeat_with_the_seed(void **state)
{
	static uint32_t first[PACKETS], first_count;
	struct link_route route;

	(void)state;
	for (int round = 0; round < 3; round++) {
		struct link *link =
			open_fault(round < 2 ? "loss=20%,seed=5" : "loss=20%,seed=6", &route);
		bool is_same = true;

		send_packets(link, &route, 0, PACKETS, MS);
		receive_all(link, MS);
		assert_in_range(keeper.count, 740, 860);
		if (round == 0)
			first_count = keeper.count;
		for (uint32_t i = 0; i < keeper.count && i < first_count; i++) {
			uint32_t number = number_of(&keeper.kept[i].packet);

			if (round == 0)
				first[i] = number;
			is_same &= first[i] == number;
		}
		assert_int_equal(round == 1 ? keeper.count == first_count && is_same : true, true);
		if (round == 2)
			assert_false(is_same);
		link->ops->close(link);
	}
}

/* A management datagram of @mgmt_class; number_of() tells which it is. */
static void send_management(struct link *link, const struct link_route *route, uint8_t mgmt_class,
			    uint32_t number)
{
	const struct packet packet = {.opcode = SERVICE_UD << 5 | OPCODE_SEND_ONLY,
				      .dest_qpn = MAD_QPN,
				      .psn = number,
				      .deth = {.qkey = MAD_QKEY, .source_qpn = MAD_QPN},
				      .payload_bytes = MAD_BYTES};
	const struct mad_header header = {.base_version = MAD_BASE_VERSION,
					  .mgmt_class = mgmt_class};
	uint32_t length = (uint32_t)packet_emit_header(&packet, batch.bytes);

	memset(batch.bytes + length, 0, MAD_BYTES);
	mad_emit(&header, batch.bytes + length);
	batch.message_count = 1;
	batch.messages[0] = (struct send_message){.length = length + MAD_BYTES};
	batch.bytes_used = length + MAD_BYTES + ICRC_BYTES;
	link->ops->send(link, route, &batch, MS);
}

/* Only messages of the connection manager are lost and counted. */
static void chosen_messages_are_lost(void **state)
{
	static const uint32_t left[] = {100, 0, 101, 1, 2, 3, 4, 102, 8, 9};
	struct link_route route;
	struct link *link = open_fault("cm_loss=2..3", &route);

	(void)state;
	send_packets(link, &route, 100, 1, MS);
	send_management(link, &route, MAD_CLASS_CM, 0);
	send_packets(link, &route, 101, 1, MS);
	for (uint32_t i = 1; i < 5; i++)
		send_management(link, &route, MAD_CLASS_VENDOR_FIRST, i);
	send_packets(link, &route, 102, 1, MS);
	for (uint32_t i = 6; i < 10; i++)
		send_management(link, &route, MAD_CLASS_CM, i);
	receive_all(link, MS);
	assert_int_equal(keeper.count, sizeof(left) / sizeof(left[0]));
	for (uint32_t i = 0; i < keeper.count; i++)
		assert_int_equal(number_of(&keeper.kept[i].packet), left[i]);
	link->ops->close(link);
}

static void repeated_packets_come_twice(void **state)
{
	struct link_route route;
	struct link *link = open_fault("dup=100%,seed=1", &route);
	uint32_t seen[100] = {0};

	(void)state;
	send_packets(link, &route, 0, 100, MS);
	receive_all(link, MS);
	assert_int_equal(keeper.count, 200);
	for (uint32_t i = 0; i < 200; i++)
		seen[number_of(&keeper.kept[i].packet)]++;
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(seen[i], 2);
	link->ops->close(link);
}

static void damaged_packets_are_dropped(void **state)
{
	struct link_route route;
	struct link *link = open_fault("corrupt=10%,seed=1", &route);

	(void)state;
	send_packets(link, &route, 0, PACKETS, MS);
	receive_all(link, MS);
	assert_int_equal(keeper.count + keeper.drops[REASON_DROP_ICRC], PACKETS);
	assert_in_range(keeper.drops[REASON_DROP_ICRC], 60, 140);
	link->ops->close(link);
}

/* The same over UDP, where the bit is really flipped and the ICRC finds it. */
static void damage_on_the_wire_is_found(void **state)
{
	static const struct link_udp_options options;
	struct link_address local = address_of("127.66.12.1");
	struct link_path path = {.source = local, .destination = local};
	struct link *inner, *link;
	struct link_route route;

	(void)state;
	assert_int_equal(link_udp_open(&local, &options, &inner), 0);
	assert_int_equal(link_fault_open(inner, "corrupt=50%,seed=1", &link), 0);
	assert_int_equal(link->ops->open_route(link, &path, &route), 0);
	keeper_reset(&keeper);
	for (uint64_t i = 0; i < 10; i++) {
		send_packets(link, &route, 0, 20, time_now());
		receive_until(link, &keeper, 20 * (i + 1));
	}
	assert_int_equal(keeper.count + keeper.drops[REASON_DROP_ICRC], 200);
	assert_in_range(keeper.drops[REASON_DROP_ICRC], 60, 140);
	for (uint32_t i = 0; i < keeper.count; i++) {
		/* The ICRC leaves out byte 4, which routers may change. */
		keeper.kept[i].bytes[4] = 0;
		assert_is_message(&keeper.kept[i].packet, number_of(&keeper.kept[i].packet), 32);
	}
	link->ops->close(link);
}

static void delayed_packets_wait_and_keep_their_order(void **state)
{
	struct link_route route;
	struct link *link = open_fault("delay=5ms,seed=1", &route);

	(void)state;
	send_packets(link, &route, 0, 10, 100 * MS);
	send_packets(link, &route, 10, 10, 102 * MS);
	assert_true(link->ops->next_deadline(link) == 105 * MS);
	receive_all(link, 105 * MS - 1);
	assert_int_equal(keeper.count, 0);
	receive_all(link, 105 * MS);
	assert_int_equal(keeper.count, 10);
	assert_true(link->ops->next_deadline(link) == 107 * MS);
	receive_all(link, 200 * MS);
	assert_int_equal(keeper.count, 20);
	assert_true(link->ops->next_deadline(link) == VBN_TIME_NEVER);
	for (uint32_t i = 0; i < 20; i++)
		assert_is_message(&keeper.kept[i].packet, i, 32);
	link->ops->close(link);
}

/* All come, some later than others that were sent after them. */
static void reordered_packets_all_come(void **state)
{
	struct link_route route;
	struct link *link = open_fault("reorder=20%,reorder_by=1ms,seed=1", &route);
	uint32_t inversions = 0, seen[PACKETS] = {0};

	(void)state;
	for (uint32_t i = 0; i < PACKETS; i++) {
		vbn_time now = 100 * MS + i * 10 * VBN_MICROSECOND;

		send_packets(link, &route, i, 1, now);
		receive_all(link, now);
	}
	receive_all(link, 200 * MS);
	assert_int_equal(keeper.count, PACKETS);
	for (uint32_t i = 0; i < PACKETS; i++) {
		seen[number_of(&keeper.kept[i].packet)]++;
		inversions += i && number_of(&keeper.kept[i].packet) <
					   number_of(&keeper.kept[i - 1].packet);
	}
	for (uint32_t i = 0; i < PACKETS; i++)
		assert_int_equal(seen[i], 1);
	assert_in_range(inversions, 100, 400);
	link->ops->close(link);
}

/* --- around a link that keeps what it is told of a message --- */

static uint32_t lent_count, carried_count;

static void count_messages(struct link *link, const struct link_route *route,
			   struct send_batch *sent, vbn_time now)
{
	(void)link;
	(void)route;
	(void)now;
	for (uint32_t i = 0; i < sent->message_count; i++)
		*(sent->messages[i].is_lent ? &lent_count : &carried_count) += 1;
}

static uint32_t receive_nothing(struct link *link, struct link_sink *sink, uint32_t budget,
				vbn_time now)
{
	(void)link;
	(void)sink;
	(void)budget;
	(void)now;
	return 0;
}

static void close_nothing(struct link *link)
{
	(void)link;
}

/* Taken for payload, what says where that lies would be a message of 16 bytes. */
static void late_and_repeated_packets_stay_lent(void **state)
{
	static const struct link_ops ops = {
		.send = count_messages, .receive = receive_nothing, .close = close_nothing};
	struct link inner = {.ops = &ops}, *link;
	const struct link_route route = {.sender = 0};

	(void)state;
	lent_count = carried_count = 0;
	assert_int_equal(link_fault_open(&inner, "dup=100%,delay=5ms,seed=1", &link), 0);
	for (uint32_t i = 0; i < 10; i++) {
		batch.message_count = batch.bytes_used = 0;
		add_message(&batch, i, 16);
		batch.messages[0].is_lent = i % 2;
		link->ops->send(link, &route, &batch, 100 * MS);
	}
	receive_all(link, 200 * MS);
	assert_int_equal(lent_count, 10);
	assert_int_equal(carried_count, 10);
	link->ops->close(link);
}

static void what_waits_is_bounded_and_freed(void **state)
{
	struct link_route route;
	struct link *link = open_fault("delay=1s", &route);

	(void)state;
	send_packets(link, &route, 0, 5000, MS);
	receive_all(link, 2 * VBN_SECOND);
	assert_int_equal(keeper.count, 4096);
	send_packets(link, &route, 0, 5, 2 * VBN_SECOND);
	link->ops->close(link);
}

static void a_bad_plan_is_refused(void **state)
{
	struct link *inner, *link;
	char why[160];

	(void)state;
	assert_false(link_fault_check("loss=200%", why, sizeof(why)));
	assert_true(link_fault_check("loss=2%", why, sizeof(why)));
	assert_int_equal(link_self_open(&inner), 0);
	assert_int_equal(link_fault_open(inner, "loss=200%", &link), -EINVAL);
	inner->ops->close(inner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_faults_nothing_changes),
		cmocka_unit_test(losses_repeat_with_the_seed),
		cmocka_unit_test(chosen_messages_are_lost),
		cmocka_unit_test(repeated_packets_come_twice),
		cmocka_unit_test(damaged_packets_are_dropped),
		cmocka_unit_test(damage_on_the_wire_is_found),
		cmocka_unit_test(delayed_packets_wait_and_keep_their_order),
		cmocka_unit_test(reordered_packets_all_come),
		cmocka_unit_test(late_and_repeated_packets_stay_lent),
		cmocka_unit_test(what_waits_is_bounded_and_freed),
		cmocka_unit_test(a_bad_plan_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
