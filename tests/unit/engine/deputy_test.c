/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that blocks on a channel does the NIC's work itself: it gets its events, others that
 * wait get theirs, and whatever way it goes somebody looks after the links.
 */
#include "unit/engine/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "engine/deputy.h"
#include "engine/engine_state.h"

#define ROUNDS 500
#define PATIENCE_MS 10000

static const struct pair_settings with_channel = {
	.depth = 16, .has_channel = true, .subnet = "127.22.4", .timeout = 14, .retry_cnt = 7};

static struct event blocking_pop(struct side *side)
{
	struct event event;

	assert_int_equal(deputy_pop(side->engine, side->channel, &event, NULL), 0);
	return event;
}

/* Blocks until there is a completion, as a program does. */
static struct ibv_wc wait_by_event(struct side *side)
{
	struct ibv_wc wc;

	for (;;) {
		if (engine_cq_poll(side->cq, 1, &wc) == 1)
			return wc;
		assert_int_equal(engine_cq_arm(side->cq, false), 0);
		if (engine_cq_poll(side->cq, 1, &wc) == 1)
			return wc;
		blocking_pop(side);
	}
}

static void wait_for_both(struct side *side)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(wait_by_event(side).status, IBV_WC_SUCCESS);
}

static void *echo(void *argument)
{
	struct pair *pair = argument;

	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_wc wc;

		do
			wc = wait_by_event(&pair->b);
		while (wc.opcode != IBV_WC_RECV);
		side_post_recv(&pair->b, pair->b.qp, 1, 0, 64);
		side_post(&pair->b, pair->b.qp, IBV_WR_SEND, 2, 64, 64, &pair->a, 0);
	}
	return NULL;
}

static void two_that_block_play_ping_pong(void **state)
{
	struct pair pair;
	pthread_t other;

	(void)state;
	pair_open(&pair, &with_channel);
	side_post_recv(&pair.b, pair.b.qp, 1, 0, 64);
	assert_int_equal(pthread_create(&other, NULL, echo, &pair), 0);
	for (int i = 0; i < ROUNDS; i++) {
		side_post_recv(&pair.a, pair.a.qp, 1, 0, 64);
		side_post(&pair.a, pair.a.qp, IBV_WR_SEND, 2, 64, 64, &pair.b, 0);
		wait_for_both(&pair.a);
	}
	pthread_join(other, NULL);
	pair_close(&pair);
}

struct waiter {
	pthread_t thread;
	struct engine *engine;
	struct event_queue *queue;
	int result, error;
	_Atomic bool has_returned;
};

static void *wait_once(void *argument)
{
	struct waiter *waiter = argument;
	struct event event;

	waiter->result = deputy_pop(waiter->engine, waiter->queue, &event, NULL);
	waiter->error = errno;
	atomic_store(&waiter->has_returned, true);
	return NULL;
}

static void start_waiter(struct waiter *waiter, struct engine *engine, struct event_queue *queue)
{
	waiter->engine = engine;
	waiter->queue = queue;
	atomic_init(&waiter->has_returned, false);
	assert_int_equal(pthread_create(&waiter->thread, NULL, wait_once, waiter), 0);
}

/* Until @queue's waiter is the deputy and asleep. */
static void await_deputy(struct engine *engine)
{
	for (int i = 0; i < PATIENCE_MS; i++) {
		bool is_asleep;

		pthread_mutex_lock(&engine->helper.deputy_lock);
		is_asleep = atomic_load(&engine->helper.deputy) &&
			    atomic_load(&atomic_load(&engine->helper.deputy)->state) ==
				    DEPUTY_ASLEEP;
		pthread_mutex_unlock(&engine->helper.deputy_lock);
		if (is_asleep)
			return;
		poll(NULL, 0, 1);
	}
	fail_msg("nobody became the deputy");
}

static void await_return(struct waiter *waiter)
{
	for (int i = 0; i < PATIENCE_MS && !atomic_load(&waiter->has_returned); i++)
		poll(NULL, 0, 1);
	assert_true(atomic_load(&waiter->has_returned));
	pthread_join(waiter->thread, NULL);
}

/* One of them is the deputy; the other is woken by it. */
static void two_threads_wait_for_two_queues(void **state)
{
	struct event_queue *other_queue = event_queue_create();
	struct event event = {.object = &other_queue};
	struct waiter first, second;
	struct pair pair;

	(void)state;
	pair_open(&pair, &with_channel);
	start_waiter(&first, pair.a.engine, other_queue);
	await_deputy(pair.a.engine);
	assert_int_equal(engine_cq_arm(pair.a.cq, false), 0);
	start_waiter(&second, pair.a.engine, pair.a.channel);
	side_post_recv(&pair.a, pair.a.qp, 1, 0, 64);
	side_post(&pair.b, pair.b.qp, IBV_WR_SEND, 2, 64, 64, &pair.a, 0);
	await_return(&second);
	assert_int_equal(second.result, 0);
	assert_false(atomic_load(&first.has_returned));
	event_queue_push(other_queue, &event);
	await_return(&first);
	assert_int_equal(first.result, 0);
	assert_int_equal(side_wait(&pair.a).status, IBV_WC_SUCCESS);
	assert_int_equal(side_wait(&pair.b).status, IBV_WC_SUCCESS);
	pair_close(&pair);
	event_queue_destroy(other_queue);
}

/* An atomic of the peer is executed although this side's program calls no verb. */
static void assert_is_served(struct pair *pair)
{
	side_post(&pair->b, pair->b.qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 9, 0, 8, &pair->a, 0);
	assert_int_equal(side_wait(&pair->b).status, IBV_WC_SUCCESS);
}

static void peers_are_served_while_and_after_a_thread_blocks(void **state)
{
	struct event event = {0};
	struct waiter waiter;
	struct pair pair;

	(void)state;
	pair_open(&pair, &with_channel);
	for (int i = 0; i < 20; i++) {
		start_waiter(&waiter, pair.a.engine, pair.a.channel);
		await_deputy(pair.a.engine);
		assert_is_served(&pair);
		event_queue_push(pair.a.channel, &event);
		await_return(&waiter);
		assert_is_served(&pair);
	}
	pair_close(&pair);
}

static void a_cancelled_thread_resigns(void **state)
{
	struct waiter waiter;
	struct pair pair;
	void *result;

	(void)state;
	pair_open(&pair, &with_channel);
	for (int i = 0; i < 20; i++) {
		start_waiter(&waiter, pair.a.engine, pair.a.channel);
		if (i % 2)
			await_deputy(pair.a.engine);
		pthread_cancel(waiter.thread);
		pthread_join(waiter.thread, &result);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		assert_null(atomic_load(&pair.a.engine->helper.deputy));
		assert_is_served(&pair);
	}
	pair_close(&pair);
}

/* The program destroys everything under a thread that waits, and may still cancel it. */
static void a_dismissed_thread_touches_nothing(void **state)
{
	struct waiter waiter;
	struct pair pair;
	void *result;

	(void)state;
	pair_open(&pair, &with_channel);
	start_waiter(&waiter, pair.a.engine, pair.a.channel);
	await_deputy(pair.a.engine);
	deputy_dismiss(pair.a.engine, pair.b.channel); /* not that one */
	assert_non_null(atomic_load(&pair.a.engine->helper.deputy));
	deputy_dismiss(pair.a.engine, pair.a.channel);
	assert_null(atomic_load(&pair.a.engine->helper.deputy));
	assert_is_served(&pair);
	pair_close(&pair);
	assert_false(atomic_load(&waiter.has_returned));
	pthread_cancel(waiter.thread);
	pthread_join(waiter.thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
}

static void ignore_signal(int number)
{
	(void)number;
}

static void set_handler(int flags)
{
	struct sigaction action = {.sa_handler = ignore_signal, .sa_flags = flags};

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

/* Like read(): a handler that does not restart system calls ends the wait, another does not. */
static void signals_end_the_wait_as_they_end_a_read(void **state)
{
	struct event event = {0};
	struct waiter waiter;
	struct pair pair;

	(void)state;
#ifdef __SANITIZE_THREAD__
	/* It runs handlers at moments of its own, after other calls than those they interrupted. */
	skip();
#endif
	pair_open(&pair, &with_channel);
	/* A connection that is new makes it look once more, and signals that come meanwhile pass. */
	assert_is_served(&pair);
	set_handler(0);
	start_waiter(&waiter, pair.a.engine, pair.a.channel);
	await_deputy(pair.a.engine);
	pthread_kill(waiter.thread, SIGUSR1);
	await_return(&waiter);
	assert_int_equal(waiter.result, -1);
	assert_int_equal(waiter.error, EINTR);
	set_handler(SA_RESTART);
	start_waiter(&waiter, pair.a.engine, pair.a.channel);
	await_deputy(pair.a.engine);
	pthread_kill(waiter.thread, SIGUSR1);
	assert_is_served(&pair);
	assert_false(atomic_load(&waiter.has_returned));
	event_queue_push(pair.a.channel, &event);
	await_return(&waiter);
	assert_int_equal(waiter.result, 0);
	pair_close(&pair);
}

static void a_nonblocking_channel_does_not_wait(void **state)
{
	struct event event;
	struct pair pair;
	int fd;

	(void)state;
	pair_open(&pair, &with_channel);
	fd = event_queue_descriptor(pair.a.channel);
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
	assert_int_equal(deputy_pop(pair.a.engine, pair.a.channel, &event, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_that_block_play_ping_pong),
		cmocka_unit_test(two_threads_wait_for_two_queues),
		cmocka_unit_test(peers_are_served_while_and_after_a_thread_blocks),
		cmocka_unit_test(a_cancelled_thread_resigns),
		cmocka_unit_test(a_dismissed_thread_touches_nothing),
		cmocka_unit_test(signals_end_the_wait_as_they_end_a_read),
		cmocka_unit_test(a_nonblocking_channel_does_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
