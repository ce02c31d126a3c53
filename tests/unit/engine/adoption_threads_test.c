/* SPDX-License-Identifier: BSD-2-Clause */
/* Other threads that use the memory while it moves, and children that are forked from it. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/engine/adopted_memory.h"
#include "unit/engine/in_child.h"

#include "link/clock.h"

#define PAGES 64
#define COUNTERS 2

static struct adopter adopter;
static uint8_t *memory;

static int open_all(void **state)
{
	(void)state;
	adopter_open(&adopter, ADOPT_CHOICE_ALL);
	memory = memory_map(PAGES * adoption_page_size());
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	memory_unmap(memory, PAGES * adoption_page_size());
	adopter_close(&adopter);
	return 0;
}

static size_t page_bytes(void)
{
	return adoption_page_size();
}

/* --- threads --- */

struct worker {
	pthread_t thread;
	atomic_bool must_end;
	uint64_t *counter; /* in the memory that moves */
	uint64_t count;
	int ends[2];	 /* a socket pair */
	uint8_t *buffer; /* in the memory that moves */
	atomic_bool has_failed;
};

static void *count_up(void *argument)
{
	struct worker *worker = argument;

	while (!atomic_load(&worker->must_end)) {
		/* Not atomic: any page that is not the one that was read shows. */
		*(volatile uint64_t *)worker->counter += 1;
		worker->count++;
	}
	return NULL;
}

/* What was sent from the memory arrives in the memory, each byte of it. */
static void *exchange(void *argument)
{
	struct worker *worker = argument;
	uint8_t *sent = worker->buffer, *got = worker->buffer + 2048;

	for (uint32_t round = 0; !atomic_load(&worker->must_end); round++) {
		memset(sent, (int)(round & 0xff), 2048);
		memset(got, 0x55, 2048);
		if (send(worker->ends[0], sent, 2048, 0) != 2048 ||
		    recv(worker->ends[1], got, 2048, 0) != 2048 || memcmp(sent, got, 2048) != 0) {
			atomic_store(&worker->has_failed, true);
			break;
		}
		worker->count++;
	}
	return NULL;
}

/* Sleeps in the kernel with the memory as its buffer, until it is sent something. */
static void *wait_for_bytes(void *argument)
{
	struct worker *worker = argument;

	while (!atomic_load(&worker->must_end)) {
		ssize_t got = recv(worker->ends[1], worker->buffer, 2048, 0);

		if (got != 2048 && !(got < 0 && errno == EINTR)) {
			atomic_store(&worker->has_failed, got != 0);
			break;
		}
		if (got == 2048 && worker->buffer[2047] != (uint8_t)worker->count) {
			atomic_store(&worker->has_failed, true);
			break;
		}
		worker->count += got == 2048;
	}
	return NULL;
}

static void move_there_and_back(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		adopter_give_back(&adopter, adopter_take(&adopter, memory, PAGES * page_bytes()));
}

static void nothing_is_lost_of_what_threads_write(void **state)
{
	struct worker workers[COUNTERS] = {{.count = 0}};

	(void)state;
	memset(memory, 0, PAGES * page_bytes());
	for (size_t i = 0; i < COUNTERS; i++) {
		workers[i].counter = (uint64_t *)(void *)(memory + i * 9 * page_bytes() + 64);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, count_up, &workers[i]),
				 0);
	}
	move_there_and_back(20);
	for (size_t i = 0; i < COUNTERS; i++) {
		atomic_store(&workers[i].must_end, true);
		pthread_join(workers[i].thread, NULL);
		assert_true(workers[i].count > 0);
		assert_int_equal(*workers[i].counter, workers[i].count);
	}
	assert_true(mappings_of(memory, PAGES * page_bytes()).are_private);
}

static void no_call_fails_and_no_byte_is_lost_in_the_kernel(void **state)
{
	struct worker workers[2] = {{.count = 0}};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		workers[i].buffer = memory + (5 + 20 * i) * page_bytes() - 1000;
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, workers[i].ends), 0);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, exchange, &workers[i]),
				 0);
	}
	move_there_and_back(20);
	for (size_t i = 0; i < 2; i++) {
		atomic_store(&workers[i].must_end, true);
		pthread_join(workers[i].thread, NULL);
		assert_false(atomic_load(&workers[i].has_failed));
		assert_true(workers[i].count > 0);
		close(workers[i].ends[0]);
		close(workers[i].ends[1]);
	}
}

static void who_sleeps_in_a_call_gets_its_bytes(void **state)
{
	struct worker worker = {.buffer = memory + 3 * page_bytes()};
	uint8_t bytes[2048];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, worker.ends), 0);
	assert_int_equal(pthread_create(&worker.thread, NULL, wait_for_bytes, &worker), 0);
	for (int i = 0; i < 50; i++) {
		struct adopted_area *area = adopter_take(&adopter, memory, PAGES * page_bytes());

		memset(bytes, 2 * i, sizeof(bytes));
		assert_int_equal(send(worker.ends[0], bytes, sizeof(bytes), 0), sizeof(bytes));
		adopter_give_back(&adopter, area);
		memset(bytes, 2 * i + 1, sizeof(bytes));
		assert_int_equal(send(worker.ends[0], bytes, sizeof(bytes), 0), sizeof(bytes));
	}
	shutdown(worker.ends[0], SHUT_WR);
	pthread_join(worker.thread, NULL);
	assert_false(atomic_load(&worker.has_failed));
	assert_int_equal(worker.count, 100);
	close(worker.ends[0]);
	close(worker.ends[1]);
}

static void *make_threads(void *argument)
{
	struct worker *worker = argument;
	pthread_t thread;

	while (!atomic_load(&worker->must_end)) {
		struct worker short_one = {.counter = worker->counter};

		atomic_store(&short_one.must_end, true);
		if (pthread_create(&thread, NULL, count_up, &short_one) == 0)
			pthread_join(thread, NULL);
		worker->count++;
	}
	return NULL;
}

static void threads_may_come_and_go(void **state)
{
	struct worker worker = {.counter = (uint64_t *)(void *)memory};
	vbn_time until = clock_now() + 20 * VBN_SECOND;
	uint32_t done = 0;

	(void)state;
	assert_int_equal(pthread_create(&worker.thread, NULL, make_threads, &worker), 0);
	/* Each time a new thread may come in between; on a busy machine nearly always. */
	for (int i = 0; i < 100 || (!done && clock_now() < until); i++) {
		enum adoption_verdict verdict;
		struct adopted_area *area =
			adoption_take(&adopter.adoption, memory, PAGES * page_bytes(), &verdict);

		if (area)
			adopter_give_back(&adopter, area);
		done += area != NULL;
	}
	atomic_store(&worker.must_end, true);
	pthread_join(worker.thread, NULL);
	assert_true(done > 0);
	adoption_try_again(&adopter.adoption);
	assert_true(mappings_of(memory, PAGES * page_bytes()).are_private);
}

/* --- children --- */

static void child_has_its_own(void)
{
	size_t length = PAGES * page_bytes();

	for (size_t i = 0; i < length; i++)
		CHECK(memory[i] == 0x11);
	memset(memory, 0x22, length);
	for (size_t i = 0; i < length; i++)
		CHECK(memory[i] == 0x22);
	/* For it, it is memory like any. */
	CHECK(madvise(memory, length, MADV_DOFORK) == 0);
}

/* The memory was handed to the child as a page that is its own from then on. */
static void a_child_has_memory_of_its_own(void **state)
{
	struct adopted_area *area;
	size_t length = PAGES * page_bytes();

	(void)state;
	pthread_atfork(adoption_before_fork, adoption_after_fork_in_parent,
		       adoption_after_fork_in_child);
	memset(memory, 0x11, length);
	area = adopter_take(&adopter, memory, length);
	assert_true(child_succeeded(in_child(child_has_its_own)));
	for (size_t i = 0; i < length; i++)
		assert_int_equal(memory[i], 0x11);
	adoption_give_back(&adopter.adoption, area);
	for (size_t i = 0; i < length; i++)
		assert_int_equal(memory[i], 0x11);
}

static char wait_for_byte(int fd)
{
	char byte = 0;

	return read(fd, &byte, 1) == 1 ? byte : 0;
}

/* The pages go with the child, however it treats its descriptors, and whatever the parent does. */
static void a_child_keeps_what_its_parent_moves_back(void **state)
{
	size_t length = PAGES * page_bytes();
	struct adopted_area *area;
	uint64_t offset;
	int go[2], status;
	pid_t child;

	(void)state;
	memset(memory, 0x33, length);
	area = adopter_take(&adopter, memory, length);
	offset = area->offset;
	assert_int_equal(pipe(go), 0);
	child = fork();
	if (child == 0) {
		for (int fd = 3; fd < 1000; fd++)
			if (fd != go[0])
				close(fd);
		CHECK(wait_for_byte(go[0]) == 'a');
		for (size_t i = 0; i < length; i++)
			CHECK(memory[i] == 0x33);
		_exit(CHILD_DONE);
	}
	adoption_give_back(&adopter.adoption, area);
	memset(memory, 0x44, length);
	assert_true(adopted_is_locked(adopter.registry.fd, ADOPTED_BY_OWNER, offset, 1));
	assert_false(adopted_punch(adopter.registry.fd, offset, ADOPTED_STRIDE_BYTES));
	assert_int_equal(write(go[1], "a", 1), 1);
	waitpid(child, &status, 0);
	assert_true(child_succeeded(status));
	assert_true(adopted_punch(adopter.registry.fd, offset, ADOPTED_STRIDE_BYTES));
	for (size_t i = 0; i < length; i++)
		assert_int_equal(memory[i], 0x44);
	close(go[0]);
	close(go[1]);
}

/* As daemon() does: the parent ends, and somebody clears up behind it. */
static void a_grandchild_outlives_its_parents(void **state)
{
	size_t length = PAGES * page_bytes();
	int ready[2], go[2], status;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	child = fork();
	if (child == 0) {
		enum adoption_verdict verdict;

		adopter_open_anew(&adopter, 9);
		memset(memory, 0x66, length);
		CHECK(adoption_take(&adopter.adoption, memory, length, &verdict));
		if (fork() == 0) {
			char verdict_byte = 'y';

			CHECK(wait_for_byte(go[0]) == 'a');
			for (size_t i = 0; i < length; i++)
				if (memory[i] != 0x66)
					verdict_byte = 'n';
			CHECK(write(ready[1], &verdict_byte, 1) == 1);
		}
		_exit(CHILD_DONE);
	}
	waitpid(child, &status, 0);
	assert_true(child_succeeded(status));
	adopted_punch(adopter.registry.fd, adopted_room_offset(9), ADOPTED_ROOM_BYTES);
	assert_int_equal(write(go[1], "a", 1), 1);
	assert_int_equal(wait_for_byte(ready[0]), 'y');
	close(ready[0]);
	close(ready[1]);
	close(go[0]);
	close(go[1]);
}

static void touch_after_a_raw_clone(void)
{
	pid_t child;
	int status;

	adopter_open_anew(&adopter, 9);
	memset(memory, 0x77, PAGES * page_bytes());
	adopter_take(&adopter, memory, PAGES * page_bytes());
	child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (child == 0) {
		*(volatile uint8_t *)memory = 1;
		_exit(3);
	}
	waitpid(child, &status, 0);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	CHECK(memory[0] == 0x77);
}

static void a_raw_clone_cannot_corrupt_its_parent(void **state)
{
	(void)state;
	assert_true(child_succeeded(in_child(touch_after_a_raw_clone)));
}

#define WITH_MEMORY(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_MEMORY(nothing_is_lost_of_what_threads_write),
		WITH_MEMORY(no_call_fails_and_no_byte_is_lost_in_the_kernel),
		WITH_MEMORY(who_sleeps_in_a_call_gets_its_bytes),
		WITH_MEMORY(threads_may_come_and_go),
		/* The handlers are installed from here on. */
		WITH_MEMORY(a_child_has_memory_of_its_own),
		WITH_MEMORY(a_child_keeps_what_its_parent_moves_back),
		WITH_MEMORY(a_grandchild_outlives_its_parents),
		WITH_MEMORY(a_raw_clone_cannot_corrupt_its_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
