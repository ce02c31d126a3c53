/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The link between processes of a host, with several of its links on one memory: everything arrives, in
 * order, also what a ring has no room for; the dead and their successors are told apart. Who sleeps and
 * who wakes is in shm_sleep_test.c.
 */
#include "unit/link/shm_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

_Alignas(4096) uint8_t shm_rings[ENDS_MAX][ENDS_MAX][LINK_SHM_RING_BYTES];

static struct keeper keeper;
static struct end a, b;
static struct link_route a_to_b, b_to_a;

static int open_two(void **state)
{
	(void)state;
	memset(shm_rings, 0, sizeof(shm_rings));
	keeper_reset(&keeper);
	end_open(&a, 0, 11);
	end_open(&b, 1, 21);
	ends_connect(&a, &b);
	a_to_b = end_route(&a, &b);
	b_to_a = end_route(&b, &a);
	return 0;
}

static int close_two(void **state)
{
	(void)state;
	end_close(&a);
	end_close(&b);
	return 0;
}

static void says_what_it_is(void **state)
{
	const struct link_properties *properties = &a.link->properties;

	(void)state;
	assert_string_equal(properties->name, "shm");
	assert_true(properties->is_lossless && properties->sends_for_nothing);
	assert_false(properties->is_internal);
	assert_int_equal(properties->payload_max, PACKET_MTU_MAX);
	assert_true(properties->flow_bytes_max >= 8 * PACKET_MTU_MAX);
	assert_int_equal(a.link->ops->descriptor(a.link, time_now()), a.wake.fd);
	assert_true(a.link->ops->next_deadline(a.link) == VBN_TIME_NEVER);
}

static void expect_messages(uint32_t first, uint32_t count, uint32_t payload)
{
	assert_int_equal(keeper.count, count);
	for (uint32_t i = 0; i < count; i++)
		assert_is_message(&keeper.kept[i].packet, first + i, payload);
	keeper.count = 0;
}

static void all_arrives_in_order(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 50; i++)
		end_send(&a, &a_to_b, i, i * 16);
	assert_int_equal(end_receive(&b, &keeper, 20), 20);
	assert_int_equal(end_receive(&b, &keeper, 1000), 30);
	assert_int_equal(end_receive(&b, &keeper, 1000), 0);
	for (uint32_t i = 0; i < 50; i++) {
		const struct link_packet *packet = &keeper.kept[i].packet;

		assert_is_message(packet, i, i * 16);
		assert_memory_equal(&packet->source, &a_to_b.path.source, sizeof(packet->source));
		assert_memory_equal(&packet->destination, &a_to_b.path.destination,
				    sizeof(packet->destination));
		assert_int_equal(packet->traffic_class, 5);
		assert_int_equal(packet->hop_limit, 7);
		assert_true(packet->is_shared);
	}
	assert_int_equal(end_receive(&a, &keeper, 10), 0);
}

/* A full batch, and the longest packet there is. */
static void batches_arrive(void **state)
{
	static struct send_batch batch;

	(void)state;
	batch.message_count = batch.bytes_used = 0;
	for (uint32_t i = 0; i < SEND_BATCH_MESSAGES; i++)
		add_message(&batch, i, 512);
	b.link->ops->send(b.link, &b_to_a, &batch, 1);
	assert_int_equal(end_receive(&a, &keeper, 1000), SEND_BATCH_MESSAGES);
	expect_messages(0, SEND_BATCH_MESSAGES, 512);
	batch.message_count = batch.bytes_used = 0;
	add_message(&batch, 0, 4096 + 32);
	batch.messages[0].length = RING_PACKET_BYTES_MAX;
	b.link->ops->send(b.link, &b_to_a, &batch, 1);
	assert_int_equal(end_receive(&a, &keeper, 1000), 1);
	assert_int_equal(keeper.kept[0].packet.length, RING_PACKET_BYTES_MAX);
	/* There is none of this length; it would not be understood. */
	batch.messages[0].length = RING_PACKET_BYTES_MAX + 1;
	b.link->ops->send(b.link, &b_to_a, &batch, 1);
	assert_int_equal(end_receive(&a, &keeper, 1000), 0);
	end_send(&b, &b_to_a, 2, 64);
	assert_int_equal(end_receive(&a, &keeper, 1000), 1);
}

static void damage_is_dropped(void **state)
{
	static struct send_batch batch;

	(void)state;
	batch.message_count = batch.bytes_used = 0;
	add_message(&batch, 1, 16);
	add_message(&batch, 2, 16);
	batch.messages[0].damaged_bit = 9;
	a.link->ops->send(a.link, &a_to_b, &batch, 1);
	assert_int_equal(end_receive(&b, &keeper, 10), 2);
	assert_int_equal(keeper.drops[REASON_DROP_ICRC], 1);
	expect_messages(2, 1, 16);
}

/* Damage that has to wait for room is damage still. */
static void damage_waits_too(void **state)
{
	static struct send_batch batch;
	uint32_t sent;

	(void)state;
	for (sent = 0; sent < 100; sent++)
		end_send(&a, &a_to_b, sent, 4096);
	batch.message_count = batch.bytes_used = 0;
	add_message(&batch, sent, 16);
	batch.messages[0].damaged_bit = 1;
	a.link->ops->send(a.link, &a_to_b, &batch, 1);
	while (end_receive(&b, &keeper, 1000))
		end_receive(&a, &keeper, 1);
	assert_int_equal(keeper.drops[REASON_DROP_ICRC], 1);
	expect_messages(0, 100, 4096);
}

#define CROWD 3000u

/* Thirty times what the ring has room for; the reader is late, and takes it piece by piece. */
static void a_full_ring_loses_nothing(void **state)
{
	bool is_sent = false;

	(void)state;
	for (uint32_t i = 0; i < CROWD; i++)
		end_send(&a, &a_to_b, i, i % 1024 * 4);
	while (keeper.count < CROWD + 1) {
		assert_true(end_receive(&b, &keeper, 7) > 0);
		/* What is sent meanwhile stands at the end. */
		if (keeper.count > 700 && !is_sent) {
			end_send(&a, &a_to_b, CROWD, 64);
			is_sent = true;
		}
		end_receive(&a, &keeper, 1);
	}
	for (uint32_t i = 0; i < CROWD; i++)
		assert_is_message(&keeper.kept[i].packet, i, i % 1024 * 4);
	assert_is_message(&keeper.kept[CROWD].packet, CROWD, 64);
}

/* A sender moves its list along by sending, too. */
static void sending_moves_what_waits(void **state)
{
	uint32_t sent = 0;

	(void)state;
	while (sent < 100)
		end_send(&a, &a_to_b, sent++, 4096);
	for (; keeper.count < 100; sent++) {
		end_receive(&b, &keeper, 64);
		end_send(&a, &a_to_b, sent, 4096);
	}
	while (end_receive(&b, &keeper, 64))
		end_receive(&a, &keeper, 1);
	expect_messages(0, sent, 4096);
}

static void count_packet(struct link_sink *sink, const struct link_packet *packet)
{
	struct keeper *counting = (struct keeper *)sink;

	assert_int_equal(number_of(packet), counting->count);
	counting->count++;
}

/* What waits has a limit. What is beyond it is lost, and nothing of what is before it. */
static void too_much_is_lost(void **state)
{
	const uint32_t sent = (64u << 20) / (4096 + BTH_BYTES) + 1000;

	(void)state;
	keeper.sink.deliver = count_packet;
	for (uint32_t i = 0; i < sent; i++)
		end_send(&a, &a_to_b, i, 4096);
	while (end_receive(&b, &keeper, 64))
		end_receive(&a, &keeper, 1);
	assert_in_range(keeper.count, sent - 1000, sent - 900);
	/* It goes on behind the gap. */
	end_send(&a, &a_to_b, keeper.count, 4096);
	assert_int_equal(end_receive(&b, &keeper, 64), 1);
}

static void what_waits_is_freed(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 100; i++)
		end_send(&a, &a_to_b, i, 4096);
}

/* --- in place --- */

/* Nobody sees it before it is committed, and what is given up was never there. */
static void what_is_made_in_place_arrives(void **state)
{
	const struct link_ops *ops = a.link->ops;
	struct link_outlet *outlet;
	uint8_t *place;

	(void)state;
	for (uint32_t i = 0; i < 500; i++) {
		static struct send_batch made;
		uint32_t payload = i % 700 * 4;

		end_give_up(&a, &a_to_b, BTH_BYTES + i * 37 % 4096);
		made.message_count = made.bytes_used = 0;
		add_message(&made, i, payload);
		outlet = ops->begin(a.link, &a_to_b);
		assert_non_null(outlet);
		place = ops->room(outlet, RING_PACKET_BYTES_MAX);
		assert_non_null(place);
		memcpy(place, made.bytes, BTH_BYTES + payload);
		assert_int_equal(end_receive(&b, &keeper, 10), 0);
		ops->commit(outlet, &a_to_b, BTH_BYTES + payload, false);
		assert_int_equal(end_receive(&b, &keeper, 10), 1);
		ops->end(a.link, outlet);
		assert_int_equal(keeper.kept[0].packet.length, BTH_BYTES + payload);
		assert_int_equal(keeper.kept[0].packet.traffic_class, 5);
		expect_messages(i, 1, payload);
	}
	assert_int_equal(end_receive(&b, &keeper, 10), 0);
}

/* As in a batch: behind what has no room nothing else goes before it has left. */
static void in_place_nothing_overtakes(void **state)
{
	uint32_t sent = 0;

	(void)state;
	while (end_send_in_place(&a, &a_to_b, sent, 4096))
		sent++;
	end_send(&a, &a_to_b, sent++, 4096);
	/* A short one would have room. */
	assert_false(end_send_in_place(&a, &a_to_b, sent, 16));
	end_receive(&b, &keeper, 1000);
	assert_false(end_send_in_place(&a, &a_to_b, sent, 16));
	end_receive(&a, &keeper, 1);
	assert_true(end_send_in_place(&a, &a_to_b, sent++, 4096));
	end_receive(&b, &keeper, 1000);
	expect_messages(0, sent, 4096);
}

static void a_crowd_goes_either_way(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < CROWD; i++) {
		end_send_either_way(&a, &a_to_b, i, i % 1024 * 4);
		if (i % 3 == 0)
			end_receive(&b, &keeper, 4);
		if (i % 700 == 0)
			end_receive(&a, &keeper, 1);
	}
	while (end_receive(&b, &keeper, 7))
		end_receive(&a, &keeper, 1);
	assert_int_equal(keeper.count, CROWD);
	for (uint32_t i = 0; i < CROWD; i++)
		assert_is_message(&keeper.kept[i].packet, i, i % 1024 * 4);
}

/* --- packets whose payload is lent --- */

static void send_lent(uint32_t number, uint32_t payload, bool is_lent)
{
	static struct send_batch made;

	made.message_count = made.bytes_used = 0;
	add_message(&made, number, payload);
	made.messages[0].is_lent = is_lent;
	a.link->ops->send(a.link, &a_to_b, &made, 1);
}

/* One of each three. */
static void expect_lent(uint32_t count, uint32_t payload)
{
	assert_int_equal(keeper.count, count);
	for (uint32_t i = 0; i < count; i++) {
		assert_is_message(&keeper.kept[i].packet, i, payload);
		assert_int_equal(keeper.kept[i].packet.is_lent, i % 3 == 0);
	}
	keeper.count = 0;
}

static void the_mark_goes_with_a_batch(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 30; i++)
		send_lent(i, 16, i % 3 == 0);
	while (end_receive(&b, &keeper, 1000))
		;
	expect_lent(30, 16);
}

static void the_mark_goes_with_what_is_made_in_place(void **state)
{
	const struct link_ops *ops = a.link->ops;

	(void)state;
	for (uint32_t i = 0; i < 30; i++) {
		static struct send_batch made;
		struct link_outlet *outlet = ops->begin(a.link, &a_to_b);
		uint8_t *place = ops->room(outlet, 100);

		made.message_count = made.bytes_used = 0;
		add_message(&made, i, 16);
		memcpy(place, made.bytes, made.messages[0].length);
		ops->commit(outlet, &a_to_b, made.messages[0].length, i % 3 == 0);
		ops->end(a.link, outlet);
	}
	while (end_receive(&b, &keeper, 1000))
		;
	expect_lent(30, 16);
}

/* Most of it waits outside of the ring. */
static void the_mark_goes_with_what_has_no_room(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 300; i++)
		send_lent(i, 4096, i % 3 == 0);
	assert_false(end_send_in_place(&a, &a_to_b, 300, 16));
	while (end_receive(&b, &keeper, 1000))
		end_receive(&a, &keeper, 1);
	expect_lent(300, 4096);
}

static void a_damaged_one_is_dropped(void **state)
{
	static struct send_batch made;

	(void)state;
	made.message_count = made.bytes_used = 0;
	add_message(&made, 1, 16);
	made.messages[0].is_lent = true;
	made.messages[0].damaged_bit = 1;
	a.link->ops->send(a.link, &a_to_b, &made, 1);
	end_receive(&b, &keeper, 10);
	assert_int_equal(keeper.count, 0);
	assert_int_equal(keeper.drops[REASON_DROP_ICRC], 1);
}

/* Whoever takes it copies far more than a packet; others wait for their turn meanwhile. */
static void a_lent_one_counts_as_many(void **state)
{
	uint32_t rounds = 0;

	(void)state;
	for (uint32_t i = 0; i < 30; i++)
		send_lent(i, 16, true);
	for (; end_receive(&b, &keeper, 30); rounds++)
		assert_true(keeper.count <= 2 * (rounds + 1));
	assert_int_equal(keeper.count, 30);
	assert_true(rounds >= 15);
}

/* --- peers --- */

static void unknown_peers_have_no_route(void **state)
{
	const uint32_t numbers[] = {2, LINK_SHM_PEERS_MAX - 1, LINK_SHM_PEERS_MAX, UINT32_MAX};
	struct end nobody = b;
	struct link_route route = a_to_b;

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		nobody.number = route.path.peer = numbers[i];
		assert_int_equal(end_try_route(&a, &nobody, 5, &(struct link_route){.sender = 0}),
				 -EHOSTUNREACH);
		end_send(&a, &route, 1, 16);
		assert_false(end_send_in_place(&a, &route, 1, 16));
		link_shm_peer_died(a.link, numbers[i], 1);
	}
	nobody = b;
	nobody.generation++;
	assert_int_equal(end_try_route(&a, &nobody, 5, &route), -EHOSTUNREACH);
	assert_int_equal(end_receive(&b, &keeper, 10), 0);
}

static void paths_run_out(void **state)
{
	struct link_route route;

	(void)state;
	for (uint32_t i = 0; i < RING_PATHS; i++)
		assert_int_equal(end_try_route(&a, &b, (uint8_t)i, &route), 0);
	assert_int_equal(end_try_route(&a, &b, RING_PATHS, &route), -ENOBUFS);
	/* Others go on, and so does this one with what it has. */
	assert_int_equal(end_try_route(&b, &a, RING_PATHS, &route), 0);
	assert_int_equal(end_try_route(&a, &b, 3, &route), 0);
	end_send(&a, &route, 1, 16);
	assert_int_equal(end_receive(&b, &keeper, 10), 1);
	assert_int_equal(keeper.kept[0].packet.traffic_class, 3);
}

static void routes_to_the_dead_lead_nowhere(void **state)
{
	struct link_route route;

	(void)state;
	end_send(&b, &b_to_a, 1, 16);
	for (uint32_t i = 0; i < 100; i++)
		end_send(&a, &a_to_b, i, 4096);
	link_shm_peer_died(a.link, b.number, b.generation + 1); /* somebody else */
	assert_int_equal(end_try_route(&a, &b, 5, &route), 0);
	link_shm_peer_died(a.link, b.number, b.generation);
	assert_int_equal(end_try_route(&a, &b, 5, &route), -EHOSTUNREACH);
	/* What it had sent before it died is still taken. */
	assert_int_equal(end_receive(&a, &keeper, 10), 1);
	expect_messages(1, 1, 16);
	/* Neither what waited nor what is sent now gets there. */
	end_receive(&b, &keeper, 1000);
	keeper.count = 0;
	end_send(&a, &a_to_b, 7, 16);
	assert_false(end_send_in_place(&a, &a_to_b, 8, 16));
	end_receive(&a, &keeper, 1);
	assert_int_equal(end_receive(&b, &keeper, 10), 0);
	/* A dead peer does not come back as itself. */
	end_attach(&a, &b);
	assert_int_equal(end_try_route(&a, &b, 5, &route), -EHOSTUNREACH);
}

/* B was killed, and another process has its number. */
static void successors_are_others(void **state)
{
	struct end successor;
	struct link_route old = a_to_b, to_successor, to_a;

	(void)state;
	for (uint32_t i = 0; i < 100; i++)
		end_send(&a, &a_to_b, i, 4096);
	for (uint32_t i = 0; i < 5; i++)
		end_send(&b, &b_to_a, i, 64);
	assert_int_equal(end_receive(&a, &keeper, 1), 1);
	keeper.count = 0;
	end_close(&b);
	end_open(&successor, b.number, b.generation + 1);
	/* It connects first, and A, which does not know yet, goes on with the rings. */
	end_attach(&successor, &a);
	to_a = end_route(&successor, &a);
	end_send(&successor, &to_a, 0x100, 64);
	end_send(&a, &old, 99, 64);
	end_receive(&a, &keeper, 10);
	keeper_reset(&keeper);
	assert_int_equal(end_receive(&successor, &keeper, 10), 0);
	link_shm_peer_died(a.link, b.number, b.generation);

	end_attach(&a, &successor);
	to_successor = end_route(&a, &successor);
	end_send(&a, &old, 98, 64);
	assert_false(end_send_in_place(&a, &old, 97, 64));
	end_send(&a, &to_successor, 0x200, 64);
	assert_int_equal(end_receive(&successor, &keeper, 10), 1);
	expect_messages(0x200, 1, 64);
	assert_int_equal(end_receive(&a, &keeper, 10), 1);
	expect_messages(0x100, 1, 64);
	assert_int_equal(keeper.drops[REASON_DROP_RING], 0);
	/* Who is told of the predecessor's death only now kills nobody. */
	link_shm_peer_died(a.link, b.number, b.generation);
	assert_int_equal(end_try_route(&a, &successor, 5, &to_successor), 0);
	end_close(&successor);
	end_open(&b, b.number, b.generation + 2);
}

static void peers_do_not_mix(void **state)
{
	struct end c;
	struct link_route c_to_a;

	(void)state;
	end_open(&c, 3, 31);
	ends_connect(&a, &c);
	c_to_a = end_route(&c, &a);
	for (uint32_t i = 0; i < 40; i++) {
		end_send(&b, &b_to_a, i, 64);
		end_send(&c, &c_to_a, 0x10000 + i, 64);
	}
	assert_int_equal(end_receive(&a, &keeper, 1000), 80);
	for (uint32_t i = 0, of_b = 0, of_c = 0; i < 80; i++) {
		const struct link_packet *packet = &keeper.kept[i].packet;
		bool is_of_c = packet->source.gid[15] == c.number;

		assert_is_message(packet, is_of_c ? 0x10000 + of_c++ : of_b++, 64);
	}
	/* What is broken between two is their affair. */
	memset(ring_between(&b, &a)->lines, 0xff, LINK_SHM_RING_BYTES - LINK_SHM_RING_HEADER_BYTES);
	keeper.count = 0;
	for (int i = 0; i < 3; i++) {
		end_send(&c, &c_to_a, 5, 64);
		assert_int_equal(end_receive(&a, &keeper, 1000), 1);
	}
	assert_int_equal(keeper.drops[REASON_DROP_RING], 1);
	end_close(&c);
}

/*
 * It is for waiting senders to see, so it must not move while they have to wait; and not with each
 * look, for they read it often.
 */
static void shows_when_it_has_taken_all(void **state)
{
	const _Atomic vbn_time *served_at = link_shm_served_at(a.link, b.number);
	const struct link_ops *ops = b.link->ops;
	const vbn_time t = VBN_MILLISECOND;

	(void)state;
	ops->receive(b.link, &keeper.sink, 10, t);
	assert_true(*served_at == t);
	ops->receive(b.link, &keeper.sink, 10, t + 1);
	assert_true(*served_at == t);
	for (uint32_t i = 0; i < 20; i++)
		end_send(&a, &a_to_b, i, 64);
	ops->receive(b.link, &keeper.sink, 10, 2 * t);
	assert_true(*served_at == t);
	ops->receive(b.link, &keeper.sink, 11, 3 * t);
	assert_true(*served_at == 3 * t);
}

/* --- at once --- */

#define SENDERS 3u
#define SENT 1500u

struct sender {
	const struct end *end;
	struct link_route route;
	uint32_t first;
	pthread_t thread;
};

static void *send_many(void *argument)
{
	struct sender *sender = argument;

	for (uint32_t i = 0; i < SENT; i++) {
		if (i % 16 < 5)
			end_send(sender->end, &sender->route, sender->first + i, i % 256 * 4);
		else
			end_send_either_way(sender->end, &sender->route, sender->first + i,
					    i % 256 * 4);
	}
	return NULL;
}

static void *look_often(void *argument)
{
	_Atomic bool *ends = argument;
	static struct keeper own;

	keeper_reset(&own);
	while (!*ends) {
		end_receive(&a, &own, 10);
		sched_yield();
	}
	assert_int_equal(own.count, 0);
	return NULL;
}

/* Any number of threads send, by rings that are full most of the time; each one's stay in order. */
static void threads_send_at_once(void **state)
{
	static struct sender senders[SENDERS];
	static _Atomic bool ends;
	uint32_t next[SENDERS] = {0};
	vbn_time end = time_now() + 60 * VBN_SECOND;
	pthread_t looker;

	(void)state;
	atomic_store(&ends, false);
	for (uint32_t i = 0; i < SENDERS; i++) {
		senders[i] =
			(struct sender){.end = &a, .route = end_route(&a, &b), .first = i << 16};
		assert_int_equal(pthread_create(&senders[i].thread, NULL, send_many, &senders[i]),
				 0);
	}
	assert_int_equal(pthread_create(&looker, NULL, look_often, &ends), 0);
	while (keeper.count < SENDERS * SENT && time_now() < end)
		if (!end_receive(&b, &keeper, 64))
			sched_yield();
	for (uint32_t i = 0; i < SENDERS; i++)
		pthread_join(senders[i].thread, NULL);
	atomic_store(&ends, true);
	pthread_join(looker, NULL);
	assert_int_equal(keeper.count, SENDERS * SENT);
	for (uint32_t i = 0; i < keeper.count; i++) {
		uint32_t number = number_of(&keeper.kept[i].packet), index = number & 0xffff;

		assert_true(number >> 16 < SENDERS);
		assert_int_equal(index, next[number >> 16]++);
		assert_is_message(&keeper.kept[i].packet, number, index % 256 * 4);
	}
}

static void *attach_and_bury(void *argument)
{
	struct end *peers = argument;

	for (uint32_t i = 0; i < 300; i++) {
		struct link_route route;

		peers[i % 2].generation += 10;
		end_attach(&a, &peers[i % 2]);
		assert_int_equal(end_try_route(&a, &peers[i % 2], 1, &route), 0);
		end_send(&a, &route, i, 4096);
		if (i % 3)
			link_shm_peer_died(a.link, peers[i % 2].number, peers[i % 2].generation);
	}
	return NULL;
}

/* Peers come and go while another one is heard. */
static void peers_come_while_others_talk(void **state)
{
	struct end peers[2];
	pthread_t thread;

	(void)state;
	end_open(&peers[0], 2, 1);
	end_open(&peers[1], 3, 2);
	assert_int_equal(pthread_create(&thread, NULL, attach_and_bury, peers), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		end_send(&b, &b_to_a, i, 64);
		assert_int_equal(end_receive(&a, &keeper, 10), 1);
	}
	pthread_join(thread, NULL);
	expect_messages(0, 1000, 64);
	end_close(&peers[0]);
	end_close(&peers[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_two, close_two)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(says_what_it_is),
		TEST(all_arrives_in_order),
		TEST(batches_arrive),
		TEST(damage_is_dropped),
		TEST(damage_waits_too),
		TEST(a_full_ring_loses_nothing),
		TEST(sending_moves_what_waits),
		TEST(too_much_is_lost),
		TEST(what_waits_is_freed),
		TEST(what_is_made_in_place_arrives),
		TEST(in_place_nothing_overtakes),
		TEST(a_crowd_goes_either_way),
		TEST(the_mark_goes_with_a_batch),
		TEST(the_mark_goes_with_what_is_made_in_place),
		TEST(the_mark_goes_with_what_has_no_room),
		TEST(a_damaged_one_is_dropped),
		TEST(a_lent_one_counts_as_many),
		TEST(unknown_peers_have_no_route),
		TEST(paths_run_out),
		TEST(routes_to_the_dead_lead_nowhere),
		TEST(successors_are_others),
		TEST(peers_do_not_mix),
		TEST(shows_when_it_has_taken_all),
		TEST(threads_send_at_once),
		TEST(peers_come_while_others_talk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
