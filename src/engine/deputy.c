/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/deputy.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "engine/engine_state.h"

static bool appoint(struct engine *engine, struct deputy *deputy)
{
	struct helper *helper = &engine->helper;
	bool is_first;

	pthread_mutex_lock(&helper->deputy_lock);
	is_first = !atomic_load(&helper->deputy);
	if (is_first) {
		atomic_fetch_add(&helper->deputy_count, 1);
		atomic_store(&helper->deputy, deputy);
	}
	pthread_mutex_unlock(&helper->deputy_lock);
	return is_first;
}

/* The deputy is awake: the engine is there, and stays until the lock is let go. */
static void resign(struct engine *engine)
{
	struct helper *helper = &engine->helper;
	vbn_time now = clock_now();

	/* The program polls and posts now; who looks after the rest is told by the lease. */
	atomic_store(&engine->last_poll, now);
	pthread_mutex_lock(&helper->deputy_lock);
	atomic_store(&helper->deputy, NULL);
	if (atomic_load(&helper->naps_until) > now + 2 * SLEEPER_LEASE_NS_MAX)
		sleeper_wake(&helper->sleeper);
	pthread_mutex_unlock(&helper->deputy_lock);
}

void deputy_dismiss(struct engine *engine, struct event_queue *queue)
{
	struct helper *helper = &engine->helper;
	bool is_awake = true;

	while (is_awake) {
		struct deputy *deputy;
		int asleep = DEPUTY_ASLEEP;

		pthread_mutex_lock(&helper->deputy_lock);
		deputy = atomic_load(&helper->deputy);
		is_awake = deputy && deputy->queue == queue;
		if (is_awake &&
		    atomic_compare_exchange_strong(&deputy->state, &asleep, DEPUTY_DISMISSED)) {
			sleeper_disarm(engine, &helper->deputy_sleeper);
			atomic_store(&helper->deputy, NULL);
			if (atomic_load(&helper->naps_until))
				sleeper_wake(&helper->sleeper);
			is_awake = false;
		}
		pthread_mutex_unlock(&helper->deputy_lock);
		if (is_awake)
			sched_yield();
	}
}

static bool wakes_up(struct deputy *deputy)
{
	int asleep = DEPUTY_ASLEEP;

	return atomic_compare_exchange_strong(&deputy->state, &asleep, DEPUTY_AWAKE);
}

/* Its thread is cancelled, which happens only while it sleeps. */
static void abandon(void *argument)
{
	struct deputy *deputy = argument;

	if (!wakes_up(deputy))
		return;
	sleeper_disarm(deputy->engine, &deputy->engine->helper.deputy_sleeper);
	resign(deputy->engine);
}

/*
 * A read() on the descriptor would be restarted after the handler of a signal that was installed
 * with SA_RESTART, and no other. ppoll() is not restarted and does not tell which signal it
 * was; so only where all handlers that this thread may run agree is it like read(), and where
 * they do not the program sees an EINTR that it is prepared for.
 */
static bool handlers_restart(void)
{
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	for (int number = 1; number < NSIG; number++) {
		struct sigaction action;

		if (number == SIGSEGV || number == SIGBUS || sigismember(&blocked, number) == 1 ||
		    sigaction(number, NULL, &action) != 0)
			continue;
		if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN &&
		    !(action.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}

int deputy_poll(struct deputy *deputy, struct pollfd *entries, nfds_t count,
		const struct timespec *timeout)
{
	int ready, error;

	atomic_store(&deputy->state, DEPUTY_ASLEEP);
	pthread_cleanup_push(abandon, deputy);
	pthread_setcancelstate(deputy->cancel_state, NULL);
	ready = ppoll(entries, count, timeout, NULL);
	error = errno;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
	errno = error;
	if (wakes_up(deputy))
		return ready;
	errno = ECANCELED;
	return -1;
}

/* Its channel is gone: it waits as for a file that was closed while it read. */
static int wait_for_ever(const struct deputy *deputy)
{
	pthread_setcancelstate(deputy->cancel_state, NULL);
	do
		ppoll(NULL, 0, NULL, NULL);
	while (handlers_restart());
	errno = EINTR;
	return -1;
}

/* Works until its event is there, or the wait has ended in another way. */
static int work(struct deputy *deputy, struct event *event,
		void (*taken)(const struct event *event))
{
	struct engine *engine = deputy->engine;
	struct event_queue *queue = deputy->queue;

	for (;;) {
		enum sleep_end end = sleeper_turn(engine, &engine->helper.deputy_sleeper, deputy);
		bool has_event;

		if (end == SLEEP_DISMISSED)
			return wait_for_ever(deputy);
		has_event = event_queue_take_left(queue, event, taken);
		if (!has_event && end == SLEEP_INTERRUPTED && handlers_restart())
			continue;
		if (!has_event && (end == SLEEP_HAS_PACKETS ||
				   (end == SLEEP_IS_OVER && event_queue_would_wait(queue))))
			continue;
		resign(engine);
		if (has_event)
			return 0;
		if (end != SLEEP_INTERRUPTED)
			return event_queue_pop(queue, event, taken);
		errno = EINTR;
		return -1;
	}
}

int deputy_pop(struct engine *engine, struct event_queue *queue, struct event *event,
	       void (*taken)(const struct event *event))
{
	struct deputy deputy = {.engine = engine, .queue = queue, .state = DEPUTY_AWAKE};
	bool waits = event_queue_would_wait(queue);
	int result;

	event_queue_set_awaited(queue, waits);
	if (!waits)
		return event_queue_pop(queue, event, taken);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &deputy.cancel_state);
	if (!appoint(engine, &deputy)) {
		pthread_setcancelstate(deputy.cancel_state, NULL);
		return event_queue_pop(queue, event, taken);
	}
	progress_release_acks(engine);
	/* The program goes to sleep: what lease it had is over. */
	atomic_store(&engine->last_poll, 0);
	result = work(&deputy, event, taken);
	pthread_setcancelstate(deputy.cancel_state, NULL);
	return result;
}
