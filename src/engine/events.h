/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queues of events behind a descriptor: completion channels and asynchronous
 * events. The descriptor counts the queued events (an eventfd in semaphore mode), so
 * that it is readable exactly while something is queued, honours the program's
 * O_NONBLOCK, and can stand in the program's own poll or epoll set.
 */
#ifndef VBN_ENGINE_EVENTS_H
#define VBN_ENGINE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct event {
	void *object; /* the face's object: ibv_cq, ibv_qp; NULL for port and device events */
	enum ibv_event_type type; /* asynchronous events only */
	uint8_t port;
};

struct event_queue;

/* NULL with errno on failure. */
struct event_queue *event_queue_create(void);
/* The same with a descriptor that is set apart from the program's (link/descriptor.h). */
struct event_queue *event_queue_create_apart(void);
void event_queue_destroy(struct event_queue *queue);
int event_queue_descriptor(const struct event_queue *queue);

/* Any thread, under any lock but the queue's own (a leaf). Never blocks. */
void event_queue_push(struct event_queue *queue, const struct event *event);
/*
 * The same for the thread that waits for the queue, by this thread itself: the descriptor
 * does not count the event, and event_queue_take_left() must follow soon.
 */
void event_queue_leave(struct event_queue *queue, const struct event *event);
/*
 * The oldest event, if one was left uncounted; further ones that were are counted now.
 * @taken as below.
 */
bool event_queue_take_left(struct event_queue *queue, struct event *event,
			   void (*taken)(const struct event *event));
/* Whether event_queue_pop() would find nothing and wait. */
bool event_queue_would_wait(struct event_queue *queue);
/*
 * Whether the program's last look at the queue was a wait in event_queue_pop(), rather than
 * in its own poll or epoll set. Any thread.
 */
void event_queue_set_awaited(struct event_queue *queue, bool is_awaited);
bool event_queue_is_awaited(const struct event_queue *queue);
/*
 * The oldest event. Waits as the descriptor's O_NONBLOCK says; -1 with errno
 * (EAGAIN, EINTR, EBADF) otherwise 0.
 *
 * @taken is called with it before the queue's lock is let go: after event_queue_purge()
 * of an object, every event of it that was handed out has been counted by @taken, so
 * that the object can wait for their acknowledgement. May be NULL.
 */
int event_queue_pop(struct event_queue *queue, struct event *event,
		    void (*taken)(const struct event *event));
/* Drops unread events of @object, before it is destroyed. Returns how many. */
uint32_t event_queue_purge(struct event_queue *queue, const void *object);

#endif
