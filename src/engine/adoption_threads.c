/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The moment in which nobody else runs
 *
 * Helpers of ours are held where they sleep. Other threads get a real-time signal that the program has
 * no handler for; in its handler they tell where their stacks are, and wait. All other signals
 * are blocked there, so that no handler of the program runs either.
 *
 * Who blocks the signal, is stopped by a debugger, or does not come within PATIENCE_NS (it sleeps in the
 * kernel and cannot be interrupted, as in a read by O_DIRECT or behind vfork) makes us give up. The signal
 * may then still be pending somewhere, therefore the handler stays installed from the first time on:
 * one that comes late returns at once.
 *
 * `generation` is odd while threads are to wait. A thread that was held up between seeing that and
 * telling its places tells them for a generation that is over, and is not counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/adoption_internal.h"
#include "engine/helper.h"
#include "link/clock.h"

#define PATIENCE_NS (20 * VBN_MILLISECOND)

static struct {
	_Atomic uint32_t generation;
	_Atomic uint32_t taken;	  /* entries of threads */
	_Atomic uint32_t arrived; /* raised by who has told */
	struct thread_places threads[ADOPTION_THREADS_MAX];
	_Atomic uint32_t told[ADOPTION_THREADS_MAX]; /* the generation for which it was told */
	int signal_number;			     /* 0: none was chosen yet */
	pid_t wanted[ADOPTION_THREADS_MAX];
	uint32_t wanted_count;
} stop;

static uintptr_t own_control(void)
{
	return (uintptr_t)pthread_self();
}

static void tell_places(struct thread_places *places, uintptr_t interrupted)
{
	stack_t signal_stack = {.ss_flags = SS_DISABLE};

	sigaltstack(NULL, &signal_stack);
	*places = (struct thread_places){
		.number = (pid_t)syscall(SYS_gettid),
		.stack = {interrupted, (uintptr_t)__builtin_frame_address(0)},
		.control = own_control(),
		.signal_stack = (uintptr_t)signal_stack.ss_sp,
		.signal_stack_bytes = signal_stack.ss_flags & SS_DISABLE ? 0 : signal_stack.ss_size,
	};
}

/* --- the other threads --- */

static uintptr_t stack_pointer(const ucontext_t *machine)
{
#if defined(__x86_64__)
	return (uintptr_t)machine->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
	return (uintptr_t)machine->uc_mcontext.sp;
#else
	(void)machine;
	return (uintptr_t)__builtin_frame_address(0);
#endif
}

static void on_stop(int signal_number, siginfo_t *info, void *context)
{
	uint32_t generation = atomic_load(&stop.generation), index;
	int saved_errno = errno;

	(void)signal_number;
	(void)info;
	if (!(generation & 1))
		return;
	index = atomic_fetch_add(&stop.taken, 1);
	if (index < ADOPTION_THREADS_MAX) {
		tell_places(&stop.threads[index], stack_pointer(context));
		atomic_store(&stop.told[index], generation);
	}
	atomic_fetch_add(&stop.arrived, 1);
	syscall(SYS_futex, &stop.arrived, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
	while (atomic_load(&stop.generation) == generation)
		syscall(SYS_futex, &stop.generation, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, generation,
			NULL, NULL, 0);
	errno = saved_errno;
}

/* --- the signal --- */

static bool is_ours(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && (action.sa_flags & SA_SIGINFO) &&
	       action.sa_sigaction == on_stop;
}

static bool is_unused(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) &&
	       action.sa_handler == SIG_DFL;
}

static bool choose_signal(void)
{
	struct sigaction action = {.sa_sigaction = on_stop,
				   .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};

	if (stop.signal_number && is_ours(stop.signal_number))
		return true;
	sigfillset(&action.sa_mask);
	/* From the middle: programs take the first or the last ones. */
	for (int i = 0, count = SIGRTMAX - SIGRTMIN; i < count; i++) {
		int number = SIGRTMIN + (count / 2 + i) % count;

		if (!is_unused(number) || sigaction(number, &action, NULL) != 0)
			continue;
		stop.signal_number = number;
		return true;
	}
	return false;
}

/* --- which threads there are --- */

struct directory_entry {
	uint64_t inode;
	int64_t offset;
	unsigned short length;
	unsigned char type;
	char name[];
};

/* Calls @visit for each thread but this one and helpers, until it says false. False: so did this. */
static bool for_each_other(bool (*visit)(pid_t thread))
{
	pid_t own = (pid_t)syscall(SYS_gettid);
	_Alignas(struct directory_entry) char entries[2048];
	int directory = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool goes_on = directory >= 0;
	long got;

	while (goes_on &&
	       (got = syscall(SYS_getdents64, directory, entries, sizeof(entries))) > 0) {
		for (long at = 0; goes_on && at < got;) {
			const struct directory_entry *entry =
				(const struct directory_entry *)(entries + at);
			pid_t thread = (pid_t)strtol(entry->name, NULL, 10);

			at += entry->length;
			if (thread > 0 && thread != own && !helpers_have(thread))
				goes_on = visit(thread);
		}
	}
	if (directory >= 0)
		close(directory);
	return goes_on;
}

static bool no_other(pid_t thread)
{
	(void)thread;
	return false;
}

static bool is_wanted(pid_t thread)
{
	for (uint32_t i = 0; i < stop.wanted_count; i++)
		if (stop.wanted[i] == thread)
			return true;
	return false;
}

/* --- stopping them --- */

/* Whether the signal would reach the thread. One that has ended already does no harm. */
static bool can_be_stopped(pid_t thread, bool *is_dead)
{
	char path[48];
	int64_t blocked;

	*is_dead = false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)thread);
	blocked = proc_number(path, "SigBlk", 16);
	if (blocked < 0) {
		*is_dead = access(path, F_OK) != 0;
		return *is_dead;
	}
	return !((uint64_t)blocked >> (stop.signal_number - 1) & 1);
}

static bool check_thread(pid_t thread)
{
	bool is_dead;

	return can_be_stopped(thread, &is_dead);
}

static bool want_thread(pid_t thread)
{
	bool is_dead;

	if (is_wanted(thread))
		return true;
	if (!can_be_stopped(thread, &is_dead) || stop.wanted_count == ADOPTION_THREADS_MAX)
		return false;
	if (is_dead || syscall(SYS_tgkill, getpid(), thread, stop.signal_number) != 0)
		return true;
	stop.wanted[stop.wanted_count++] = thread;
	return true;
}

static bool has_told(pid_t thread, uint32_t generation)
{
	uint32_t count = atomic_load(&stop.taken);

	for (uint32_t i = 0; i < count && i < ADOPTION_THREADS_MAX; i++)
		if (atomic_load(&stop.told[i]) == generation && stop.threads[i].number == thread)
			return true;
	return false;
}

static bool is_there(pid_t thread)
{
	return syscall(SYS_tgkill, getpid(), thread, 0) == 0;
}

static bool all_have_told(uint32_t generation)
{
	for (uint32_t i = 0; i < stop.wanted_count; i++)
		if (!has_told(stop.wanted[i], generation) && is_there(stop.wanted[i]))
			return false;
	return true;
}

static bool wait_for_all(uint32_t generation, vbn_time deadline)
{
	/* One that ended instead of telling wakes nobody. */
	const struct timespec at_most = {.tv_nsec = (long)VBN_MILLISECOND};

	for (;;) {
		uint32_t arrived = atomic_load(&stop.arrived);

		if (all_have_told(generation))
			return true;
		if (clock_now() >= deadline)
			return false;
		syscall(SYS_futex, &stop.arrived, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, arrived,
			&at_most, NULL, 0);
	}
}

/* A thread that was still running may have made another one: until there is no new one. */
static bool stop_all(uint32_t generation)
{
	vbn_time deadline = vbn_time_add(clock_now(), PATIENCE_NS);
	uint32_t before;

	do {
		before = stop.wanted_count;
		if (!for_each_other(want_thread) || !wait_for_all(generation, deadline))
			return false;
	} while (stop.wanted_count != before);
	return true;
}

static void let_go(void)
{
	atomic_fetch_add(&stop.generation, 1);
	syscall(SYS_futex, &stop.generation, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL,
		0);
}

static enum adoption_verdict stop_others(struct quiet *quiet)
{
	uint32_t generation, count;

	if (!choose_signal() || !for_each_other(check_thread))
		return ADOPTION_UNSTOPPED;
	stop.wanted_count = 0;
	atomic_store(&stop.taken, 0);
	generation = atomic_fetch_add(&stop.generation, 1) + 1;
	if (!stop_all(generation)) {
		let_go();
		return ADOPTION_UNSTOPPED;
	}
	count = atomic_load(&stop.taken);
	quiet->has_stopped = true;
	quiet->thread_count = count < ADOPTION_THREADS_MAX ? count : ADOPTION_THREADS_MAX;
	quiet->threads = stop.threads;
	return ADOPTION_DONE;
}

/* --- the moment --- */

static enum adoption_verdict begin(struct quiet *quiet, bool may_stop)
{
	if (for_each_other(no_other))
		return ADOPTION_DONE;
	return may_stop ? stop_others(quiet) : ADOPTION_THREADS;
}

enum adoption_verdict quiet_begin(struct quiet *quiet, bool may_stop)
{
	sigset_t all;
	enum adoption_verdict result;

	*quiet = (struct quiet){.has_stopped = false};
	if (!helpers_hold(vbn_time_add(clock_now(), PATIENCE_NS)))
		return ADOPTION_BUSY;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &quiet->signals);
	tell_places(&quiet->own, (uintptr_t)__builtin_frame_address(0));
	result = begin(quiet, may_stop);
	if (result == ADOPTION_DONE)
		return ADOPTION_DONE;
	pthread_sigmask(SIG_SETMASK, &quiet->signals, NULL);
	helpers_release();
	return result;
}

void quiet_end(struct quiet *quiet)
{
	if (quiet->has_stopped)
		let_go();
	pthread_sigmask(SIG_SETMASK, &quiet->signals, NULL);
	helpers_release();
}
