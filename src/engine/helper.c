/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/helper.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine_state.h"
#include "engine/explain.h"

/* Taken before anything else of helpers. */
static pthread_mutex_t helpers_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, helper) helpers = LIST_HEAD_INITIALIZER(helpers);

void helper_init(struct helper *helper)
{
	*helper = (struct helper){0};
	pthread_mutex_init(&helper->start_lock, NULL);
	pthread_mutex_init(&helper->deputy_lock, NULL);
	sleeper_init(&helper->sleeper);
	sleeper_init(&helper->deputy_sleeper);
}

void helper_notice(struct engine *engine, vbn_time deadline)
{
	sleeper_notice(&engine->helper.sleeper, deadline);
	sleeper_notice(&engine->helper.deputy_sleeper, deadline);
}

static void end_lease(struct sleeper *sleeper)
{
	if (atomic_load(&sleeper->is_leased))
		sleeper_wake(sleeper);
}

void helper_take_over(struct engine *engine)
{
	atomic_store(&engine->last_poll, 0);
	end_lease(&engine->helper.sleeper);
	end_lease(&engine->helper.deputy_sleeper);
}

/*
 * A deputy works. The nap is as long as a lease while deputies come and go, and grows while the
 * same one stays. Returns how long the next one should be.
 */
static uint64_t stand_back(struct helper *helper, uint64_t nap_ns)
{
	uint64_t count = atomic_load(&helper->deputy_count);

	atomic_store(&helper->naps_until, clock_now() + nap_ns);
	if (atomic_load(&helper->deputy) && !atomic_load(&helper->must_stop))
		sleeper_nap(&helper->sleeper, nap_ns);
	atomic_store(&helper->naps_until, 0);
	if (atomic_load(&helper->deputy_count) != count) {
		/* The program works in between, and will be back. */
		helper->sleeper.lease_ns = SLEEPER_LEASE_NS_MAX;
		return SLEEPER_LEASE_NS_MAX;
	}
	return nap_ns < SLEEP_NS_MAX / 2 ? 2 * nap_ns : SLEEP_NS_MAX;
}

static void *helper_main(void *argument)
{
	struct engine *engine = argument;
	struct helper *helper = &engine->helper;
	uint64_t nap_ns = SLEEPER_LEASE_NS_MAX;

	pthread_mutex_lock(&helper->sleeper.awake_lock);
	atomic_store(&helper->number, (pid_t)syscall(SYS_gettid));
	prctl(PR_SET_NAME, "verbena");
	/* The kernel rounds sleeps up by 50 us unless told otherwise. */
	prctl(PR_SET_TIMERSLACK, 1000);
	while (!atomic_load(&helper->must_stop)) {
		if (atomic_load(&helper->deputy)) {
			nap_ns = stand_back(helper, nap_ns);
			continue;
		}
		sleeper_turn(engine, &helper->sleeper, NULL);
	}
	pthread_mutex_unlock(&helper->sleeper.awake_lock);
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
		sleeper_prepare(&helper->sleeper);
		pthread_mutex_lock(&helpers_lock);
		error = create_thread(engine);
		if (!error)
			LIST_INSERT_HEAD(&helpers, helper, next);
		pthread_mutex_unlock(&helpers_lock);
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
		sleeper_wake(&helper->sleeper);
		pthread_mutex_lock(&helpers_lock);
		pthread_join(helper->thread, NULL);
		LIST_REMOVE(helper, next);
		pthread_mutex_unlock(&helpers_lock);
	}
	atomic_store(&helper->state, HELPER_ABSENT);
	sleeper_fini(&helper->sleeper);
	sleeper_fini(&helper->deputy_sleeper);
	pthread_mutex_destroy(&helper->deputy_lock);
	pthread_mutex_destroy(&helper->start_lock);
}

void helper_close_inherited(struct helper *helper)
{
	descriptor_close(&helper->sleeper.wake);
	descriptor_close(&helper->deputy_sleeper.wake);
}

/* --- all of the process --- */

static bool hold(struct helper *helper, vbn_time deadline)
{
	bool is_held = false;

	atomic_store(&helper->sleeper.is_wanted, true);
	/* One that was just created takes its lock by itself, and is known from then on. */
	while (!is_held && clock_now() < deadline) {
		is_held = atomic_load(&helper->number) &&
			  pthread_mutex_trylock(&helper->sleeper.awake_lock) == 0;
		if (!is_held)
			sched_yield();
	}
	atomic_store(&helper->sleeper.is_wanted, false);
	return is_held;
}

bool helpers_hold(vbn_time deadline)
{
	struct helper *helper, *held;

	pthread_mutex_lock(&helpers_lock);
	LIST_FOREACH(helper, &helpers, next)
	{
		if (hold(helper, deadline))
			continue;
		LIST_FOREACH(held, &helpers, next)
		{
			if (held == helper)
				break;
			pthread_mutex_unlock(&held->sleeper.awake_lock);
		}
		pthread_mutex_unlock(&helpers_lock);
		return false;
	}
	return true;
}

void helpers_release(void)
{
	struct helper *helper;

	LIST_FOREACH(helper, &helpers, next)
	pthread_mutex_unlock(&helper->sleeper.awake_lock);
	pthread_mutex_unlock(&helpers_lock);
}

uint32_t helpers_count(void)
{
	const struct helper *helper;
	uint32_t count = 0;

	LIST_FOREACH(helper, &helpers, next)
	count++;
	return count;
}

bool helpers_have(pid_t thread)
{
	const struct helper *helper;

	LIST_FOREACH(helper, &helpers, next)
	if (atomic_load(&helper->number) == thread)
		return true;
	return false;
}

void helpers_before_fork(void)
{
	pthread_mutex_lock(&helpers_lock);
}

void helpers_after_fork(bool is_child)
{
	if (is_child)
		LIST_INIT(&helpers);
	pthread_mutex_unlock(&helpers_lock);
}
