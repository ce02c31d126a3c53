/* SPDX-License-Identifier: BSD-2-Clause */
/* Queues of events: order, what the descriptor says, purging beside a reader that waits. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/events.h"

static int objects[4];

static void push(struct event_queue *queue, int object, uint8_t port)
{
	const struct event event = {
		.object = &objects[object], .type = IBV_EVENT_QP_FATAL, .port = port};

	event_queue_push(queue, &event);
}

static uint8_t pop(struct event_queue *queue)
{
	struct event event;

	assert_int_equal(event_queue_pop(queue, &event, NULL), 0);
	assert_int_equal(event.type, IBV_EVENT_QP_FATAL);
	return event.port;
}

static bool is_readable(const struct event_queue *queue)
{
	struct pollfd ready = {.fd = event_queue_descriptor(queue), .events = POLLIN};

	return poll(&ready, 1, 0) == 1;
}

static void set_nonblocking(const struct event_queue *queue)
{
	int fd = event_queue_descriptor(queue);

	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static void events_come_in_order(void **state)
{
	struct event_queue *queue = event_queue_create();
	uint8_t next_in = 0, next_out = 0;

	(void)state;
	assert_false(is_readable(queue));
	/* Three in, two out: the ring turns and grows. */
	for (int i = 0; i < 60; i++) {
		for (int k = 0; k < 3; k++)
			push(queue, k, next_in++);
		for (int k = 0; k < 2; k++) {
			assert_true(is_readable(queue));
			assert_int_equal(pop(queue), next_out++);
		}
	}
	while (next_out != next_in) {
		assert_true(is_readable(queue));
		assert_int_equal(pop(queue), next_out++);
	}
	assert_false(is_readable(queue));
	event_queue_destroy(queue);
}

static void nonblocking_is_honoured(void **state)
{
	struct event_queue *queue = event_queue_create();
	struct event event = {.port = 77};

	(void)state;
	set_nonblocking(queue);
	assert_int_equal(event_queue_pop(queue, &event, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(event.port, 77);
	push(queue, 0, 5);
	assert_int_equal(pop(queue), 5);
	assert_int_equal(event_queue_pop(queue, &event, NULL), -1);
	event_queue_destroy(queue);
}

static void purging_takes_one_object(void **state)
{
	struct event_queue *queue = event_queue_create();
	struct event event;

	(void)state;
	set_nonblocking(queue);
	for (uint8_t i = 0; i < 20; i++)
		push(queue, i % 2, i);
	assert_int_equal(event_queue_purge(queue, &objects[0]), 10);
	assert_int_equal(event_queue_purge(queue, &objects[0]), 0);
	for (uint8_t i = 1; i < 20; i += 2) {
		assert_true(is_readable(queue));
		assert_int_equal(pop(queue), i);
	}
	assert_false(is_readable(queue));
	assert_int_equal(event_queue_pop(queue, &event, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	event_queue_destroy(queue);
}

static int taken_count;

static void count_taken(const struct event *event)
{
	assert_ptr_equal(event->object, &objects[1]);
	taken_count++;
}

static void taking_is_told_under_the_lock(void **state)
{
	struct event_queue *queue = event_queue_create();
	struct event event;

	(void)state;
	push(queue, 1, 1);
	assert_int_equal(event_queue_pop(queue, &event, count_taken), 0);
	assert_int_equal(taken_count, 1);
	event_queue_destroy(queue);
}

#define PUSHES 20000

struct crowd {
	struct event_queue *queue;
	_Atomic uint32_t popped, purged;
	_Atomic bool is_over;
};

/* Blocks in pop, as a program's event thread does; ends at an event of the last object. */
static void *read_events(void *argument)
{
	struct crowd *crowd = argument;
	struct event event;

	do {
		assert_int_equal(event_queue_pop(crowd->queue, &event, NULL), 0);
		crowd->popped++;
	} while (event.object != &objects[3]);
	return NULL;
}

static void *purge_events(void *argument)
{
	struct crowd *crowd = argument;

	while (!crowd->is_over)
		crowd->purged += event_queue_purge(crowd->queue, &objects[0]);
	return NULL;
}

/* Readers wait, another thread purges what they are after: nobody hangs, all are counted. */
static void purging_beside_waiting_readers(void **state)
{
	struct crowd crowd = {.queue = event_queue_create()};
	pthread_t readers[2], purger;

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, read_events, &crowd), 0);
	assert_int_equal(pthread_create(&purger, NULL, purge_events, &crowd), 0);
	for (int i = 0; i < PUSHES; i++)
		push(crowd.queue, i % 2, 0);
	crowd.is_over = true;
	pthread_join(purger, NULL);
	for (int i = 0; i < 2; i++)
		push(crowd.queue, 3, 0);
	for (int i = 0; i < 2; i++)
		pthread_join(readers[i], NULL);
	assert_int_equal(crowd.popped + crowd.purged, PUSHES + 2);
	assert_false(is_readable(crowd.queue));
	event_queue_destroy(crowd.queue);
}

static void ignore_signal(int number)
{
	(void)number;
}

static void *interrupt(void *argument)
{
	const struct timespec pause = {.tv_nsec = 30000000};

	nanosleep(&pause, NULL); /* tidy: the reader is to be inside its wait by then */
	pthread_kill(*(pthread_t *)argument, SIGUSR1);
	return NULL;
}

static void a_signal_ends_the_wait(void **state)
{
	struct event_queue *queue = event_queue_create();
	const struct sigaction action = {.sa_handler = ignore_signal};
	pthread_t self = pthread_self(), interrupter;
	struct event event;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(pthread_create(&interrupter, NULL, interrupt, &self), 0);
	assert_int_equal(event_queue_pop(queue, &event, NULL), -1);
	assert_int_equal(errno, EINTR);
	pthread_join(interrupter, NULL);
	event_queue_destroy(queue);
}

static void a_foreign_descriptor_is_left_alone(void **state)
{
	struct event_queue *queue = event_queue_create();
	int fd = event_queue_descriptor(queue), ends[2];
	struct event event;
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	push(queue, 0, 1);
	assert_int_equal(dup2(ends[1], fd), fd);
	push(queue, 0, 2);
	assert_int_equal(read(ends[0], &byte, 1), -1);
	assert_int_equal(event_queue_pop(queue, &event, NULL), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(event_queue_purge(queue, &objects[0]), 2);
	event_queue_destroy(queue);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

/* What is left for the thread that waits is counted for others once that one has its own. */
static void left_events_are_taken_or_counted(void **state)
{
	struct event_queue *queue = event_queue_create();
	struct event event = {.object = &objects[0], .type = IBV_EVENT_QP_FATAL, .port = 1};

	(void)state;
	assert_false(event_queue_take_left(queue, &event, NULL));
	event_queue_leave(queue, &event);
	assert_false(is_readable(queue));
	assert_false(event_queue_would_wait(queue));
	for (event.port = 2; event.port <= 3; event.port++)
		event_queue_leave(queue, &event);
	assert_true(event_queue_take_left(queue, &event, NULL));
	assert_int_equal(event.port, 1);
	assert_int_equal(pop(queue), 2);
	assert_true(is_readable(queue));
	assert_int_equal(pop(queue), 3);
	assert_false(is_readable(queue));
	assert_true(event_queue_would_wait(queue));
	set_nonblocking(queue);
	assert_false(event_queue_would_wait(queue));
	event_queue_leave(queue, &event);
	assert_int_equal(event_queue_purge(queue, &objects[0]), 1);
	assert_false(event_queue_take_left(queue, &event, NULL));
	event_queue_destroy(queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_come_in_order),
		cmocka_unit_test(left_events_are_taken_or_counted),
		cmocka_unit_test(nonblocking_is_honoured),
		cmocka_unit_test(purging_takes_one_object),
		cmocka_unit_test(taking_is_told_under_the_lock),
		cmocka_unit_test(purging_beside_waiting_readers),
		cmocka_unit_test(a_signal_ends_the_wait),
		cmocka_unit_test(a_foreign_descriptor_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
