/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/helper.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "engine/engine_state.h"
#include "engine/explain.h"

#define LEASE_NS_MIN (5 * VBN_MICROSECOND)
#define LEASE_NS_MAX (1 * VBN_MILLISECOND)
/* How long nobody may be able to wake the helper after the program closed its descriptor. */
#define SLEEP_NS_MAX (1 * VBN_SECOND)
/* Without a descriptor to be woken by, and none to be had, looking often is all there is. */
#define SLEEP_NS_DEAF (1 * VBN_MILLISECOND)

void helper_init(struct helper *helper)
{
	*helper = (struct helper){.wake.fd = -1, .lease_ns = LEASE_NS_MIN};
	pthread_mutex_init(&helper->start_lock, NULL);
	pthread_mutex_init(&helper->wake_lock, NULL);
}

static void wake_up(struct helper *helper)
{
	uint64_t one = 1;

	pthread_mutex_lock(&helper->wake_lock);
	if (descriptor_is_ours(&helper->wake)) {
		ssize_t written = write(helper->wake.fd, &one, sizeof(one));

		(void)written; /* full means that it is awake already */
	}
	pthread_mutex_unlock(&helper->wake_lock);
}

/* The number to wait on, after a new descriptor where the program took the old one; or -1. */
static int wake_descriptor(struct helper *helper)
{
	int fd;

	pthread_mutex_lock(&helper->wake_lock);
	if (!descriptor_is_ours(&helper->wake))
		helper->wake = descriptor_adopt(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	fd = helper->wake.fd;
	pthread_mutex_unlock(&helper->wake_lock);
	return fd;
}

void helper_notice(struct engine *engine, vbn_time deadline)
{
	struct helper *helper = &engine->helper;

	if (atomic_load(&helper->sleeps_until) > deadline)
		wake_up(helper);
}

void helper_take_over(struct engine *engine)
{
	struct helper *helper = &engine->helper;

	atomic_store(&engine->last_poll, 0);
	if (atomic_load(&helper->is_leased))
		wake_up(helper);
}

static void drain(struct helper *helper)
{
	uint64_t count;

	pthread_mutex_lock(&helper->wake_lock);
	if (descriptor_is_ours(&helper->wake)) {
		ssize_t got = read(helper->wake.fd, &count, sizeof(count));

		(void)got;
	}
	pthread_mutex_unlock(&helper->wake_lock);
}

/* The links to wait on. Not @armed: those that pollers read are left out. */
static nfds_t add_links(struct engine *engine, bool armed, struct pollfd *waits)
{
	uint32_t link_count = atomic_load(&engine->link_count);
	vbn_time now = clock_now();
	nfds_t wait_count = 0;

	for (uint32_t i = 0; i < link_count; i++) {
		struct link *link = engine->links[i].link;
		int fd = link->ops->descriptor(link);

		if (fd >= 0 && (armed || !progress_link_is_warm(&engine->links[i], now)))
			waits[wait_count++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	return wait_count;
}

/*
 * Says that the helper sleeps, and returns until when it may. Whoever changes something
 * after this wakes it; what was changed before is seen here.
 */
static vbn_time announce_sleep(struct engine *engine, vbn_time until, bool armed)
{
	struct helper *helper = &engine->helper;

	if (!armed) {
		atomic_store(&helper->is_leased, true);
		/* A lease that was ended between the look at the clock and here. */
		return atomic_load(&engine->last_poll) == 0 ? 0 : until;
	}
	atomic_store(&helper->sleeps_until, until);
	until = vbn_time_min(until, progress_next_deadline(engine));
	/* A deadline behind this one needs no wake-up; 0 would mean that we are awake. */
	atomic_store(&helper->sleeps_until, until ? until : 1);
	return until;
}

static int wait_until(struct pollfd *waits, nfds_t wait_count, vbn_time until)
{
	struct timespec timeout = {0};
	vbn_time now = clock_now();

	if (until > now) {
		uint64_t left =
			vbn_time_min(until - now, waits[0].fd < 0 ? SLEEP_NS_DEAF : SLEEP_NS_MAX);

		timeout.tv_sec = (time_t)(left / VBN_SECOND);
		timeout.tv_nsec = (long)(left % VBN_SECOND);
	}
	return ppoll(waits, wait_count, &timeout, NULL);
}

/* Waits for a wake-up, for the links, and at the longest until @until. True: a link has something. */
static bool sleep_until(struct engine *engine, vbn_time until, bool armed)
{
	struct helper *helper = &engine->helper;
	struct pollfd waits[1 + ENGINE_LINKS_MAX] = {
		{.fd = wake_descriptor(helper), .events = POLLIN}};
	nfds_t wait_count;
	int ready;

	until = announce_sleep(engine, until, armed);
	wait_count = 1 + add_links(engine, armed, waits + 1);
	ready = wait_until(waits, wait_count, until);
	atomic_store(&helper->sleeps_until, 0);
	atomic_store(&helper->is_leased, false);
	if (ready > 0 && waits[0].revents) {
		drain(helper);
		ready--;
	}
	return ready > 0;
}

/*
 * One turn while others poll: sleep to the end of the lease; it grows if they go on.
 * They read only the links that carried something lately; a packet on another one is ours.
 */
static void sit_out_lease(struct engine *engine, vbn_time last_poll)
{
	struct helper *helper = &engine->helper;

	if (sleep_until(engine, last_poll + helper->lease_ns, false)) {
		progress(engine, true);
		return;
	}
	if (atomic_load(&engine->last_poll) > last_poll) {
		helper->lease_ns *= 2;
		if (helper->lease_ns > LEASE_NS_MAX)
			helper->lease_ns = LEASE_NS_MAX;
	}
}

static void serve(struct engine *engine)
{
	bool found = progress(engine, true);

	/* A packet was waiting while the program polled nothing: it needs us sooner. */
	if (found)
		engine->helper.lease_ns = LEASE_NS_MIN;
	else
		sleep_until(engine, VBN_TIME_NEVER, true);
}

static void *helper_main(void *argument)
{
	struct engine *engine = argument;
	struct helper *helper = &engine->helper;

	prctl(PR_SET_NAME, "verbena");
	/* The kernel rounds sleeps up by 50 us unless told otherwise. */
	prctl(PR_SET_TIMERSLACK, 1000);
	while (!atomic_load(&helper->must_stop)) {
		vbn_time last_poll = atomic_load(&engine->last_poll);

		if (last_poll && clock_now() < last_poll + helper->lease_ns)
			sit_out_lease(engine, last_poll);
		else
			serve(engine);
	}
	return NULL;
}

/* A creator that is pinned to one core or real-time must not starve the helper. */
static void set_scheduling(pthread_attr_t *attributes)
{
	struct sched_param normal = {0};
	cpu_set_t own, all;
	int policy = sched_getscheduler(0);

	pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(attributes, SCHED_OTHER);
	pthread_attr_setschedparam(attributes, &normal);
	if (sched_getaffinity(0, sizeof(own), &own) != 0)
		return;
	if (CPU_COUNT(&own) > 1 && policy != SCHED_FIFO && policy != SCHED_RR)
		return;
	/* The kernel cuts this down to what the cpuset allows. */
	memset(&all, 0xff, sizeof(all));
	pthread_attr_setaffinity_np(attributes, sizeof(all), &all);
}

static int create_thread(struct engine *engine)
{
	pthread_attr_t attributes;
	sigset_t blocked, before;
	int error;

	sigfillset(&blocked);
	sigdelset(&blocked, SIGSEGV);
	sigdelset(&blocked, SIGBUS);
	pthread_attr_init(&attributes);
	set_scheduling(&attributes);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	error = pthread_create(&engine->helper.thread, &attributes, helper_main, engine);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return error;
}

void helper_start(struct engine *engine)
{
	struct helper *helper = &engine->helper;

	if (atomic_load(&helper->state) != HELPER_ABSENT)
		return;
	pthread_mutex_lock(&helper->start_lock);
	if (atomic_load(&helper->state) == HELPER_ABSENT) {
		int error;

		/* Without a descriptor the helper looks by itself now and then. */
		wake_descriptor(helper);
		error = create_thread(engine);
		if (error)
			explain_note(LOG_ERROR,
				     "no helper thread (%s): peers are served only while the "
				     "program polls",
				     strerror(error));
		atomic_store(&helper->state, error ? HELPER_REFUSED : HELPER_RUNNING);
	}
	pthread_mutex_unlock(&helper->start_lock);
}

void helper_stop(struct engine *engine)
{
	struct helper *helper = &engine->helper;

	if (atomic_load(&helper->state) == HELPER_RUNNING) {
		atomic_store(&helper->must_stop, true);
		wake_up(helper);
		pthread_join(helper->thread, NULL);
	}
	atomic_store(&helper->state, HELPER_ABSENT);
	descriptor_close(&helper->wake);
	pthread_mutex_destroy(&helper->wake_lock);
	pthread_mutex_destroy(&helper->start_lock);
}
