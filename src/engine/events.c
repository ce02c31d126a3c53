/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/events.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "link/descriptor.h"

struct event_queue {
	pthread_mutex_t lock;
	struct descriptor descriptor;
	struct event *events; /* a ring that grows: an event is never lost */
	uint32_t capacity, head, count;
	uint32_t uncounted; /* of count: the descriptor does not count them (event_queue_leave()) */
	uint32_t overtaken; /* readers whose event was purged after they had read its count */
	_Atomic bool is_awaited;
};

/* Takes @fd over; -1: errno says why there is none. */
static struct event_queue *create(int fd)
{
	struct event_queue *queue = fd < 0 ? NULL : calloc(1, sizeof(*queue));

	if (!queue) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	/* The program puts this number into its own poll set: it stays where it is. */
	queue->descriptor = descriptor_recognise(fd);
	pthread_mutex_init(&queue->lock, NULL);
	return queue;
}

static int make_descriptor(void)
{
	return eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
}

struct event_queue *event_queue_create(void)
{
	return create(make_descriptor());
}

struct event_queue *event_queue_create_apart(void)
{
	return create(descriptor_set_apart(make_descriptor()));
}

void event_queue_destroy(struct event_queue *queue)
{
	descriptor_close(&queue->descriptor);
	pthread_mutex_destroy(&queue->lock);
	free(queue->events);
	free(queue);
}

int event_queue_descriptor(const struct event_queue *queue)
{
	return queue->descriptor.fd;
}

static bool grow(struct event_queue *queue)
{
	uint32_t capacity = queue->capacity ? 2 * queue->capacity : 16;
	struct event *events = malloc(capacity * sizeof(*events));

	if (!events)
		return false;
	for (uint32_t i = 0; i < queue->count && queue->capacity; i++)
		events[i] = queue->events[(queue->head + i) % queue->capacity];
	free(queue->events);
	queue->events = events;
	queue->capacity = capacity;
	queue->head = 0;
	return true;
}

/* The lock is held. */
static bool append(struct event_queue *queue, const struct event *event)
{
	if (queue->count == queue->capacity && !grow(queue))
		return false;
	queue->events[(queue->head + queue->count++) % queue->capacity] = *event;
	return true;
}

/* The lock is held. A program that closed the descriptor has no use for the count. */
static void add_count(struct event_queue *queue, uint64_t count)
{
	if (descriptor_is_ours(&queue->descriptor)) {
		ssize_t written = write(queue->descriptor.fd, &count, sizeof(count));

		(void)written;
	}
}

/* The lock is held. */
static void take_first(struct event_queue *queue, struct event *event,
		       void (*taken)(const struct event *event))
{
	*event = queue->events[queue->head];
	queue->head = (queue->head + 1) % queue->capacity;
	queue->count--;
	if (taken)
		taken(event);
}

void event_queue_push(struct event_queue *queue, const struct event *event)
{
	pthread_mutex_lock(&queue->lock);
	if (append(queue, event))
		add_count(queue, 1);
	pthread_mutex_unlock(&queue->lock);
}

void event_queue_leave(struct event_queue *queue, const struct event *event)
{
	pthread_mutex_lock(&queue->lock);
	if (append(queue, event))
		queue->uncounted++;
	pthread_mutex_unlock(&queue->lock);
}

bool event_queue_take_left(struct event_queue *queue, struct event *event,
			   void (*taken)(const struct event *event))
{
	bool has_event;

	pthread_mutex_lock(&queue->lock);
	has_event = queue->uncounted != 0;
	if (has_event) {
		take_first(queue, event, taken);
		if (queue->uncounted > 1)
			add_count(queue, queue->uncounted - 1);
		queue->uncounted = 0;
	}
	pthread_mutex_unlock(&queue->lock);
	return has_event;
}

bool event_queue_would_wait(struct event_queue *queue)
{
	bool is_empty;
	int flags;

	pthread_mutex_lock(&queue->lock);
	is_empty = queue->count == 0;
	pthread_mutex_unlock(&queue->lock);
	if (!is_empty)
		return false;
	flags = fcntl(queue->descriptor.fd, F_GETFL);
	return flags >= 0 && !(flags & O_NONBLOCK);
}

void event_queue_set_awaited(struct event_queue *queue, bool is_awaited)
{
	atomic_store_explicit(&queue->is_awaited, is_awaited, memory_order_relaxed);
}

bool event_queue_is_awaited(const struct event_queue *queue)
{
	return atomic_load_explicit(&queue->is_awaited, memory_order_relaxed);
}

int event_queue_pop(struct event_queue *queue, struct event *event,
		    void (*taken)(const struct event *event))
{
	uint64_t one;

	for (;;) {
		bool has_event;
		ssize_t got;

		/* The number is the program's to know: what else it may be is what it asks for. */
		got = read(queue->descriptor.fd, &one, sizeof(one));
		if (got != (ssize_t)sizeof(one)) {
			if (got >= 0)
				errno = EBADF;
			return -1;
		}
		pthread_mutex_lock(&queue->lock);
		/* What was read may have counted for a purged event; the others have their own. */
		has_event = queue->count != 0 && !queue->overtaken;
		if (queue->overtaken)
			queue->overtaken--;
		if (has_event)
			take_first(queue, event, taken);
		pthread_mutex_unlock(&queue->lock);
		if (has_event)
			return 0;
	}
}

/*
 * Takes one from the descriptor's count without ever waiting: a reader may have been
 * faster, and a plain read() would then wait for the next event with the lock held.
 * Before Linux 5.8 the count stays, and a reader is woken once in vain.
 */
static bool take_count(struct event_queue *queue)
{
	uint64_t one;
	struct iovec vector = {&one, sizeof(one)};

	return descriptor_is_ours(&queue->descriptor) &&
	       preadv2(queue->descriptor.fd, &vector, 1, -1, RWF_NOWAIT) == (ssize_t)sizeof(one);
}

uint32_t event_queue_purge(struct event_queue *queue, const void *object)
{
	uint32_t kept = 0, purged;

	pthread_mutex_lock(&queue->lock);
	for (uint32_t i = 0; i < queue->count; i++) {
		struct event event = queue->events[(queue->head + i) % queue->capacity];

		if (event.object != object)
			queue->events[(queue->head + kept++) % queue->capacity] = event;
	}
	purged = queue->count - kept;
	queue->count = kept;
	/* A count that is not there any more was read by somebody who is on the way here. */
	for (uint32_t i = 0; i < purged; i++) {
		if (queue->uncounted)
			queue->uncounted--;
		else if (!take_count(queue))
			queue->overtaken++;
	}
	pthread_mutex_unlock(&queue->lock);
	return purged;
}
