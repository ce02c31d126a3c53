/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who sleeps and who wakes, over the shm link: whoever said that it sleeps, and was not told that there is
 * something, finds its descriptor readable once there is. First every order of the calls, then
 * threads that really sleep.
 */
#include "unit/link/shm_fixture.h"

#include <pthread.h>
#include <sched.h>

_Alignas(4096) uint8_t shm_rings[ENDS_MAX][ENDS_MAX][LINK_SHM_RING_BYTES];

static struct keeper keeper;
static struct end a, b;
static struct link_route a_to_b, b_to_a;

static void begin(void)
{
	/* What lies behind the header is wiped by whoever begins. */
	for (uint32_t from = 0; from < ENDS_MAX; from++)
		for (uint32_t to = 0; to < ENDS_MAX; to++)
			memset(shm_rings[from][to], 0, LINK_SHM_RING_HEADER_BYTES);
	keeper_reset(&keeper);
	end_open(&a, 0, 11);
	end_open(&b, 1, 21);
	ends_connect(&a, &b);
	a_to_b = end_route(&a, &b);
	b_to_a = end_route(&b, &a);
	/* Now both read their sessions. */
	end_receive(&a, &keeper, 1);
	end_receive(&b, &keeper, 1);
}

static void finish(void)
{
	end_close(&a);
	end_close(&b);
}

static int open_two(void **state)
{
	(void)state;
	begin();
	return 0;
}

static int close_two(void **state)
{
	(void)state;
	finish();
	return 0;
}

static vbn_time arm(const struct end *end)
{
	return end->link->ops->arm(end->link, time_now());
}

static void disarm(const struct end *end)
{
	end->link->ops->disarm(end->link);
}

static void nobody_is_woken_who_does_not_sleep(void **state)
{
	(void)state;
	end_send(&a, &a_to_b, 1, 64);
	assert_false(end_is_woken(&b));
	assert_true(arm(&b) == 0);
	disarm(&b);
	assert_int_equal(end_receive(&b, &keeper, 10), 1);
	end_send(&a, &a_to_b, 2, 64);
	assert_false(end_is_woken(&b));
}

static void who_sleeps_is_woken_once(void **state)
{
	char byte;

	(void)state;
	assert_true(arm(&b) == VBN_TIME_NEVER);
	assert_false(end_is_woken(&b));
	for (uint32_t i = 0; i < 5; i++)
		end_send(&a, &a_to_b, i, 64);
	assert_true(end_is_woken(&b));
	assert_int_equal(recv(b.wake.fd, &byte, 1, MSG_DONTWAIT), 1);
	assert_false(end_is_woken(&b));
	disarm(&b);
	assert_false(end_is_woken(&b));
}

/* Messages made in place wake nobody before the last of them is there. */
static void a_run_in_place_wakes_once(void **state)
{
	const struct link_ops *ops = a.link->ops;
	struct link_outlet *outlet;
	char byte;

	(void)state;
	assert_true(arm(&b) == VBN_TIME_NEVER);
	outlet = ops->begin(a.link, &a_to_b);
	assert_non_null(outlet);
	for (uint32_t i = 0; i < 3; i++) {
		uint8_t *place = ops->room(outlet, BTH_BYTES);

		assert_non_null(place);
		memset(place, 0, BTH_BYTES);
		ops->commit(outlet, &a_to_b, BTH_BYTES, false);
	}
	assert_false(end_is_woken(&b));
	ops->end(a.link, outlet);
	assert_true(end_is_woken(&b));
	assert_int_equal(recv(b.wake.fd, &byte, 1, MSG_DONTWAIT), 1);
	assert_false(end_is_woken(&b));
	disarm(&b);
	assert_int_equal(end_receive(&b, &keeper, 10), 3);
}

/* A session that was not read yet is a reason to look. */
static void a_new_peer_is_looked_at(void **state)
{
	struct end c;

	(void)state;
	end_open(&c, 2, 31);
	end_attach(&b, &c);
	assert_true(arm(&b) == 0);
	disarm(&b);
	end_receive(&b, &keeper, 1);
	assert_true(arm(&b) == VBN_TIME_NEVER);
	disarm(&b);
	end_attach(&c, &b);
	assert_true(arm(&b) == 0);
	disarm(&b);
	end_close(&c);
}

/* It is attached while we sleep: its ring has to say that. */
static void a_new_peer_wakes_too(void **state)
{
	struct end c;
	struct link_route c_to_b;

	(void)state;
	assert_true(arm(&b) == VBN_TIME_NEVER);
	end_open(&c, 2, 31);
	end_attach(&b, &c);
	end_attach(&c, &b);
	c_to_b = end_route(&c, &b);
	end_send(&c, &c_to_b, 1, 64);
	assert_true(end_is_woken(&b));
	disarm(&b);
	end_close(&c);
}

/* The successor of a dead peer sleeps, and did so before we knew it. */
static void a_successor_is_woken(void **state)
{
	struct end successor;

	(void)state;
	assert_true(arm(&b) == VBN_TIME_NEVER);
	end_close(&b);
	end_open(&successor, b.number, b.generation + 1);
	end_attach(&successor, &a);
	arm(&successor);
	link_shm_peer_died(a.link, b.number, b.generation);
	end_attach(&a, &successor);
	a_to_b = end_route(&a, &successor);
	end_send(&a, &a_to_b, 1, 64);
	assert_true(end_is_woken(&successor));
	disarm(&successor);
	end_close(&successor);
	end_open(&b, b.number, b.generation + 2);
}

/* The queue of its socket is full: it is awake already. */
static void a_full_socket_does_no_harm(void **state)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void)state;
	assert_true(arm(&b) == VBN_TIME_NEVER);
	while (sendto(fd, "x", 1, 0, (const struct sockaddr *)&b.name.address, b.name.length) == 1)
		;
	end_send(&a, &a_to_b, 1, 64);
	assert_true(end_is_woken(&b));
	disarm(&b);
	assert_int_equal(end_receive(&b, &keeper, 10), 1);
	close(fd);
}

/* Whoever cannot be woken looks often instead. */
static void the_deaf_look_often(void **state)
{
	vbn_time now = time_now();

	(void)state;
	close(b.wake.fd);
	/* What was seen a moment ago is believed. */
	while (b.link->ops->descriptor(b.link, time_now()) >= 0)
		assert_true(time_now() < now + 10 * VBN_SECOND);
	now = time_now();
	assert_in_range(b.link->ops->arm(b.link, now), now + 1, now + 10 * VBN_MILLISECOND);
	end_send(&a, &a_to_b, 1, 64);
	disarm(&b);
	assert_true(arm(&b) == 0);
	disarm(&b);
	assert_int_equal(end_receive(&b, &keeper, 10), 1);
	/* And its own waking goes nowhere, quietly. */
	assert_true(arm(&a) == VBN_TIME_NEVER);
	end_send(&b, &b_to_a, 1, 64);
	disarm(&a);
	assert_int_equal(end_receive(&a, &keeper, 10), 1);
}

/* --- every order of the calls --- */

/* A thread that may sleep: armed, and not told to look. */
struct sleeper {
	bool is_armed, sleeps;
};

static void toggle(const struct end *end, struct sleeper *sleeper)
{
	if (sleeper->is_armed) {
		disarm(end);
		*sleeper = (struct sleeper){false, false};
		return;
	}
	sleeper->is_armed = true;
	sleeper->sleeps = arm(end) != 0;
}

enum step {
	STEP_FIRST,  /* the first sleeper arms or disarms */
	STEP_SECOND, /* the second one */
	STEP_SEND,
	STEP_RECEIVE,
	STEP_COUNT
};

#define STEPS 6

static void forget_wakes(const struct end *end)
{
	char byte;

	while (recv(end->wake.fd, &byte, 1, MSG_DONTWAIT) == 1)
		;
}

/*
 * Before each plan: nothing is on its way, nobody sleeps or was woken. The ends stay open, since opening
 * them took longer than all plans: the ring goes round beneath them.
 */
static void begin_plan(void)
{
	while (end_receive(&b, &keeper, 1000))
		;
	assert_int_equal(ring_between(&a, &b)->is_asleep, 0);
	forget_wakes(&a);
	forget_wakes(&b);
	keeper_reset(&keeper);
}

/* B's sleepers, and A's packets to it. */
static void run_reader(uint32_t plan)
{
	struct sleeper sleepers[2] = {{false, false}};
	uint32_t unread = 0;

	begin_plan();
	for (int i = 0; i < STEPS; i++, plan /= STEP_COUNT) {
		switch ((enum step)(plan % STEP_COUNT)) {
		case STEP_FIRST:
		case STEP_SECOND:
			toggle(&b, &sleepers[plan % STEP_COUNT]);
			break;
		case STEP_SEND:
			end_send_either_way(&a, &a_to_b, i, 64);
			unread++;
			break;
		case STEP_RECEIVE:
			unread -= end_receive(&b, &keeper, 1);
			break;
		case STEP_COUNT:
			fail();
		}
		if (unread && (sleepers[0].sleeps || sleepers[1].sleeps))
			assert_true(end_is_woken(&b));
	}
	for (int i = 0; i < 2; i++)
		if (sleepers[i].is_armed)
			disarm(&b);
	assert_int_equal(ring_between(&a, &b)->is_asleep, 0);
}

static void no_order_loses_a_packet(void **state)
{
	uint32_t plans = 1;

	(void)state;
	for (int i = 0; i < STEPS; i++)
		plans *= STEP_COUNT;
	for (uint32_t plan = 0; plan < plans; plan++)
		run_reader(plan);
}

#define CROWD 40u /* more than the ring has room for, of 4096 bytes */

/* A's sleepers, whose packets wait for room that B makes. */
static void run_writer(uint32_t plan)
{
	struct sleeper sleepers[2] = {{false, false}};
	uint32_t sent = 0, read = 0;

	begin_plan();
	for (int i = 0; i < STEPS; i++, plan /= STEP_COUNT) {
		switch ((enum step)(plan % STEP_COUNT)) {
		case STEP_FIRST:
		case STEP_SECOND:
			toggle(&a, &sleepers[plan % STEP_COUNT]);
			break;
		case STEP_SEND:
			for (uint32_t j = 0; j < CROWD; j++)
				end_send_either_way(&a, &a_to_b, sent++, 4096);
			break;
		case STEP_RECEIVE:
			read += end_receive(&b, &keeper, 1000);
			break;
		case STEP_COUNT:
			fail();
		}
		/* B took all that was there, and more waits for the room. */
		if (plan % STEP_COUNT == STEP_RECEIVE && read < sent &&
		    (sleepers[0].sleeps || sleepers[1].sleeps))
			assert_true(end_is_woken(&a));
	}
	for (int i = 0; i < 2; i++)
		if (sleepers[i].is_armed)
			disarm(&a);
	while (read < sent) {
		end_receive(&a, &keeper, 1);
		read += end_receive(&b, &keeper, 1000);
	}
}

static void no_order_forgets_what_waits(void **state)
{
	uint32_t plans = 1;

	(void)state;
	for (int i = 0; i < STEPS - 1; i++)
		plans *= STEP_COUNT;
	for (uint32_t plan = 0; plan < plans; plan++)
		run_writer(plan);
}

/* --- threads that sleep --- */

#define SLEEPERS 2u
#define RACED 4000u
#define PATIENCE_MS 20000

static pthread_mutex_t receive_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t received;

static void count_packet(struct link_sink *sink, const struct link_packet *packet)
{
	(void)sink;
	assert_int_equal(number_of(packet), atomic_load(&received));
	atomic_fetch_add(&received, 1);
}

static bool receive_some(void)
{
	bool has_some = false;

	if (pthread_mutex_trylock(&receive_lock) != 0)
		return true; /* somebody else does */
	has_some = end_receive(&b, &keeper, 8) != 0;
	pthread_mutex_unlock(&receive_lock);
	return has_some;
}

static void wake_end(const struct end *end)
{
	sendto(end->wake.fd, "", 1, MSG_DONTWAIT, (const struct sockaddr *)&end->name.address,
	       end->name.length);
}

/* Until there is something; fails where nobody wakes it. */
static void sleep_once(const struct end *end)
{
	struct pollfd entry = {.fd = end->wake.fd, .events = POLLIN};

	if (arm(end) != 0 && atomic_load(&received) < RACED)
		assert_int_equal(poll(&entry, 1, PATIENCE_MS), 1);
	disarm(end);
}

static void *sleep_and_receive(void *argument)
{
	(void)argument;
	while (atomic_load(&received) < RACED) {
		sleep_once(&b);
		while (receive_some())
			;
	}
	/* Others may sleep. */
	wake_end(&a);
	wake_end(&b);
	return NULL;
}

static void sleepers_hear_every_packet(void **state)
{
	pthread_t threads[SLEEPERS];

	(void)state;
	atomic_store(&received, 0);
	keeper.sink.deliver = count_packet;
	for (uint32_t i = 0; i < SLEEPERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, sleep_and_receive, NULL), 0);
	for (uint32_t i = 0; i < RACED; i++) {
		end_send_either_way(&a, &a_to_b, i, i % 40 ? 64 : 4096);
		/* So that they sleep now and then: it waits until all was taken. */
		if (i % 8 == 7)
			while (atomic_load(&received) <= i)
				sched_yield();
	}
	for (uint32_t i = 0; i < SLEEPERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(received, RACED);
}

/* Both sides sleep, one until there is something, the other until there is room. */
static void *sleep_until_room(void *argument)
{
	static struct keeper own;

	(void)argument;
	keeper_reset(&own);
	while (atomic_load(&received) < RACED) {
		sleep_once(&a);
		end_receive(&a, &own, 1);
	}
	return NULL;
}

/* Nobody at A polls after it has sent all: what waits is moved by who sleeps there. */
static void what_waits_is_moved_by_sleepers(void **state)
{
	pthread_t reader, mover;

	(void)state;
	atomic_store(&received, 0);
	keeper.sink.deliver = count_packet;
	for (uint32_t i = 0; i < RACED; i++)
		end_send(&a, &a_to_b, i, 2048);
	assert_int_equal(pthread_create(&mover, NULL, sleep_until_room, NULL), 0);
	assert_int_equal(pthread_create(&reader, NULL, sleep_and_receive, NULL), 0);
	pthread_join(reader, NULL);
	pthread_join(mover, NULL);
	assert_int_equal(received, RACED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_two, close_two)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nobody_is_woken_who_does_not_sleep),
		TEST(who_sleeps_is_woken_once),
		TEST(a_run_in_place_wakes_once),
		TEST(a_new_peer_is_looked_at),
		TEST(a_new_peer_wakes_too),
		TEST(a_successor_is_woken),
		TEST(a_full_socket_does_no_harm),
		TEST(the_deaf_look_often),
		TEST(no_order_loses_a_packet),
		TEST(no_order_forgets_what_waits),
		TEST(sleepers_hear_every_packet),
		TEST(what_waits_is_moved_by_sleepers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
