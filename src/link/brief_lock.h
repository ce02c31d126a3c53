/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: locks of the data path
 *
 * A message passes through half a dozen locks that nobody else wants at that moment. A mutex takes
 * two locked instructions and a call each time it is taken and let go, 12 ns; this one takes a
 * locked instruction and a plain store, 5 ns. The price is paid by who has to wait: letting go wakes
 * nobody, so a waiter looks again, a few times at once, then when others have run, then every
 * 50 us, which also serves where the holder has lost its core or has less priority.
 *
 * For locks that are held for the work on one message or one packet. Not for what waits for others
 * under it, needs a condition, or must be seen free before something else is looked at: letting go is
 * no fence (a mutex's happens to be one on some processors).
 *
 * Any thread; not recursive; whoever takes it lets it go. Neither call is a point of cancellation, and errno
 * stays what it is. Under the thread sanitizer they count as those of a mutex.
 */
#ifndef VBN_LINK_BRIEF_LOCK_H
#define VBN_LINK_BRIEF_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define BRIEF_LOCK_SHOW(what, lock, flags) __tsan_mutex_##what((lock), (flags))
#else
#define BRIEF_LOCK_SHOW(what, lock, flags) ((void)0)
#endif

/* Between two looks: the other thread of a core has it to itself for that long. */
static inline void brief_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

struct brief_lock {
	_Atomic bool is_held;
};

static inline void brief_lock_init(struct brief_lock *lock)
{
	atomic_store_explicit(&lock->is_held, false, memory_order_relaxed);
	BRIEF_LOCK_SHOW(create, lock, __tsan_mutex_not_static);
}

/* Nobody holds it. */
static inline void brief_lock_fini(struct brief_lock *lock)
{
	(void)lock;
	BRIEF_LOCK_SHOW(destroy, lock, __tsan_mutex_not_static);
}

/* The slow half of brief_lock_take(): until it is ours. */
void brief_lock_wait(struct brief_lock *lock);

static inline bool brief_lock_try(struct brief_lock *lock)
{
	bool is_ours;

	BRIEF_LOCK_SHOW(pre_lock, lock, __tsan_mutex_try_lock);
	is_ours = !atomic_exchange_explicit(&lock->is_held, true, memory_order_acquire);
#if defined(__SANITIZE_THREAD__)
	__tsan_mutex_post_lock(
		lock, __tsan_mutex_try_lock | (is_ours ? 0 : __tsan_mutex_try_lock_failed), 0);
#endif
	return is_ours;
}

static inline void brief_lock_take(struct brief_lock *lock)
{
	BRIEF_LOCK_SHOW(pre_lock, lock, 0);
	if (atomic_exchange_explicit(&lock->is_held, true, memory_order_acquire))
		brief_lock_wait(lock);
#if defined(__SANITIZE_THREAD__)
	__tsan_mutex_post_lock(lock, 0, 0);
#endif
}

static inline void brief_lock_release(struct brief_lock *lock)
{
	BRIEF_LOCK_SHOW(pre_unlock, lock, 0);
	atomic_store_explicit(&lock->is_held, false, memory_order_release);
	BRIEF_LOCK_SHOW(post_unlock, lock, 0);
}

#endif
