/* SPDX-License-Identifier: BSD-2-Clause */
/* One holder at a time, also where waiters have long gone to sleep. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/brief_lock.h"

#define THREADS 4
#define TURNS 20000
#define PATIENCE_S 20

struct shared {
	struct brief_lock lock;
	uint64_t count; /* under the lock */
	_Atomic long waiter;
	bool waiter_had_it; /* under the lock */
	int waiter_errno;
};

static void *count_up(void *argument)
{
	struct shared *shared = argument;

	for (int i = 0; i < TURNS; i++) {
		if (i % 2)
			brief_lock_take(&shared->lock);
		else
			while (!brief_lock_try(&shared->lock))
				brief_pause();
		shared->count++;
		brief_lock_release(&shared->lock);
	}
	return NULL;
}

static void one_at_a_time(void **state)
{
	struct shared shared = {.count = 0};
	pthread_t threads[THREADS];

	(void)state;
	brief_lock_init(&shared.lock);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_up, &shared), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(shared.count, THREADS * TURNS);
	brief_lock_fini(&shared.lock);
}

static void tried_without_waiting(void **state)
{
	struct brief_lock lock;

	(void)state;
	brief_lock_init(&lock);
	assert_true(brief_lock_try(&lock));
	assert_false(brief_lock_try(&lock));
	brief_lock_release(&lock);
	assert_true(brief_lock_try(&lock));
	brief_lock_release(&lock);
	brief_lock_take(&lock);
	assert_false(brief_lock_try(&lock));
	brief_lock_release(&lock);
	brief_lock_fini(&lock);
}

static void *wait_for_it(void *argument)
{
	struct shared *shared = argument;

	errno = EXDEV;
	atomic_store(&shared->waiter, syscall(SYS_gettid));
	brief_lock_take(&shared->lock);
	shared->waiter_errno = errno;
	shared->waiter_had_it = true;
	brief_lock_release(&shared->lock);
	return NULL;
}

static char state_of(long thread)
{
	char path[64], state = '?';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", thread);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
	fclose(file);
	return state;
}

/* Nobody wakes it, and it has its errno still. */
static void waiters_sleep_and_come_back(void **state)
{
	struct shared shared = {.count = 0};
	time_t deadline = time(NULL) + PATIENCE_S;
	pthread_t thread;

	(void)state;
	brief_lock_init(&shared.lock);
	brief_lock_take(&shared.lock);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &shared), 0);
	while (!atomic_load(&shared.waiter) || state_of(atomic_load(&shared.waiter)) != 'S')
		assert_true(time(NULL) < deadline);
	assert_false(shared.waiter_had_it);
	brief_lock_release(&shared.lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(shared.waiter_had_it);
	assert_int_equal(shared.waiter_errno, EXDEV);
	brief_lock_fini(&shared.lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(tried_without_waiting),
		cmocka_unit_test(waiters_sleep_and_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
